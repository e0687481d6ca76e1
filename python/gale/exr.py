"""OpenEXR files: channels as arrays, and pictures for screens."""
import ctypes as c
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import Closing, Handle, check, lib, path_bytes, text, text_bytes
from ._structs import TONES, gale_exr_box, gale_exr_look, gale_exr_new_part, gale_exr_part, gale_exr_source, gale_exr_target
from ._tensors import dtype_of, type_of
from .device import Device, device_of
from .picture import Picture


class Part(NamedTuple):
    name: str
    view: str
    compression: str
    channels: Dict[str, np.dtype]
    data_window: Tuple[int, int, int, int]  # the first and the last pixel: x0, y0, x1, y1
    display_window: Tuple[int, int, int, int]
    tile: Tuple[int, int]  # 0, 0: scan lines
    levels: Tuple[int, int]
    attributes: Dict[str, str]


def part_from(raw: gale_exr_part) -> Part:
    channels = {text(raw.channels[i].name): dtype_of(raw.channels[i].type) for i in range(raw.channel_count)}
    attributes = {text(raw.attributes[i].name): text(raw.attributes[i].text) for i in range(raw.attribute_count)}
    boxes = [(box.x0, box.y0, box.x1, box.y1) for box in (raw.data, raw.display)]
    return Part(text(raw.name), text(raw.view), text(raw.compression), channels, boxes[0], boxes[1], (raw.tile_width, raw.tile_height), (raw.levels_x, raw.levels_y), attributes)


class Exr(Closing):
    """An open file.  Many threads may read it at once."""

    def __init__(self, path: Union[str, "os.PathLike[Any]"]):
        out = c.c_void_p()
        check(lib.gale_exr_open(path_bytes(path), None, c.byref(out)))
        self._handle = Handle(out.value, lib.gale_exr_close)
        self.parts: List[Part] = [part_from(gale_exr_part.from_address(lib.gale_exr_part_get(out, i))) for i in range(lib.gale_exr_part_count(out))]

    def read(self, channels: Optional[Sequence[str]] = None, part: int = 0, level: Tuple[int, int] = (0, 0), dtype: Any = None) -> Dict[str, np.ndarray]:
        """Channels by name, each height x width in the file's type, or in `dtype`: float16, float32 or uint32.  None: all of the part."""
        if not 0 <= part < len(self.parts):
            raise IndexError(f"part {part} of {len(self.parts)}")
        have = self.parts[part].channels
        names = list(have) if channels is None else list(channels)
        with self._handle as address:
            arrays = {name: self._empty(address, name, part, level, np.dtype(dtype or have.get(name, np.float32))) for name in names}
            targets = (gale_exr_target * len(names))(*[gale_exr_target(text_bytes(name), type_of(array.dtype), array.ctypes.data, 0, 0) for name, array in arrays.items()])
            check(lib.gale_exr_read(address, part, level[0], level[1], targets, len(names)))
        return arrays

    @staticmethod
    def _empty(address: int, name: str, part: int, level: Tuple[int, int], dtype: np.dtype) -> np.ndarray:
        width, height = c.c_int64(), c.c_int64()
        check(lib.gale_exr_channel_size(address, part, level[0], level[1], text_bytes(name), c.byref(width), c.byref(height)))
        return np.empty((height.value, width.value), dtype)

    def view(self, device: Union[Device, str, None] = None, layer: Optional[str] = None, tone: str = "linear", exposure: float = 0.0, gamma: float = 0.0, width: int = 0,
             height: int = 0, bits: int = 8) -> Picture:
        """A picture for screens.  tone: "linear", "aces", "reinhard", "filmic", "hable" or "local"; exposure in stops; gamma 0: the sRGB curve."""
        tones = [name.lower() for name in TONES]
        if tone not in tones:
            raise ValueError(f"tone {tone!r}: one of {', '.join(tones)}")
        look = gale_exr_look(layer=text_bytes(layer), tone=tones.index(tone), exposure=exposure, gamma=gamma, width=width, height=height, bits=bits)
        where, viewer, out = device_of(device), c.c_void_p(), c.c_void_p()
        with where._handle as device_address, self._handle as address:
            check(lib.gale_exr_viewer_create(device_address, c.byref(look), c.byref(viewer)))
            try:
                check(lib.gale_exr_viewer_run(viewer, address, None, c.byref(out)))
            finally:
                lib.gale_exr_viewer_destroy(c.byref(viewer))
        return Picture(out.value)


def write_exr(path: Union[str, "os.PathLike[Any]"], channels: Mapping[str, np.ndarray], compression: str = "zip", tile: int = 0) -> None:
    """A file with one part: arrays of float16, float32 or uint32, all of one height x width."""
    arrays = {name: np.require(array, None, "C") for name, array in channels.items()}
    if not arrays or len({array.shape for array in arrays.values()}) != 1 or any(array.ndim != 2 for array in arrays.values()):
        raise ValueError("channels are arrays of one height x width")
    height, width = next(iter(arrays.values())).shape
    sources = (gale_exr_source * len(arrays))(*[gale_exr_source(text_bytes(name), type_of(array.dtype), array.ctypes.data) for name, array in arrays.items()])
    part = gale_exr_new_part(data=gale_exr_box(0, 0, width - 1, height - 1), compression=text_bytes(compression), tile_width=tile, tile_height=tile, channels=sources,
                             channel_count=len(arrays))
    check(lib.gale_exr_write(path_bytes(path), c.byref(part), 1))
