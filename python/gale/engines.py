"""A model in gale and in another engine, output by output."""
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from . import _tensors
from .device import Device
from .model import Model, Value

NAMES = {name: _tensors.NUMPY[kind] for kind, name in _tensors.ONNX.items() if kind in _tensors.NUMPY}  # ONNX's to NumPy's
TOLERANCES = {"fp32": 1e-4, "fast": 1e-4, "fp16": 1e-2, "bf16": 5e-2}


def dims_of(value: Value, given: Optional[Sequence[int]]) -> List[int]:
    if given is not None:
        return list(given)
    if value.shape is None or any(not isinstance(extent, int) for extent in value.shape):
        raise ValueError(f"input {value.name}: its shape {value.shape} is open; give it in shapes, or the array in inputs")
    return [extent for extent in value.shape if isinstance(extent, int)]


def made_up(value: Value, given: Optional[Sequence[int]], rng: np.random.Generator) -> np.ndarray:
    """Floats between -1 and 1, integers and booleans of 0 and 1: those are indices or masks that every model takes."""
    if value.kind != "tensor" or value.type not in NAMES:
        raise ValueError(f"input {value.name}: a {value.kind} of {value.type} cannot be made up; give it in inputs")
    dims, kind = dims_of(value, given), np.dtype(NAMES[value.type])
    if np.issubdtype(kind, np.floating):
        return rng.uniform(-1, 1, dims).astype(kind)
    return rng.integers(0, 2, dims).astype(kind)


def difference(name: str, ours: Any, theirs: Any, tolerance: float) -> Dict[str, Any]:
    """Relative difference in the L2 norm, as `gale verify` has it; NaN and infinity must be at the same places."""
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape or a.dtype.kind in "OUS":
        same = a.shape == b.shape and bool((a == b).all())
        return {"name": name, "relative": 0.0 if same else float("inf"), "largest": 0.0 if same else float("inf"), "exceeds": not same}
    a, b = a.astype(np.float64), b.astype(np.float64)
    alike = np.isfinite(a) == np.isfinite(b)
    both = np.isfinite(a) & np.isfinite(b)
    apart, size = np.where(both, a, 0) - np.where(both, b, 0), float(np.linalg.norm(np.where(both, b, 0)))
    relative = float(np.linalg.norm(apart)) / (size or 1.0) if alike.all() else float("inf")
    return {"name": name, "relative": relative, "largest": float(np.abs(apart).max(initial=0)), "exceeds": not relative <= tolerance}


def verify_against(engine: str, path: Union[str, "os.PathLike[Any]"], device: Union[Device, str, None], shapes: Optional[Mapping[str, Sequence[int]]],
                   inputs: Optional[Mapping[str, Any]], tolerance: float, precision: str) -> Dict[str, Any]:
    if engine != "onnxruntime":
        raise ValueError(f"against {engine!r}: only \"onnxruntime\" is known")
    import onnxruntime  # pylint: disable=import-outside-toplevel,import-error
    rng, limit = np.random.default_rng(1), tolerance or TOLERANCES[precision]
    with Model(path, device, precision) as model:
        feed = {value.name: (inputs or {})[value.name] if value.name in (inputs or {}) else made_up(value, (shapes or {}).get(value.name), rng)
                for value in model.inputs if value.name in (inputs or {}) or not value.optional}
        names = [value.name for value in model.outputs]
        ours = model.run(feed)
    theirs = onnxruntime.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"]).run(names, dict(feed))
    values = [difference(name, ours[name], result, limit) for name, result in zip(names, theirs)]
    return {"model": os.fspath(path), "against": f"{engine} {onnxruntime.__version__}", "tolerance": limit, "values": values,
            "exceeding": sum(value["exceeds"] for value in values)}
