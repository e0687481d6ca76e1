#!/usr/bin/env python3
"""Decoding and encoding alone, by all cores: libgale beside OpenEXR's C++ reader (Debian's libOpenEXR 3.1, through its C functions), taking turns.

usage: exr_decode.py LIBGALE FOLDER [RUNS]      FOLDER has folders decode-zip, decode-piz ... (bench/exr.py makes them)

Both read R, G, B and A of 2048 x 1556 pixels into memory that is there already: gale into planes, OpenEXR into its RGBA pixels.  Then both
write them again, to FOLDER.  GALE_THREADS sets the threads of both.  Medians in milliseconds; in brackets the least processor time, of all threads.
"""
import ctypes, os, pathlib, statistics, sys, time

W, H = 2048, 1556


class Target(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_char_p), ("type", ctypes.c_int), ("data", ctypes.c_void_p), ("pixel", ctypes.c_size_t), ("row", ctypes.c_size_t)]


class Source(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("data", ctypes.c_void_p), ("sampling", ctypes.c_int * 2)]


class Part(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_int32 * 4), ("display", ctypes.c_int32 * 4), ("compression", ctypes.c_char_p), ("tile", ctypes.c_int * 2),
                ("levels", ctypes.c_int), ("round_up", ctypes.c_bool), ("channels", ctypes.POINTER(Source)), ("count", ctypes.c_int), ("more", ctypes.c_void_p * 4)]


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

    def write(name, how):
        sources = (Source * 4)(*[Source(t.channel, t.type, t.data) for t in targets])
        part = Part(data=(0, 0, W - 1, H - 1), compression=how.encode(), channels=sources, count=4)
        if lib.gale_exr_write(name.encode(), ctypes.byref(part), 1):
            sys.exit(lib.gale_error().decode())

    return read, write


def open_peer():
    lib = ctypes.CDLL("libOpenEXR-3_1.so.30")
    for function in (lib.ImfOpenInputFile, lib.ImfNewHeader, lib.ImfOpenOutputFile):
        function.restype = ctypes.c_void_p
    getattr(lib, "_ZN7Imf_3_120setGlobalThreadCountEi")(int(os.environ.get("GALE_THREADS", os.cpu_count())))
    pixels = ctypes.create_string_buffer(4 * W * H * 2)

    def read(name):
        file = ctypes.c_void_p(lib.ImfOpenInputFile(name.encode()))
        if not lib.ImfInputSetFrameBuffer(file, pixels, ctypes.c_size_t(1), ctypes.c_size_t(W)) or not lib.ImfInputReadPixels(file, 0, H - 1):
            sys.exit(f"OpenEXR does not read {name}")
        lib.ImfCloseInputFile(file)

    def write(name, how):
        header = ctypes.c_void_p(lib.ImfNewHeader())
        lib.ImfHeaderSetDataWindow(header, 0, 0, W - 1, H - 1)
        lib.ImfHeaderSetCompression(header, ("none", "rle", "zips", "zip", "piz", "pxr24", "b44", "b44a", "dwaa", "dwab").index(how))
        file = ctypes.c_void_p(lib.ImfOpenOutputFile(name.encode(), header, 15))
        lib.ImfOutputSetFrameBuffer(file, pixels, ctypes.c_size_t(1), ctypes.c_size_t(W))
        lib.ImfOutputWritePixels(file, H)
        lib.ImfCloseOutputFile(file)
        lib.ImfDeleteHeader(header)

    return read, write


def show(name, runs, works):
    """Both in turns."""
    walls, cpus = ([], []), ([], [])
    for _ in range(runs):
        for work, wall, cpu in zip(works, walls, cpus):
            begun = time.perf_counter(), time.process_time()
            work()
            wall.append((time.perf_counter() - begun[0]) * 1e3)
            cpu.append((time.process_time() - begun[1]) * 1e3)
    (a, b), (c, d) = map(statistics.median, walls), map(min, cpus)
    print(f"{name + f', {W}x{H} half RGBA':58} {a:9.1f} {b:9.1f} {b / a:7.2f}x ({c:.1f} {d:.1f} {d / c:.2f}x)", flush=True)


def main():
    folder, runs = pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 9
    gale, peer = open_gale(sys.argv[1]), open_peer()
    for path in sorted(folder.glob("decode-*/00.exr")):
        how, out = path.parent.name.removeprefix("decode-"), str(folder / "written.exr")
        show(f"decode {how}", runs, [lambda read=read: read(str(path)) for read, _ in (gale, peer)])
        show(f"encode {how}", max(1, runs // 3), [lambda write=write: write(out, how) for _, write in (gale, peer)])


main()
