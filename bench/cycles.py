#!/usr/bin/env python3
"""Least user cycles of a run of fp32 models, one thread, by libraries of gale and by ONNX Runtime, in turns in one process.

Cycles and their least are steadier than time where other work shares the processor.  Where virtual machines have no counter of cycles, processor time in ms takes its place.  usage: taskset -c 1 bench/cycles.py
[--seconds N] [--no-peer] --libraries OLD.so,NEW.so MODEL.onnx...
"""
import argparse
import ctypes
import os
import pathlib
import struct
import time

os.environ['GALE_THREADS'] = '1'
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import zoo_gale  # noqa: E402

PERF_EVENT_OPEN = {'x86_64': 298, 'aarch64': 241}
USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv


def open_counter():
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack('IIQQQQQ', 0, 112, 0, 0, 0, 0, USER_ONLY) + b'\0' * 64
    counter = libc.syscall(PERF_EVENT_OPEN[os.uname().machine], attributes, 0, -1, -1, 0)
    if counter < 0:
        print(f'no counter of cycles ({os.strerror(ctypes.get_errno())}): milliseconds of processor time', flush=True)
        return time.process_time_ns
    return lambda: struct.unpack('Q', os.read(counter, 8))[0]


def make_inputs(path):
    graph, random = onnx.load(path, load_external_data=False).graph, np.random.default_rng(1)
    constants = {c.name for c in graph.initializer}
    return {i.name: random.random([d.dim_value or 1 for d in i.type.tensor_type.shape.dim], dtype=np.float32) for i in graph.input if i.name not in constants}


def make_peer(path, inputs):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry('session.intra_op.allow_spinning', '0')
    session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    return lambda: session.run(None, inputs)


def least_cycles(counter, runs, seconds):
    least = [float('inf')] * len(runs)
    for run in runs:
        run()
    end = time.time() + seconds * len(runs)
    while time.time() < end:
        for i, run in enumerate(runs):
            turn = time.time() + 0.06
            run()
            while True:
                before = counter()
                run()
                least[i] = min(least[i], counter() - before)
                if time.time() > turn:
                    break
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--libraries', default='build/libgale.so')
    parser.add_argument('--seconds', type=float, default=2)
    parser.add_argument('--no-peer', action='store_true')
    parser.add_argument('models', nargs='+')
    options, counter = parser.parse_args(), open_counter()
    libraries = [zoo_gale.Library(os.path.abspath(path)) for path in options.libraries.split(',')]
    for path in options.models:
        inputs = make_inputs(path)
        models = [zoo_gale.Model(library, path, list(inputs.values())) for library in libraries]
        runs = [model.run for model in models] + ([] if options.no_peer else [make_peer(path, inputs)])
        least = least_cycles(counter, runs, options.seconds)
        print(f'{pathlib.Path(path).stem:32s}' + ''.join(f' {cycles / 1e6:10.3f}' for cycles in least), flush=True)


main()
