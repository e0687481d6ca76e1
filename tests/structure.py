#!/usr/bin/env python3
"""The shape of the repository: what a compiler does not check and a reviewer forgets.

usage: structure.py SOURCE_ROOT BUILD_ROOT COMPILER...
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from counted import counts, finish, skip

ROOMS = ["base", "device", "kernel", "graph", "ops", "text", "media", "onnx", "nn", "jobs", "cli", "serve"]
SIDE_BY_SIDE = [{"text", "media"}, {"onnx", "nn"}, {"cli", "serve"}]  # rooms that may not see each other
AWAITED = set()  # capabilities whose readers are still to come
UPWARD = {"gale__op_attr_check", "gale__selftest_run"}  # declared where they are called, defined in a room to the right
FILE_LINES, FUNCTION_LINES, LITERAL_LINES = 600, 80, 24

root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
compiler = sys.argv[3:] or ["cc"]


def report(name, complaints):
    for line in complaints:
        print(f"FAIL {name}: {line}")
    counts["failed" if complaints else "passed"] += 1


def sources(*patterns):
    return sorted(p for pattern in patterns for p in root.glob(pattern) if p.is_file())


def code_files():
    return sources("src/**/*.c", "src/**/*.h", "src/**/*.inc", "src/**/*.def")


def name_of(path):
    return path.relative_to(root)


def includes_point_left():
    complaints = []
    for path in code_files():
        room = path.relative_to(root / "src").parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([a-z]+)/', line)
            if not match or match.group(1) not in ROOMS:
                continue
            other = match.group(1)
            apart = other != room and any({other, room} <= side for side in SIDE_BY_SIDE)
            if ROOMS.index(other) > ROOMS.index(room) or apart:
                complaints.append(f"{name_of(path)}:{number}: {room} may not include {other}")
    return complaints


def basenames_differ():
    """Two files of one name mislead; only backends name their parts alike, since each implements the same interface."""
    places = {}
    for path in code_files():
        places.setdefault(path.name, []).append(path)
    device = root / "src/device"
    return [f"{' and '.join(str(name_of(p)) for p in paths)} share a name" for paths in places.values()
            if len(paths) > 1 and not all(device in p.parents for p in paths)]


def declarations(path):
    """What a file declares under an internal name: (name, kind).  A forward declaration of a struct is none."""
    text = re.sub(r"\\\n", " ", without_comments(path))
    found = {(n, "macro") for n in re.findall(r"^\s*#\s*define\s+(gale__\w+|GALE__\w+)", text, re.M)}
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    found |= {(n, "type") for n in re.findall(r"\b(?:struct|union|enum)\s+(gale__\w+)\s*\{", text)}
    found |= {(n, "type") for n in re.findall(r"^typedef (?!struct gale__\w+ gale__\w+;)[^{}();]*?\(?\*?(gale__\w+)\)?(?:\([^;{}]*)?;", text, re.M)}
    if path.suffix == ".h":
        found |= {(n, "type") for n in re.findall(r"^\} (gale__\w+);", text, re.M)}
        found |= {(n, "function") for n in re.findall(r"^(?!typedef)[a-z][\w \*]*?\b(gale__\w+)\(", text, re.M)}
        found |= {(n, "variable") for n in re.findall(r"^extern [^;]*?\b(gale__\w+)(?:\[\w*\])?;", text, re.M)}
    for body in re.findall(r"\benum\b[^{};()]*\{([^{}]*)\}", text):
        found |= {(n, "constant") for n in re.findall(r"(?:^|,)\s*(GALE__\w+)\b(?!\()", body)}
    return found


def internal_names_mean_one_thing():
    """No two files declare the same internal name, and no name is that of a type and of a function, macro or constant."""
    places = {}
    for path in sources("src/**/*.h", "src/**/*.c", "src/**/*.inc"):
        for name, kind in declarations(path):
            if path.suffix == ".h" or kind == "type":
                places.setdefault(name, set()).add((str(name_of(path)), kind))
    twice = [f"{name} is declared as {' and as '.join(f'{kind} in {path}' for path, kind in sorted(where))}" for name, where in sorted(places.items()) if len(where) > 1]
    return twice if len(places) > 1000 else ["the declarations were not found"]


def headers_stand_beside_sources():
    """A function is declared in the folder that defines it, so that a reader finds the one by the other.  What a room calls and a later room defines is listed."""
    def found(path, end):
        return re.findall(r"^(?!typedef|static)[a-z][\w \*]*?\b(gale__\w+)\([^;{}]*\)\s*" + end, re.sub(r"^\s*#.*$", "", without_comments(path), flags=re.M), re.M)
    declared = {n: p for p in sources("src/**/*.h") for n in found(p, ";")}
    defined = {}
    for path in sources("src/**/*.c", "src/**/*.inc"):
        for name in found(path, r"\{"):
            defined.setdefault(name, set()).add(path.parent)
    wrong = [f"{n} is declared in {name_of(p)} and defined in another folder" for n, p in sorted(declared.items())
             if n not in UPWARD and n in defined and p.parent not in defined[n]]
    return wrong if len(declared) > 1000 else ["the declarations were not found"]


def comments_name_what_exists():
    """Comments and documents that name a file or an internal identifier must not outlive it.  Capitals stand for any name."""
    files = [p for top in ("src", "include", "tests", "bench", "fuzz", "examples", "docs", "scripts") for p in sources(f"{top}/**/*")]
    paths = {str(name_of(p)) for p in files}
    code = {p: p.read_text() for p in files if p.suffix in (".c", ".h", ".inc", ".def")}
    known = set(re.findall(r"\b(?:gale|GALE)__\w+", "\n".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.S) for text in code.values())))
    texts = {p: " ".join(re.findall(r"/\*.*?\*/", text, re.S)) for p, text in code.items()}
    texts |= {p: p.read_text() for p in [*sources("docs/*.md"), root / "CONTRIBUTING.md"]}
    complaints = []
    for path, text in texts.items():
        named = re.findall(r"(?<![\w./*-])((?:src|tests|bench|fuzz|examples|docs|scripts|" + "|".join(ROOMS) + r")/[\w/]+\.(?:c|h|inc|def|py))\b", text)
        complaints += [f"{name_of(path)} names {n}, which is not there" for n in sorted(set(named))
                       if "NAME" not in n and not any(there == n or there.endswith("/" + n) for there in paths)]
        complaints += [f"{name_of(path)} names {n}, which is not there" for n in sorted(set(re.findall(r"\bgale__\w+", text)))
                       if not re.search(r"[A-Z]{4}|module_name", n) and n not in known and not any(k.startswith(n) for k in known)]
    return complaints if len(paths) > 500 else ["the files were not found"]


def arguments_stand_alone():
    """f(make(&x), x) reads x before or after the call that sets it, as the compiler likes."""
    pattern = re.compile(r"\b[a-z_0-9]+\(([^;{}]*?\w+\([^();]*&(\w+)\)), (?:[^;{}()]*, )?(\w+)[,)]")
    complaints = []
    for path in sources("src/**/*.c", "examples/*.c", "bench/*.c"):
        text = path.read_text()
        for match in pattern.finditer(text):
            ordered = re.search(r"&&|\|\||\?", match.group(0))
            if match.group(2) == match.group(3) and not ordered:
                complaints.append(f"{name_of(path)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(2)} is set by another argument")
    return complaints


def exported_symbols():
    text = subprocess.run(["nm", "-D", "--defined-only", build / "libgale.so"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in text.splitlines()]
    complaints = [f"{n} is exported" for n in names if not re.match(r"gale_[a-z]", n)]
    return complaints if names else ["nothing is exported at all"]


def public_functions_are_there():
    text = subprocess.run(["nm", "-D", "--defined-only", build / "libgale.so"], capture_output=True, text=True, check=True).stdout
    defined = {line.split()[-1] for line in text.splitlines()}
    declared = {m for p in sources("include/gale/*.h") for m in re.findall(r"^GALE_API [^(]*?(gale_\w+)\(", p.read_text(), re.M)}
    return [f"{n} is declared and nowhere defined" for n in sorted(declared - defined)] if declared else ["no declaration was found"]


def library_is_silent():
    text = subprocess.run(["nm", "-D", "--undefined-only", build / "libgale.so"], capture_output=True, text=True, check=True).stdout
    banned = {"printf", "puts", "putchar", "perror", "exit", "_exit", "abort", "__printf_chk", "__assert_fail"}
    names = {line.split()[-1].split("@")[0] for line in text.splitlines()}
    return [f"the library calls {n}" for n in sorted(names & banned)]


def headers_stand_alone(language, extra):
    complaints = []
    for path in sources("include/gale/*.h"):
        command = [*compiler, "-x", language, *extra, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
                   f"-I{root / 'include'}", "-include", str(path), "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            complaints.append(f"{name_of(path)}: {done.stderr.strip().splitlines()[0]}")
    return complaints


def has_cpp():
    with tempfile.NamedTemporaryFile(suffix=".cc") as empty:
        return subprocess.run([*compiler, "-fsyntax-only", empty.name], capture_output=True).returncode == 0


def literals_are_short():
    """Kernels are files that the build embeds, not C strings: no run of string lines longer than a screen.
    A command may print a long text, so the program's own room is let off."""
    complaints = []
    for path in code_files():
        run = 0
        if path.relative_to(root / "src").parts[0] == "cli":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            run = run + 1 if re.match(r'\s*"', line) else 0
            if run == LITERAL_LINES + 1:
                complaints.append(f"{name_of(path)}:{number}: a string literal of more than {LITERAL_LINES} lines")
    return complaints


