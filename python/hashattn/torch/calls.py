"""From tensors to a call of the C library, in their own memory.

What does not change from call to call is kept: a context for each number of threads and a mechanism for each set of
options.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import ctypes
import functools
from contextlib import contextmanager
from ctypes import byref
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from .. import _library
from ..arrays import Call, block, strides_in_place
from ..context import Context, ObjectHandle
from ..errors import InvalidError, InvalidTypeError, OutOfMemoryError
from ..operator import Attention

ELEMENTS = {torch.float32: _library.FLOAT32, torch.bfloat16: _library.BF16}
_ALIGNMENT = 64
DEVICES = ("cpu", "cuda", "meta")


def check_tensors(also: tuple[torch.dtype, ...] = (), /, **tensors: Any) -> None:
    """InvalidTypeError: not tensors of one dtype, float32, bfloat16 or one of `also`, on the CPU or one CUDA device."""
    dtypes = (*ELEMENTS, *also)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InvalidTypeError(f"{name} is a {type(tensor).__name__}; a torch.Tensor is needed")
        if tensor.device.type not in DEVICES:
            raise InvalidTypeError(f"{name} is on {tensor.device}; hashattn computes on the CPU and on CUDA: {name}.cpu()")
        if tensor.layout != torch.strided:
            raise InvalidTypeError(f"{name} has layout {tensor.layout}; a dense tensor is needed: {name}.to_dense()")
        if tensor.dtype not in dtypes:
            *others, last = (str(dtype).split(".")[-1] for dtype in dtypes)
            raise InvalidTypeError(f"{name} has dtype {tensor.dtype} and shape {tuple(tensor.shape)}; {', '.join(others)} or "
                                   f"{last} is needed")
    if len({tensor.dtype for tensor in tensors.values()}) > 1:
        found = ", ".join(str(tensor.dtype) for tensor in tensors.values())
        raise InvalidTypeError(f"{', '.join(tensors)} have dtypes {found}; they must be equal")
    if len({tensor.device for tensor in tensors.values()}) > 1:
        found = ", ".join(str(tensor.device) for tensor in tensors.values())
        raise InvalidTypeError(f"{', '.join(tensors)} are on {found}; all must be on one device")


def check_model(model: Any) -> None:
    """InvalidTypeError: not a torch.nn.Module, but its class or name, for example."""
    if not isinstance(model, torch.nn.Module):
        kind = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InvalidTypeError(f"model is {kind}; a torch.nn.Module is needed")


class TensorLayout:
    """A tensor as the C API takes it, as `arrays.Layout`: inputs, and results made by `new`, which are not copied."""

    def __init__(self, tensor: Tensor, packed: bool) -> None:
        strides = strides_in_place(tensor.shape, tensor.stride(), 1, packed)
        if strides is None or tensor.data_ptr() % tensor.element_size():
            tensor = _copy(tensor)
            strides = strides_in_place(tensor.shape, tensor.stride(), 1, packed)
            assert strides is not None
        self.tensor = tensor  # lives as long as the struct
        self.struct = _library.Array(tensor.data_ptr(), *strides)


def _copy(tensor: Tensor) -> Tensor:
    try:
        return tensor.clone(memory_format=torch.contiguous_format)
    except RuntimeError as error:  # of torch's allocator
        raise OutOfMemoryError(f"a tensor of shape {tuple(tensor.shape)} cannot be copied: {error}") from error


def call_of(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_counts: Tensor | None,
            key_counts: Tensor | None, max_len: int | None, padded: bool, seed: Tensor, causal: bool) -> Call:
    """The call as the C API takes it. counts: lengths if `padded`, else offsets; the keys' may be None, if equal."""
    element = ELEMENTS.get(q.dtype)
    if element is None or k.dtype != q.dtype or v.dtype != q.dtype:
        check_tensors(q=q, k=k, v=v)
    counts: Any = None
    if query_counts is not None:
        counts = query_counts.cpu().numpy()
        if key_counts is not None:
            counts = counts, key_counts.cpu().numpy()
    return Call((q, k, v), element or 0, causal=causal, key_mask=None if key_mask is None else key_mask.cpu().numpy(),
                lengths=counts if padded else None, offsets=None if padded else counts,
                seed=int(seed) % 2**64, max_len=max_len, layout=TensorLayout)


