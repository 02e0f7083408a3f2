"""What attention functions of PyTorch and of flash-attention take, as a call of the operators.

A scale of the scores, fewer key-value heads than query heads, masks of padding in every usual shape and kind, float16, and
causal attention of the last queries of a sequence. The operators take none of these: queries are scaled and keys repeated
here, masks become (batch, n_k) bool, and the queries that are missing in front are added and their rows dropped.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

import torch
from torch import Tensor

from ..errors import InvalidError, InvalidTypeError, RefusedError
from ..options import OptionValue, text_of

LOWEST = -1e4  # added to a score, this or less takes the key out
# Where the group of a query depends on the other queries; without those the others would have other keys.
_QUERIES_COMPETE = ("lha", "lsh", "routing", "reformer", "probsparse")
# In cross attention these too, whose groups depend on the other queries or on their number.
_COMPETE_OVER_OTHERS = ("smyrf", "nystrom", "clustered", "random", "bigbird")
# Where a query has no place: the last one is the same without the others.
_WITHOUT_PLACES = ("softmax", "yoso", "yoso-e", "linear", "performer", "rfa", "race", "lss")


def has_places(mechanism: str, options: Mapping[str, OptionValue]) -> bool:
    """Whether the output of a query depends on its place among the keys, as under the gate of "rfa"."""
    gated = any(name.removeprefix("rfa.") == "gate" and text_of(name, value) == "true" for name, value in options.items())
    return gated or mechanism not in _WITHOUT_PLACES


def queries_compete(mechanism: str) -> bool:
    """Whether the output of a query of cross attention depends on the other queries, also on those behind it."""
    return mechanism in _QUERIES_COMPETE + _COMPETE_OVER_OTHERS


class Taken(NamedTuple):
    """The inputs of the operators, and how its output becomes the caller's."""

    q: Tensor
    k: Tensor
    v: Tensor
    key_mask: Tensor | None
    causal: bool
    rows: int | None  # the last rows of the output are asked for; None = all
    dtype: torch.dtype | None  # of the caller, if another than that of the inputs

    def given_back(self, out: Tensor) -> Tensor:
        """The caller's output from that of the operators."""
        if self.rows is not None:
            out = out[..., -self.rows:, :] if self.rows else out[..., :0, :]
        return out if self.dtype is None else out.to(self.dtype)


def take(q: Tensor, k: Tensor, v: Tensor, mechanism: str, options: Mapping[str, OptionValue], *, causal: bool = False,
         is_causal: bool = False, key_mask: Any = None, attn_mask: Any = None, scale: float | None = None,
         packed: bool = False, lengths: bool = False) -> Taken:
    """See `hashattn.torch.attention`. packed, lengths: whether there are offsets or lengths."""
    dtype = None
    if q.dtype == k.dtype == v.dtype == torch.float16:
        q, k, v, dtype = q.float(), k.float(), v.float(), torch.float16
    k, v = for_each_head(q, k, 1 if packed else -3), for_each_head(q, v, 1 if packed else -3)
    q = scaled(q, scale)
    if key_mask is not None:
        key_mask = padding("key_mask", key_mask, 0 if packed or q.ndim < 4 else q.shape[0])
    if attn_mask is not None:
        key_mask = _both(key_mask, _padding_of_scores(attn_mask, q, k))
    if not (causal or is_causal) or packed:
        return Taken(q, k, v, key_mask, causal or is_causal, None, dtype)
    queries, keys = q.shape[-2], k.shape[-2]
    if is_causal and queries != keys:
        raise InvalidError(f"is_causal=True with {queries} queries over {keys} keys: in PyTorch query 0 then sees key 0 "
                           "only; causal=True means that the last query sees the last key")
    if queries == keys:
        return Taken(q, k, v, key_mask, True, None, dtype)
    if queries > keys:
        raise InvalidError(f"causal attention of {queries} queries over {keys} keys: the first {queries - keys} queries "
                           "would see no key")
    if lengths:
        raise InvalidError(f"causal attention of {queries} queries over {keys} keys takes key_mask, and not lengths")
    if mechanism in _QUERIES_COMPETE:
        raise RefusedError(f"{mechanism}: causal attention of {queries} queries over {keys} keys needs all {keys} queries, "
                           "because the keys of a query depend on the other queries; models of the transformers library "
                           "pass them with use_cache=False")
    if queries == 1 and not has_places(mechanism, options):
        return Taken(q, k, v, key_mask, False, None, dtype)
    missing = q.new_zeros((*q.shape[:-2], keys - queries, q.shape[-1]))
    return Taken(torch.cat([missing, q], -2), k, v, key_mask, True, queries, dtype)


def scaled(q: Tensor, scale: float | None) -> Tensor:
    """Queries that give the scores of this scale."""
    factor = 1.0 if scale is None else float(scale) * q.shape[-1] ** 0.5
    return q if abs(factor - 1) <= 1e-6 else q * factor


