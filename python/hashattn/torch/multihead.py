"""Attention by any mechanism in the place of torch.nn.MultiheadAttention: its arguments, parameter names and results.

It is a subclass, so nn.TransformerEncoderLayer and its like take it as their `self_attn`. Their fast path reads the
projections and computes softmax itself; it is closed to layers whose projections are not one matrix, which is what this one
tells them.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import InvalidError
from .functions import Seed, seed_of
from .masks import read
from .modules import HasMechanism
from .sdpa import padding, padding_of_others, takes_part, values_are_known


class MultiheadAttention(HasMechanism, nn.MultiheadAttention):
    """Multi-head attention by any mechanism, with the parameters, arguments and shapes of torch.nn.MultiheadAttention.

    embed_dim ... dtype: as there. dropout: attention weights have none, which a warning says. mechanism: one of
    `hashattn.mechanisms()`. max_len: the longest sequence, which "sinkhorn", "linformer" and "synthesizer" need; 0 = any.
    seed: of the initial values of what the mechanism learns. options: of the mechanism, such as num_hashes=64.

    State dicts are those of nn.MultiheadAttention; what a mechanism learns are further parameters, `own.*`, and
    `own_loss` is as of `SelfAttention`. In evaluation the seed is 0; in training it is drawn from torch's generator.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None,
                 batch_first: bool = False, device: Any = None, dtype: Any = None, *, mechanism: str = "yoso",
                 max_len: int = 0, seed: int = 0, **options: Any) -> None:
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads != 0:
            raise InvalidError(f"embed_dim is {embed_dim}, which {num_heads} heads do not divide")
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device,
                         dtype)
        if dropout > 0:
            warnings.warn(f"dropout={dropout} has no effect: hashattn makes no attention weights to drop", stacklevel=2)
        self._take_mechanism(mechanism, num_heads, embed_dim // num_heads, max_len, seed, options, device)

    def _reset_parameters(self) -> None:
        self._qkv_same_embed_dim = self.in_proj_weight is not None
        super()._reset_parameters()  # type: ignore[no-untyped-call,unused-ignore]
        self._qkv_same_embed_dim = False  # closes the fast path

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
                need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False, *, seed: Seed = None) -> tuple[Tensor, None]:
        """(output, None), with shapes as of torch.nn.MultiheadAttention: there are no weights, whatever is asked for.

        key_padding_mask: (batch, n_k), True = left out. attn_mask: (n_q, n_k) or (batch * heads, n_q, n_k), True = not
        allowed; real numbers are added. It may be causal or the same for all queries, and both. is_causal: attn_mask is
        the causal one and is not read; None will do. Without is_causal the values of attn_mask are read, so torch.compile
        breaks the graph there, and torch.export and torch.func refuse it. query, key, value: also one nested tensor, with
        batch_first and without masks; the output is nested then. InvalidError: another mask, for which there is no linear
        cost.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            if not (query is key is value and self.batch_first and key_padding_mask is None and attn_mask is None):
                raise InvalidError("nested tensors are taken for self-attention with batch_first=True and without masks, as "
                                   "nn.TransformerEncoder passes them; its use_nested_tensor = False makes it pass none")
            return self._of_nested(query, is_causal, seed), None
        itself, batched = query is key, query.ndim == 3
        rows = [each if batched else each.unsqueeze(int(not self.batch_first)) for each in (query, key, value)]
        if not self.batch_first:
            rows = [each.transpose(0, 1) for each in rows]
        queries, keys = rows[0].shape[1], rows[1].shape[1]
        key_mask = None if key_padding_mask is None else padding(
            "key_padding_mask", _allowed("key_padding_mask", key_padding_mask), rows[0].shape[0])
        causal = is_causal
        if attn_mask is not None and not is_causal:
            reading = _read_attn_mask if attn_mask.ndim == 2 and queries == 1 else _read_values
            seen, causal = reading(attn_mask, self.num_heads, queries, keys)
            if seen is not None:
                key_mask = seen if key_mask is None else seen & key_mask
        q, k, v = self._projected(*rows)
        k, v, key_mask = self._with_own_keys(k, v, key_mask, causal)
        given: dict[str, Any] = {"key_mask": key_mask, "causal": causal}
        if key_mask is not None and not causal and not itself:
            k, v, given = padding_of_others(k, v, queries, key_mask.expand(q.shape[0], -1), None)
        out = self._attend(q, k, v, seed=seed_of(self.training, seed), **given).transpose(1, 2).flatten(2)
        out = functional.linear(out, self.out_proj.weight, self.out_proj.bias)
        out = out if self.batch_first else out.transpose(0, 1)
        return (out if batched else out.squeeze(int(not self.batch_first))), None

    def _of_nested(self, rows: Tensor, is_causal: bool, seed: Seed) -> Tensor:
        """Self-attention of sequences of different lengths, as nn.TransformerEncoder passes them in evaluation."""
        sequences = rows.unbind()
        if not sequences:
            return rows
        padded = nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
        lengths = torch.tensor([len(each) for each in sequences], device=rows.device)
        left_out = torch.arange(padded.shape[1], device=rows.device) >= lengths[:, None]
        out = self.forward(padded, padded, padded, left_out, is_causal=is_causal, seed=seed)[0]
        return torch.nested.as_nested_tensor([each[:len(given)] for each, given in zip(out, sequences)], layout=rows.layout)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """(batch, n, width) as (batch, heads, n, head_dim) each."""
        weights = ((self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if self.in_proj_weight is None
                   else self.in_proj_weight.chunk(3))
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        made = (functional.linear(*each) for each in zip((query, key, value), weights, biases))
        return [each.view(*each.shape[:2], self.num_heads, self.head_dim).transpose(1, 2) for each in made]

    def _with_own_keys(self, k: Tensor, v: Tensor, key_mask: Tensor | None,
                       causal: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """With the keys of add_bias_kv and add_zero_attn behind the others."""
        rows = []
        if self.bias_k is not None and self.bias_v is not None:
            rows.append([each.view(1, self.num_heads, 1, -1).expand(k.shape[0], -1, -1, -1)
                         for each in (self.bias_k, self.bias_v)])
        if self.add_zero_attn:
            rows.append([each.new_zeros((*each.shape[:2], 1, each.shape[-1])) for each in (k, v)])
        if not rows:
            return k, v, key_mask
        if causal:
            raise InvalidError("add_bias_kv and add_zero_attn add keys that all queries see; causal attention has none")
        if key_mask is not None:
            key_mask = functional.pad(key_mask, (0, len(rows)), value=True)
        return torch.cat([k, *(each[0] for each in rows)], -2), torch.cat([v, *(each[1] for each in rows)], -2), key_mask

    def extra_repr(self) -> str:
        given = {"embed_dim": self.embed_dim, "num_heads": self.num_heads, "mechanism": self.mechanism}
        return ", ".join(f"{name}={value}" for name, value in {**given, **self.options}.items())


def _read_attn_mask(attn_mask: Tensor, heads: int, queries: int, keys: int) -> tuple[Tensor | None, bool]:
    """(key mask, causal). A mask of several queries is read by its values."""
    mask = _allowed("attn_mask", attn_mask)
    four = mask[None, None] if mask.ndim == 2 else mask.view(mask.shape[0] // heads, heads, *mask.shape[1:])
    if not values_are_known(four) and not four.shape[1] == four.shape[2] == 1:
        raise InvalidError(f"attn_mask of shape {tuple(attn_mask.shape)} has no values yet in an exported graph or a "
                           "transform of torch.func; is_causal=True says that it is causal, and key_padding_mask has padding")
    seen, _, causal, first = read(four, queries, keys, causal=False)[:4]
    if causal and first != keys - queries:
        raise InvalidError(f"attn_mask lets query 0 see keys 0 .. {first}; hashattn lets the last of {queries} queries see "
                           f"the last of {keys} keys")
    return (None if seen is None or (causal and bool(seen.all())) else seen), causal


# A compiled graph ends before it and begins again behind it.
_read_values: Any = torch.compiler.disable(_read_attn_mask)  # type: ignore[no-untyped-call,unused-ignore]


def _allowed(name: str, mask: Tensor) -> Tensor:
    """A mask of torch.nn.MultiheadAttention, whose True leaves out, as one whose True takes part."""
    return ~mask if mask.dtype == torch.bool else takes_part(name, mask)
