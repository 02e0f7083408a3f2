"""Self-attention layers as modules, with the parameter names of the tool's runs.

The entries "encoder.layer.N.attention.*" of a run's model.safetensors, without that prefix, are a state dict.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InvalidError
from ..operator import Attention
from ..options import OptionValue
from .functions import Seed, attention, attention_and_loss


class _Output(nn.Module):
    """The projection of the output; the names of the runs have this level."""

    def __init__(self, dim: int, bias: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim, bias)

    def forward(self, rows: Tensor) -> Tensor:
        projected: Tensor = self.dense(rows)
        return projected


class YosoAttention(nn.Module):
    """Multi-head self-attention by hash collisions, linear in the length.

    dim, heads: width of the rows and number of heads, which divides it. causal: row i sees rows 0 .. i. bias: of the
    projections. options: of the mechanism "yoso", such as num_hashes=64.
    Source: YOSO, Zeng et al., ICML 2021.
    """

    mechanism = "yoso"

    def __init__(self, dim: int, heads: int, *, causal: bool = False, bias: bool = True,
                 **options: OptionValue) -> None:
        super().__init__()
        if heads < 1 or dim % heads != 0:
            raise InvalidError(f"dim is {dim}, which {heads} heads do not divide")
        self.heads, self.causal = heads, causal
        self.options: dict[str, Any] = dict(options)
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias) for _ in range(3))
        self.output = _Output(dim, bias)
        Attention(self.mechanism, **self.options).close()  # refuses bad options here

    def forward(self, rows: Tensor, key_mask: Tensor | None = None, lengths: Any = None, seed: Seed = None) -> Tensor:
        """rows: (n, dim) or (batch, n, dim), also the shape of the result. key_mask, lengths, seed: as of
        `hashattn.torch.attention`."""
        parts = [self._heads(layer(rows)) for layer in (self.query, self.key, self.value)]
        out = self._attend(*parts, key_mask=key_mask, lengths=lengths, seed=seed)
        merged: Tensor = self.output(out.transpose(-3, -2).flatten(-2))
        return merged

    def _heads(self, rows: Tensor) -> Tensor:
        """(..., n, dim) as (..., heads, n, d), without a copy."""
        return rows.view(*rows.shape[:-1], self.heads, -1).transpose(-3, -2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        return attention(q, k, v, mechanism=self.mechanism, causal=self.causal, **given, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in
                         {"heads": self.heads, "causal": self.causal, **self.options}.items())


class LHAAttention(YosoAttention):
    """Multi-head self-attention inside learned buckets of tokens; the hashes are parameters.

    Arguments as of `YosoAttention`, with options of the mechanism "lha", such as num_buckets=16. After a forward in
    training mode, `own_loss` holds the layer's own loss, a scalar summed over sequences and heads; add it, weighted, to
    the loss of the model, because the hashes learn from nothing else. seed: of the hashes' initial values.
    Source: LHA, Sun et al., ICLR 2022.
    """

    mechanism = "lha"

    def __init__(self, dim: int, heads: int, *, causal: bool = False, bias: bool = True, seed: int = 0,
                 **options: OptionValue) -> None:
        super().__init__(dim, heads, causal=causal, bias=bias, **options)
        with Attention(self.mechanism, **self.options) as made:
            drawn = made.params(heads, dim // heads, seed=seed)
        self.own = nn.ParameterDict({name: nn.Parameter(torch.from_numpy(array)) for name, array in drawn.items()})
        self._names = list(drawn)  # in the library's order; a ParameterDict may have another
        self.own_loss: Tensor | None = None

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        params = torch.cat([self.own[name].flatten(1) for name in self._names], 1)
        self.own_loss = None
        if not self.training:
            return attention(q, k, v, mechanism=self.mechanism, causal=self.causal, params=params, **given,
                             **self.options)
        out, self.own_loss = attention_and_loss(q, k, v, params, mechanism=self.mechanism, causal=self.causal, **given,
                                                **self.options)
        return out
