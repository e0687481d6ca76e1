"""Between NumPy's arrays and the library's tensors and objects.

Nothing is copied where the host sees the memory: tensors of inputs look at the arrays, and arrays of results at the tensors, and each holds the other.
"""
import ctypes as c
import functools
import itertools
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ._library import Handle, check, lib
from ._structs import CONSTANTS, TYPES

NUMPY = {"F32": "float32", "F64": "float64", "F16": "float16", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16", "U32": "uint32",
         "U64": "uint64", "BOOL": "bool"}
# Types that NumPy has only with ml_dtypes: its name there, and what stands in for it.
FOREIGN = {"BF16": ("bfloat16", "uint16"), "F8E4M3FN": ("float8_e4m3fn", "uint8"), "F8E4M3FNUZ": ("float8_e4m3fnuz", "uint8"), "F8E5M2": ("float8_e5m2", "uint8"),
           "F8E5M2FNUZ": ("float8_e5m2fnuz", "uint8"), "F8E8M0": ("float8_e8m0fnu", "uint8"), "F4E2M1": ("float4_e2m1fn", "uint8"), "I4": ("int4", "int8"), "U4": ("uint4", "uint8"),
           "I2": ("int2", "int8"), "U2": ("uint2", "uint8"), "F6E2M3": ("float6_e2m3fn", "uint8"), "F6E3M2": ("float6_e3m2fn", "uint8")}
ONNX = {"F32": "float", "F64": "double", "F16": "float16", "BF16": "bfloat16", "F8E4M3FN": "float8e4m3fn", "F8E4M3FNUZ": "float8e4m3fnuz", "F8E5M2": "float8e5m2",
        "F8E5M2FNUZ": "float8e5m2fnuz", "F8E8M0": "float8e8m0", "F4E2M1": "float4e2m1", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8",
        "U16": "uint16", "U32": "uint32", "U64": "uint64", "I4": "int4", "U4": "uint4", "I2": "int2", "U2": "uint2", "BOOL": "bool", "STRING": "string", "F6E2M3": "float6e2m3", "F6E3M2": "float6e3m2"}
_NUMBERS = {name: number for number, name in enumerate(TYPES)}
_BY_DTYPE = {np.dtype(name): _NUMBERS[kind] for kind, name in NUMPY.items()}
_BY_NAME = {name: _NUMBERS[kind] for kind, (name, _) in FOREIGN.items()}


def onnx_name(number: int) -> str:
    return ONNX[TYPES[number]]


@functools.lru_cache(maxsize=None)
def dtype_of(number: int) -> np.dtype:
    """NumPy's type for the library's.  Without ml_dtypes, numbers that NumPy has not got come as the bits that they are."""
    kind = TYPES[number]
    if kind in NUMPY:
        return np.dtype(NUMPY[kind])
    name, instead = FOREIGN[kind]
    try:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return np.dtype(instead)


@functools.lru_cache(maxsize=None)
def type_of(dtype: np.dtype) -> int:
    number = _BY_DTYPE.get(dtype.newbyteorder("="), _BY_NAME.get(dtype.name))
    if number is None:
        raise TypeError(f"arrays of {dtype} have no counterpart in ONNX; convert them with astype")
    return number


class Tensor:
    """A tensor of the library's that arrays may look at."""

    def __init__(self, address: int):
        self.address = address

    def __del__(self, byref: Any = c.byref, pointer: Any = c.c_void_p, library: Any = lib) -> None:  # names that outlast the module's
        library.gale_tensor_destroy(byref(pointer(self.address)))


class _Memory:
    """Exports a tensor's memory to NumPy, which keeps this object, and so the tensor, as long as an array needs it."""

    def __init__(self, tensor: Tensor, address: int, shape: Tuple[int, ...], dtype: np.dtype):
        self.tensor = tensor
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}


