"""ONNX Runtime's calling convention over gale, so that a script changes one import."""
import enum
import pathlib
import tempfile
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import Error, InvalidArgument
from .device import Device, devices
from .model import Model, Source, Value, inspect

# ONNX Runtime's name, or one in its form, for each of gale's providers.
_NAMES = {"cuda": "CUDAExecutionProvider", "rocm": "ROCMExecutionProvider", "vulkan": "VulkanExecutionProvider", "opencl": "OpenCLExecutionProvider", "cpu": "CPUExecutionProvider"}
# Further names of ONNX Runtime's that stand for one of them.
_ALIASES = {"TensorrtExecutionProvider": "cuda", "MIGraphXExecutionProvider": "rocm", "DmlExecutionProvider": "vulkan", "WebGpuExecutionProvider": "vulkan",
            "CoreMLExecutionProvider": "vulkan", **{name: provider for provider, name in _NAMES.items()}}
Provider = Union[str, Tuple[str, Mapping[str, Any]]]


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """ONNX Runtime's settings.  All are accepted; intra_op_num_threads limits the CPU threads of a run, the others change nothing: gale plans a graph in one way."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.enable_cpu_mem_arena = self.enable_mem_pattern = self.enable_mem_reuse = True
        self.enable_profiling = False
        self.log_severity_level, self.log_verbosity_level, self.logid = -1, 0, ""
        self.optimized_model_filepath, self.profile_file_prefix = "", "onnxruntime_profile_"
        self.use_deterministic_compute = False
        self._entries: Dict[str, str] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise Error(f"no session configuration entry {key}")
        return self._entries[key]


class RunOptions:
    """Accepted; `terminate` set before a run refuses it."""

    def __init__(self) -> None:
        self.log_severity_level, self.log_verbosity_level, self.logid = -1, 0, ""
        self.terminate = self.only_execute_path_to_fetches = False
        self._entries: Dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value


class NodeArg:
    """An input or output: name, shape and type as ONNX Runtime gives them."""

    def __init__(self, value: Value):
        self.name = value.name
        self.shape: List[Union[int, str, None]] = value.shape or []
        element = f"tensor({value.type})"
        kind = {"tensor": element, "sequence": f"seq({element})", "map": f"map(int64,{element})"}.get(value.kind, element)
        self.type = f"optional({kind})" if value.optional else kind

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    def __init__(self, found: Mapping[str, Any]):
        self.producer_name = found.get("producer") or ""
        self.graph_name = found.get("graph") or ""
        self.custom_metadata_map: Dict[str, str] = dict(found.get("metadata") or {})


def get_available_providers() -> List[str]:
    """Providers with a device here, the CPU last.  Drivers that run on the CPU (PoCL, lavapipe) are left out, as scripts pass this list on: name them to use them."""
    found = devices()
    real = {device["backend"] for device in found["devices"] if "software" not in device["features"]}
    names = [_NAMES[p["name"]] for p in found["providers"] if p["available"] and p["backend"] in real and p["name"] in _NAMES]
    return [name for name in names if name != "CPUExecutionProvider"] + ["CPUExecutionProvider"]


def get_all_providers() -> List[str]:
    return list(dict.fromkeys(_NAMES.values()))


def get_device() -> str:
    return "CPU" if get_available_providers()[0] == "CPUExecutionProvider" else "GPU"


def split(provider: Provider, options: Optional[Mapping[str, Any]]) -> Tuple[str, Mapping[str, Any]]:
    return (provider, options or {}) if isinstance(provider, str) else (provider[0], provider[1] if len(provider) > 1 else {})


def open_device(providers: Optional[Sequence[Provider]], provider_options: Optional[Sequence[Mapping[str, Any]]]) -> Device:
    """The first of the providers that works; the CPU is always the last resort, as with ONNX Runtime."""
    if not providers:
        return Device()
    settings = list(provider_options or [{}] * len(providers))
    if len(settings) != len(providers):
        raise ValueError("provider_options needs an entry for each provider")
    pairs = [split(provider, options) for provider, options in zip(providers, settings)]
    named = [(_ALIASES.get(name, name), options) for name, options in pairs]
    if unknown := [name for name, _ in named if name.endswith("ExecutionProvider")]:
        warnings.warn(f"{', '.join(unknown)}: gale has no such provider; available: {', '.join(get_available_providers())}", UserWarning, stacklevel=3)
    chain = list(dict.fromkeys([name for name, _ in named if name not in unknown] + ["cpu"]))
    index = next((int(options["device_id"]) for name, options in named if name == chain[0] and "device_id" in options), None)
    return Device(",".join(chain[:chain.index("cpu") + 1]), index)


class InferenceSession:
    """A model that runs as ONNX Runtime's does.  run may be called from many threads at once."""

    def __init__(self, path_or_bytes: Source, sess_options: Optional[SessionOptions] = None, providers: Optional[Sequence[Provider]] = None,
                 provider_options: Optional[Sequence[Mapping[str, Any]]] = None, **_: Any):
        self._source, self._options = path_or_bytes, sess_options or SessionOptions()
        self._model = Model(path_or_bytes, open_device(providers, provider_options), allow_nonfinite=True,
                            threads=max(self._options.intra_op_num_threads, 0))
        self._inputs, self._outputs = [NodeArg(v) for v in self._model.inputs], [NodeArg(v) for v in self._model.outputs]
        self._defaults = [NodeArg(v) for v in self._model.defaults]

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any], run_options: Optional[RunOptions] = None) -> List[Any]:
        """Results in the order of output_names; None or an empty list: all."""
        if run_options is not None and run_options.terminate:
            raise Error("the run options say terminate")
        feed = {name: self._value(name, value) for name, value in input_feed.items()}
        required = [value.name for value in self._model.inputs if not value.optional]
        if missing := [name for name in required if name not in feed]:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")
        known = {value.name for value in self._outputs}
        names = list(output_names or [value.name for value in self._outputs])
        if unknown := [name for name in names if name not in known]:
            raise InvalidArgument(f"Invalid output name: {unknown[0]}; the model has {', '.join(sorted(known))}")
        results = self._model.run(feed, list(dict.fromkeys(names)))
        return [results[name] for name in names]

    def _value(self, name: str, value: Any) -> Any:
        """A list for a tensor becomes an array of the input's type, as ONNX Runtime makes one."""
        argument = next((a for a in self._inputs + self._defaults if a.name == name), None)
        if argument is None:
            raise InvalidArgument(f"Invalid input name: {name}; the model has {', '.join(a.name for a in self._inputs)}")
        if isinstance(value, list) and argument.type == "tensor(float)":
            return np.array(value, dtype=np.float32)
        return np.array(value) if isinstance(value, list) and argument.type.startswith("tensor(") else value

    def get_inputs(self) -> List[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> List[NodeArg]:
        return list(self._outputs)

    def get_overridable_initializers(self) -> List[NodeArg]:
        return list(self._defaults)

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> List[str]:
        """The provider that runs the model, and the CPU, which runs strings and sequences."""
        backend = self._model.device.backend
        return list(dict.fromkeys([_NAMES.get("rocm" if backend == "hip" else backend, backend), "CPUExecutionProvider"]))

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        first = self.get_providers()[0]
        return {name: {"device_id": str(self._model.device.info["index"])} if name == first != "CPUExecutionProvider" else {} for name in self.get_providers()}

    def get_modelmeta(self) -> ModelMetadata:
        if not isinstance(self._source, (bytes, bytearray, memoryview)):
            return ModelMetadata(inspect(self._source))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(self._source)
            return ModelMetadata(inspect(path))
