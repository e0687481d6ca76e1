#!/usr/bin/env python3
"""ONNX Runtime's time for a model, for the column beside `gale bench MODEL --provider cpu`.

    bench/onnx_peer.py THREADS MODEL SHAPE    medians of 15 runs after three, with inputs of ones of that shape (1x16, 1x3x256x256)
"""
import statistics
import sys
import time

try:
    import numpy as np
    import onnxruntime as ort
except ImportError:
    sys.exit('onnxruntime is not installed')

TYPES = {'tensor(float)': np.float32, 'tensor(float16)': np.float16, 'tensor(int64)': np.int64, 'tensor(int32)': np.int32}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[1])
    session = ort.InferenceSession(sys.argv[2], options, providers=['CPUExecutionProvider'])
    shape = [int(d) for d in sys.argv[3].split('x')]
    inputs = {i.name: np.ones(shape, TYPES[i.type]) for i in session.get_inputs()}
    times = []
    for _ in range(18):
        begun = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - begun)
    print(f'ONNX Runtime {ort.__version__}, {sys.argv[1]} threads: {1e3 * statistics.median(times[3:]):.2f} ms')


main()