def new(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor for a result, with heads inside rows if `like` has them there, as models do: (batch, heads, n, d) in the
    memory of (batch, n, heads, d). They then join the heads without a copy."""
    if like.ndim == 4 and like.transpose(1, 2).is_contiguous():
        batch, heads, rows, width = shape
        return like.new_empty((batch, rows, heads, width)).transpose(1, 2)
    return like.new_empty(shape)


def device_of(tensor: Tensor) -> str | None:
    """The library's name of a tensor's device; None: the processor."""
    return f"cuda:{tensor.device.index}" if tensor.is_cuda else None


def _stream_of(device: torch.device) -> int:
    """torch's current stream on a device, as CUDA has it; 0: the default one."""
    return int(torch.cuda.current_stream(device).cuda_stream)  # type: ignore[no-untyped-call,unused-ignore]


def saved_block(size: int, like: Tensor | None = None) -> Tensor:
    """Memory for what forward saves, aligned: zeros, because its padding too must be the same in every run. On a device,
    that of `like`, it is not set.

    From calloc: torch.zeros sets 32 KiB and more with OpenMP, whose threads then spin for milliseconds and take the
    processors from the library's threads (at 256 rows and 12 heads, forward and backward took 2.9 times as long).
    """
    if like is not None and device_of(like) is not None:
        return _device_block(like, size)
    try:
        memory = np.zeros(size + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise OutOfMemoryError(f"no memory for {size} bytes, which backward needs: {error}") from error
    start = -memory.ctypes.data % _ALIGNMENT
    return torch.from_numpy(memory[start:start + size])


def aligned_block(saved: Tensor) -> Tensor:
    """What forward saved, aligned as `saved_block` makes it. Hooks for saved tensors, and copies to a file and back, may
    return it at another address; then it is copied."""
    if saved.data_ptr() % _ALIGNMENT == 0 and saved.is_contiguous():
        return saved
    block = saved_block(saved.numel(), saved)
    block.copy_(saved)
    return block


def _device_block(like: Tensor, size: int) -> Tensor:
    """Bytes on the device of `like`, aligned."""
    try:
        memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=like.device)
    except RuntimeError as error:
        raise OutOfMemoryError(f"no memory on {like.device} for {size} bytes: {error}") from error
    start = -memory.data_ptr() % _ALIGNMENT
    return memory[start:start + size]


def aligned_address(tensor: Tensor) -> int:
    """The first address of a block that is aligned as the library needs it."""
    return tensor.data_ptr() + -tensor.data_ptr() % _ALIGNMENT


# ---- contexts and mechanisms -----------------------------------------------------------------------------------------

_MOST_SCRATCH = 64 * 2**20


class _Place:
    """A context and scratch memory for its calls, which wait for each other. device: its name; None: the processor."""

    def __init__(self, threads: int, device: str | None) -> None:
        self.context = Context(threads, device=device)
        self.on_device = device is not None
        self._scratch, self._scratch_address = block(0)

    def scratch(self, size: int) -> int | None:
        """The address of `size` bytes, or None: the library allocates them. The caller holds the context's lock.

        Fresh pages cost a quarter of a forward of 256 rows and 12 heads. NumPy asks for huge pages from 4 MiB on, torch
        does not: without them backward of 4,096 rows took 1.14 times as long.
        """
        if size > _MOST_SCRATCH:
            return None
        if size > self._scratch.nbytes - _ALIGNMENT:
            self._scratch, self._scratch_address = block(size)
        return self._scratch_address


_places: dict[tuple[int, str | None], _Place] = {}


@atexit.register
def _end() -> None:
    for place in list(_places.values()):
        place.context._end()


def _place(device: str | None) -> _Place:
    """The place with the number of threads of torch. On a device, one thread draws the planes."""
    key = 1 if device is not None else torch.get_num_threads(), device
    place = _places.get(key)
    if place is None:
        place = _places.setdefault(key, _Place(*key))
    return place


def context_of(device: str | None) -> Context:
    """The context that calls on a device use, with the number of threads of torch; None: the processor."""
    return _place(device).context


def wait(device: torch.device | str = "cuda") -> None:
    """Waits for the calls on a CUDA device, those of the current stream, and tells what they found there.

    Calls on CUDA return before the work is done, so they do not raise for numbers: InvalidError: an input since the last
    wait held NaN or infinity, with its place; RefusedError: a result was beyond float32. FailedError: a kernel failed. The
    results since then are undefined. On the CPU there is nothing to wait for.
    """
    there = torch.device(device)
    if there.type == "cpu":
        return
    index = torch.cuda.current_device() if there.index is None else there.index
    with context_of(f"cuda:{index}")._use() as handle:
        handle.check(_library.functions().context_set_stream(handle.pointer, _stream_of(there)))
        handle.check(_library.functions().context_wait(handle.pointer))


class _Cached(NamedTuple):
    attention: Attention
    learns: bool


@functools.lru_cache(maxsize=64)
def _cached(context: Context, mechanism: str, options: tuple[str, ...]) -> _Cached:
    attention = Attention(mechanism, context=context, **dict(zip(options[::2], options[1::2])))
    return _Cached(attention, bool(attention.tensors(64, 64, 64)))


def _set_params(attention: Attention, handle: ObjectHandle, call: Call, params: Tensor) -> None:
    problem, sizes = call.problem, attention._sizes_of(call)
    count = sum(rows * cols for _, (rows, cols) in attention._tensors(handle, sizes))
    if tuple(params.shape) != (problem.num_heads, count) or params.dtype != torch.float32:
        raise InvalidError(f"params has shape {tuple(params.shape)} and dtype {params.dtype}; "
                           f"({problem.num_heads}, {count}) and torch.float32 are needed")
    flat = params.detach().contiguous()
    function = _library.functions().attention_set_params
    handle.origin.check(function(handle.pointer, flat.data_ptr(), problem.num_heads, *sizes))


class Opened:
    """A mechanism with its learned tensors, ready for one call. The context's lock is held."""

    def __init__(self, handle: ObjectHandle, place: _Place, call: Call, sizes: tuple[int, int]) -> None:
        self._handle, self._place, self._call = handle, place, call
        self.saved_bytes, self._scratch_bytes = sizes
        self.out_shape = call.out_shape

    def result(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """As `new`; rows beyond the lengths are 0. OutOfMemoryError: there is no memory."""
        try:
            made = new(like, shape)
        except RuntimeError as error:
            raise OutOfMemoryError(f"no memory for a tensor of shape {shape}: {error}") from error
        if self._call.lengths is not None and self._place.on_device:
            made.zero_()
        elif self._call.lengths is not None:  # not by torch.zeros: see saved_block
            ctypes.memset(made.data_ptr(), 0, made.nbytes)
        return made

    def run(self, name: str, tensors: Sequence[Tensor], *rest: Any) -> None:
        """Calls a function of the library with the problem, its inputs, further arrays, `rest`, and scratch memory."""
        layouts = [TensorLayout(tensor, self._call.packed) for tensor in tensors]
        like = self._call.inputs[0]
        arrays = [byref(layout.struct) for layout in (*self._call.layouts, *layouts)]
        function = getattr(_library.functions(), name)
        if self._place.on_device:
            # torch gives the block to others on this stream only, whose work comes after the call's.
            self._handle.origin.check(_library.functions().context_set_stream(self._handle.origin.pointer, _stream_of(like.device)))
            there = _device_block(like, self._scratch_bytes)
            scratch: int | None = aligned_address(there)
        else:
            scratch = self._place.scratch(self._scratch_bytes)
        self._handle.origin.check(function(self._handle.pointer, byref(self._call.problem), *arrays, *rest, scratch))


@contextmanager
def opened(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_counts: Tensor | None,
           key_counts: Tensor | None, params: Tensor | None, max_len: int | None, padded: bool, seed: Tensor,
           causal: bool, mechanism: str, options: list[str]) -> Iterator[Opened]:
    """The mechanism, ready; learned tensors are drawn from the call's seed if not given."""
    place = _place(device_of(q))
    cached = _cached(place.context, mechanism, tuple(options))
    call = call_of(q, k, v, key_mask, query_counts, key_counts, max_len, padded, seed, causal)
    if cached.learns and params is None:  # one that was kept may have those given in an earlier call
        cached = _cached.__wrapped__(place.context, mechanism, tuple(options))
    with cached.attention._use() as handle:
        if params is not None:
            _set_params(cached.attention, handle, call, params)
        sizes = Attention._sizes_of_blocks(handle, call)  # refuses sizes that overflow, before anything is allocated
        yield Opened(handle, place, call, sizes)
