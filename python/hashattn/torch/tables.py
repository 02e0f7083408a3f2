"""Attention layers whose class a model takes from a table by the name of its implementation, and which call PyTorch's
scaled_dot_product_attention themselves: those of BERT and its relatives in transformers before 5.0.

Such a table, `BERT_SELF_ATTENTION_CLASSES` and the like, gets the names of hashattn, for the class of "sdpa".
own_sdpa.py then takes over the calls of its layers.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from . import names

_TABLES = "_ATTENTION_CLASSES"
_MASKS = ("attention_mask", "mask")


def _beside(kind: Any) -> list[dict[str, Any]]:
    """The tables in the file of a class: classes by implementation."""
    found = vars(sys.modules[kind.__module__]).items() if kind.__module__ in sys.modules else ()
    return [each for name, each in found if name.endswith(_TABLES) and isinstance(each, dict) and "eager" in each]


def offer(kind: Any, name: Any) -> None:
    """Gives the tables beside a model's class a name of hashattn; no other name."""
    if names.stored_name(name) is not None:
        for table in _beside(kind):
            table.setdefault(name, table.get("sdpa", table["eager"]))


@functools.lru_cache(maxsize=None)
def class_that_calls(kind: Any) -> Any | None:
    """The class of "sdpa" in a table that `kind` is or inherits from, if its code calls the function with a mask that it is
    given; else None."""
    for base in kind.__mro__[:-1]:
        if any(table.get("sdpa") is base is not table["eager"] for table in _beside(base)):
            forward: Any = inspect.unwrap(base.forward)
            masked = any(name in inspect.signature(forward).parameters for name in _MASKS)
            return base if masked and "scaled_dot_product_attention" in forward.__code__.co_names else None
    return None


def calls_sdpa(kind: Any) -> bool:
    """Layers of the class call the function themselves, in a way that is known."""
    return class_that_calls(kind) is not None


def held_name(layer: Any) -> str | None:
    """The name of the implementation that own_sdpa.py put into the layer, or None."""
    held = getattr(layer, "_hashattn_held", None)
    return None if held is None else str(held.name)
