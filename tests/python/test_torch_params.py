"""hashattn.torch: gradients of learned tensors, and the modules that have them as parameters.

Planted and caught: no gradient of the learned tensors; the longest length not passed on, or not in backward; nothing
saved if only they need a gradient; the own loss not computed; learned tensors joined in the order of their names; what
they belong to left out of what is printed.
SPDX-License-Identifier: Apache-2.0
"""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from conftest import numbers  # noqa: E402

HEADS, N, D, MAX_LEN = 2, 9, 4, 12
# What learns from the output; options; causal.
LEARN = [("rfa", {"num_features": 48}, False), ("rfa", {"num_features": 48, "gate": True}, True),
         ("sinkhorn", {"block_size": 3}, False), ("linformer", {"rank": 3}, False), ("synthesizer", {}, False),
         ("synthesizer", {"kind": "random"}, True), ("local", {"block_size": 4, "relative": True}, False)]
BY_LOSS = [("lha", {"num_buckets": 3}), ("routing", {"num_clusters": 3})]


def inputs(*shape, count=3):
    return [torch.from_numpy(numbers(*shape, seed=i)).requires_grad_() for i in range(count)]


def learned(mechanism, options, seed=1):
    """The learned tensors by name, away from their start."""
    own = hashattn.torch.Learned(mechanism, HEADS, D, max_len=MAX_LEN, seed=seed, **options)
    with torch.no_grad():
        for i, name in enumerate(own):
            own[name] += 0.3 * torch.from_numpy(numbers(*own[name].shape, seed=i))
    return own


@pytest.mark.parametrize("mechanism, options, causal", LEARN)
def test_bits_are_those_of_numpy(mechanism, options, causal):
    q, k, v = inputs(3, HEADS, N, D)
    g = numbers(3, HEADS, N, D, seed=3)
    own = learned(mechanism, options)
    given = dict(causal=causal, lengths=[9, 0, 5], seed=3, max_len=MAX_LEN)
    out = hashattn.torch.attention(q, k, v, mechanism=mechanism, params=own.joined(), **given, **options)
    out.backward(torch.from_numpy(g))
    arrays = {name: tensor.detach().numpy() for name, tensor in own.items()}
    with hashattn.Attention(mechanism, **options) as attention:
        expected = attention.forward(*(t.detach().numpy() for t in (q, k, v)), params=arrays, **given)
        *gradients, dparams = attention.backward_params(g)
        again = attention.backward_params(g)  # what was saved is as before
    assert np.array_equal(out.detach().numpy(), expected)
    for tensor, gradient, other in zip((q, k, v), gradients, again):
        assert np.array_equal(tensor.grad.numpy(), gradient) and np.array_equal(gradient, other)
    assert set(dparams) == set(own.keys())
    for name, tensor in own.items():
        assert np.array_equal(tensor.grad.numpy(), dparams[name]) and dparams[name].any(), name
        assert np.array_equal(dparams[name], again[3][name])


@pytest.mark.parametrize("mechanism, options, causal", [each for each in LEARN if each[0] in ("linformer", "local")]
                         + [("rfa", {"num_features": 200}, False)])
def test_gradcheck(mechanism, options, causal):
    """In float32, the only type; so with larger steps and tolerances than usual. Those that bend (relu) are left out;
    test_param_gradients.c has them."""
    params = learned(mechanism, options).joined().detach().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *given: hashattn.torch.attention(*given[:3], mechanism=mechanism, params=given[3], causal=causal, seed=1,
                                                max_len=MAX_LEN, **options),
        (*inputs(HEADS, N, D), params), eps=1e-2, atol=4e-3, rtol=2e-2, nondet_tol=0.0)


@pytest.mark.parametrize("mechanism, options, causal", LEARN[1:4])
def test_opcheck(mechanism, options, causal):
    texts = [text for name, value in options.items() for text in (name, str(value).lower())]
    q, k, v = inputs(2, HEADS, N, D)
    params = learned(mechanism, options).joined().detach().requires_grad_()
    given = (q, k, v, None, None, None, params, MAX_LEN, False, torch.tensor(5), causal, mechanism, texts)
    torch.library.opcheck(torch.ops.hashattn.attention.default, (*given, True))
    out, saved = torch.ops.hashattn.attention.default(*given, True)
    plain = [each.detach() if isinstance(each, torch.Tensor) else each for each in given]
    torch.library.opcheck(torch.ops.hashattn.attention_backward.default,
                          (*plain, out.detach(), saved, torch.ones_like(out)))


