"""What a mask function of the transformers library asks for, read from the functions that it is made of.

The library describes a mask by a function of the places of a query and a key, and joins several by `and_masks`. The ones that
attention at linear cost has are known by the name of the function that made them and by its variables; others are not.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from .versions import bidirectional_functions, causal_mask_function


class Asked(NamedTuple):
    """causal: no later keys. reach: keys at a distance of at most this; None = any. sequences: (batch, n), numbers of
    sequences that are packed into a row and see themselves only; None = one."""

    causal: bool = False
    reach: int | None = None
    sequences: Tensor | None = None


def asked(function: Any) -> Asked | None:
    """What `function` asks for; None: it is not made of functions that are known."""
    if function is causal_mask_function:
        return Asked(causal=True)
    if function in bidirectional_functions:
        return Asked()
    made_by = getattr(function, "__qualname__", "").split(".<locals>", 1)[0]
    cells = getattr(function, "__closure__", None) or ()
    found = dict(zip(function.__code__.co_freevars, (each.cell_contents for each in cells))) if cells else {}
    if made_by == "and_masks" and "mask_functions" in found:
        return _all_of(found["mask_functions"])
    if made_by == "sliding_window_overlay" and "sliding_window" in found:
        return Asked(reach=int(found["sliding_window"]) - 1)
    if made_by == "sliding_window_bidirectional_overlay" and "sliding_window" in found:
        return Asked(reach=int(found["sliding_window"]))
    if made_by == "packed_sequence_mask_function" and "packed_sequence_mask" in found:
        return Asked(sequences=found["packed_sequence_mask"])
    if made_by == "remap_positions_for_packed_sequence" and "mask_function" in found:
        return asked(found["mask_function"])  # of distances within a sequence, which are those in the row
    return None


def _all_of(functions: Any) -> Asked | None:
    causal, reach, sequences = False, None, None
    for each in functions:
        part = asked(each)
        if part is None or (part.sequences is not None and sequences is not None):
            return None
        causal = causal or part.causal
        if part.reach is not None:
            reach = part.reach if reach is None else min(reach, part.reach)
        sequences = sequences if part.sequences is None else part.sequences
    return Asked(causal, reach, sequences)
