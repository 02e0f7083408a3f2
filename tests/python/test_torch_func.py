"""hashattn.torch under torch.func and checkpointing: derivatives are those of plain torch, or refused.

Planted and caught: tangents dropped, with and without a gradient; saved bytes of another sample; a sample without
rows first; the loss of the hashes computed without a gradient where reentrant checkpointing runs the forward; a seed drawn
in evaluation, and where none is used; none drawn for learned tensors; samples of an outer vmap written into one block; no
samples, and gradients missing in place of 0. SPDX-License-Identifier: Apache-2.0
"""

import copy

import pytest

torch = pytest.importorskip("torch")

import hashattn.torch  # noqa: E402
import torch.autograd.forward_ad as forward_ad  # noqa: E402
from conftest import numbers  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

Q, K, V = (torch.from_numpy(numbers(5, 2, 6, 8, seed=i)) for i in range(3))  # 5 samples
SLOPE = torch.from_numpy(numbers(2, 6, 8, seed=3))


def ours(q, k=K[0], v=V[0]):
    return hashattn.torch.attention(q, k, v, mechanism="softmax", seed=1)


def plain(q, k=K[0], v=V[0]):
    return torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v


def near(a, b):
    """Sums of at most 100 numbers near 1, rounded in another order."""
    return torch.allclose(a, b, rtol=0, atol=2e-5)


def test_reverse_derivatives():
    for argument in range(3):
        a, b = (torch.func.grad(lambda *given: f(*given).square().sum(), argument)(Q[0], K[0], V[0])
                for f in (ours, plain))
        assert near(a, b)
    assert near(torch.func.vjp(ours, Q[0])[1](SLOPE)[0], torch.func.vjp(plain, Q[0])[1](SLOPE)[0])
    assert near(torch.func.jacrev(ours)(Q[0]), torch.func.jacrev(plain)(Q[0]))


def test_vmap_is_one_call_for_each_sample():
    assert torch.equal(torch.vmap(ours)(Q, K, V), torch.stack([ours(*each) for each in zip(Q, K, V)]))
    assert torch.equal(torch.vmap(ours, in_dims=(1, None))(Q.transpose(0, 1), K[0]),
                       torch.stack([ours(each) for each in Q]))
    mask = torch.arange(6) < torch.arange(2, 7)[:, None]

    def masked(q, key_mask):
        return hashattn.torch.attention(q, K[0], V[0], key_mask=key_mask, seed=1)

    assert torch.equal(torch.vmap(masked)(Q, mask), torch.stack([masked(*each) for each in zip(Q, mask)]))


def test_gradients_for_each_sample():
    def loss(q, k, v, f):
        return f(q, k, v).square().sum()

    found, expected = (torch.vmap(torch.func.grad(lambda q, k, v: loss(q, k, v, f), (0, 1, 2)))(Q, K, V)
                       for f in (ours, plain))
    assert all(near(a, b) for a, b in zip(found, expected))

    def cut(q, rows):  # what forward saves differs in size
        out = hashattn.torch.attention(q[None], K[:1], V[:1], lengths=rows[None], mechanism="softmax", seed=1)
        return out.square().sum()

    rows = torch.tensor([0, 3, 6, 1, 5])
    per_sample = torch.vmap(torch.func.grad(cut), (0, 0))(Q, rows)
    for q, count, gradient in zip(Q, rows, per_sample):
        assert torch.equal(gradient, torch.func.grad(cut)(q, count))


@pytest.mark.parametrize("mechanism, options", [("yoso", {"num_hashes": 8}), ("rfa", {}), ("lha", {"num_buckets": 3})])
def test_a_layer_for_each_sample(mechanism, options):
    layer = hashattn.torch.SelfAttention(8, 2, mechanism, **options)
    rows = torch.from_numpy(numbers(4, 12, 8))

    def loss(params, sample):
        out = torch.func.functional_call(layer, params, (sample,), {"seed": 1}).square().sum()
        return out if layer.own_loss is None else out + layer.own_loss

    params = {name: each.detach() for name, each in layer.named_parameters()}
    found = torch.vmap(torch.func.grad(loss), (None, 0))(params, rows)
    for index, sample in enumerate(rows):
        for name, expected in torch.func.grad(loss)(params, sample).items():
            assert near(found[name][index], expected), name
            assert expected.any() or name == "key.bias", name
        layer.zero_grad()
        loss(dict(layer.named_parameters()), sample).backward()
        assert all(near(found[name][index], each.grad) for name, each in layer.named_parameters())


