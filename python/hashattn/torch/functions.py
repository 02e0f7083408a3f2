"""The functions on the registered operators: `attention`, and `attention_and_loss` with a mechanism's own loss.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from typing import Any, Mapping, Union

import numpy as np
import torch
from torch import Tensor

from ..errors import Error, InvalidError, InvalidTypeError
from ..operator import Attention
from ..options import OptionValue, mechanisms, text_of
from . import operators
from .calls import DEVICES, check_tensors
from .sdpa import Taken, take

Seed = Union[int, Tensor, None]


def seed_of(training: bool, seed: Seed) -> Seed:
    """The seed of a layer's call: as given; else None in training, which draws it, and 0 outside, as in the tool."""
    return 0 if seed is None and not training else seed


def attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, *, mechanism: str = "yoso", causal: bool = False,
              key_mask: Tensor | None = None, lengths: Any = None, offsets: Any = None, seed: Seed = None,
              params: Tensor | None = None, max_len: int | None = None, scale: float | None = None,
              enable_gqa: bool = False, **options: OptionValue) -> Tensor:
    """Attention of queries `q` over keys `k` and values `v`, with gradients, in the dtype of the inputs.

    Arguments, shapes and errors are those of `hashattn.attention`, with tensors on the CPU, or for yoso on CUDA: float32,
    bfloat16 or float16; under autocast its dtype goes in and out. float16 is computed in float32 from a copy.
    Nothing else is copied if the last axis is contiguous, that is, has stride 1; the other axes may have any strides, and
    heads and batch may be expanded. Other tensors are copied once.
    k, v: may have fewer heads than q, whose number they divide: each serves q's heads in turn, as with `enable_gqa` of
        scaled_dot_product_attention, which is taken and needs not be given.
    scale: of the scores; None = 1 / sqrt(d). It is as if q were scale * sqrt(d) times as large, so it changes nothing in
        mechanisms that compare directions, such as yoso.
    causal: query i sees keys 0 .. n_k - n_q + i, so the last query sees the last key (several queries over a cache).
        InvalidError: n_q > n_k. RefusedError: n_q < n_k for "lha", "lsh", "routing", "reformer" and "probsparse", whose
        queries compete. Such a call costs as much as one with n_k queries, if n_q > 1.
    is_causal: as `causal`, for n_q = n_k only.
    key_mask: (n_k), (batch, n_k) or (batch, 1, 1, n_k). True or 1 means that the key takes part. Real numbers are added
        to scores: 0, or -10000 or less (-inf) for a key that does not. As in `hashattn.attention`, such a key is as if it
        had been cut out: in the middle or in front it shifts the positions of the keys behind it.
    attn_mask: a mask of padding that broadcasts to (batch, heads, n_q, n_k), of the same kinds. InvalidError: it differs
        by query or head, for which there is no linear cost.
    dropout_p: 0, because there are no attention weights to drop.
    mechanism: "reformer" takes q as its keys, so k is not read and gets the gradient 0.
    params: learned tensors of "rfa", "lha" and others, (heads, floats) float32, each head's in the order of
        `hashattn.Attention.tensors`, as `Learned` joins them; None draws them from the seed. They get the gradient of
        `hashattn.Attention.backward_params`, which is 0 for "lha" and "routing": see `attention_and_loss`.
    max_len: the longest sequence that they are made for; None = the longest of this call.
    seed: 0 to 2^64 - 1, or a tensor with one int64; None draws it from torch's generator, so `torch.manual_seed`
        reproduces a run. softmax and others that use no seed draw none.

    On CUDA it starts work on torch's stream and returns. `hashattn.torch.wait` then tells of NaN. Masks, lengths, offsets and
    a seed are read on the CPU. If they are on CUDA they are copied, which waits for the work before.

    On the CPU it computes on torch's number of threads (`torch.set_num_threads`). Gradients are those of
    `hashattn.Attention.backward`, also by torch.func.grad, vjp and jacrev. torch.vmap makes one call for each sample.
    RuntimeError: double backward. NotImplementedError: forward-mode derivatives.
    """
    if dropout_p:
        raise InvalidError(f"dropout_p is {dropout_p}; hashattn makes no attention weights, so none can be dropped")
    taken, arguments = _arguments(q, k, v, mechanism, causal, key_mask, lengths, offsets, seed, params, max_len, options,
                                  is_causal, attn_mask, scale)
    q, k, v = arguments[:3]
    save = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad
                                        or (params is not None and params.requires_grad))
    return taken.given_back(operators.attend(arguments, save)[0])


def attention_and_loss(q: Tensor, k: Tensor, v: Tensor, params: Tensor, *, mechanism: str = "lha",
                       causal: bool = False, key_mask: Tensor | None = None, lengths: Any = None, offsets: Any = None,
                       seed: Seed = None, max_len: int | None = None, scale: float | None = None,
                       **options: OptionValue) -> tuple[Tensor, Tensor]:
    """As `attention`, and the mechanism's own loss, a float32 scalar, summed over sequences and heads.

    The loss has a gradient with respect to `params` only; LHA learns its hashes from it (Sun et al., ICLR 2022), and
    routing its centroids. It is 0 for mechanisms that have none.
    """
    taken, arguments = _arguments(q, k, v, mechanism, causal, key_mask, lengths, offsets, seed, params, max_len, options,
                                  scale=scale)
    out, saved = operators.attend(arguments, True)
    loss = operators.loss_of(tuple(each.detach() if isinstance(each, Tensor) and each is not params else each
                                   for each in arguments), saved)
    return taken.given_back(out), loss