def tensor_from_strings(array: np.ndarray) -> Tensor:
    items = [item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape") for item in array.ravel().tolist()]
    texts, sizes = (c.c_char_p * len(items))(*items), (c.c_size_t * len(items))(*map(len, items))
    out = c.c_void_p()
    check(lib.gale_tensor_from_strings(array.ndim, (c.c_int64 * array.ndim)(*array.shape), texts, sizes, c.byref(out)))
    return Tensor(out.value)


_lent: Dict[int, np.ndarray] = {}  # arrays whose memory tensors of the library look at
_numbers = itertools.count(1)


@c.CFUNCTYPE(None, c.c_void_p)
def _let_go(number: int) -> None:  # by whichever thread drops the last view
    _lent.pop(number, None)


_LET_GO = c.cast(_let_go, c.c_void_p)


def _as_array(value: Any) -> np.ndarray:
    """Without a copy where the value's memory is the host's: arrays, and tensors of other libraries by DLPack."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):  # on a device, or of a type that NumPy has not got
            pass
    return np.asarray(value)


def tensor_from(value: Any) -> Tensor:
    """A tensor over the array's memory, which is only read; arrays that are not dense, aligned and in native order are copied first."""
    array = _as_array(value)
    if array.dtype.kind in "OSU":
        return tensor_from_strings(array)
    type_number = type_of(array.dtype)
    flags, dense = array.flags, array
    if not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
        dense = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    out, number = c.c_void_p(), next(_numbers)
    _lent[number] = dense
    try:
        check(lib.gale_tensor_wrap(type_number, array.ndim, (c.c_int64 * array.ndim)(*array.shape), dense.ctypes.data, True, _LET_GO, number, c.byref(out)))
    except BaseException:
        _lent.pop(number, None)
        raise
    return Tensor(out.value)


def strings_of(tensor: Tensor, shape: Tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    flat, size = out.reshape(-1), c.c_size_t()
    function = c.cast(lib.gale_tensor_string, c.c_void_p).value
    address_of = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_int64, c.c_void_p)(function)  # c_char_p would end at a zero byte
    for i in range(flat.size):
        flat[i] = c.string_at(address_of(tensor.address, i, c.byref(size)), size.value).decode("utf-8", "surrogateescape")
    return out


def shape_of(address: int) -> Tuple[int, ...]:
    rank = lib.gale_tensor_rank(address)
    return tuple((c.c_int64 * rank).from_address(lib.gale_tensor_dims(address))) if rank else ()


def array_of(tensor: Tensor) -> np.ndarray:
    """The tensor as an array: its memory where the host can see it, else a copy."""
    number, shape = lib.gale_tensor_type(tensor.address), shape_of(tensor.address)
    if number == CONSTANTS["GALE_STRING"]:
        return strings_of(tensor, shape)
    dtype = dtype_of(number)
    address = lib.gale_tensor_data(tensor.address)
    if not address or 0 in shape:
        array = np.empty(shape, dtype)
        check(lib.gale_tensor_to_cpu(tensor.address, array.ctypes.data, array.nbytes))
        return array
    bits = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype  # ml_dtypes' have no code in the interface
    return np.asarray(_Memory(tensor, address, shape, bits)).view(dtype)


def object_from(value: Any) -> Handle:
    """None, an array, a list (a sequence) or a dict (a map) as an object of the library's."""
    out = c.c_void_p()
    if value is None:
        check(lib.gale_object_none(c.byref(out)))
    elif isinstance(value, dict):
        keys, items = tensor_from(np.array(list(value), dtype=object if isinstance(next(iter(value), 0), str) else np.int64)), [object_from(v) for v in value.values()]
        check(lib.gale_object_map(keys.address, pointers(items), c.byref(out)))
    elif isinstance(value, list):
        items = [object_from(v) for v in value]
        check(lib.gale_object_sequence(pointers(items), len(items), c.byref(out)))
    else:
        tensor = tensor_from(value)  # a name keeps it until the object holds it
        check(lib.gale_object_tensor(tensor.address, c.byref(out)))
    return Handle(out.value, lib.gale_object_destroy)


def pointers(handles: Sequence[Optional[Handle]]) -> Any:
    return (c.c_void_p * len(handles))(*[handle._address if handle else None for handle in handles])


def value_of(address: int, owner: Any) -> Any:
    """What an object holds.  Arrays hold `owner`, which holds the object."""
    kind = lib.gale_object_get_kind(address)
    if kind == CONSTANTS["GALE_OBJECT_NONE"]:
        return None
    if kind == CONSTANTS["GALE_OBJECT_TENSOR"]:
        return array_of(_Borrowed(lib.gale_object_get_tensor(address), owner))
    items: List[Any] = [value_of(lib.gale_object_item(address, i), owner) for i in range(lib.gale_object_count(address))]
    if kind == CONSTANTS["GALE_OBJECT_SEQUENCE"]:
        return items
    keys = array_of(_Borrowed(lib.gale_object_get_tensor(address), owner)).tolist()
    result: Dict[Any, Any] = {key: item.item() if isinstance(item, np.ndarray) and item.ndim == 0 else item for key, item in zip(keys, items)}
    return result


class _Borrowed(Tensor):
    """A tensor that belongs to an object."""

    def __init__(self, address: int, owner: Any):  # pylint: disable=super-init-not-called
        self.owner, self.address = owner, address

    def __del__(self) -> None:  # type: ignore[override]
        pass
