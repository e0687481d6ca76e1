#!/usr/bin/env python3
"""Requests a second of many callers of one model, each run with its own number of threads: gale beside ONNX Runtime.

    bench/callers.py [MODEL] [CALLERS] [THREADS] [SHAPE] [ROUNDS]    default: all-MiniLM-L6-v2, 8 callers, 1 thread, 1x128, 5 rounds

The two take turns, so that what else the machine does falls on both; medians are compared, and those of processor time for a request as well.  Needs numpy and onnxruntime, and
`ninja -C build bench/bench_callers`.
"""
import os
import statistics
import subprocess
import sys
import threading
import time

try:
    import numpy as np
    import onnxruntime as ort
except ImportError:
    sys.exit('onnxruntime is not installed')

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {'tensor(float)': np.float32, 'tensor(int64)': np.int64, 'tensor(int32)': np.int32}
SECONDS = 4


def peer(model, callers, threads, shape):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    inputs = {i.name: np.ones([int(d) for d in shape.split('x')], TYPES[i.type]) for i in session.get_inputs()}

    def rate(seconds):
        counts = [0] * callers
        end = time.perf_counter() + seconds

        def call(i):
            while time.perf_counter() < end:
                session.run(None, inputs)
                counts[i] += 1

        begun, used = time.perf_counter(), time.process_time()
        each = [threading.Thread(target=call, args=(i,)) for i in range(callers)]
        for t in each:
            t.start()
        for t in each:
            t.join()
        return sum(counts) / (time.perf_counter() - begun), 1e3 * (time.process_time() - used) / sum(counts)

    rate(0.5)
    return rate


def main():
    given = sys.argv[1:]
    usual = [os.path.join(HERE, '../../shared/data/models/all-MiniLM-L6-v2/model.onnx'), '8', '1', '1x128', '5']
    model, callers, threads, shape, rounds = given + usual[len(given):]
    program = os.environ.get('BENCH_CALLERS', os.path.join(HERE, '../build/bench/bench_callers'))
    rate = peer(model, int(callers), int(threads), shape)
    ours, theirs = [], []
    for _ in range(int(rounds)):
        out = subprocess.run([program, model, callers, threads, str(SECONDS), shape], check=True, capture_output=True, text=True)
        ours.append(tuple(map(float, out.stdout.split())))
        theirs.append(rate(SECONDS))
    (a, ours_ms), (b, theirs_ms) = (map(statistics.median, zip(*taken)) for taken in (ours, theirs))
    print(f'{callers} callers, {threads} thread(s) each, {shape}: gale {a:.1f} requests/s, ONNX Runtime {ort.__version__} {b:.1f}: {a / b:.2f}x; '
          f'ms of processor time {ours_ms:.2f}, {theirs_ms:.2f}: {theirs_ms / ours_ms:.2f}x')
    print('rounds:', ', '.join(f'{x[0]:.1f} / {y[0]:.1f}' for x, y in zip(ours, theirs)))


main()
