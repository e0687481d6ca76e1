#!/usr/bin/env python3
"""Reads OpenEXR files through libgale and through OpenEXR's own Python module and compares every sample, bit for bit.

usage: exr_peer.py GALE SOURCE BUILD          with a Python of the build's own, and the pictures of ../shared/data
       exr_peer.py --work LIBGALE FOLDER|FILE...

Files of the kinds that the folder lacks (NONE, RLE, DWAA, DWAB, rip levels ...) are made with OpenEXR's tools where they
are installed.  Skips, said aloud, where the module or the pictures are missing.
"""
import ctypes, glob, os, pathlib, shutil, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402

if "--work" in sys.argv:
    import numpy as np
    import OpenEXR


class Box(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("x0", "y0", "x1", "y1")]


class Channel(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("x", ctypes.c_int), ("y", ctypes.c_int), ("linear", ctypes.c_bool)]


class Part(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("view", ctypes.c_char_p), ("storage", ctypes.c_int), ("compression", ctypes.c_char_p),
        ("line_order", ctypes.c_char_p), ("data", Box), ("display", Box), ("aspect", ctypes.c_double),
        ("tile_width", ctypes.c_int), ("tile_height", ctypes.c_int), ("levels", ctypes.c_int), ("round_up", ctypes.c_bool),
        ("levels_x", ctypes.c_int), ("levels_y", ctypes.c_int), ("channels", ctypes.POINTER(Channel)), ("channel_count", ctypes.c_int),
    ]


class Target(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_char_p), ("type", ctypes.c_int), ("data", ctypes.c_void_p), ("pixel", ctypes.c_size_t), ("row", ctypes.c_size_t)]


class Gale:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.gale_error.restype = ctypes.c_char_p
        self.lib.gale_type_name.restype = ctypes.c_char_p
        self.lib.gale_exr_part_get.restype = ctypes.POINTER(Part)

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.gale_error().decode())

    def read(self, path):
        """[(part, {channel: array})]"""
        file, out = ctypes.c_void_p(), []
        self.check(self.lib.gale_exr_open(path.encode(), None, ctypes.byref(file)))
        for i in range(self.lib.gale_exr_part_count(file)):
            part = self.lib.gale_exr_part_get(file, i).contents
            targets, arrays = (Target * part.channel_count)(), {}
            for k in range(part.channel_count):
                c, w, h = part.channels[k], ctypes.c_int64(), ctypes.c_int64()
                self.check(self.lib.gale_exr_channel_size(file, i, 0, 0, c.name, ctypes.byref(w), ctypes.byref(h)))
                kind = {"f16": "float16", "f32": "float32", "u32": "uint32"}[self.lib.gale_type_name(c.type).decode()]
                a = arrays[c.name.decode()] = np.zeros((h.value, w.value), kind)
                targets[k] = Target(c.name, c.type, a.ctypes.data, 0, 0)
            self.check(self.lib.gale_exr_read(file, i, 0, 0, targets, part.channel_count))
            out.append(((part.storage, part.compression.decode()), arrays))
        self.lib.gale_exr_close(ctypes.byref(file))
        return out


def flatten(deep, channels):
    """Front to back by Z, in the order and precision that gale has."""
    h, w = deep["Z"].shape
    out = {n: np.zeros((h, w), np.float32) for n in channels}
    for y in range(h):
        for x in range(w):
            z = deep["Z"][y, x]
            if z is None or not len(z):
                continue
            order = np.argsort(np.asarray(z, np.float32), kind="stable")
            a = np.asarray(deep["A"][y, x], np.float32)[order] if "A" in deep else np.ones(len(z), np.float32)
            for n in channels:
                v = np.asarray(deep[n][y, x], np.float32)[order]
                if n == "Z":
                    out[n][y, x] = v[0]
                    continue
                through, total = np.float32(1), np.float32(0)
                for i in range(len(v)):
                    if not through > 0:
                        break
                    total += through * v[i]
                    through *= np.float32(1) - a[i]
                out[n][y, x] = total
    return out


def same(mine, theirs, lossy):
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return f"{mine.shape} {mine.dtype}, not {theirs.shape} {theirs.dtype}"
    bits = {2: np.uint16, 4: np.uint32}[mine.itemsize]
    differ = np.ascontiguousarray(mine).view(bits) != np.ascontiguousarray(theirs).view(bits)
    if lossy:  # the last place of a float may be rounded another way
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        differ &= ~(np.abs(a - b) <= 5e-3 * np.maximum(np.abs(b), 1e-3))  # one half before the power of 2.2
    return f"{int(differ.sum())} of {differ.size} samples differ" if differ.any() else None