def files_are_short():
    return [f"{name_of(p)}: {n} lines; split it (at most {FILE_LINES})"
            for p in sources("src/**/*.c", "src/**/*.h", "include/**/*.h")
            if (n := len(p.read_text().splitlines())) > FILE_LINES]


def functions_are_short():
    complaints = []
    for path in sources("src/**/*.c", "src/**/*.inc"):
        start = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line == "{" or re.match(r"^[a-z].*\)\s*\{$", line):
                start = number
            elif line == "}" and start:
                if number - start - 1 > FUNCTION_LINES:
                    complaints.append(f"{name_of(path)}:{start}: a function of {number - start - 1} lines (at most {FUNCTION_LINES})")
                start = None
    return complaints


def without_comments(path):
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), path.read_text(), flags=re.S)


def no_room_asks_for_a_backend():
    """Above device/, what a device can do is read from its capabilities.  The backend's table is not reached into, no
    backend is named by its symbol, and no backend's or provider's name is compared."""
    names = "|".join(re.findall(r"^X\((\w+)", (root / "src/device/backends.def").read_text(), re.M))
    banned = [(re.compile(rf"\bgale__backend_({names})\b"), "a backend by its symbol"),
              (re.compile(r"(->|\.)backend\s*(->|==|!=)"), "the backend behind a device"),
              (re.compile(r"[=!]=\s*\S*(->|\.)backend\b"), "the backend behind a device"),
              (re.compile(r"[=!]=\s*GALE__DIALECT_"), "a comparison of a dialect, which stands for a backend"),
              (re.compile(r"(str\w*cmp|text_equal\w*)\([^;]*(->|\.)backend\b"), "a comparison of a backend's name"),
              (re.compile(rf'(str\w*cmp|text_equal\w*)\([^;]*"({names})"'), "a comparison with a backend's name")]
    complaints = []
    for path in sources("src/**/*.c", "src/**/*.h", "src/**/*.inc", "src/**/*.def"):
        if ROOMS.index(path.relative_to(root / "src").parts[0]) <= ROOMS.index("device"):
            continue
        for number, line in enumerate(without_comments(path).splitlines(), 1):
            if what := next((text for pattern, text in banned if pattern.search(line)), None):
                complaints.append(f"{name_of(path)}:{number}: {what}; ask for a capability (gale_device_caps)")
    return complaints