def for_each_head(q: Tensor, shared: Tensor, axis: int) -> Tensor:
    """Keys or values with a head for each head of the queries."""
    if q.ndim != shared.ndim or q.ndim < 3 or q.shape[axis] == shared.shape[axis]:
        return shared
    heads, own = q.shape[axis], shared.shape[axis]
    if own == 0 or heads % own != 0:
        raise InvalidError(f"q has {heads} heads and k or v {own}; the number of heads of k and v must divide that of q")
    return shared.repeat_interleave(heads // own, axis)


# ---- masks -----------------------------------------------------------------------------------------------------------


def values_are_known(tensor: Tensor) -> bool:
    """False while a graph is traced, and in a transform of torch.func."""
    return (not torch.compiler.is_compiling() and type(tensor) is Tensor and tensor.device.type in ("cpu", "cuda")
            and not torch._C._are_functorch_transforms_active())


def on_host(mask: Tensor) -> Tensor:
    """A mask or lengths where the library reads them. From CUDA they are copied, which waits for the work before."""
    if not mask.is_cuda:
        return mask
    least: Tensor = mask
    for axis, stride in enumerate(mask.stride()):  # what is expanded is copied once
        least = least.narrow(axis, 0, 1) if stride == 0 and mask.shape[axis] > 1 else least
    return least.cpu().expand(mask.shape)


def takes_part(name: str, mask: Any) -> Tensor:
    """A mask as bool, on the processor, True where a key takes part: of bool; of whole numbers, 1 and 0; or of real numbers
    that are added to scores, 0 and -10000 or less."""
    if not isinstance(mask, Tensor):
        raise InvalidTypeError(f"{name} is a {type(mask).__name__}; a torch.Tensor is needed")
    taken: Tensor = on_host(mask)
    if taken.dtype == torch.bool:
        return taken
    if taken.dtype.is_complex:
        raise InvalidTypeError(f"{name} has dtype {taken.dtype}; bool, whole or real numbers are needed")
    added = taken.is_floating_point()
    if values_are_known(taken):
        allowed = (taken == 0) | ((taken <= LOWEST) if added else (taken == 1))
        if not bool(allowed.all()):
            found = f"{name} has dtype {taken.dtype} and the value {float(taken[~allowed].flatten()[0]):g}; "
            raise InvalidTypeError(found + (f"real numbers are added to scores, so 0 and {LOWEST:g} or less are allowed "
                                            f"(for 1 and 0: {name}.bool())" if added else "1 and 0 are allowed"))
    return taken == 0 if added else taken != 0


def padding(name: str, mask: Any, batch: int) -> Tensor:
    """(n_k) or (batch, n_k) bool from a mask of shape (n_k), (batch, n_k) or (batch, 1, 1, n_k). batch: 0 = there is
    none, and (n_k) is the only shape."""
    found = takes_part(name, mask)
    if found.ndim > 2 and all(size == 1 for size in found.shape[1:-1]):
        found = found.reshape(found.shape[0], found.shape[-1])
    if found.ndim == 2 and found.shape[0] == 1 != batch:
        found = found[0]
    return found


def _padding_of_scores(attn_mask: Any, q: Tensor, k: Tensor) -> Tensor:
    """(n_k) or (batch, n_k) from a mask that broadcasts to the scores, (batch, heads, n_q, n_k)."""
    mask = takes_part("attn_mask", attn_mask)
    scores = (*q.shape[:-1], k.shape[-2])
    if not 1 <= mask.ndim <= len(scores) or any(a not in (1, b) for a, b in zip(mask.shape[::-1], scores[::-1])):
        raise InvalidError(f"attn_mask has shape {tuple(mask.shape)}, which does not broadcast to {tuple(scores)}")
    if mask.ndim > 1:
        mask = _without(mask, -2, "differs between queries; hashattn takes masks of padding, which cost n_k and not n_q "
                                  "x n_k, and causal=True")
    if mask.ndim > 2:
        mask = _without(mask, -3, "differs between heads; hashattn takes masks of padding, alike for all heads")
    mask = mask.reshape(mask.shape[0], mask.shape[-1]) if mask.ndim > 1 else mask
    if mask.ndim == 2 and mask.shape[0] == 1:
        mask = mask[0]
    return mask.expand(*mask.shape[:-1], scores[-1])


def _without(mask: Tensor, axis: int, why: str) -> Tensor:
    """The mask with one entry on an axis along which it does not differ."""
    first = mask.narrow(axis, 0, 1)
    if mask.shape[axis] == 1 or mask.stride(axis) == 0:
        return first
    known = values_are_known(mask)
    if not known or not torch.equal(mask, first.expand_as(mask)):
        raise InvalidError(f"attn_mask of shape {tuple(mask.shape)} {'' if known else 'perhaps '}{why}")
    return first


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def padding_of_others(key: Tensor, value: Tensor, queries: int, key_mask: Tensor,
                      lengths: Tensor | None) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Keys, values and arguments of `attention` where keys are of another sequence, so padding is left out of keys only.

    The C library takes a mask over as many keys as queries for one of both; then the keys that take part move in front.
    key_mask: (batch, n_k); lengths: (batch) if only its ends are padding.
    """
    if lengths is None:
        if key.shape[-2] != queries:
            return key, value, {"key_mask": key_mask}
        order = torch.argsort(key_mask.to(torch.uint8), dim=1, descending=True, stable=True)[:, None, :, None]
        key, value = (each.gather(2, order.to(each.device).expand(each.shape)) for each in (key, value))
        lengths = key_mask.sum(1)
    return key, value, {"lengths": (torch.full_like(lengths, queries), lengths)}
