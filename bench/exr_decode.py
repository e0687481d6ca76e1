#!/usr/bin/env python3
"""Decoding alone, by all cores: libgale beside OpenEXR's C++ reader (the Python module OpenEXR), taking turns.

usage: exr_decode.py LIBGALE FOLDER [RUNS]      FOLDER has decode-zip, decode-piz and decode-dwaa (bench/exr.py makes them)
"""
import os, pathlib, statistics, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
sys.argv.append("--work")
import exr_peer  # noqa: E402
import OpenEXR  # noqa: E402


def main():
    gale, folder, runs = exr_peer.Gale(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    if hasattr(OpenEXR, "setGlobalThreadCount"):
        OpenEXR.setGlobalThreadCount(os.cpu_count())
    for how in ("zip", "piz", "dwaa"):
        path, ours, theirs = str(folder / f"decode-{how}/00.exr"), [], []
        for _ in range(runs):
            begun = time.perf_counter()
            gale.read(path)
            ours.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            OpenEXR.File(path, separate_channels=True)
            theirs.append(time.perf_counter() - begun)
        a, b = statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3
        print(f"decode {how}, 2048x1556 half RGBA{'':29} {a:9.1f} {b:9.1f} {b / a:7.2f}x")


main()
