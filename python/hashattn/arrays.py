"""From NumPy arrays to the arrays and the problem of the C API.

Arrays are read and written in place if the last axis is contiguous and no axis runs backwards; heads and sequences may
be broadcast. Other layouts (a transposed last axis, negative strides, overlapping rows) are copied once.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Sequence

import numpy as np
import numpy.typing as npt

from . import _library
from .errors import InvalidError, InvalidTypeError

Numbers = npt.NDArray[Any]

SHAPES = "(n, d), (heads, n, d) or (batch, heads, n, d)"
PACKED_SHAPE = "(rows, heads, d), because there are offsets"


def take(name: str, given: Any) -> Numbers:
    """`given` as an array of float32 or bfloat16. InvalidTypeError: another dtype, or memory of another device."""
    if isinstance(given, np.ma.MaskedArray):
        raise InvalidTypeError(f"{name} is a masked array; what its mask hides would take part. Give {name}.filled(0), and "
                               "the keys that take part as key_mask")
    if not isinstance(given, np.ndarray) and not hasattr(given, "__array__") and hasattr(given, "__dlpack__"):
        given = _from_dlpack(name, given)
    if not isinstance(given, np.ndarray):
        device = getattr(given, "device", None)
        kind = getattr(device, "type", "cuda" if hasattr(given, "__cuda_array_interface__") else "cpu")
        if isinstance(kind, str) and kind.lower() != "cpu":
            raise InvalidTypeError(f"{name} is on {device or kind}; hashattn computes on the CPU: move it there first")
        given = np.asarray(given)
    if given.dtype != np.float32 and given.dtype.name != "bfloat16":
        raise InvalidTypeError(
            f"{name} has dtype {given.dtype} and shape {given.shape}; float32 or bfloat16 (ml_dtypes) is needed"
        )
    array: Numbers = given
    return array


_HOST = (1, 3)  # DLPack's devices of the host: kDLCPU, kDLCUDAHost


def _from_dlpack(name: str, given: Any) -> Numbers:
    """The memory of an object that has DLPack's protocol and not NumPy's."""
    kind, number = given.__dlpack_device__()
    if kind not in _HOST:
        raise InvalidTypeError(f"{name} is on device ({int(kind)}, {number}) of DLPack; this computes on the processor, and "
                               "hashattn.attention and hashattn.torch on GPUs too")
    try:
        array: Numbers = np.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError) as error:
        raise InvalidTypeError(f"{name}, a {type(given).__name__}, cannot be read by DLPack: {error}") from error
    return array


def take_inputs(query: Any, key: Any, value: Any) -> tuple[list[Numbers], int]:
    """The three arrays, of one dtype, and their element type."""
    arrays = [take(name, given) for name, given in (("q", query), ("k", key), ("v", value))]
    dtypes = [array.dtype for array in arrays]
    if len(set(dtypes)) > 1:
        raise InvalidTypeError(f"q, k and v have dtypes {', '.join(map(str, dtypes))}; they must be equal")
    return arrays, _library.FLOAT32 if dtypes[0] == np.float32 else _library.BF16


def mask_of_bytes(mask: Numbers) -> Numbers:
    """A mask of bool or of whole numbers, 1 and 0, as bytes. InvalidTypeError: another dtype. InvalidError: another number."""
    if isinstance(mask, np.ma.MaskedArray) or mask.dtype.kind not in "biu":
        raise InvalidTypeError(f"key_mask has dtype {mask.dtype} and shape {mask.shape}; bool or whole numbers are needed, "
                               "where True or 1 means that the key takes part")
    if mask.dtype.kind != "b" and mask.size > 0 and not 0 <= mask.min() <= mask.max() <= 1:
        index = int(np.flatnonzero((mask != 0) & (mask != 1))[0])
        raise InvalidError(f"key_mask[{index}] is {mask.flat[index]}, allowed are 0 and 1")
    found: Numbers = np.ascontiguousarray(mask, np.uint8)
    return found


def whole_number(name: str, value: Any, most: int) -> int:
    """`value` as an int from 0 to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"{name} is {value!r}; a whole number is needed") from None
    if not 0 <= number <= most:
        raise InvalidError(f"{name} is {number}, allowed are 0 to {most}")
    return number


