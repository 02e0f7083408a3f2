"""The registered operators: forward, backward and own loss, with fake tensors and autograd.

They read and write the tensors' own memory. The seed is a tensor, so that it stays in the graph of torch.compile and
torch.export. The size of what forward saves depends on the lengths, so compiled graphs treat it as unknown.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any, Iterator, Union

import numpy as np
import torch
from torch import Tensor

from .. import _library
from ..arrays import Call, Layout, Numbers
from ..errors import InvalidError, InvalidTypeError
from ..operator import Attention
from ..options import OptionValue

_ALIGNMENT = 64

_PROBLEM = ("Tensor q, Tensor k, Tensor v, Tensor? key_mask, Tensor? query_offsets, Tensor? key_offsets, "
            "Tensor? params, bool padded, Tensor seed, bool causal, str mechanism, str[] options")


def _view(tensor: Tensor) -> Numbers:
    """The tensor's memory as a NumPy array; bfloat16 as int16."""
    plain = tensor.detach()
    array: Numbers = (plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain).numpy()
    return array


def _check_tensors(**tensors: Any) -> None:
    """InvalidTypeError: not a tensor of float32 or bfloat16 on the CPU."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InvalidTypeError(f"{name} is a {type(tensor).__name__}; a torch.Tensor is needed")
        if tensor.device.type not in ("cpu", "meta"):
            raise InvalidTypeError(f"{name} is on {tensor.device}; hashattn computes on the CPU: {name}.cpu()")
        if tensor.dtype not in (torch.float32, torch.bfloat16):
            raise InvalidTypeError(f"{name} has dtype {tensor.dtype} and shape {tuple(tensor.shape)}; float32 or "
                                   "bfloat16 is needed")
    if len({tensor.dtype for tensor in tensors.values()}) > 1:
        found = ", ".join(str(tensor.dtype) for tensor in tensors.values())
        raise InvalidTypeError(f"{', '.join(tensors)} have dtypes {found}; they must be equal")


def _call(problem: list[Any], padded: bool, seed: Tensor, causal: bool) -> Call:
    """The call as the C API takes it. problem: the first six arguments; offsets with `padded` are lengths."""
    q, k, v, key_mask, query_offsets, key_offsets = problem
    _check_tensors(q=q, k=k, v=v)
    counts: Any = None
    if query_offsets is not None and key_offsets is not None:
        counts = query_offsets.numpy(), key_offsets.numpy()
    element = _library.BF16 if q.dtype == torch.bfloat16 else _library.FLOAT32
    return Call([_view(tensor) for tensor in (q, k, v)], element, causal=causal,
                key_mask=None if key_mask is None else key_mask.numpy(), lengths=counts if padded else None,
                offsets=None if padded else counts, seed=int(seed) % 2**64)


def _output(call: Call, like: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Layout]:
    """A tensor for a result; rows beyond the lengths are 0."""
    new = like.new_empty(shape) if call.lengths is None else like.new_zeros(shape)
    return new, Layout(_view(new), call.packed)


def _aligned(saved: Tensor) -> int:
    address = int(saved.data_ptr())
    return address + -address % _ALIGNMENT


@contextmanager
def _opened(call: Call, mechanism: str, options: list[str], params: Tensor | None) -> Iterator[tuple[Attention, Any]]:
    """The mechanism with its learned tensors, and its handle."""
    given: dict[str, Any] = dict(zip(options[::2], options[1::2]))
    with Attention(mechanism, **given) as attention, attention._use() as handle:
        if params is not None:
            problem = call.problem
            sizes = problem.head_dim, problem.value_dim, problem.max_len
            count = sum(rows * cols for _, (rows, cols) in attention._tensors(handle, sizes))
            if tuple(params.shape) != (problem.num_heads, count) or params.dtype != torch.float32:
                raise InvalidError(f"params has shape {tuple(params.shape)} and dtype {params.dtype}; "
                                   f"({problem.num_heads}, {count}) and torch.float32 are needed")
            flat = params.detach().contiguous()
            function = _library.functions().attention_set_params
            handle.origin.check(function(handle.pointer, flat.data_ptr(), problem.num_heads, *sizes))
        yield attention, handle


@torch.library.custom_op("hashattn::attention", mutates_args=(), device_types="cpu",
                         schema=f"({_PROBLEM}, bool save) -> (Tensor, Tensor)")
def _attention(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The output, and with `save` what backward needs."""
    *problem, params, padded, seed, causal, mechanism, options, save = arguments
    call = _call(problem, padded, seed, causal)
    with _opened(call, mechanism, options, params) as (attention, handle):
        size = attention._saved_bytes(handle, call) + _ALIGNMENT if save else 0
        out, written = _output(call, problem[0], call.out_shape)
        saved = torch.zeros(size, dtype=torch.uint8)  # not empty: padding too is the same in every run
        attention._forward(handle, call, written, _aligned(saved) if save else None)
    return out, saved