@pytest.mark.parametrize("mechanism", ["softmax", "yoso", "lha"])
def test_vmap_inside_vmap(mechanism):
    def attend(q, k, v):
        return hashattn.torch.attention(q, k, v, mechanism=mechanism, seed=1)

    def each(function):
        return [[function(*rows) for rows in zip(*samples)] for samples in zip(Q, K, V)]

    twice = torch.vmap(torch.vmap(attend))
    assert torch.equal(twice(Q, K, V), torch.stack([torch.stack(row) for row in each(attend)]))
    assert torch.equal(torch.vmap(torch.vmap(attend, (0, None, None)), (None, 0, 0))(Q[0], K[:, 0], V[:, 0])[3][1],
                       attend(Q[0][1], K[3][0], V[3][0]))
    gradient = torch.func.grad(lambda *rows: attend(*rows).square().sum(), (0, 1, 2))
    expected = each(gradient)
    leaves = [rows.clone().requires_grad_() for rows in (Q, K, V)]
    for found in (torch.vmap(torch.vmap(gradient))(Q, K, V), torch.autograd.grad(twice(*leaves).square().sum(), leaves),
                  torch.func.grad(lambda *rows: twice(*rows).square().sum(), (0, 1, 2))(Q, K, V)):
        for place in range(3):
            assert torch.equal(found[place], torch.stack([torch.stack([one[place] for one in row]) for row in expected]))

    def cut(q, count):  # what forward saves differs in size, in both
        return hashattn.torch.attention(q[None], K[:1], V[:1], lengths=count[None], mechanism=mechanism, seed=1).square().sum()

    counts = torch.tensor([[0, 3], [6, 1], [5, 6]])
    rows = torch.stack([Q[:2], Q[1:3], Q[2:4]])
    found = torch.vmap(torch.vmap(torch.func.grad(cut)))(rows, counts)
    for i, j in ((0, 0), (0, 1), (1, 0), (2, 1)):
        assert torch.equal(found[i, j], torch.func.grad(cut)(rows[i, j], counts[i, j]))


@pytest.mark.parametrize("mechanism", ["softmax", "yoso", "lha"])
def test_vmap_over_no_samples(mechanism):
    def attend(q, k, v):
        return hashattn.torch.attention(q, k, v, mechanism=mechanism, seed=1)

    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found = torch.vmap(attend)(*(rows[:0].to(dtype) for rows in (Q, K, V)))
        assert found.shape == Q[:0].shape and found.dtype == dtype
    shared = (0, None, None)
    assert torch.vmap(attend, shared)(Q[:0], K[0], V[0][..., :5]).shape == (0, 2, 6, 5)
    assert torch.vmap(attend, (1, None, None))(Q.transpose(0, 1)[:, :0], K[0], V[0]).shape == Q[:0].shape
    assert torch.vmap(torch.vmap(attend))(Q[:, :0], K[:, :0], V[:, :0]).shape == Q[:, :0].shape
    assert torch.vmap(torch.vmap(attend))(Q[:0], K[:0], V[:0]).shape == Q[:0].shape
    for found in torch.vmap(torch.func.grad(lambda *rows: attend(*rows).sum(), (0, 1, 2)))(Q[:0], K[:0], V[:0]):
        assert found.shape == Q[:0].shape
    leaves = [rows.clone().requires_grad_() for rows in (Q[:0], K[0], V[0])]
    for found, given in zip(torch.autograd.grad(torch.vmap(attend, shared)(*leaves).sum(), leaves), leaves):
        assert found.shape == given.shape and not found.any()
    layer = hashattn.torch.LHAAttention(8, 2, num_buckets=3)

    def loss(params, sample):
        return torch.func.functional_call(layer, params, (sample,)).square().sum() + layer.own_loss

    params = {name: each.detach() for name, each in layer.named_parameters()}
    found = torch.vmap(torch.func.grad(loss), (None, 0), randomness="same")(params, torch.zeros(0, 12, 8))
    assert {name: each.shape[1:] for name, each in found.items()} == {name: each.shape for name, each in params.items()}


