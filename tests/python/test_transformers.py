"""hashattn.torch in models of the transformers library, with random weights: parity with the library's own attention,
padding, masks that are refused.

Planted and caught: padding ignored; keys of cross-attention cut as queries; a mask function that is not registered;
scores not scaled as the model asks; hash_bits of the configuration ignored; padding in the convolution of a YosoModel; a
mask of the wrong sign; a class or a name in place of a model. SPDX-License-Identifier: Apache-2.0
"""

import copy
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    AutoModel, BertConfig, BertForSequenceClassification, BertModel, BloomConfig, DistilBertConfig, RobertaConfig,
    ViTConfig, YosoConfig, YosoForMaskedLM, YosoModel)

import hashattn.torch  # noqa: E402
import hashattn.torch.transformers  # noqa: E402
from hashattn.torch import interface  # noqa: E402

BERT = dict(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
            max_position_embeddings=80, initializer_range=0.3)
TEXT = {
    "bert": BertConfig(**BERT),
    "roberta": RobertaConfig(**BERT),
    "distilbert": DistilBertConfig(vocab_size=90, dim=32, n_layers=2, n_heads=2, hidden_dim=48, initializer_range=0.3),
    "yoso": YosoConfig(**BERT, num_hash=16, hash_code_len=6),
    "yoso-c": YosoConfig(**BERT, num_hash=16, hash_code_len=6, conv_window=5),
}
OLD = int(transformers.__version__.split(".")[0]) < 5
EXACT = {name: "yoso-e" if name.startswith("yoso") else "softmax" for name in TEXT}


def made(config, **options):
    torch.manual_seed(0)
    return AutoModel.from_config(copy.deepcopy(config), **options).eval()


def tokens(batch=2, rows=40):
    return torch.randint(5, 90, (batch, rows), generator=torch.Generator().manual_seed(1))


def hidden(model, ids, mask=None):
    return model(input_ids=ids, attention_mask=mask).last_hidden_state


MASKS = {
    "right": torch.arange(40) < torch.tensor([[40], [25]]),
    "left": torch.arange(40) >= torch.tensor([[0], [15]]),
    "holes": torch.arange(40).remainder(7).ne(3).expand(2, 40),
    "none": torch.ones(2, 40, dtype=torch.bool),
}


@pytest.mark.parametrize("kind", TEXT)
def test_parity_with_the_own_attention(kind):
    model = made(TEXT[kind])
    ids = tokens()
    expected = hidden(model, ids)
    names = list(model.state_dict())
    replaced = hashattn.torch.replace_attention(copy.deepcopy(model), EXACT[kind])
    assert list(replaced.state_dict()) == names
    assert torch.allclose(hidden(replaced, ids), expected, rtol=0, atol=1e-4)
    for which, mask in MASKS.items():
        found = hidden(replaced, ids, mask.long())
        if kind.startswith("yoso"):  # the library ignores the padding of these; the sequences without it are the truth
            if which == "right":
                alone = hidden(replaced, ids[1:, :25])
                assert torch.allclose(found[1:, :25], alone, rtol=0, atol=1e-4)
            continue
        assert torch.allclose(found[mask], hidden(model, ids, mask.long())[mask], rtol=0, atol=1e-4), which


@pytest.mark.parametrize("kind", ["bert", "yoso-c"])
def test_gradients_are_those_of_the_own_attention(kind):
    model = made(TEXT[kind])
    replaced = hashattn.torch.replace_attention(copy.deepcopy(model), EXACT[kind])
    mask = None if kind == "yoso-c" else MASKS["right"].long()
    weights = torch.randn(2, 40, 32, generator=torch.Generator().manual_seed(2)) * MASKS["right"][..., None]
    for each in (model, replaced):
        (hidden(each, tokens(), mask) * weights).sum().backward()
    for (name, a), b in zip(model.named_parameters(), replaced.parameters()):
        if a.grad is not None and not name.endswith("key.bias"):  # that of softmax is 0 but for rounding
            assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-3 * float(a.grad.abs().max())), name


