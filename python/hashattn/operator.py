"""Attention in one call, and the object that also computes gradients.

Sources: YOSO, Zeng et al., ICML 2021 (https://arxiv.org/abs/2111.09714); LHA, Sun et al., ICLR 2022; the formulas are
in docs/MATH.md and docs/LHA.md, the contract of the C API in include/hashattn/attention.h.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import Call, Numbers, take_inputs, whole_number
from .context import Context, ContextHandle, ContextObject, ObjectHandle
from .device import DeviceCall, context_for, device_of
from .errors import InvalidError, InvalidTypeError
from .options import OptionValue, names_of, path_of, text_of, value_of

Counts = Any  # (batch) or (batch + 1) whole numbers, or a pair of such arrays


def attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    *,
    mechanism: str = "yoso",
    causal: bool = False,
    key_mask: npt.ArrayLike | None = None,
    lengths: Counts = None,
    offsets: Counts = None,
    seed: int = 0,
    max_len: int | None = None,
    params: Mapping[str, npt.ArrayLike] | None = None,
    out: Numbers | None = None,
    context: Context | None = None,
    **options: OptionValue,
) -> Numbers:
    """Attention of queries `q` over keys `k` and values `v`, in the dtype of the inputs.

    q: (n_q, d), (heads, n_q, d) or (batch, heads, n_q, d), float32, or bfloat16 of ml_dtypes. k and v have n_k rows,
        v may have another width d_v. Any strides; nothing is copied if the last axis is contiguous and no axis runs
        backwards.
    mechanism: "yoso" (sampled hash collisions, linear in n), "softmax" (exact), and the others of `mechanisms()`, which
        also lists where they depart from their papers: "reformer" takes q as its keys, so k is not read and has the
        gradient 0.
    causal: query i sees keys 0 .. i; n_q = n_k.
    key_mask: (n_k) or (batch, n_k), bool, or 1 and 0; True means that the key takes part. Packed: (rows of k). False is as
        if the key had been cut out: in the middle or in front it shifts the positions behind it, and with them the
        blocks, windows, segments and learned positions of "local", "longformer", "bigbird", "sparse", "sinkhorn",
        "nystrom", "linformer" and "synthesizer". Where queries have positions too, or compete for places, and n_q =
        n_k, a masked token is absent as a query, with output 0.
    lengths: (batch), the rows of each padded sequence that exist. The rest is not read and costs no time; its output is
        0. If n_q and n_k differ they are the lengths of the keys. A pair gives those of queries and keys.
    offsets: (batch + 1), ascending from 0 to the number of rows: the arrays are packed, (rows, heads, d). A pair gives
        those of queries and keys.
    seed: 0 to 2^64 - 1, determines all random choices; the same seed gives the same bits for any number of threads.
    max_len: the longest sequence that learned tensors are made for; None = the longest of this call.
    params: learned tensors by name, as of `Attention.set_params`; None = drawn from the seed. `Attention` gives their
        gradients.
    out: an array for the result, (..., n_q, d_v); it must not overlap an input.
    context: threads, instruction set and precision; None = one context for the process, on all processors, or on a GPU.
    options: of the mechanism, such as num_hashes=64; `mechanisms()[name].options` lists them.
        gradient="true" gives "yoso" and "yoso-e" the derivative; by default theirs is the paper's bound, "lower".

    Returns (..., n_q, d_v); empty if n_q is 0. A query without any key gets 0.

    On a GPU: q, k and v may be arrays of CUDA of any library that has DLPack (`__dlpack__`), such as CuPy, JAX and PyTorch.
    "yoso" then computes there, in place, and the result is a `DeviceArray`, or such an `out`. The call waits for the GPU.
    Masks, lengths and offsets are arrays of the processor.

    InvalidError (a ValueError): shapes do not fit, a number is out of range, an input holds NaN or infinity, or `out`
    is read-only. InvalidTypeError (also a TypeError): wrong dtype or device. RefusedError (a ValueError): the mechanism
    has no causal form, or numbers are too large for it in float32. OutOfMemoryError (a MemoryError): memory runs out or
    sizes overflow.
    """
    with Attention(mechanism, context=context or context_for(q, k, v), **options) as made:
        return made.forward(q, k, v, causal=causal, key_mask=key_mask, lengths=lengths, offsets=offsets, seed=seed,
                            max_len=max_len, params=params, out=out, save=False)


class Attention(ContextObject):
    """A mechanism with its options and learned tensors, in a context.

    mechanism, context, options: as for `attention`. `with` or `close` frees it. Learned tensors (of "rfa", "lha" and
    others; see `tensors`) are drawn from the seed of the first call unless they are given: to `forward`, by
    `set_params` or by `read_params`. Their gradients are those of `backward_params` plus those of `own_loss`.
    """

    def __init__(self, mechanism: str = "yoso", *, context: Context | None = None, **options: OptionValue) -> None:
        super().__init__(context)
        if not isinstance(mechanism, str):
            raise InvalidTypeError(f"mechanism is {mechanism!r}; a name is needed")
        self.mechanism = mechanism
        self._texts = {name: text_of(name, value) for name, value in options.items()}
        self._learned: tuple[Any, ...] | None = None  # the call that set the parameters, to repeat after a fork
        self._learned_from: Any = None  # what its arguments point to
        self._saved: tuple[Call, Any, int, Any] | None = None  # with the layout of out, and what keeps the block
        with self._context._use() as handle:
            self._handle = self._open(handle)

    # ---- the C object ------------------------------------------------------------------------------------------------

    def _open(self, context: ContextHandle) -> ObjectHandle:
        library, made = _library.functions(), ctypes.c_void_p()
        context.check(library.attention_new(context.pointer, self.mechanism.encode(), byref(made)))
        assert made.value is not None
        handle = ObjectHandle(context, made.value, library.attention_free)
        for name, text in self._texts.items():
            self._set(handle, name, text)
        if self._learned is not None:
            function, *arguments = self._learned
            context.check(function(handle.pointer, *arguments))
        self._forks = self._context._forks
        return handle

    def _renew(self, context: ContextHandle) -> ObjectHandle:
        if self._forks != self._context._forks:
            self._handle = self._open(context)
        assert self._handle is not None
        return self._handle

    def __repr__(self) -> str:
        return f"<hashattn.Attention {self._settings()}>"

    def _settings(self) -> str:
        """The mechanism and what was set of its options."""
        return " ".join([f"mechanism={self.mechanism!r}", *(f"{name}={text}" for name, text in self._texts.items())])

    # ---- options -----------------------------------------------------------------------------------------------------

    @property
    def options(self) -> dict[str, OptionValue]:
        """The current value of every option of the mechanism."""
        text = ctypes.create_string_buffer(256)
        found: dict[str, OptionValue] = {}
        library = _library.functions()
        with self._use() as handle:
            for option in names_of(self.mechanism):
                handle.origin.check(library.attention_get(handle.pointer, option.name.encode(), text, len(text)))
                found[option.name] = value_of(option, _library.text(text.value))
        return found

    def set(self, **options: OptionValue) -> None:
        """Changes options; this drops the learned tensors. InvalidError: unknown option or value, with the allowed
        ones."""
        with self._use() as handle:
            for name, value in options.items():
                text = text_of(name, value)
                self._set(handle, name, text)
                self._texts[name] = text
                self._learned = self._saved = None

    def _set(self, handle: ObjectHandle, name: str, text: str) -> None:
        known = [option.name for option in names_of(self.mechanism)]
        if name.removeprefix(self.mechanism + ".") not in known:
            raise InvalidError(f"{self.mechanism} has no option {name!r}; it has {', '.join(known) or 'none'}")
        handle.origin.check(_library.functions().attention_set(handle.pointer, name.encode(), text.encode()))

    # ---- learned tensors ---------------------------------------------------------------------------------------------

    def tensors(self, head_dim: int, value_dim: int | None = None, max_len: int = 0) -> dict[str, tuple[int, int]]:
        """The shape (rows, cols) per head of each learned tensor, for these widths and the current options.

        max_len: the longest sequence; with 0, tensors whose shape depends on it are left out.
        """
        sizes = self._sizes(head_dim, value_dim, max_len)
        with self._use() as handle:
            return dict(self._tensors(handle, sizes))

    @staticmethod
    def _sizes(head_dim: int, value_dim: int | None, max_len: int) -> tuple[int, int, int]:
        numbers = {"head_dim": head_dim, "value_dim": head_dim if value_dim is None else value_dim, "max_len": max_len}
        made = [whole_number(name, number, 2**63 - 1) for name, number in numbers.items()]
        return made[0], made[1], made[2]

    @staticmethod
    def _tensors(handle: ObjectHandle, sizes: tuple[int, int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        library, tensor, index = _library.functions(), _library.Tensor(), 0
        while library.attention_tensor(handle.pointer, *sizes, index, byref(tensor)):
            yield _library.text(tensor.name), (tensor.rows, tensor.cols)
            index += 1

    def _split(self, handle: ObjectHandle, sizes: tuple[int, int, int], flat: Numbers) -> dict[str, Numbers]:
        """(heads, floats of a head) as one array (heads, rows, cols) for each tensor."""
        at = 0
        found: dict[str, Numbers] = {}
        for name, (rows, cols) in self._tensors(handle, sizes):
            found[name] = flat[:, at:at + rows * cols].reshape(len(flat), rows, cols).copy()
            at += rows * cols
        return found

    def params(self, heads: int, head_dim: int, value_dim: int | None = None, max_len: int = 0,
               seed: int = 0) -> dict[str, Numbers]:
        """Copies of the learned tensors that a call of these sizes uses, (heads, rows, cols) float32, by name."""
        sizes = self._sizes(head_dim, value_dim, max_len)
        heads = whole_number("heads", heads, 2**31)
        problem = _library.Problem(num_sequences=1, num_heads=heads, head_dim=sizes[0], value_dim=sizes[1],
                                   max_len=sizes[2], seed=whole_number("seed", seed, 2**64 - 1))
        with self._use() as handle:
            count = sum(rows * cols for _, (rows, cols) in self._tensors(handle, sizes))
            flat = np.empty((heads, count), np.float32)
            if count > 0:
                function = _library.functions().attention_get_params
                handle.origin.check(function(handle.pointer, byref(problem), flat.ctypes.data))
            return self._split(handle, sizes, flat)

    def set_params(self, params: Mapping[str, npt.ArrayLike], head_dim: int, value_dim: int | None = None,
                   max_len: int = 0) -> None:
        """Sets the learned tensors, which are copied: (heads, rows, cols) float32 for every name of `tensors`.

        A backward of an earlier forward is then refused. InvalidError: a name or shape does not fit, or a tensor holds
        NaN or infinity.
        """
        sizes = self._sizes(head_dim, value_dim, max_len)
        if not isinstance(params, Mapping):
            raise InvalidTypeError(f"params is a {type(params).__name__}; arrays by name are needed, as from `params`")
        with self._use() as handle:
            shapes = dict(self._tensors(handle, sizes))
            if set(params) != set(shapes):
                raise InvalidError(f"params are {sorted(params)}; {self.mechanism} learns {sorted(shapes)}")
            if not shapes:
                return
            arrays = {name: np.asarray(params[name]) for name in shapes}
            heads = next((array.shape[0] for array in arrays.values() if array.ndim == 3), 0)
            for name, array in arrays.items():
                if array.shape != (heads, *shapes[name]):
                    raise InvalidError(f"{name} has shape {array.shape}; ({heads}, {shapes[name][0]}, "
                                       f"{shapes[name][1]}) is needed")
                if array.dtype != np.float32:
                    raise InvalidTypeError(f"{name} has dtype {array.dtype}; float32 is needed")
            flat = np.concatenate([array.reshape(heads, -1) for array in arrays.values()], 1)
            flat = np.ascontiguousarray(flat, np.float32)
            self._learn(handle, _library.functions().attention_set_params, flat.ctypes.data, heads, sizes, flat)

    def read_params(self, path: str, heads: int, head_dim: int, value_dim: int | None = None, max_len: int = 0) -> None:
        """Reads the learned tensors from a safetensors file with a tensor (heads, rows, cols) for every name.

        BadFileError (an OSError): the file or a tensor is missing, has another shape, or holds NaN or infinity.
        """
        sizes = self._sizes(head_dim, value_dim, max_len)
        encoded = path_of("path", path)
        with self._use() as handle:
            self._learn(handle, _library.functions().attention_read_params, encoded, heads, sizes, encoded)

    def _learn(self, handle: ObjectHandle, function: Any, source: Any, heads: int, sizes: tuple[int, int, int],
               kept: Any) -> None:
        arguments = (source, whole_number("heads", heads, 2**31), *sizes)
        handle.origin.check(function(handle.pointer, *arguments))
        self._saved = None
        self._learned = (function, *arguments)
        self._learned_from = kept

    # ---- forward and backward ----------------------------------------------------------------------------------------

    def forward(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike,
        *,
        causal: bool = False,
        key_mask: npt.ArrayLike | None = None,
        lengths: Counts = None,
        offsets: Counts = None,
        seed: int = 0,
        max_len: int | None = None,
        sample_ids: npt.ArrayLike | None = None,
        params: Mapping[str, npt.ArrayLike] | None = None,
        out: Numbers | None = None,
        save: bool = True,
    ) -> Numbers:
        """As `attention`. With `save`, keeps what `backward`, `backward_params` and `own_loss` need until the next
        forward.

        params: sets the learned tensors, for this call and those that follow; None = those that were set or drawn.
        sample_ids: (batch) numbers; sequences with different numbers hash differently, as in training. None = all hash
            alike, so a sequence has the same output in any batch.

        The arrays must stay unchanged until `backward`.
        """
        call = self._call(q, k, v, causal=causal, key_mask=key_mask, lengths=lengths, offsets=offsets, seed=seed,
                          max_len=max_len, sample_ids=sample_ids)
        if params is not None:
            self.set_params(params, *self._sizes_of(call))
        with self._use() as handle:
            self._saved = None
            # Refuses sizes that overflow, before anything is allocated.
            saved_bytes, _ = self._sizes_of_blocks(handle, call)
            result = call.output(call.out_shape) if out is None else call.given_output("out", out, call.out_shape)
            written = call.layout(result, call.packed)
            memory, saved = call.block(saved_bytes) if save else (None, None)
            self._forward(handle, call, written, saved)
            if out is not None:
                call.clear_padding(result)
            if saved is not None:
                self._saved = call, written, saved, memory
        return call.given_back(result) if out is None else out

    def _call(self, q: Any, k: Any, v: Any, **given: Any) -> Call:
        """On the device of the arrays, which is that of the context."""
        if device_of(q, k, v) is not None:
            return DeviceCall(self._context, q, k, v, **given)
        if self._context.device is not None:
            raise InvalidTypeError(f"q, k and v are on the processor, and the context computes on {self._context.device}")
        return Call(*take_inputs(q, k, v), **given)

    @staticmethod
    def _sizes_of_blocks(handle: ObjectHandle, call: Call) -> tuple[int, int]:
        """Bytes of what forward saves, and of scratch memory."""
        saved, scratch = ctypes.c_size_t(), ctypes.c_size_t()
        function = _library.functions().attention_sizes
        handle.origin.check(function(handle.pointer, byref(call.problem), byref(saved), byref(scratch)))
        return saved.value, scratch.value

    @staticmethod
    def _forward(handle: ObjectHandle, call: Call, written: Any, saved: int | None) -> None:
        arrays = [byref(layout.struct) for layout in (*call.layouts, written)]
        function = _library.functions().attention_forward
        handle.origin.check(function(handle.pointer, byref(call.problem), *arrays, saved, None))
        written.finish()

    def _backward(self, dout: npt.ArrayLike, learns: bool) -> tuple[list[Numbers], dict[str, Numbers]]:
        """The gradients of q, k and v, and with `learns` of every learned tensor."""
        with self._use() as handle:
            call, out, saved, _ = self._last()
            given = call.take("dout", dout)
            if given.shape != call.out_shape or given.dtype != call.inputs[0].dtype:
                raise InvalidError(f"dout has shape {given.shape} and dtype {given.dtype}; {call.out_shape} and "
                                   f"{call.inputs[0].dtype} are needed, as of the output")
            results = [call.output(array.shape) for array in call.inputs]
            layouts = [call.layout(array, call.packed) for array in (given, *results)]
            learned = self._gradients(handle, call) if learns else None
            arrays = [byref(layout.struct) for layout in (*call.layouts, out, *layouts)]
            function = _library.functions().attention_backward_params
            handle.origin.check(function(handle.pointer, byref(call.problem), *arrays, _address(learned), saved, None))
            for layout in layouts[1:]:
                layout.finish()
            results = [call.given_back(array) for array in results]
            return results, {} if learned is None else self._split(handle, self._sizes_of(call), learned)

    @staticmethod
    def _sizes_of(call: Call) -> tuple[int, int, int]:
        """The sizes that the shapes of learned tensors depend on."""
        return call.problem.head_dim, call.problem.value_dim, call.problem.max_len

    def _gradients(self, handle: ObjectHandle, call: Call) -> Numbers:
        """An array for the gradients of the learned tensors, (heads, floats of a head)."""
        count = sum(rows * cols for _, (rows, cols) in self._tensors(handle, self._sizes_of(call)))
        return np.zeros((call.problem.num_heads, count), np.float32)

    def _last(self) -> tuple[Call, Any, int, Any]:
        if self._saved is None:
            raise InvalidError("there is no forward to follow: call forward(..., save=True) first")
        return self._saved

    def backward(self, dout: npt.ArrayLike) -> tuple[Numbers, Numbers, Numbers]:
        """The gradients (dq, dk, dv) of sum(out * dout) after `forward`, in the shapes and dtype of q, k and v.

        dout: the shape and dtype of the output. "reformer" reads no keys, so its dk is 0. RefusedError: the mechanism
        has no backward, or numbers are too large for it in float32. InvalidError: no forward came before, or dout
        holds NaN or infinity.
        """
        (dq, dk, dv), _ = self._backward(dout, False)
        return dq, dk, dv

    def backward_params(self, dout: npt.ArrayLike) -> tuple[Numbers, Numbers, Numbers, dict[str, Numbers]]:
        """As `backward`, and the gradient of each learned tensor by name, (heads, rows, cols) float32.

        Tensors that learn from `own_loss` only, those of "lha" and "routing", get 0; a mechanism without learned
        tensors gives {}.
        """
        (dq, dk, dv), learned = self._backward(dout, True)
        return dq, dk, dv, learned

    def own_loss(self) -> tuple[float, dict[str, Numbers]]:
        """The mechanism's own loss after `forward`, summed over sequences and heads, and its gradient.

        The gradient has an array (heads, rows, cols) for each learned tensor. The loss is 0.0 if the mechanism has
        none.
        """
        library, loss = _library.functions(), ctypes.c_double()
        with self._use() as handle:
            call, _, saved, _ = self._last()
            gradient = self._gradients(handle, call)
            arrays = [byref(layout.struct) for layout in call.layouts]
            handle.origin.check(library.attention_own_loss(handle.pointer, byref(call.problem), *arrays, byref(loss),
                                                           _address(gradient), saved, None))
            return loss.value, self._split(handle, self._sizes_of(call), gradient)

    def _release(self) -> None:
        self._saved = None
        super()._release()


def _address(array: Numbers | None) -> int | None:
    """Where an array starts; None for no array, and for one without elements."""
    return None if array is None or array.size == 0 else int(array.ctypes.data)
