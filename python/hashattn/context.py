"""Contexts: threads, instruction set and precision; their locks; what happens after a fork.

A context and its objects serve one thread at a time, so each call holds the context's lock; calls on two contexts run
at once, because ctypes releases the GIL. A forked child has none of the parent's threads: a context reopens itself
there on first use, and streams and runs made before the fork continue on one thread.
Source: include/hashattn/attention.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import warnings
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Iterator, NamedTuple, TypeVar

from . import _library, errors

_contexts: "weakref.WeakSet[Context]" = weakref.WeakSet()
_forks = 0  # in the ancestry of this process


def _after_fork() -> None:
    global _forks, _default_lock
    _forks += 1
    _default_lock = threading.Lock()
    for context in list(_contexts):
        context._lock = threading.Lock()
        context._holder = None


os.register_at_fork(after_in_child=_after_fork)


def forks() -> int:
    """The number of forks between the first process that imported the package and this one."""
    return _forks


def _wait_for_the_end(held: threading.Lock) -> None:
    held.release()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


class ContextHandle:
    """A hashattn_context. It is freed when it was released and no object made in it is left."""

    def __init__(self, options: _library.ContextOptions) -> None:
        self.pointer: int | None = None
        self.users: set[int] = set()
        self._released = False
        library = _library.functions()
        message = ctypes.create_string_buffer(512)
        made = ctypes.c_void_p()
        status = library.context_new(ctypes.byref(options), message, len(message), ctypes.byref(made))
        if status != _library.OK:
            raise errors.of_status(status, message.value)
        self.pointer = made.value
        self._free = library.context_free

    def check(self, status: int) -> None:
        """Raises the exception of a failed call. The caller holds the context's lock."""
        if status != _library.OK:
            raise errors.of_status(status, _library.functions().context_message(self.pointer))

    def release(self) -> None:
        self._released = True
        if not self.users and self.pointer is not None:
            self._free(self.pointer)
            self.pointer = None

    def forget(self, user: int) -> None:
        self.users.discard(user)
        if self._released:
            self.release()

    def __del__(self) -> None:
        if self.pointer is not None:
            self.release()


class ObjectHandle:
    """A C object made in a context, with its function that frees it."""

    def __init__(self, origin: ContextHandle, pointer: int, free: Callable[[int], None]) -> None:
        self.origin, self._free = origin, free
        self._pointer: int | None = pointer
        origin.users.add(id(self))

    @property
    def pointer(self) -> int:
        assert self._pointer is not None
        return self._pointer

    def release(self) -> None:
        if self._pointer is not None:
            self._free(self._pointer)
            self._pointer = None
            self.origin.forget(id(self))

    def __del__(self) -> None:
        self.release()


class Description(NamedTuple):
    """What a context computes with."""

    version: str  #: of the library, "0.1.0"
    isa: str  #: instruction set of the kernels
    projection: str  #: how hash codes are computed when the option is auto
    precision: str  #: of products: "float32" or "bf16"
    bf16: str  #: how bf16 products are computed: "by instruction" or "by widening"
    products: str  #: "oneDNN 2.6.3" or "own"
    processor: str  #: model name, "" if unknown
    threads: int
    libraries: str  #: for files: "jansson 2.14, utf8proc 2.8.0"
    caches: str  #: of the first processor: "L1 32 KiB, L2 1 MiB, L3 32 MiB"; "" if unknown


