#!/usr/bin/env python3
"""Trains and measures the 2x network that `gale upscale` carries inside.

Reads the file scripts/upscaler-data.py makes, trains for a given time, and
writes an ONNX model with f16 weights, a log and a comparison picture. With
--evaluate MODEL it trains nothing and prints the table of a finished model.
Needs torch and numpy, onnx to export, onnxruntime to evaluate. See docs/upscaler-training.md.
"""
import argparse
import functools
import io
import lzma
import math
import pathlib
import struct
import sys
import time
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

# ---- data


def unpack(planes):
    """Undoes pack() of upscaler-data.py: differences to the left, then to green."""
    planes = np.cumsum(planes, axis=-1, dtype=np.uint8)
    planes[..., 0, :, :] += planes[..., 1, :, :]
    planes[..., 2, :, :] += planes[..., 1, :, :]
    return planes


def load(path):
    """Training crops [n, 3, h, w] and held-out pictures {name: [3, h, w]}, all u8."""
    arrays = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
    held = {name[5:]: unpack(arrays[name]) for name in arrays.files if name.startswith("held_")}
    return unpack(arrays["train"]), held


# ---- resampling, as matrices: the same code halves patches, and enlarges by Lanczos to compare with


def cubic(x):
    x = abs(x)
    return 1.5 * x**3 - 2.5 * x**2 + 1 if x < 1 else -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def lanczos(x):
    return float(np.sinc(x) * np.sinc(x / 3)) if abs(x) < 3 else 0.0


def triangle(x):
    return max(0.0, 1 - abs(x))


def box(x):
    return 1.0 if -0.5 < x <= 0.5 else 0.0


SUPPORT = {cubic: 2, lanczos: 3, triangle: 1, box: 0.5}


@functools.lru_cache(maxsize=None)
def resize_matrix(size, target, kernel):
    """[target, size]: antialiased when shrinking; what lies outside is left out and the rest renormalised."""
    scale = max(1.0, size / target)
    matrix = np.zeros((target, size), np.float64)
    for row in range(target):
        center = (row + 0.5) * size / target
        first = max(0, int(center - SUPPORT[kernel] * scale - 1))
        last = min(size, int(center + SUPPORT[kernel] * scale + 2))
        for column in range(first, last):
            matrix[row, column] = kernel((column + 0.5 - center) / scale)
    return torch.tensor(matrix / matrix.sum(axis=1, keepdims=True), dtype=torch.float32)


def resize(picture, height, width, kernel):
    """[..., h, w] to [..., height, width]."""
    down = resize_matrix(picture.shape[-2], height, kernel).to(picture.device)
    across = resize_matrix(picture.shape[-1], width, kernel).to(picture.device)
    return down @ picture @ across.T


def round8(picture):
    return (picture.clamp(0, 1) * 255).round() / 255


# ---- the small pictures the network sees


QUANT = torch.tensor([  # the luma table of the JPEG standard, annex K
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99], dtype=torch.float32).view(8, 8)
DCT = torch.tensor([[math.sqrt((1 if k == 0 else 2) / 8) * math.cos(math.pi * (n + 0.5) * k / 8)
                     for n in range(8)] for k in range(8)], dtype=torch.float32)


