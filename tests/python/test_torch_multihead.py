"""hashattn.torch.MultiheadAttention in the place of torch.nn.MultiheadAttention: the same state dict, arguments, shapes and,
with softmax, results and gradients; in PyTorch's transformer layers, training and evaluation.

Planted and caught: masks whose True takes part; a layer in which PyTorch's fast path computes softmax; padding of equally
long cross attention taken from the queries; biases of keys and values swapped; the added key masked; own_loss kept in a copy;
the nested tensors of PyTorch's encoder not taken, or their padding attended to; the width of a head inferred from an empty
batch; a mask of no queries indexed; a causal mask refused in a compiled call. SPDX-License-Identifier: Apache-2.0
"""

import copy
import io

import pytest

torch = pytest.importorskip("torch")

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from torch import nn  # noqa: E402

FORMS = [{}, {"batch_first": True}, {"bias": False}, {"kdim": 10, "vdim": 12}, {"kdim": 10, "vdim": 12, "batch_first": True},
         {"add_bias_kv": True}, {"add_zero_attn": True, "batch_first": True}]


def pair(*sizes, mechanism="softmax", **form):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(*sizes, **form)
    ours = hashattn.torch.MultiheadAttention(*sizes, mechanism=mechanism, **form)
    with torch.no_grad():
        for each in theirs.parameters():
            each += 0.1 * torch.randn_like(each)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def rows(batch, count, width, batch_first=True, seed=0):
    made = torch.randn(batch, count, width, generator=torch.Generator().manual_seed(seed))
    return (made if batch_first else made.transpose(0, 1)).requires_grad_()


def near(a, b, atol=1e-5):
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keys", [12, 9])
def test_results_and_gradients(form, keys):
    theirs, ours = pair(24, 3, **form)
    assert list(theirs.state_dict()) == list(ours.state_dict()) and isinstance(ours, nn.MultiheadAttention)
    first = form.get("batch_first", False)
    padding = torch.arange(keys) >= torch.tensor([[keys], [keys - 4]])
    holes = padding.flip(1).roll(1, 1)
    inputs = [rows(2, n, form.get(name, 24), first, seed)
              for seed, (n, name) in enumerate(((12, ""), (keys, "kdim"), (keys, "vdim")))]
    for mask in (None, padding, holes, torch.zeros(2, keys).masked_fill(padding, -torch.inf)):
        results = []
        for each in (theirs, ours):
            out, weights = each(*inputs, key_padding_mask=mask)
            assert (weights is None) == (each is ours)
            gradients = torch.autograd.grad(out.square().sum(), [*inputs, *each.parameters()])
            results.append([out, *gradients])
        assert all(near(a, b, 1e-4) for a, b in zip(*results))
    one = [each[0] if first else each[:, 0] for each in inputs]  # without a batch
    assert near(theirs(*one)[0], ours(*one)[0])


@pytest.mark.parametrize("batch_first", [False, True])
def test_masks_of_scores(batch_first):
    theirs, ours = pair(24, 3, batch_first=batch_first)
    x = rows(2, 12, 24, batch_first)
    causal = nn.Transformer.generate_square_subsequent_mask(12)
    padding = torch.arange(12) >= torch.tensor([[12], [8]])
    same = padding[1].expand(12, 12)
    for mask in (causal, causal < 0, causal.expand(6, 12, 12), same, same.expand(6, 12, 12)):
        for more in ({}, {"key_padding_mask": padding if mask.dtype == torch.bool else causal[0].new_zeros(2, 12)}):
            assert near(theirs(x, x, x, attn_mask=mask, **more)[0], ours(x, x, x, attn_mask=mask, **more)[0])
    expected = theirs(x, x, x, attn_mask=causal, is_causal=True)[0]
    assert near(ours(x, x, x, attn_mask=causal, is_causal=True)[0], expected)
    assert near(ours(x, x, x, is_causal=True)[0], expected)
    for message, mask in [("differs between queries in another way", torch.ones(12, 12).triu(2).bool().flip(0)),
                          ("the value 0.5", torch.full((12, 12), 0.5)),
                          ("is not .batch, 12. or", torch.zeros(12, 11).bool())]:
        with pytest.raises(ValueError, match=message):
            ours(x, x, x, attn_mask=mask)
    with pytest.raises(ValueError, match="lets query 0 see keys 0 .. 0; hashattn lets the last of 5 queries"):
        ours(x[:, :5], x, x, attn_mask=causal[:5]) if batch_first else ours(x[:5], x, x, attn_mask=causal[:5])
    with pytest.raises(ValueError, match="add_bias_kv and add_zero_attn add keys"):
        pair(24, 3, add_zero_attn=True)[1](x, x, x, is_causal=True)