def test_only_the_learned_tensors_need_a_gradient():
    q, k, v = (t.detach() for t in inputs(HEADS, N, D))
    params = learned("rfa", {}).joined().detach().requires_grad_()
    hashattn.torch.attention(q, k, v, mechanism="rfa", params=params, seed=1).sum().backward()
    assert params.grad.any()
    rounded = hashattn.torch.attention(*(t.bfloat16() for t in (q, k, v)), mechanism="rfa", params=params, seed=1)
    assert rounded.dtype == torch.bfloat16 and torch.autograd.grad(rounded.sum(), params)[0].dtype == torch.float32
    with pytest.raises(RuntimeError, match="no double backward"):
        out = hashattn.torch.attention(q, k, v, mechanism="rfa", params=params, seed=1)
        torch.autograd.grad(out.sum(), params, create_graph=True)[0].sum().backward()
    with pytest.raises(TypeError, match="params is a dict"):
        hashattn.torch.attention(q, k, v, mechanism="rfa", params={})


@pytest.mark.parametrize("mechanism, options", [("rfa", {}), ("sinkhorn", {"block_size": 8}), ("linformer", {"rank": 5}),
                                                *BY_LOSS])
def test_modules(mechanism, options):
    torch.manual_seed(2)
    layer = hashattn.torch.SelfAttention(12, 3, mechanism, max_len=50, **options)
    rows = torch.from_numpy(numbers(2, 40, 12))
    out = layer(rows, lengths=torch.tensor([40, 11]), seed=1)
    loss = out.square().sum()
    if mechanism in ("lha", "routing"):
        loss = loss + layer.own_loss
    else:
        assert layer.own_loss is None
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.own.parameters())
    with hashattn.Attention(mechanism, **options) as attention:
        drawn = attention.params(3, 4, max_len=50)
    assert all(np.array_equal(layer.own[name].detach().numpy(), drawn[name]) for name in drawn)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows, lengths=torch.tensor([40, 11]), seed=1), out)
    layer.own_loss = None
    layer.eval()
    other = hashattn.torch.SelfAttention(12, 3, mechanism, max_len=50, seed=7, **options).eval()
    assert not torch.equal(other(rows, seed=1), layer(rows, seed=1))
    other.load_state_dict(layer.state_dict())
    assert {f"own.{name}" for name in drawn} <= set(layer.state_dict())
    for same in (other, copy.deepcopy(layer)):
        assert torch.equal(same(rows, seed=1), layer(rows, seed=1)) and same.own_loss is None
    assert copy.deepcopy(layer).bfloat16()(rows.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("mechanism, options", [("rfa", {}), ("sinkhorn", {"block_size": 4})])
def test_a_layer_learns(mechanism, options):
    """Its own tensors alone, those of another layer with the same projections."""
    torch.manual_seed(1)
    layer = hashattn.torch.SelfAttention(8, 2, mechanism, max_len=16, **options)
    teacher = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in teacher.own.parameters():
            parameter += torch.randn_like(parameter)
    rows = 2 * torch.randn(4, 16, 8)
    target = teacher(rows, seed=1).detach()
    optimizer = torch.optim.Adam(layer.own.parameters(), 0.05)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (layer(rows, seed=1) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3, (losses[0], losses[-1])


def test_what_is_printed():
    own = hashattn.torch.Learned("rfa", HEADS, D, num_features=8)
    assert repr(own) == f"Learned(mechanism=rfa, num_features=8, sigma=({HEADS}, 1, {D}))"
    layer = hashattn.torch.SelfAttention(HEADS * D, HEADS, "yoso", num_hashes=4)
    assert "mechanism=yoso, heads=2, causal=False, max_len=0, num_hashes=4" in repr(layer)
