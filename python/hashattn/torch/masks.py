"""Padding from the masks that models of the transformers library pass to their attention.

Only padding fits attention at linear cost: a key takes part for every query or for none. Masks that depend on the query
are refused. A mask is checked by its values, except while a graph is compiled, where only its shape is known.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidError

_NOT_PADDING = ("hashattn takes masks of padding only, where a key takes part for every query or for none; this mask, "
                "of shape {shape} and dtype {dtype}, {why}")


def _refuse(mask: Tensor, why: str) -> InvalidError:
    return InvalidError(_NOT_PADDING.format(shape=tuple(mask.shape), dtype=mask.dtype, why=why))


def _values_are_known(mask: Tensor) -> bool:
    return not torch.compiler.is_compiling() and type(mask) is Tensor and mask.device.type == "cpu"


def _taking_part(mask: Tensor) -> Tensor:
    """The mask as bool. With two dimensions 1 takes part and 0 does not. With four, if not bool, 0 and a large negative
    number are added to the scores."""
    if mask.dtype == torch.bool:
        return mask
    additive = mask.ndim == 4 and mask.is_floating_point()
    if _values_are_known(mask):
        allowed = (mask == 0) | (mask <= -1e4) if additive else (mask == 0) | (mask == 1)
        if not bool(allowed.all()):
            raise _refuse(mask, f"has the value {float(mask[~allowed].flatten()[0]):g}")
    return mask == 0 if additive else mask != 0


def key_mask_of(mask: Tensor, keys: int) -> Tensor:
    """A mask (batch, keys) or (batch, 1 or heads, 1 or queries, keys) as bool (batch, keys).

    InvalidError: another shape, other values, or not the same for every head and query.
    """
    if mask.ndim not in (2, 4) or mask.shape[-1] != keys:
        raise _refuse(mask, f"is not (batch, {keys}) or (batch, 1, 1 or queries, {keys})")
    taking = _taking_part(mask)
    if mask.ndim == 2:
        return taking
    if mask.shape[1] != 1 or mask.shape[2] != 1:
        if not _values_are_known(mask):
            raise _refuse(mask, "may differ between queries")
        if not torch.equal(taking, taking[:, :1, :1].expand_as(taking)):
            raise _refuse(mask, "differs between queries or heads")
    return taking[:, 0, 0]


def lengths_of(key_mask: Tensor) -> Tensor | None:
    """(batch) lengths, if only the ends of the rows of a (batch, keys) bool mask are padding; else None.

    Attention then leaves out the rest, which saves time in proportion.
    """
    if not _values_are_known(key_mask):
        return None
    lengths = key_mask.sum(1)
    ends = torch.arange(key_mask.shape[1]) < lengths[:, None]
    return lengths if torch.equal(ends, key_mask) else None


def padding(mask: Tensor | None, queries: int, keys: int, own: bool) -> dict[str, Any]:
    """The arguments key_mask or lengths of `attention` for a mask, or for lengths (batch) made of one before.

    own: the queries are the rows of the keys, so padding is left out of both, and its output is 0.
    """
    if mask is None:
        return {}
    if mask.ndim == 1:
        lengths: Tensor | None = mask
    else:
        mask = key_mask_of(mask, keys)
        lengths = lengths_of(mask)
    if lengths is None:
        return {"key_mask": mask}
    return {"lengths": lengths if own and queries == keys else (torch.full_like(lengths, queries), lengths)}