@pytest.mark.parametrize("mechanism", list(hashattn.mechanisms()))
def test_every_mechanism(mechanism):
    """Outputs are those of `attention`, and every parameter learns."""
    torch.manual_seed(0)
    learns = mechanism not in ("lss", "hbe")
    options = {"block_size": 16} if mechanism == "sinkhorn" else {}
    layer = hashattn.torch.MultiheadAttention(24, 3, mechanism=mechanism, batch_first=True, max_len=64, **options)
    x = rows(2, 64, 24)
    padding = torch.arange(64) >= torch.tensor([[64], [40]])
    with torch.set_grad_enabled(learns):
        out, none = layer.train(learns)(x, x, x, key_padding_mask=padding, seed=3)
        q, k, v = layer._projected(x, x, x)
        expected = hashattn.torch.attention(q, k, v, mechanism=mechanism, seed=3, key_mask=~padding, max_len=64,
                                            params=layer.own.joined(), **options)
    assert none is None and torch.equal(out, layer.out_proj(expected.transpose(1, 2).flatten(2)))
    assert (layer.own_loss is not None) == hashattn.mechanisms()[mechanism].has_own_loss
    if learns:
        (out.square().sum() + (0 if layer.own_loss is None else layer.own_loss)).backward()
        assert all(each.grad is not None and (name == "in_proj_weight" or each.grad.any() or mechanism == "none")
                   for name, each in layer.named_parameters())
    other = copy.deepcopy(layer)
    assert other.own_loss is None and list(other.state_dict()) == list(layer.state_dict())
    with torch.no_grad():
        assert torch.equal(layer.eval()(x, x, x)[0], other.eval()(x, x, x)[0])


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("mechanism", ["softmax", "lsh", "smyrf", "nystrom", "yoso"])
def test_padding_of_equally_long_cross_attention(mechanism, left):
    """It is left out of the keys only."""
    options = {"num_landmarks": 8} if mechanism == "nystrom" else {}
    torch.manual_seed(0)
    layer = hashattn.torch.MultiheadAttention(24, 3, mechanism=mechanism, batch_first=True, **options).eval()
    queries, others = rows(2, 40, 24), rows(2, 40, 24, seed=1)
    mask = torch.arange(40) >= torch.tensor([[40], [24]])
    real = slice(16, 40) if left else slice(0, 24)
    mask = mask.flip(1) if left else mask
    with torch.no_grad():
        found = layer(queries, others, others, key_padding_mask=mask)[0][1]
        alone = layer(queries[1:], others[1:, real], others[1:, real])[0][0]
    assert near(found, alone, 1e-4)


@pytest.mark.parametrize("training", [False, True])
def test_in_the_layers_of_pytorch(training):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 2, 32, dropout=0.0, batch_first=True).train(training)
    x, padding = rows(2, 12, 24), torch.arange(12) >= torch.tensor([[12], [8]])
    with torch.no_grad():
        expected = layer(x, src_key_padding_mask=padding)
    theirs = layer.self_attn
    layer.self_attn = hashattn.torch.MultiheadAttention(24, 2, mechanism="softmax", batch_first=True).train(training)
    layer.self_attn.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        assert near(layer(x, src_key_padding_mask=padding)[~padding], expected[~padding])
        layer.self_attn.own.mechanism = "none"  # what the fast path would not see
        assert not near(layer(x, src_key_padding_mask=padding)[~padding], expected[~padding], 1e-2)
        layer.self_attn.own.mechanism = "softmax"
        stack = nn.TransformerEncoder(layer, 2).train(training)
        assert near(stack(x, src_key_padding_mask=padding)[~padding], layer(layer(x, src_key_padding_mask=padding),
                                                                            src_key_padding_mask=padding)[~padding])
    decoder = nn.TransformerDecoderLayer(24, 2, 32, dropout=0.0, batch_first=True).train(training)
    memory, causal = rows(2, 9, 24, seed=2), nn.Transformer.generate_square_subsequent_mask(12)
    expected = decoder(x, memory, tgt_mask=causal)
    for name in ("self_attn", "multihead_attn"):
        ours = hashattn.torch.MultiheadAttention(24, 2, mechanism="softmax", batch_first=True)
        ours.load_state_dict(getattr(decoder, name).state_dict())
        setattr(decoder, name, ours)
    assert near(decoder(x, memory, tgt_mask=causal), expected)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mechanism", ["softmax", "yoso", "lha"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor is True")
