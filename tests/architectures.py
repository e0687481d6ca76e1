#!/usr/bin/env python3
"""Networks of common kinds, made with torch, exported to ONNX, and run by gale and by ONNX Runtime: results must agree.

usage: architectures.py GALE SOURCE BUILD [PROVIDERS]

Skipped, said aloud, where torch is missing (it is not installed for the purpose); GALE_TEST_PYTHON names an interpreter that has it.  Weights are random but seeded; sizes are small.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

if os.environ.get("GALE_TEST_PYTHON") and not os.environ.get("GALE_TEST_INSIDE"):
    sys.exit(subprocess.run([os.environ["GALE_TEST_PYTHON"], *sys.argv], env={**os.environ, "GALE_TEST_INSIDE": "1"}, check=False).returncode)
sys.path.insert(0, str(pathlib.Path(__file__).parent))
try:
    import beside_ort
    import numpy as np
    import onnx
    import onnxruntime
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"SKIP architectures: {missing.name} is not installed\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


warnings.filterwarnings("ignore")


def conv_bn(i, o, k=3, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class Basic(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(conv_bn(i, o, 3, stride), conv_bn(o, o, act=False))
        self.skip = conv_bn(i, o, 1, stride, act=False) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class ResNet(nn.Sequential):
    def __init__(self):
        super().__init__(conv_bn(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), Basic(16, 16, 1), Basic(16, 32, 2), Basic(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Inverted(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        h = 4 * i
        self.same = stride == 1 and i == o
        self.body = nn.Sequential(nn.Conv2d(i, h, 1), nn.BatchNorm2d(h), nn.ReLU6(), nn.Conv2d(h, h, 3, stride, 1, groups=h), nn.BatchNorm2d(h), nn.Hardswish(), nn.Conv2d(h, o, 1), nn.BatchNorm2d(o))

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class MobileNet(nn.Sequential):
    def __init__(self):
        super().__init__(conv_bn(3, 16, 3, 2), Inverted(16, 24, 2), Inverted(24, 24, 1), Inverted(24, 40, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10), nn.Softmax(-1))


class Heads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        a = a if mask is None else a + mask
        return self.out((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.a, self.b, self.heads = nn.LayerNorm(dim), nn.LayerNorm(dim), Heads(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask=None):
        x = x + self.heads(self.a(x), mask)
        return x + self.mlp(self.b(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 64, 8, 8), nn.Parameter(torch.randn(1, 1, 64))
        self.place, self.blocks, self.head = nn.Parameter(torch.randn(1, 65, 64)), nn.ModuleList(Block(64, 4) for _ in range(2)), nn.Linear(64, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class Swin(nn.Module):
    """Shifted windows: roll, cut into windows, attend, put together, roll back."""

    def __init__(self):
        super().__init__()
        self.patch, self.blocks, self.merge = nn.Conv2d(3, 32, 4, 4), nn.ModuleList(Block(32, 2) for _ in range(2)), nn.Linear(128, 64)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        for i, block in enumerate(self.blocks):
            x = torch.roll(x, (-2 * i, -2 * i), (1, 2))
            b, h, w, c = x.shape
            y = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
            y = block(y).view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
            x = torch.roll(y, (2 * i, 2 * i), (1, 2))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.merge(x).mean((1, 2))


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 24, 4, 4), nn.ModuleList(nn.Conv2d(24, 24, 7, padding=3, groups=24) for _ in range(2))
        self.norm, self.mlp = nn.ModuleList(nn.LayerNorm(24) for _ in range(2)), nn.ModuleList(nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24)) for _ in range(2))

    def forward(self, x):
        x = self.stem(x)
        for deep, norm, mlp in zip(self.deep, self.norm, self.mlp):
            x = x + mlp(norm(deep(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return x.mean((2, 3))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.mid, self.up = conv_bn(3, 16), conv_bn(16, 32), nn.ConvTranspose2d(32, 16, 2, 2)
        self.last = nn.Sequential(conv_bn(32, 16), nn.Conv2d(16, 1, 1), nn.Sigmoid())

    def forward(self, x):
        a = self.down(x)
        b = self.mid(F.max_pool2d(a, 2))
        c = F.interpolate(F.avg_pool2d(b, 2), scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([a, self.up(b + c)], 1))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells, self.head = kind(12, 16, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.cells(x)[0])


class Decoder(nn.Module):
    """One step of a language model with a cache of keys and values."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.qkv, self.out = nn.Embedding(50, 32), nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, ids, past_k, past_v):
        x = self.embed(ids)
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        past = past_k.shape[2]
        mask = torch.ones(n, past + n, dtype=torch.bool).tril(past)
        a = (q @ k.transpose(-2, -1) / 8 ** 0.5).masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, n, c))
        return x @ self.embed.weight.t(), k, v


class Mixer(nn.Module):
    """An MLP mixer with instance and group norms."""

    def __init__(self):
        super().__init__()
        self.stem, self.group, self.inst = nn.Conv2d(3, 16, 4, 4), nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True)
        self.across, self.along = nn.Linear(64, 64), nn.Linear(16, 16)

    def forward(self, x):
        x = self.inst(F.silu(self.group(self.stem(x)))).flatten(2)
        x = x + self.across(F.mish(x))
        return self.along(F.elu(x).transpose(1, 2)).logsumexp(1)