@pytest.mark.parametrize("mechanism", [name for name, each in hashattn.mechanisms().items() if each.exact])
def test_no_seed_is_drawn_where_none_is_used(mechanism):
    params = hashattn.torch.Learned(mechanism, 2, 8, max_len=6).joined()

    def attend(q, k, v, **seed):
        return hashattn.torch.attention(q, k, v, mechanism=mechanism, params=params, max_len=6, **seed)

    state, expected = torch.get_rng_state(), attend(Q, K, V, seed=1)
    for seed in ({"seed": 2}, {}):
        assert torch.equal(attend(Q, K, V, **seed), expected)
    for q, k, v, gradient in zip(Q, K, V, torch.vmap(torch.func.grad(lambda *rows: attend(*rows).sum()))(Q, K, V)):
        assert near(gradient, torch.func.grad(lambda q: attend(q, k, v).sum())(q))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("mechanism", ["yoso", "linformer"])
def test_a_seed_is_drawn_for_hashes_and_learned_tensors(mechanism):
    a, b = (hashattn.torch.attention(Q, K, V, mechanism=mechanism) for _ in range(2))
    assert not torch.equal(a, b)


def test_forward_derivatives_are_refused():
    refused = pytest.raises(NotImplementedError, match="no forward-mode derivatives")
    for call in (lambda: torch.func.jvp(ours, (Q[0],), (SLOPE,)), lambda: torch.func.jacfwd(ours)(Q[0]),
                 lambda: torch.func.hessian(lambda q: ours(q).sum())(Q[0])):
        with refused:
            call()
    for place in range(3):
        for gradient in (False, True):
            with forward_ad.dual_level():
                given = [Q[0], K[0], V[0]]
                given[place] = forward_ad.make_dual(given[place].clone().requires_grad_(gradient), SLOPE)
                with refused:
                    ours(*given)
                if not gradient:
                    with torch.no_grad(), refused:
                        ours(*given)
                assert ours(Q[0]).shape == Q[0].shape  # without a tangent
    with pytest.raises(RuntimeError, match="no double backward"):
        torch.func.grad(lambda q: torch.func.grad(lambda p: ours(p).square().sum())(q).square().sum())(Q[0])


@pytest.mark.parametrize("mechanism, options", [("lha", {"num_buckets": 4}), ("routing", {"num_clusters": 3}),
                                                ("rfa", {})])
def test_checkpointing_changes_no_gradient(mechanism, options):
    layer = hashattn.torch.SelfAttention(16, 2, mechanism, **options)
    rows = torch.from_numpy(numbers(2, 40, 16)).requires_grad_()

    def gradients(call):
        layer.zero_grad()
        rows.grad = None
        loss = call().square().sum()
        if layer.own_loss is not None:
            loss = loss + 0.3 * layer.own_loss
        loss.backward()
        return [each.grad.clone() for each in (rows, *layer.parameters())]

    expected = gradients(lambda: layer(rows, seed=1))
    for reentrant in (True, False):
        found = gradients(lambda: checkpoint(lambda given: layer(given, seed=1), rows, use_reentrant=reentrant))
        assert all(torch.equal(a, b) for a, b in zip(found, expected))
    if mechanism != "rfa":
        with torch.no_grad():
            assert not layer(rows, seed=1).requires_grad and layer.own_loss.requires_grad


def test_the_seed_of_a_layer():
    """Drawn in training, fixed in evaluation, unless given."""
    rows = torch.from_numpy(numbers(40, 16))
    for layer in (hashattn.torch.YosoAttention(16, 2, num_hashes=4), copy.deepcopy(
            hashattn.torch.SelfAttention(16, 2, "performer", num_features=8))):
        assert not torch.equal(layer(rows), layer(rows))
        layer.eval()
        assert torch.equal(layer(rows), layer(rows)) and torch.equal(layer(rows), layer(rows, seed=0))
        assert not torch.equal(layer(rows, seed=1), layer(rows))
