"""hashattn.torch.attention with the arguments of scaled_dot_product_attention and flash-attention: results are those of
PyTorch's function where it has them, and of the same call written otherwise.

Planted and caught: the scale divided by sqrt(d) twice; keys repeated in turn (0 1 0 1) instead of one after another; a mask
of real numbers with the sign turned; the first rows given back instead of the last; one query of "random" or of
the gate of "rfa" alone. SPDX-License-Identifier: Apache-2.0
"""

import pytest

torch = pytest.importorskip("torch")

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from conftest import numbers  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention


def tensors(*shape, count=3, gradient=False):
    return [torch.from_numpy(numbers(*shape, seed=i)).requires_grad_(gradient) for i in range(count)]


def near(a, b, atol=1e-5):
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=atol)


def exact(*inputs, **given):
    return hashattn.torch.attention(*inputs, mechanism="softmax", **given)


@pytest.mark.parametrize("scale", [None, 0.05, 1.0, 0, -0.3])
@pytest.mark.parametrize("heads", [6, 3, 2, 1])
def test_scale_and_shared_heads(scale, heads):
    (q,), (k, v) = tensors(2, 6, 20, 8, count=1, gradient=True), tensors(2, heads, 20, 8, count=2, gradient=True)
    repeated = [each.repeat_interleave(6 // heads, 1) for each in (k, v)]
    found, expected = exact(q, k, v, scale=scale, enable_gqa=True), sdpa(q, *repeated, scale=scale)
    assert near(found, expected) and torch.equal(found, exact(q, k, v, scale=scale))
    weights = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad((out * weights).sum(), (q, k, v)) for out in (found, expected))):
        assert near(a, b, 1e-4)
    assert torch.equal(hashattn.torch.attention(q, k, v, seed=1), hashattn.torch.attention(q, *repeated, seed=1))
    rows = [each[0].transpose(0, 1) for each in (q, k, v)]
    packed = exact(*rows, offsets=[0, 12, 20], scale=scale)
    assert torch.equal(packed[12:].transpose(0, 1), exact(*(each[0, :, 12:] for each in (q, k, v)), scale=scale))


def test_masks_of_every_shape_and_kind():
    q, k, v = tensors(2, 3, 20, 8)
    both = torch.arange(20) < torch.tensor([[20], [13]])
    expected = sdpa(q, k, v, attn_mask=both[:, None, None, :])
    one = sdpa(q, k, v, attn_mask=both[1:])
    added = torch.zeros(2, 20).masked_fill(~both, -torch.inf)
    kinds = (both, both.to(torch.uint8), both.int(), both.long(), added, added.double(), added.clamp(min=-1e4).half(),
             added.clamp(min=torch.finfo(torch.float32).min))
    for mask in kinds:
        for given in (mask, mask[:, None, None, :], mask[:, None, :]):
            assert near(exact(q, k, v, key_mask=given), expected)
        for given in (mask[1], mask[1:], mask[1:, None, None, :]):
            assert near(exact(q, k, v, key_mask=given), one) and near(exact(q, k, v, given), one)
        assert near(exact(q[1], k[1], v[1], key_mask=mask[1:, None, None, :]), one[1])
        four = mask[:, None, None, :]
        for given in (four, four.expand(2, 3, 1, 20), four.expand(2, 1, 20, 20), four.expand(2, 3, 20, 20).clone()):
            assert near(exact(q, k, v, attn_mask=given), expected)
        assert near(exact(q, k, v, four, 0.0, False, key_mask=mask[1]), one)
    causal = exact(q, k, v, both[:, None, None, :], is_causal=True)
    assert near(causal, sdpa(q, k, v, attn_mask=both[:, None, None, :] & torch.ones(20, 20, dtype=torch.bool).tril()))
    assert near(exact(q[0, 0], k[0, 0], v[0, 0], both[1]), one[0, 0])


def test_masks_that_are_refused():
    q, k, v = tensors(2, 3, 20, 8)
    ones, zeros = torch.ones(20, 20, dtype=torch.bool), torch.zeros(2, 3, 20, 20)
    by_head, bias = zeros.clone(), torch.zeros(20)
    by_head[:, 1, :, 3] = -torch.inf
    bias[4] = -0.5
    for message, given in [
        (r"attn_mask of shape \(20, 20\) differs between queries; .*causal=True", {"attn_mask": ones.tril()}),
        ("differs between heads", {"attn_mask": by_head}),
        ("attn_mask has dtype torch.float32 and the value -0.5", {"attn_mask": bias}),
        ("key_mask has dtype torch.int64 and the value 2", {"key_mask": torch.full((20,), 2)}),
        (r"the value 1; .* key_mask.bool\(\)", {"key_mask": torch.ones(20)}),
        (r"attn_mask has shape \(19,\), which does not broadcast to \(2, 3, 20, 20\)", {"attn_mask": ones[0, :19]}),
        (r"key_mask has shape \(3, 20\)", {"key_mask": ones[:3]}),
        ("dropout_p is 0.1", {"dropout_p": 0.1}),
    ]:
        with pytest.raises(ValueError, match=message):
            exact(q, k, v, **given)


