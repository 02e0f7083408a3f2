"""What the library's interfaces for attention and masks are not told, seen from the call.

Whether a layer attends to its own rows or to those of an encoder: `forward` of the layer was given other states as well,
with as many rows as the keys. How many rows a decoder has read: its cache was given to `forward`. Whether the code of a model computes with additive masks: the model has no sdpa. Arguments
are those of the frames that called, because the library passes neither, a call may come from any class of any model, made
before hashattn was imported or copied since, and no hook reaches them all. Nothing else in the package reads frames. A
compiled graph has no frames; there the parameters of `forward` decide.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_MOST_FRAMES = 12  # between `forward` and its attention function there are decorators and helpers
_CACHES = ("cache", "past_key_values", "past_key_value")  # parameters, by the version of the library
_OTHERS = ("key_value_states", "encoder_hidden_states", "cross_attention_states")  # parameters of cross attention


def _callers(frame: Any) -> Iterator[Any]:
    for _ in range(_MOST_FRAMES):
        frame = frame.f_back
        if frame is None:
            return
        yield frame


def attends_to_itself(module: Any, keys: int) -> bool:
    """The queries are the rows of the keys. Unknown counts as no: then padding is left out of the keys only."""
    if torch.compiler.is_compiling():
        alone: bool = _never_gets_others(type(module))
        return alone
    arguments = _arguments_of(module)
    return arguments is not None and not _has_others(arguments, keys)


def rows_so_far(module: Any, queries: int) -> int | None:
    """How many rows of its sequence a decoder has with these queries, the last ones, in a layer that reads others' keys.

    None: there may be a cache that does not tell, as in a compiled graph.
    """
    if torch.compiler.is_compiling():
        return None if _takes_caches(type(module)) else queries
    arguments = _arguments_of(module) or {}
    cache = next((arguments[name] for name in _CACHES if arguments.get(name) is not None), None)
    if cache is None:
        return queries
    own = getattr(cache, "self_attention_cache", None)  # which the decoder's own attention has already written to
    return None if own is None else int(own.get_seq_length(getattr(module, "layer_idx", None) or 0))


def _arguments_of(module: Any) -> dict[str, Any] | None:
    """What `forward` of the module was called with; None if it is not among the callers."""
    for frame in _callers(sys._getframe(1)):
        code = frame.f_code
        if code.co_name == "forward" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is module:
            names = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]
            return {name: frame.f_locals.get(name) for name in names}
    return None


def adds_masks() -> bool:
    """The model that asks for a mask computes with numbers that are added to scores, and not with a bool mask."""
    if torch.compiler.is_compiling():
        return False
    for frame in _callers(sys._getframe(1)):
        code = frame.f_code
        model = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if isinstance(model, torch.nn.Module) and hasattr(model, "_supports_sdpa"):
            return not bool(model._supports_sdpa)
    return False


def _has_others(arguments: dict[str, Any], keys: int) -> bool:
    states = [each for name, each in arguments.items()
              if isinstance(each, Tensor) and each.ndim == 3 and each.is_floating_point() and each.shape[1] == keys
              and "position" not in name and "mask" not in name]
    return any(each is not states[0] for each in states[1:]) and not any(each is states[0] for each in states[1:])


@torch.compiler.assume_constant_result  # type: ignore[misc,untyped-decorator,unused-ignore]
def _never_gets_others(kind: type[Any]) -> bool:
    return not set(_OTHERS) & set(inspect.signature(kind.forward).parameters)


@torch.compiler.assume_constant_result  # type: ignore[misc,untyped-decorator,unused-ignore]
def _takes_caches(kind: type[Any]) -> bool:
    return bool(set(_CACHES) & set(inspect.signature(kind.forward).parameters))