def _whole(name: str, given: Any) -> Tensor:
    """Lengths or offsets as a tensor."""
    counts = given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given), dtype=torch.int64)
    _check_device(name, counts)
    return counts


def _check_device(name: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise InvalidTypeError(f"{name} is a {type(tensor).__name__}; a torch.Tensor is needed")
    if tensor.device.type not in DEVICES:
        raise InvalidTypeError(f"{name} is on {tensor.device}; hashattn computes on the CPU and on CUDA: {name}.cpu()")


def _pair(name: str, given: Any) -> tuple[Tensor, Tensor | None]:
    """(of queries, of keys) from one tensor or a pair; None: there is one."""
    if isinstance(given, tuple) and len(given) == 2 and all(np.ndim(each) == 1 for each in given):
        return _whole(name, given[0]), _whole(name, given[1])
    return _whole(name, given), None


def learns(mechanism: str, options: Mapping[str, Any]) -> bool:
    """The mechanism has learned tensors with these options. InvalidError: it or an option is unknown."""
    with Attention(mechanism, **options) as made:
        return bool(made.tensors(64, 64, 64))


@torch.compiler.assume_constant_result  # type: ignore[misc,untyped-decorator,unused-ignore]
def _uses_seed(mechanism: str, has_params: bool, texts: tuple[str, ...]) -> bool:
    """The output depends on the seed, or what the mechanism learns is drawn from it. An unknown name counts as yes: the
    operators tell. A plain function, because Dynamo warns of a cache that it sees."""
    return _found_to_use_seed(mechanism, has_params, texts)


@functools.lru_cache(maxsize=None)
def _found_to_use_seed(mechanism: str, has_params: bool, texts: tuple[str, ...]) -> bool:
    try:
        return not mechanisms()[mechanism].exact or (not has_params and learns(mechanism, dict(zip(texts[::2], texts[1::2]))))
    except (KeyError, Error):
        return True


def _seed(seed: Seed) -> Tensor:
    if seed is None:
        return torch.randint(0, 2**63 - 1, ())
    if isinstance(seed, Tensor):
        if seed.numel() != 1 or seed.is_floating_point() or seed.is_complex():
            raise InvalidTypeError(f"seed is a tensor of shape {tuple(seed.shape)} and dtype {seed.dtype}; one whole "
                                   "number is needed")
        return seed
    if not isinstance(seed, (int, np.integer)):
        raise InvalidTypeError(f"seed is {seed!r}; a whole number or a tensor with one is needed")
    seed = int(seed)
    if not 0 <= seed < 2**64:
        raise InvalidError(f"seed is {seed}, allowed are 0 to {2**64 - 1}")
    return torch.scalar_tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64)


def _arguments(q: Tensor, k: Tensor, v: Tensor, mechanism: str, causal: bool, key_mask: Tensor | None, lengths: Any,
               offsets: Any, seed: Seed, params: Tensor | None, max_len: int | None, options: dict[str, OptionValue],
               is_causal: bool = False, attn_mask: Tensor | None = None,
               scale: float | None = None) -> tuple[Taken, tuple[Any, ...]]:
    """What goes back to the caller, and the arguments that the operators share."""
    if not isinstance(mechanism, str):
        raise InvalidTypeError(f"mechanism is {mechanism!r}; a name is needed")
    if lengths is not None and offsets is not None:
        raise InvalidError("lengths and offsets cannot both be given")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, Tensor):
            raise InvalidTypeError(f"{name} is a {type(tensor).__name__}; a torch.Tensor is needed")
        if tensor.is_nested:
            raise InvalidTypeError(f"{name} is a nested tensor; a dense one is needed, with lengths, or packed rows with offsets")
    kind = q.device.type if q.device.type == "cuda" else "cpu"
    if torch.is_autocast_enabled(kind):  # not of the operator, which would round the learned tensors too
        q, k, v = (each.to(torch.get_autocast_dtype(kind)) for each in (q, k, v))
    taken = take(q, k, v, mechanism, options, causal=causal, is_causal=is_causal, key_mask=key_mask, attn_mask=attn_mask,
                 scale=scale, packed=offsets is not None, lengths=lengths is not None)
    q, k, v, key_mask = taken[:4]
    if not (q.is_cpu and k.is_cpu and v.is_cpu and q.layout is k.layout is v.layout is torch.strided
            and q.dtype is k.dtype is v.dtype is torch.float32):
        check_tensors((torch.float16,), q=q, k=k, v=v)
    if key_mask is not None:
        _check_device("key_mask", key_mask)
    if params is not None:
        _check_device("params", params)
    counts: tuple[Tensor | None, Tensor | None] = None, None
    if offsets is not None:
        counts = _pair("offsets", offsets)
    elif lengths is not None:
        counts = _pair("lengths", lengths)
    texts: list[str] = []  # name, value, name, value, ...
    for name, value in options.items():
        texts += [name, text_of(name, value)]
    if seed is None and not _uses_seed(mechanism, params is not None, tuple(texts)):
        seed = 0
    return taken, (q, k, v, key_mask, *counts, params, max_len, lengths is not None, _seed(seed), taken.causal, mechanism,
                   texts)