@_attention.register_fake
def _fake_attention(*arguments: Any) -> tuple[Tensor, Tensor]:
    q, _, v, *_, save = arguments
    size = torch.library.get_ctx().new_dynamic_size() if save else 0
    return q.new_empty((*q.shape[:-1], v.shape[-1])), torch.empty(size, dtype=torch.uint8)


@torch.library.custom_op("hashattn::attention_backward", mutates_args=(), device_types="cpu",
                         schema=f"({_PROBLEM}, Tensor out, Tensor saved, Tensor dout) -> (Tensor, Tensor, Tensor)")
def _attention_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    *problem, params, padded, seed, causal, mechanism, options, out, saved, dout = arguments
    call = _call(problem, padded, seed, causal)
    _check_tensors(q=problem[0], dout=dout)
    if tuple(dout.shape) != tuple(out.shape):
        raise InvalidError(f"dout has shape {tuple(dout.shape)}; {tuple(out.shape)} is needed")
    results = [_output(call, tensor, tuple(tensor.shape)) for tensor in problem[:3]]
    layouts = [Layout(_view(dout), call.packed), *(layout for _, layout in results)]
    with _opened(call, mechanism, options, params) as (attention, handle):
        attention._backward(handle, call, Layout(_view(out), call.packed), layouts, _aligned(saved))
    return results[0][0], results[1][0], results[2][0]


@_attention_backward.register_fake
def _fake_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, *_ = arguments
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


@torch.library.custom_op("hashattn::own_loss", mutates_args=(), device_types="cpu",
                         schema=f"({_PROBLEM}, Tensor saved) -> (Tensor, Tensor)")
def _own_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The mechanism's own loss after a forward with `params`, and its gradient, shaped as `params`."""
    *problem, params, padded, seed, causal, mechanism, options, saved = arguments
    call = _call(problem, padded, seed, causal)
    loss, gradient = ctypes.c_double(), torch.zeros_like(params, memory_format=torch.contiguous_format)
    kept = saved.clone()  # the library may use it as scratch memory
    with _opened(call, mechanism, options, params) as (_, handle):
        arrays = [ctypes.byref(layout.struct) for layout in call.layouts]
        function = _library.functions().attention_own_loss
        handle.origin.check(function(handle.pointer, ctypes.byref(call.problem), *arrays, ctypes.byref(loss),
                                     gradient.data_ptr(), _aligned(kept), None))
    return torch.tensor(loss.value, dtype=torch.float32), gradient


@_own_loss.register_fake
def _fake_own_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    params = arguments[6]
    return params.new_empty(()), torch.empty_like(params, memory_format=torch.contiguous_format)


# ---- autograd --------------------------------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, ctx.saves = inputs
    ctx.save_for_backward(*tensors, seed, *output)
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    if not ctx.saves:
        raise RuntimeError("hashattn: the forward ran without gradients, so nothing was saved for backward")
    *tensors, seed, out, saved = ctx.saved_tensors
    gradients = _attention_backward(*tensors, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, out, saved,
                                    dout)
    return (*gradients, *[None] * 10)


def _refuse(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
    raise RuntimeError("hashattn has no double backward: its gradients cannot be differentiated")


def _keep_slope(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _slope(ctx: Any, dloss: Tensor, _: Any) -> tuple[Any, ...]:
    (gradient,) = ctx.saved_tensors
    return (*[None] * 6, gradient * dloss, *[None] * 6)


_attention.register_autograd(_differentiate, setup_context=_keep)
_attention_backward.register_autograd(_refuse)
_own_loss.register_autograd(_slope, setup_context=_keep_slope)


# ---- the function ----------------------------------------------------------------------------------------------------


def _counts(given: Any) -> Tensor:
    return given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given), dtype=torch.int64)


