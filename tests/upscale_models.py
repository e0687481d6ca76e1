#!/usr/bin/env python3
"""Real networks on a real photograph through `gale upscale`, from file to file: the gain that ONNX Runtime reaches with the whole picture, in tiles and without.

usage: upscale_models.py GALE SOURCE BUILD [PROVIDERS]

Photograph and networks lie in shared/data beside the project, or where GALE_TEST_DATA says; ONNX Runtime comes from PyPI into a folder of the build.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402
from counted import check, finish, skip  # noqa: E402

PHOTO, CORNER, SIDE = "casa-mila.jpg", (640, 400), 384  # of the photograph, before it is halved
DB = 0.1


def halve(picture, factor=0.5):
    """Bicubic, with antialiasing where it shrinks; floats 0..1 [height][width][3] in and out."""
    import numpy as np
    from PIL import Image
    size = (round(picture.shape[1] * factor), round(picture.shape[0] * factor))
    planes = [np.asarray(Image.fromarray(picture[:, :, c].astype(np.float32)).resize(size, Image.BICUBIC)) for c in range(3)]
    return np.clip(np.stack(planes, -1), 0, 1)


def round8(picture):
    import numpy as np
    return np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)


def psnr(a, b):
    import numpy as np
    return 10 * np.log10(255**2 / np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2))


def write_pfm(path, picture):
    import numpy as np
    with open(path, "wb") as f:
        f.write(b"PF\n%d %d\n-1.0\n" % (picture.shape[1], picture.shape[0]) + np.ascontiguousarray(picture[::-1], "<f4").tobytes())


def read_pfm(path):
    import numpy as np
    kind, size, scale, data = pathlib.Path(path).read_bytes().split(b"\n", 3)
    width, height = map(int, size.split())
    return np.frombuffer(data, "<f4" if float(scale) < 0 else ">f4", width * height * 3).reshape(height, width, 3)[::-1]


class Network:
    """A network of the data folder: by ONNX Runtime with the whole picture, and by gale."""

    def __init__(self, gale, provider, path, folder):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.gale, self.provider, self.path, self.folder = gale, provider, path, folder
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def expected(self, picture, control=(0, 0, 0)):
        import numpy as np
        names = [i.name for i in self.session.get_inputs()]
        feeds = {names[0]: picture.astype(np.float32).transpose(2, 0, 1)[None]}
        if len(names) > 1:
            feeds[names[1]] = np.array([control], np.float32)
        return self.session.run(None, feeds)[0][0].transpose(1, 2, 0)

    def command(self, source, result, *args):
        return subprocess.run([self.gale, "upscale", source, "-o", result, "-m", str(self.path), "--provider", self.provider, "--strict", *args], capture_output=True, text=True, check=False)

    def run(self, picture, *args):
        """8 bit in and out, by PNG files; None when it fails, which is then counted."""
        import numpy as np
        from PIL import Image
        source, result = self.folder / "in.png", self.folder / "out.png"
        Image.fromarray(picture).save(source)
        done = self.command(source, result, *args)
        if done.returncode:
            check(f"{self.path.name} {' '.join(args)} on {self.provider}", False, done.stderr.strip())
            return None
        return np.asarray(Image.open(result))

    def run_float(self, picture, *args):
        write_pfm(self.folder / "in.pfm", picture)
        done = self.command(self.folder / "in.pfm", self.folder / "out.pfm", *args)
        if done.returncode:
            check(f"{self.path.name} {' '.join(args)} on {self.provider}", False, done.stderr.strip())
            return None
        return read_pfm(self.folder / "out.pfm")

    def holds(self, what, picture, truth, before, least, wanted, *args):
        """gale's result is worth what ONNX Runtime's is, and that is at least so much more than before."""
        name = f"{what} on {self.provider}"
        result = self.run(picture, *args)
        if result is None:
            return
        here, there, old = psnr(result, truth), psnr(round8(wanted), truth), psnr(before, truth)
        check(f"{name}: gain", abs(here - there) <= DB and here - old >= least, f"{old:.2f} dB before, {here:.2f} dB by gale, {there:.2f} dB by ONNX Runtime; at least {least} dB are to be gained")
        print(f"{name}: {old:.2f} dB before, {here:.2f} dB after, {there:.2f} dB by ONNX Runtime")


def restore(network, clean):
    """SCUNet on noise of sigma 25."""
    import numpy as np
    noisy = round8(clean + np.random.default_rng(25).normal(0, 25 / 255, clean.shape))
    wanted = network.expected(noisy / 255.0)
    network.holds("scunet, whole", noisy, round8(clean), noisy, 8, wanted, "--tile", "0")
    network.holds("scunet, in tiles", noisy, round8(clean), noisy, 8, wanted, "--tile", "128", "--overlap", "64")


def near(network, name, picture, wanted, *args):
    """Within one level of 8 bit of ONNX Runtime's result."""
    import numpy as np
    result = network.run(picture, *args)
    if result is not None:
        far = np.abs(result.astype(int) - round8(wanted)).max() if result.shape == wanted.shape else f"of the shape {result.shape}, not {wanted.shape}"
        check(f"{name} on {network.provider}", not isinstance(far, str) and far <= 1, f"levels apart: {far}")


