#!/usr/bin/env python3
"""8 bits against half precision on one device: ResNet-50 and an encoder of 6 layers, both with random weights.  ResNet-50
is quantised by ONNX Runtime (QDQ, u8 activations, s8 weights with a scale per channel, random calibration data), the
encoder so, by `gale convert --precision int8 --calibrate`, and dynamically by ONNX Runtime.

    bench/int8.py FOLDER [--gale build/gale] [--provider cuda] [--batch 1,16] [--encoder MODEL.onnx] [--tokens 1x20,32x128]

Models are written to FOLDER once.  For each the time of `gale bench` in fp16, of the quantised model, and of the
quantised model with fp16 around its products is printed, and how far the device's results of the quantised model are
from those of the CPU.  An empty --batch or --tokens leaves one of them out.  Needs numpy, onnx and onnxruntime."""
import argparse
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static


class Network:
    """A list of nodes and weights."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.weights = [], []

    def weight(self, array, kind=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def op(self, kind, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}_{name}", **attributes))
        return name

    def write(self, path, inputs, outputs):
        graph = helper.make_graph(self.nodes, "network", *[[helper.make_tensor_value_info(*v) for v in values]
                                                           for values in (inputs, outputs)], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class ResNet(Network):
    """ResNet-50."""

    def conv(self, x, channels, out, side, stride, relu=True):
        shape = (out, channels, side, side)
        w = self.random.standard_normal(shape) * np.sqrt(2 / (channels * side * side)) * (1 if relu else 0.5)
        x = self.op("Conv", [x, self.weight(w), self.weight(self.random.standard_normal(out) * 0.1)],
                    kernel_shape=[side, side], strides=[stride, stride], pads=[side // 2] * 4)
        return self.op("Relu", [x]) if relu else x

    def block(self, x, channels, inner, stride):
        y = self.conv(self.conv(x, channels, inner, 1, 1), inner, inner, 3, stride)
        y = self.conv(y, inner, 4 * inner, 1, 1, False)
        if channels != 4 * inner or stride > 1:
            x = self.conv(x, channels, 4 * inner, 1, stride, False)
        return self.op("Relu", [self.op("Add", [y, x])])

    def save(self, path):
        x = self.conv("x", 3, 64, 7, 2)
        x = self.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        channels = 64
        for stage, (inner, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for i in range(blocks):
                x = self.block(x, channels, inner, 2 if stage and not i else 1)
                channels = 4 * inner
        x = self.op("Flatten", [self.op("GlobalAveragePool", [x])], axis=1)
        last = self.weight(self.random.standard_normal((1000, channels)) * 0.03)
        self.nodes.append(helper.make_node("Gemm", [x, last, self.weight(np.zeros(1000))], ["y"], transB=1, name="last"))
        self.write(path, [("x", TensorProto.FLOAT, ["n", 3, 224, 224])], [("y", TensorProto.FLOAT, ["n", 1000])])


class Encoder(Network):
    """BERT with the sizes of all-MiniLM-L6-v2, written as PyTorch exports it."""

    def dense(self, x, rows, columns):
        y = self.op("MatMul", [x, self.weight(self.random.standard_normal((rows, columns)) * rows**-0.5)])
        return self.op("Add", [self.weight(self.random.standard_normal(columns) * 0.1), y])

    def norm(self, x, size):
        return self.op("LayerNormalization", [x, self.weight(self.random.uniform(0.5, 1.5, size)),
                                              self.weight(np.zeros(size))], axis=-1, epsilon=1e-12)

    def layer(self, x, mask, size, heads, wide):
        split = self.weight([0, 0, heads, size // heads], np.int64)
        q, k, v = (self.op("Transpose", [self.op("Reshape", [self.dense(x, size, size), split])], perm=perm)
                   for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = self.op("Div", [self.op("MatMul", [q, k]), self.weight((size // heads)**0.5)])
        y = self.op("MatMul", [self.op("Softmax", [self.op("Add", [scores, mask])], axis=-1), v])
        y = self.op("Reshape", [self.op("Transpose", [y], perm=[0, 2, 1, 3]), self.weight([0, 0, size], np.int64)])
        x = self.norm(self.op("Add", [self.dense(y, size, size), x]), size)
        y = self.dense(x, size, wide)
        t = self.op("Add", [self.op("Erf", [self.op("Div", [y, self.weight(2**0.5)])]), self.weight(1)])
        y = self.op("Mul", [self.op("Mul", [y, t]), self.weight(0.5)])
        return self.norm(self.op("Add", [self.dense(y, wide, size), x]), size)

    def save(self, path, layers=6, size=384, heads=12, wide=1536, words=30522):
        names = ["input_ids", "attention_mask", "token_type_ids"]
        rows = [self.op("Gather", [self.weight(self.random.standard_normal((n, size))), name])
                for n, name in ((words, names[0]), (2, names[2]))]
        mask = self.op("Cast", [self.op("Unsqueeze", [names[1], self.weight([1, 2], np.int64)])], to=TensorProto.FLOAT)
        mask = self.op("Mul", [self.op("Sub", [self.weight(1), mask]), self.weight(-10000)])
        x = self.norm(self.op("Add", rows), size)
        for _ in range(layers):
            x = self.layer(x, mask, size, heads, wide)
        self.nodes.append(helper.make_node("Identity", [x], ["y"]))
        self.write(path, [(n, TensorProto.INT64, ["n", "t"]) for n in names], [("y", TensorProto.FLOAT, ["n", "t", size])])


class Samples(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def quantise(source, target, feed, only_weights):
    """only_weights: products of two activations, as in attention, stay floats."""
    more = {}
    if only_weights:
        model = onnx.load(source)
        constants = {t.name for t in model.graph.initializer}
        more["op_types_to_quantize"] = ["MatMul"]
        more["nodes_to_exclude"] = [n.name for n in model.graph.node
                                    if n.op_type == "MatMul" and not constants & set(n.input)]
    quantize_static(source, target, Samples([feed]), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, **more)


def gale(options, *words):
    out = subprocess.run([options.gale, *map(str, words)], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {out.stderr.strip()}")
    return out.stdout


def time_of(options, model, shapes, *more):
    text = gale(options, "bench", model, *shapes, "--provider", options.provider, "--on-device", "--random", *more)
    return float(re.search(r"steady state\s+([\d.]+) ms", text).group(1))


def distance(options, model, shapes):
    """Largest difference between the device and the CPU, as a part of the largest result."""
    name, results = onnx.load(model).graph.output[0].name, []
    for provider in (options.provider, "cpu"):
        path = pathlib.Path(options.folder) / f"{provider}.npy"
        gale(options, "run", model, *shapes, "--random", "--provider", provider, "-o", f"{name}={path}", "--overwrite")
        results.append(np.load(path).astype(np.float64))
    return np.abs(results[0] - results[1]).max() / np.abs(results[1]).max()


def report(options, name, model, quantised, shapes):
    half = time_of(options, model, shapes, "--precision", "fp16")
    whole, both = time_of(options, quantised, shapes), time_of(options, quantised, shapes, "--precision", "fp16")
    print(f"{name}: fp16 {half:.2f} ms; int8 {whole:.2f} ms ({half / whole:.2f} times as fast); int8 with fp16 "
          f"{both:.2f} ms ({half / both:.2f}); off by {distance(options, quantised, shapes):.2g}", flush=True)


def quantised_encoders(options, model):
    """The encoder in 8 bits, each of the ways: the name and the file."""
    folder = pathlib.Path(options.folder)
    tokens = np.random.default_rng(5).integers(1, 30000, (4, 32))
    feed = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
    paths = {kind: folder / f"encoder-{kind}.onnx" for kind in ("static", "gale", "dynamic")}
    if not paths["dynamic"].exists():
        quantise(model, paths["static"], feed, True)
        np.savez(folder / "tokens.npz", **feed)
        gale(options, "convert", model, "--precision", "int8", "--calibrate", folder / "tokens.npz", "-o",
             paths["gale"], "--overwrite")
        quantize_dynamic(model, paths["dynamic"], weight_type=QuantType.QInt8)
    return paths.items()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--gale", default="build/gale")
    parser.add_argument("--provider", default="cuda")
    parser.add_argument("--batch", default="1,16")
    parser.add_argument("--encoder", help="an ONNX encoder with input_ids, attention_mask and token_type_ids")
    parser.add_argument("--tokens", default="1x20,32x128")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, quantised = folder / "resnet50.onnx", folder / "resnet50-int8.onnx"
    if options.batch and not quantised.exists():
        ResNet().save(model)
        picture = np.random.default_rng(3).standard_normal((1, 3, 224, 224)).astype(np.float32)
        quantise(model, quantised, {"x": picture}, False)
    for batch in options.batch.split(",") if options.batch else []:
        report(options, f"ResNet-50, batch {batch}", model, quantised, ["--shape", f"{batch}x3x224x224"])
    model = pathlib.Path(options.encoder or folder / "encoder.onnx")
    if options.tokens and not model.exists():
        Encoder().save(model)
    for tokens in options.tokens.split(",") if options.tokens else []:
        shapes = [word for name in ("input_ids", "attention_mask", "token_type_ids")
                  for word in ("--shape", f"{name}={tokens}")]
        for kind, path in quantised_encoders(options, model):
            report(options, f"encoder, {kind}, {tokens}", model, path, shapes)


if __name__ == "__main__":
    main()
