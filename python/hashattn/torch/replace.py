"""Puts linear-cost attention into loaded models of the transformers library.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from torch import nn

from ..errors import InvalidError
from ..options import OptionValue
from .functions import Seed


def replace_attention(model: nn.Module, mechanism: str = "yoso", *, seed: Seed = None,
                      **options: OptionValue) -> nn.Module:
    """Puts a mechanism into every self-attention layer of a model of the transformers library, and returns the model.

    It knows YosoModel, BERT, RoBERTa, DistilBERT and ViT, with any head. Parameters and the names of the state dict
    stay; models with the same configuration object change together. Padding is taken from the attention mask, as the
    tokenizer gives it, and linear in its length; other masks are refused. Attention weights have no dropout and are not
    returned.
    options: of the mechanism. In a YosoModel, num_hashes and hash_bits are those of its configuration by default. Its
        own code ignores padding and, on a CPU, computes the quadratic expectation; here padding counts.
    seed: of every call; None draws one for each call from torch's generator.

    InvalidError: the model has no layer that it knows, or the mechanism or an option is unknown.
    """
    from . import transformers

    transformers.check_mechanism(mechanism, options)
    layers: list[Any] = [module for module in model.modules() if transformers.SELF_ATTENTION & _names(module)]
    yoso = [module for module in model.modules() if "YosoSelfAttention" in _names(module)]
    if not layers and not yoso:
        raise InvalidError(_unknown(model, transformers.SELF_ATTENTION))
    if layers:
        name = "hashattn-" + mechanism + "".join(f",{key}={value}" for key, value in options.items())
        name += "" if seed is None else f",seed={seed}"
        transformers.register(name, mechanism, seed=seed, **options)
        for layer in layers:
            layer.config._attn_implementation = name
    if yoso:
        from .yoso_layer import put_into

        for layer in yoso:
            put_into(layer, mechanism, seed, options)
    return model


def _names(module: nn.Module) -> set[str]:
    """The names of its class and the classes that this inherits from."""
    return {each.__name__ for each in type(module).__mro__}


def _unknown(model: nn.Module, known: frozenset[str]) -> str:
    found = {type(module).__name__ for module in model.modules()}
    attention = sorted(name for name in found if "attention" in name.lower()) or sorted(found)
    return (f"{type(model).__name__} has no attention that replace_attention knows (YosoSelfAttention, "
            f"{', '.join(sorted(known))}); it has {', '.join(attention)}")
