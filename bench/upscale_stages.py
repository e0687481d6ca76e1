#!/usr/bin/env python3
"""What `gale upscale` costs beside the network, by stages: processor time of one thread under perf, with a network of one 1x1 convolution.

usage: upscale_stages.py GALE PICTURE [OPTIONS OF gale upscale]

Milliseconds, the mean of five runs.  GALE must have its symbols.
"""
import collections
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

RUNS = 5
STAGES = {  # functions of the running thread; reading and writing have threads of their own
    "planes": ("split_band", "load", "load.isra.0", "gale__samples_to_f32"),
    "cut": ("cut_band", "gale__tile_take", "gale__tile_take_row", "gale__feed_row", "gale__feed_put"),
    "blend": ("add_band", "gale__tile_add", "gale__tile_add_row", "gale__feed_get", "gale__tile_axis_weights"),
    "check": ("extent_band", "find_extent", "is_opaque"),
    "finish": ("merge_band", "store", "gale__samples_from_f32", "gale__unpremultiply"),
    "copies": ("__memcpy_generic", "__memset_zva64", "__memset_generic", "__memmove_avx_unaligned_erms", "__memset_avx2_unaligned_erms", "__memmove_evex_unaligned_erms", "__memset_evex_unaligned_erms"),
}


def field(number, payload):
    if isinstance(payload, int):
        return bytes([number << 3, payload])
    size = len(payload)
    return bytes([number << 3 | 2]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + payload


def network():
    """Conv with the identity for its weights, as ONNX writes it."""
    def value(name):
        dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in (b"n", 3, b"h", b"w"))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))
    weights = field(1, 3) + field(1, 3) + field(1, 1) + field(1, 1) + field(2, 1) + field(8, b"w") + field(9, struct.pack("<9f", 1, 0, 0, 0, 1, 0, 0, 0, 1))
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Conv")
    graph = field(1, node) + field(2, b"same") + field(5, weights) + field(11, value(b"x")) + field(12, value(b"y"))
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


def run(folder, gale, options):
    """{(thread, function): ns} of one run."""
    environment = {**os.environ, "GALE_THREADS": "1", "GALE_PROVIDER": "cpu"}
    data, spent = folder / "perf.data", collections.Counter()
    done = subprocess.run(["perf", "record", "-F", "4999", "-o", data, gale, "upscale", *options], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    said = subprocess.run(["perf", "script", "-i", data, "-F", "tid,period,ip,sym,dso"], capture_output=True, text=True, check=True)
    for line in said.stdout.splitlines():
        thread, period, _, name, *rest = line.split()
        spent[thread, "kernel" if "kernel" in rest[-1] else name] += int(period)
    return spent


def stage_of(thread, name, first, writer):
    if thread != first:
        return "encode" if thread == writer else "decode"
    return next((s for s, names in STAGES.items() if name in names), "pages and system" if name == "kernel" else "network and start")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    total = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "same.onnx").write_bytes(network())
        (folder / "same.yml").write_text("params: {tile_size: 256, tile_overlap: 64, multiple: 1}\n")
        for _ in range(RUNS):
            spent = run(folder, sys.argv[1], [sys.argv[2], "-m", folder / "same.onnx", "-o", folder / "out.png", *sys.argv[3:]])
            threads = list(dict.fromkeys(thread for thread, _ in spent))
            writer = next((t for t, name in spent if name in ("filter_band", "filter_row")), None)
            for (thread, name), ns in spent.items():
                total[stage_of(thread, name, threads[0], writer)] += ns / 1e6 / RUNS
    for stage in ("decode", *STAGES, "pages and system", "network and start", "encode"):
        print(f"{stage:20}{total[stage]:8.1f} ms")


main()
