"""Attention implementations for the transformers library, with their masks.

    import hashattn.torch.transformers
    model = AutoModel.from_pretrained(name, attn_implementation="hashattn-yoso")
    print(hashattn.torch.transformers.layers(model))

Importing this module registers "hashattn-yoso", "hashattn-softmax" and so on, one for each mechanism without learned
tensors; `register` adds others, with options. The function for masks is registered with them, because without one the
library drops the padding. What a model uses is stored in its configuration and restored with it (stored.py).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from ..errors import InvalidError
from ..options import OptionValue, mechanisms
from . import names, stored
from .callers import adds_masks, attends_to_itself
from .functions import Seed, attention, seed_of
from .layers import Layer as Layer
from .layers import layers as layers
from .masks import Mask, Reading, make, read
from .sdpa import padding_of_others, values_are_known
from .versions import AttentionInterface, AttentionMaskInterface, bidirectional_functions, causal_mask_function

_CHANGES_SCORES = ("softcap", "position_bias", "s_aux", "sliding_window")


def register(name: str, mechanism: str = "yoso", *, seed: Seed = None, **options: OptionValue) -> None:
    """Makes `attn_implementation=name` stand for a mechanism with options, such as num_hashes=64.

    seed: of every call; None draws one for each call in training mode, from torch's generator, and is 0 in evaluation.
    Attention weights have no dropout and are not returned. "reformer" takes the queries as its keys, so the model's key
    layers have no effect. Masked tokens in front or in the middle are as if they had been cut out, which shifts blocks,
    windows and segments. A configuration that is saved holds mechanism and options in place of `name`. InvalidError: an
    unknown mechanism or option.
    """
    names.check_mechanism(mechanism, options)

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
               scaling: float | None = None, is_causal: bool | None = None, **more: Any) -> tuple[Tensor, None]:
        drawn = seed_of(getattr(module, "training", False), seed)
        return _attend(module, query, key, value, attention_mask, scaling, is_causal, more, mechanism=mechanism,
                       seed=drawn, **options), None

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _mask)
    names.remember(name, mechanism, seed, options)


def _attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None,
            is_causal: bool | None, more: dict[str, Any], **given: Any) -> Tensor:
    """(batch, heads, n, d) to (batch, n, heads, d)."""
    for name in _CHANGES_SCORES:
        if more.get(name) is not None:
            raise InvalidError(f"{type(module).__name__} passes {name} to its attention, which hashattn does not have")
    given["scale"] = scaling
    queries, keys = query.shape[-2], key.shape[-2]
    # As the library's own functions: without a mask the layer says whether it is causal, and one query sees all keys.
    causal = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal) and queries > 1
    reading = read(mask, queries, keys, causal)
    if reading.causal:
        seen = _keys_of_causal(reading, queries, keys)
        if seen < keys:
            key, value = key[..., :seen, :], value[..., :seen, :]
        # By a mask of the keys, not by lengths: padded queries have an output, which `generate` continues.
        key_mask = None if _plain(reading, seen) else cast(Tensor, reading.key_mask)[:, :seen]
        out = attention(query, key, value, causal=queries > 1, key_mask=key_mask, **given)
    elif _plain(reading, keys):
        out = attention(query, key, value, **given)
    elif queries != keys or not attends_to_itself(module, keys):
        key, value, of_keys = padding_of_others(key, value, queries, cast(Tensor, reading.key_mask), reading.lengths)
        out = attention(query, key, value, **of_keys, **given)
    else:
        key_mask = reading.key_mask if reading.lengths is None else None
        out = attention(query, key, value, key_mask=key_mask, lengths=reading.lengths, **given)
    return out.transpose(1, 2)


def _plain(reading: Reading, keys: int) -> bool:
    """The first `keys` keys all take part."""
    lengths = reading.lengths
    return reading.key_mask is None or (lengths is not None and bool((lengths >= keys).all()))


def _keys_of_causal(reading: Reading, queries: int, keys: int) -> int:
    """How many keys the last query sees; those behind it are places of a cache that are still empty."""
    seen = reading.first + queries
    if not queries <= seen <= keys:
        raise InvalidError(f"causal attention of {queries} queries, the first at key {reading.first}, over {keys} keys")
    return seen


def _mask(batch_size: int, kv_length: int, q_length: int | None = None, q_offset: Any = 0, kv_offset: Any = 0,
          mask_function: Any = causal_mask_function, attention_mask: Tensor | None = None,
          cache_position: Tensor | None = None, allow_is_bidirectional_skip: bool = False,
          dtype: torch.dtype = torch.float32, **more: Any) -> Mask | None:
    """What the attention layers of a model get: a `Mask`, or None for bidirectional attention without padding."""
    if mask_function not in (causal_mask_function, *bidirectional_functions):
        raise InvalidError("hashattn takes masks of padding and causal masks only; this model asks for another mask that "
                           "depends on the query (a sliding window, chunks, packed sequences or a function of its own)")
    if cache_position is not None:  # in place of q_length and q_offset before 5.4
        q_length, q_offset = cache_position.shape[0], cache_position[0]
    assert q_length is not None
    key_mask = None
    if attention_mask is not None:
        key_mask = attention_mask.to(torch.bool)
        missing = kv_offset + kv_length - key_mask.shape[1]
        if missing > 0:  # places of a cache that nothing was written to
            key_mask = torch.nn.functional.pad(key_mask, (0, missing))
        key_mask = key_mask[:, kv_offset:kv_offset + kv_length]
    causal, first = mask_function is causal_mask_function, 0
    if causal and isinstance(q_offset, Tensor) and not values_are_known(q_offset):
        causal, first, key_mask = _unknown_place(q_length, kv_length, q_offset - kv_offset, key_mask)
    elif causal:
        first = int(q_offset) - int(kv_offset)
    made = make(batch_size, q_length, kv_length, key_mask, causal, first, dtype if adds_masks() else torch.bool)
    return None if not causal and made.key_mask is None and allow_is_bidirectional_skip else made


def _unknown_place(queries: int, keys: int, first: Tensor, key_mask: Tensor | None) -> tuple[bool, int, Tensor | None]:
    """(causal, first, key mask) in a compiled graph, where the place of the first query is a tensor."""
    if queries == keys:
        return True, 0, key_mask
    if queries > 1:
        raise InvalidError(f"causal attention of {queries} queries over the {keys} places of a cache cannot be compiled")
    seen = (torch.arange(keys) <= first)[None]
    return False, 0, seen if key_mask is None else seen & key_mask


for _name in mechanisms():
    try:
        register(names.PREFIX + _name, _name)
    except InvalidError:  # it learns tensors
        continue
stored.keep_with_configurations()
