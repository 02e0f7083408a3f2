"""A model's mechanism in its stored configuration, and again in the model that is loaded.

The library writes no attention implementation into config.json, but reads one, under "attn_implementation". So what its
configurations write is extended here, and names that they read are registered. A YosoModel has an attention of its own;
its layers are replaced when the model is made. Without hashattn the library refuses the name, with a hint in it; up to 5.3
it drops that key, and finds the name under "_attn_implementation".
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from . import interface, learned, names, own_sdpa
from .layers import OWN_CODE, choose, layers
from .modules import Learned
from .replace import put_into_yoso
from .tables import offer
from .versions import Configuration, Model

_KEY, _OLD_KEY = "attn_implementation", "_attn_implementation"


def _implementation(configuration: Any) -> Any:
    """The name to store for a configuration: a str, or a dict by parts if they differ; None if hashattn is in no part."""
    own = getattr(configuration, "_attn_implementation_internal", None)
    ours = names.stored_name(own)
    found: dict[str, Any] = {"": own if ours is None else ours + names.HINT}
    for part in getattr(configuration, "sub_configs", None) or {}:
        below = getattr(configuration, part, None)
        if isinstance(below, Configuration):
            found[part] = _implementation(below) or getattr(below, "_attn_implementation_internal", None)
    if not any(names.is_ours(each) or isinstance(each, dict) for each in found.values()):
        return None
    if all(each == found[""] for each in found.values()):
        return found[""]
    return {part: each for part, each in found.items() if each is not None}


def _registered(value: Any) -> Any:
    """An implementation that a configuration is given, with the names of hashattn registered."""
    if isinstance(value, dict):
        return {part: _registered(each) for part, each in value.items()}
    if isinstance(value, str) and value.startswith(names.PREFIX):
        return interface.restored(value)
    return value


def keep_with_configurations() -> None:
    """Extends what the library's configurations write and read, and what its models do once they are made."""
    to_dict, own = Configuration.to_dict, Configuration._attn_implementation
    begin, post_init = Model.__init__, Model.post_init
    from_dict = Configuration.from_dict.__func__

    def to_dict_with_implementation(self: Any) -> dict[str, Any]:
        found: dict[str, Any] = to_dict(self)
        implementation = _implementation(self)
        if implementation is not None:
            found[_KEY] = found[_OLD_KEY] = implementation
        return found

    def from_dict_with_implementation(cls: Any, /, config_dict: dict[str, Any], **given: Any) -> Any:
        """The library up to 5.3 drops what is stored."""
        config_dict = {name: value for name, value in config_dict.items() if name != _OLD_KEY}  # which would beat what is given
        if config_dict.get(_KEY) is not None and given.get(_KEY) is None:
            given[_KEY] = _registered(config_dict[_KEY])
        return from_dict(cls, config_dict, **given)

    def set_implementation(self: Any, value: Any) -> None:
        own.fset(self, _registered(value))

    def state(self: Any) -> dict[str, Any]:
        """For pickle: the name registers itself where it is loaded."""
        found = dict(self.__dict__)
        name = names.stored_name(found.get("_attn_implementation_internal"))
        if name is not None:
            found["_attn_implementation_internal"] = interface.Name(name)
        return found

    @functools.wraps(begin)
    def start(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        offer(type(self), getattr(self.config, "_attn_implementation_internal", None))

    def finish(self: Any) -> None:
        post_init(self)
        _use_in(self)

    Configuration.to_dict = to_dict_with_implementation
    Configuration.from_dict = classmethod(from_dict_with_implementation)
    Configuration._attn_implementation = property(own.fget, set_implementation)
    Configuration.__getstate__ = state
    Model.__init__ = start
    Model.post_init = finish
    Model._initialize_weights = _initializing(Model._initialize_weights)


def _initializing(own: Any) -> Any:
    """The library's function that gives a module its first values, which does not know those of mechanisms."""

    def initialize(self: Any, module: Any, *more: Any, **named: Any) -> None:
        if isinstance(module, Learned) and not all(getattr(each, "_is_hf_initialized", False) for each in module.values()):
            module.reset_parameters()
        own(self, module, *more, **named)

    return initialize


def _use_in(model: Any) -> None:
    """Replaces the layers of a YosoModel, and gives layers what they learn. If nothing in the model takes its
    implementation, that is the library's again, because the masks go with it, and a warning says so."""
    name = names.stored_name(getattr(model.config, "_attn_implementation_internal", None))
    if name is None:
        return
    mechanism, seed, options, numbers = names.parts_of(name)
    chosen = choose(model, numbers)
    put_into_yoso(chosen, mechanism, seed, options)
    own_sdpa.put_into(chosen, name)
    found = layers(model)
    if found and all(each.runs == OWN_CODE for each in found):
        model.config._attn_implementation_internal = model.get_correct_attn_implementation(None, is_init_check=True)
        kinds = ", ".join(sorted({each.kind for each in found}))
        warnings.warn(f"{type(model).__name__} has no layer that takes attn_implementation={name!r}; its attention "
                      f"({kinds}) stays as it is", stacklevel=2)
    learned.put_into(model, chosen, mechanism, options)
