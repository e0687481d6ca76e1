#!/usr/bin/env python3
"""Networks whose arithmetic takes microseconds, in gale and ONNX Runtime: what a run costs beside it.

usage: bench/small.py [LIBRARY]    (default: build/libgale.so; needs numpy, onnx and onnxruntime; set GALE_THREADS=1)

One thread; microseconds of processor time of this process for each run, from Python, the least of 20 means of 200 runs that take turns.
add: one Add.  lstm: a frame of 16 samples (1 ms of audio) through a convolution, an LSTM of 128 units and a gate, behind an If on the sample rate.
loop, while, scan: 20 steps of a product by 64 x 64 and Tanh; while: the steps decide whether to go on.
"""
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'bench'))

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper as nh
except ImportError:
    sys.exit('numpy, onnx and onnxruntime are needed')
import zoo_gale

random = np.random.default_rng(1)
STEPS = 20


def numbers(name, *shape):
    return nh.from_array((random.standard_normal(shape) * 0.1).astype(np.float32), name)


def value(name, *shape, kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def make_add():
    return h.make_graph([h.make_node('Add', ['x', 'c'], ['y'])], 'add', [value('x', 1, 16)], [value('y', 1, 16)], [numbers('c', 1, 16)])


def branch(tag, width, units=128):
    def own(name):
        return f'{tag}_{name}'
    nodes = [h.make_node('Unsqueeze', ['x', 'one'], [own('u')]),
             h.make_node('Conv', [own('u'), own('k'), own('b')], [own('c')], strides=[width], kernel_shape=[width]),
             h.make_node('Relu', [own('c')], [own('r')]),
             h.make_node('Transpose', [own('r')], [own('t')], perm=[2, 0, 1]),
             h.make_node('LSTM', [own('t'), own('W'), own('R'), own('B'), '', 'h0', 'c0'], ['', own('h1'), own('c1')], hidden_size=units),
             h.make_node('MatMul', [own('h1'), own('o')], [own('z')]),
             h.make_node('Sigmoid', [own('z')], [own('p')])]
    weights = [numbers(own('k'), 64, 1, width), numbers(own('b'), 64), numbers(own('W'), 1, 4 * units, 64), numbers(own('R'), 1, 4 * units, units),
               numbers(own('B'), 1, 8 * units), numbers(own('o'), units, 1)]
    return h.make_graph(nodes, tag, [], [value(own('p'), 1, 1, 1), value(own('h1'), 1, 1, units), value(own('c1'), 1, 1, units)], weights)


def make_lstm():
    nodes = [h.make_node('Equal', ['rate', 'wide'], ['is_wide']),
             h.make_node('If', ['is_wide'], ['p', 'h1', 'c1'], then_branch=branch('w', 16), else_branch=branch('n', 8))]
    return h.make_graph(nodes, 'lstm', [value('x', 1, 16), value('h0', 1, 1, 128), value('c0', 1, 1, 128), value('rate', kind=T.INT64)],
                        [value('p', 1, 1, 1), value('h1', 1, 1, 128), value('c1', 1, 1, 128)],
                        [nh.from_array(np.array(16000), 'wide'), nh.from_array(np.array([1]), 'one')])


def make_loop(decides):
    step = [h.make_node('MatMul', ['s', 'w'], ['m']), h.make_node('Tanh', ['m'], ['next'])]
    step += [h.make_node('ReduceMax', ['next'], ['most'], keepdims=0), h.make_node('Greater', ['most', 'least'], ['on'])] if decides else [h.make_node('Identity', ['go'], ['on'])]
    body = h.make_graph(step, 'body', [value('i', kind=T.INT64), value('go', kind=T.BOOL), value('s', 1, 64)], [value('on', kind=T.BOOL), value('next', 1, 64)])
    return h.make_graph([h.make_node('Loop', ['n', 'yes', 'x'], ['y'], body=body)], 'loop', [value('x', 1, 64), value('n', kind=T.INT64)], [value('y', 1, 64)],
                        [numbers('w', 64, 64), nh.from_array(np.array(True), 'yes'), nh.from_array(np.float32(-1), 'least')])


def make_scan():
    body = h.make_graph([h.make_node('Add', ['s', 'x'], ['a']), h.make_node('MatMul', ['a', 'w'], ['m']), h.make_node('Tanh', ['m'], ['next']), h.make_node('Identity', ['next'], ['y'])],
                        'body', [value('s', 1, 64), value('x', 1, 64)], [value('next', 1, 64), value('y', 1, 64)])
    return h.make_graph([h.make_node('Scan', ['s0', 'xs'], ['s1', 'ys'], body=body, num_scan_inputs=1)], 'scan', [value('s0', 1, 64), value('xs', STEPS, 1, 64)],
                        [value('s1', 1, 64), value('ys', STEPS, 1, 64)], [numbers('w', 64, 64)])


NETWORKS = {'add': make_add, 'lstm': make_lstm, 'loop': lambda: make_loop(False), 'while': lambda: make_loop(True), 'scan': make_scan}


def mean_us(run, count=200):
    run()
    begun = time.process_time()
    for _ in range(count):
        run()
    return 1e6 * (time.process_time() - begun) / count


def inputs_of(session):
    kinds = {'tensor(int64)': lambda i: np.array(16000 if i.name == 'rate' else STEPS), 'tensor(float)': lambda i: random.random(i.shape, np.float32) - np.float32(0.5)}
    return {i.name: kinds[i.type](i) for i in session.get_inputs()}


def compare(library, name, path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    inputs = inputs_of(session)
    model = zoo_gale.Model(library, path, list(inputs.values()))
    off = max(float(np.abs(a - b).max()) for a, b in zip(model.results(), session.run(None, inputs)))
    times = [[mean_us(model.run), mean_us(lambda: session.run(None, inputs))] for _ in range(20)]
    ours, theirs = (min(t[i] for t in times) for i in (0, 1))
    print(f'{name:8s} gale {ours:7.1f} us  ONNX Runtime {theirs:7.1f} us  ratio {theirs / ours:.2f}  differs by {off:.0e}')
    return off > 1e-5


def main():
    library = zoo_gale.Library(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / 'build' / 'libgale.so'))
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for name, make in NETWORKS.items():
            path = str(pathlib.Path(folder) / f'{name}.onnx')
            onnx.save(h.make_model(make(), opset_imports=[h.make_opsetid('', 17)], ir_version=8), path)
            wrong |= compare(library, name, path)
    return wrong


if __name__ == '__main__':
    sys.exit(main())
