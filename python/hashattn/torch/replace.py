"""Puts linear-cost attention into loaded models of the transformers library.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Callable

from torch import nn

from ..errors import InvalidError
from ..options import OptionValue
from .calls import check_model
from .functions import Seed


def replace_attention(model: nn.Module, mechanism: str = "yoso", *, filter: Callable[[str, nn.Module], bool] | None = None,
                      seed: Seed = None, **options: OptionValue) -> nn.Module:
    """Puts a mechanism into the attention layers of a model of the transformers library, and returns the model.

    It knows YosoModel, and the layers that take an `attn_implementation`, as those of BERT, RoBERTa, ViT and most others;
    `hashattn.torch.transformers.layers(model)` lists what runs on what. Parameters and the names of the state dict stay;
    models with the same configuration object change together. `save_pretrained` stores the mechanism in config.json.
    A model with trained weights computes another function then, and needs fine-tuning.
    Padding is taken from the attention mask, as the tokenizer gives it, and linear in its length if it is at the end.
    A layer with a sliding window runs softmax in its window, which is linear already, whatever the mechanism. Masks that
    differ by query in another way are refused. Attention weights have no dropout and are not returned.
    filter: filter(name, layer) tells of each layer of `layers` whether it changes; the others run PyTorch's sdpa. None =
        all change. lambda name, layer: layer.sliding_window is None takes the global layers of ModernBERT and Gemma 3.
    options: of the mechanism. In a YosoModel, num_hashes and hash_bits are those of its configuration by default. Its
        own code ignores padding and, on a CPU, computes the quadratic expectation; here padding counts.
    seed: of every call; None draws one for each call in training mode, from torch's generator, and is 0 in evaluation.

    What a mechanism learns ("lha", "rfa", ...) becomes parameters of the layers, `own.*`, for as many tokens as the model
    has positions. An own loss ("lha", "routing") is part of the loss that the model returns in training.

    InvalidError: the model has no layer that it knows, `filter` takes none, or the mechanism or an option is unknown.
    """
    check_model(model)
    from . import interface, learned, names, own_sdpa
    from .layers import candidates, choose

    found = candidates(model)
    numbers = [number for number, each in enumerate(found) if filter is None or filter(*each)]
    if not found:
        raise InvalidError(_unknown(model))
    if not numbers:
        raise InvalidError(f"filter takes none of the {len(found)} attention layers: {', '.join(name for name, _ in found)}")
    name = names.name_of(mechanism, seed, options, None if len(numbers) == len(found) else numbers)
    interface.register(name, mechanism, seed=seed, **options)
    names.remember(name, name)
    chosen = choose(model, numbers)
    put_into_yoso(chosen, mechanism, seed, options)
    own_sdpa.put_into(chosen, name)
    learned.put_into(model, chosen, mechanism, options)
    for module in model.modules():
        configuration: Any = getattr(module, "config", None)
        if hasattr(configuration, "_attn_implementation_internal") and _has(module, chosen):
            configuration._attn_implementation_internal = name
    return model


def _has(module: nn.Module, layers: list[nn.Module]) -> bool:
    """A layer that changes is in the module, so its configuration is asked for the layer's mask."""
    inside = {id(each) for each in module.modules()}
    return any(id(each) in inside for each in layers)


def put_into_yoso(layers: list[nn.Module], mechanism: str, seed: Seed, options: dict[str, OptionValue]) -> bool:
    """Replaces those layers that are of a YosoModel; False: none is."""
    from .layers import is_of_yoso

    found = [each for each in layers if is_of_yoso(each)]
    if found:
        from .yoso_layer import put_into

        for layer in found:
            put_into(layer, mechanism, seed, options)
    return bool(found)


def _unknown(model: nn.Module) -> str:
    found = {type(module).__name__ for module in model.modules()}
    attention = sorted(name for name in found if "attention" in name.lower()) or sorted(found)
    from transformers import __version__ as version

    later = " (more do from 5.0 on)" if int(version.split(".")[0]) < 5 else ""
    return (f"{type(model).__name__} has no attention that replace_attention knows, by either route: YosoSelfAttention, or a "
            f"layer that takes attn_implementation in transformers {version}{later}; it has {', '.join(attention)}")
