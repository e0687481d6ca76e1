"""The library's log.  It is silent unless asked: a step down a chain of devices, memory that is short, what a reader left out."""
import atexit
import ctypes as c
import logging
from typing import Any, List, Optional

from ._library import lib, text

_SINK = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)
_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING]


def log_to(logger: Optional[logging.Logger], least_level: int = logging.WARNING) -> None:
    """Sends the library's lines to a logger, from whichever thread they come; None: nowhere."""
    if logger is None:
        lib.gale_log_set(None, None, 2)
        return
    sink = _SINK(lambda user, level, line: logger.log(_LEVELS[max(0, min(level, 2))], "%s", text(line)))
    lib.gale_log_set(c.cast(sink, c.c_void_p), None, 0 if least_level <= logging.DEBUG else 1 if least_level <= logging.INFO else 2)
    _KEPT.append(sink)  # a thread may be in the one before


_KEPT: List[Any] = []
atexit.register(log_to, None)