def compare(gale, path):
    mine, problems = gale.read(path), []
    theirs = OpenEXR.File(path, separate_channels=True).parts
    if len(mine) != len(theirs):
        return [f"{len(mine)} parts, not {len(theirs)}"]
    for ((storage, compression), arrays), part in zip(mine, theirs):
        if storage >= 2:
            deep = {n: c.pixels for n, c in part.channels.items()}
            want = flatten(deep, [n for n in arrays if n in deep])
            want = {n: v.astype(arrays[n].dtype) for n, v in want.items()}
        else:
            want = {n: c.pixels for n, c in part.channels.items()}
        for name, array in arrays.items():
            wrong = same(array, want[name], compression in ("dwaa", "dwab") or storage >= 2)
            if wrong:
                problems.append(f"{compression} {name}: {wrong}")
    return problems


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_more(source, folder):
    """The kinds that the pictures at hand lack."""
    made = []
    if shutil.which("oiiotool"):
        for how in ("none", "rle", "zips", "zip", "piz", "pxr24", "b44", "b44a", "dwaa", "dwab"):
            for tiled in (False, True):
                path = f"{folder}/{how}{'-tiled' if tiled else ''}.exr"
                run("oiiotool", source, "--compression", how, *(["--tile", "48", "40"] if tiled else []), "-o", path)
                made.append(path)
        for how in ("zip", "dwaa", "dwab", "piz", "pxr24"):
            path = f"{folder}/{how}-float.exr"
            run("oiiotool", source, "-d", "float", "--compression", how, "-o", path)
            made.append(path)
    if shutil.which("exrmaketiled"):
        for flag, name in (("-m", "mip"), ("-r", "rip")):
            path = f"{folder}/{name}.exr"
            run("exrmaketiled", flag, "-t", "32", "24", source, path)
            made.append(path)
    return made


def write_more(program, source, folder):
    """What gale writes by its own code: read by both, and near the source."""
    made = []
    for how in ("dwaa", "dwab", "pxr24"):
        for tiled in (False, True):
            path = f"{folder}/gale-{how}{'-tiled' if tiled else ''}.exr"
            run(program, "exr", "convert", source, "--compression", how, *(["--tile", "48"] if tiled else []), "-o", path)
            made.append(path)
    return made


def differs_rewritten(program, path, folder):
    """A file with subsampled channels that gale wrote, as OpenEXR reads both."""
    problems = []
    for how in ("none", "rle", "zips", "zip", "piz", "pxr24"):
        run(program, "exr", "convert", path, "--compression", how, "-o", f"{folder}/again.exr")
        a, b = (OpenEXR.File(p, separate_channels=True).channels() for p in (path, f"{folder}/again.exr"))
        problems += [f"rewritten as {how}: {n}" for n in a if n not in b or same(b[n].pixels, a[n].pixels, False)]
    return problems


def lost_marks(program, path, folder):
    """Attributes of views and environment maps that a rewritten file lacks."""
    run(program, "exr", "convert", path, "-o", f"{folder}/marks.exr")
    pairs = zip(OpenEXR.File(path, header_only=True).parts, OpenEXR.File(f"{folder}/marks.exr", header_only=True).parts)
    names = ("view", "multiView", "envmap", "chromaticities")
    return [f"rewritten without {n}" for a, b in pairs for n in names if str(a.header.get(n)) != str(b.header.get(n))]


def views_differ(program, path, folder):
    """The multi-part file names views by part, the other by channel: --layer finds the same pictures."""
    pictures = []
    for view in ("left", "right"):
        for source in (path, path.replace("multipart", "singlepart")):
            run(program, "exr", "convert", source, "--layer", view, "--width", "64", "-f", "bmp", "-o", f"{folder}/view.bmp")
            pictures.append(pathlib.Path(f"{folder}/view.bmp").read_bytes())
    return [] if pictures[0] == pictures[1] != pictures[2] == pictures[3] else ["views differ from the other file's"]


def work(library, words):
    gale, failed, passed = Gale(library), 0, 0
    program = pathlib.Path(library).with_name("gale")
    files = []
    for word in words:
        files += sorted(glob.glob(f"{word}/*.exr")) if os.path.isdir(word) else [word]
    with tempfile.TemporaryDirectory() as folder:
        source = next((f for f in files if "Carrots" in f), files[0])
        more = make_more(source, folder) + (write_more(program, source, folder) if program.exists() else [])
        for path in files + (more if any(map(os.path.isdir, words)) else []):
            try:
                problems = compare(gale, path)
                if program.exists() and os.path.basename(path).startswith(("Beachball", "MultiResolution", "Chromaticities-XYZ.")):
                    problems += lost_marks(program, path, folder)
                if program.exists() and "Beachball-multipart" in path:
                    problems += views_differ(program, path, folder)
                if program.exists() and "_YC" in path:
                    problems += differs_rewritten(program, path, folder)
            except Exception as error:  # a file that one of them cannot read at all
                problems = [str(error)]
            for p in problems:
                print(f"FAIL exr_peer: {os.path.basename(path)}: {p}")
            failed, passed = failed + bool(problems), passed + (not problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def main():
    if sys.argv[1] == "--work":
        return work(sys.argv[2], sys.argv[3:])
    source, build = sys.argv[2:4]
    pictures = pathlib.Path(source).parent / "shared/data/exr"
    if not pictures.is_dir():
        return private_python.skip("exr files beside OpenEXR", f"no pictures at {pictures}")
    python, why = private_python.find(build, ["numpy", "OpenEXR"])
    if not python:
        return private_python.skip("exr files beside OpenEXR", why)
    words = [str(python), __file__, "--work", f"{build}/libgale.so", str(pictures), f"{source}/fuzz/corpus/exr"]
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