@pytest.mark.parametrize("gradient", [False, True])
def test_float16(gradient):
    q, k, v = (each.detach().half().requires_grad_(gradient) for each in tensors(2, 3, 20, 8))
    full = [each.detach().float().requires_grad_(gradient) for each in (q, k, v)]
    found, expected = (hashattn.torch.attention(*each, seed=1, num_hashes=4) for each in ((q, k, v), full))
    assert found.dtype == torch.float16 and torch.equal(found, expected.half())
    if gradient:
        for a, b in zip(*(torch.autograd.grad(out.float().sum(), given) for out, given in
                          ((found, (q, k, v)), (expected, full)))):
            assert a.dtype == torch.float16 and near(a.float(), b, 2e-2 * float(b.abs().max()))
    with torch.autocast("cpu", torch.float16):
        assert torch.equal(hashattn.torch.attention(*full, seed=1, num_hashes=4), found)


SMALL = {"local": {"block_size": 4}, "longformer": {"window": 4}, "sparse": {"block_size": 4}, "rfa": {"gate": True}}
COMPETING = {"lha", "lsh", "routing", "reformer", "probsparse"}


@pytest.mark.parametrize("queries", [0, 1, 2, 7])
@pytest.mark.parametrize("mechanism", list(hashattn.mechanisms()))
def test_the_last_queries_over_all_keys(mechanism, queries):
    """The last query sees the last key, as in flash-attention: rows are those of a call with all queries."""
    learns = mechanism not in ("lss", "hbe")
    q, k, v = tensors(2, 3, 20, 8, gradient=learns)
    mask = torch.ones(2, 20, dtype=torch.bool)
    mask[1, :4] = False
    given = dict(mechanism=mechanism, seed=1, key_mask=mask, max_len=20, causal=True,
                 **SMALL.get(mechanism, {}))
    try:
        expected = hashattn.torch.attention(q, k, v, **given)[:, :, 20 - queries:]
    except hashattn.RefusedError as error:
        assert "no causal form" in str(error)
        return
    last = q[:, :, 20 - queries:]
    if mechanism in COMPETING:
        with pytest.raises(hashattn.RefusedError, match=f"{mechanism}: causal attention of {queries} queries over 20"):
            hashattn.torch.attention(last, k, v, **given)
        return
    found = hashattn.torch.attention(last, k, v, **given)
    assert near(found, expected)
    for a, b in zip(*(torch.autograd.grad(out.square().sum(), (q, k, v), allow_unused=True) for out in
                      (found, expected) if learns)):
        assert (a is None and mechanism == "none") or near(a, b, 1e-4)


def test_causal_of_other_numbers_of_rows():
    q, k, v = tensors(2, 20, 8)
    for message, call in [
        ("of 20 queries over 6 keys: the first 14 queries", lambda: exact(q, k[:, :6], v[:, :6], causal=True)),
        ("is_causal=True with 6 queries over 20 keys: in PyTorch query 0 then sees key 0 only; causal=True",
         lambda: exact(q[:, :6], k, v, is_causal=True)),
        ("takes key_mask, and not lengths", lambda: exact(q[None, :, :6], k[None], v[None], causal=True, lengths=[9])),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    assert near(exact(q, k, v, is_causal=True), sdpa(q, k, v, is_causal=True))
    assert torch.equal(exact(q, k, v, causal=True), exact(q, k, v, is_causal=True))


def test_compiled():
    q, k, v = tensors(2, 4, 20, 8)
    mask = torch.arange(20) < torch.tensor([[20], [13]])

    def call(q, k, v, mask):
        return exact(q[:, :, -3:], k[:, :2], v[:, :2], attn_mask=mask[:, None, None, :], causal=True, scale=0.2)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v, mask), call(q, k, v, mask))
    added = torch.zeros(2, 20).masked_fill(~mask, -torch.inf)
    assert torch.equal(compiled(q, k, v, added), call(q, k, v, mask))
