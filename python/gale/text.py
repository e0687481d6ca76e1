"""Text to vectors, and search among them."""
import ctypes as c
import os
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import Closing, Handle, check, lib, path_bytes, text, text_bytes
from ._structs import POOLINGS, gale_embedder_info, gale_embedder_options, gale_hit, gale_index_build_report, gale_index_info, gale_index_options
from .device import Device, device_of
from .model import model_options


class Embedder(Closing):
    """A sentence encoder: a folder, a name in the folder of models, or "heuristic", which needs no model.  Many threads may use it at once.

    pooling: "auto", "mean", "cls" ...; dims: keep the first so many numbers; prompt_name: one of the folder's prompts.
    """

    def __init__(self, path: Union[str, "os.PathLike[Any]"], device: Union[Device, str, None] = None, pooling: str = "auto", normalize: bool = True, dims: int = 0,
                 max_length: int = 0, prompt: Optional[str] = None, prompt_name: Optional[str] = None, precision: str = "fp32"):
        kinds = [name.lower() for name in POOLINGS]
        if pooling not in kinds:
            raise ValueError(f"pooling {pooling!r}: one of {', '.join(kinds)}")
        options = gale_embedder_options(pooling=kinds.index(pooling), no_normalize=not normalize, dims=dims, max_length=max_length, prompt=text_bytes(prompt),
                                        prompt_name=text_bytes(prompt_name), model=model_options(precision))
        self.device, out = device_of(device), c.c_void_p()
        with self.device._handle as where:
            check(lib.gale_embedder_open(path_bytes(path), where, c.byref(options), c.byref(out)))
        self._handle = Handle(out.value, lib.gale_embedder_close, self.device)
        self.dims: int = self.info["dims"]

    @property
    def info(self) -> Dict[str, Any]:
        raw = gale_embedder_info()
        with self._handle as address:
            lib.gale_embedder_get_info(address, c.byref(raw))
            found = {name: text(value) if isinstance(value := getattr(raw, name), bytes) else value for name, _ in raw._fields_}
        return {**found, "pooling": text(lib.gale_pooling_name(raw.pooling))}

    def embed(self, texts: Union[str, Sequence[str]]) -> np.ndarray:
        """A row for each text; a single text gives one vector."""
        several = [texts] if isinstance(texts, str) else list(texts)
        encoded = [item.encode("utf-8", "surrogateescape") for item in several]
        vectors = np.empty((len(encoded), self.dims), np.float32)
        pointers, sizes = (c.c_char_p * len(encoded))(*encoded), (c.c_size_t * len(encoded))(*map(len, encoded))
        with self._handle as address:
            check(lib.gale_embed(address, pointers, sizes, len(encoded), vectors.ctypes.data))
        return vectors[0] if isinstance(texts, str) else vectors


class Index(Closing):
    """Search by cosine in a file of vectors (.npy, raw, .fvecs), which is read as it is needed.  dims: of raw files and of binary vectors."""

    def __init__(self, path: Union[str, "os.PathLike[Any]"], device: Union[Device, str, None] = None, dims: int = 0):
        self.device, out = device_of(device), c.c_void_p()
        with self.device._handle as where:
            options = gale_index_options(dims=dims, device=where)
            check(lib.gale_index_open(path_bytes(path), c.byref(options), c.byref(out)))
        self._handle = Handle(out.value, lib.gale_index_close, self.device, exclusive=True)
        raw = gale_index_info()
        lib.gale_index_get_info(out, c.byref(raw))
        self.rows, self.dims, self.normalized = raw.rows, raw.dims, raw.normalized

    def search(self, queries: np.ndarray, k: int = 10, allowed: Optional[np.ndarray] = None) -> Tuple[np.ndarray, np.ndarray]:
        """(rows, scores) of the k best for each query, the best first; -1 where there are fewer.  allowed: a byte or bool for each row, 0: never a hit."""
        asked = np.require(np.atleast_2d(queries), np.float32, "C")
        if asked.ndim != 2 or asked.shape[1] != self.dims:
            raise ValueError(f"queries of {asked.shape[-1]} numbers in an index of {self.dims}")
        if k < 1:
            raise ValueError(f"k is {k}: at least 1")
        mask = None if allowed is None else np.require(np.asarray(allowed) != 0, np.uint8, "C")
        if mask is not None and mask.shape != (self.rows,):
            raise ValueError(f"allowed needs {self.rows} entries")
        hits = np.empty((len(asked), k), np.dtype(gale_hit))
        with self._handle as address:
            check(lib.gale_index_search(address, asked.ctypes.data, len(asked), k, None if mask is None else mask.ctypes.data, hits.ctypes.data))
        rows, scores = hits["row"].copy(), hits["score"].copy()
        return (rows[0], scores[0]) if np.ndim(queries) == 1 else (rows, scores)

    def build(self) -> dict:
        """Groups the vectors into lists, in PATH.ivf beside them, for approximate search; says how many lists find 95 % of the ten nearest."""
        report = gale_index_build_report()
        with self._handle as address:
            check(lib.gale_index_build(address, None, c.byref(report)))
        return {name: getattr(report, name) for name, _ in report._fields_}

    def set_probes(self, probes: int = -1) -> None:
        """Searches look into so many lists of PATH.ivf; -1: as many as `build` said; 0: exact search."""
        with self._handle as address:
            check(lib.gale_index_set_probes(address, probes))

    def vector(self, row: int) -> np.ndarray:
        out = np.empty(self.dims, np.float32)
        with self._handle as address:
            check(lib.gale_index_vector(address, row, out.ctypes.data))
        return out
