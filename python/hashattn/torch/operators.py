"""The registered operators: forward, backward and own loss, with fake tensors and autograd.

They are registered for the dispatcher's keys themselves, which costs a quarter of torch.library.custom_op. The seed is
a tensor, so that it stays in the graph of torch.compile and torch.export. The size of what forward saves depends on the
lengths, so compiled graphs treat it as unknown.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import torch
from torch import Tensor

from ..errors import InvalidError
from .calls import TensorLayout, aligned, call_of, check_tensors, new, opened, result, saved_block

# q, k, v, masks and lengths as of `attention`; counts are lengths if padded, else offsets; options: name, value, ...
_PROBLEM = ("Tensor q, Tensor k, Tensor v, Tensor? key_mask, Tensor? query_counts, Tensor? key_counts, "
            "Tensor? params, bool padded, Tensor seed, bool causal, str mechanism, str[] options")
_NUM_PROBLEM = 12

_library: Any = torch.library.Library("hashattn", "DEF")  # type: ignore[no-untyped-call]
_EXACT = torch.Tag.needs_exact_strides  # because the strides of results follow those of inputs
_library.define(f"attention({_PROBLEM}, bool save) -> (Tensor, Tensor)", tags=_EXACT)
_library.define(f"attention_backward({_PROBLEM}, Tensor out, Tensor saved, Tensor dout) -> (Tensor, Tensor, Tensor)",
                tags=_EXACT)
_library.define(f"own_loss({_PROBLEM}, Tensor saved) -> (Tensor, Tensor)", tags=_EXACT)

attention = torch.ops.hashattn.attention.default
attention_backward = torch.ops.hashattn.attention_backward.default
own_loss = torch.ops.hashattn.own_loss.default


def _call(problem: tuple[Any, ...]) -> Any:
    q, k, v, key_mask, query_counts, key_counts, _, padded, seed, causal, _, _ = problem
    return call_of(q, k, v, key_mask, query_counts, key_counts, padded, seed, causal)


def _opened(call: Any, problem: tuple[Any, ...]) -> Any:
    params, mechanism, options = problem[6], *problem[10:]
    return opened(call, mechanism, options, params)


# ---- on the CPU ------------------------------------------------------------------------------------------------------


def _forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The output, and with `save` what backward needs."""
    *problem, save = arguments
    call = _call(tuple(problem))
    with _opened(call, tuple(problem)) as mechanism:  # refuses sizes that overflow, before anything is allocated
        out = result(call, problem[0], call.out_shape)
        saved = saved_block(mechanism.saved_bytes) if save else torch.empty(0, dtype=torch.uint8)
        mechanism.run("attention_forward", [TensorLayout(out, call.packed)], aligned(saved) if save else None)
    return out, saved


def _backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    *problem, out, saved, dout = arguments
    call = _call(tuple(problem))
    if dout.dtype != out.dtype or dout.shape != out.shape:
        check_tensors(out=out, dout=dout)
        raise InvalidError(f"dout has shape {tuple(dout.shape)}; {tuple(out.shape)} is needed")
    gradients = [result(call, tensor, tensor.shape) for tensor in problem[:3]]
    layouts = [TensorLayout(tensor, call.packed) for tensor in (out, dout, *gradients)]
    with _opened(call, tuple(problem)) as mechanism:
        mechanism.run("attention_backward", layouts, aligned(saved))
    return gradients[0], gradients[1], gradients[2]


def _loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The mechanism's own loss after a forward with `params`, and its gradient, shaped as `params`."""
    *problem, saved = arguments
    call = _call(tuple(problem))
    loss, gradient = ctypes.c_double(), torch.zeros_like(problem[6], memory_format=torch.contiguous_format)
    kept = saved_block(saved.numel())  # a copy, because the library may use it as scratch memory
    ctypes.memmove(aligned(kept), aligned(saved), saved.numel() - (aligned(saved) - saved.data_ptr()))
    with _opened(call, tuple(problem)) as mechanism:
        mechanism.run("attention_own_loss", [], ctypes.byref(loss), gradient.data_ptr(), aligned(kept))
    return torch.tensor(loss.value, dtype=torch.float32), gradient


# ---- shapes only -----------------------------------------------------------------------------------------------------


def _fake_forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    q, _, v, *_, save = arguments
    size = torch.library.get_ctx().new_dynamic_size() if save else 0
    return new(q, (*q.shape[:-1], v.shape[-1])), torch.empty(size, dtype=torch.uint8, device=q.device)


def _fake_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, *_ = arguments
    return new(q, q.shape), new(k, k.shape), new(v, v.shape)


def _fake_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    params = arguments[6]
    return params.new_empty(()), torch.empty_like(params, memory_format=torch.contiguous_format)


# ---- autograd --------------------------------------------------------------------------------------------------------


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, ctx.saves = arguments
        with torch._C._AutoDispatchBelowAutograd():
            out, saved = attention(*arguments)
        ctx.save_for_backward(*tensors, seed, out, saved)
        ctx.mark_non_differentiable(saved)
        ctx.set_materialize_grads(False)
        return out, saved

    @staticmethod
    def backward(ctx: Any, dout: Any, _: Any) -> Any:
        if dout is None:
            return (None,) * (_NUM_PROBLEM + 1)
        if not ctx.saves:
            raise RuntimeError("hashattn: the forward ran without gradients, so nothing was saved for backward")
        *tensors, seed, out, saved = ctx.saved_tensors
        gradients = attention_backward(*tensors, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, out, saved,
                                       dout)
        return (*gradients, *[None] * (_NUM_PROBLEM - 2))


class _DifferentiatedOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return attention_backward(*arguments)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("hashattn has no double backward: its gradients cannot be differentiated")


class _OwnLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            loss, gradient = own_loss(*arguments)
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(gradient)
        return loss, gradient

    @staticmethod
    def backward(ctx: Any, dloss: Any, _: Any) -> Any:
        (gradient,) = ctx.saved_tensors
        return (*[None] * 6, gradient * dloss, *[None] * (_NUM_PROBLEM - 6))


def _autograd(operator: Any, function: Any) -> Callable[..., Any]:
    """The operator's kernel for autograd, which costs little if nothing needs a gradient."""

    def kernel(*arguments: Any) -> Any:
        if torch.is_grad_enabled():
            for each in arguments:
                if isinstance(each, Tensor) and each.requires_grad:
                    return function.apply(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)

    return kernel


for _name, _operator, _kernel, _fake, _function in (
    ("attention", attention, _forward, _fake_forward, _Differentiable),
    ("attention_backward", attention_backward, _backward, _fake_backward, _DifferentiatedOnce),
    ("own_loss", own_loss, _loss, _fake_loss, _OwnLoss),
):
    _library.impl(_name, _kernel, "CPU")
    _library.impl(_name, _autograd(_operator, _function), "Autograd")
    torch.library.register_fake(f"hashattn::{_name}", _fake, lib=_library)