def _pair(given: Any) -> tuple[Tensor, Tensor]:
    """(of queries, of keys) from one tensor or a pair."""
    if isinstance(given, tuple) and len(given) == 2 and all(np.ndim(each) == 1 for each in given):
        return _counts(given[0]), _counts(given[1])
    return _counts(given), _counts(given)


Seed = Union[int, Tensor, None]


def attention(q: Tensor, k: Tensor, v: Tensor, *, mechanism: str = "yoso", causal: bool = False,
              key_mask: Tensor | None = None, lengths: Any = None, offsets: Any = None, seed: Seed = None,
              params: Tensor | None = None, **options: OptionValue) -> Tensor:
    """Attention of queries `q` over keys `k` and values `v`, with gradients, in the dtype of the inputs.

    Arguments, shapes and errors are those of `hashattn.attention`, with tensors on the CPU, float32 or bfloat16; under
    autocast bfloat16 goes in and out. Nothing is copied if the last dimension is contiguous; dimensions of heads and
    batch may be expanded.
    params: learned tensors of "lha", (heads, floats), each head's in the order of `hashattn.Attention.tensors`; None
        draws them from the seed. They get a gradient from `own_loss` only.
    seed: 0 to 2^64 - 1, or a tensor with one int64; None draws it from torch's generator, so `torch.manual_seed`
        reproduces a run.

    Gradients are those of `hashattn.Attention.backward`. RuntimeError: double backward.
    """
    arguments = _arguments(q, k, v, mechanism, causal, key_mask, lengths, offsets, seed, params, options)
    save = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    out: Tensor = _attention(*arguments, save)[0]
    return out


def attention_and_loss(q: Tensor, k: Tensor, v: Tensor, params: Tensor, *, mechanism: str = "lha",
                       causal: bool = False, key_mask: Tensor | None = None, lengths: Any = None, offsets: Any = None,
                       seed: Seed = None, **options: OptionValue) -> tuple[Tensor, Tensor]:
    """As `attention`, and the mechanism's own loss, a float32 scalar, summed over sequences and heads.

    The loss has a gradient with respect to `params` only; LHA learns its hashes from it (Sun et al., ICLR 2022).
    """
    arguments = _arguments(q, k, v, mechanism, causal, key_mask, lengths, offsets, seed, params, options)
    out, saved = _attention(*arguments, True)
    return out, _own_loss(*(each.detach() if isinstance(each, Tensor) and each is not params else each
                            for each in arguments), saved)[0]


def _arguments(q: Tensor, k: Tensor, v: Tensor, mechanism: str, causal: bool, key_mask: Tensor | None, lengths: Any,
               offsets: Any, seed: Seed, params: Tensor | None, options: dict[str, OptionValue]) -> tuple[Any, ...]:
    """The arguments that the operators share."""
    if lengths is not None and offsets is not None:
        raise InvalidError("lengths and offsets cannot both be given")
    counts: tuple[Tensor | None, Tensor | None] = None, None
    if offsets is not None:
        counts = _pair(offsets)
    elif lengths is not None:
        counts = _pair(lengths)
        if not isinstance(lengths, tuple) and q.shape[-2] != k.shape[-2]:
            counts = torch.full_like(counts[1], q.shape[-2]), counts[1]
    if seed is None:
        seed = torch.randint(0, 2**63 - 1, ())
    elif not isinstance(seed, Tensor):
        if not 0 <= seed < 2**64:
            raise InvalidError(f"seed is {seed}, allowed are 0 to {2**64 - 1}")
        seed = torch.tensor(seed - 2**64 if seed >= 2**63 else seed)
    texts = []  # name, value, name, value, ...
    for name, value in options.items():
        texts += [name, ("true" if value else "false") if isinstance(value, bool) else str(value)]
    if torch.is_autocast_enabled("cpu"):  # not of the operator, which would round the learned tensors too
        q, k, v = (each.to(torch.get_autocast_dtype("cpu")) for each in (q, k, v))
    return (q, k, v, key_mask, *counts, params, lengths is not None, seed, causal, mechanism, texts)
