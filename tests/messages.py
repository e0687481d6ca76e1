#!/usr/bin/env python3
"""All messages and help texts of the library and the program in one file, tests/messages.txt.

The file shows every text that a user can see, so that texts can be read in one go and their changes reviewed in a diff.

usage: messages.py [--write]

Without an option, exits with 1 if tests/messages.txt is not up to date.
"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
path = root / "tests/messages.txt"
HEAD = "Generated from src/ by tests/messages.py --write.  Every message and help text, in the order of the sources.\n"

# Files whose string literals are mostly code or data (kernel sources, test cases, page styles): only their errors count.
DATA = re.compile(r"src/(ops/cases/.*|kernel/(print|ir|schedule|nest)/.*|text/(unicode|script).*|.*_html\.c|.*_page\.c|cli/shell\.c"
                  r"|graph/rewrite/recognise\.def|device/.*/(shaderc|symbols|api|rtc|blas)\.def|base/(case|category)\.def)")
ERROR_CALLS = {"gale__fail", "gale__fail_within", "gale__log", "bad"}
DATA_CALLS = {"CASE", "_Static_assert", "strstr", "strncmp", "strcmp", "memcmp", "sscanf", "_Pragma", "RULE", "number",
              "sqlite3_prepare_v2", "sqlite3_exec", "SYMBOL"}
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*\s*(?=\()|\w+|[(){};,]|[^\s\w"\'(){};,]+|\S')


def blank_comments(text):
    """The text with comments and line continuations replaced by spaces, so that positions stay valid."""
    pattern = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
    text = pattern.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", " ", m.group(0)), text)
    return text.replace("\\\n", " \n")


def literals(text):
    """Runs of adjacent string literals: (start, end, source text, name of the call around it)."""
    text = blank_comments(text)
    calls, name, run = [], "", None
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if token[0] == '"':
            run = [run[0], match.end(), run[2] + token[1:-1], run[3]] if run else [match.start(), match.end(), token[1:-1], calls[-1] if calls else ""]
            continue
        if run:
            yield tuple(run)
        run = None
        if token == "(":
            calls.append(name)
        elif token == ")" and calls:
            calls.pop()
        elif token == ";":
            calls = []
        name = token.strip() if token[0] == "_" or token[0].isalpha() else ""
    if run:
        yield tuple(run)


def is_text(source, call):
    words = re.findall(r"[A-Za-z]{2,}", re.sub(r"\\.|%[-+ #0-9.*]*(?:ll|l|z|h|j)?[a-zA-Z]", " ", source))
    return len(words) >= 2 and " " in source.strip() and call not in DATA_CALLS and not re.search(r"PRAGMA|SELECT|INSERT|</|/>", source)


def messages(file):
    data = DATA.fullmatch(str(file.relative_to(root)))
    return [entry for entry in literals(file.read_text()) if is_text(entry[2], entry[3]) and (not data or entry[3] in ERROR_CALLS)]


def files():
    return sorted(p for p in root.glob("src/**/*") if p.suffix in (".c", ".h", ".inc", ".def"))


def make():
    out = [HEAD]
    for file in files():
        if texts := messages(file):
            out.append(f"\n{file.relative_to(root)}\n")
            out += ["    %s\n" % source.removesuffix("\\n").replace('\\"', '"').replace("\\n", "\n    ") for _, _, source, _ in texts]
    return "".join(out)


def main():
    if "--write" in sys.argv:
        path.write_text(make())
        return 0
    if path.exists() and path.read_text() == make():
        return 0
    print("tests/messages.txt is out of date: run `python3 tests/messages.py --write` and review the diff")
    return 1


if __name__ == "__main__":
    sys.exit(main())
