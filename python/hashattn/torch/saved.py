"""How many bytes forward saves for backward, from shapes alone, so that a compiled graph knows the size.

What the library needs depends on the lengths of a call. The size here is enough for all lengths: that of full sequences
whose numbers of rows are rounded up to a power of two. A graph that is compiled for any number of rows thus holds from one
power of two to the next, and for any number of sequences and heads. Memory that nothing is written to takes no pages.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from ctypes import byref, c_size_t
from typing import Any, NamedTuple

from torch import Tensor

from .. import _library
from ..context import Context
from ..errors import Error
from ..operator import Attention
from .calls import ELEMENTS, context_of


def saved_bytes(q: Tensor, k: Tensor, v: Tensor, query_counts: Tensor | None, max_len: int | None, padded: bool,
                causal: bool, mechanism: str, options: list[str]) -> Any:
    """An int, or a torch.SymInt of symbolic shapes. 0: the library refuses the call, with the reason when it runs."""
    made = (mechanism, tuple(options), ELEMENTS.get(q.dtype, 0), causal, None if max_len is None else int(max_len),
            int(q.shape[-1]), int(v.shape[-1]))
    try:
        if query_counts is None or padded:
            sizes = _sizes(made, q.shape[-2], k.shape[-2])
            units = q.shape[0] * q.shape[1] if q.ndim == 4 else q.shape[0] if q.ndim == 3 else 1
            return sizes.shared + units * sizes.unit
        # Packed: lengths are not known. Arrays of a unit grow with its rows, or less, or more: the even cut bounds the
        # sum of the former two, and one sequence with all rows that of the last.
        sequences = query_counts.shape[0] - 1
        if sequences < 1:
            return 0
        even = _sizes(made, -(-q.shape[0] // sequences), -(-k.shape[0] // sequences))
        whole = _sizes(made, q.shape[0], k.shape[0])
        return even.shared + q.shape[1] * (sequences * even.unit + whole.unit)
    except Error:
        return 0


class _Sizes(NamedTuple):
    """Bytes that all units share, and bytes of a unit, a head of a sequence."""

    shared: int
    unit: int


def _sizes(made: tuple[Any, ...], queries: Any, keys: Any) -> _Sizes:
    most = made[4]  # max_len
    try:
        return _of_rows(*made, _rounded(queries, most), _rounded(keys, most))
    except Error:  # of the rounded numbers perhaps
        return _of_rows(*made, int(queries), int(keys))


def _rounded(rows: Any, most: int | None) -> int:
    """The next power of two; not beyond `most`, the longest sequence that learned tensors are made for."""
    power = 1
    while power < rows:
        power *= 2
    return min(power, most) if most is not None and rows <= most else power


@functools.lru_cache(maxsize=64)
def _attention(context: Context, mechanism: str, options: tuple[str, ...]) -> Attention:
    """Of its own, because learned tensors that a call has set may be for other shapes."""
    return Attention(mechanism, context=context, **dict(zip(options[::2], options[1::2])))


@functools.lru_cache(maxsize=1024)
def _of_rows(mechanism: str, options: tuple[str, ...], element: int, causal: bool, max_len: int | None, head_dim: int,
             value_dim: int, queries: int, keys: int) -> _Sizes:
    attention, found = _attention(context_of(None), mechanism, options), []
    with attention._use() as handle:
        for sequences in (1, 2):
            problem = _library.Problem(
                num_sequences=sequences, num_heads=1, num_queries=queries, num_keys=keys, head_dim=head_dim,
                value_dim=value_dim, causal=causal, element=element, max_len=max_len or max(queries, keys))
            saved, scratch = c_size_t(), c_size_t()
            function = _library.functions().attention_sizes
            handle.origin.check(function(handle.pointer, byref(problem), byref(saved), byref(scratch)))
            found.append(saved.value)
    one, two = found
    return _Sizes(2 * one - two, two - one)