def every_capability_is_read():
    """A capability that nothing asks for is a promise nobody checks.  The table that prints them all does not count."""
    struct = re.search(r"typedef struct gale_device_caps \{(.*?)\} gale_device_caps;", without_comments(root / "include/gale/device.h"), re.S).group(1)
    fields = [re.match(r"\W*(\w+)", part).group(1) for line in struct.split(";") if line.strip()
              for part in re.sub(r"^\s*(const )?\w+\s+", "", line).split(",")]
    text = "\n".join(without_comments(p) for p in code_files())
    unread = [f for f in fields if f not in AWAITED and not re.search(rf"caps(\.|->){f}\b(?!\s*=[^=])", text)]
    return [f"gale_device_caps.{f} is read by nothing" for f in unread] if len(fields) > 20 else ["the fields were not found"]


def only_base_touches_the_system():
    """In the library, headers of the operating system are base's; the program's own room talks to terminals and signals."""
    system = re.compile(r"#include <((?:sys/|arpa/|netinet/)[^>]*|unistd\.h|fcntl\.h|poll\.h|signal\.h|spawn\.h|dlfcn\.h|pthread\.h|sched\.h|dirent\.h|termios\.h)>")
    return [f"{name_of(p)}: <{m.group(1)}> belongs to src/base" for p in code_files()
            if p.relative_to(root / "src").parts[0] not in ("base", "cli") and (m := system.search(p.read_text()))]


