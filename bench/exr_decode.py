#!/usr/bin/env python3
"""Decoding alone, by all cores: libgale beside OpenEXR's C++ reader (Debian's libOpenEXR 3.1, through its C functions), taking turns.

usage: exr_decode.py LIBGALE FOLDER [RUNS]      FOLDER has folders decode-zip, decode-piz ... (bench/exr.py makes them)

Both read R, G, B and A of 2048 x 1556 pixels into memory that is there already: gale into planes, OpenEXR into its RGBA pixels.  GALE_THREADS sets the threads of both.
"""
import ctypes, os, pathlib, statistics, sys, time

W, H = 2048, 1556


class Target(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_char_p), ("type", ctypes.c_int), ("data", ctypes.c_void_p), ("pixel", ctypes.c_size_t), ("row", ctypes.c_size_t)]


def open_gale(path):
    lib = ctypes.CDLL(path)
    lib.gale_error.restype = ctypes.c_char_p
    half = ctypes.c_int()
    lib.gale_type_parse(b"f16", ctypes.byref(half))
    planes = ctypes.create_string_buffer(4 * W * H * 2)
    targets = (Target * 4)(*[Target(n, half.value, ctypes.addressof(planes) + i * W * H * 2, 0, 0) for i, n in enumerate((b"R", b"G", b"B", b"A"))])

    def read(name):
        file = ctypes.c_void_p()
        assert planes  # what the targets point to
        if lib.gale_exr_open(name.encode(), None, ctypes.byref(file)) or lib.gale_exr_read(file, 0, 0, 0, targets, 4):
            sys.exit(lib.gale_error().decode())
        lib.gale_exr_close(ctypes.byref(file))

    return read


def open_peer():
    lib = ctypes.CDLL("libOpenEXR-3_1.so.30")
    lib.ImfOpenInputFile.restype = ctypes.c_void_p
    getattr(lib, "_ZN7Imf_3_120setGlobalThreadCountEi")(int(os.environ.get("GALE_THREADS", os.cpu_count())))
    pixels = ctypes.create_string_buffer(4 * W * H * 2)

    def read(name):
        file = ctypes.c_void_p(lib.ImfOpenInputFile(name.encode()))
        if not lib.ImfInputSetFrameBuffer(file, pixels, ctypes.c_size_t(1), ctypes.c_size_t(W)) or not lib.ImfInputReadPixels(file, 0, H - 1):
            sys.exit(f"OpenEXR does not read {name}")
        lib.ImfCloseInputFile(file)

    return read


def main():
    folder, runs = pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 9
    works = [open_gale(sys.argv[1]), open_peer()]
    for path in sorted(folder.glob("decode-*/00.exr")):
        how, times = path.parent.name.removeprefix("decode-"), ([], [])
        for _ in range(runs):
            for work, list_ in zip(works, times):
                begun = time.perf_counter()
                work(str(path))
                list_.append((time.perf_counter() - begun) * 1e3)
        a, b = map(statistics.median, times)
        print(f"decode {how}, {W}x{H} half RGBA{'':29} {a:9.1f} {b:9.1f} {b / a:7.2f}x")


main()
