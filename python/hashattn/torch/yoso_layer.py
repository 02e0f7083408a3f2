"""The self-attention of the transformers library's YosoModel at linear cost, with its padding mask.

The library's own layer adds 1 to a mask of 0 and 1 that it takes for an additive one, so padding takes part; on a CPU it
computes the expectation of YOSO, all n x n pairs.
Source: YOSO, Zeng et al., ICML 2021. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.models.yoso.modeling_yoso import (  # type: ignore[import-not-found,unused-ignore]
    YosoSelfAttention)

from ..options import OptionValue, mechanisms
from .functions import Seed, learns, seed_of
from .learned import attend
from .masks import read


class LinearYosoSelfAttention(YosoSelfAttention):  # type: ignore[misc,no-any-unimported,unused-ignore]
    """A YosoSelfAttention after `put_into`, with the same parameters. It is not constructed otherwise."""

    mechanism: str
    seed: Seed
    options: dict[str, Any]
    learns: bool

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None,
                output_attentions: bool = False) -> tuple[Tensor, ...]:
        """hidden_states: (batch, n, dim); attention_mask: (batch, n), 1 for tokens, 0 for padding. With
        output_attentions the context is returned twice, as the library does."""
        rows = hidden_states.shape[1]
        q, k, v = (layer(hidden_states).unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        key_mask, lengths = read(attention_mask, rows, rows, causal=False)[:2]
        given = {"key_mask": key_mask if lengths is None else None, "lengths": lengths,
                 "seed": seed_of(self.training, self.seed)}
        context = attend(self, self.mechanism, q, k, v, given, self.options, self.learns)
        if self.use_conv:
            context = context + self.conv(v if key_mask is None else v * key_mask.to(v.device)[:, None, :, None])
        merged = context.transpose(1, 2).flatten(2)
        return (merged, merged) if output_attentions else (merged,)

    def extra_repr(self) -> str:
        given = {"mechanism": self.mechanism, "seed": self.seed, **self.options}
        return ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)


def put_into(layer: Any, mechanism: str, seed: Seed, options: dict[str, OptionValue]) -> None:
    """Makes `layer` compute the mechanism; num_hashes and hash_bits are those of its model unless given."""
    own = {"num_hashes": layer.num_hash, "hash_bits": layer.hash_code_len}
    layer.__class__ = LinearYosoSelfAttention
    layer.mechanism, layer.seed = mechanism, seed
    layer.learns = learns(mechanism, options)
    layer.options = {name: value for name, value in own.items() if name in mechanisms()[mechanism].options} | options
