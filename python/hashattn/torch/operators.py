"""The registered operators: forward, backward and own loss, with fake tensors and autograd.

They are registered for the dispatcher's keys themselves, which costs a quarter of torch.library.custom_op. The seed is
a tensor, so that it stays in the graph of torch.compile and torch.export. The size of what forward saves follows from
shapes (saved.py), except on CUDA and in an exported graph, where it is unknown. torch.func has reverse derivatives and
vmap, one call for each sample; forward-mode derivatives are refused.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..errors import InvalidError
from .calls import aligned_address, aligned_block, check_tensors, new, opened, saved_block
from .saved import saved_bytes

# q, k, v, masks and lengths as of `attention`; counts are lengths if padded, else offsets; options: name, value, ...
_PROBLEM = ("Tensor q, Tensor k, Tensor v, Tensor? key_mask, Tensor? query_counts, Tensor? key_counts, "
            "Tensor? params, SymInt? max_len, bool padded, Tensor seed, bool causal, str mechanism, str[] options")
_NUM_PROBLEM = 13
_PARAMS = 6  # place of the learned tensors

_library: Any = torch.library.Library("hashattn", "DEF")  # type: ignore[no-untyped-call,unused-ignore]
# Because the strides of results follow those of inputs. torch has this tag from 2.7 on; before, inductor kept strides.
_EXACT = tuple(getattr(torch.Tag, name) for name in ("needs_exact_strides",) if hasattr(torch.Tag, name))
_library.define(f"attention({_PROBLEM}, bool save) -> (Tensor, Tensor)", tags=_EXACT)
_library.define(f"attention_backward({_PROBLEM}, Tensor out, Tensor saved, Tensor dout) "
                "-> (Tensor, Tensor, Tensor, Tensor)", tags=_EXACT)
_library.define(f"own_loss({_PROBLEM}, Tensor saved) -> (Tensor, Tensor)", tags=_EXACT)

attention = torch.ops.hashattn.attention.default
attention_backward = torch.ops.hashattn.attention_backward.default
own_loss = torch.ops.hashattn.own_loss.default


# ---- on the CPU and on CUDA -------------------------------------------------------------------------------------------


def _forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The output, and with `save` what backward needs."""
    *problem, save = arguments
    size = _saved_bytes(problem) if save and not problem[0].is_cuda else 0
    with opened(*problem) as call:
        out = call.result(problem[0], call.out_shape)
        # On a device the library would allocate the block itself, and wait for the device to free it.
        block = saved_block(max(size, call.saved_bytes), out) if save or out.is_cuda else None
        call.run("attention_forward", [out], None if block is None else aligned_address(block))
    return out, block if block is not None and save else torch.empty(0, dtype=torch.uint8, device=out.device)


def _saved_bytes(problem: Any) -> Any:
    q, k, v, _, query_counts, _, _, max_len, padded, _, causal, mechanism, options = problem
    return saved_bytes(q, k, v, query_counts, max_len, padded, causal, mechanism, options)


def _backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and params; the last is empty without params."""
    *problem, out, saved, dout = arguments
    if dout.dtype != out.dtype or dout.shape != out.shape:
        check_tensors(out=out, dout=dout)
        raise InvalidError(f"dout has shape {tuple(dout.shape)}; {tuple(out.shape)} is needed")
    saved = aligned_block(saved)
    with opened(*problem) as call:
        dq, dk, dv = (call.result(tensor, tensor.shape) for tensor in problem[:3])
        dparams = _like_params(problem)
        call.run("attention_backward_params", [out, dout, dq, dk, dv], dparams.data_ptr() or None, aligned_address(saved))
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
    *problem, save = arguments
    q, _, v, *_ = problem
    size: Any = 0
    if save:
        unknown = q.is_cuda or _is_exporting()
        size = torch.library.get_ctx().new_dynamic_size() if unknown else _saved_bytes(problem)
    return new(q, (*q.shape[:-1], v.shape[-1])), torch.empty(size, dtype=torch.uint8, device=q.device)


def _is_exporting() -> bool:
    """An exported graph may be for any number of rows, and not to the next power of two only. From torch 2.7 on."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())


