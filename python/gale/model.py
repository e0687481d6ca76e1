"""ONNX models on NumPy arrays."""
import ctypes as c
import functools
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _tensors
from ._library import Closing, Handle, check, lib, path_bytes, take_text, text, text_bytes
from ._structs import CONSTANTS, gale_inspect_options, gale_model_options, gale_model_value, gale_verify_options
from .device import Device, device_of, result_of

PRECISIONS = {"fp32": 0, "fast": 0, "fp16": CONSTANTS["GALE_PRECISION_F16"], "bf16": CONSTANTS["GALE_PRECISION_BF16"]}
Source = Union[str, bytes, bytearray, memoryview, "os.PathLike[Any]"]


class Value(NamedTuple):
    """An input or output: shape has a number, a name or None for each axis; None as a whole where the file says nothing."""
    name: str
    kind: str  # "tensor", "sequence", "map" or "none"
    type: str  # "float", "int64" ...: of ONNX
    shape: Optional[List[Union[int, str, None]]]
    optional: bool
    has_default: bool


def value_from(raw: gale_model_value) -> Value:
    kind = ["none", "tensor", "sequence", "map"][raw.kind]
    shape = None if raw.rank < 0 else [raw.dims[i] if raw.dims[i] >= 0 else text(raw.symbols[i]) or None for i in range(raw.rank)]
    return Value(text(raw.name), kind, _tensors.onnx_name(raw.type), shape, raw.optional, raw.has_default)


def model_options(precision: str, allow_nonfinite: bool = False, threads: int = 0) -> gale_model_options:
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r}: one of {', '.join(PRECISIONS)}")
    options = gale_model_options(precision=PRECISIONS[precision], allow_nonfinite=allow_nonfinite)
    options.program.fast = precision == "fast"
    options.program.threads = threads
    return options


class Model(Closing):
    """A model from a file or from bytes.  It may run from many threads at once.

    precision: "fp32", "fast", "fp16" or "bf16".  Results that are all NaN or infinite are an error unless `allow_nonfinite`.
    threads: most CPU threads of a run; 0: all cores.  With 1, calls from many threads never wait for one another.
    """

    def __init__(self, source: Source, device: Union[Device, str, None] = None, precision: str = "fp32", allow_nonfinite: bool = False,
                 threads: int = 0):
        self.device, options, out = device_of(device), model_options(precision, allow_nonfinite, threads), c.c_void_p()
        with self.device._handle as where:
            if isinstance(source, (bytes, bytearray, memoryview)):
                data = bytes(source)
                check(lib.gale_model_from_memory(data, len(data), True, where, c.byref(options), c.byref(out)))
            else:
                check(lib.gale_model_open(path_bytes(source), where, c.byref(options), c.byref(out)))
        self._handle = Handle(out.value, lib.gale_model_close, self.device)
        self.inputs = self._values(lib.gale_model_inputs, lib.gale_model_input)
        self.outputs = self._values(lib.gale_model_outputs, lib.gale_model_output)
        self.defaults = self._values(lib.gale_model_defaults, lib.gale_model_default)
        values = [*self.inputs, *self.outputs, *self.defaults]
        self._others = {value.name for value in values if value.kind != "tensor" or value.optional}

    def _values(self, count: Any, get: Any) -> List[Value]:
        found, raw = [], gale_model_value()
        with self._handle as address:
            for index in range(count(address)):
                check(get(address, index, c.byref(raw)))
                found.append(value_from(raw))
        return found

    def run(self, inputs: Mapping[str, Any], outputs: Optional[Sequence[str]] = None) -> Dict[str, Any]:
        """Results by name, of all outputs or of those named.  Arrays for tensors, lists for sequences, dicts for maps."""
        names = [value.name for value in self.outputs] if outputs is None else list(outputs)
        plain = not self._others or self._others.isdisjoint([*inputs, *names])
        return self._run_tensors(inputs, names) if plain else self._run_objects(inputs, names)

    def _run_tensors(self, inputs: Mapping[str, Any], names: List[str]) -> Dict[str, np.ndarray]:
        tensors = [self._tensor(name, value) for name, value in inputs.items()]
        given = (c.c_void_p * len(tensors))(*[tensor.address for tensor in tensors])
        made = (c.c_void_p * len(names))()
        with self._handle as address:
            check(lib.gale_model_run_named(address, _names(tuple(inputs)), given, len(tensors), _names(tuple(names)), made, len(names), True))
        results = [_tensors.Tensor(pointer) for pointer in made]
        return {name: _tensors.array_of(tensor) for name, tensor in zip(names, results)}

    def _tensor(self, name: str, value: Any) -> _tensors.Tensor:
        try:
            return _tensors.tensor_from(value)
        except TypeError as error:
            raise TypeError(f"input {name}: {error}") from None

    def _run_objects(self, inputs: Mapping[str, Any], names: List[str]) -> Dict[str, Any]:
        known = {value.name for value in self.inputs}
        if unknown := [name for name in inputs if name not in known]:
            raise ValueError(f"input {unknown[0]}: the model has no such input, or it has a value in the file, which a model with sequences or maps keeps")
        objects = [_tensors.object_from(inputs[value.name]) if value.name in inputs else None for value in self.inputs]
        made = (c.c_void_p * len(self.outputs))()
        with self._handle as address:
            check(lib.gale_model_run(address, _tensors.pointers(objects), made, True))
        owners = [Handle(pointer, lib.gale_object_destroy) for pointer in made]
        results = {value.name: _tensors.value_of(owner._address, owner) for value, owner in zip(self.outputs, owners)}
        if missing := [name for name in names if name not in results]:
            raise ValueError(f"output {missing[0]}: the model has no such output")
        return {name: results[name] for name in names}

    def report(self) -> str:
        """Devices, kernels by operator, memory, prediction and outcome of the latest run."""
        out = c.c_void_p()
        with self._handle as address:
            check(lib.gale_model_report(address, False, c.byref(out)))
        return take_text(out)


