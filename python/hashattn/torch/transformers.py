"""Attention implementations for the transformers library, with their masks.

    import hashattn.torch.transformers
    model = AutoModel.from_pretrained(name, attn_implementation="hashattn-yoso")
    print(hashattn.torch.transformers.layers(model))

Importing this module registers "hashattn-yoso", "hashattn-softmax" and so on, one for each mechanism; `register` adds
others, with options. What a model uses is stored in its configuration and restored with it (stored.py).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from .cached import Cache as Cache
from .interface import register as register
from .layers import Layer as Layer
from .layers import layers as layers
from .learned import own_loss as own_loss
from .stored import keep_with_configurations as _keep_with_configurations

_keep_with_configurations()