def _fake_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v, *_ = arguments
    return new(q, q.shape), new(k, k.shape), new(v, v.shape), _like_params(arguments)


def _fake_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
    return arguments[_PARAMS].new_empty(()), _like_params(arguments)


# ---- autograd --------------------------------------------------------------------------------------------------------

_NO_TANGENTS = ("hashattn has no forward-mode derivatives (torch.func.jvp, jacfwd, forward_ad); torch.func.grad, vjp and "
                "jacrev work")


class _ReverseOnly(torch.autograd.Function):
    """A function without tangents, which vmap calls for each sample."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(_NO_TANGENTS)

    @classmethod
    def _for_each(cls, info: Any, in_dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        if info.batch_size == 0:
            results = cls._for_none(in_dims, arguments)
            return results, (0,) * len(results)
        rows = []
        for sample in range(info.batch_size):
            given = [each.select(dim, sample) if isinstance(dim, int) else each for each, dim in zip(arguments, in_dims)]
            rows.append(cls.apply(*given))  # type: ignore[no-untyped-call,unused-ignore]
        results = tuple(_stacked(column) for column in zip(*rows))
        return results, (0,) * len(results)

    @classmethod
    def _for_none(cls, in_dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """Results for no samples, with the shapes that a sample would have. Real numbers are part of the graph, so that
        gradients are 0 and not missing."""
        given = [torch.empty([size for axis, size in enumerate(each.shape) if axis != dim], dtype=each.dtype, device="meta")
                  if isinstance(each, Tensor) else each for each, dim in zip(arguments, in_dims)]
        zero = sum(each.sum() * 0 for each in arguments if isinstance(each, Tensor) and each.is_floating_point())
        empty = (torch.empty((0, *each.shape), dtype=each.dtype, device=arguments[0].device) for each in cls.forward(*given))
        return tuple(each + zero if each.is_floating_point() else each for each in empty)


def _stacked(samples: tuple[Tensor, ...]) -> Tensor:
    """(samples, ...); bytes that forward saved may differ in number and are filled up to a multiple of 64."""
    if samples[0].dtype != torch.uint8:
        return torch.stack(samples)
    size = -(-max(each.numel() for each in samples) // 64) * 64
    if torch._C._are_functorch_transforms_active():  # samples of an outer vmap, which one block cannot take
        return torch.stack([torch.nn.functional.pad(each, (0, size - each.numel())) for each in samples])
    stacked = saved_block(len(samples) * size, samples[0]).view(len(samples), size)
    for row, each in zip(stacked, samples):
        row[:each.numel()] = each
    return stacked


class _Differentiable(_ReverseOnly):
    @staticmethod
    def forward(*arguments: Any) -> Any:
        return _below(attention, arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.max_len, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, ctx.saves = inputs
        out, saved = output
        ctx.save_for_backward(*tensors, seed, out, saved)
        ctx.mark_non_differentiable(saved)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dout: Any, _: Any) -> Any:
        if dout is None:
            return (None,) * (_NUM_PROBLEM + 1)
        if not ctx.saves:
            raise RuntimeError("hashattn: the forward ran without gradients, so nothing was saved for backward")
        *tensors, seed, out, saved = ctx.saved_tensors
        arguments = (*tensors, ctx.max_len, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, out, saved, dout)
        *gradients, dparams = _backward_of(arguments)
        return (*gradients, *[None] * (_PARAMS - 3), None if tensors[_PARAMS] is None else dparams,
                *[None] * (_NUM_PROBLEM - _PARAMS))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        return _Differentiable._for_each(info, in_dims, arguments)


def _backward_of(arguments: tuple[Any, ...]) -> Any:
    if torch._C._are_functorch_transforms_active():
        return _DifferentiatedOnce.apply(*arguments)  # type: ignore[no-untyped-call,unused-ignore]
    return attention_backward(*arguments) if torch.is_grad_enabled() else _below(attention_backward, arguments)


class _DifferentiatedOnce(_ReverseOnly):
    @staticmethod
    def forward(*arguments: Any) -> Any:
        return _below(attention_backward, arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("hashattn has no double backward: its gradients cannot be differentiated")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        return _DifferentiatedOnce._for_each(info, in_dims, arguments)


class _OwnLoss(_ReverseOnly):
    @staticmethod
    def forward(*arguments: Any) -> Any:
        return _below(own_loss, arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, gradient = output
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(gradient)

    @staticmethod
    def backward(ctx: Any, dloss: Any, _: Any) -> Any:
        (gradient,) = ctx.saved_tensors  # vmap over no samples multiplies by no scalar
        return (*[None] * _PARAMS, gradient * dloss.expand(gradient.shape), *[None] * (_NUM_PROBLEM - _PARAMS))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        return _OwnLoss._for_each(info, in_dims, arguments)


def _below(operator: Any, arguments: tuple[Any, ...]) -> Any:
    """Calls an operator without its kernel for autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def _has_tangent(arguments: tuple[Any, ...]) -> bool:
    """Inside forward_ad.dual_level: one of the tensors has a tangent."""
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(each).tangent is not None for each in arguments  # type: ignore[no-untyped-call,unused-ignore]
        if isinstance(each, Tensor) and each.is_floating_point())


