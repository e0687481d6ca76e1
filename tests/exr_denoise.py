#!/usr/bin/env python3
"""The U-Net of Open Image Denoise in `gale exr denoise` beside the same network in PyTorch, or in NumPy where PyTorch is
not installed.

usage: exr_denoise.py GALE SOURCE BUILD       with a Python of the build's own, and the weights of ../shared/data
       exr_denoise.py --work GALE FOLDER_OF_WEIGHTS

Skips, said aloud, without OpenEXR's Python module or the weights.
"""
import pathlib, struct, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402

torch = None
if "--work" in sys.argv:
    import numpy as np
    import OpenEXR

    try:
        import torch
    except ImportError:
        pass

A, B, C, D = 1.41283765e03, 1.64593172e00, 4.31384981e-01, -2.94139609e-03
E, F, G = 1.92653254e-01, 6.26026094e-03, 9.98620152e-01
Y0, Y1, X0, X1 = 1.57945760e-06, 3.22087631e-02, 2.23151711e-03, 3.70974749e-01


def read_tza(path):
    data = open(path, "rb").read()
    (at,) = struct.unpack_from("<Q", data, 4)
    (count,), out = struct.unpack_from("<I", data, at), {}
    at += 4
    for _ in range(count):
        (n,) = struct.unpack_from("<H", data, at)
        name, rank = data[at + 2 : at + 2 + n].decode(), data[at + 2 + n]
        at += 3 + n
        dims = struct.unpack_from(f"<{rank}I", data, at)
        at += 5 * rank
        kind, place = chr(data[at]), struct.unpack_from("<Q", data, at + 1)[0]
        at += 9
        values = np.frombuffer(data, "<f2" if kind == "h" else "<f4", int(np.prod(dims)), place)
        out[name] = values.reshape(dims).astype(np.float64)
    return out


def forward(y):
    v = np.where(y <= Y0, A * y, np.where(y <= Y1, B * np.maximum(y, 1e-30) ** C + D, E * np.log(y + F) + G))
    return v / (E * np.log(65504 + F) + G)


def inverse(x):
    x = x * (E * np.log(65504 + F) + G)
    return np.where(x <= X0, x / A, np.where(x <= X1, np.maximum((x - D) / B, 0) ** (1 / C), np.exp((x - G) / E) - F))


def conv(weights, x, name):
    w, b = weights[name + ".weight"], weights[name + ".bias"]
    if torch:
        y = torch.nn.functional.conv2d(torch.from_numpy(x[None]), torch.from_numpy(w), torch.from_numpy(b), padding=1)
        return np.maximum(y[0].numpy(), 0)
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    h, wide = x.shape[1:]
    y = b[:, None, None] + sum(
        np.einsum("oi,ihw->ohw", w[:, :, i, j], p[:, i : i + h, j : j + wide]) for i in range(3) for j in range(3)
    )
    return np.maximum(y, 0)


def network(weights, x):
    c = lambda v, *names: c(conv(weights, v, names[0]), *names[1:]) if names else v
    pool = lambda v: v.reshape(v.shape[0], v.shape[1] // 2, 2, v.shape[2] // 2, 2).max((2, 4))
    up = lambda v, beside: np.concatenate([v.repeat(2, 1).repeat(2, 2), beside])
    a = pool(c(x, "enc_conv0", "enc_conv1"))
    b = pool(c(a, "enc_conv2"))
    d = pool(c(b, "enc_conv3"))
    v = c(pool(c(d, "enc_conv4")), "enc_conv5a", "enc_conv5b")
    v = c(up(v, d), "dec_conv4a", "dec_conv4b")
    v = c(up(v, b), "dec_conv3a", "dec_conv3b")
    v = c(up(v, a), "dec_conv2a", "dec_conv2b")
    return c(up(v, x), "dec_conv1a", "dec_conv1b", "dec_conv0")


def exposure(rgb):
    l = np.tensordot([0.212671, 0.715160, 0.072169], rgb, 1)
    h, w = l.shape
    rows, columns, logs = -(-h // 16), -(-w // 16), []
    for i in range(rows):
        for j in range(columns):
            mean = l[i * h // rows : (i + 1) * h // rows, j * w // columns : (j + 1) * w // columns].mean()
            if mean > 1e-8:
                logs.append(np.log2(mean))
    return 0.18 / 2 ** np.mean(logs)


def write(path, channels):
    OpenEXR.File({"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}, channels).write(path)


def run(gale, weights, folder, guided):
    rng = np.random.default_rng(5)
    h, w = 64, 96
    smooth = rng.random((3, h // 8, w // 8)).repeat(8, 1).repeat(8, 2) * 4
    light = (smooth * rng.gamma(2, 0.5, (3, h, w))).astype(np.float32)
    albedo = (smooth / 4).astype(np.float32)
    normal = rng.uniform(-1, 1, (3, h, w)).astype(np.float32)
    channels = {n: light[i] for i, n in enumerate("RGB")}
    if guided:
        channels |= {f"albedo.{n}": albedo[i] for i, n in enumerate("RGB")}
        channels |= {f"normal.{n}": normal[i] for i, n in enumerate("XYZ")}
    source, result = f"{folder}/in.exr", f"{folder}/out.exr"
    write(source, channels)
    said = subprocess.run([gale, "exr", "denoise", source, "--weights", weights, "-o", result], check=True, capture_output=True, text=True).stdout
    have = OpenEXR.File(result, separate_channels=True).parts[0].channels
    have = np.stack([have[n].pixels for n in "RGB"]).astype(np.float64)
    scale = exposure(light.astype(np.float64))
    x = forward(np.minimum(light.astype(np.float64) * scale, 65504))
    if guided:
        x = np.concatenate([x, np.clip(albedo, 0, 1), normal * 0.5 + 0.5])
    want = inverse(network(read_tza(f"{weights}/rt_hdr{'_alb_nrm' if guided else ''}.tza"), x)) / scale
    error = np.linalg.norm(have - want) / np.linalg.norm(want)
    good = error < 1e-4 and ("albedo" in said) == guided
    print(f"{'ok  ' if good else 'FAIL'} exr_denoise: {'guided' if guided else 'colours'}: relative error {error:.2e}")
    return good


def work(gale, weights):
    with tempfile.TemporaryDirectory() as folder:
        good = [run(gale, weights, folder, guided) for guided in (False, True)]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if all(good) else 1


def main():
    if sys.argv[1] == "--work":
        return work(*sys.argv[2:4])
    gale, source, build = sys.argv[1:4]
    weights = pathlib.Path(source).parent / "shared/data/oidn"
    if not weights.is_dir():
        return private_python.skip("exr denoise beside its peer", f"no weights at {weights}")
    python, why = private_python.find(build, ["numpy", "OpenEXR"])
    if not python:
        return private_python.skip("exr denoise beside its peer", why)
    return subprocess.run([str(python), __file__, "--work", gale, str(weights)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
