"""Attention over a sequence in chunks, in memory that does not depend on its length. A batch is a state for each sequence.

Source: include/hashattn/stream.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from ctypes import byref
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import Layout, Numbers, check_output, mask_of_bytes, seed_of, take, whole_number
from .context import Context, ContextObject, ObjectHandle
from .errors import InvalidError, InvalidTypeError, OutOfMemoryError
from .operator import Attention
from .options import OptionValue


class Stream(ContextObject):
    """The state of one sequence, or of `batch` sequences: keys are absorbed, queries are read against them.

    heads, head_dim, value_dim: of the arrays, (rows, d) for one head, else (heads, rows, d); value_dim None = head_dim.
    batch: None = one sequence; else arrays are (batch, heads, rows, d), and the memory is `batch` times as much.
    mechanism: "yoso", "linear", "performer", "race" or "rfa"; others, "softmax" for one, have no such state and are refused.
    causal: keys and queries arrive together in `read`, and query i sees keys 0 .. i of the whole sequence.
    chunk_rows: the most rows that are processed at once; their memory is allocated once.
    first_head: number of the first head, if the heads of a model are split over several streams.
    params: learned tensors by name, as of `Attention.set_params`; None = drawn from the seed.
    seed, context, options: as for `attention`.

    For any division into chunks the output has the same bits. Those of yoso are the bits of `attention` on the whole
    sequence with the same seed (and tables="f32", which is what auto means in a context of precision float32); the
    others equal it up to rounding. A sequence of a batch has the bits that it has alone. A stream made before a fork
    continues in the child on one thread. RefusedError (a ValueError): the mechanism has no state. OutOfMemoryError (a
    MemoryError): the states do not fit in the memory of this machine.
    """

    def __init__(self, heads: int, head_dim: int, value_dim: int | None = None, *, mechanism: str = "yoso",
                 causal: bool = False, chunk_rows: int = 1024, first_head: int = 0, seed: int = 0,
                 batch: int | None = None, params: Mapping[str, npt.ArrayLike] | None = None,
                 context: Context | None = None, **options: OptionValue) -> None:
        super().__init__(context)
        self._others: list[ObjectHandle] = []  # the states behind the first
        most = 2**63 - 1
        self.heads = whole_number("heads", heads, most)
        self.head_dim = whole_number("head_dim", head_dim, most)
        self.value_dim = whole_number("value_dim", head_dim if value_dim is None else value_dim, most)
        self.causal = bool(causal)
        self._chunk_rows = whole_number("chunk_rows", chunk_rows, most)
        self.batch = None if batch is None else whole_number("batch", batch, most)
        self._given = _library.StreamOptions(
            num_heads=self.heads, head_dim=self.head_dim, value_dim=self.value_dim, chunk_rows=self._chunk_rows,
            causal=self.causal, first_head=whole_number("first_head", first_head, most), seed=seed_of(seed))
        if self.batch == 0:
            raise InvalidError("batch is 0, allowed are 1 and more")
        self._attention = Attention(mechanism, context=self._context, **options)
        if params is not None:
            self._attention.set_params(params, self.head_dim, self.value_dim)
        with self._attention._use() as attention:
            self._handle = self._made(attention)
            self._check_memory(self.batch or 1)
            self._others = [self._made(attention) for _ in range((self.batch or 1) - 1)]

    def __repr__(self) -> str:
        batch = "" if self.batch is None else f"batch={self.batch} "
        return (f"<hashattn.Stream {batch}heads={self.heads} head_dim={self.head_dim} causal={self.causal} "
                f"{self._attention._settings()}>")

    def _made(self, attention: ObjectHandle) -> ObjectHandle:
        """An empty state."""
        library, made = _library.functions(), ctypes.c_void_p()
        attention.origin.check(library.stream_new(attention.pointer, byref(self._given), byref(made)))
        assert made.value is not None
        return ObjectHandle(attention.origin, made.value, library.stream_free)

    def _check_memory(self, sequences: int) -> None:
        """As the library does for one sequence."""
        assert self._handle is not None
        needed = sequences * int(_library.functions().stream_bytes(self._handle.pointer))
        present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if sequences > 1 and needed > present:
            raise OutOfMemoryError(f"a stream of {sequences} sequences would hold {needed} bytes; this machine has {present}")

    @contextmanager
    def _states(self) -> Iterator[list[ObjectHandle]]:
        """The state of each sequence, while the context's lock is held."""
        with self._use() as first:
            yield [first, *self._others]

    def _release(self) -> None:
        for each in self._others:
            each.release()
        self._others = []
        super()._release()

    @property
    def nbytes(self) -> int:
        """Bytes that the stream holds: the states, and scratch memory for a chunk of each sequence."""
        with self._states() as states:
            return sum(int(_library.functions().stream_bytes(each.pointer)) for each in states)

    def clear(self) -> None:
        """Makes the states empty again."""
        with self._states() as states:
            for each in states:
                _library.functions().stream_clear(each.pointer)

    def merge(self, other: "Stream") -> None:
        """Adds the states of `other`, a shard of the same sequences, which must be in the same context or idle.

        InvalidError: the streams differ in mechanism, options, heads, widths, causal, seed or batch.
        """
        if not isinstance(other, Stream):
            raise InvalidTypeError(f"a {type(other).__name__} cannot be merged; a hashattn.Stream is needed")
        with self._states() as states:
            if other._handle is None:
                raise InvalidError("the Stream to merge is closed")
            shard = [other._handle, *other._others]
            if len(states) != len(shard):
                raise InvalidError(f"the streams have {len(states)} and {len(shard)} sequences")
            for each, added in zip(states, shard):
                each.origin.check(_library.functions().stream_merge(each.pointer, added.pointer))

    def reorder(self, indices: Sequence[int]) -> None:
        """Sequence s becomes what sequence indices[s] was, as in a search with beams; their number may change.

        InvalidError: a stream made without `batch`, or an index of no sequence; nothing changes then.
        """
        if self.batch is None:
            raise InvalidError("a Stream of one sequence cannot be reordered; make it with batch=")
        if not hasattr(indices, "__len__"):
            raise InvalidTypeError(f"indices is {indices!r}; a list of numbers of sequences is needed")
        count = self.batch
        chosen = [whole_number("indices", each, count - 1) for each in indices]
        if not chosen:
            raise InvalidError("indices is empty; a Stream has at least one sequence")
        with self._attention._use() as attention:
            if self._handle is None:
                raise InvalidError("the Stream is closed")
            states, made = [self._handle, *self._others], []
            self._check_memory(len(chosen))
            for place, index in enumerate(chosen):
                if index in chosen[:place]:  # further copies
                    made.append(self._made(attention))
                    attention.origin.check(_library.functions().stream_merge(made[-1].pointer, states[index].pointer))
                else:
                    made.append(states[index])
            for index in set(range(count)) - set(chosen):
                states[index].release()
            self._handle, self._others, self.batch = made[0], made[1:], len(made)

    def absorb(self, k: npt.ArrayLike, v: npt.ArrayLike, key_mask: npt.ArrayLike | None = None) -> None:
        """Adds keys and values to the state.

        k, v: (rows, d) for one head, else (heads, rows, d); with `batch` (batch, heads, rows, d), float32. key_mask:
        (rows), or (batch, rows), bool, or 1 and 0; True means that the key takes part. InvalidError: a causal stream, whose
        keys go to `read`; NaN or infinity; shapes that do not fit. The chunks before the one with the error, and the
        sequences before its own, stay absorbed.
        """
        arrays = {"key": self._take("k", k, self.head_dim), "value": self._take("v", v, self.value_dim)}
        self._run(_library.functions().stream_absorb, arrays, self._take_mask(key_mask, arrays), None)

    def read(self, q: npt.ArrayLike, k: npt.ArrayLike | None = None, v: npt.ArrayLike | None = None,
             key_mask: npt.ArrayLike | None = None, *, out: Numbers | None = None) -> Numbers:
        """Attention of the queries over all keys so far, with the shape of q and the last axis d_v.

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
        self._run(_library.functions().stream_read, arrays, mask, result)
        return result

    def _run(self, function: Any, arrays: dict[str, Numbers], mask: Numbers | None, out: Numbers | None) -> None:
        """Calls a function of the library for each chunk of each sequence."""
        with self._states() as states:
            for number, state in enumerate(states):
                own, own_mask, own_out = arrays, mask, out
                if self.batch is not None:
                    own = {name: array[number] for name, array in arrays.items()}
                    own_mask = None if mask is None else mask[number] if mask.ndim == 2 else mask
                    own_out = None if out is None else out[number]
                for chunk in self._chunks(own, own_mask, own_out):
                    state.origin.check(function(state.pointer, byref(chunk)))

    def _take(self, name: str, given: Any, width: int) -> Numbers:
        array = take(name, given)
        if array.dtype != np.float32:
            raise InvalidTypeError(f"{name} has dtype {array.dtype}; streams take float32")
        axes = (self.heads,) if self.batch is None else (self.batch, self.heads)
        one = axes == (1,) and array.ndim == 2
        if array.shape[-1:] != (width,) or not (one or (array.ndim == len(axes) + 2 and array.shape[:-2] == axes)):
            needed = "(" + "".join(f"{size}, " for size in axes if axes != (1,)) + f"rows, {width})"
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
        shapes_of_mask = [(*rows,)] if self.batch is None else [(*rows,), (self.batch, *rows)]
        if mask.shape not in shapes_of_mask:
            raise InvalidError(f"key_mask has shape {mask.shape}; {' or '.join(map(str, shapes_of_mask))} is needed")
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