def test_in_an_encoder_that_passes_nested_tensors(mechanism, norm_first):
    """It does so in evaluation, if it was made with PyTorch's own attention."""
    options = {"num_buckets": 4} if mechanism == "lha" else {}
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first), 2)
    encoder.use_nested_tensor = True
    x, padding = rows(3, 12, 24).detach(), torch.arange(12) >= torch.tensor([[9], [12], [3]])
    encoder.eval()
    with torch.no_grad():
        theirs = encoder(x, src_key_padding_mask=padding)
    for layer in encoder.layers:
        ours = hashattn.torch.MultiheadAttention(24, 2, mechanism=mechanism, batch_first=True, **options)
        ours.load_state_dict(layer.self_attn.state_dict(), strict=False)
        layer.self_attn = ours
    encoder.eval()
    nested = []
    handle = ours.register_forward_hook(lambda module, inputs, result: nested.append(result[0].is_nested))
    with torch.no_grad():
        found = encoder(x, src_key_padding_mask=padding)
        encoder.use_nested_tensor = False
        expected = encoder(x, src_key_padding_mask=padding)
    handle.remove()
    assert nested == [True, False] and found.shape == x.shape and near(found[~padding], expected[~padding])
    assert near(found[~padding], theirs[~padding]) == (mechanism == "softmax")


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(layout):
    layer = pair(24, 3, batch_first=True)[1]
    sequences = [rows(1, count, 24, seed=count)[0] for count in (5, 0, 7, 2)]
    for causal in (False, True):
        given = torch.nested.as_nested_tensor(sequences, layout=layout)
        out, none = layer(given, given, given, is_causal=causal)
        assert none is None and out.is_nested and out.layout == layout
        expected = [layer(each, each, each, is_causal=causal)[0] for each in sequences]
        assert all(near(a, b) for a, b in zip(out.unbind(), expected, strict=True))
        for a, b in zip(torch.autograd.grad(sum(each.square().sum() for each in out.unbind()), sequences),
                        torch.autograd.grad(sum(each.square().sum() for each in expected), sequences)):
            assert near(a, b, 1e-4)
    other, dense = torch.nested.as_nested_tensor(sequences, layout=layout), rows(4, 7, 24)
    last = pair(24, 3)[1]
    for call in (lambda: layer(given, other, other), lambda: layer(dense, given, given), lambda: last(given, given, given),
                 lambda: layer(given, given, given, attn_mask=torch.zeros(7, 7)),
                 lambda: layer(given, given, given, key_padding_mask=torch.zeros(4, 7, dtype=torch.bool))):
        with pytest.raises(ValueError, match="its use_nested_tensor = False makes it pass none"):
            call()


@pytest.mark.parametrize("mechanism", ["softmax", "yoso", "lha", "rfa"])
@pytest.mark.parametrize("batch, queries, keys", [(0, 5, 5), (2, 0, 0), (0, 0, 0), (0, 5, 3), (2, 0, 3), (2, 3, 0)])
def test_empty(mechanism, batch, queries, keys):
    """An empty batch, as the last one of a loader, and no rows: shapes and gradients as of torch.nn.MultiheadAttention."""
    options = {"num_buckets": 4} if mechanism == "lha" else {}
    layer = hashattn.torch.MultiheadAttention(24, 3, mechanism=mechanism, batch_first=True, **options)
    causal = torch.ones(queries, keys).triu(1).bool()
    masks = [{}, {"key_padding_mask": torch.zeros(batch, keys, dtype=torch.bool)}, {"attn_mask": torch.zeros(queries, keys)},
             {"attn_mask": torch.zeros(batch * 3, queries, keys)}]
    if queries == keys:
        masks += [{"attn_mask": causal}, {"attn_mask": causal, "is_causal": True}]
    for training in (True, False):
        layer.train(training)
        for given in masks:
            x = rows(batch, queries, 24)
            others = x if queries == keys else rows(batch, keys, 24)
            out = layer(x, others, others, **given)[0]
            out.sum().backward()
            assert out.shape == x.shape == x.grad.shape
            layer.zero_grad()
    if queries == keys:
        layers = [hashattn.torch.SelfAttention(24, 3, mechanism, **options)]
        layers += [hashattn.torch.YosoAttention(24, 3)] if mechanism == "yoso" else []
        layers += [hashattn.torch.LHAAttention(24, 3, **options)] if mechanism == "lha" else []
        for each in layers:
            for shape in ((batch, queries, 24), (0, 24)):
                x = torch.zeros(shape, requires_grad=True)
                out = each(x)
                (out.sum() + (0 if each.own_loss is None else each.own_loss)).backward()
                assert out.shape == shape == x.grad.shape


