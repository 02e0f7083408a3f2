"""Floating-point operations of the operators, for torch.utils.flop_counter.FlopCounterMode.

Two per multiplication with its addition, as in PyTorch's formulas, and from shapes alone: padding counts, causal attention
counts as if every pair were computed, and packed sequences as if all had the same length. yoso counts codes, tables and,
in backward, the pairs that evenly spread codes have or the products that replace them (docs/MATH.md, sections 5 and 7); lha,
lsh and random count attention within groups. Other mechanisms have no formula: they count 0, with a warning.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, NamedTuple

from torch.utils import flop_counter

from ..options import mechanisms
from . import operators


class _Head(NamedTuple):
    """One head of one sequence: numbers of queries and keys, and their widths."""

    queries: int
    keys: int
    width: int
    value_width: int


def _exact(head: _Head, _: dict[str, Any], backward: bool) -> int:
    queries, keys, width, value_width = head
    return 2 * queries * keys * ((3 * width + 2 * value_width) if backward else (width + value_width))


def _yoso(head: _Head, options: dict[str, Any], backward: bool) -> int:
    queries, keys, width, value_width = head
    hashes, bits = options["num_hashes"], options["hash_bits"]
    rows = queries + keys
    tables = 2 * rows * value_width * hashes
    if not backward:
        return int(2 * rows * width * hashes * bits + tables)
    pairs = queries * keys * (2 * value_width + 4 * width) // 2**bits
    return int(tables + (options["gradient_hashes"] or hashes) * min(pairs, 4 * rows * value_width * width))


def _linear(head: _Head, _: dict[str, Any], backward: bool) -> int:
    queries, keys, width, value_width = head
    return 2 * (queries + keys) * width * value_width * (2 if backward else 1)


def _groups(head: _Head, options: dict[str, Any], backward: bool) -> int:
    groups, enlargement = int(options["num_buckets"]), float(options["enlargement"])
    queries, keys = (max(1, min(rows, int(rows / groups * enlargement))) for rows in head[:2])
    return int(options["rounds"]) * groups * _exact(head._replace(queries=queries, keys=keys), options, backward)


_FORMULAS: dict[str, Callable[[_Head, dict[str, Any], bool], int]] = {
    "none": lambda *_: 0, "softmax": _exact, "yoso-e": _exact, "yoso": _yoso, "linear": _linear, "lha": _groups,
    "lsh": _groups, "random": _groups}


def _count(backward: bool, q: Any, k: Any, v: Any, query_counts: Any, padded: bool, mechanism: str,
           given: list[str]) -> int:
    formula = _FORMULAS.get(mechanism)
    if formula is None:
        warnings.warn(f"hashattn has no formula for the floating-point operations of {mechanism}; it counts as 0",
                      stacklevel=2)
        return 0
    made = mechanisms()[mechanism].options
    texts = dict(zip(given[::2], given[1::2]))
    options = {name: type(each.default)(texts[name]) if name in texts else each.default for name, each in made.items()
               if not isinstance(each.default, bool)}
    if query_counts is None or padded:
        sequences, rows = (q[0] if len(q) == 4 else 1), (q[-2], k[-2])
        heads = q[-3] if len(q) > 2 else 1
    else:
        sequences, heads = max(1, query_counts[0] - 1), q[1]
        rows = -(-q[0] // sequences), -(-k[0] // sequences)
    return int(sequences * heads * formula(_Head(*rows, q[-1], v[-1]), options, backward))


def _formula(backward: bool) -> Callable[..., int]:
    def formula(q: Any, k: Any, v: Any, key_mask: Any, query_counts: Any, key_counts: Any, params: Any, max_len: Any,
                padded: bool, seed: Any, causal: bool, mechanism: str, options: list[str], *more: Any, **named: Any) -> int:
        return _count(backward, q, k, v, query_counts, padded, mechanism, options)

    return formula


_wrapped: Any = flop_counter.shape_wrapper
for _operator, _backward in ((operators.attention, False), (operators.attention_backward, True)):
    flop_counter.register_flop_formula(_operator.overloadpacket)(_formula(_backward))
    flop_counter.flop_registry.setdefault(_operator.overloadpacket, _wrapped(_formula(_backward)))  # which torch 2.4 looks up