@functools.lru_cache(maxsize=256)
def _names(names: Tuple[str, ...]) -> Any:
    return texts(names)


def texts(names: Any) -> Any:
    encoded = [text_bytes(str(name)) for name in names]
    return (c.c_char_p * len(encoded))(*encoded)


def verify(path: Union[str, "os.PathLike[Any]"], device: Union[Device, str, None] = None, shapes: Optional[Mapping[str, Sequence[int]]] = None, tolerance: float = 0,
           precision: str = "fp32", against: Optional[str] = None, inputs: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """The model on the CPU and on the device, every node's results side by side; inputs are made up.  What `gale verify --json` prints.

    against="onnxruntime": the outputs on the device and those of ONNX Runtime, where that is installed; inputs are those given, the rest is made up.
    """
    if against is not None:
        from .engines import verify_against  # pylint: disable=import-outside-toplevel,cyclic-import
        return verify_against(against, path, device, shapes, inputs, tolerance, precision)
    if inputs is not None:
        raise ValueError("inputs go with against; without it they are made up")
    where, options = device_of(device), gale_verify_options(model=model_options(precision), tolerance=tolerance)
    wanted = [f"{name}={'x'.join(map(str, dims))}" for name, dims in (shapes or {}).items()]
    options.inputs.shapes, options.inputs.n_shapes = texts(wanted), len(wanted)
    with where._handle as address:
        return result_of(lambda out: lib.gale_model_verify(path_bytes(path), address, c.byref(options), out), lib.gale_verify_result_json, lib.gale_verify_result_destroy)


def inspect(path: Union[str, "os.PathLike[Any]"], shapes: bool = False) -> Dict[str, Any]:
    """What a model file says about itself; nothing is run.  What `gale inspect --json` prints."""
    options = gale_inspect_options(shapes=shapes)
    return result_of(lambda out: lib.gale_model_inspect(path_bytes(path), c.byref(options), out), lib.gale_inspect_result_json, lib.gale_inspect_result_destroy)
