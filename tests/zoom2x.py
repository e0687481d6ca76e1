#!/usr/bin/env python3
"""`gale upscale` with the embedded network, file to file: the same picture on every device, and a better one than cubic interpolation.

usage: zoom2x.py PROGRAM SOURCE_ROOT"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

gale, root = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "scripts"))
sys.dont_write_bytecode = True
import scene  # noqa: E402
from counted import check, finish, skip  # noqa: E402

WIDTH, HEIGHT = 192, 128  # of the large picture, which is the truth
PRECISIONS = {"fp32": 50, "fast": 50, "fp16": 50, "bf16": 40}  # dB to the CPU in fp32


def run(*arguments):
    return subprocess.run([gale, *map(str, arguments)], capture_output=True, text=True, timeout=280, env={**os.environ, "GALE_WATCHDOG_S": "250"})


def cubic(x):
    x = abs(x)
    return 1.5 * x**3 - 2.5 * x**2 + 1 if x < 1 else -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0


def taps(size, target):
    """Of each target pixel: [(source pixel, weight)], antialiased when shrinking."""
    wide = max(1, size / target)
    for i in range(target):
        centre = (i + 0.5) * size / target
        row = [(j, w) for j in range(size) if (w := cubic((j + 0.5 - centre) / wide))]
        total = sum(w for _, w in row)
        yield [(j, w / total) for j, w in row]


def resize(pixels, width, height, wide, high):
    rows = [[[sum(w * pixels[3 * (y * width + j) + c] for j, w in row) for c in range(3)] for row in taps(width, wide)] for y in range(height)]
    down = list(taps(height, high))
    return bytes(min(255, max(0, round(sum(w * rows[j][x][c] for j, w in row)))) for row in down for x in range(wide) for c in range(3))


def crop(pixels, width, left, top, wide, high):
    return b"".join(pixels[3 * (y * width + left):3 * (y * width + left + wide)] for y in range(top, top + high))


def enlarge(name, *arguments):
    """True when `gale upscale` did it."""
    done = run("upscale", *arguments)
    if "this build does not include it" in done.stderr:
        skip(name, done.stderr.strip())
    elif done.returncode:
        check(name, False, done.stderr.strip())
    return done.returncode == 0


def difference(a, b):
    """PSNR in dB and the largest difference in levels."""
    said = json.loads(run("compare", a, b, "--json").stdout)
    return (float("inf"), 0) if said["identical"] else (said["colours"]["psnr_db"], round(said["colours"]["largest_of_255"]))


def quality(folder):
    large, tiled = folder / "large.png", folder / "tiled.png"
    if not enlarge("quality", folder / "small.png", "-o", large, "-p", "cpu"):
        return
    network, plain = difference(large, folder / "truth.png")[0], difference(folder / "cubic.png", folder / "truth.png")[0]
    print(f"zoom2x: {network:.2f} dB, cubic {plain:.2f} dB")
    check("better than cubic", network > plain + 1, f"{network:.2f} dB, cubic {plain:.2f} dB")
    if enlarge("tiles", folder / "small.png", "-o", tiled, "-p", "cpu", "--tile", "40"):
        check("tiles equal the whole", difference(large, tiled)[1] <= 1, f"{difference(large, tiled)[1]} levels apart")


def precisions_agree(folder, provider):
    """Single precision on the CPU is what all are held to."""
    for precision in PRECISIONS if provider == "cpu" else ("fp32", "fp16"):
        if enlarge(f"{provider} in {precision}", folder / "part.png", "-o", folder / "other.png", "-p", provider, "--strict", "--precision", precision):
            psnr, worst = difference(folder / "cpu.png", folder / "other.png")
            print(f"{provider} in {precision}: {psnr:.1f} dB, {worst} levels apart")
            near = 0 < worst if "16" in precision else worst <= 1  # a half that gives the very same has not run
            check(f"{provider} in {precision}", near and psnr >= PRECISIONS[precision], f"{psnr:.1f} dB and {worst} levels from the CPU in fp32")


def cleaning_agrees(folder, provider):
    """The cleaning network before the other: nothing is rounded between them, so the whole is as near as one of them."""
    name = f"{provider}, cleaned"
    if enlarge(name, folder / "bit.png", "-o", folder / "other.png", "-p", provider, "--strict", "--clean", "1"):
        psnr, worst = difference(folder / "cleaned.png", folder / "other.png")
        check(name, worst <= 1, f"{psnr:.1f} dB and {worst} levels from the CPU")


def devices_agree(folder):
    here = [d["backend"] for d in json.loads(run("devices", "--json").stdout)["devices"]]
    if not enlarge("cpu", folder / "part.png", "-o", folder / "cpu.png", "-p", "cpu"):
        return
    if not enlarge("cpu, cleaned", folder / "bit.png", "-o", folder / "cleaned.png", "-p", "cpu", "--clean", "1"):
        return
    for provider in ("cpu", "cuda", "hip", "opencl", "vulkan"):
        if provider not in here:
            skip(provider, "no such device here")
        elif os.environ.get("GALE_TEST_LIGHT"):
            skip(provider, "takes too long here")
        else:
            precisions_agree(folder, provider)
            cleaning_agrees(folder, provider)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        truth = scene.render(WIDTH, HEIGHT, 3)
        small = resize(truth, WIDTH, HEIGHT, WIDTH // 2, HEIGHT // 2)
        scene.write_png(folder / "truth.png", WIDTH, HEIGHT, truth)
        scene.write_png(folder / "small.png", WIDTH // 2, HEIGHT // 2, small)
        scene.write_png(folder / "cubic.png", WIDTH, HEIGHT, resize(small, WIDTH // 2, HEIGHT // 2, WIDTH, HEIGHT))
        scene.write_png(folder / "part.png", 48, 40, crop(small, WIDTH // 2, 32, 12, 48, 40))  # drivers that run on the CPU are slow
        scene.write_png(folder / "bit.png", 22, 18, crop(small, WIDTH // 2, 40, 20, 22, 18))
        quality(folder)
        devices_agree(folder)
    sys.exit(finish())


main()
