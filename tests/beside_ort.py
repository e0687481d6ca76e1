"""A model through `gale run`, beside what ONNX Runtime gave for the same inputs."""
import subprocess

import numpy as np

WIDE = 1e-5  # relative L2
WAYS = 6


def distance(x, y):
    return np.linalg.norm((x - y).astype(np.float64)) / max(np.linalg.norm(y.astype(np.float64)), 1e-30)


def conditions(session, feeds, expected):
    """How far ONNX Runtime's own results move when the inputs are an ulp off, at most: small sizes drive norms over few elements into corners.
    One way differs from another by a factor of four (MODNet with 32 x 96 pixels: 1.0e-5 to 3.9e-5), so several are tried."""
    rng, moved = np.random.default_rng(5), [0.0] * len(expected)
    for _ in range(WAYS):
        nudged = {k: np.nextafter(v, np.where(rng.random(v.shape) < 0.5, -np.inf, np.inf).astype(v.dtype)) if v.dtype == np.float32 else v for k, v in feeds.items()}
        moved = [max(m, distance(x, y)) if y.dtype == np.float32 else 0 for m, x, y in zip(moved, session.run(None, nudged), expected)]
    return moved


def compare(gale, provider, path, names, feeds, expected, folder, near=0.0, moved=None, times=4):
    """None, or what is wrong.  names: of the outputs; near: an absolute difference that passes too, for results that are nearly 0 everywhere; moved: of `conditions`,
    so many times which passes."""
    command = [gale, "run", str(path), "--provider", provider, "--strict"]
    for i, (name, value) in enumerate(feeds.items()):
        np.save(folder / f"in{i}.npy", value)
        command += ["--input", f"{name}={folder}/in{i}.npy"]
    for i, name in enumerate(names):
        command += ["--output", f"{name}={folder}/out{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    for i, y in enumerate(expected):
        x = np.load(folder / f"out{i}.npy")
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"output {i} is {x.dtype}{x.shape}, ONNX Runtime's {y.dtype}{y.shape}"
        far = distance(x, y)
        if not (far <= max(WIDE, times * moved[i] if moved else 0) or np.abs(x - y).max() < near):
            return f"output {i} is {far:.1e} away from ONNX Runtime's"
    return None
