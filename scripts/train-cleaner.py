#!/usr/bin/env python3
"""Trains and measures the cleaning network that `gale upscale` carries inside.

The network keeps a picture's size and takes away JPEG artefacts, noise and slight blur. It is
trained together with the finished 2x network behind it, so that what it gives
is the best input for enlarging, too. Reads the photographs that scripts/upscaler-data.py --photographs packs,
and validates with some of them. --evaluate MODEL measures a finished model on the held-out pictures, which Pillow has
compressed and numpy has made noisy. Needs torch, numpy and Pillow; onnx to export;
onnxruntime to evaluate. See docs/upscaler-training.md.
"""
import argparse
import functools
import importlib.util
import io
import math
import pathlib
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("train_upscaler", HERE / "train-upscaler.py")
zoom = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoom)

# ---- degradations, of pictures [n, 3, h, w] in 0..1; every picture of a batch gets its own


LUMA_STEPS = zoom.QUANT
CHROMA_STEPS = torch.full((8, 8), 99.0)  # annex K of the JPEG standard
CHROMA_STEPS[:4, :4] = torch.tensor([[17., 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]])
TO_YCC = torch.tensor([[0.299, 0.587, 0.114], [-0.168735892, -0.331264108, 0.5], [0.5, -0.418687589, -0.081312411]])


def per_picture(values):
    return values.view(-1, 1, 1, 1)


