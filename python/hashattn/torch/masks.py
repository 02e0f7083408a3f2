"""Masks of the transformers library: what a model asks for, and what its attention layers receive.

Attention at linear cost knows two masks, with padding in both: every query sees every key, or query i sees keys up to its
own place. Either may be cut to a window of near keys, or hold several sequences in a row (packed). Others are refused. A
`Mask` stands for one of them and keeps the memory linear; to a model that computes with it, it is the dense mask. Masks
that a model makes itself are read by their values, except while a graph is compiled, where only shapes are known.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InvalidError
from .sdpa import LOWEST, on_host, values_are_known

_NEEDED = ("hashattn takes masks of padding and causal masks only; this mask, of shape {shape} and dtype {dtype}, {why}")


def _refuse(mask: Tensor, why: str) -> InvalidError:
    return InvalidError(_NEEDED.format(shape=tuple(mask.shape), dtype=mask.dtype, why=why))


class Mask(Tensor):
    """A tensor (batch, 1, queries, keys), which says what it means: bool, or 0 and the lowest number to add to scores.

    It is on the model's device, and what it says on the processor, where the library reads it.
    key_mask: (batch, keys) bool, True where a key takes part; None = all do. lengths: (batch) where only the ends are
    padding, else None. causal: query i sees keys 0 .. first + i. reach: only keys at a distance of at most this from that
    place; None = any. sequences: (batch, n), numbers of packed sequences; None = one.
    """

    key_mask: Tensor | None
    lengths: Tensor | None
    causal: bool
    first: int
    reach: int | None
    sequences: Tensor | None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            mask = args[0] if args and isinstance(args[0], Mask) else None
            if mask is not None and func.__name__ in _DESCRIBE:
                found = func(*args, **kwargs)
                if not isinstance(found, Tensor):
                    return found
            if mask is not None and func is Tensor.__getitem__ and _takes_all(mask, args[1]):
                return mask
            if mask is not None and func is Tensor.to and func(*args, **kwargs) is mask:
                return mask
            if mask is not None and func is Tensor.contiguous:  # by `generate`, which does not write to it
                return mask
            return func(*_dense(args), **_dense(kwargs))


_DESCRIBE = frozenset({"__get__", "size", "dim", "stride", "numel", "nelement", "element_size", "is_contiguous",
                       "is_floating_point", "is_complex", "ndimension", "__len__", "get_device", "data_ptr"})


def _takes_all(mask: Mask, index: Any) -> bool:
    """`mask[index]` is the whole mask."""
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > 4 or not all(isinstance(each, slice) for each in parts):
        return False
    return all(len(range(*each.indices(size))) == size for each, size in zip(parts, mask.shape))


def _dense(given: Any) -> Any:
    """Arguments of a function of torch with each mask in full."""
    if isinstance(given, Mask):
        return in_full(given)
    if isinstance(given, (tuple, list)):
        return type(given)(_dense(each) for each in given)
    if isinstance(given, dict):
        return {name: _dense(each) for name, each in given.items()}
    return given


def in_full(mask: Mask) -> Tensor:
    """(batch, 1, queries, keys) with every entry."""
    batch, _, queries, keys = mask.shape
    there: Any = {"device": mask.device}
    own = torch.arange(queries, **there)[:, None] + mask.first
    seen = (torch.ones(1, 1, 1, 1, dtype=torch.bool, **there) if mask.key_mask is None
            else mask.key_mask.to(**there)[:, None, None, :])
    if mask.causal:
        seen = seen & (torch.arange(keys, **there) <= own)
    if mask.reach is not None:
        seen = seen & ((torch.arange(keys, **there) - own).abs() <= mask.reach)
    if mask.sequences is not None:
        sequences = mask.sequences.to(**there)
        seen = seen & (sequences[:, None, :, None] == sequences[:, None, None, :])
    return _of_type(seen, mask.dtype).expand(batch, 1, queries, keys)


def _of_type(seen: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bool:
        return seen
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, torch.finfo(dtype).min)


def make(batch: int, queries: int, keys: int, key_mask: Tensor | None, causal: bool, first: int,
         dtype: torch.dtype = torch.bool, reach: int | None = None, sequences: Tensor | None = None,
         cut: bool = False, device: Any = None) -> Mask:
    """A mask of these sizes on `device`; key_mask and sequences are on the processor.

    first: the place of the first query among the keys. dtype: bool, or of the numbers that are added to scores. A reach that
    removes no key is dropped, unless keys in front of it were cut off before (cut).
    """
    if reach is not None and not cut and reach >= max(first + queries - 1, 0 if causal else keys - 1 - first):
        reach = None
    lengths = None
    if key_mask is not None and values_are_known(key_mask):
        lengths = lengths_of(key_mask)
        if bool(key_mask.all()):
            key_mask = lengths = None
    seen = torch.ones(1, 1, dtype=torch.bool) if key_mask is None else key_mask
    mask = _of_type(seen[:, None, None, :], dtype).to(device).expand(batch, 1, queries, keys).as_subclass(Mask)
    mask.key_mask, mask.lengths, mask.causal, mask.first = key_mask, lengths, causal, first
    mask.reach, mask.sequences = reach, sequences
    return mask


class Reading(NamedTuple):
    """What a mask means: as the attributes of `Mask`."""

    key_mask: Tensor | None
    lengths: Tensor | None
    causal: bool
    first: int
    reach: int | None = None
    sequences: Tensor | None = None


def read(mask: Tensor | None, queries: int, keys: int, causal: bool) -> Reading:
    """A mask as an attention layer receives it: None, a `Mask`, (batch, keys), or (batch, 1 or heads, queries, keys).

    causal: of the call or its layer, which counts where the mask does not say so itself.
    InvalidError: another shape, other values, or a mask of another kind.
    """
    if mask is None:
        return Reading(None, None, causal, keys - queries)
    if isinstance(mask, Mask):
        if (mask.shape[2], mask.shape[3]) != (queries, keys):
            raise _refuse(mask, f"is not (batch, 1, {queries}, {keys})")
        return Reading(mask.key_mask, mask.lengths, mask.causal, mask.first, mask.reach, mask.sequences)
    if mask.ndim == 4 and mask.shape[-1] > keys:  # as the library's own functions; GPT-2 before 5.0 has one more
        mask = mask[..., :keys]
    if mask.ndim not in (2, 4) or mask.shape[-1] != keys:
        raise _refuse(mask, f"is not (batch, {keys}) or (batch, 1, 1 or queries, {keys})")
    taking = _taking_part(mask)
    first = keys - queries
    if mask.ndim == 4:
        taking, causal, first = _read_dense(mask, taking, queries)
    taking = on_host(taking)
    lengths = lengths_of(taking) if values_are_known(taking) else None
    return Reading(taking, lengths, causal, first)


def _taking_part(mask: Tensor) -> Tensor:
    """The mask as bool. With two dimensions 1 takes part and 0 does not. With four, if not bool, 0 and a large negative
    number are added to the scores."""
    if mask.dtype == torch.bool:
        return mask
    additive = mask.ndim == 4 and mask.is_floating_point()
    if values_are_known(mask):
        allowed = (mask == 0) | (mask <= LOWEST) if additive else (mask == 0) | (mask == 1)
        if not bool(allowed.all()):
            raise _refuse(mask, f"has the value {float(mask[~allowed].flatten()[0]):g}")
    return mask == 0 if additive else mask != 0


def _read_dense(mask: Tensor, taking: Tensor, queries: int) -> tuple[Tensor, bool, int]:
    """(key mask, causal, first) of a mask with four dimensions."""
    if mask.shape[1] == mask.shape[2] == 1:
        return taking[:, 0, 0], False, 0
    if not values_are_known(mask):
        raise _refuse(mask, "may differ between queries")
    rows = taking[:, 0]
    if rows.shape[1] == 0:  # no query
        return rows.new_ones((rows.shape[0], rows.shape[2])), False, 0
    if not torch.equal(taking, taking[:, :1].expand_as(taking)):
        raise _refuse(mask, "differs between heads")
    if torch.equal(rows, rows[:, :1].expand_as(rows)):
        return rows[:, 0], False, 0
    if rows.shape[1] == queries:
        seen, places = rows[:, -1], torch.arange(mask.shape[-1], device=mask.device)
        last = seen.any(0).nonzero()  # of a cache that grows, or one with places still empty
        for first in {mask.shape[-1] - queries, 0, int(last.max()) + 1 - queries if len(last) else 0}:
            if torch.equal(rows, seen[:, None] & (places <= torch.arange(queries, device=mask.device)[:, None] + first)):
                return seen, True, first
    raise _refuse(mask, "differs between queries in another way than a causal mask with padding")


def offsets_of(sequences: Tensor) -> Tensor:
    """(count + 1) offsets of the packed sequences, row after row of (batch, n) numbers. In a graph that is compiled the
    count is batch * n, most of which are empty."""
    total = sequences.numel()
    starts = torch.ones_like(sequences, dtype=torch.bool)
    starts[:, 1:] = sequences[:, 1:] != sequences[:, :-1]
    if values_are_known(sequences):
        return torch.cat([starts.flatten().nonzero()[:, 0], torch.tensor([total])])
    places = torch.where(starts.flatten(), torch.arange(total), total).sort().values
    return torch.nn.functional.pad(places, (0, 1), value=total)


def lengths_of(key_mask: Tensor) -> Tensor | None:
    """(batch) lengths, if only the ends of the rows of a (batch, keys) bool mask are padding; else None.

    Attention then leaves out the rest, which saves time in proportion.
    """
    lengths = key_mask.sum(1)
    ends = torch.arange(key_mask.shape[1]) < lengths[:, None]
    return lengths if torch.equal(ends, key_mask) else None
