"""Densities of tensors: gradcheck of the exact kernel, estimates and gradients against it, the bits of a sketch, a loss.

Planted and caught: gradient lower; the scale of the map with a gradient of its own; the mean over points instead of rows; an
error that names arguments of another function.
SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from conftest import numbers  # noqa: E402


def kernel(points, rows, bits):
    """In float64, by definition, with autograd."""
    points, rows = (x / x.norm(dim=1, keepdim=True) for x in (points, rows))
    return ((1 - torch.arccos(points @ rows.T) / torch.pi) ** bits).mean(1)


def mapped(points, rows):
    centre, scale = rows.detach().mean(0), rows.detach().std(0, correction=0) * rows.shape[1] ** 0.5
    return [torch.cat([(x - centre) / scale, torch.ones_like(x[:, :1])], 1) for x in (points, rows)]


def pair(dtype=torch.float32):
    return [torch.tensor(numbers(n, 4, seed=n), dtype=dtype, requires_grad=True) for n in (5, 30)]


@pytest.mark.parametrize("map", ["none", "euclidean"])
def test_the_exact_kernel_and_its_gradients(map):
    points, rows = pair()
    wide = pair(torch.float64)
    got = hashattn.torch.density(points, rows, hash_bits=3, map=map, exact=True)
    want = kernel(*(mapped(*wide) if map == "euclidean" else wide), 3)
    assert torch.allclose(got.double(), want, rtol=1e-5)
    weights = torch.arange(1.0, 6.0)
    (got * weights).sum().backward()
    (want * weights).sum().backward()
    for mine, exact in zip((points, rows), wide):
        assert torch.allclose(mine.grad.double(), exact.grad, rtol=1e-3, atol=1e-5)


def test_gradcheck_of_the_exact_kernel():
    points, rows = pair()
    assert torch.autograd.gradcheck(
        lambda p, r: hashattn.torch.density(p, r, hash_bits=3, exact=True), (points, rows[:8].detach().requires_grad_()),
        eps=3e-3, atol=2e-3, rtol=2e-2, nondet_tol=0)


def test_estimates_and_gradients_are_unbiased():
    points, rows = pair()
    exact = hashattn.torch.density(points, rows, hash_bits=4, exact=True)
    exact.sum().backward()
    want = [exact.detach().double(), points.grad.double(), rows.grad.double()]
    seeds, sums, squares = 1500, [0, 0, 0], [0, 0, 0]
    for seed in range(seeds):
        points.grad = rows.grad = None
        got = hashattn.torch.density(points, rows, hash_bits=4, num_hashes=16, seed=seed)
        got.sum().backward()
        for i, value in enumerate((got.detach(), points.grad, rows.grad)):
            sums[i] = sums[i] + value.double()
            squares[i] = squares[i] + value.double() ** 2
    for exactly, total, square in zip(want, sums, squares):
        mean = total / seeds
        z = (mean - exactly) / ((square / seeds - mean ** 2) / seeds).sqrt()
        assert z.abs().max() < 5 and (z ** 2).mean() < 1.6, z


def test_the_estimate_is_the_score_of_a_sketch():
    points, rows = numbers(20, 6, seed=1), numbers(500, 6, seed=2)
    for map in ("none", "euclidean"):
        got = hashattn.torch.density(torch.tensor(points), torch.tensor(rows), seed=9, map=map)
        assert np.allclose(got, hashattn.Density(seed=9, map=map).fit(rows).score(points), rtol=0.02 if map != "none" else 1e-5)


def test_a_loss_draws_points_to_the_rows():
    rows = torch.tensor(numbers(300, 4) * 0.2 + np.float32([2, 0, 0, 0]))
    points = torch.tensor(numbers(20, 4, seed=3), requires_grad=True)
    torch.manual_seed(1)
    optimiser = torch.optim.Adam([points], 0.1)
    before = hashattn.torch.density(points, rows, hash_bits=4, exact=True).mean().item()
    for _ in range(60):
        optimiser.zero_grad()
        (-hashattn.torch.density(points, rows, hash_bits=4).mean()).backward()
        optimiser.step()
    assert hashattn.torch.density(points, rows, hash_bits=4, exact=True).mean().item() > max(2 * before, 0.5)


def test_bad_arguments_are_named():
    points, rows = pair()
    for given in ((points[0], rows), (points, rows[:, :3]), (points, rows[:0])):
        with pytest.raises(ValueError, match=r"\(n, d\) and \(m, d\)"):
            hashattn.torch.density(*given)
    for given, name in (((points.double(), rows), "points has dtype torch.float64"), ((points, rows.tolist()), "rows is a list"),
                        ((points.half(), rows), "points, rows have dtypes torch.float16, torch.float32")):
        with pytest.raises(hashattn.InvalidTypeError, match=name):
            hashattn.torch.density(*given)
    with pytest.raises(ValueError, match="no map 'log'"):
        hashattn.torch.density(points, rows, map="log")
    with pytest.raises(ValueError, match="hash_bits"):
        hashattn.torch.density(points, rows, hash_bits=40)
