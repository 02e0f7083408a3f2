"""Names of attention implementations, which hold a mechanism with its options: "hashattn-yoso,num_hashes=64,seed=3".

A name is what a configuration stores, so it is enough to make the same model again.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ..errors import InvalidError
from ..options import OptionValue, text_of
from .functions import Seed

PREFIX = "hashattn-"
# Behind the name in a stored configuration, because the library's message about an unknown name shows it.
HINT = " (needs: import hashattn.torch)"

_known: dict[str, str] = {}  # names as registered: the names that hold mechanism and options


class Parts(NamedTuple):
    """What a name holds."""

    mechanism: str
    seed: int | None
    options: dict[str, OptionValue]
    layers: tuple[int, ...] | None


def name_of(mechanism: str, seed: Seed, options: dict[str, OptionValue], layers: Sequence[int] | None = None) -> str:
    """The name that holds a mechanism, a seed, options, and the numbers of the layers that have it; None = all."""
    parts = [PREFIX + mechanism, *(f"{name}={text_of(name, value)}" for name, value in options.items())]
    if seed is not None:
        parts.append(f"seed={int(seed)}")
    if layers is not None:
        parts.append("layers=" + "+".join(map(str, layers)))
    return ",".join(parts)


def parts_of(name: str) -> Parts:
    """The mechanism, the seed, the options and the layers in a name. InvalidError: it is not such a name."""
    mechanism, *rest = name.removesuffix(HINT).removeprefix(PREFIX).split(",")
    options: dict[str, OptionValue] = {}
    for each in rest:
        option, separator, value = each.partition("=")
        if not separator:
            raise InvalidError(f"{name!r} is no attention implementation of hashattn: {each!r} is not OPTION=VALUE")
        options[option] = value
    seed, layers = options.pop("seed", None), options.pop("layers", None)
    return Parts(mechanism, None if seed is None else int(seed), options,
                 None if layers is None else tuple(int(each) for each in str(layers).split("+") if each))


def remember(name: str, held: str) -> None:
    """Keeps the name that holds what a registered name stands for."""
    _known[name] = held


def stored_name(name: Any) -> str | None:
    """The name that holds what a registered name stands for; None: it is not of hashattn."""
    return _known.get(name) if isinstance(name, str) else None


def is_ours(name: Any) -> bool:
    """True for a registered name, and for one of a stored configuration."""
    return isinstance(name, str) and (name in _known or name.startswith(PREFIX))
