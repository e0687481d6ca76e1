"""Devices: opening one, and what this machine has."""
import ctypes as c
import json
from typing import Any, Callable, Dict, Optional, Union

from ._library import Closing, Handle, check, lib, take_text, text, text_bytes
from ._structs import CONSTANTS, device_info_head, gale_device_options, gale_devices_options, gale_memory_stats


class Device(Closing):
    """The first device of a chain of providers that works: "cuda", "vulkan,cpu"; None: GALE_PROVIDER, else automatic.

    index counts devices of a provider from 0; None: GALE_DEVICE, else 0.  With `strict` the first name has to work.
    """

    def __init__(self, chain: Optional[str] = None, index: Optional[int] = None, strict: bool = False, pool_limit_bytes: int = 0):
        options = gale_device_options(chain=text_bytes(chain), index=index or (CONSTANTS["GALE_DEVICE_FIRST"] if index == 0 else 0), strict=strict, pool_limit_bytes=pool_limit_bytes)
        out = c.c_void_p()
        check(lib.gale_device_open(c.byref(options), c.byref(out)))
        self._handle = Handle(out.value, lib.gale_device_close)

    @property
    def info(self) -> Dict[str, Any]:
        """backend, index, name, vendor, driver and id."""
        with self._handle as address:
            info = device_info_head.from_address(lib.gale_device_get_info(address))
            return {name: value.decode("utf-8", "replace") if isinstance(value := getattr(info, name), bytes) else value for name, _ in info._fields_}

    @property
    def backend(self) -> str:
        return self.info["backend"]

    @property
    def why(self) -> str:
        """Why this device was chosen, a line for each step."""
        with self._handle as address:
            return text(lib.gale_device_why(address))

    @property
    def memory(self) -> Dict[str, int]:
        stats = gale_memory_stats()
        with self._handle as address:
            lib.gale_memory_get_stats(address, c.byref(stats))
        return {name: getattr(stats, name) for name, _ in stats._fields_}

    def __repr__(self) -> str:
        return f"<gale.Device {self.info['backend']}:{self.info['index']} {self.info['name']}>"


def device_of(device: Union[Device, str, None]) -> Device:
    return device if isinstance(device, Device) else Device(device)


def result_of(create: Callable[[Any], int], to_json: Any, destroy: Any) -> Dict[str, Any]:
    """A job's result as its JSON."""
    out, written = c.c_void_p(), c.c_void_p()
    check(create(c.byref(out)))
    try:
        check(to_json(out, c.byref(written)))
    finally:
        destroy(c.byref(out))
    return json.loads(take_text(written))


def devices(measure: bool = False) -> Dict[str, Any]:
    """What every provider's name stands for here, and why one is missing: what `gale devices --json` prints."""
    options = gale_devices_options(measure=measure)
    return result_of(lambda out: lib.gale_devices_list(c.byref(options), out), lib.gale_devices_result_json, lib.gale_devices_result_destroy)