def attend(arguments: tuple[Any, ...], save: bool) -> tuple[Tensor, Tensor]:
    """As `attention(*arguments, save)`; `save` says whether q, k, v or params needs a gradient.

    Each pass through the dispatcher into Python costs about 10 us; where nothing traces the call, the one that decides
    about autograd is left out.
    """
    found: tuple[Tensor, Tensor]
    if torch.compiler.is_compiling():
        found = attention(*arguments, save)
    elif torch._C._are_functorch_transforms_active():  # which do not tell whether a gradient is needed
        found = _Differentiable.apply(*arguments, True)  # type: ignore[no-untyped-call,unused-ignore]
    elif save or _has_tangent(arguments):
        found = _apply(*arguments, True)
    else:
        found = _below(attention, (*arguments, False))
    return found


# Function.apply without the binding of its arguments to names, which takes 50 us.
_apply: Any = super(torch.autograd.Function, _Differentiable).apply


def loss_of(arguments: tuple[Any, ...], saved: Tensor) -> Tensor:
    """The first result of `own_loss(*arguments, saved)`."""
    transformed = not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()
    call: Any = _OwnLoss.apply if transformed else own_loss
    loss: Tensor = call(*arguments, saved)[0]
    return loss


def _autograd(operator: Any, function: Any) -> Callable[..., Any]:
    """The operator's kernel for autograd, which costs little if nothing needs a gradient."""

    def kernel(*arguments: Any) -> Any:
        if torch.is_grad_enabled():
            for each in arguments:
                if isinstance(each, Tensor) and each.requires_grad:
                    return function.apply(*arguments)
        if _has_tangent(arguments):
            return function.apply(*arguments)
        return _below(operator, arguments)

    return kernel


for _name, _operator, _kernel, _fake, _function in (
    ("attention", attention, _forward, _fake_forward, _Differentiable),
    ("attention_backward", attention_backward, _backward, _fake_backward, _DifferentiatedOnce),
    ("own_loss", own_loss, _loss, _fake_loss, _OwnLoss),
):
    _library.impl(_name, _kernel, "CPU")
    _library.impl(_name, _kernel, "CUDA")
    _library.impl(_name, _autograd(_operator, _function), "Autograd")
    torch.library.register_fake(f"hashattn::{_name}", _fake, lib=_library)
