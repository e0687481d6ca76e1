"""Finds and opens libgale.so, gives its functions their types, and turns statuses into exceptions."""
import ctypes as c
import os
import pathlib
import re
import threading
import weakref
from typing import Any, Callable, List, Optional, Union

from ._declarations import DECLARATIONS
from ._structs import STATUSES

NAME, SONAME = "libgale.so", "libgale.so.0"
VALUES = {"int": c.c_int, "bool": c.c_bool, "size_t": c.c_size_t, "int64_t": c.c_int64, "uint64_t": c.c_uint64, "uint32_t": c.c_uint32, "gale_flags": c.c_uint32, "float": c.c_float, "double": c.c_double,
          "gale_status": c.c_int, "gale_type": c.c_int, "gale_object_kind": c.c_int, "gale_pooling": c.c_int, "gale_vector_type": c.c_int}


class Error(RuntimeError):
    """A call of the library failed.  `status` is its name without the prefix: "INVALID", "NOT_FOUND" ..."""
    status = "INTERNAL"


class InvalidArgument(Error, ValueError):
    status = "INVALID"


class OutOfMemory(Error, MemoryError):
    status = "NO_MEMORY"


class NoSuchDevice(Error):
    status = "NO_DEVICE"


class NotImplemented(Error):  # noqa: A001 - ONNX Runtime's name for it
    status = "UNSUPPORTED"


class NoSuchFile(Error, FileNotFoundError):
    status = "NOT_FOUND"


class InputOutputError(Error, OSError):
    status = "IO"


class InvalidProtobuf(Error, ValueError):
    """Malformed data of any kind; the name is ONNX Runtime's."""
    status = "FORMAT"


class Timeout(Error, TimeoutError):
    status = "TIMEOUT"


class DeadlinePassed(Error, TimeoutError):
    status = "DEADLINE"


class Cancelled(Error):
    status = "CANCELLED"


class NotFinite(Error, ArithmeticError):
    status = "NOT_FINITE"


class Mismatch(Error):
    status = "MISMATCH"


Fail = Error
RuntimeException = Error
_CLASSES = {kind.status: kind for kind in (InvalidArgument, OutOfMemory, NoSuchDevice, NotImplemented, NoSuchFile, InputOutputError, InvalidProtobuf, Timeout, DeadlinePassed, Cancelled, NotFinite,
                                           Mismatch)}


def candidates() -> List[str]:
    """Paths and names to try, in order.  What the user names is the only candidate."""
    if named := os.environ.get("GALE_LIBRARY"):
        return [named]
    found = [pathlib.Path(__file__).parent / NAME]
    if build := os.environ.get("GALE_BUILD"):
        found.append(pathlib.Path(build) / NAME)
    return [str(path) for path in found if path.exists()] + [SONAME, NAME]


def open_library() -> c.CDLL:
    problems = []
    for path in candidates():
        try:
            return c.CDLL(path)
        except OSError as error:
            problems.append(str(error))
    raise ImportError(f"{NAME} cannot be opened: {'; '.join(problems)}. Set GALE_LIBRARY to the file or GALE_BUILD to a build folder")


def ctype_of(text: str) -> Any:
    """Of a type in a declaration.  Pointers are untyped but for texts, which take bytes."""
    text = " ".join(text.replace("*", " * ").split())
    if text == "const char *":
        return c.c_char_p
    return c.c_void_p if "*" in text else None if text == "void" else VALUES[text]


def bind(library: c.CDLL) -> c.CDLL:
    for result, name, arguments in re.findall(r"^(.*?)\b(gale_\w+)\((.*)\);$", DECLARATIONS, re.M):
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} has no {name}: it is of another version than this package") from None
        function.restype = ctype_of(result)
        function.argtypes = [] if arguments == "void" else [ctype_of(re.sub(r"\w+$", "", argument)) for argument in arguments.split(", ")]
    return library


lib = bind(open_library())


def check(status: int) -> None:
    if status:
        name = STATUSES[status] if 0 <= status < len(STATUSES) else "INTERNAL"
        message = text(lib.gale_error()) or text(lib.gale_status_text(status))
        error = _CLASSES.get(name, Error)(message)
        error.status = name
        raise error


def text(value: Optional[bytes]) -> str:
    return value.decode("utf-8", "surrogateescape") if value is not None else ""


def path_bytes(path: Union[str, bytes, "os.PathLike[Any]"]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("a path has a zero byte in it")
    return encoded


def text_bytes(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else value.encode("utf-8", "surrogateescape")


def take_text(pointer: c.c_void_p) -> str:
    """A text that the library gave out, which is freed."""
    try:
        return text(c.string_at(pointer.value)) if pointer.value else ""
    finally:
        lib.gale_free(pointer)


class Handle:
    """An object of the library.  It is destroyed once: by close, or when nothing refers to it any more.

    A call holds it with `with handle as address`.  Closing it meanwhile, from another thread, lets the call end first.  Objects that serve one thread
    at a time are `exclusive`: calls then wait for each other.
    """

    def __init__(self, address: int, destroy: Callable[[Any], None], *keep: Any, exclusive: bool = False):
        self._address, self._users, self._closed = address, 0, False
        self._lock = threading.Lock()
        self._turn = threading.RLock() if exclusive else None
        self._finalizer = weakref.finalize(self, _destroy, address, destroy, keep)  # keep: what has to live as long

    def __enter__(self) -> int:
        with self._lock:
            if self._closed:
                raise ValueError("it is closed")
            self._users += 1
        if self._turn:
            self._turn.acquire()
        return self._address

    def __exit__(self, *_: Any) -> None:
        if self._turn:
            self._turn.release()
        with self._lock:
            self._users -= 1
            last = self._closed and not self._users
        if last:
            self._finalizer()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = not self._users
        if idle:
            self._finalizer()


def _destroy(address: int, destroy: Callable[[Any], None], keep: Any) -> None:
    destroy(c.byref(c.c_void_p(address)))


class Closing:
    """What objects with a handle share: close, and `with`."""
    _handle: Handle

    def close(self) -> None:
        """Gives the object up; arrays that it gave out stay.  A second time does nothing."""
        self._handle.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
