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
    """Puts a mechanism into every attention layer of a model of the transformers library, and returns the model.

    It knows YosoModel, and the layers that take an `attn_implementation`, as those of BERT, RoBERTa, ViT and most others;
    `hashattn.torch.transformers.layers(model)` lists what runs on what. Parameters and the names of the state dict stay;
    models with the same configuration object change together. `save_pretrained` stores the mechanism in config.json.
    Padding is taken from the attention mask, as the tokenizer gives it, and linear in its length if it is at the end;
    masks that are neither padding nor causal are refused. Attention weights have no dropout and are not returned.
    options: of the mechanism. In a YosoModel, num_hashes and hash_bits are those of its configuration by default. Its
        own code ignores padding and, on a CPU, computes the quadratic expectation; here padding counts.
    seed: of every call; None draws one for each call in training mode, from torch's generator, and is 0 in evaluation.

    InvalidError: the model has no layer that it knows, or the mechanism or an option is unknown.
    """
    from . import names, transformers
    from .layers import takes_implementation

    names.check_mechanism(mechanism, options)
    name = names.name_of(mechanism, seed, options)
    transformers.register(name, mechanism, seed=seed, **options)
    taking = [module for module in model.modules() if takes_implementation(module)]
    if not put_into_yoso(model, mechanism, seed, options) and not taking:
        raise InvalidError(_unknown(model))
    for module in model.modules():
        configuration: Any = getattr(module, "config", None)
        if hasattr(configuration, "_attn_implementation_internal") and _has(module, taking):
            configuration._attn_implementation_internal = name
    return model


def _has(module: nn.Module, taking: list[nn.Module]) -> bool:
    """A layer that changes is in the module, so its configuration is asked for the layer's mask."""
    inside = {id(each) for each in module.modules()}
    return any(id(each) in inside for each in taking) or bool(_yoso_layers(module))


def _yoso_layers(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if "YosoSelfAttention" in {each.__name__ for each in type(module).__mro__}]


def put_into_yoso(model: nn.Module, mechanism: str, seed: Seed, options: dict[str, OptionValue]) -> bool:
    """Replaces the layers of a YosoModel; False: it has none."""
    found = _yoso_layers(model)
    if found:
        from .yoso_layer import put_into

        for layer in found:
            put_into(layer, mechanism, seed, options)
    return bool(found)


def _unknown(model: nn.Module) -> str:
    found = {type(module).__name__ for module in model.modules()}
    attention = sorted(name for name in found if "attention" in name.lower()) or sorted(found)
    import transformers

    return (f"{type(model).__name__} has no attention that replace_attention knows (YosoSelfAttention, or a layer that "
            f"takes attn_implementation in transformers {transformers.__version__}); it has {', '.join(attention)}")