class Context:
    """Threads, instruction set and precision of the calls that use it.

    threads: 1 to 1024; 0 = what the environment variable HASHATTN_THREADS or else OMP_NUM_THREADS says, and without them
        one for each processor this process may use.
    isa: one of `instruction_sets()`; "auto" = the widest that runs here.
    precision: of products, "float32" or "bf16"; None = float32, and a trained run uses its own.
    device: where `attention` and `Attention` compute: "cuda" or "cuda:N", an NVIDIA GPU, on arrays in its memory; None or
        "cpu" = the processor, where everything else computes. FailedError: no driver, or no GPU.

    Calls on one context run one after another, on all its threads. `with` closes it, and `close` frees it with every
    object made in it. InvalidError (a ValueError): a number or name is out of range, or the context is closed.
    """

    def __init__(self, threads: int = 0, isa: str = "auto", precision: str | None = None,
                 device: str | None = None) -> None:
        if isinstance(threads, int) and threads == 0:
            threads = _threads_of_environment()
        try:
            encoded = isa.encode(), *(None if each is None else each.encode() for each in (precision, device))
            self._options = _library.ContextOptions(threads=threads, isa=encoded[0], precision=encoded[1],
                                                    device=encoded[2])
        except (TypeError, AttributeError, ctypes.ArgumentError) as error:
            raise errors.InvalidTypeError(
                f"threads={threads!r}, isa={isa!r}, precision={precision!r}, device={device!r}: an int, a str and a str or "
                "None are needed"
            ) from error
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._ending: int | None = None  # the thread that ends the interpreter
        self._objects: "weakref.WeakSet[ContextObject]" = weakref.WeakSet()
        self._forks = _forks
        self._handle: ContextHandle | None = ContextHandle(self._options)
        _contexts.add(self)

    @contextmanager
    def _use(self) -> Iterator[ContextHandle]:
        """Holds the lock and gives the handle, reopened after a fork."""
        me = threading.get_ident()
        if self._holder == me:
            raise RuntimeError("the context is busy with the call that this callback belongs to; use another context")
        with self._lock:
            if self._ending not in (None, me):
                _wait_for_the_end(self._lock)
            self._holder = me
            try:
                if self._handle is None:
                    raise errors.InvalidError("the context is closed")
                if self._forks != _forks:
                    self._handle, self._forks = ContextHandle(self._options), _forks
                yield self._handle
            finally:
                self._holder = None

    def _end(self) -> None:
        """At the end of the interpreter: waits for the call that runs, and holds other threads at their next one.

        For calls through C++, in which a daemon thread must not come back for the GIL: CPython ends such a thread, and
        the process crashes.
        """
        self._ending = threading.get_ident()
        self._lock.acquire()  # never released, so threads that wait for it stay
        self._lock = threading.Lock()
        if threading.active_count() > 1:
            time.sleep(0.1)  # while a thread returns from C++, or comes to its next call

    def describe(self) -> Description:
        """Instruction set, precision, processor and number of threads in use."""
        found = _library.Description()
        with self._use() as handle:
            _library.functions().context_describe(handle.pointer, ctypes.byref(found))
        values = {name: getattr(found, name) for name in Description._fields}
        texts = {name: _library.text(value) for name, value in values.items() if isinstance(value, bytes)}
        return Description(**texts, threads=found.threads)

    @property
    def device(self) -> str | None:
        """ "cuda:N", or None: the processor."""
        name = _library.text(self._options.device)
        return None if name in ("", "cpu") else "cuda:0" if name == "cuda" else name

    @property
    def closed(self) -> bool:
        return self._handle is None

    def close(self) -> None:
        """Waits for a call of another thread to end, then frees the context and its objects. May be repeated."""
        if self._holder == threading.get_ident():
            raise RuntimeError("the context cannot be closed by a callback of its own call")
        with self._lock:
            handle, self._handle = self._handle, None
            for made in list(self._objects):
                made._release()
            if handle is not None:
                handle.release()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return refuse_copies(self)

    def __repr__(self) -> str:
        if self.closed:
            return "<hashattn.Context closed>"
        found = self.describe()
        return f"<hashattn.Context threads={found.threads} isa={found.isa!r} precision={found.precision!r}>"


def _threads_of_environment() -> int:
    """0: the environment does not say. OMP_NUM_THREADS may be a list by levels, "4,2"."""
    for name in ("HASHATTN_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").split(",")[0].strip()
        if given:
            if name == "HASHATTN_THREADS" and not (given.isdecimal() and 1 <= int(given) <= 1024):
                raise errors.InvalidError(f"{name} is {given!r}, allowed are 1 to 1024")
            return min(int(given), 1024) if given.isdecimal() else 0
    return 0


def refuse_copies(made: object) -> Any:
    """What stands behind an object of the library cannot be copied."""
    raise errors.InvalidTypeError(f"{type(made).__name__} holds memory of the C library and can be neither copied nor "
                                  "pickled; make another with the same arguments, in each process")


_Made = TypeVar("_Made", bound="ContextObject")


class ContextObject:
    """Base of what is made in a context and freed with it. `with` closes it."""

    _handle: ObjectHandle | None = None

    def __reduce__(self) -> Any:
        return refuse_copies(self)

    def __init__(self, context: Context | None) -> None:
        self._context = default_context() if context is None else context
        if not isinstance(self._context, Context):
            raise errors.InvalidTypeError(f"context is a {type(context).__name__}, a hashattn.Context is needed")
        self._context._objects.add(self)

    @property
    def context(self) -> Context:
        return self._context

    @contextmanager
    def _use(self) -> Iterator[ObjectHandle]:
        """Holds the context's lock and gives the handle."""
        with self._context._use() as context:
            if self._handle is None:
                raise errors.InvalidError(f"the {type(self).__name__} is closed")
            yield self._renew(context)

    def _renew(self, context: ContextHandle) -> ObjectHandle:
        """The handle to use; an object that can be made again after a fork overrides this."""
        assert self._handle is not None
        return self._handle

    def _warn_of_repairs(self, level: int) -> None:
        """Warns of what the last call that read files repaired, or did not read."""
        repaired = ctypes.c_int()
        with self._context._use() as context:
            note = _library.functions().context_note(context.pointer, ctypes.byref(repaired))
        if repaired.value:
            warnings.warn(_library.text(note), UserWarning, stacklevel=level)

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.release()

    def close(self) -> None:
        """Frees the object; further calls raise ValueError. May be repeated."""
        if not self._context.closed:
            with self._context._use():
                self._release()

    def __enter__(self: _Made) -> _Made:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_default: Context | None = None
_default_lock = threading.Lock()


def default_context() -> Context:
    """The context of calls that are given none: one for the process, on all its processors."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Context()
        return _default


_of_devices: dict[str, Context] = {}


def context_of_device(device: str) -> Context:
    """The context of calls on "cuda:N" that are given none: one for the process. One thread draws the planes."""
    with _default_lock:
        if device not in _of_devices or _of_devices[device].closed:
            _of_devices[device] = Context(1, device=device)
        return _of_devices[device]
