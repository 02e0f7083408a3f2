"""A key-value cache of one layer, for models that produce one token after another.

    cache = hashattn.Cache(heads=32, kv_heads=8, head_dim=64, mechanism="hashed", budget=0.02, dtype="bfloat16")
    cache.append(k, v)         # (kv_heads, rows, d) or (batch, kv_heads, rows, d)
    out = cache.attend(q)      # (heads, rows, d): the last rows of the sequence

Source: include/hashattn/cache.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import Layout, Numbers, check_output, real_number, seed_of, take, whole_number
from .context import Context, ContextObject, ObjectHandle
from .errors import InvalidError, InvalidTypeError
from .options import path_of, text_of

_MOST = 2**63 - 1
_DTYPES = {"float32": _library.FLOAT32, "bfloat16": _library.BF16}


class Cache(ContextObject):
    """Keys and values of some sequences, and attention of their last rows over them.

    heads, kv_heads, head_dim: query heads, key-value heads (None: as many; they divide the heads, and query head h reads
    key-value head h // (heads // kv_heads)), and the width of a head, at most 256.
    mechanism: "softmax" reads all rows. "hashed" reads few rows exactly, a sample by importance from codes of the keys,
    weighted so that it has no bias. For comparison: "top" takes the rows of the best scores by codes, "top-uniform" half
    of them and half by chance, "hamming" those with the most signs equal to the query's, "lsh" those that collide with it
    in a table, "window" only the first and last rows.
    dtype: of the stored rows, "float32" or "bfloat16"; arrays of another dtype are rounded or widened.
    scale: of the scores; None: head_dim ** -0.5. window: a query sees that many rows, its own included; None: all.

    For mechanisms other than "softmax":
    budget: the rows that a query reads, a share of those that it sees if below 1, else their number. tolerance, for
    "hashed": the relative error to aim at, in place of a budget. bits: of a key's code, a multiple of 16 up to 1024;
    None: 2 * head_dim, at least 128. first_rows, last_rows: always read. sharpness: a row is taken with a probability that grows
    as exp(sharpness * score); None: what suits bits and head_dim.
    seed: of codes and samples.

    The first `append` sets the number of sequences. A cache made before a fork continues in the child on one thread.
    """

    def __init__(self, heads: int, kv_heads: int | None = None, head_dim: int = 0, *, mechanism: str = "softmax",
                 budget: float = 0.02, tolerance: float | None = None, bits: int | None = None, dtype: str = "float32",
                 scale: float | None = None, window: int | None = None, first_rows: int = 4, last_rows: int = 32,
                 sharpness: float | None = None, seed: int = 0, context: Context | None = None) -> None:
        super().__init__(context)
        self.heads = whole_number("heads", heads, _MOST)
        self.kv_heads = self.heads if kv_heads is None else whole_number("kv_heads", kv_heads, _MOST)
        self.head_dim = whole_number("head_dim", head_dim, _MOST)
        self.dtype = str(dtype)
        if self.dtype not in _DTYPES:
            raise InvalidError(f"dtype is {dtype!r}, allowed are {' and '.join(_DTYPES)}")
        if not isinstance(mechanism, str):
            raise InvalidTypeError(f"mechanism is {mechanism!r}; a name is needed")
        self.mechanism = text_of("mechanism", mechanism)
        given = _library.CacheOptions()
        library = _library.functions()
        library.cache_options_default_sized(byref(given), ctypes.sizeof(given))
        given.mechanism = mechanism.encode()
        given.num_heads, given.kv_heads, given.head_dim = self.heads, self.kv_heads, self.head_dim
        given.element = _DTYPES[self.dtype]
        given.scale = 0.0 if scale is None else _not_0("scale", real_number("scale", scale))
        given.window = 0 if window is None else _not_0("window", whole_number("window", window, _MOST))
        given.budget = real_number("budget", budget)
        given.tolerance = 0.0 if tolerance is None else _not_0("tolerance", real_number("tolerance", tolerance))
        given.bits = 0 if bits is None else _not_0("bits", whole_number("bits", bits, _MOST))
        given.first_rows = whole_number("first_rows", first_rows, _MOST)
        given.last_rows = whole_number("last_rows", last_rows, _MOST)
        given.sharpness = 0.0 if sharpness is None else _not_0("sharpness", real_number("sharpness", sharpness))
        given.seed = seed_of(seed)
        made = ctypes.c_void_p()
        with self._context._use() as handle:
            handle.check(library.cache_new(handle.pointer, byref(given), byref(made)))
            assert made.value is not None
            self._handle = ObjectHandle(handle, made.value, library.cache_free)
        self._reads = _reads(mechanism, given)

    def __repr__(self) -> str:
        return (f"<hashattn.Cache heads={self.heads} kv_heads={self.kv_heads} head_dim={self.head_dim} dtype={self.dtype!r} "
                f"mechanism={self.mechanism!r}{self._reads}>")

    def append(self, k: npt.ArrayLike, v: npt.ArrayLike, key_mask: npt.ArrayLike | None = None) -> None:
        """Adds rows to every sequence.

        k, v: (kv_heads, rows, d), or (batch, kv_heads, rows, d), float32 or bfloat16. key_mask: (rows) or (batch, rows),
        bool or uint8; a row that is False does not exist, so that sequences of a padded batch have their own lengths.
        InvalidError: NaN, infinity or very large numbers, or shapes that do not fit; the cache is then as it was.
        """
        key, value = self._take("k", k, self.kv_heads), self._take("v", v, self.kv_heads)
        if key.shape != value.shape or key.dtype != value.dtype:
            raise InvalidError(f"k has shape {key.shape} and dtype {key.dtype}, v {value.shape} and {value.dtype}; they "
                               "must be equal")
        batch, rows = key.shape[0] if key.ndim == 4 else 1, key.shape[-2]
        mask = self._take_mask(key_mask, batch, rows)
        layouts = Layout(key, False), Layout(value, False)
        self._append(batch, rows, _element(key), layouts[0].struct, layouts[1].struct,
                     None if mask is None else mask.ctypes.data)

    def _append(self, batch: int, rows: int, element: int, key: _library.Array, value: _library.Array,
                mask: int | None) -> None:
        library = _library.functions()
        with self._use() as handle:
            present = library.cache_num_sequences(handle.pointer)
            other = 0 < batch != present and not self._lengths(handle).any()
            if other:
                self._make_empty(handle, batch)
            try:
                self._check_batch(handle, "k", batch)
                handle.origin.check(library.cache_append(handle.pointer, rows, element, byref(key), byref(value), mask))
            except BaseException:
                if other:
                    self._make_empty(handle, present)
                raise

    def _make_empty(self, handle: ObjectHandle, sequences: int) -> None:
        """An empty cache gets this many sequences."""
        handle.origin.check(_library.functions().cache_reorder(handle.pointer, (ctypes.c_size_t * sequences)(), sequences))

    def attend(self, q: npt.ArrayLike, *, out: Numbers | None = None) -> Numbers:
        """Attention of the last rows of every sequence: row r of `rows` is at position length - rows + r.

        q: (heads, rows, d), or (batch, heads, rows, d), float32 or bfloat16; the result has its shape and dtype. Rows
        before the first of a sequence see nothing and give 0. out: an array for the result.
        """
        query = self._take("q", q, self.heads)
        result = (np.empty(query.shape, query.dtype) if out is None
                  else check_output("out", out, query.shape, query.dtype, [query]))
        layouts = Layout(query, False), Layout(result, False)
        self._attend(query.shape[0] if query.ndim == 4 else 1, query.shape[-2], _element(query), layouts[0].struct,
                     layouts[1].struct)
        layouts[1].finish()
        return result

    def _attend(self, batch: int, rows: int, element: int, query: _library.Array, out: _library.Array) -> None:
        with self._use() as handle:
            self._check_batch(handle, "q", batch)
            handle.origin.check(_library.functions().cache_attend(handle.pointer, rows, element, byref(query), byref(out)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes rows and options to a file, which appears whole or not at all."""
        encoded = path_of("path", path)
        with self._use() as handle:
            handle.origin.check(_library.functions().cache_save(handle.pointer, encoded))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, context: Context | None = None) -> "Cache":
        """A cache that was saved: a prompt that is read once. BadFileError: not a cache, or damaged, with the reason."""
        made, library, encoded = cls.__new__(cls), _library.functions(), path_of("path", path)
        ContextObject.__init__(made, context)
        pointer, options = ctypes.c_void_p(), _library.CacheOptions()
        with made._context._use() as handle:
            handle.check(library.cache_load(handle.pointer, encoded, byref(pointer)))
            assert pointer.value is not None
            made._handle = ObjectHandle(handle, pointer.value, library.cache_free)
            library.cache_get_options(pointer, byref(options))
        made.heads, made.kv_heads, made.head_dim = options.num_heads, options.kv_heads, options.head_dim
        made.dtype = next(name for name, element in _DTYPES.items() if element == options.element)
        made.mechanism = _library.text(options.mechanism)
        made._reads = _reads(made.mechanism, options)
        return made

    @property
    def lengths(self) -> list[int]:
        """Rows of each sequence."""
        with self._use() as handle:
            return [int(length) for length in self._lengths(handle)]

    @property
    def nbytes(self) -> int:
        """Bytes that the cache holds. Rows come in blocks of 256 and never move."""
        with self._use() as handle:
            return int(_library.functions().cache_nbytes(handle.pointer))

    @property
    def rows_read(self) -> float:
        """Rows whose keys and values the last `attend` read exactly: the mean over query rows and heads."""
        return float(self._report().rows_read)

    @property
    def error(self) -> float:
        """The mean relative error of the last `attend`, as "hashed" estimates it from its samples; 0 of the others."""
        return float(self._report().error)

    def truncate(self, lengths: int | Sequence[int]) -> None:
        """Keeps the first rows: that many of each sequence, or one number for all; shorter sequences stay as they are."""
        with self._use() as handle:
            present = self._lengths(handle)
            wanted = np.full(present.shape, lengths) if np.ndim(lengths) == 0 else np.asarray(lengths)
            if wanted.dtype.kind not in "iu" or wanted.shape != present.shape or (wanted < 0).any():
                raise InvalidError(f"lengths is {lengths!r}; a row number for each of {len(present)} sequences is needed")
            kept = (ctypes.c_size_t * len(present))(*(int(each) for each in np.minimum(wanted, present)))
            handle.origin.check(_library.functions().cache_truncate(handle.pointer, kept))

    def reorder(self, indices: Sequence[int]) -> None:
        """Sequence s becomes what sequence indices[s] was, as in a search with beams; their number may change."""
        if not hasattr(indices, "__len__"):
            raise InvalidTypeError(f"indices is {indices!r}; a list of numbers of sequences is needed")
        count = len(indices)
        with self._use() as handle:
            last = _library.functions().cache_num_sequences(handle.pointer) - 1
            given = (ctypes.c_size_t * max(1, count))(*(whole_number("indices", each, last) for each in indices))
            handle.origin.check(_library.functions().cache_reorder(handle.pointer, given, count))

    def clear(self) -> None:
        """Drops all rows."""
        with self._use() as handle:
            _library.functions().cache_clear(handle.pointer)

    def _report(self) -> _library.CacheReport:
        report = _library.CacheReport()
        with self._use() as handle:
            _library.functions().cache_describe(handle.pointer, byref(report))
        return report

    def _lengths(self, handle: ObjectHandle) -> Numbers:
        library = _library.functions()
        return np.array([library.cache_length(handle.pointer, s)
                         for s in range(library.cache_num_sequences(handle.pointer))], np.int64)

    def _check_batch(self, handle: ObjectHandle, name: str, batch: int) -> None:
        present = _library.functions().cache_num_sequences(handle.pointer)
        if batch != present:
            raise InvalidError(f"{name} has {batch} sequences, the cache has {present}")

    def _take(self, name: str, given: Any, heads: int) -> Numbers:
        array = take(name, given)
        if array.ndim not in (3, 4) or array.shape[-3] != heads or array.shape[-1] != self.head_dim:
            raise InvalidError(f"{name} has shape {array.shape}; ({heads}, rows, {self.head_dim}) or (batch, {heads}, rows, "
                               f"{self.head_dim}) is needed")
        return array

    def _take_mask(self, key_mask: Any, batch: int, rows: int) -> Numbers | None:
        if key_mask is None:
            return None
        mask = np.asarray(key_mask)
        if mask.dtype != np.bool_ and mask.dtype != np.uint8:
            raise InvalidTypeError(f"key_mask has dtype {mask.dtype}; bool or uint8 is needed")
        if mask.shape not in ((rows,), (batch, rows)):
            raise InvalidError(f"key_mask has shape {mask.shape}; {(rows,)} or {(batch, rows)} is needed")
        return np.ascontiguousarray(np.broadcast_to(mask, (batch, rows))).view(np.uint8)


def _not_0(name: str, value: Any) -> Any:
    """The library takes 0 for what None is here."""
    if value == 0:
        raise InvalidError(f"{name} is 0, more than 0 is needed; None leaves it out")
    return value


def _reads(mechanism: str, options: _library.CacheOptions) -> str:
    """How many rows a query reads, for `repr`."""
    if mechanism == "softmax":
        return ""
    return f" tolerance={options.tolerance:g}" if options.tolerance > 0 else f" budget={options.budget:g}"


def _element(array: Numbers) -> int:
    return _library.FLOAT32 if array.dtype == np.float32 else _library.BF16
