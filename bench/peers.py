#!/usr/bin/env python3
"""The work of `gale bench kernels` in PyTorch on a CUDA device: the peer's column of docs/benchmarks.md.

usage: peers.py [SCUNET.py]      -- prints the median of 30 runs, in microseconds, by CUDA events

SCUNET.py: a file that defines the network as a torch module of that name; it is timed too, with random weights, on what a picture of 1087x1087 is to `gale bench upscale`.
"""
import importlib.util
import statistics
import sys

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    sys.exit("peers.py needs PyTorch")
if not torch.cuda.is_available():
    sys.exit("peers.py needs a CUDA device")

torch.backends.cuda.matmul.allow_tf32 = False


def time_us(work):
    for _ in range(5):
        work()
    times = []
    for _ in range(30):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        work()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e3)
    return statistics.median(times)


def chain(x):
    y = F.relu(x * 1.7 + 0.3)
    return y * y - x


def tone_map(x):
    x = x * 2
    y = (x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)).clamp(0, 1)
    return (y.pow(1 / 2.2) * 255 + 0.5).to(torch.uint8)


def mip_chain(x):
    levels = [x]
    while max(levels[-1].shape[2:]) > 1:
        levels.append(F.avg_pool2d(levels[-1], [min(2, n) for n in levels[-1].shape[2:]]))
    return levels


def scunet(source):
    """36 tiles at once and one alone; convolutions in tf32 are torch's own choice, and not fp32."""
    beside = importlib.util.spec_from_file_location("scunet", source)
    module = importlib.util.module_from_spec(beside)
    beside.loader.exec_module(module)
    net, tiles = module.SCUNet().eval().cuda(), torch.rand(36, 3, 256, 256, device="cuda")
    with torch.inference_mode():
        for tf32 in (False, True):
            torch.backends.cudnn.allow_tf32 = tf32
            how = "tf32 convolutions" if tf32 else "fp32"
            print(f"SCUNet, 36 tiles, {how}: {time_us(lambda: net(tiles)) / 1e3:.1f} ms; one: {time_us(lambda: net(tiles[:1])) / 1e3:.2f} ms")
        half, halves = net.half(), tiles.half()
        print(f"SCUNet, 36 tiles, fp16: {time_us(lambda: half(halves)) / 1e3:.1f} ms")


def main():
    n = 64 << 20
    x = torch.rand(n, device="cuda")
    y = torch.empty_like(x)
    rows = {"copy 256 MiB": lambda: y.copy_(x), "chain, eager": lambda: chain(x)}
    compiled, compiled_tone = torch.compile(chain), torch.compile(tone_map)
    rows["chain, torch.compile"] = lambda: compiled(x)
    for width in (64, 1024, 16384):
        m = x.view(-1, width)
        rows[f"softmax, rows of {width}"] = lambda m=m: torch.softmax(m, -1)
        rows[f"layer norm, rows of {width}"] = lambda m=m: F.layer_norm(m, m.shape[-1:])
    picture = torch.rand(2160, 3840, 4, device="cuda")
    rows["tone map, eager"] = lambda: tone_map(picture)
    rows["tone map, torch.compile"] = lambda: compiled_tone(picture)
    planes = picture.permute(2, 0, 1)[None].contiguous(memory_format=torch.channels_last)
    rows["MIP chain, avg_pool2d"] = lambda: mip_chain(planes)
    for side in (1024, 4096):
        a, b = torch.rand(side, side, device="cuda"), torch.rand(side, side, device="cuda")
        rows[f"matmul {side}, fp32"] = lambda a=a, b=b: a @ b
    for side in (2048, 4096, 8192):  # beside `bench_matrix cuda bf16 nt`
        a, b = (torch.rand(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        rows[f"matmul {side}, bf16"] = lambda a=a, b=b.t(): a @ b
    print(torch.cuda.get_device_name(0), "torch", torch.__version__)
    for name, work in rows.items():
        print(f"{name:28s} {time_us(work):10.1f} us")
    if len(sys.argv) > 1:
        scunet(sys.argv[1])


main()