def real_number(name: str, value: Any) -> float:
    """`value` as a float; texts are no numbers."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} is {value!r}; a number is needed") from None


def seed_of(value: Any) -> int:
    return whole_number("seed", value, 2**64 - 1)


@functools.lru_cache(maxsize=1024)
def strides_in_place(shape: tuple[int, ...], strides: tuple[int, ...], size: int,
                     packed: bool) -> tuple[int, int, int] | None:
    """The strides of sequences, rows and heads in elements, as the C API takes them; None if the array must be copied.

    strides: of the axes, `size` to an element. A stride of one entry or none is 0.
    """
    if 0 in shape:  # there are no elements, and NumPy gives any strides
        return 0, shape[-1], 0
    if packed:
        shape, strides = (1, *shape), (0, *strides)
    else:
        ones = (1,) * (4 - len(shape))
        (batch, heads, rows, width), (by_batch, by_head, by_row, last) = (*ones, *shape), (*ones, *strides)
        shape, strides = (batch, rows, heads, width), (by_batch, by_row, by_head, last)
    steps = [stride for count, stride in zip(shape, strides) if count > 1]
    in_place = (
        all(step >= 0 and step % size == 0 for step in steps)
        and (shape[3] < 2 or strides[3] == size)
        and (shape[1] < 2 or strides[1] >= shape[3] * size)
    )
    if not in_place:
        return None
    by_sequence, by_row, by_head = (0 if count < 2 else stride // size for count, stride in zip(shape[:3], strides))
    return by_sequence, by_row, by_head


class Layout:
    """A NumPy array as (sequences, rows, heads, width); packed arrays have one sequence.

    `array` has the order of the user's axes; `struct` is the C struct; `copied` is the copy that it describes, or None.
    """

    def __init__(self, array: Numbers, packed: bool) -> None:
        self.array = array
        self.copied: Numbers | None = None
        strides = strides_in_place(array.shape, array.strides, array.itemsize, packed)
        if strides is None or not array.flags.aligned:
            self.copied = array = array.copy(order="C")
            strides = strides_in_place(array.shape, array.strides, array.itemsize, packed)
            assert strides is not None
        self.struct = _library.Array(array.ctypes.data, *strides)

    def finish(self) -> None:
        """Moves results from the copy to the array."""
        if self.copied is not None:
            self.array[...] = self.copied


def check_output(name: str, array: Any, shape: tuple[int, ...], dtype: "np.dtype[Any]",
                 inputs: Sequence[Numbers]) -> Numbers:
    """An array of the user to write to. InvalidError: read-only, another shape, or shared with an input."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        what = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else f"type {type(array).__name__}"
        raise InvalidTypeError(f"{name} has {what}; a NumPy array of {dtype}, as the inputs, is needed")
    if array.shape != shape:
        raise InvalidError(f"{name} has shape {array.shape}; {shape} is needed")
    if not array.flags.writeable:
        raise InvalidError(f"{name}, of shape {shape}, is read-only")
    for given in inputs:
        try:
            shared = np.shares_memory(array, given, max_work=10000)  # type: ignore[arg-type,unused-ignore]
        except RuntimeError:  # NumPy's TooHardError: not decided in max_work steps
            shared = True
        if shared:
            raise InvalidError(f"{name}, of shape {shape}, overlaps an input of shape {given.shape}")
    return array


def _check_host(name: str, given: Any) -> None:
    """InvalidTypeError: on a GPU, also in calls that compute there."""
    if getattr(given, "__dlpack_device__", None) is not None and not isinstance(given, np.ndarray):
        kind, number = given.__dlpack_device__()
        if kind not in _HOST:
            raise InvalidTypeError(f"{name} is on device ({int(kind)}, {number}) of DLPack; masks, lengths, offsets and "
                                   "sample_ids are read on the processor: move it there first")