def zoom(network, clean):
    """zoom2x-ctrl on the halved picture, and its controls."""
    small = round8(halve(clean))
    values, truth = small / 255.0, round8(clean)
    wanted = network.expected(values)
    cubic = round8(halve(values, 2))
    network.holds("zoom2x-ctrl, whole", small, truth, cubic, 1, wanted, "--tile", "0")
    network.holds("zoom2x-ctrl, as its manifest has it", small, truth, cubic, 1, wanted)
    network.holds("zoom2x-ctrl, in tiles", small, truth, cubic, 1, wanted, "--tile", "64", "--overlap", "32", "--batch", "2")
    near(network, "zoom2x-ctrl, controls by name", small, network.expected(values, (0.25, 0.7, 0)), "--tile", "0", "--control", "denoise=0.7", "--control", "deblur=0.25")
    near(network, "zoom2x-ctrl, all controls", small, network.expected(values, (0.1, 0.2, 0.3)), "--tile", "0", "--control", "0.1,0.2,0.3")
    near(network, "zoom2x-ctrl, a control too large", small, network.expected(values, (0, 1, 0)), "--tile", "0", "--control", "denoise=7")
    for wrong in ("denoize=1", "0.1,0.2"):
        done = network.command(network.folder / "in.png", network.folder / "none.png", "--control", wrong)
        check(f"control {wrong}", done.returncode == 1 and "deblur, denoise, deartifact" in done.stderr and not (network.folder / "none.png").exists(), done.stderr.strip())


def reach(network):
    """How far, in pixels of the input, the network looks to either side."""
    import numpy as np
    side = 160
    rng = np.random.default_rng(3)
    grey = 0.5 + 0.1 * rng.standard_normal((side, side, 3))
    dotted = grey.copy()
    dotted[side // 2, side // 2] += 0.3
    changed = np.argwhere(np.abs(network.expected(dotted) - network.expected(grey)).max(-1) > 1e-7)
    scale = network.expected(grey[:16, :16]).shape[0] // 16
    return int(np.ceil(np.abs(changed / scale - side // 2).max())) + 1


def tiles(network, clean):
    """A convolutional network whose reach the overlap covers gives the same numbers in tiles as without."""
    import numpy as np
    name, far = network.path.name, reach(network)
    overlap = 4 * far  # the outer quarter of an overlap counts for nothing
    picture = clean[: overlap + 56, : 2 * overlap + 40] if 2 * overlap + 40 <= clean.shape[1] else clean
    tile = overlap + 24
    if tile >= picture.shape[1]:
        skip(f"{name} in tiles", f"it looks {far} pixels far, too far for this picture")
        return
    runs = [network.run_float(picture, "--tile", str(t), "--overlap", str(o)) for t, o in ((0, 0), (tile, overlap), (tile, 0))]
    if any(r is None for r in runs):
        return
    apart, seams = (np.abs(r - runs[0]).max() for r in runs[1:])
    check(f"{name} in tiles of {tile} on {network.provider}", apart <= 2e-5, f"{apart:.1e} apart from the whole picture")
    check(f"{name} without an overlap on {network.provider}", seams > 1e-3, f"only {seams:.1e} apart from the whole picture: nothing was cut")
    near(network, name, round8(picture), network.expected(round8(picture) / 255.0))
    print(f"{name} on {network.provider}: looks {far} pixels far; tiles of {tile} are {apart:.1e} apart from the whole picture")


def work(gale, data, providers):
    import numpy as np
    from PIL import Image
    whole = np.asarray(Image.open(data / "photos" / PHOTO).convert("RGB"))
    clean = halve(whole[CORNER[1] : CORNER[1] + SIDE, CORNER[0] : CORNER[0] + SIDE] / 255.0)
    clean = round8(clean) / 255.0
    for name, job in {"scunet": restore, "zoom2x-ctrl": zoom, "esrgan-slim-x2": tiles, "esrgan-slim-x4": tiles}.items():
        path = data / "models" / f"{name}.onnx"
        if not path.exists():
            skip(name, "it is not here")
            continue
        for provider in providers:
            with tempfile.TemporaryDirectory() as temporary:
                job(Network(gale, provider, path, pathlib.Path(temporary)), clean)
    return finish()


def main():
    gale, source, build = sys.argv[1:4]
    providers = sys.argv[4].split(",") if len(sys.argv) > 4 else ["cpu"]
    data = pathlib.Path(os.environ.get("GALE_TEST_DATA", pathlib.Path(source).parent / "shared" / "data"))
    if not (data / "photos" / PHOTO).exists():
        return private_python.skip("real networks on photographs", "shared/data/photos is not beside the project")
    if os.environ.get("GALE_TEST_INSIDE"):
        return work(gale, data, providers)
    python, why = private_python.find(build, ["onnxruntime", "numpy", "PIL"])
    if not python:
        return private_python.skip("real networks on photographs", why)
    return subprocess.run([str(python), *sys.argv], env={**os.environ, "GALE_TEST_INSIDE": "1"}, check=False).returncode


sys.exit(main())
