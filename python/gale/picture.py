"""Pictures as arrays, and networks that enlarge or restore them."""
import ctypes as c
import os
from typing import Any, Dict, Optional, Union

import numpy as np

from ._library import Closing, Handle, check, lib, path_bytes, text, text_bytes
from ._structs import CONSTANTS, TYPES, gale_picture, gale_picture_read_options, gale_picture_write_options, gale_upscale_options, gale_upscaler_info
from ._tensors import dtype_of, type_of
from .device import Device, device_of
from .model import model_options

Path = Union[str, "os.PathLike[Any]"]


class Picture:
    """A picture with what its file says about colour: `array` is height x width x channels over the library's own memory.

    Arrays of u8 and u16 run from 0 to their largest value, f16 and f32 from 0 to 1.
    """

    def __init__(self, address: int):
        self._handle = Handle(address, lib.gale_picture_destroy)
        raw = gale_picture.from_address(address)
        self.linear, self.premultiplied, self.format = raw.linear, raw.premultiplied, text(raw.format)
        dtype = dtype_of(raw.type)
        memory = (c.c_uint8 * (raw.width * raw.height * raw.channels * dtype.itemsize)).from_address(raw.data)
        memory.owner = self._handle  # an array outlives the picture
        self.array = np.frombuffer(memory, dtype).reshape(raw.height, raw.width, raw.channels)

    @staticmethod
    def from_array(array: np.ndarray, linear: bool = False) -> "Picture":
        """A picture with a copy of the array: height x width, or height x width x 1 to 4."""
        array = np.asarray(array)
        if array.ndim == 2:
            array = array[:, :, None]
        if array.ndim != 3 or not 1 <= array.shape[2] <= 4:
            raise ValueError(f"a picture is height x width or height x width x 1 to 4, not {' x '.join(map(str, array.shape))}")
        number, out = type_of(array.dtype), c.c_void_p()
        if TYPES[number] not in ("U8", "U16", "F16", "F32"):
            raise TypeError(f"a picture is of uint8, uint16, float16 or float32, not {array.dtype}")
        check(lib.gale_picture_create(array.shape[1], array.shape[0], array.shape[2], number, c.byref(out)))
        gale_picture.from_address(out.value).linear = linear
        picture = Picture(out.value)
        picture.array[...] = array
        return picture


def picture_of(value: Union[Picture, np.ndarray, Path]) -> Picture:
    if isinstance(value, (str, os.PathLike)):
        return read_picture(value)
    return value if isinstance(value, Picture) else Picture.from_array(value)


def read_picture(path: Path, layer: Optional[str] = None) -> Picture:
    """Any format that the library reads; layer: of an EXR, or the page of a TIFF."""
    options, out = gale_picture_read_options(layer=text_bytes(layer)), c.c_void_p()
    check(lib.gale_picture_read(path_bytes(path), c.byref(options), c.byref(out)))
    return Picture(out.value)


def write_picture(path: Path, picture: Union[Picture, np.ndarray], format: Optional[str] = None, quality: int = 0, lossless: bool = False) -> None:  # pylint: disable=redefined-builtin
    options = gale_picture_write_options(format=text_bytes(format), quality=quality, lossless=lossless)
    with picture_of(picture)._handle as address:
        check(lib.gale_picture_write(address, path_bytes(path), c.byref(options)))


class Upscaler(Closing):
    """An image-to-image network: None or "zoom2x" for the 2x network that the library carries, "clean" for its cleaning network, "auto" for both where a picture needs it, else a file."""

    def __init__(self, model: Optional[Path] = None, device: Union[Device, str, None] = None, precision: str = "fp32"):
        self.device, options, out = device_of(device), model_options(precision), c.c_void_p()
        with self.device._handle as where:
            check(lib.gale_upscaler_open(None if model is None else path_bytes(model), where, c.byref(options), c.byref(out)))
        self._handle = Handle(out.value, lib.gale_upscaler_close, self.device, exclusive=True)

    @property
    def info(self) -> Dict[str, Any]:
        raw = gale_upscaler_info()
        with self._handle as address:
            lib.gale_upscaler_get_info(address, c.byref(raw))
            return {name: text(value) if isinstance(value := getattr(raw, name), bytes) else value for name, _ in raw._fields_}

    def set(self, setting: str) -> None:
        """"denoise=0.7": a control of the network, kept for later runs."""
        with self._handle as address:
            check(lib.gale_upscaler_set(address, text_bytes(setting)))

    def run(self, picture: Union[Picture, np.ndarray, Path], width: int = 0, height: int = 0, tile: Optional[int] = None, clean: Optional[float] = None) -> Picture:
        """The picture enlarged, of the same kind; width and height 0: what the network gives.  tile None: as its manifest says; 0: the whole picture.
        clean: how much cleaning comes before, 0 to 1; None: with "auto" where the picture needs it, else 0."""
        options, out = upscale_options(width, height, tile, clean), c.c_void_p()
        with picture_of(picture)._handle as source, self._handle as address:
            check(lib.gale_upscale(address, source, c.byref(options), None, c.byref(out)))
        return Picture(out.value)


def upscale_options(width: int, height: int, tile: Optional[int], clean: Optional[float]) -> gale_upscale_options:
    return gale_upscale_options(tile=tile or (CONSTANTS["GALE_TILE_WHOLE"] if tile == 0 else 0), width=width, height=height,
                                clean=clean or (CONSTANTS["GALE_CLEAN_NONE"] if clean == 0 else 0))


def upscale(picture: Union[Picture, np.ndarray, Path], model: Optional[Path] = None, device: Union[Device, str, None] = None, **how: Any) -> np.ndarray:
    """A picture through a network once: the enlarged array."""
    with Upscaler(model, device) as upscaler:
        return upscaler.run(picture, **how).array
