#!/usr/bin/env python3
"""Real networks through `gale run`, beside ONNX Runtime: results must agree within the numeric contract.

usage: models.py GALE SOURCE BUILD [PROVIDERS]

The networks lie in shared/data/models beside the project, or where GALE_TEST_DATA says; ONNX Runtime comes from PyPI into a folder of the build.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402

# Extents of inputs that a file leaves open, by input; "*" for all of them.
MODELS = {
    "SINet_Softmax_simple.onnx": [{}],
    "mediapipe.onnx": [{}],
    "selfie_segmentation.onnx": [{}],
    "u2netp.onnx": [{}],
    "modnet.onnx": [{"*": (1, 3, 96, 128)}, {"*": (1, 3, 64, 64)}, {"*": (2, 3, 32, 96)}],
    "esrgan-slim-x2.onnx": [{"*": (1, 3, 48, 40)}],
    "esrgan-slim-x4.onnx": [{"*": (1, 3, 24, 32)}],
    "esrgan-medium-x2.onnx": [{"*": (1, 3, 32, 32)}],
    "zoom2x-ctrl.onnx": [{"x": (1, 3, 32, 48), "c": (1, 3)}],
    "all-MiniLM-L6-v2/model.onnx": [{"*": (2, 16)}, {"*": (1, 5)}],
    "scunet.onnx": [{"*": (1, 3, 64, 64)}],
}
NEAR = 1e-5  # absolute, for results that are nearly 0 everywhere


def photograph(shape, rng):
    """Smooth colours with some grain: random noise drives networks into corners where everything is 0."""
    import numpy as np
    height, width = (shape[2], shape[3]) if len(shape) == 4 and shape[1] <= 4 else (shape[1], shape[2]) if len(shape) == 4 else (1, shape[-1])
    y, x = np.mgrid[0:height, 0:width] / max(height, width, 1)
    base = 0.5 + 0.3 * np.sin(5 * x + 1) * np.cos(4 * y) + 0.05 * rng.standard_normal((height, width))
    planes = base[None, None] if len(shape) == 4 and shape[1] <= 4 else base[None, :, :, None] if len(shape) == 4 else base
    return np.broadcast_to(planes, shape).astype(np.float32).copy() if len(shape) == 4 else rng.random(shape, dtype=np.float32)


def feeds_for(session, extents):
    import numpy as np
    rng, feeds = np.random.default_rng(7), {}
    for i in session.get_inputs():
        shape = extents.get(i.name, extents.get("*")) or [d if isinstance(d, int) else 1 for d in i.shape]
        if "int64" in i.type:
            ids = "mask" not in i.name and "type" not in i.name
            feeds[i.name] = rng.integers(0, 30000, shape) if ids else np.ones(shape, np.int64) if "mask" in i.name else np.zeros(shape, np.int64)
        else:
            feeds[i.name] = photograph(tuple(shape), rng)
    return feeds


def work(gale, folder_of_models, providers):
    import beside_ort
    import onnxruntime
    passed = failed = skipped = 0
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    for name, sizes in MODELS.items():
        path = folder_of_models / name
        if not path.exists():
            print(f"SKIP {name}: it is not here")
            skipped += 1
            continue
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for extents in sizes:
            feeds = feeds_for(session, extents)
            expected = session.run(None, feeds)
            moved = beside_ort.conditions(session, feeds, expected)  # other orders of summing show there; the CPU is held to less
            for provider in providers:
                with tempfile.TemporaryDirectory() as temporary:
                    names = [output.name for output in session.get_outputs()]
                    wrong = beside_ort.compare(gale, provider, path, names, feeds, expected, pathlib.Path(temporary), NEAR, moved, 2 if provider == "cpu" else 4)
                passed, failed = passed + (wrong is None), failed + (wrong is not None)
                if wrong:
                    print(f"FAIL {name} {extents} on {provider}: {wrong}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


def main():
    gale, source, build = sys.argv[1:4]
    providers = sys.argv[4].split(",") if len(sys.argv) > 4 else ["cpu"]
    models = pathlib.Path(os.environ.get("GALE_TEST_DATA", pathlib.Path(source).parent / "shared" / "data")) / "models"
    if not models.exists():
        return private_python.skip("real models", "shared/data/models is not beside the project")
    if os.environ.get("GALE_TEST_INSIDE"):
        return work(gale, models, providers)
    python, why = private_python.find(build, ["onnxruntime", "numpy"])
    if not python:
        return private_python.skip("real models", why)
    return subprocess.run([str(python), *sys.argv], env={**os.environ, "GALE_TEST_INSIDE": "1"}, check=False).returncode


sys.exit(main())
