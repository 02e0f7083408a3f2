"""Compiled training in whole graphs, the size of what forward saves, and counts of floating-point operations.

Planted and caught: the size that forward saves unknown (a graph break), and known in an export; numbers of rows not rounded
(a graph for each length); rounded down; heads, and what all heads share, not counted; a packed batch as its mean; backward
counted as forward; a cache that Dynamo sees, and warns of.
SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.utils import counters  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from hashattn.torch import operators  # noqa: E402
from hashattn.torch.calls import opened  # noqa: E402


def tensors(*shape, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(shape, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("mechanism", ["yoso", "yoso-e", "softmax", "lha"])
def test_training_is_one_graph_for_many_shapes(mechanism):
    def loss(q, k, v):
        return hashattn.torch.attention(q * 2, k, v, mechanism=mechanism, seed=3).square().sum()

    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch, heads, rows, graphs in ((2, 3, 40, 1), (3, 2, 60, 1), (2, 3, 64, 1), (2, 3, 72, 2)):
        inputs = tensors(batch, heads, rows, 16)
        found = torch.autograd.grad(compiled(*inputs), inputs)
        for a, b in zip(found, torch.autograd.grad(loss(*inputs), inputs)):
            assert torch.equal(a, b)
        assert counters["stats"]["unique_graphs"] == graphs, rows
    assert not counters["graph_break"]


@pytest.mark.parametrize("mechanism", ["yoso", "lha"])
def test_a_layer_is_trained_without_breaks(mechanism):
    """Without fullgraph, which makes a break an error."""
    if mechanism == "lha" and torch.__version__.startswith("2.4."):
        pytest.skip("torch 2.4 does not compile a layer that keeps its loss")
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), hashattn.torch.SelfAttention(16, 2, mechanism, num_hashes=4)
                                if mechanism == "yoso" else hashattn.torch.SelfAttention(16, 2, mechanism, num_buckets=4))
    rows = torch.randn(2, 24, 16)
    torch._dynamo.reset()
    counters.clear()
    torch.compile(layer, backend="aot_eager")(rows).sum().backward()
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]
    assert all(each.grad is not None for name, each in layer.named_parameters() if ".own." not in name)


def test_compilation_warns_of_nothing(recwarn):
    """Without a seed, which is drawn where the mechanism uses one. Dynamo gives each warning once in a process."""
    getattr(torch._dynamo.utils, "warn_once_cache", set()).clear()
    q, k, v = (each.detach() for each in tensors(2, 3, 20, 8))
    for mechanism in ("yoso", "softmax", "rfa"):
        torch._dynamo.reset()
        compiled = torch.compile(lambda q: hashattn.torch.attention(q, k, v, mechanism=mechanism), backend="aot_eager")
        torch.manual_seed(1)
        a, b = compiled(q), compiled(q)
        torch.manual_seed(1)
        assert torch.equal(a, hashattn.torch.attention(q, k, v, mechanism=mechanism))
        assert torch.equal(a, b) == (mechanism == "softmax")
    assert not [str(each.message) for each in recwarn if "lru_cache" in str(each.message)]


def calls(mechanism, rng):
    """Arguments of the operator with random shapes, and masks, lengths or offsets where the mechanism takes them."""
    heads, queries, keys = (int(each) for each in (rng.integers(1, 4), *np.exp(rng.uniform(0, 6, 2))))
    for kind in ("plain", "causal", "mask", "lengths", "packed"):
        if kind == "packed":
            cuts = np.sort(rng.integers(0, queries + 1, int(rng.integers(0, 6))))
            offsets = torch.tensor([0, *cuts, queries])
            q, k, v = (torch.randn(queries, heads, 8) for _ in range(3))
            yield q, k, v, None, offsets, None, False, False
            continue
        n_k = queries if kind in ("causal", "mask", "lengths") else keys
        q, k, v = torch.randn(3, heads, queries, 8), torch.randn(3, heads, n_k, 8), torch.randn(3, heads, n_k, 8)
        mask = torch.from_numpy(rng.random((3, n_k)) < 0.7) if kind == "mask" else None
        lengths = torch.from_numpy(rng.integers(0, queries + 1, 3)) if kind == "lengths" else None
        yield q, k, v, mask, lengths, None, kind == "lengths", kind == "causal"


@pytest.mark.parametrize("mechanism", list(hashattn.mechanisms()))
def test_the_size_from_shapes_is_enough(mechanism):
    rng, seed, ran = np.random.default_rng(1), torch.tensor(5), 0
    for dtype in (torch.float32, torch.bfloat16):
        for _ in range(8):
            for q, k, v, mask, counts, of_keys, padded, causal in calls(mechanism, rng):
                q, k, v = (each.to(dtype) for each in (q, k, v))
                problem = (q, k, v, mask, counts, of_keys, None, None, padded, seed, causal, mechanism, [])
                try:
                    with opened(*problem) as call:
                        needed = call.saved_bytes
                except (hashattn.RefusedError, hashattn.InvalidError):
                    continue
                ran += 1
                assert needed <= operators._saved_bytes(problem), (q.shape, k.shape, counts)
    assert ran > 15


def test_the_size_is_that_of_the_operator():
    for mechanism in ("yoso", "lha", "softmax"):
        q, k, v = tensors(2, 3, 20, 8)
        problem = (q, k, v, None, None, None, None, None, False, torch.tensor(5), False, mechanism, [])
        with torch.no_grad():
            saved = torch.ops.hashattn.attention.default(*problem, True)[1]
        assert saved.shape == (operators._saved_bytes(problem),)
        meta = [each.detach().to("meta") for each in (q, k, v)]
        assert torch.ops.hashattn.attention.default(*meta, *problem[3:], True)[1].shape == saved.shape


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="this torch does not tell that it exports")
def test_export_of_a_trained_layer_takes_any_length():
    layer = hashattn.torch.YosoAttention(16, 2, num_hashes=4).eval()
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(layer, (torch.randn(2, 24, 16),), dynamic_shapes=({1: rows},))
    longer = torch.randn(2, 200, 16)
    assert torch.allclose(program.module()(longer), layer(longer), atol=1e-6)


def operations(inputs, **given):
    with FlopCounterMode(display=False) as forward:
        out = hashattn.torch.attention(*inputs, seed=1, **given)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def test_operations_are_counted():
    inputs = tensors(2, 3, 100, 16)
    shape = inputs[0].shape
    exact = sdpa_flop_count(shape, shape, shape), sdpa_backward_flop_count(shape, shape, shape, shape)
    assert operations(inputs, mechanism="softmax") == exact == operations(inputs, mechanism="yoso-e")
    codes, tables = 2 * 200 * 16 * 4 * 5, 2 * 200 * 16 * 4
    pairs = 4 * (100 * 100 * 6 * 16 // 32)
    assert operations(inputs, num_hashes=4, hash_bits=5) == (6 * (codes + tables), 6 * (tables + pairs))
    assert operations(inputs, num_hashes=4, hash_bits=5, gradient_hashes=2)[1] == 6 * (tables + pairs // 2)
    assert operations(inputs, mechanism="none") == (0, 0)
    assert operations(inputs, mechanism="linear") == (6 * 2 * 200 * 256, 6 * 4 * 200 * 256)
    members = int(100 / 4 * 2 ** 0.5)
    assert operations(inputs, mechanism="lha", num_buckets=4) == (
        6 * 4 * 2 * members**2 * 32, 6 * 4 * 2 * members**2 * 80)
    packed = [each.detach()[:, 0].reshape(200, 1, 16).requires_grad_() for each in inputs]
    found = operations(packed, mechanism="softmax", offsets=[0, 100, 200])
    assert found == (exact[0] // 3, exact[1] // 3)
    with pytest.warns(UserWarning, match="no formula for the floating-point operations of performer"):
        assert operations(inputs, mechanism="performer") == (0, 0)


def test_linear_cost_is_seen():
    short, long = (operations(tensors(1, 2, rows, 64))[0] for rows in (1024, 4096))
    assert long == 4 * short
