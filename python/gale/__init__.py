"""gale: ONNX models, pictures and text, with the same result on CPU, CUDA, HIP, OpenCL and Vulkan.

InferenceSession and what belongs to it follow ONNX Runtime (`import gale as onnxruntime`); the other names are gale's own.
"""
from ._library import (Cancelled, Error, Fail, InputOutputError, InvalidArgument, InvalidProtobuf, Mismatch, NoSuchDevice, NoSuchFile, NotFinite, NotImplemented, OutOfMemory,
                       RuntimeException, Timeout, lib as _lib)
from .device import Device, devices
from .exr import Exr, Part, write_exr
from .log import log_to
from .model import Model, Value, inspect, verify
from .picture import Picture, Upscaler, read_picture, upscale, write_picture
from .session import (ExecutionMode, GraphOptimizationLevel, InferenceSession, ModelMetadata, NodeArg, RunOptions, SessionOptions, get_all_providers, get_available_providers,
                      get_device)
from .text import Embedder, Index

__version__: str = _lib.gale_version().decode()
__all__ = ["Cancelled", "Device", "Embedder", "Error", "ExecutionMode", "Exr", "Fail", "GraphOptimizationLevel", "Index", "InferenceSession", "InputOutputError", "InvalidArgument",
           "InvalidProtobuf", "Mismatch", "Model", "ModelMetadata", "NoSuchDevice", "NoSuchFile", "NodeArg", "NotFinite", "NotImplemented", "OutOfMemory", "Part", "Picture",
           "RunOptions", "RuntimeException", "SessionOptions", "Timeout", "Upscaler", "Value", "devices", "get_all_providers", "get_available_providers", "get_device", "inspect",
           "log_to", "read_picture", "upscale", "verify", "write_exr", "write_picture"]