@pytest.mark.parametrize("kind", TEXT)
def test_padding_changes_nothing(kind):
    model = hashattn.torch.replace_attention(made(TEXT[kind]), "yoso", seed=7)
    ids = tokens()
    alone = hidden(model, ids[1:, :25])
    for dtype in (torch.int64, torch.float32, torch.bool):
        both = hidden(model, ids, MASKS["right"].to(dtype))
        assert torch.allclose(both[1:, :25], alone, rtol=0, atol=1e-5)
    other = ids.clone()
    other[1, 25:] = 3
    assert torch.equal(hidden(model, other, MASKS["right"].long())[1, :25], both[1, :25])


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("mechanism", ["yoso", "softmax"])
def test_attn_implementation_keeps_the_padding(kind, mechanism):
    hashattn.torch.transformers.register("fixed", mechanism, seed=3, **({"num_hashes": 8} if mechanism == "yoso" else {}))
    model = made(TEXT[kind], attn_implementation="fixed")
    ids = tokens()
    found = hidden(model, ids, MASKS["right"].long())
    assert torch.allclose(found[1:, :25], hidden(model, ids[1:, :25]), rtol=0, atol=1e-5)
    assert not torch.allclose(found[1, :25], hidden(model, ids)[1, :25], atol=1e-3)
    if mechanism == "softmax":
        assert torch.allclose(found[MASKS["right"]], hidden(made(TEXT[kind]), ids, MASKS["right"].long())[MASKS["right"]],
                              rtol=0, atol=1e-4)


def test_vit():
    model = made(ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
                           image_size=32, patch_size=8, initializer_range=0.3))
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    expected = model(pixels).last_hidden_state
    exact = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")
    assert torch.allclose(exact(pixels).last_hidden_state, expected, rtol=0, atol=1e-4)
    other = made(model.config, attn_implementation="hashattn-yoso")
    torch.manual_seed(5)
    one = other(pixels).last_hidden_state
    sampled = hashattn.torch.replace_attention(copy.deepcopy(model), "yoso")
    torch.manual_seed(5)
    assert torch.equal(sampled(pixels).last_hidden_state, one) and not torch.allclose(one, expected, atol=1e-2)


def test_options_of_a_yoso_model():
    model = hashattn.torch.replace_attention(made(TEXT["yoso"]), seed=2)
    options = {"num_hashes": 16, "hash_bits": 6}
    given = hashattn.torch.replace_attention(made(TEXT["yoso"]), seed=2, **options)
    fewer = hashattn.torch.replace_attention(made(TEXT["yoso"]), seed=2, num_hashes=4)
    found = hidden(model, tokens())
    assert torch.equal(found, hidden(given, tokens())) and not torch.equal(found, hidden(fewer, tokens()))
    assert torch.equal(hidden(hashattn.torch.replace_attention(fewer, seed=2), tokens()), found)  # replaced twice


def test_training_and_heads():
    torch.manual_seed(0)
    model = hashattn.torch.replace_attention(
        BertForSequenceClassification(copy.deepcopy(TEXT["bert"])), num_hashes=8)
    model.bert.encoder.gradient_checkpointing = False
    loss = model(input_ids=tokens(), attention_mask=MASKS["right"].long(), labels=torch.tensor([0, 1])).loss
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    masked = hashattn.torch.replace_attention(YosoForMaskedLM(copy.deepcopy(TEXT["yoso"])))
    masked(input_ids=tokens(), labels=tokens()).loss.backward()
    assert masked.yoso.encoder.layer[0].attention.self.query.weight.grad.any()


@pytest.mark.skipif(OLD, reason="BERT's layers are not compiled as a whole graph before transformers 5.0")
def test_compile():
    model = hashattn.torch.replace_attention(made(TEXT["bert"]), seed=1)
    mask = MASKS["left"].long()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.allclose(hidden(compiled, tokens(), mask), hidden(model, tokens(), mask), rtol=0, atol=1e-5)