def picture(side=64):
    return (torch.randn(1, 3, side, side),)


NETWORKS = {
    "resnet": (ResNet, picture(), {}),
    "mobilenet": (MobileNet, picture(), {}),
    "vit": (ViT, picture(), {}),
    "swin": (Swin, picture(), {}),
    "convnext": (ConvNeXt, picture(), {}),
    "unet": (UNet, picture(), {0: {0: "n", 2: "h", 3: "w"}}),
    "lstm": (lambda: Recurrent(nn.LSTM), (torch.randn(2, 9, 12),), {0: {1: "steps"}}),
    "gru": (lambda: Recurrent(nn.GRU), (torch.randn(2, 9, 12),), {}),
    "rnn": (lambda: Recurrent(nn.RNN), (torch.randn(2, 9, 12),), {}),
    "decoder with cache": (Decoder, (torch.tensor([[3, 7]]), torch.randn(1, 4, 5, 8), torch.randn(1, 4, 5, 8)), {0: {1: "new"}, 1: {2: "past"}, 2: {2: "past"}}),
    "mixer": (Mixer, (torch.randn(1, 3, 32, 32),), {}),
}


def export(folder, make, inputs, free, opset=17):
    torch.manual_seed(1)
    net = make().eval()
    path = folder / "model.onnx"
    names = [f"x{i}" for i in range(len(inputs))]
    torch.onnx.export(net, inputs, str(path), input_names=names, opset_version=opset, dynamo=False, dynamic_axes={names[i]: axes for i, axes in free.items()})
    return path, {n: x.numpy() for n, x in zip(names, inputs)}


def detection(folder):
    """A head that decodes boxes and suppresses all but the best: what detectors end with."""
    h, rng = onnx.helper, np.random.default_rng(3)
    nodes = [
        h.make_node("Sigmoid", ["logits"], ["scores"]),
        h.make_node("Add", ["anchors", "offsets"], ["boxes"]),
        h.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["picked"]),
        h.make_node("Slice", ["picked", "two", "three", "one"], ["column"]),
        h.make_node("Squeeze", ["column", "one"], ["rows"]),
        h.make_node("Squeeze", ["boxes", "zero"], ["flat"]),
        h.make_node("Gather", ["flat", "rows"], ["best"]),
    ]
    consts = {"anchors": rng.random((1, 40, 4), dtype=np.float32) * [1, 1, 0, 0] + [0, 0, 1, 1], "most": np.array([5]), "iou": np.array([0.5], np.float32), "least": np.array([0.3], np.float32),
              "zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "three": np.array([3])}
    inits = [onnx.numpy_helper.from_array(v.astype(np.float32 if v.dtype.kind == "f" else np.int64), k) for k, v in consts.items()]
    f = onnx.TensorProto.FLOAT
    graph = h.make_graph(nodes, "detect", [h.make_tensor_value_info("logits", f, [1, 3, 40]), h.make_tensor_value_info("offsets", f, [1, 40, 4])],
                         [h.make_tensor_value_info("best", f, ["n", 4]), h.make_tensor_value_info("picked", onnx.TensorProto.INT64, ["n", 3])], inits)
    path = folder / "model.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), str(path))
    return path, {"logits": rng.standard_normal((1, 3, 40)).astype(np.float32), "offsets": (rng.random((1, 40, 4)) * 0.1).astype(np.float32)}


def compare(gale, provider, path, feeds, folder):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return beside_ort.compare(gale, provider, path, names, feeds, session.run(None, feeds), folder)


def scunet(folder, source):
    """The network of shared/peers/scunet.py, with random weights, as opset 18."""
    beside = importlib.util.spec_from_file_location("scunet", source)
    module = importlib.util.module_from_spec(beside)
    beside.loader.exec_module(module)
    return export(folder, module.SCUNet, (torch.rand(1, 3, 64, 64),), {}, opset=18)


def networks(source):
    """Names, and what makes each in a folder."""
    for name, how in NETWORKS.items():
        yield name, lambda folder, how=how: export(folder, *how)
    yield "detection head", detection
    if source.exists():
        yield "scunet, opset 18", lambda folder: scunet(folder, source)


def main():
    gale, providers = sys.argv[1], sys.argv[4].split(",") if len(sys.argv) > 4 else ["cpu"]
    data = pathlib.Path(os.environ.get("GALE_TEST_DATA", pathlib.Path(sys.argv[2]).parent / "shared" / "data"))
    peer = data.parent / "peers" / "scunet.py"
    passed = failed = 0
    for name, make in networks(peer):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            path, feeds = make(folder)
            for provider in providers:
                wrong = compare(gale, provider, path, feeds, folder)
                passed, failed = passed + (wrong is None), failed + (wrong is not None)
                if wrong:
                    print(f"FAIL {name} on {provider}: {wrong}")
    if not peer.exists():
        print("SKIP scunet, opset 18: shared/peers is not beside the project")
    print(f"{passed} passed, {failed} failed, {int(not peer.exists())} skipped")
    return int(failed > 0)


sys.exit(main())
