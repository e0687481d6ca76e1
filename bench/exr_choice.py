#!/usr/bin/env python3
"""The automatic choice of device of `gale exr thumbs` beside --provider cpu and cuda, over sizes of files: wall time of whole runs, which take turns.

usage: exr_choice.py GALE [RUNS [WIDTHxHEIGHT:FILES ...]]

Files are gradients with 10 % noise, half RGBA, ZIP, three of each size under many names.  The first run of each kind, which fills caches, does not count.  Needs NumPy.
"""
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

SIZES = ["256x256:400", "512x512:300", "1024x1024:20", "1024x1024:200", "1920x1080:20", "1920x1080:100", "4096x2160:20", "4096x2160:192", "8192x4320:40"]


def write(path, width, height, seed):
    """Uncompressed scan lines; gale makes ZIP of them."""
    noise = numpy.random.default_rng(seed).random((height, 4, width), numpy.float32) * 0.2 + 0.9
    pixels = (numpy.exp2(numpy.arange(width, dtype=numpy.float32) * (6 / width) - 4) * noise).astype(numpy.float16)
    pixels[:, 0] = 1
    box, names = struct.pack("<4i", 0, 0, width - 1, height - 1), b"ABGR"
    channels = b"".join(bytes([n]) + b"\0" + struct.pack("<iiii", 1, 0, 1, 1) for n in names) + b"\0"
    header = b"\x76\x2f\x31\x01\x02\0\0\0"
    for name, kind, value in (("channels", "chlist", channels), ("compression", "compression", b"\0"), ("dataWindow", "box2i", box), ("displayWindow", "box2i", box), ("lineOrder", "lineOrder", b"\0"),
                              ("pixelAspectRatio", "float", struct.pack("<f", 1)), ("screenWindowCenter", "v2f", bytes(8)), ("screenWindowWidth", "float", struct.pack("<f", 1))):
        header += name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value
    header += b"\0"
    line = 8 * width
    first = len(header) + 8 * height
    rows = numpy.empty((height, 8 + line), numpy.uint8)
    rows[:, :8] = numpy.stack([numpy.arange(height), numpy.full(height, line)], 1).astype("<i4").view(numpy.uint8)
    rows[:, 8:] = pixels.reshape(height, -1).view(numpy.uint8)
    path.write_bytes(header + (first + numpy.arange(height, dtype="<u8") * (8 + line)).tobytes() + rows.tobytes())


def make(gale, folder, width, height, count):
    raw, out = folder / "raw", folder / "zip"
    raw.mkdir(parents=True)
    for i in range(3):
        write(raw / f"{i}.exr", width, height, i)
    subprocess.run([gale, "exr", "convert", raw, "--format", "exr", "--compression", "zip", "-O", out], check=True, capture_output=True)
    for i in range(3, count):
        os.link(out / f"{i % 3}.exr", out / f"{i}.exr")
    return out


def thumbs(gale, source, target, provider):
    begun = time.perf_counter()
    words = [gale, "exr", "thumbs", source, "-O", target, "--json"] + (["--provider", provider] if provider else [])
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True)
    wall, d = time.perf_counter() - begun, json.loads(done.stdout)
    return wall, d


def main():
    gale, runs = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ.setdefault("GALE_CACHE", str(folder / "cache"))
        for size in sys.argv[3:] or SIZES:
            pixels, count = size.split(":")
            width, height = map(int, pixels.split("x"))
            source = make(gale, folder / size, width, height, int(count))
            times = {"cpu": [], "cuda": [], None: []}
            for i in range(runs + 1):
                for provider in times:
                    wall, d = thumbs(gale, source, folder / "out", provider)
                    if i:
                        times[provider].append((wall, d["seconds"], d["inflated_by_device"], d["on_cpu_beside"]))
            cpu, cuda, auto = (statistics.median(t[0] for t in times[p]) for p in times)
            last = times[None][-1]
            print(f"{size:16} cpu {cpu:6.3f}  cuda {cuda:6.3f}  automatic {auto:6.3f} s, {min(cpu, cuda) / auto:5.2f} of the better; in the batch " + "  ".join(f"{statistics.median(t[1] for t in times[p]):.3f}" for p in times)
                  + f"; {d['device'][:12]}, inflated {last[2]}, on the CPU beside {last[3]}", flush=True)


main()
