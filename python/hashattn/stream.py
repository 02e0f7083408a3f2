"""Attention over a sequence in chunks, in memory that does not depend on its length.

Source: include/hashattn/stream.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any, Iterator

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import Layout, Numbers, check_output, mask_of_bytes, seed_of, take, whole_number
from .context import Context, ContextObject, ObjectHandle
from .errors import InvalidError, InvalidTypeError
from .operator import Attention
from .options import OptionValue


class Stream(ContextObject):
    """The state of one sequence: keys are absorbed, queries are read against it.

    heads, head_dim, value_dim: of the arrays, (rows, d) for one head, else (heads, rows, d); value_dim None = head_dim.
    mechanism: "yoso", "linear", "performer", "race" or "rfa"; others, "softmax" for one, have no such state and are refused.
    causal: keys and queries arrive together in `read`, and query i sees keys 0 .. i of the whole sequence.
    chunk_rows: the most rows that are processed at once; their memory is allocated once.
    first_head: number of the first head, if the heads of a model are split over several streams.
    seed, context, options: as for `attention`.

    For any division into chunks the output has the same bits. Those of yoso are the bits of `attention` on the whole
    sequence with the same seed (and tables="f32", which is what auto means in a context of precision float32); the
    others equal it up to rounding. A stream made before a fork continues in the child on one thread. RefusedError (a ValueError): the mechanism has no state. OutOfMemoryError (a MemoryError):
    the states do not fit in the memory of this machine.
    """

    def __init__(self, heads: int, head_dim: int, value_dim: int | None = None, *, mechanism: str = "yoso",
                 causal: bool = False, chunk_rows: int = 1024, first_head: int = 0, seed: int = 0,
                 context: Context | None = None, **options: OptionValue) -> None:
        super().__init__(context)
        most = 2**63 - 1
        self.heads = whole_number("heads", heads, most)
        self.head_dim = whole_number("head_dim", head_dim, most)
        self.value_dim = whole_number("value_dim", head_dim if value_dim is None else value_dim, most)
        self.causal = bool(causal)
        self._chunk_rows = whole_number("chunk_rows", chunk_rows, most)
        given = _library.StreamOptions(
            num_heads=self.heads, head_dim=self.head_dim, value_dim=self.value_dim, chunk_rows=self._chunk_rows,
            causal=self.causal, first_head=whole_number("first_head", first_head, most), seed=seed_of(seed))
        library, made = _library.functions(), ctypes.c_void_p()
        with Attention(mechanism, context=self._context, **options) as attention, attention._use() as handle:
            handle.origin.check(library.stream_new(handle.pointer, byref(given), byref(made)))
            assert made.value is not None
            self._handle = ObjectHandle(handle.origin, made.value, library.stream_free)

    @property
    def nbytes(self) -> int:
        """Bytes that the stream holds: the states, and scratch memory for a chunk."""
        with self._use() as handle:
            return int(_library.functions().stream_bytes(handle.pointer))

    def clear(self) -> None:
        """Makes the state empty again."""
        with self._use() as handle:
            _library.functions().stream_clear(handle.pointer)

    def merge(self, other: "Stream") -> None:
        """Adds the state of `other`, a shard of the same sequence, which must be in the same context or idle.

        InvalidError: the streams differ in mechanism, options, heads, widths, causal or seed.
        """
        if not isinstance(other, Stream):
            raise InvalidTypeError(f"a {type(other).__name__} cannot be merged; a hashattn.Stream is needed")
        with self._use() as handle:
            if other._handle is None:
                raise InvalidError("the Stream to merge is closed")
            handle.origin.check(_library.functions().stream_merge(handle.pointer, other._handle.pointer))

    def absorb(self, k: npt.ArrayLike, v: npt.ArrayLike, key_mask: npt.ArrayLike | None = None) -> None:
        """Adds keys and values to the state.

        k, v: (rows, d) for one head, else (heads, rows, d), float32. key_mask: (rows), bool, or 1 and 0; True means that
        the key takes part. InvalidError: a causal stream, whose keys go to `read`; NaN or infinity; shapes that do not
        fit. The chunks before the one with the error stay absorbed.
        """
        arrays = {"key": self._take("k", k, self.head_dim), "value": self._take("v", v, self.value_dim)}
        function = _library.functions().stream_absorb
        with self._use() as handle:
            for chunk in self._chunks(arrays, self._take_mask(key_mask, arrays)):
                handle.origin.check(function(handle.pointer, byref(chunk)))

    def read(self, q: npt.ArrayLike, k: npt.ArrayLike | None = None, v: npt.ArrayLike | None = None,
             key_mask: npt.ArrayLike | None = None, *, out: Numbers | None = None) -> Numbers:
        """Attention of the queries over all keys so far, (rows, d_v) or (heads, rows, d_v).

        A causal stream takes k and v of the same rows and adds them in order; a decoder reads one row at a time.
        out: an array for the result. Errors as of `absorb`.
        """
        arrays = {"query": self._take("q", q, self.head_dim)}
        if self.causal != (k is not None) or self.causal != (v is not None):
            raise InvalidError("a causal stream reads q with k and v" if self.causal
                               else "only a causal stream reads k and v; absorb them first")
        if self.causal:
            arrays["key"] = self._take("k", k, self.head_dim)
            arrays["value"] = self._take("v", v, self.value_dim)
        mask = self._take_mask(key_mask, arrays)
        shape = arrays["query"].shape[:-1] + (self.value_dim,)
        result = (np.empty(shape, np.float32) if out is None
                  else check_output("out", out, shape, np.dtype(np.float32), list(arrays.values())))
        function = _library.functions().stream_read
        with self._use() as handle:
            for chunk in self._chunks(arrays, mask, result):
                handle.origin.check(function(handle.pointer, byref(chunk)))
        return result

    def _take(self, name: str, given: Any, width: int) -> Numbers:
        array = take(name, given)
        if array.dtype != np.float32:
            raise InvalidTypeError(f"{name} has dtype {array.dtype}; streams take float32")
        one = self.heads == 1 and array.ndim == 2
        if array.shape[-1:] != (width,) or not (one or (array.ndim == 3 and array.shape[0] == self.heads)):
            needed = f"(rows, {width})" if self.heads == 1 else f"({self.heads}, rows, {width})"
            raise InvalidError(f"{name} has shape {array.shape}; {needed} is needed")
        return array

    def _take_mask(self, key_mask: Any, arrays: dict[str, Numbers]) -> Numbers | None:
        shapes = {name: array.shape for name, array in arrays.items()}
        rows = {shape[-2] for shape in shapes.values()}
        if len(rows) > 1:
            raise InvalidError(f"the numbers of rows differ: {shapes}")
        if key_mask is None:
            return None
        mask = mask_of_bytes(np.asanyarray(key_mask))
        if mask.shape != (*rows,):
            raise InvalidError(f"key_mask has shape {mask.shape}; {(*rows,)} is needed")
        return mask

    def _chunks(self, arrays: dict[str, Numbers], mask: Numbers | None,
                out: Numbers | None = None) -> Iterator[_library.Chunk]:
        """Each chunk of rows, which the caller processes before it asks for the next."""
        rows = next(iter(arrays.values())).shape[-2]
        for first in range(0, rows, max(1, self._chunk_rows)):
            part = slice(first, first + max(1, self._chunk_rows))
            layouts = {name: Layout(array[..., part, :], False) for name, array in arrays.items()}
            if out is not None:
                layouts["out"] = Layout(out[..., part, :], False)
            chunk = _library.Chunk(rows=min(rows, part.stop) - first,
                                   **{name: layout.struct for name, layout in layouts.items()})
            if mask is not None:
                chunk.key_mask = mask[part].ctypes.data
            yield chunk
            if out is not None:
                layouts["out"].finish()