def jpeg(picture, quality):
    """Slight JPEG noise on [b, 3, h, w], h and w multiples of 8; quality [b], 50..100."""
    dct, quant = DCT.to(picture.device), QUANT.to(picture.device)
    b, c, h, w = picture.shape
    step = (quant * ((100 - quality) / 50).view(b, 1, 1, 1, 1, 1)).round().clamp(min=1) / 255
    blocks = picture.view(b, c, h // 8, 8, w // 8, 8).transpose(3, 4)
    coded = ((dct @ blocks @ dct.T) / step).round() * step
    return (dct.T @ coded @ dct).transpose(3, 4).reshape(b, c, h, w)


class Patches:
    """Random pairs (small, large) from crops that stay on the device."""

    kernels = (cubic, cubic, cubic, lanczos, box, triangle)

    def __init__(self, crops, patch, device, dirty):
        self.crops = torch.from_numpy(crops).to(device)
        self.patch, self.device, self.dirty = patch, device, dirty
        self.halves = torch.stack([resize_matrix(patch, patch // 2, k) for k in self.kernels]).to(device)

    def large(self, batch):
        n, _, height, width = self.crops.shape
        pick = torch.randint(n, (batch,), device=self.device).view(-1, 1, 1, 1)
        span = torch.arange(self.patch, device=self.device)
        rows = torch.randint(height - self.patch + 1, (batch, 1), device=self.device) + span
        columns = torch.randint(width - self.patch + 1, (batch, 1), device=self.device) + span
        mirrored = torch.rand(batch, 1, device=self.device) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
        channels = torch.arange(3, device=self.device).view(1, 3, 1, 1)
        patches = self.crops[pick, channels, rows.view(batch, 1, -1, 1), columns.view(batch, 1, 1, -1)]
        half = batch // 2  # turned and mirrored: with both flips every orientation occurs
        patches = torch.cat([patches[:half], patches[half:].transpose(2, 3).flip(2)])
        return patches.float() / 255

    def small(self, large):
        batch = large.shape[0]
        halve = self.halves[torch.randint(len(self.kernels), (batch,), device=self.device)].unsqueeze(1)
        small = round8(halve @ large @ halve.transpose(2, 3))
        quality = 80 + 19 * torch.rand(batch, device=self.device)
        spoiled = torch.rand(batch, 1, 1, 1, device=self.device) < self.dirty
        return torch.where(spoiled, round8(jpeg(small, quality)), small)

    def next(self, batch):
        large = self.large(batch)
        return self.small(large), large


# ---- the network


class Upscaler(nn.Module):
    """Convolutions at the small size, pixel shuffle, added to the picture enlarged linearly."""

    def __init__(self, channels, depth):
        super().__init__()
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.slopes = nn.ModuleList(nn.PReLU(channels, init=0.1) for _ in range(depth + 1))
        self.tail = nn.Conv2d(channels, 12, 3, padding=1)
        for conv in [self.head, *self.body]:
            nn.init.kaiming_normal_(conv.weight, a=0.1)
            nn.init.zeros_(conv.bias)
        nn.init.normal_(self.tail.weight, std=0.005)
        nn.init.zeros_(self.tail.bias)

    def forward(self, x):
        first = h = self.slopes[0](self.head(x))
        for conv, slope in zip(self.body, self.slopes[1:]):
            h = slope(conv(h))
        detail = F.pixel_shuffle(self.tail(h + first), 2)
        return detail + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def export(model, path):
    """ONNX, opset 17: weights are f16 in the file and cast to f32 when loaded."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, weights = [], []

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def weight(name, tensor):
        weights.append(numpy_helper.from_array(tensor.detach().cpu().numpy().astype(np.float16), name + "_f16"))
        return node("Cast", [name + "_f16"], name, to=TensorProto.FLOAT)

    def conv(name, module, x):
        inputs = [x, weight(name + "_w", module.weight), weight(name + "_b", module.bias)]
        return node("Conv", inputs, name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def prelu(name, module, x):
        return node("PRelu", [x, weight(name + "_s", module.weight.view(-1, 1, 1))], name)

    first = h = prelu("act0", model.slopes[0], conv("conv0", model.head, "x"))
    for i, (layer, slope) in enumerate(zip(model.body, model.slopes[1:]), 1):
        h = prelu(f"act{i}", slope, conv(f"conv{i}", layer, h))
    h = conv("tail", model.tail, node("Add", [h, first], "skip"))
    # CRD is the channel order of torch's pixel_shuffle.
    h = node("DepthToSpace", [h], "detail", blocksize=2, mode="CRD")
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    base = node("Resize", ["x", "", "scales"], "base", mode="linear", coordinate_transformation_mode="half_pixel")
    node("Add", [h, base], "y")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "upscale2x", [value("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [value("y", TensorProto.FLOAT, ["n", 3, "2*h", "2*w"])], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="gale train-upscaler",
                              ir_version=8)
    onnx.checker.check_model(proto)
    path.write_bytes(proto.SerializeToString())


def onnx_runner(path):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"x": x.cpu().numpy()})[0])


# ---- measuring


LUMA = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)


def psnr(a, b):
    return -10 * math.log10(max(1e-10, float(((a - b) ** 2).mean())))


def both_psnr(a, b):
    luma = LUMA.to(a.device)
    return psnr(a, b), psnr((a * luma).sum(1), (b * luma).sum(1))


@torch.no_grad()
def evaluate(run, held, device):
    """Rows (name, {method: (rgb, luma)}), and the pictures themselves. Halved by bicubic, rounded to 8 bit."""
    rows, pictures = [], {}
    for name, pixels in held.items():
        large = torch.from_numpy(pixels).to(device).float()[None] / 255
        h, w = large.shape[-2:]
        small = round8(resize(large, h // 2, w // 2, cubic))
        results = {"bicubic": round8(resize(small, h, w, cubic)), "lanczos": round8(resize(small, h, w, lanczos)),
                   "network": round8(run(small).float().to(device))}
        rows.append((name, {method: both_psnr(result, large) for method, result in results.items()}))
        pictures[name] = [results["bicubic"], results["lanczos"], results["network"], large]
    return rows, pictures


def mean(rows, method, which):
    return sum(figures[method][which] for _, figures in rows) / len(rows)


def table(rows):
    lines = ["| photograph | bicubic | Lanczos | network | gain over Lanczos | luma: Lanczos | network |",
             "|---|---|---|---|---|---|---|"]
    methods = ("bicubic", "lanczos", "network")
    average = {m: (mean(rows, m, 0), mean(rows, m, 1)) for m in methods}
    for name, f in rows + [("mean", average)]:
        b, l, n = (f[m] for m in methods)
        lines.append(f"| {name} | {b[0]:.2f} | {l[0]:.2f} | {n[0]:.2f} | {n[0] - l[0]:+.2f} | {l[1]:.2f} | {n[1]:.2f} |")
    return "\n".join(lines)


def write_png(path, pixels):
    """pixels [h, w, 3] u8."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = pixels.reshape(height, -1)
    above = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])  # filter 2: doubled rows cost nothing
    lines = np.concatenate([np.full((height, 1), 2, np.uint8), rows - above], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                     + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b""))


def busiest(large, size):
    """Top left of the window with most detail, the place where methods differ."""
    y = large.mean(1, keepdim=True)
    busy = F.avg_pool2d((y - F.avg_pool2d(y, 3, 1, 1)).abs(), size, 8)
    row, column = divmod(int(busy.flatten().argmax()), busy.shape[-1])
    return row * 8, column * 8


def compare(path, pictures, size=96, zoom=2, most=5):
    """One line per photograph: bicubic, Lanczos, network, original; each pixel drawn zoom times.
    The first five are CC0, so that the picture may be shown anywhere."""
    rows = []
    for images in list(pictures.values())[:most]:
        top, left = busiest(images[3], size)
        rows.append(torch.cat([F.pad(i[..., top:top + size, left:left + size], (0, 2), value=1) for i in images], 3))
    sheet = torch.cat([F.pad(row, (0, 0, 0, 2), value=1) for row in rows], 2)[0]
    pixels = (sheet.permute(1, 2, 0).cpu().numpy() * 255).round().astype(np.uint8)
    write_png(path, pixels.repeat(zoom, axis=0).repeat(zoom, axis=1))


# ---- training


class Log:
    def __init__(self, path):
        self.file = open(path, "w")

    def __call__(self, text):
        print(text, flush=True)
        print(text, file=self.file, flush=True)


def smooth(average, model, decay):
    with torch.no_grad():
        targets = list(average.parameters())
        torch._foreach_lerp_(targets, list(model.parameters()), 1 - decay)


def train(options, crops, held, log):
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    patches = Patches(crops, options.patch, device, options.dirty)
    model = Upscaler(options.channels, options.depth).to(device, memory_format=torch.channels_last)
    average = Upscaler(options.channels, options.depth).to(device)
    average.load_state_dict(model.state_dict())
    log(f"{sum(p.numel() for p in model.parameters())} parameters, {len(crops)} crops, {device}, seed {options.seed}")
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate, betas=(0.9, 0.99),
                                 fused=device.type == "cuda")
    begin = report = time.monotonic()
    step, total = 0, options.minutes * 60
    forward = torch.compile(model) if options.compile else model
    while (spent := time.monotonic() - begin) < total:
        rate = options.rate * min(1, (step + 1) / 200) * (0.5 + 0.5 * math.cos(math.pi * spent / total)) + 1e-6
        for group in optimizer.param_groups:
            group["lr"] = rate
        small, large = patches.next(options.batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            guess = forward(small.contiguous(memory_format=torch.channels_last))
        loss = ((guess.float() - large) ** 2 + 1e-6).sqrt().mean()  # Charbonnier
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        smooth(average, model, min(0.999, step / (step + 10)))
        step += 1
        if time.monotonic() - report > options.report:
            report = time.monotonic()
            rows, _ = evaluate(average, held, device)
            log(f"{spent:6.0f} s  step {step:6d}  rate {rate:.1e}  loss {loss.item():.5f}  "
                f"rgb {mean(rows, 'network', 0):.3f}  lanczos {mean(rows, 'lanczos', 0):.3f}  "
                f"luma {mean(rows, 'network', 1):.3f}")
    log(f"{step} steps in {time.monotonic() - begin:.0f} s")
    return average.eval()


def check_export(model, path, log):
    """The file must say what torch computes; only the f16 rounding of weights lies between them."""
    x = torch.rand(1, 3, 37, 53)
    with torch.no_grad():
        here = model.cpu()(x)
        for p in model.parameters():
            p.copy_(p.half().float())
        rounded = model(x)
    there = onnx_runner(path)(x)
    error, drift = float((there - rounded).abs().max()), float((here - rounded).abs().max())
    log(f"{path.name}: {path.stat().st_size} bytes; onnxruntime - torch {error:.1e}; f16 weights shift by {drift:.1e}")
    if error > 1e-4:
        sys.exit("train-upscaler: the exported model does not compute what torch computes; export() is wrong")
    if path.stat().st_size > 300_000:
        log("the model is larger than 300,000 bytes: too large to embed; take fewer --channels or less --depth")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, default="upscaler-data.npz.xz", help="from upscaler-data.py")
    p.add_argument("--out", type=pathlib.Path, default=".", help="folder for model.onnx, log.txt, compare.png")
    p.add_argument("--evaluate", type=pathlib.Path, metavar="MODEL", help="measure this ONNX file and stop")
    p.add_argument("--minutes", type=float, default=5)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--channels", type=int, default=48)
    p.add_argument("--depth", type=int, default=6)
    p.add_argument("--patch", type=int, default=128, help="side of a large patch, a multiple of 16")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--dirty", type=float, default=0.15, help="share of inputs with slight JPEG noise")
    p.add_argument("--report", type=float, default=60, help="seconds between measurements")
    p.add_argument("--compile", action="store_true", help="let torch compile the network")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    log = Log(options.out / "log.txt")
    crops, held = load(options.data)
    path = options.evaluate
    if path is None:
        path = options.out / "model.onnx"
        model = train(options, crops, held, log)
        export(model, path)
        check_export(model, path, log)
    rows, pictures = evaluate(onnx_runner(path), held, "cpu")
    log(table(rows))
    compare(options.out / "compare.png", pictures)


if __name__ == "__main__":
    main()
