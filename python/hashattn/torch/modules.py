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
from ..options import mechanisms, text_of
from .functions import Seed, attention, attention_and_loss, seed_of


class _Output(nn.Module):
    """The projection of the output; the names of the runs have this level."""

    def __init__(self, dim: int, bias: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim, bias)

    def forward(self, rows: Tensor) -> Tensor:
        projected: Tensor = self.dense(rows)
        return projected


class Learned(nn.ParameterDict):
    """What a mechanism learns, as parameters by name, (heads, rows, cols) float32, with the mechanism's own start.

    mechanism, options: as for `hashattn.attention`; a mechanism without learned tensors has no parameters. value_dim:
    None = head_dim. max_len: the longest sequence; 0 = unknown, with which "sinkhorn", "linformer" and "synthesizer"
    have none and refuse to run. seed: of the initial values. device: None = torch's default; on "meta" nothing is drawn,
    and `reset_parameters` draws once the parameters have memory.
    """

    def __init__(self, mechanism: str, heads: int, head_dim: int, value_dim: int | None = None, max_len: int = 0, *,
                 seed: int = 0, device: Any = None, **options: Any) -> None:
        self._given = (mechanism, heads, head_dim, value_dim, max_len, seed, options)
        self.mechanism, self.max_len, self.options = mechanism, max_len, options
        self.has_own_loss = mechanisms()[mechanism].has_own_loss
        self.loss: Tensor | None = None  # of layers whose classes are not of hashattn
        with Attention(mechanism, **options) as made:
            shapes = made.tensors(head_dim, value_dim, max_len)
        self._names = list(shapes)  # in the library's order; a ParameterDict may have another
        super().__init__({name: nn.Parameter(torch.empty(heads, *shape, device=device, dtype=torch.float32))
                          for name, shape in shapes.items()})
        if all(each.device.type != "meta" for each in self.values()):
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values again, from the seed."""
        mechanism, heads, head_dim, value_dim, max_len, seed, options = self._given
        with Attention(mechanism, **options) as made, torch.no_grad():
            for name, array in made.params(heads, head_dim, value_dim, max_len, seed).items():
                self[name].copy_(torch.from_numpy(array))

    def is_of(self, mechanism: str, options: dict[str, Any]) -> bool:
        """It was made for this mechanism with these options."""
        mine, given = ({name: text_of(name, value) for name, value in each.items()} for each in (self.options, options))
        return self.mechanism == mechanism and mine == given

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: `loss` belongs to a forward of the original."""
        return {**self.__dict__, "loss": None}

    def extra_repr(self) -> str:
        shapes = {name: tuple(each.shape) for name, each in self.items()}
        return ", ".join(f"{name}={value}" for name, value in {"mechanism": self.mechanism, **self.options, **shapes}.items())

    def joined(self) -> Tensor | None:
        """(heads, floats) float32, the argument `params` of `hashattn.torch.attention`; None if nothing is learned."""
        if not self._names:
            return None
        return torch.cat([self[name].flatten(1) for name in self._names], 1).float()


def attention_with(own: Learned, training: bool, q: Tensor, k: Tensor, v: Tensor,
                   **given: Any) -> tuple[Tensor, Tensor | None]:
    """As `attention` by the mechanism of `own`; float64 too, computed in float32. In training also its own loss, if it has
    one."""
    dtype, params = q.dtype, own.joined()
    if dtype == torch.float64:
        q, k, v = q.float(), k.float(), v.float()
    given = {**given, "mechanism": own.mechanism, "max_len": own.max_len or None, **own.options}
    loss: Tensor | None = None
    if params is None or not (training and own.has_own_loss):
        out = attention(q, k, v, params=params, **given)
    elif torch.is_grad_enabled():
        out, loss = attention_and_loss(q, k, v, params, **given)
    else:  # of torch.utils.checkpoint, which may repeat the forward: the loss of this one is what the user adds
        with torch.enable_grad():
            params = own.joined()
            assert params is not None
            out, loss = attention_and_loss(q.detach(), k.detach(), v.detach(), params, **given)
        out = out.detach()
    return out.to(dtype), loss


