# SPDX-License-Identifier: Apache-2.0
"""Ratios and medians from the JSON of bench/peers.py. Standard library only."""

import statistics


def rows_of(results, work, key, precision="float32", **facts):
    return [row for row in results["rows"] if row["work"] == work and row["key"] == key and row["precision"] == precision
            and all(row.get(name) == value for name, value in facts.items())]


def row_of(results, work, key, precision="float32", **facts):
    return next(iter(rows_of(results, work, key, precision, **facts)), None)


def ratio(results, work, ours, theirs, figure, precision="float32", **facts):
    """theirs / ours, round by round; None if one of them was not measured."""
    a, b = (row_of(results, work, key, precision, **facts) for key in (ours, theirs))
    if not a or not b or figure not in a["ms"] or figure not in b["ms"]:
        return None
    return [y / x for x, y in zip(a["ms"][figure], b["ms"][figure])]


def median(values):
    return statistics.median(values) if values else None


def spread(values, form="{:.1f}x"):
    """The median with the least and the largest."""
    middle = form.format(median(values))
    return middle if len(values) == 1 else f"{middle} ({form.format(min(values))} to {form.format(max(values))})"
