"""What the attention layers of a model of the transformers library run on.

A layer takes an implementation if the code of its class asks the library's interface for one, or calls PyTorch's function
in a way that is known (tables.py); others have an attention of their own, whatever `attn_implementation` says.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple, Sequence

from torch import nn

from . import names
from .calls import check_model
from .tables import calls_sdpa, held_name

OWN_CODE = "its own code"
LEFT = "sdpa"  # runs what a filter leaves as it is
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"


class Layer(NamedTuple):
    """An attention layer: its name in the model, its class, and the implementation that it runs on, or "its own code"."""

    name: str
    kind: str
    runs: str


def layers(model: nn.Module) -> list[Layer]:
    """The attention layers of `model`, in its order, and what each runs on.

    "hashattn-yoso,num_hashes=64", "sdpa", "eager", ... by the layer's configuration; "its own code" if no implementation
    reaches the layer. A layer that runs on hashattn may still refuse a call, with the reason.
    """
    check_model(model)
    found: list[Layer] = []
    for name, module in model.named_modules():
        if not _is_attention(module):
            continue
        kind: Any = type(module)
        if hasattr(module, "mechanism") and hasattr(module, "options"):  # one that hashattn put there
            runs = names.name_of(module.mechanism, getattr(module, "seed", None), dict(module.options))
        elif takes_implementation(module):
            named = getattr(getattr(module, "config", None), "_attn_implementation", LEFT)
            if calls_sdpa(kind):
                named = held_name(module) or LEFT
            runs = LEFT if is_left(module) else names.stored_name(named) or str(named)
        else:
            runs = OWN_CODE
        found.append(Layer(name, kind.__name__, runs))
    return found


def is_left(module: nn.Module) -> bool:
    """A filter left the layer as it is."""
    return getattr(module, "_hashattn_left", False) is True


def candidates(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers that hashattn can change, with their names, in the model's order, which numbers them."""
    return [(name, module) for name, module in model.named_modules() if takes_implementation(module) or is_of_yoso(module)]


def is_of_yoso(module: nn.Module) -> bool:
    return "YosoSelfAttention" in {each.__name__ for each in type(module).__mro__}


def choose(model: nn.Module, numbers: Sequence[int] | None) -> list[nn.Module]:
    """The layers with these numbers, None = all; the others are marked as left."""
    chosen = []
    for number, (_, module) in enumerate(candidates(model)):
        setattr(module, "_hashattn_left", numbers is not None and number not in numbers)
        if not is_left(module):
            chosen.append(module)
    return chosen


def _is_attention(module: nn.Module) -> bool:
    """It computes attention itself: by the interface, or by its name, with no such layer inside."""
    if takes_implementation(module):
        return True
    return "attention" in type(module).__name__.lower() and not any(
        takes_implementation(each) or "attention" in type(each).__name__.lower()
        for each in module.modules() if each is not module)


def takes_implementation(module: nn.Module) -> bool:
    """Its class asks the library's interface for an attention function, or calls PyTorch's. Whole models ask too, to
    check names."""
    kind: Any = type(module)
    return not hasattr(module, "post_init") and (_asks(kind) or calls_sdpa(kind))


@functools.lru_cache(maxsize=None)
def _asks(kind: Any) -> bool:
    functions = (inspect.unwrap(each) for base in kind.__mro__ for each in vars(base).values()
                 if inspect.isfunction(each))
    return any(_INTERFACE in each.__code__.co_names for each in functions)