def _counts(name: str, given: Any, count: int, most: int) -> Numbers:
    """`given` as (count) whole numbers from 0 to `most`."""
    _check_host(name, given)
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" and numbers.size > 0:
        raise InvalidTypeError(f"{name} has dtype {numbers.dtype}; whole numbers are needed")
    numbers = np.atleast_1d(numbers)
    if numbers.shape != (count,):
        raise InvalidError(f"{name} has shape {numbers.shape}; ({count},) is needed")
    if count > 0 and (numbers.min() < 0 or numbers.max() > most):
        index = np.flatnonzero((numbers < 0) | (numbers > most))[0]
        raise InvalidError(f"{name}[{index}] is {numbers[index]}, allowed are 0 to {most}")
    return numbers.astype(np.uint64)


def _pair(given: Any) -> tuple[Any, Any]:
    """(of queries, of keys) from one array or a pair of arrays."""
    if isinstance(given, tuple) and len(given) == 2 and all(np.ndim(each) == 1 for each in given):
        return given
    return given, given


@functools.lru_cache(maxsize=1024)
def _check_shapes(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], packed: bool) -> None:
    for name, shape in zip("qkv", (q, k, v)):
        if len(shape) not in ((3,) if packed else (2, 3, 4)):
            raise InvalidError(f"{name} has shape {shape}; it must be {PACKED_SHAPE if packed else SHAPES}")
    rows = 0 if packed else len(q) - 2  # the axis of rows
    for axis in range(len(q)):
        fits = len(k) == len(q) == len(v) and (axis == rows or q[axis] == k[axis])
        if not fits:
            raise InvalidError(f"q has shape {q} and k {k}; they may differ only in the number of rows")
        if axis != len(q) - 1 and k[axis] != v[axis]:
            raise InvalidError(f"k has shape {k} and v {v}; they may differ only in the last axis")