def test_types_and_places():
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        layer = hashattn.torch.MultiheadAttention(24, 2, mechanism="lha", num_buckets=4, dtype=dtype).eval()
        x = rows(2, 40, 24).detach().to(dtype)
        assert layer(x, x, x)[0].dtype == dtype
    empty = hashattn.torch.MultiheadAttention(24, 2, mechanism="lha", num_buckets=4, device="meta")
    assert {each.device.type for each in empty.parameters()} == {"meta"}
    with torch.device("meta"):
        other = hashattn.torch.LHAAttention(24, 2, num_buckets=4)
    assert {each.device.type for each in other.parameters()} == {"meta"}
    full = hashattn.torch.MultiheadAttention(24, 2, mechanism="lha", num_buckets=4)
    empty.to_empty(device="cpu").load_state_dict(full.state_dict())
    empty.own.reset_parameters()
    x = rows(2, 40, 24)
    assert torch.equal(full.eval()(x, x, x)[0], empty.eval()(x, x, x)[0])
    with pytest.warns(UserWarning, match="dropout=0.1 has no effect"):
        hashattn.torch.MultiheadAttention(24, 2, 0.1)
    with pytest.raises(ValueError, match="embed_dim is 24, which 5 heads do not divide"):
        hashattn.torch.MultiheadAttention(24, 5)
    with pytest.raises(ValueError, match="yoso has no option 'x'"):
        hashattn.torch.MultiheadAttention(24, 2, x=1)


def test_copies_and_other_types_of_lha():
    """After a step in training, when own_loss is part of a graph."""
    layer = hashattn.torch.LHAAttention(24, 2, num_buckets=4)
    x = rows(2, 40, 24)
    (layer(x).sum() + layer.own_loss).backward()
    memory = io.BytesIO()
    torch.save(layer, memory)
    memory.seek(0)
    for other in (copy.deepcopy(layer), torch.load(memory, weights_only=False)):
        assert other.own_loss is None and torch.equal(other.eval()(x), layer.eval()(x))
        layer.train()
    half = copy.deepcopy(layer).bfloat16().train()
    out = half(x.detach().bfloat16())
    (out.float().sum() + half.own_loss).backward()
    assert out.dtype == torch.bfloat16 and all(each.grad.any() for each in half.own.values())


def test_compiled():
    layer = hashattn.torch.MultiheadAttention(24, 2, batch_first=True, num_hashes=4).eval()
    x = rows(2, 12, 24).detach()
    mask = torch.arange(12) >= torch.tensor([[12], [8]])
    with torch.no_grad():
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x, x, x, key_padding_mask=mask)[0], layer(x, x, x, key_padding_mask=mask)[0])


@pytest.mark.filterwarnings("error:Dynamo detected")
def test_masks_of_scores_compiled():
    """Their values are read between two graphs; is_causal needs one."""
    layer = pair(24, 3, batch_first=True)[1]
    x, causal = rows(2, 12, 24), torch.ones(12, 12).triu(1).bool()
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    for mask in (causal, causal.float().masked_fill(causal, -torch.inf), causal[5:6].expand(12, 12), causal.expand(6, 12, 12)):
        for a, b in zip(*(torch.autograd.grad(each(x, x, x, attn_mask=mask)[0].square().sum(), [x, *layer.parameters()])
                          for each in (compiled, layer))):
            assert near(a, b, 1e-4)
    with pytest.raises(ValueError, match="differs between queries in another way"):
        compiled(x, x, x, attn_mask=causal.flip(0))
    torch._dynamo.reset()
    whole = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert near(whole(x, x, x, attn_mask=causal, is_causal=True)[0], layer(x, x, x, attn_mask=causal)[0])
    one = torch.arange(12)[None] > 4  # of one query: padding, which is not read
    assert near(whole(x[:, :1], x, x, attn_mask=one)[0], layer(x[:, :1], x, x, attn_mask=one)[0])
    with pytest.raises(ValueError, match="attn_mask of shape .12, 12. has no values yet .*; is_causal=True says that it is"):
        torch.vmap(lambda each: layer(each, each, each, attn_mask=causal)[0])(torch.zeros(3, 2, 12, 24))