@pytest.mark.skipif(OLD, reason="BERT takes no such mask before transformers 5.0")
def test_masks_with_four_dimensions():
    model = made(TEXT["bert"])
    replaced = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")
    mask = MASKS["holes"]
    four = mask[:, None, None, :].expand(2, 1, 40, 40)
    expected = hidden(model, tokens(), mask.long())
    added = torch.where(four, 0.0, torch.finfo(torch.float32).min)
    for given in (four, four[:, :, :1], added):
        assert torch.allclose(hidden(replaced, tokens(), given), expected, rtol=0, atol=1e-4)
    for causal in (torch.ones(40, 40, dtype=torch.bool).tril().expand(2, 1, 40, 40), four.tril()):
        assert torch.allclose(hidden(replaced, tokens(), causal)[mask], hidden(model, tokens(), causal)[mask],
                              rtol=0, atol=1e-4)
    for given, why in [(torch.ones(40, 40, dtype=torch.bool).triu().expand(2, 1, 40, 40), "differs between queries"),
                       (torch.full((2, 1, 40, 40), -0.5), "has the value -0.5"),
                       (four[..., :30], "is not .batch, 40. or")]:
        with pytest.raises(ValueError, match=f"masks of padding and causal masks only; .*{why}"):
            hidden(replaced, tokens(), given)
    with pytest.raises(ValueError, match="has the value 2"):
        hidden(hashattn.torch.replace_attention(made(TEXT["yoso"])), tokens(), torch.full((2, 40), 2))


def test_cross_attention_keeps_its_queries():
    config = copy.deepcopy(TEXT["bert"])
    config.is_decoder = config.add_cross_attention = True
    torch.manual_seed(0)
    model = BertModel(config).eval()
    replaced = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax")
    given = dict(input_ids=tokens(), encoder_hidden_states=torch.randn(2, 40, 32), use_cache=False,
                 encoder_attention_mask=MASKS["right"].long())
    assert torch.allclose(replaced(**given).last_hidden_state, model(**given).last_hidden_state, rtol=0, atol=1e-4)


def test_what_is_refused():
    with pytest.raises(ValueError, match="BloomModel has no attention .* by either route: .* BloomAttention"):
        hashattn.torch.replace_attention(made(BloomConfig(hidden_size=32, n_layer=1, n_head=2, vocab_size=90)))
    for function in (hashattn.torch.replace_attention, lambda given: hashattn.torch.extend_positions(given, 9),
                     hashattn.torch.transformers.layers):
        for given, kind in (("bert-base", "a str"), (BertModel, "the class BertModel")):
            with pytest.raises(hashattn.InvalidTypeError, match=f"^model is {kind}; a torch.nn.Module is needed$"):
                function(given)
    with pytest.raises(ValueError, match="it has Linear$"):
        hashattn.torch.replace_attention(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="yoso has no option 'x'"):
        hashattn.torch.transformers.register("x", "yoso", x=1)
    model = made(TEXT["bert"], attn_implementation="hashattn-yoso")
    layer = model.encoder.layer[0].attention.self
    q = torch.randn(1, 2, 8, 16)
    function = interface.AttentionInterface()["hashattn-yoso"]
    with pytest.raises(ValueError, match="Bert.*SelfAttention passes softcap"):
        function(layer, q, q, q, None, softcap=30.0)
    with pytest.raises(ValueError, match="causal attention of 8 queries, the first at key -4, over 4 keys"):
        function(layer, q, q[:, :, :4], q[:, :, :4], None, is_causal=True)


def test_shared_keys_and_scaling():
    function = interface.AttentionInterface()["hashattn-softmax"]
    q, k, v = (torch.randn(1, heads, 9, 16, generator=torch.Generator().manual_seed(heads)) for heads in (4, 2, 2))
    repeated = (each.repeat_interleave(2, 1) for each in (k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(q, *repeated, scale=0.1, is_causal=True)
    found, _ = function(torch.nn.Module(), q, k, v, None, scaling=0.1, is_causal=True)
    assert torch.allclose(found.transpose(1, 2), expected, rtol=0, atol=1e-5)


def test_importing_torch_functions_does_not_import_transformers():
    code = "import sys, hashattn.torch; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
