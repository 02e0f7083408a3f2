"""What a mechanism that learns needs in a model of the transformers library: parameters in its layers, and its own loss in
the loss of the model.

Each attention layer gets a module `own` (`Learned`), so what it learns is in the model's parameters and its state dict. A
model that returns a loss in training returns (1 - s) times it plus s times the mean of the own losses over layers, heads and
sequences, as the tool trains: s is the option hash_loss of lha, and 0.05 for others.
Sources: LHA, Sun et al., ICLR 2022. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InvalidError
from .functions import attention, learns
from .modules import Learned, attention_with

_SHARE = 0.05
_HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads")
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim")


def put_into(model: nn.Module, layers: list[Any], mechanism: str, options: dict[str, Any]) -> None:
    """Gives the layers what they learn, and the model their loss; takes away what another mechanism learned.

    InvalidError: the heads of a layer are not known from its configuration.
    """
    needed = learns(mechanism, options)
    for number, layer in enumerate(layers):
        old = getattr(layer, "own", None)
        if isinstance(old, Learned) and not (needed and old.is_of(mechanism, options)):
            del layer.own
        if needed and not isinstance(getattr(layer, "own", None), Learned):
            heads, width, longest = _sizes(layer, getattr(model, "config", None))
            layer.own = Learned(mechanism, heads, width, max_len=longest, seed=number, **options)
    if needed and not getattr(model, "_adds_own_losses", False):
        setattr(model, "_adds_own_losses", True)
        model.register_forward_hook(_add_losses, with_kwargs=True)


def _sizes(layer: Any, of_model: Any) -> tuple[int, int, int]:
    """(heads, width of a head, longest sequence or 0). of_model: the configuration of layers that have none."""
    configuration = getattr(layer, "config", of_model)
    found = [int(getattr(place, name)) for place in (layer, configuration) for name in _HEADS
             if isinstance(getattr(place, name, None), int)]
    width = next((getattr(place, name) for place in (layer, configuration) for name in ("attention_head_size", "head_dim")
                  if isinstance(getattr(place, name, None), int)), None)
    rows = next((getattr(place, name) for place in (layer, configuration) for name in _WIDTHS
                 if isinstance(getattr(place, name, None), int)), None)
    if not found or (width is None and rows is None):
        raise InvalidError(f"{type(layer).__name__} tells neither its number of heads nor their width, which a mechanism "
                           "that learns needs")
    longest = getattr(configuration, "max_position_embeddings", 0)
    return found[0], width if width is not None else int(rows or 0) // found[0], longest if isinstance(longest, int) else 0


def attend(layer: Any, mechanism: str, q: Tensor, k: Tensor, v: Tensor, given: dict[str, Any],
           options: dict[str, Any], needed: bool) -> Tensor:
    """As `attention`, with what the layer learned. In training the loss is left in `layer.own.loss`, the mean over heads
    and sequences. needed: the mechanism learns."""
    own = getattr(layer, "own", None)
    if not isinstance(own, Learned):
        if needed:
            raise InvalidError(f"{type(layer).__name__} has no parameters for {mechanism}, which learns: use "
                               f"hashattn.torch.replace_attention(model, '{mechanism}')")
        return attention(q, k, v, mechanism=mechanism, **given, **options)
    out, loss = attention_with(own, bool(layer.training), q, k, v, **given)
    if loss is not None:
        with torch.enable_grad():  # as the loss has its gradient where reentrant checkpointing runs the forward without one
            loss = loss / (q.shape[0] * q.shape[1])
    own.loss = loss
    return out


def arrays_of(layer: Any) -> dict[str, Any] | None:
    """What the layer learned, as arrays by name; None if it learns nothing."""
    own = getattr(layer, "own", None)
    if not isinstance(own, Learned) or not len(own):
        return None
    return {name: each.detach().float().numpy() for name, each in own.items()}


def own_loss(model: nn.Module) -> Tensor | None:
    """The mean over layers of the own losses of the last forward in training mode; None if there are none.

    Add it, weighted, to a loss that the model does not compute itself.
    """
    found = [each.loss for each in model.modules() if isinstance(each, Learned) and each.loss is not None]
    return sum(found[1:], found[0]) / len(found) if found else None


def _add_losses(model: Any, arguments: Any, named: dict[str, Any], output: Any) -> Any:
    """To the loss in the model's output, which has one if it was given labels."""
    plain = isinstance(output, tuple)
    loss = output[0] if plain and named.get("labels") is not None else getattr(output, "loss", None)
    mean = own_loss(model)
    if mean is None or not isinstance(loss, Tensor) or loss.ndim > 0:
        return None
    first = next(each for each in model.modules() if isinstance(each, Learned) and each.loss is not None)
    share = float(first.options.get("hash_loss", _SHARE))
    for each in model.modules():
        if isinstance(each, Learned):
            each.loss = None
    total = (1 - share) * loss + share * mean.to(loss.dtype)
    if plain:
        return (total, *output[1:])
    output["loss"] = total
    return output
