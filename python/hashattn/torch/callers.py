"""What the library's interfaces for attention and masks are not told, seen from the call.

Whether a layer attends to its own rows or to those of an encoder: `forward` of the layer was given other states as well,
with as many rows as the keys. How many rows a decoder has read: `forward` was given its cache. Whether the code of a model
computes with additive masks: the model has no sdpa.

All this is in the arguments of the frames that called. The library passes none of it on, and hooks do not reach every
caller: any class of any model may call, also one made before hashattn was imported, or copied since. Nothing else in the
package reads frames. A compiled graph has no frames; there the parameters of `forward` decide.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
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


def rows_so_far(module: Any, queries: int, keys: int) -> int | None:
    """How many rows of its sequence a decoder has with these queries, the last ones, in a layer that reads others' keys.

    None: there may be a cache, and how many rows it has is not known, as in a compiled graph.
    """
    kind = type(module)
    if torch.compiler.is_compiling():
        return None if _takes_caches(kind) else queries
    frame = _forward_of(module)
    if frame is None:
        alone = queries == keys and _never_gets_others(kind)
        return queries if alone or not (_takes_caches(kind) or _takes_more(kind)) else None
    cache = _cache_in(frame)
    if cache is None:
        return queries
    cache = _whole(cache, frame)
    own = getattr(cache, "self_attention_cache", None)  # which the decoder's own attention has already written to
    if own is not None:
        return int(own.get_seq_length(getattr(module, "layer_idx", None) or 0))
    # A cache of both kinds of layers: the library counts the rows of a sequence in the first one, which has nothing else yet.
    return queries if hasattr(cache, "get_seq_length") and int(cache.get_seq_length()) == queries else None


def _whole(cache: Any, frame: Any) -> Any:
    """The cache of the decoder, of which a layer may have kept the part for its encoder's rows only, as Whisper's."""
    held = (_cache_in(each) for each in _callers(frame))
    return next((each for each in held if getattr(each, "cross_attention_cache", None) is cache), cache)


def _cache_in(frame: Any) -> Any:
    """The cache among the arguments of a frame, also among those without a parameter of their own; None if there is none."""
    code = frame.f_code
    named = code.co_argcount + code.co_kwonlyargcount
    given = {name: frame.f_locals.get(name) for name in code.co_varnames[:named]}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest = frame.f_locals.get(code.co_varnames[named + bool(code.co_flags & inspect.CO_VARARGS)])
        given = {**rest, **given} if isinstance(rest, dict) else given
    return next((given[name] for name in _CACHES if given.get(name) is not None), None)


def _forward_of(module: Any) -> Any:
    """The frame of the module's `forward`; None if it is not among the callers."""
    for frame in _callers(sys._getframe(1)):
        code = frame.f_code
        if code.co_name == "forward" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is module:
            return frame
    return None


def _arguments_of(module: Any) -> dict[str, Any] | None:
    """What `forward` of the module was called with; None if it is not among the callers."""
    frame = _forward_of(module)
    if frame is None:
        return None
    code = frame.f_code
    return {name: frame.f_locals.get(name) for name in code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]}


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
    return not set(_OTHERS) & set(_parameters(kind))


@torch.compiler.assume_constant_result  # type: ignore[misc,untyped-decorator,unused-ignore]
def _takes_caches(kind: type[Any]) -> bool:
    return bool(set(_CACHES) & set(_parameters(kind)))


def _takes_more(kind: type[Any]) -> bool:
    """Arguments without a parameter of their own."""
    return any(each.kind is each.VAR_KEYWORD for each in _parameters(kind).values())


def _parameters(kind: type[Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind.forward).parameters if hasattr(kind, "forward") else {}