def quantised(plane, steps, quality):
    """One plane [n, h, w] in levels around 0 through DCT, quantisation and back; sides are multiples of 8."""
    n, h, w = plane.shape
    scale = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality).view(n, 1, 1, 1)
    steps = ((steps.to(plane.device).view(1, 1, 1, 64) * scale + 50) / 100).floor().clamp(1, 255)
    dct = torch.kron(zoom.DCT, zoom.DCT).to(plane.device)  # of a block as 64 numbers
    blocks = plane.view(n, h // 8, 8, w // 8, 8).transpose(2, 3).reshape(n, h // 8, w // 8, 64)
    coded = ((blocks @ dct.T) / steps).round() * steps
    blocks = (coded @ dct).view(n, h // 8, w // 8, 8, 8).transpose(2, 3)
    return blocks.reshape(n, h, w).round().clamp(-128, 127)


def jpeg(picture, quality, halved):
    """As libjpeg does it: quality [n], halved [n]: chroma at half size (4:2:0) or not (4:4:4)."""
    n, _, h, w = picture.shape
    levels = F.pad((picture * 255).round(), (0, -w % 16, 0, -h % 16), mode="replicate")
    to_ycc = TO_YCC.to(picture.device)
    ycc = torch.einsum("ij,njhw->nihw", to_ycc, levels).round()
    luma = quantised(ycc[:, 0] - 128, LUMA_STEPS, quality) + 128
    chroma = ycc[:, 1:].flatten(0, 1)
    twice = quality.repeat_interleave(2)
    full = quantised(chroma, CHROMA_STEPS, twice)
    half = quantised(F.avg_pool2d(chroma[None], 2)[0].round(), CHROMA_STEPS, twice)
    half = F.interpolate(half[None], scale_factor=2, mode="bilinear", align_corners=False)[0].round()
    chroma = torch.where(halved.repeat_interleave(2).view(-1, 1, 1), half, full).view(n, 2, *full.shape[1:])
    result = torch.einsum("ij,njhw->nihw", torch.linalg.inv(to_ycc), torch.cat([luma[:, None], chroma], 1))
    return zoom.round8(result[..., :h, :w] / 255)


def blurred(picture, most=0.6):
    """Gaussians, each with its own two widths and direction. A network that learns to undo more sharpens what is out of
    focus in a photograph."""
    n, _, h, w = picture.shape
    device = picture.device
    wide, narrow = (0.3 + (most - 0.3) * torch.rand(n, 1, 1, device=device) for _ in range(2))
    angle = math.pi * torch.rand(n, 1, 1, device=device)
    span = torch.arange(-4, 5, device=device, dtype=torch.float32)
    y, x = span.view(1, 9, 1), span.view(1, 1, 9)
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    kernel = torch.exp(-0.5 * ((along / wide) ** 2 + (across / narrow) ** 2))
    kernel = (kernel / kernel.sum((1, 2), keepdim=True)).repeat_interleave(3, 0)[:, None]
    padded = F.pad(picture, (4, 4, 4, 4), mode="replicate").view(1, n * 3, h + 8, w + 8)
    return F.conv2d(padded, kernel, groups=n * 3).view(n, 3, h, w)


def noisy(picture, least=3, most=25):
    """Of one colour or of three, as strong everywhere or, like photons, stronger where it is bright.
    Weaker noise cannot be told from grain and texture, which must stay."""
    n, device = len(picture), picture.device
    strength = per_picture((least + (most - least) * torch.rand(n, device=device) ** 1.2) / 255)
    noise = torch.randn_like(picture)
    grey = per_picture(torch.rand(n, device=device) < 0.35)
    noise = torch.where(grey, noise[:, :1], noise)
    photons = per_picture(torch.rand(n, device=device) < 0.3)
    strength = torch.where(photons, strength * (2 * picture.clamp(0, 1)).sqrt(), strength)
    return zoom.round8(picture + strength * noise)


def resized(picture, kernels=(zoom.cubic, zoom.lanczos, zoom.triangle, zoom.box)):
    """Smaller (at most by 0.85) or larger, and back; one factor for all."""
    side = picture.shape[-1]
    other = int(torch.randint(int(0.85 * side), int(1.4 * side), ()))
    there, back = (kernels[int(torch.randint(len(kernels), ()))] for _ in range(2))
    return zoom.resize(zoom.resize(picture, other, other, there), side, side, back)


def chance(like, share):
    return torch.rand(len(like), device=like.device) < share


def some(picture, share, change):
    """A random share of the pictures, changed."""
    pick = torch.nonzero(chance(picture, share)).view(-1)
    if len(pick):
        picture[pick] = change(picture[pick])
    return picture


def compressed(picture, quality):
    return jpeg(picture, quality, chance(picture, 0.7))


def any_quality(picture, low=30, high=95):
    return (low + (high + 1 - low) * torch.rand(len(picture), device=picture.device)).floor()


def grain(picture, least=0.5, most=4):
    """Belongs to the picture: what the network must not take away."""
    strength = per_picture(least + (most - least) * torch.rand(len(picture), device=picture.device)) / 255
    noise = torch.randn_like(picture)
    return zoom.round8(picture + strength * torch.where(per_picture(chance(picture, 0.6)), noise[:, :1], noise))


def before(picture):
    """What happened to a picture in an earlier life."""
    picture = some(picture, 0.5, blurred)
    picture = some(picture, 0.4, noisy)
    picture = some(picture, 0.5, lambda p: compressed(p, any_quality(p)))
    return resized(picture) if torch.rand(()) < 0.5 else picture


def degraded(picture, clean=0.06, known=0.75):
    """The spoiled pictures, and of each the quality of its JPEG file in 0..1; 0: no such file, or not known."""
    spoiled, quality = picture.clone(), torch.zeros(len(picture), device=picture.device)
    for _ in range(4):  # each with a factor of its own
        spoiled = some(spoiled, 0.02, before)
    spoiled = some(spoiled, 0.04, blurred)
    spoiled = some(spoiled, 0.22, noisy)
    for share in (0.78, 0.04):  # some are saved twice on the same grid
        pick = torch.nonzero(chance(picture, share)).view(-1)
        if len(pick):
            quality[pick] = any_quality(pick)
            spoiled[pick] = compressed(spoiled[pick], quality[pick])
    keep = chance(picture, clean)
    quality[keep | ~chance(picture, known)] = 0
    return zoom.round8(torch.where(per_picture(keep), picture, spoiled)), quality / 100


# ---- data


def decoded(path):
    """The photographs of a zip file, in the order of their names: [3, h, w], u8."""
    def pixels(data):
        return torch.from_numpy(np.array(Image.open(io.BytesIO(data)).convert("RGB"))).permute(2, 0, 1)

    with zipfile.ZipFile(path) as file, ThreadPoolExecutor() as threads:
        return list(threads.map(pixels, [file.read(name) for name in sorted(file.namelist())]))


def scaled(picture, factor):
    """Smaller, [3, h, w] u8: what is stored has slight JPEG artefacts, which go away."""
    sides = [round(side * factor) // 2 * 2 for side in picture.shape[1:]]
    made = F.interpolate(picture[None].float(), size=sides, mode="bicubic", antialias=True, align_corners=False)
    return made[0].round().clamp(0, 255).byte()


def error_of(picture):
    """Mean square, of [3, h, w] u8 halved and enlarged again."""
    x = picture[None].float() / 255
    small = F.interpolate(x, scale_factor=0.5, mode="bicubic", antialias=True, align_corners=False)
    return ((F.interpolate(small, size=x.shape[2:], mode="bicubic", align_corners=False) - x) ** 2).mean()


class Pool:
    """(spoiled, small, large) in u8 on the device, with the quality of a JPEG file and the mean error of the photograph
    when enlarged simply: thousands are spoiled at a time, since small kernels of a GPU are mostly overhead, and each is
    used a few times before a newer one takes its place."""

    room = 8  # pixels around what is used, so that JPEG's grid lies anywhere

    def __init__(self, pictures, patch, size, fills, device):
        levels = [scaled(picture.to(device), factor) for picture in pictures for factor in (0.8, 0.62, 0.47)]
        self.errors = torch.stack([error_of(level) for level in levels])
        self.flat = torch.cat([level.reshape(3, -1) for level in levels], 1)
        sides = torch.tensor([level.shape[1:] for level in levels], device=device)
        self.height, self.width = sides.unbind(1)
        self.first = sides.prod(1).cumsum(0) - sides.prod(1)
        self.device, self.patch, self.size, self.side = device, patch, size, 2 * (patch + self.room)
        self.halver = zoom.Patches(np.zeros((1, 3, 1, 1), np.uint8), self.side, device, 0)
        self.sets = [torch.zeros(fills * size, 3, side, side, dtype=torch.uint8, device=device)
                     for side in (self.side // 2, self.side // 2, self.side)]
        self.sets += [torch.zeros(fills * size, device=device) for _ in range(2)]
        self.filled = 0

    def patches(self, n):
        """Any of any photograph, mirrored or turned, and the photographs' errors."""
        pick = torch.multinomial((self.height * self.width).float(), n, replacement=True)
        span = torch.arange(self.side, device=self.device)
        rows, columns = ((torch.rand(n, 1, device=self.device) * (sides[pick, None] - self.side + 1)).long() + span
                         for sides in (self.height, self.width))
        columns = torch.where(torch.rand(n, 1, device=self.device) < 0.5, columns.flip(1), columns)
        index = self.first[pick].view(-1, 1, 1) + rows[:, :, None] * self.width[pick].view(-1, 1, 1) + columns[:, None]
        made = self.flat[:, index].transpose(0, 1)
        return torch.cat([made[:n // 2], made[n // 2:].transpose(2, 3).flip(2)]).float() / 255, self.errors[pick]

    def fill(self):
        large, errors = self.patches(self.size)
        large = some(large, 0.1, grain)
        small = self.halver.small(large)
        spoiled, quality = degraded(small)
        at = self.filled % len(self.sets[0])
        for made, kept in zip((spoiled, small, large, quality, errors), self.sets):
            kept[at:at + self.size] = (made * 255).round().byte() if made.dim() > 1 else made
        self.filled += self.size

    def batch(self, n):
        """Two of three batches have JPEG's grid where tiles of files have it."""
        pick = torch.randint(min(self.filled, len(self.sets[0])), (n,), device=self.device)
        top, left = np.random.randint(0, self.room + 1, 2) if np.random.rand() < 0.33 else 4 * np.random.randint(0, 3, 2)
        return [kept[:, :, k * top:k * (top + self.patch), k * left:k * (left + self.patch)][pick]
                for kept, k in zip(self.sets, (1, 1, 2))] + [kept[pick] for kept in self.sets[3:]]


# ---- the network


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1)
        self.two = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, share=1):
        return x + share * self.two(F.leaky_relu(self.one(x), 0.1))


TOLD = 16


class Cleaner(nn.Module):
    """Two convolutions at full size; residual blocks at half size, which run `turns` times with the same weights, and after
    the first turn two blocks at a quarter of the size; `more` of the blocks once more, with a share for each channel; two
    convolutions at full size; all of it is added to the picture.
    The quality of the JPEG file [n or 1] (0..1; 0: not known) is told to both smaller sizes."""

    def __init__(self, thin, channels, blocks, turns, deep, more):
        super().__init__()
        self.turns = turns
        self.head = nn.Conv2d(3, thin, 3, padding=1)
        self.fine = nn.Conv2d(thin, thin, 3, padding=1)
        self.down = nn.Conv2d(thin, channels, 2, stride=2)
        self.blocks = nn.ModuleList(Block(channels) for _ in range(blocks))
        self.down2 = nn.Conv2d(channels, deep, 2, stride=2)
        self.deeps = nn.ModuleList(Block(deep) for _ in range(2))
        self.up2 = nn.Conv2d(deep, 4 * channels, 1)
        self.shares = nn.Parameter(torch.zeros(more, channels))
        self.up = nn.Conv2d(channels, 4 * thin, 1)
        self.merge = nn.Conv2d(thin, thin, 3, padding=1)
        self.last = nn.Conv2d(thin, thin, 3, padding=1)
        self.tail = nn.Conv2d(thin, 3, 3, padding=1)
        self.told = nn.Conv2d(1, TOLD, 1)
        self.told_half = nn.Conv2d(TOLD, channels, 1)
        self.told_deep = nn.Conv2d(TOLD, deep, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=0.1)
                nn.init.zeros_(module.bias)
        for conv in [block.two for block in [*self.blocks, *self.deeps]] + [self.up2]:
            conv.weight.data *= 0.1
        self.tail.weight.data *= 0.01
        nn.init.uniform_(self.told.bias, -1, 1)
        for conv in (self.told_half, self.told_deep):
            nn.init.zeros_(conv.weight)

    def forward(self, x, quality):
        fine = F.leaky_relu(self.fine(F.leaky_relu(self.head(x), 0.1)), 0.1)
        told = F.leaky_relu(self.told(per_picture(quality)), 0.1)
        h = first = F.leaky_relu(self.down(fine) + self.told_half(told), 0.1)
        for turn in range(self.turns):
            for block in self.blocks:
                h = block(h)
            if turn == 0:
                deep = F.leaky_relu(self.down2(h) + self.told_deep(told), 0.1)
                for block in self.deeps:
                    deep = block(deep)
                h = h + F.pixel_shuffle(self.up2(deep), 2)
        for block, share in zip(self.blocks, self.shares):
            h = block(h, share.view(1, -1, 1, 1))
        h = F.pixel_shuffle(self.up(h + first), 2) + fine
        h = F.leaky_relu(self.last(F.leaky_relu(self.merge(h), 0.1)), 0.1)
        return x + self.tail(h)


def in_bytes(weight):
    """A convolution's weights in 8 bits, and the scale of each of its results."""
    scale = (weight.abs().amax((1, 2, 3), keepdim=True) / 127).clamp(min=1e-12)
    return (weight / scale).round(), scale


def export(model, path):
    """ONNX, opset 17: weights are i8 with a scale for each channel, biases f16; both become f32 when loaded."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights, known = [], [], {}

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def keep(name, tensor, kind):
        weights.append(numpy_helper.from_array(tensor.detach().cpu().numpy().astype(kind), name))
        return name

    def weight(name, tensor):
        if name in known:  # the blocks' are used in every turn
            return name
        known[name] = True
        if tensor.dim() == 1:
            return node("Cast", [keep(name + "_f16", tensor, np.float16)], name, to=TensorProto.FLOAT)
        whole, scale = in_bytes(tensor)
        return node("DequantizeLinear", [keep(name + "_i8", whole, np.int8), keep(name + "_s", scale.flatten(), np.float32)],
                    name, axis=0)

    def conv(output, name, module, x):
        inputs = [x, weight(name + "_w", module.weight), weight(name + "_b", module.bias)]
        side, pad, stride = module.kernel_size[0], module.padding[0], module.stride[0]
        return node("Conv", inputs, output, kernel_shape=[side, side], pads=[pad] * 4, strides=[stride, stride])

    def bent(output, name, module, x, told=None):
        h = conv(output + "_sum", name, module, x)
        if told:
            h = node("Add", [h, told], output + "_told")
        return node("LeakyRelu", [h], output, alpha=0.1)

    def block(output, name, module, x, share=None):
        h = conv(output + "_two", name + "_two", module.two, bent(output + "_one", name + "_one", module.one, x))
        if share is not None:
            h = node("Mul", [h, keep(output + "_share", share.view(1, -1, 1, 1), np.float32)], output + "_part")
        return node("Add", [x, h], output)

    fine = bent("fine", "conv_fine", model.fine, bent("head", "conv_head", model.head, "x"))
    weights.append(numpy_helper.from_array(np.array([1, 1, 1, 1], np.int64), "one"))
    told = bent("told", "conv_told", model.told, node("Reshape", ["quality", "one"], "known"))
    h = first = bent("down", "conv_down", model.down, fine, conv("told_half", "conv_told_half", model.told_half, told))
    for turn in range(model.turns):
        for i, module in enumerate(model.blocks):
            h = block(f"t{turn}b{i}", f"block{i}", module, h)
        if turn == 0:
            deep = bent("down2", "conv_down2", model.down2, h,
                        conv("told_deep", "conv_told_deep", model.told_deep, told))
            for i, module in enumerate(model.deeps):
                deep = block(f"d{i}", f"deep{i}", module, deep)
            deep = node("DepthToSpace", [conv("wide2", "conv_up2", model.up2, deep)], "up2", blocksize=2, mode="CRD")
            h = node("Add", [h, deep], "deeper")
    for i, (module, share) in enumerate(zip(model.blocks, model.shares)):
        h = block(f"m{i}", f"block{i}", module, h, share)
    h = conv("wide", "conv_up", model.up, node("Add", [h, first], "skip"))
    h = node("Add", [node("DepthToSpace", [h], "up", blocksize=2, mode="CRD"), fine], "joined")
    h = bent("last", "conv_last", model.last, bent("merge", "conv_merge", model.merge, h))
    node("Add", ["x", conv("change", "conv_tail", model.tail, h)], "y")
    value = helper.make_tensor_value_info
    sides = ["n", 3, "h", "w"]
    graph = helper.make_graph(nodes, "clean", [value("x", TensorProto.FLOAT, sides), value("quality", TensorProto.FLOAT, [1])],
                              [value("y", TensorProto.FLOAT, sides)], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="gale train-cleaner",
                              ir_version=8)
    onnx.checker.check_model(proto)
    path.write_bytes(proto.SerializeToString())


def take_weights(model, path):
    """Those of a file that export() has made, of a network that may lack what is told."""
    import onnx
    arrays = {w.name: onnx.numpy_helper.to_array(w).astype(np.float32) for w in onnx.load(path).graph.initializer}
    for name, module in model.named_modules():
        name = name.replace("blocks.", "block").replace("deeps.", "deep").replace(".", "_")
        name = name if name.startswith(("block", "deep")) else "conv_" + name
        if name + "_b_f16" in arrays:
            whole, scale = arrays[name + "_w_i8"], arrays[name + "_w_s"].reshape(-1, 1, 1, 1)
            module.weight.data.copy_(torch.from_numpy(whole * scale))
            module.bias.data.copy_(torch.from_numpy(arrays[name + "_b_f16"]))
    for i, share in enumerate(model.shares.data):
        if f"m{i}_share" in arrays:
            share.copy_(torch.from_numpy(arrays[f"m{i}_share"]).flatten())


def runner(path):
    """The network of a file, as a function of picture and quality, which older ones do not take."""
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda *given: torch.from_numpy(session.run(None, {name: x.cpu().numpy() for name, x in zip(names, given)})[0])


def frozen_zoom(path, device):
    """The 2x network of a file that train-upscaler.py has written (.onnx), or of its weights alone (.npz)."""
    if path.suffix == ".npz":
        arrays = np.load(path)
    else:
        import onnx
        arrays = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(path).graph.initializer}
    depth = sum(name.startswith("conv") and name.endswith("_w_f16") for name in arrays) - 1
    model = zoom.Upscaler(arrays["conv0_w_f16"].shape[0], depth)
    names = [("head", "conv0"), ("tail", "tail")] + [(f"body.{i}", f"conv{i + 1}") for i in range(depth)]
    state = {}
    for ours, theirs in names:
        state[ours + ".weight"], state[ours + ".bias"] = arrays[theirs + "_w_f16"], arrays[theirs + "_b_f16"]
    for i in range(depth + 1):
        state[f"slopes.{i}.weight"] = arrays[f"act{i}_s_f16"].reshape(-1)
    model.load_state_dict({name: torch.tensor(np.asarray(a, np.float32)) for name, a in state.items()})
    return model.requires_grad_(False).to(device, memory_format=torch.channels_last)


# ---- measuring: pictures spoiled by other programs than the ones above


CASES = {"clean": (0, 0, 0), "JPEG 75": (0, 75, 0.75), "JPEG 50": (0, 50, 0.5), "noise 15": (15, 0, 0),
         "noise 5, JPEG 75": (5, 75, 0.75), "JPEG 75 saved as PNG": (0, 75, 0)}  # the last: the quality that is known


def spoil(small, noise, quality, rng):
    """[3, h, w] u8: Gaussian noise of so many levels, then Pillow's JPEG (4:2:0); 0: none."""
    pixels = small
    if noise:
        pixels = np.clip(np.rint(pixels + rng.normal(0, noise, pixels.shape)), 0, 255).astype(np.uint8)
    if quality:
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(np.moveaxis(pixels, 0, -1))).save(file, "JPEG", quality=quality)
        pixels = np.ascontiguousarray(np.moveaxis(np.asarray(Image.open(file)), -1, 0))
    return pixels


def halved(large):
    x = torch.from_numpy(large).float()[None] / 255
    h, w = x.shape[-2:]
    return (zoom.round8(zoom.resize(x, h // 2, w // 2, zoom.cubic))[0] * 255).round().byte().numpy()


def make_cases(held):
    """{photograph/case: pixels} of {photograph: [3, h, w] u8}"""
    rng = np.random.default_rng(1)
    cases = {}
    for name, large in held.items():
        small = halved(large)
        for case, (noise, quality, _) in CASES.items():
            cases[f"{name}/{case}"] = spoil(small, noise, quality, rng)
    return cases


def as_tensor(pixels, device):
    return torch.from_numpy(pixels).to(device).float()[None] / 255


def told(case, device):
    return torch.tensor(CASES[case][2:], device=device, dtype=torch.float32)


@torch.no_grad()
def evaluate(clean, enlarge, held, cases, device):
    """{case: {photograph: (1x before, 1x after, 2x Lanczos, 2x without cleaning, 2x with)}}, dB of R, G and B."""
    rows = {case: {} for case in CASES}
    for key in cases:
        name, case = key.split("/")
        large, spoiled = as_tensor(held[name], device), as_tensor(cases[key], device)
        small = as_tensor(cases[name + "/clean"], device)
        h, w = large.shape[-2:]
        done = clean(spoiled, told(case, device)).float().to(device).clamp(0, 1)
        results = [zoom.round8(zoom.resize(spoiled, h, w, zoom.lanczos)), zoom.round8(enlarge(spoiled).float().to(device)),
                   zoom.round8(enlarge(done).float().to(device))]
        rows[case][name] = (zoom.psnr(spoiled, small), zoom.psnr(zoom.round8(done), small),
                            *(zoom.psnr(r, large) for r in results))
    return rows


def means(rows):
    return {case: np.mean(list(figures.values()), axis=0) for case, figures in rows.items()}


def table(rows):
    lines = ["| input | 1x before | 1x cleaned | 2x Lanczos | 2x zoom2x alone | 2x cleaned | gain over Lanczos | worst gain |",
             "|---|---|---|---|---|---|---|---|"]
    for case, m in means(rows).items():
        worst = min(f[4] - f[2] for f in rows[case].values())
        lines.append(f"| {case} | " + " | ".join(f"{v:.2f}" for v in m) + f" | {m[4] - m[2]:+.2f} | {worst:+.2f} |")
    return "\n".join(lines)


def photographs(rows, case):
    lines = ["| photograph | 2x Lanczos | zoom2x alone | cleaned | gain over Lanczos |", "|---|---|---|---|---|"]
    for name, f in rows[case].items():
        lines.append(f"| {name} | {f[2]:.2f} | {f[3]:.2f} | {f[4]:.2f} | {f[4] - f[2]:+.2f} |")
    return "\n".join(lines)


SHEET = (("casa-mila", "JPEG 50"), ("roman-colosseum", "noise 15"), ("beacon-street-sunset", "noise 5, JPEG 75"))  # CC0


@torch.no_grad()
def sheet(path, clean, enlarge, held, cases, side=112, drawn=2):
    """One row for each of SHEET: Lanczos, cleaned and enlarged, original; every pixel drawn twice."""
    rows = []
    for name, case in SHEET:
        if name not in held:
            continue
        large, spoiled = as_tensor(held[name], "cpu"), as_tensor(cases[f"{name}/{case}"], "cpu")
        h, w = large.shape[-2:]
        images = [zoom.round8(zoom.resize(spoiled, h, w, zoom.lanczos)),
                  zoom.round8(enlarge(clean(spoiled, told(case, "cpu")).clamp(0, 1))), large]
        top, left = zoom.busiest(large, side)
        rows.append(torch.cat([F.pad(i[..., top:top + side, left:left + side], (0, 2), value=1) for i in images], 3))
    pixels = torch.cat([F.pad(row, (0, 0, 0, 2), value=1) for row in rows], 2)[0].permute(1, 2, 0).numpy()
    zoom.write_png(path, (pixels * 255).round().astype(np.uint8).repeat(drawn, axis=0).repeat(drawn, axis=1))


# ---- training


def distance(guess, wanted, least):
    """Patch by patch, in decibels, as whole photographs are measured: an error of less than `least`, that of the whole,
    does not count for more."""
    return 0.02 * (((guess.float() - wanted) ** 2).mean((1, 2, 3)) + least).log().mean()


def replayed(work, device):
    """The work as one launch: on a GPU the launches of its hundreds of kernels take longer than some of the kernels."""
    if device.type != "cuda":
        return work
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(4):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def train(options, log):
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    np.random.seed(options.seed)
    torch.backends.cudnn.benchmark = True
    start = time.monotonic()
    pictures = decoded(options.photographs)
    held = {str(i): scaled(pictures[i], 0.8)[:, :448, :448].numpy() for i in range(7, len(pictures), 21)}
    cases = make_cases(held)
    pool = Pool([p for i, p in enumerate(pictures) if str(i) not in held], options.patch, options.spoil, options.fills, device)
    shape = (options.thin, options.channels, options.blocks, options.turns, options.deep, options.more)
    model, average = (Cleaner(*shape).to(device, memory_format=torch.channels_last) for _ in range(2))
    if options.start:
        take_weights(model, options.start)
    average.load_state_dict(model.state_dict())
    average.requires_grad_(False)
    enlarge = frozen_zoom(options.zoom, device)
    parameters = list(model.parameters())
    log(f"{sum(p.numel() for p in parameters)} parameters, {len(pictures)} photographs, {len(held)} of them to validate, "
        f"{device}, seed {options.seed}")
    rate = torch.tensor(1e-6, device=device)
    optimizer = torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.99), fused=True, capturable=device.type == "cuda")
    while pool.filled < options.fills * options.spoil // 4:
        pool.fill()
    batch = pool.batch(options.batch)  # the memory that every batch is copied to

    def loss_of(batch):
        spoiled, small, large = (t.float() / 255 for t in batch[:3])
        quality, errors = batch[3:]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False):
            guess = model(spoiled.contiguous(memory_format=torch.channels_last), quality)
            twice = enlarge(guess)
        return 0.2 * distance(guess, small, 1e-4) + distance(twice, large, errors.clamp(min=2e-5))

    def work(loss_of=loss_of):
        optimizer.zero_grad(set_to_none=True)
        loss_of(batch).backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()

    try:
        step = replayed(functools.partial(work, torch.compile(loss_of)) if options.compile else work, device)
    except Exception as error:
        log(f"not compiled: {error!r:.300}")
        step = replayed(work, device)
    log(f"prepared in {time.monotonic() - start:.0f} s")
    begin, report = time.monotonic(), 0
    count, best, total = 0, 0, options.minutes * 60 - (begin - start)
    while (spent := time.monotonic() - begin) < total:
        rate.fill_(options.rate * min(1, (count + 1) / 500) * (0.5 + 0.5 * math.cos(math.pi * spent / total)) + 1e-6)
        for kept, new in zip(batch, pool.batch(options.batch)):
            kept.copy_(new)
        step()
        count += 1
        if count % (options.reuse * options.spoil // options.batch) == 0:
            pool.fill()
        if count % 4 == 0:
            torch._foreach_lerp_(list(average.parameters()), [p.detach() for p in parameters], 1 - min(0.995, count / (count + 20)))
        if device.type == "cuda" and count % 16 == 0:
            torch.cuda.synchronize()
        if time.monotonic() - report > options.report:
            report = time.monotonic()
            m = means(evaluate(average, enlarge, held, cases, device))
            log(f"{spent:6.0f} s  step {count:6d}  2x over Lanczos, validation: "
                + "  ".join(f"{case} {v[4] - v[2]:+.3f}" for case, v in m.items()))
            best = keep_best(average, shape, m, best, options.out / "model.pt")
    log(f"{count} steps in {time.monotonic() - begin:.0f} s")
    rows = evaluate(average, enlarge, held, cases, device)
    log(table(rows))
    keep_best(average, shape, means(rows), best, options.out / "model.pt")


def keep_best(model, shape, figures, best, path):
    """Saves the weights if they are the best so far for JPEG pictures; how good the best are."""
    score = sum(figures[case][4] for case in ("JPEG 75", "JPEG 50"))
    if score <= best:
        return best
    torch.save({"shape": shape, "state": {name: t.cpu() for name, t in model.state_dict().items()}}, path)
    return score


def check_export(model, path, log):
    """The file must say what torch computes with the rounded weights."""
    x, quality = torch.rand(1, 3, 36, 52), torch.tensor([0.75])
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() != 2:  # shares are not rounded
                p.copy_(p.half() if p.dim() == 1 else torch.mul(*in_bytes(p)))
        error = float((runner(path)(x, quality) - model.cpu()(x, quality)).abs().max())
    log(f"{path.name}: {path.stat().st_size} bytes; onnxruntime - torch {error:.1e}")
    if error > 1e-4:
        sys.exit("train-cleaner: the exported model does not compute what torch computes; export() is wrong")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--photographs", type=pathlib.Path, default="photographs.zip", help="from upscaler-data.py --photographs")
    p.add_argument("--data", type=pathlib.Path, default="upscaler-data.npz.xz", help="to evaluate: from upscaler-data.py")
    p.add_argument("--zoom", type=pathlib.Path, default=HERE.parent / "src/jobs/upscale/zoom2x.onnx",
                   help="the 2x network that follows, .onnx, or .npz with its weights")
    p.add_argument("--out", type=pathlib.Path, default=".", help="folder for model.onnx, model.pt, log.txt and compare.png")
    p.add_argument("--evaluate", type=pathlib.Path, metavar="MODEL", help="measure this ONNX file and stop")
    p.add_argument("--export", type=pathlib.Path, metavar="WEIGHTS",
                   help="make model.onnx from model.pt of a machine without onnx, and stop")
    p.add_argument("--minutes", type=float, default=6.7, help="of which about one is preparation")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--start", type=pathlib.Path, metavar="MODEL", help="begin with the weights of this ONNX file")
    p.add_argument("--compile", action="store_true", help="let torch join kernels")
    p.add_argument("--thin", type=int, default=32, help="channels at full size")
    p.add_argument("--channels", type=int, default=64, help="channels at half size")
    p.add_argument("--blocks", type=int, default=5, help="residual blocks of two convolutions")
    p.add_argument("--turns", type=int, default=2, help="how often the blocks run")
    p.add_argument("--deep", type=int, default=88, help="channels at a quarter of the size")
    p.add_argument("--more", type=int, default=3, help="how many of the blocks run once more")
    p.add_argument("--patch", type=int, default=96, help="side of a spoiled patch, a multiple of 4")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--spoil", type=int, default=2048, help="patches that are spoiled at once")
    p.add_argument("--fills", type=int, default=40, help="how many times as many are kept")
    p.add_argument("--reuse", type=int, default=3, help="how often a spoiled patch is used, about")
    p.add_argument("--rate", type=float, default=1e-3, help="at first; less for a network that is trained already")
    p.add_argument("--report", type=float, default=30, help="seconds between measurements")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def finish(saved, options, log):
    model = Cleaner(*saved["shape"])
    model.load_state_dict(saved["state"])
    path = options.out / "model.onnx"
    export(model, path)
    check_export(model, path, log)


def measure(path, options, held, cases, log):
    clean, enlarge = runner(path), zoom.onnx_runner(options.zoom)
    sheet(options.out / "compare.png", clean, enlarge, held, cases)
    rows = evaluate(clean, enlarge, held, cases, "cpu")
    log(table(rows))
    for case in rows:
        log(f"\n{case}\n\n" + photographs(rows, case))


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    log = zoom.Log(options.out / "log.txt")
    if options.evaluate:
        held = zoom.load(options.data)[1]
        return measure(options.evaluate, options, held, make_cases(held), log)
    if not options.export:
        train(options, log)
    finish(torch.load(options.export or options.out / "model.pt", map_location="cpu"), options, log)


if __name__ == "__main__":
    main()
