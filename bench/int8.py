#!/usr/bin/env python3
"""8 bits against half precision on one device: ResNet-50 with random weights, quantised by ONNX Runtime (QDQ, u8
activations, s8 weights with a scale per channel, random calibration data), and optionally an encoder.

    bench/int8.py FOLDER [--gale build/gale] [--provider cuda] [--batch 1,16] [--encoder MODEL.onnx] [--tokens 32x128]

Models are written to FOLDER once.  For each the time of `gale bench` in fp16, of the quantised model, and of the
quantised model with fp16 around its products is printed, and how far the device's results of the quantised model are
from those of the CPU.  Needs numpy, onnx and onnxruntime."""
import argparse
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Network:
    """ResNet-50 as a list of nodes."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.weights = [], []

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def op(self, kind, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}_{name}", **attributes))
        return name

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
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                for n, s in (("x", ["n", 3, 224, 224]), ("y", ["n", 1000]))]
        graph = helper.make_graph(self.nodes, "resnet50", info[:1], info[1:], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--gale", default="build/gale")
    parser.add_argument("--provider", default="cuda")
    parser.add_argument("--batch", default="1,16")
    parser.add_argument("--encoder", help="an ONNX encoder with input_ids, attention_mask and token_type_ids")
    parser.add_argument("--tokens", default="32x128")
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, quantised = folder / "resnet50.onnx", folder / "resnet50-int8.onnx"
    if not quantised.exists():
        Network().save(model)
        picture = np.random.default_rng(3).standard_normal((1, 3, 224, 224)).astype(np.float32)
        quantise(model, quantised, {"x": picture}, False)
    for batch in options.batch.split(","):
        report(options, f"ResNet-50, batch {batch}", model, quantised, ["--shape", f"{batch}x3x224x224"])
    if options.encoder:
        target = folder / "encoder-int8.onnx"
        tokens = np.random.default_rng(5).integers(1, 30000, (4, 32))
        feed = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        if not target.exists():
            quantise(options.encoder, target, feed, True)
        shapes = [word for name in feed for word in ("--shape", f"{name}={options.tokens}")]
        report(options, f"encoder, {options.tokens}", options.encoder, target, shapes)


if __name__ == "__main__":
    main()
