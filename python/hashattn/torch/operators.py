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
from .calls import check_tensors, new, opened, saved_block

# q, k, v, masks and lengths as of `attention`; counts are lengths if padded, else offsets; options: name, value, ...
_PROBLEM = ("Tensor q, Tensor k, Tensor v, Tensor? key_mask, Tensor? query_counts, Tensor? key_counts, "
            "Tensor? params, SymInt? max_len, bool padded, Tensor seed, bool causal, str mechanism, str[] options")
_NUM_PROBLEM = 13
_PARAMS = 6  # place of the learned tensors

_library: Any = torch.library.Library("hashattn", "DEF")  # type: ignore[no-untyped-call]
_EXACT = torch.Tag.needs_exact_strides  # because the strides of results follow those of inputs
_library.define(f"attention({_PROBLEM}, bool save) -> (Tensor, Tensor)", tags=_EXACT)
_library.define(f"attention_backward({_PROBLEM}, Tensor out, Tensor saved, Tensor dout) "
                "-> (Tensor, Tensor, Tensor, Tensor)", tags=_EXACT)
_library.define(f"own_loss({_PROBLEM}, Tensor saved) -> (Tensor, Tensor)", tags=_EXACT)

attention = torch.ops.hashattn.attention.default
attention_backward = torch.ops.hashattn.attention_backward.default
own_loss = torch.ops.hashattn.own_loss.default


# ---- on the CPU ------------------------------------------------------------------------------------------------------


def _forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The output, and with `save` what backward needs."""
    *problem, save = arguments
    with opened(*problem) as call:
        out = call.result(problem[0], call.out_shape)
        saved = saved_block(call.saved_bytes) if save else torch.empty(0, dtype=torch.uint8)
        call.run("attention_forward", [out], saved.data_ptr() if save else None)
    return out, saved


def _backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and params; the last is empty without params."""
    *problem, out, saved, dout = arguments
    if dout.dtype != out.dtype or dout.shape != out.shape:
        check_tensors(out=out, dout=dout)
        raise InvalidError(f"dout has shape {tuple(dout.shape)}; {tuple(out.shape)} is needed")
    with opened(*problem) as call:
        dq, dk, dv = (call.result(tensor, tensor.shape) for tensor in problem[:3])
        dparams = _like_params(problem)
        call.run("attention_backward_params", [out, dout, dq, dk, dv], dparams.data_ptr() or None, saved.data_ptr())
    return dq, dk, dv, dparams


def _like_params(problem: Any) -> Tensor:
    """A tensor for the gradient of the learned tensors, without elements if there are none."""
    params: Tensor | None = problem[_PARAMS]
    if params is None:
        return torch.empty(0, dtype=torch.float32, device=problem[0].device)
    return torch.empty_like(params, memory_format=torch.contiguous_format)


def _loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The mechanism's own loss after a forward with `params`, and its gradient, shaped as `params`."""
    *problem, saved = arguments
    loss, gradient = ctypes.c_double(), torch.zeros_like(problem[_PARAMS], memory_format=torch.contiguous_format)
    kept = saved.clone()  # because the library may use it as scratch memory
    with opened(*problem) as call:
        call.run("attention_own_loss", [], ctypes.byref(loss), gradient.data_ptr(), kept.data_ptr())
    return torch.tensor(loss.value, dtype=torch.float32), gradient


# ---- shapes only -----------------------------------------------------------------------------------------------------


def _fake_forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    q, _, v, *_, save = arguments
    size = torch.library.get_ctx().new_dynamic_size() if save else 0
    return new(q, (*q.shape[:-1], v.shape[-1])), torch.empty(size, dtype=torch.uint8, device=q.device)


def _fake_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v, *_ = arguments
    return new(q, q.shape), new(k, k.shape), new(v, v.shape), _like_params(arguments)


def _fake_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    return arguments[_PARAMS].new_empty(()), _like_params(arguments)


# ---- autograd --------------------------------------------------------------------------------------------------------


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, ctx.max_len, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, ctx.saves = arguments
        out, saved = _below(attention, arguments)
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
        arguments = (*tensors, ctx.max_len, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, out, saved, dout)
        found = attention_backward(*arguments) if torch.is_grad_enabled() else _below(attention_backward, arguments)
        *gradients, dparams = found
        return (*gradients, *[None] * (_PARAMS - 3), None if tensors[_PARAMS] is None else dparams,
                *[None] * (_NUM_PROBLEM - _PARAMS))


class _DifferentiatedOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        return _below(attention_backward, arguments)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("hashattn has no double backward: its gradients cannot be differentiated")


class _OwnLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        loss, gradient = _below(own_loss, arguments)
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(gradient)
        return loss, gradient

    @staticmethod
    def backward(ctx: Any, dloss: Any, _: Any) -> Any:
        (gradient,) = ctx.saved_tensors
        return (*[None] * _PARAMS, gradient * dloss, *[None] * (_NUM_PROBLEM - _PARAMS))


def _below(operator: Any, arguments: tuple[Any, ...]) -> Any:
    """Calls an operator without its kernel for autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def attend(arguments: tuple[Any, ...], save: bool) -> tuple[Tensor, Tensor]:
    """As `attention(*arguments, save)`; `save` says whether q, k, v or params needs a gradient.

    Each pass through the dispatcher into Python costs about 10 us; where nothing traces the call, the one that decides
    about autograd is left out.
    """
    found: tuple[Tensor, Tensor]
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        found = attention(*arguments, save)
    elif save:
        found = _Differentiable.apply(*arguments, True)  # type: ignore[no-untyped-call]
    else:
        found = _below(attention, (*arguments, False))
    return found


def _autograd(operator: Any, function: Any) -> Callable[..., Any]:
    """The operator's kernel for autograd, which costs little if nothing needs a gradient."""

    def kernel(*arguments: Any) -> Any:
        if torch.is_grad_enabled():
            for each in arguments:
                if isinstance(each, Tensor) and each.requires_grad:
                    return function.apply(*arguments)
        return _below(operator, arguments)

    return kernel


for _name, _operator, _kernel, _fake, _function in (
    ("attention", attention, _forward, _fake_forward, _Differentiable),
    ("attention_backward", attention_backward, _backward, _fake_backward, _DifferentiatedOnce),
    ("own_loss", own_loss, _loss, _fake_loss, _OwnLoss),
):
    _library.impl(_name, _kernel, "CPU")
    _library.impl(_name, _autograd(_operator, _function), "Autograd")
    torch.library.register_fake(f"hashattn::{_name}", _fake, lib=_library)
