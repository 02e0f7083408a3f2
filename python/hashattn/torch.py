"""Attention by hashing for PyTorch tensors on the CPU: registered operators with autograd.

    import hashattn.torch
    out = hashattn.torch.attention(q, k, v)

The operators read and write the tensors' own memory and give the bits of `hashattn.attention`. They work with
torch.compile(fullgraph=True), torch.export, autocast and inference mode. Needs PyTorch 2.6 or newer.
Sources: as of hashattn.attention. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import torch
from torch import Tensor

from . import _library
from .arrays import Call, Layout, Numbers
from .errors import InvalidError, InvalidTypeError
from .operator import Attention
from .options import OptionValue

_ALIGNMENT = 64

_PROBLEM = ("Tensor q, Tensor k, Tensor v, Tensor? key_mask, Tensor? query_offsets, Tensor? key_offsets, bool padded, "
            "Tensor seed, bool causal, str mechanism, str[] options")


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


def _call(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_offsets: Tensor | None,
          key_offsets: Tensor | None, padded: bool, seed: Tensor, causal: bool) -> Call:
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


def _mechanism(mechanism: str, options: list[str]) -> Attention:
    given: dict[str, Any] = dict(zip(options[::2], options[1::2]))
    return Attention(mechanism, **given)


@torch.library.custom_op("hashattn::attention", mutates_args=(), device_types="cpu",
                         schema=f"({_PROBLEM}, bool save) -> (Tensor, Tensor)")
def _attention(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_offsets: Tensor | None,
               key_offsets: Tensor | None, padded: bool, seed: Tensor, causal: bool, mechanism: str, options: list[str],
               save: bool) -> tuple[Tensor, Tensor]:
    """The output, and with `save` what backward needs."""
    call = _call(q, k, v, key_mask, query_offsets, key_offsets, padded, seed, causal)
    with _mechanism(mechanism, options) as attention, attention._use() as handle:
        size = attention._saved_bytes(handle, call) + _ALIGNMENT if save else 0
        out, written = _output(call, q, call.out_shape)
        saved = torch.zeros(size, dtype=torch.uint8)  # not empty: padding too is the same in every run
        attention._forward(handle, call, written, _aligned(saved) if save else None)
    return out, saved


@_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_offsets: Tensor | None,
      key_offsets: Tensor | None, padded: bool, seed: Tensor, causal: bool, mechanism: str, options: list[str],
      save: bool) -> tuple[Tensor, Tensor]:
    size = torch.library.get_ctx().new_dynamic_size() if save else 0
    return q.new_empty((*q.shape[:-1], v.shape[-1])), torch.empty(size, dtype=torch.uint8)


@torch.library.custom_op("hashattn::attention_backward", mutates_args=(), device_types="cpu",
                         schema=f"({_PROBLEM}, Tensor out, Tensor saved, Tensor dout) -> (Tensor, Tensor, Tensor)")
def _attention_backward(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_offsets: Tensor | None,
                        key_offsets: Tensor | None, padded: bool, seed: Tensor, causal: bool, mechanism: str,
                        options: list[str], out: Tensor, saved: Tensor, dout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    call = _call(q, k, v, key_mask, query_offsets, key_offsets, padded, seed, causal)
    _check_tensors(q=q, dout=dout)
    if tuple(dout.shape) != tuple(out.shape):
        raise InvalidError(f"dout has shape {tuple(dout.shape)}; {tuple(out.shape)} is needed")
    results = [_output(call, tensor, tuple(tensor.shape)) for tensor in (q, k, v)]
    layouts = [Layout(_view(dout), call.packed), *(layout for _, layout in results)]
    with _mechanism(mechanism, options) as attention, attention._use() as handle:
        attention._backward(handle, call, Layout(_view(out), call.packed), layouts, _aligned(saved))
    return results[0][0], results[1][0], results[2][0]


@_attention_backward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, query_offsets: Tensor | None,
      key_offsets: Tensor | None, padded: bool, seed: Tensor, causal: bool, mechanism: str, options: list[str], out: Tensor,
      saved: Tensor, dout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors, (ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, ctx.saves) = inputs[:6], inputs[6:]
    ctx.save_for_backward(*tensors, seed, *output)
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    if not ctx.saves:
        raise RuntimeError("hashattn: the forward ran without gradients, so nothing was saved for backward")
    *tensors, seed, out, saved = ctx.saved_tensors
    gradients = _attention_backward(*tensors, ctx.padded, seed, ctx.causal, ctx.mechanism, ctx.options, out, saved, dout)
    return (*gradients, *[None] * 9)


def _refuse(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
    raise RuntimeError("hashattn has no double backward: its gradients cannot be differentiated")


_attention.register_autograd(_differentiate, setup_context=_keep)
_attention_backward.register_autograd(_refuse)
torch.library.register_autocast("hashattn::attention", "cpu", torch.bfloat16)


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
              **options: OptionValue) -> Tensor:
    """Attention of queries `q` over keys `k` and values `v`, with gradients, in the dtype of the inputs.

    Arguments, shapes and errors are those of `hashattn.attention`, with tensors on the CPU, float32 or bfloat16; under
    autocast bfloat16 goes in and out. Nothing is copied if the last dimension is contiguous; dimensions of heads and
    batch may be expanded. Learned tensors ("lha") are drawn from the seed and get no gradient.
    seed: 0 to 2^64 - 1, or a tensor with one int64; None draws it from torch's generator, so `torch.manual_seed`
        reproduces a run.

    Gradients are those of `hashattn.Attention.backward`. RuntimeError: double backward.
    """
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
    save = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    out: Tensor = _attention(q, k, v, key_mask, *counts, lengths is not None, seed, causal, mechanism, texts, save)[0]
    return out
