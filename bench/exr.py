#!/usr/bin/env python3
"""`gale exr` beside OpenImageIO's oiiotool and maketx, OpenEXR's exrmaketiled and its C++ reader, in the same run.

usage: exr.py GALE [RUNS]

Files are generated (oiiotool, from its own patterns with noise).  Runs of gale and of its peer take turns, and medians are printed, in milliseconds, so that what else the machine does
touches both alike.  Both work with all cores.  Needs Debian's openimageio-tools and libOpenEXR 3.1.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PATTERN = "fill:topleft=0.1,0.5,2,1:topright=3,0.2,0.1,0.5:bottomleft=0,0,0.3,0:bottomright=9,8,7,1"


def run(words, **more):
    begun = time.perf_counter()
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return (time.perf_counter() - begun) * 1e3, done.stdout


def make(folder, count, sizes, compression="zip"):
    folder.mkdir()
    for i in range(count):
        w, h = sizes[i % len(sizes)]
        run(["oiiotool", "--pattern", PATTERN, f"{w}x{h}", 4, f"--noise:type=gaussian:stddev=0.03:seed={i}", "--chnames", "R,G,B,A", "-d", "half", "--compression", compression, "-o", folder / f"{i:02}.exr"])


def peer_thumbs(source, target):
    """The whole folder in one process, as oiiotool is best at it."""
    words = ["oiiotool"]
    for path in sorted(source.glob("*.exr")):
        words += [path, "--ch", "R,G,B", "--resize:filter=triangle", "256x0", "--colorconvert", "linear", "sRGB", "-o", target / f"{path.stem}.jpg", "--pop"]
    return words


def median_of(runs, *works):
    """Medians of each, taking turns."""
    times = [[] for _ in works]
    for _ in range(runs):
        for i, work in enumerate(works):
            times[i].append(work())
    return [statistics.median(t) for t in times]


def row(name, gale, peer):
    print(f"{name:58} {gale:9.0f} {peer:9.0f} {peer / gale:7.2f}x")


def thumbs(gale, folder, name, count, sizes, runs):
    source, out, theirs = folder / name, folder / f"{name}-out", folder / f"{name}-oiio"
    make(source, count, sizes)
    theirs.mkdir()
    ours = [gale, "exr", "thumbs", source, "-O", out, "--provider", "cpu", "--json"]
    a, b = median_of(runs, lambda: run(ours)[0], lambda: run(peer_thumbs(source, theirs))[0])
    inside = json.loads(run(ours)[1])
    row(f"thumbnails, {count} files of {'/'.join(f'{w}x{h}' for w, h in sizes)}", a, b)
    print(f"    of that without start-up {inside['seconds'] * 1e3:.0f} ms; all threads: decode {inside['decode_seconds'] * 1e3:.0f}, pixels {inside['pixel_seconds'] * 1e3:.0f}, encode {inside['encode_seconds'] * 1e3:.0f} ms")


def levels(gale, folder, runs):
    """A tiled file with levels; maketx has the box filter, as gale; exrmaketiled has four taps."""
    make(folder / "levels", 1, [(2048, 1556)])
    source, out = folder / "levels/00.exr", folder / "levels-out"
    out.mkdir()
    ours = [gale, "exr", "mip", source, "-o", out / "gale.exr", "--provider", "cpu"]
    maketx = ["maketx", source, "--filter", "box", "--tile", 64, 64, "-o", out / "maketx.exr"]
    tiled = ["exrmaketiled", "-m", "-t", 64, 64, source, out / "tiled.exr"]
    tiled = tiled if shutil.which(tiled[0]) else maketx
    a, b, c = median_of(runs, lambda: run(ours)[0], lambda: run(maketx)[0], lambda: run(tiled)[0])
    row("levels of 2048x1556 half RGBA, maketx", a, b)
    row(f"levels of 2048x1556 half RGBA, {tiled[0]}", a, c)


def memory(gale, folder, runs):
    """The largest resident size over 20 files and over 200 of the same: flat."""
    source, many = folder / "seed", folder / "many"
    many.mkdir()
    for i in range(200):
        os.symlink(source / f"{i % 20:02}.exr", many / f"{i:03}.exr")
    peaks = []
    for path in (source, many):
        words = ["/usr/bin/time", "-f", "%M", gale, "exr", "thumbs", path, "-O", folder / "memory-out", "--provider", "cpu"]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        peaks.append(int(done.stderr.strip().splitlines()[-1]) / 1024) if done.returncode == 0 else sys.exit(done.stderr)
    print(f"memory: 20 files {peaks[0]:.0f} MB, 200 files {peaks[1]:.0f} MB")


def decode(gale, folder, runs):
    library = pathlib.Path(gale).parent / "libgale.so"
    code = pathlib.Path(__file__).with_name("exr_decode.py")
    done = subprocess.run([sys.executable, code, library, folder, str(runs)], capture_output=True, text=True)
    print(done.stdout if done.returncode == 0 else f"decoding: not measured: {done.stderr.strip().splitlines()[-1]}")


def main():
    gale, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(f"{'median of ' + str(runs) + ' runs, taking turns':58} {'gale ms':>9} {'peer ms':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        thumbs(gale, folder, "seed", 20, [(1024, 1024)], runs)
        thumbs(gale, folder, "large", 20, [(1920, 1080), (2048, 1556), (4096, 2160)], max(1, runs // 2))
        memory(gale, folder, runs)
        levels(gale, folder, runs)
        for compression in ("rle", "zip", "piz", "pxr24", "b44", "dwaa"):
            make(folder / f"decode-{compression}", 1, [(2048, 1556)], compression)
        decode(gale, folder, runs)


if __name__ == "__main__":
    main()