class Call:
    """The problem of one call, its inputs, and what they keep alive."""

    def __init__(self, inputs: Sequence[Any], element: int, *, causal: bool = False, key_mask: Any = None,
                 lengths: Any = None, offsets: Any = None, seed: Any = 0, max_len: int | None = None,
                 sample_ids: Any = None, layout: Callable[[Any, bool], Any] = Layout) -> None:
        """inputs: query, key and value, of the element type `element`; `layout` makes their C structs. The other
        arguments are those of the user."""
        self.packed = offsets is not None
        if self.packed and lengths is not None:
            raise InvalidError("lengths and offsets cannot both be given")
        self.inputs = q, k, v = tuple(inputs)
        self.shapes = tuple(tuple(each.shape) for each in self.inputs)
        _check_shapes(*self.shapes, self.packed)
        self._kept: list[Numbers] = []
        self.problem = problem = _library.Problem(
            head_dim=q.shape[-1], value_dim=v.shape[-1], causal=bool(causal), seed=seed_of(seed), element=element)
        self.lengths: Numbers | None = None  # of queries, if rows are padded
        self.key_lengths: Numbers | None = None
        if self.packed:
            problem.num_heads = q.shape[1]
            self._take_offsets(offsets)
        else:
            problem.num_sequences, problem.num_heads, problem.num_queries, _ = (1,) * (4 - q.ndim) + self.shapes[0]
            problem.num_keys = k.shape[-2]
            if lengths is not None:
                self._take_lengths(lengths)
        self._take_mask(key_mask)
        if sample_ids is not None:
            ids = _counts("sample_ids", sample_ids, problem.num_sequences, 2**63 - 1)
            problem.sample_ids = self._keep(ids)
        rows = [problem.num_queries, problem.num_keys] if self.packed else [q.shape[-2], k.shape[-2]]
        problem.max_len = max(rows) if max_len is None else whole_number("max_len", max_len, 2**63 - 1)
        self.layout, self.layouts = layout, [layout(array, self.packed) for array in self.inputs]
        self.out_shape = self.shapes[0][:-1] + self.shapes[2][-1:]

    def _keep(self, array: Numbers) -> int:
        """The address of an array that must live as long as the call."""
        self._kept.append(array)
        return int(array.ctypes.data)

    def _take_offsets(self, offsets: Any) -> None:
        names = ("query offsets", "key offsets") if isinstance(offsets, tuple) else ("offsets", "offsets")
        pair = []
        for name, given, array in zip(names, _pair(offsets), self.inputs):
            rows = array.shape[0]
            made = _counts(name, given, len(np.atleast_1d(given)), rows)
            if made.size == 0 or made[0] != 0 or made[-1] != rows or (made[1:] < made[:-1]).any():
                raise InvalidError(f"{name} must ascend from 0 to the number of rows, {rows}; got {given}")
            pair.append(made)
        if pair[0].size != pair[1].size:
            raise InvalidError(f"there are offsets for {pair[0].size - 1} query and {pair[1].size - 1} key sequences")
        self.problem.num_sequences = pair[0].size - 1
        self._set_offsets(pair, [np.diff(each) for each in pair])

    def _set_offsets(self, pair: list[Numbers], lengths: list[Numbers]) -> None:
        problem = self.problem
        problem.query_offsets, problem.key_offsets = self._keep(pair[0]), self._keep(pair[1])
        problem.num_queries, problem.num_keys = (int(each.max(initial=0)) for each in lengths)

    def _take_lengths(self, lengths: Any) -> None:
        problem = self.problem
        batch, queries, keys = problem.num_sequences, problem.num_queries, problem.num_keys
        of_queries, of_keys = _pair(lengths)
        if of_queries is of_keys and queries != keys:
            of_queries = np.full(batch, queries)
        self.key_lengths = _counts("lengths", of_keys, batch, keys)
        self.lengths = self.key_lengths if of_queries is of_keys else _counts("lengths", of_queries, batch, queries)
        pair = [self.lengths, self.key_lengths]
        offsets = np.zeros((2, batch + 1), np.uint64)
        np.cumsum(pair, 1, out=offsets[:, 1:])
        self._set_offsets(list(offsets), pair)
        problem.padded = 1

    def _take_mask(self, key_mask: Any) -> None:
        if key_mask is None:
            return
        problem = self.problem
        _check_host("key_mask", key_mask)
        mask = mask_of_bytes(np.asanyarray(key_mask))
        keys = self.inputs[1].shape[0 if self.packed else -2]
        shapes = [(keys,)] if self.packed else [(problem.num_sequences, keys), (keys,)]
        if mask.shape not in shapes:
            needed = " or ".join(str(shape) for shape in shapes)
            raise InvalidError(f"key_mask has shape {mask.shape}; {needed} is needed")
        if not self.packed:
            mask = np.broadcast_to(mask, shapes[0])
        if self.key_lengths is not None:
            mask = mask[np.arange(keys) < self.key_lengths[:, np.newaxis].astype(np.int64)]
        problem.key_mask = self._keep(np.ascontiguousarray(mask))

    def output(self, shape: tuple[int, ...]) -> Numbers:
        """An array for a result; rows beyond the lengths are 0."""
        new = np.empty if self.lengths is None else np.zeros
        return new(shape, self.inputs[0].dtype)

    def take(self, name: str, given: Any) -> Any:
        """A further input."""
        return take(name, given)

    def given_output(self, name: str, array: Any, shape: tuple[int, ...]) -> Any:
        """An array of the user to write to."""
        return check_output(name, array, shape, self.inputs[0].dtype, self.inputs)

    def given_back(self, array: Any) -> Any:
        """A result as the user gets it."""
        return array

    def block(self, size: int) -> tuple[Any, int]:
        """Memory of `size` bytes and its address, aligned to 64 bytes."""
        return block(size)

    def clear_padding(self, array: Numbers) -> None:
        """Sets the rows of a user's output beyond the lengths of the queries to 0."""
        if self.lengths is not None:
            whole = array[(np.newaxis,) * (4 - array.ndim)]
            for sequence, length in zip(whole, self.lengths):
                sequence[:, int(length):] = 0


def block(size: int) -> tuple[Numbers, int]:
    """Memory of `size` bytes and its address, aligned to 64 bytes."""
    try:
        memory = np.empty(size + 64, np.uint8)
    except (ValueError, OverflowError) as error:
        raise MemoryError(f"no memory for {size} bytes") from error
    address = memory.ctypes.data
    return memory, address + -address % 64
