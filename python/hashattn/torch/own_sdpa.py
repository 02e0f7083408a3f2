"""Puts an implementation into layers that call PyTorch's scaled_dot_product_attention themselves (tables.py).

While such a layer computes, its calls of the function are calls of the implementation. Its class stays, and so do its
parameters.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import InvalidError
from . import interface
from .tables import class_that_calls, held_name
from .versions import AttentionInterface

_extended: set[Any] = set()  # classes whose forward asks what the layer holds


class Held:
    """The implementation of a layer. It comes with the layer out of a copy or a pickle, and makes the class ready."""

    def __init__(self, kind: Any, name: str) -> None:
        self.kind, self.name = kind, interface.restored(name)
        if kind not in _extended:
            _extended.add(kind)
            kind.forward = _extend(kind.forward)

    def __reduce__(self) -> tuple[Any, tuple[Any, str]]:
        return Held, (self.kind, self.name)


def put_into(layers: list[Any], name: str) -> None:
    """Makes those of the layers that call the function run on the implementation."""
    for layer in layers:
        own: Any = type(layer)
        kind = class_that_calls(own)
        if kind is not None:
            layer._hashattn_held = Held(kind, name)


def _extend(own: Any) -> Any:
    @functools.wraps(own)
    def run(self: Any, *given: Any, **named: Any) -> Any:
        name = held_name(self)
        return own(self, *given, **named) if name is None else _run(own, self, name, given, named)

    return run


@torch.compiler.disable  # type: ignore[misc,untyped-decorator,unused-ignore]
def _run(own: Any, layer: Any, name: str, given: Any, named: Any) -> Any:
    with _Calls(layer, name) as calls:
        out = own(layer, *given, **named)
    if not calls.found:
        raise InvalidError(f"{type(layer).__name__} did not call scaled_dot_product_attention, as with output_attentions, "
                           "head_mask or relative positions, which hashattn does not have")
    return out


class _Calls(TorchFunctionMode):
    """Calls of scaled_dot_product_attention are those of an implementation."""

    def __init__(self, layer: Any, name: str) -> None:
        super().__init__()
        self.found = False
        self._layer, self._attend = layer, AttentionInterface()[name]  # type: ignore[no-untyped-call,unused-ignore]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        self.found = True
        return self._instead(*args, **(kwargs or {}))

    def _instead(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:
        """The arguments of PyTorch's function; weights have no dropout."""
        out: Tensor = self._attend(self._layer, query, key, value, attn_mask, scaling=scale, is_causal=is_causal)[0]
        return out.transpose(1, 2)
