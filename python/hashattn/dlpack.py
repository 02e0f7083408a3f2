"""DLPack: the memory of another library's array, and our memory for another library, without a copy.

A capsule holds a struct with the address, and a function that gives the memory back. Either form of the struct is read and
made: the one before DLPack 1.0, and the one with a version.
Source: dlpack.h of DLPack 1.1; `__dlpack__` of the Python array API standard. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # kinds of devices
FLOAT32, BFLOAT16 = (2, 32, 1), (4, 16, 1)  # code, bits and lanes of a dtype
LEGACY_STREAM = 1  # CUDA's default stream, as __dlpack__ takes it
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("kind", c_int32), ("number", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Unversioned(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", _Tensor)]


_DELETER = ctypes.CFUNCTYPE(None, c_void_p)
_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_SetName", _api))
_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
# Names of capsules, which are kept by address, with the structs; "used": the memory has another owner.
_FORMS: list[tuple[bytes, bytes, Any]] = [(b"dltensor_versioned", b"used_dltensor_versioned", _Versioned),
                                          (b"dltensor", b"used_dltensor", _Unversioned)]


class Borrowed:
    """The memory of another library's array, until this object is gone.

    address: of the first element; device: (kind, number); dtype: (code, bits, lanes); strides: in elements.
    """

    def __init__(self, given: Any, stream: int) -> None:
        """stream: after whose work, to come on it, the array must be ready. BufferError and others: `given` refuses."""
        try:
            capsule = given.__dlpack__(stream=stream, max_version=(1, 1))
        except TypeError:  # of a library from before DLPack 1.0
            capsule = given.__dlpack__(stream=stream)
        for name, used, form in _FORMS:
            if _is_valid(id(capsule), name):
                break
        else:
            raise BufferError(f"__dlpack__ of {type(given).__name__} returned {capsule!r}")
        self._struct = form.from_address(_get_pointer(id(capsule), name))
        _set_name(id(capsule), used)
        if form is _Versioned and self._struct.major != 1:
            raise BufferError(f"{type(given).__name__} has DLPack {self._struct.major}.{self._struct.minor}")
        tensor: _Tensor = self._struct.tensor
        self.read_only = form is _Versioned and bool(self._struct.flags & _READ_ONLY)
        self.address: int = (tensor.data or 0) + tensor.byte_offset
        self.device: tuple[int, int] = tensor.kind, tensor.number
        self.dtype: tuple[int, int, int] = tensor.code, tensor.bits, tensor.lanes
        self.shape: tuple[int, ...] = tuple(tensor.shape[:tensor.ndim])
        self.strides = strides_of(self.shape)
        if tensor.strides:
            self.strides = tuple(tensor.strides[:tensor.ndim])

    def __del__(self) -> None:
        struct = getattr(self, "_struct", None)
        if struct is not None and struct.deleter:
            _DELETER(struct.deleter)(ctypes.addressof(struct))


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of rows one behind another, in elements."""
    strides, step = [], 1
    for count in reversed(shape):
        strides.append(step)
        step *= max(count, 1)
    return tuple(reversed(strides))


_lent: dict[int, tuple[Any, ...]] = {}  # by the address of the struct: what it needs while another library has it


def _give_back(address: int) -> None:
    _lent.pop(address, None)


def _drop(capsule: int) -> None:
    """A capsule ends. Unless somebody took the memory, it is given back."""
    for name, _, _ in _FORMS:
        if _is_valid(capsule, name):
            _give_back(_get_pointer(capsule, name))


_GIVE_BACK, _DROP = _DELETER(_give_back), ctypes.PYFUNCTYPE(None, c_void_p)(_drop)


def lend(owner: Any, address: int, device: tuple[int, int], dtype: tuple[int, int, int], shape: tuple[int, ...],
         versioned: bool) -> Any:
    """A capsule for rows one behind another, whose memory `owner` keeps."""
    name, _, form = _FORMS[0 if versioned else 1]
    sizes, strides = ((c_int64 * max(len(shape), 1))(*numbers) for numbers in (shape, strides_of(shape)))
    tensor = _Tensor(address or None, *device, len(shape), *dtype, sizes, strides, 0)
    struct = form(tensor=tensor, deleter=ctypes.cast(_GIVE_BACK, c_void_p))
    if versioned:
        struct.major, struct.minor = 1, 1
    _lent[ctypes.addressof(struct)] = struct, sizes, strides, owner
    return _new(ctypes.addressof(struct), name, ctypes.cast(_DROP, c_void_p))
