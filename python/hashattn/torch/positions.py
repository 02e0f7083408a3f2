"""More positions for a model of the transformers library that has learned a vector for each position.

The learned vectors are repeated, as `hashattn train --from` and Longformer do: near tokens then stand to each other as in
training, and fine-tuning has to teach the rest.
Source: Longformer, Beltagy et al., 2020, section 5. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..errors import InvalidError
from ..arrays import whole_number
from .calls import check_model

_NAMES = ("position_embeddings", "position_embedding", "embed_positions", "wpe")
_PER_TOKEN = ("position_ids", "token_type_ids")  # buffers (1, positions) beside an embedding


def extend_positions(model: nn.Module, positions: int) -> nn.Module:
    """Makes place for sequences of `positions` tokens, special tokens included, and returns the model.

    It knows embeddings of positions as those of BERT, RoBERTa, ELECTRA, DistilBERT, BART, OPT, GPT-2 and CLIP's texts. Their
    rows are repeated from the first on, their gradients go on, and the configuration has the new number. Extend before
    `replace_attention`, before an optimizer is made, and tell the tokenizer: tokenizer.model_max_length = positions.

    InvalidError: the model has no such embedding (rotary and relative positions need none), or has more positions already.
    """
    check_model(model)
    positions = whole_number("positions", positions, 2**31)
    tables = [(place, name, each) for place in model.modules() for name, each in place.named_children()
              if name in _NAMES and isinstance(each, nn.Embedding)]
    if not tables:
        raise InvalidError(f"{type(model).__name__} has no embedding of positions ({', '.join(_NAMES)}); models with rotary or "
                           "relative positions need none")
    grown = {}
    for place, name, table in tables:
        first = _first_row(model, table)
        have = table.num_embeddings - first
        if have > positions:
            raise InvalidError(f"{name} of {type(place).__name__} has {have} positions already; {positions} would drop some")
        grown[table.num_embeddings] = positions + first
        _grow_table(table, first, positions)
        for each in _PER_TOKEN:
            _grow_buffer(place, each, have + first, positions + first)
    _tell_configurations(model, grown, positions)
    return model


def _first_row(model: Any, table: Any) -> int:
    """The row of the first position: RoBERTa, BART and others count from behind the padding."""
    offset = getattr(table, "offset", None)
    if isinstance(offset, int):
        return offset
    if table.padding_idx is not None and table.padding_idx > 0:
        return int(table.padding_idx) + 1
    limits = [getattr(each.config, "max_position_embeddings", None) for each in model.modules() if hasattr(each, "config")]
    return 2 if table.num_embeddings - 2 in limits and table.num_embeddings not in limits else 0


def _grow_table(table: Any, first: int, positions: int) -> None:
    old = table.weight.detach()
    rows = first + torch.arange(positions, device=old.device) % (old.shape[0] - first)
    made = nn.Parameter(torch.cat([old[:first], old[rows]]), requires_grad=table.weight.requires_grad)
    table.weight, table.num_embeddings = made, made.shape[0]


def _grow_buffer(place: Any, name: str, have: int, need: int) -> None:
    """Numbers go on by the step of the first two; the shape stays (1, ...)."""
    old = getattr(place, name, None)
    if not isinstance(old, torch.Tensor) or name not in place._buffers or old.ndim != 2:
        return
    start, step = int(old[0, 0]), int(old[0, 1] - old[0, 0]) if old.shape[1] > 1 else 1
    kept = name not in place._non_persistent_buffers_set
    count = old.shape[1] + need - have
    made = start + step * torch.arange(count, dtype=old.dtype, device=old.device)
    place.register_buffer(name, made.expand(1, -1).contiguous(), persistent=kept)


def _tell_configurations(model: nn.Module, grown: dict[int, int], positions: int) -> None:
    """Configurations count the rows of the table, or the positions."""
    told = set()
    for each in model.modules():
        configuration: Any = getattr(each, "config", None)
        have = getattr(configuration, "max_position_embeddings", None)
        if id(configuration) in told or not isinstance(have, int):
            continue
        told.add(id(configuration))
        for rows, need in grown.items():
            if rows - 2 <= have <= rows:
                configuration.max_position_embeddings = need - (rows - have)
