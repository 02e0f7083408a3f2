"""Densities of tensors, with gradients: a term of a loss.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InvalidError
from .calls import check_tensors
from .functions import Seed, attention


def _directions(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Points and rows under the Euclidean map of `hashattn.Density`, whose centre and scale have no gradient."""
    known = rows.detach()
    centre, deviation = known.mean(0), known.std(0, correction=0)
    scale = torch.where(deviation > 0, deviation, torch.ones_like(deviation)) * rows.shape[1] ** 0.5
    first, second = (torch.cat([(x - centre) / scale, torch.ones_like(x[:, :1])], 1) for x in (points, rows))
    return first, second


def density(points: Tensor, rows: Tensor, *, num_hashes: int = 32, hash_bits: int = 9, map: str = "none",
            seed: Seed = None, exact: bool = False) -> Tensor:
    """The density (n,) of points (n, d) among rows (m, d), with gradients for both.

    It is (1/m) sum_j (1 - angle(point, row_j)/pi)^hash_bits, between 0 and 1, estimated from hashes at linear cost;
    exact=True computes it from all pairs. Estimate and gradients are unbiased over seeds, so the mean of densities can be
    a term of a loss: minus it draws points to the rows, and plus it spreads them. The logarithm of an estimate and its
    gradient are biased where the standard error is not small beside the density; add a small number before the log.

    map: "none" = rows are directions; "euclidean" = points, centred and scaled as in `hashattn.Density`, with all rows.
    num_hashes, hash_bits, seed: as in `attention` with "yoso"; None draws the seed from torch's generator. With the same
    seed and map "none", the estimate is the score of `hashattn.Density`. A point uses at most 256 rows of a bucket for its
    gradient. InvalidError: another shape or map, no rows, NaN or infinity.
    """
    check_tensors((torch.float16,), points=points, rows=rows)
    if points.ndim != 2 or rows.ndim != 2 or points.shape[1] != rows.shape[1] or rows.shape[0] == 0:
        raise InvalidError(f"points and rows have shapes {tuple(points.shape)} and {tuple(rows.shape)}; (n, d) and "
                           "(m, d) with m >= 1 are needed")
    if map not in ("none", "euclidean"):
        raise InvalidError(f"no map {map!r}, there are: none, euclidean")
    if map == "euclidean":
        points, rows = _directions(points, rows)
    share = torch.full((rows.shape[0], 1), 1 / rows.shape[0], dtype=rows.dtype, device=rows.device)
    if exact:
        return attention(points, rows, share, mechanism="yoso-e", seed=0, hash_bits=hash_bits, normalize="none",
                         gradient="true").squeeze(1)
    return attention(points, rows, share, seed=seed, num_hashes=num_hashes, hash_bits=hash_bits, normalize="none",
                     gradient="true", max_partners=256).squeeze(1)