def memory_has_one_door():
    complaints = []
    banned = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf)\s*\(")
    for path in sources("src/**/*.c", "src/**/*.h", "src/**/*.inc"):
        if path == root / "src/base/mem.c":
            continue
        for number, line in enumerate(without_comments(path).splitlines(), 1):
            if match := banned.search(re.sub(r'"(\\.|[^"\\])*"', '""', line)):
                complaints.append(f"{name_of(path)}:{number}: {match.group(1)} instead of gale__ (base/mem.h)")
    return complaints


def budget_is_kept():
    budget = int((root / "tests/line-budget").read_text().split()[0])
    total = sum(len(p.read_text().splitlines()) for p in code_files() + sources("include/**/*.h", "include/**/*.def", "src/**/*.cu", "src/**/*.cl"))
    print(f"{total} lines of {budget}")
    return [f"{total} lines, the budget is {budget}: shorten, or raise tests/line-budget in a commit that says why"] if total > budget else []


def every_source_is_built():
    listed = "".join(p.read_text() for p in sources("src/**/meson.build"))
    return [f"{name_of(p)} is in no meson.build" for p in sources("src/**/*.c") if p.name not in listed]


def environment_is_documented():
    script = root / "scripts/environment.py"
    return [] if subprocess.run([sys.executable, script, "--check"]).returncode == 0 else ["docs/environment.md is not what scripts/environment.py writes: run it"]


def messages_are_collected():
    done = subprocess.run([sys.executable, root / "tests/messages.py"], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode else []


# Phrases that do not belong into technical English, with what to write instead (CONTRIBUTING.md, Language).
IDIOMS = {
    r"\w+ unless given": "default: ...",
    r"said aloud": "reported, logged, printed",
    r"as it lies|as they lie\b": "as stored, in place, unchanged",
    r"nothing is known to do": "unexpected argument",
    r"is no (number|text|picture|file|name|provider|command|map|list|whole number)\b(?! (to|of|that|in|for|at)\b)": "is not a ...",
    r"no numbers, and|infinite or no numbers?": "NaN or infinite",
    r"departs from": "exceeds tolerance, differs",
    r"(is|are) not to be had|to be had here": "not available",
    r"begins? anew|made anew": "starts over, again",
    r"for lack of": "out of, because ... is missing",
    r"step(ping|s)? down to": "falling back to",
    r"takes? .{1,40} for a result": "accepts",
    r"in nobody's way": "does no harm",
    r"which there is not\b|which there is none of": "unknown, not supported",
    r"less than nothing": "negative",
    r"is told by": "depends on",
}


def texts_for_readers():
    """What people read: documentation, public headers, messages, and the comments of the sources."""
    found = {p: p.read_text() for p in [root / "README.md", root / "CONTRIBUTING.md", *sources("docs/*.md", "include/gale/*.h")]}
    for path in code_files():
        text = path.read_text()
        found[path] = "\n".join(re.findall(r"/\*.*?\*/", text, re.S) + re.findall(r'"(?:\\.|[^"\\\n])*"', text))
    return found


def language_is_plain():
    patterns = [(re.compile(phrase, re.I), instead) for phrase, instead in IDIOMS.items()]
    complaints = []
    for path, text in texts_for_readers().items():
        flat = re.sub(r"\s*\n[ *]*", " ", text)
        complaints += [f"{name_of(path)}: '{m.group(0)}': write: {instead}" for pattern, instead in patterns for m in pattern.finditer(flat)]
    return complaints


def formatter():
    """Other versions of clang-format lay code out differently, so only Debian 12's counts."""
    if not (found := shutil.which("clang-format-14") or shutil.which("clang-format")):
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    return found if re.search(r"version 14\.", version) else None


def files_are_formatted(program):
    files = [str(p) for top in ("src", "include", "tests", "fuzz", "bench", "examples") for p in sources(f"{top}/**/*.c", f"{top}/**/*.h")]
    done = subprocess.run([program, "--dry-run", *files], capture_output=True, text=True, cwd=root)
    wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "[-Wclang-format-violations]" in line})
    return [f"{pathlib.Path(p).relative_to(root)}: run `clang-format -i` on it" for p in wrong]


report("includes point left", includes_point_left())
report("language is plain", language_is_plain())
report("messages are collected", messages_are_collected())
report("every source is built", every_source_is_built())
report("basenames differ", basenames_differ())
report("arguments do not depend on each other's order", arguments_stand_alone())
report("internal names mean one thing", internal_names_mean_one_thing())
report("headers stand beside sources", headers_stand_beside_sources())
report("comments name what exists", comments_name_what_exists())
if (build / "libgale.so").exists() and shutil.which("nm"):
    report("exported symbols", exported_symbols())
    report("public functions are there", public_functions_are_there())
    report("the library is silent", library_is_silent())
else:
    skip("exported symbols", "no shared library or no nm")
report("headers alone in C", headers_stand_alone("c", ["-std=c17"]))
if has_cpp():
    report("headers alone in C++", headers_stand_alone("c++", ["-std=c++17"]))
else:
    skip("headers alone in C++", "this compiler has no C++")
report("kernels are not string literals", literals_are_short())
report("files are short", files_are_short())
report("functions are short", functions_are_short())
report("only base touches the system", only_base_touches_the_system())
report("memory has one door", memory_has_one_door())
report("no room asks for a backend", no_room_asks_for_a_backend())
report("every capability is read", every_capability_is_read())
report("environment is documented", environment_is_documented())
if program := formatter():
    report("files are formatted", files_are_formatted(program))
else:
    skip("files are formatted", "clang-format 14 is not installed")
report("line budget", budget_is_kept())
sys.exit(finish())
