"""Attention implementations for the transformers library, with their masks.

    import hashattn.torch.transformers
    model = AutoModel.from_pretrained(name, attn_implementation="hashattn-yoso")

Importing this module registers "hashattn-yoso", "hashattn-softmax" and so on, one for each mechanism without learned
tensors; `register` adds others, with options. The function for masks is registered with them, because without one the
library drops the padding. Made with transformers 5.23; needs 4.53 or later.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import (  # type: ignore[import-not-found,unused-ignore]
    AttentionInterface, AttentionMaskInterface)
from transformers.masking_utils import (  # type: ignore[import-not-found,unused-ignore]
    bidirectional_mask_function, causal_mask_function)

from ..errors import InvalidError
from ..operator import Attention
from ..options import OptionValue, mechanisms
from .functions import Seed, attention
from .masks import lengths_of, padding

# Layers whose queries and keys are the same rows, so that padding can be left out of both.
SELF_ATTENTION = frozenset({"BertSelfAttention", "RobertaSelfAttention", "DistilBertSelfAttention", "ViTAttention",
                            "ViTSelfAttention"})

_CHANGES_SCORES = ("softcap", "position_bias", "s_aux", "sliding_window")


def check_mechanism(mechanism: str, options: dict[str, Any]) -> None:
    """InvalidError: an unknown mechanism or option, or one whose tensors are learned, for which a model has no place."""
    with Attention(mechanism, **options) as made:
        if made.tensors(64, 64, 64):
            raise InvalidError(f"{mechanism} learns tensors, for which the model has no parameters; use "
                               f"hashattn.torch.SelfAttention(dim, heads, '{mechanism}')")


def register(name: str, mechanism: str = "yoso", *, seed: Seed = None, **options: OptionValue) -> None:
    """Makes `attn_implementation=name` stand for a mechanism with options, such as num_hashes=64.

    seed: of every call; None draws one for each call from torch's generator. Attention weights have no dropout and are
    not returned. "reformer" takes the queries as its keys, so the model's key layers have no effect. Masked tokens in
    front or in the middle are as if they had been cut out, which shifts blocks, windows and segments. InvalidError: an
    unknown mechanism or option.
    """
    check_mechanism(mechanism, options)

    def forward(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
                scaling: float | None = None, is_causal: bool | None = None, **more: Any) -> tuple[Tensor, None]:
        return _attend(module, query, key, value, attention_mask, scaling, is_causal, more, mechanism=mechanism,
                       seed=seed, **options), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, _mask)


def _attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None,
            is_causal: bool | None, more: dict[str, Any], **given: Any) -> Tensor:
    """(batch, heads, n, d) to (batch, n, heads, d)."""
    for name in _CHANGES_SCORES:
        if more.get(name) is not None:
            raise InvalidError(f"{type(module).__name__} passes {name} to its attention, which hashattn does not have")
    causal = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    queries, keys, width = query.shape[-2], key.shape[-2], query.shape[-1]
    if causal and queries != keys:
        if queries > 1:
            raise InvalidError(f"causal attention of {queries} queries over {keys} keys: hashattn needs as many, or one "
                               "query")
        causal = False  # the last row sees all keys
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if scaling is not None and abs(scaling * width**0.5 - 1) > 1e-6:
        query = query * (scaling * width**0.5)
    own = type(module).__name__ in SELF_ATTENTION
    out = attention(query, key, value, causal=causal, **padding(mask, queries, keys, own), **given)
    return out.transpose(1, 2)


def _mask(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: Any = 0,
          mask_function: Any = causal_mask_function, attention_mask: Tensor | None = None,
          **more: Any) -> Tensor | None:
    """What the attention layers of a model get: None, lengths (batch), or a bool mask (batch, keys)."""
    if mask_function not in (causal_mask_function, bidirectional_mask_function):
        raise InvalidError("hashattn takes masks of padding only; this model asks for a mask that depends on the query "
                           "(a sliding window, chunks, packed sequences or a function of its own)")
    if attention_mask is None:
        return None
    mask = attention_mask[:, -kv_length:].to(torch.bool)
    lengths = lengths_of(mask)
    if lengths is None:
        return mask
    return None if bool((lengths == kv_length).all()) else lengths


for _name in mechanisms():
    try:
        register("hashattn-" + _name, _name)
    except InvalidError:  # it learns tensors
        continue