class HasMechanism(nn.Module):
    """A module with the attention of a mechanism, what that learns as parameters, `own`, and its loss, `own_loss`."""

    own: Learned
    own_loss: Tensor | None

    def _take_mechanism(self, mechanism: str, heads: int, head_dim: int, max_len: int, seed: int,
                        options: dict[str, Any], device: Any = None) -> None:
        self.own = Learned(mechanism, heads, head_dim, max_len=max_len, seed=seed, device=device, **options)
        self.own_loss = None

    @property
    def mechanism(self) -> str:
        return self.own.mechanism

    @property
    def max_len(self) -> int:
        return self.own.max_len

    @property
    def options(self) -> dict[str, Any]:
        return self.own.options

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        out, loss = attention_with(self.own, self.training, q, k, v, **given)
        if loss is not self.own_loss:  # torch 2.4 does not compile the assignment
            self.own_loss = loss
        return out

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: `own_loss` belongs to a forward of the original."""
        return {**self.__dict__, "own_loss": None}


class SelfAttention(HasMechanism):
    """Multi-head self-attention by any mechanism, with what it learns as parameters, `own`.

    dim, heads: width of the rows and number of heads, which divides it. mechanism: one of `hashattn.mechanisms()`.
    causal: row i sees rows 0 .. i. bias: of the projections. max_len: the longest sequence, which "sinkhorn",
    "linformer" and "synthesizer" need; 0 = any. seed: of the initial values of `own`. options: of the mechanism, such
    as num_hashes=64.

    If the mechanism has a loss of its own ("lha", "routing"), `own_loss` holds it after a forward in training mode, a
    scalar summed over sequences and heads; else it is None. Add it, weighted, to the loss of the model, because `own`
    learns from nothing else there. Under torch.no_grad it has a gradient too, because reentrant checkpointing runs the
    forward without.
    """

    def __init__(self, dim: int, heads: int, mechanism: str = "yoso", *, causal: bool = False, bias: bool = True,
                 max_len: int = 0, seed: int = 0, **options: Any) -> None:
        super().__init__()
        if heads < 1 or dim % heads != 0:
            raise InvalidError(f"dim is {dim}, which {heads} heads do not divide")
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias) for _ in range(3))
        self.output = _Output(dim, bias)
        self._take_mechanism(mechanism, heads, dim // heads, max_len, seed, options)

    def forward(self, rows: Tensor, key_mask: Tensor | None = None, lengths: Any = None, seed: Seed = None) -> Tensor:
        """rows: (n, dim) or (batch, n, dim), also the shape of the result. key_mask, lengths: as of
        `hashattn.torch.attention`. seed: None draws one in training mode, and is 0 in evaluation."""
        parts = [self._heads(layer(rows)) for layer in (self.query, self.key, self.value)]
        out = self._attend(*parts, key_mask=key_mask, lengths=lengths, causal=self.causal,
                           seed=seed_of(self.training, seed))
        merged: Tensor = self.output(out.transpose(-3, -2).flatten(-2))
        return merged

    def _heads(self, rows: Tensor) -> Tensor:
        """(..., n, dim) as (..., heads, n, d), without a copy."""
        return rows.view(*rows.shape[:-1], self.heads, rows.shape[-1] // self.heads).transpose(-3, -2)

    def extra_repr(self) -> str:
        given = {"mechanism": self.mechanism, "heads": self.heads, "causal": self.causal, "max_len": self.max_len}
        return ", ".join(f"{name}={value}" for name, value in {**given, **self.options}.items())


class YosoAttention(SelfAttention):
    """`SelfAttention` by hash collisions, linear in the length; options of the mechanism "yoso", such as num_hashes=64.

    Source: YOSO, Zeng et al., ICML 2021.
    """

    def __init__(self, dim: int, heads: int, *, causal: bool = False, bias: bool = True,
                 **options: Any) -> None:
        super().__init__(dim, heads, "yoso", causal=causal, bias=bias, **options)


class LHAAttention(SelfAttention):
    """`SelfAttention` inside learned buckets of tokens; options of the mechanism "lha", such as num_buckets=16.

    The hashes are parameters, which learn from `own_loss`. seed: of their initial values.
    Source: LHA, Sun et al., ICLR 2022.
    """

    def __init__(self, dim: int, heads: int, *, causal: bool = False, bias: bool = True, seed: int = 0,
                 **options: Any) -> None:
        super().__init__(dim, heads, "lha", causal=causal, bias=bias, seed=seed, **options)
