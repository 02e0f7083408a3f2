"""Attention on arrays in the memory of a GPU: those of any library that has DLPack, such as CuPy, JAX and PyTorch.

A call starts work on CUDA's default stream and waits for it, so its errors are raised and its result is ready on every
stream. Inputs are read in place. Lengths, offsets and masks are arrays of the processor.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any

import numpy as np

from . import _library, dlpack
from .arrays import Call, strides_in_place
from .context import Context, ContextHandle, context_of_device
from .errors import InvalidError, InvalidTypeError

_ELEMENTS = {dlpack.FLOAT32: _library.FLOAT32, dlpack.BFLOAT16: _library.BF16}
_NAMES = {dlpack.FLOAT32: "float32", dlpack.BFLOAT16: "bfloat16"}
_BYTES = {dlpack.FLOAT32: 4, dlpack.BFLOAT16: 2}


def number_of_device(given: Any) -> int | None:
    """The number of the CUDA device that an array is on; None: it is not on one."""
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack_device__"):
        return None
    try:
        kind, number = given.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError):  # a device that DLPack does not have
        return None
    return int(number) if kind in (dlpack.CUDA, dlpack.CUDA_MANAGED) else None


def device_of(*arrays: Any) -> str | None:
    """The library's name of the device of the first array that is on one; None: there is none."""
    return next((f"cuda:{number}" for number in map(number_of_device, arrays) if number is not None), None)


class _Memory:
    """Memory of a context's device, until this object is gone. The caller holds the context's lock when it is made."""

    address = 0

    def __init__(self, origin: ContextHandle, size: int) -> None:
        made = ctypes.c_void_p()
        if size > 0:
            origin.check(_library.functions().device_allocate(origin.pointer, size, byref(made)))
        self.address, self._origin, self._free = made.value or 0, origin, _library.functions().device_release
        origin.users.add(id(self))

    def __del__(self) -> None:
        if self.address:
            self._free(self._origin.pointer, self.address)
            self._origin.forget(id(self))


class DeviceArray:
    """The result of `attention` on a GPU, for other libraries by DLPack: torch.from_dlpack(array), cupy.from_dlpack(array).

    shape: of the array, whose rows follow each other. dtype: "float32" or "bfloat16". device: "cuda:0". Its memory lives as
    long as this object or an array that was made from it.
    """

    def __init__(self, memory: _Memory, number: int, dtype: tuple[int, int, int], shape: tuple[int, ...]) -> None:
        self._memory, self._number, self._dtype = memory, number, dtype
        self.shape, self.dtype, self.device = shape, _NAMES[dtype], f"cuda:{number}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self._number

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """stream: any; the array is ready. BufferError: another device or a copy is wanted."""
        if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < -1 or stream == 0):
            raise InvalidError(f"stream is {stream!r}; allowed are None, -1, 1 (CUDA's default stream), 2 and the number of one")
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(f"an array on {self.device} is given in place, not as a copy or on another device")
        versioned = max_version is not None and max_version[0] >= 1
        return dlpack.lend(self, self._memory.address, self.__dlpack_device__(), self._dtype, self.shape, versioned)

    def __repr__(self) -> str:
        return f"<hashattn.DeviceArray {self.dtype} {self.shape} on {self.device}>"


class _Rows:
    """An input, or an output of the user, in its own memory."""

    def __init__(self, name: str, given: Any, device: str) -> None:
        if number_of_device(given) is None or device_of(given) != device:
            found = device_of(given) or f"a {type(given).__name__} of the processor"
            raise InvalidTypeError(f"{name} is {'on ' if device_of(given) else ''}{found}, and the call is on {device}; all must "
                                   "be on one device")
        try:
            self.memory: Any = dlpack.Borrowed(given, dlpack.LEGACY_STREAM)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise InvalidTypeError(f"{name}, a {type(given).__name__}, cannot be read by DLPack: {error}") from error
        self.name, self.dtype, self.address = name, self.memory.dtype, self.memory.address
        self.shape, self.strides, self.ndim = self.memory.shape, self.memory.strides, len(self.memory.shape)
        if self.dtype not in _ELEMENTS:
            raise InvalidTypeError(f"{name} has DLPack's dtype (code, bits, lanes) {self.dtype} and shape {self.shape}; float32 "
                                   "or bfloat16 is needed")


class _Made:
    """A result of ours, with the attributes of `_Rows`."""

    def __init__(self, name: str, array: DeviceArray, dtype: tuple[int, int, int]) -> None:
        self.name, self.array, self.dtype, self.address = name, array, dtype, array._memory.address
        self.shape, self.ndim, self.strides = array.shape, len(array.shape), dlpack.strides_of(array.shape)


class DeviceLayout:
    """As `arrays.Layout`. Nothing is copied: InvalidError for strides that the library does not take."""

    def __init__(self, rows: Any, packed: bool) -> None:
        strides = strides_in_place(rows.shape, rows.strides, 1, packed)
        if strides is None or rows.address % _BYTES[rows.dtype]:
            raise InvalidError(f"{rows.name} has shape {rows.shape} and strides {rows.strides}; on a GPU the last axis must be "
                               "contiguous, and no axis may run backwards: give a copy")
        self.array = rows
        self.struct = _library.Array(rows.address, *strides)

    def finish(self) -> None:
        """Results are where they belong."""


class DeviceCall(Call):
    """The problem of a call on a device."""

    def __init__(self, context: Context, q: Any, k: Any, v: Any, **given: Any) -> None:
        """given: the arguments of `Call`."""
        device = device_of(q, k, v)
        assert device is not None
        if context.device != device:
            raise InvalidTypeError(f"the arrays are on {device}, and the context computes on {context.device or 'the processor'}; "
                                   f"hashattn.Context(device=\"{device}\") computes there")
        self._context, self._device = context, device
        rows = [_Rows(name, each, device) for name, each in (("q", q), ("k", k), ("v", v))]
        if len({each.dtype for each in rows}) > 1:
            raise InvalidTypeError(f"q, k and v have dtypes {', '.join(_NAMES[each.dtype] for each in rows)}; they must be equal")
        super().__init__(rows, _ELEMENTS[rows[0].dtype], layout=DeviceLayout, **given)

    def _origin(self) -> ContextHandle:
        """The caller holds the context's lock."""
        assert self._context._handle is not None
        return self._context._handle

    def take(self, name: str, given: Any) -> Any:
        return _Rows(name, given, self._device)

    def block(self, size: int) -> tuple[Any, int]:
        memory = _Memory(self._origin(), size + 64)
        return memory, memory.address + -memory.address % 64

    def output(self, shape: tuple[int, ...]) -> Any:
        dtype = self.inputs[0].dtype
        memory = _Memory(self._origin(), int(np.prod(shape, dtype=object)) * _BYTES[dtype])
        made = _Made("a result", DeviceArray(memory, int(self._device[5:]), dtype, shape), dtype)
        if self.lengths is not None:
            self._clear(memory.address, int(np.prod(shape)) * _BYTES[dtype])
        return made

    def given_output(self, name: str, array: Any, shape: tuple[int, ...]) -> Any:
        rows = _Rows(name, array, self._device)
        if rows.shape != shape or rows.dtype != self.inputs[0].dtype:
            raise InvalidError(f"{name} has shape {rows.shape} and dtype {_NAMES[rows.dtype]}; {shape} and "
                               f"{_NAMES[self.inputs[0].dtype]} are needed")
        if rows.memory.read_only:
            raise InvalidError(f"{name}, of shape {shape}, is read-only")
        return rows

    def clear_padding(self, array: Any) -> None:
        if self.lengths is None:
            return
        size, ones = _BYTES[array.dtype], 4 - array.ndim
        (batch, heads, rows, width), strides = (1,) * ones + array.shape, (0,) * ones + array.strides
        run = rows if strides[2] == width else 1  # rows that follow each other
        for sequence, head in np.ndindex(batch, heads):
            for row in range(int(self.lengths[sequence]), rows, run):
                start = array.address + (sequence * strides[0] + head * strides[1] + row * strides[2]) * size
                self._clear(start, min(run, rows - row) * width * size)

    def _clear(self, address: int, size: int) -> None:
        zeros = np.zeros(min(size, 1 << 22), np.uint8)
        for at in range(0, size, zeros.nbytes or 1):
            count = min(zeros.nbytes, size - at)
            self._origin().check(_library.functions().device_write(self._origin().pointer, address + at, zeros.ctypes.data, count))

    def given_back(self, array: Any) -> Any:
        return array.array


def context_for(*arrays: Any) -> Context | None:
    """The context of calls on the arrays' device that are given none; None: they are on the processor."""
    device = device_of(*arrays)
    return None if device is None else context_of_device(device)
