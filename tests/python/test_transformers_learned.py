"""Mechanisms that learn inside models of the transformers library: parameters, the loss of the model, saving and loading; and
replace_attention with a filter.

Planted and caught: own losses not added; a loss that stays from one step to the next; what was learned drawn again by a
second replacement, or not drawn where a checkpoint lacks it; the filter turned; a filter forgotten by loading; own losses
without a gradient under reentrant checkpointing. SPDX-License-Identifier: Apache-2.0
"""

import copy
import io

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn.torch  # noqa: E402
import hashattn.torch.transformers as interface  # noqa: E402
from conftest import skip_without_layers  # noqa: E402
from hashattn.torch import Learned  # noqa: E402

SIZES = dict(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
             max_position_embeddings=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
OPTIONS = {"lha": {"num_buckets": 4}, "routing": {}, "rfa": {}, "linformer": {}, "sinkhorn": {"block_size": 16}}


def made(kind="Bert", suffix="ForSequenceClassification", **more):
    torch.manual_seed(0)
    configuration = getattr(transformers, kind + "Config")(**SIZES, **more)
    return getattr(transformers, kind + suffix)(configuration)


def tokens(rows=64, seed=1):
    return torch.randint(5, 90, (2, rows), generator=torch.Generator().manual_seed(seed))


LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize("mechanism", OPTIONS)
def test_what_is_learned_is_in_the_model(mechanism):
    model = made()
    names = set(model.state_dict())
    hashattn.torch.replace_attention(model, mechanism, **OPTIONS[mechanism])
    new = set(model.state_dict()) - names
    with hashattn.Attention(mechanism, **OPTIONS[mechanism]) as attention:
        assert new == {f"bert.encoder.layer.{layer}.attention.self.own.{name}" for layer in (0, 1)
                       for name in attention.tensors(16, max_len=128)}
    model.train()(tokens(), labels=LABELS).loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for name, parameter in model.named_parameters()
               if name in new)
    hashattn.torch.replace_attention(model, "yoso")
    assert set(model.state_dict()) == names


@pytest.mark.parametrize("form", ["output", "tuple"])
@pytest.mark.parametrize("mechanism", ["lha", "routing"])
def test_the_loss_of_the_model(mechanism, form):
    options = {**OPTIONS[mechanism], **({"hash_loss": 0.25} if mechanism == "lha" else {})}
    model = hashattn.torch.replace_attention(made(), mechanism, seed=1, **options).train()
    plain = copy.deepcopy(model)
    plain._forward_hooks.clear()
    share = options.get("hash_loss", 0.05)
    for step in range(2):  # the second has no rest of the first
        task = plain(tokens(seed=step), labels=LABELS).loss
        own = interface.own_loss(plain)
        out = model(tokens(seed=step), labels=LABELS, return_dict=form == "output")
        loss = out[0]
        assert torch.allclose(loss, (1 - share) * task + share * own) and own > 0 and interface.own_loss(model) is None
    parts = [each.own.loss for each in (layer.attention.self for layer in plain.bert.encoder.layer)]
    assert torch.allclose(own, sum(parts) / 2)
    model.eval()
    assert torch.equal(model(tokens(), labels=LABELS).loss, plain.eval()(tokens(), labels=LABELS).loss)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("mechanism", ["lha", "routing"])
def test_gradient_checkpointing_changes_no_gradient(mechanism, reentrant):
    model = hashattn.torch.replace_attention(made(), mechanism, seed=1, **OPTIONS[mechanism]).train()
    saving = copy.deepcopy(model)
    saving.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    for each in (model, saving):
        each(tokens(), labels=LABELS).loss.backward()
    for (name, one), other in zip(model.named_parameters(), saving.parameters()):
        assert torch.equal(one.grad, other.grad) and (".own." not in name or one.grad.any()), name


def test_own_loss_is_the_mean_over_heads_and_sequences():
    model = hashattn.torch.replace_attention(made(suffix="Model"), "lha", seed=1, num_buckets=4).train()
    found = []
    hook = model.encoder.layer[0].attention.self.register_forward_hook(
        lambda layer, given, out: found.append(given[0].detach()))
    model(tokens())
    layer = model.encoder.layer[0].attention.self
    q, k, v = (each(found[0]).unflatten(-1, (2, 16)).transpose(1, 2) for each in (layer.query, layer.key, layer.value))
    expected = hashattn.torch.attention_and_loss(q, k, v, layer.own.joined(), seed=1, max_len=128, num_buckets=4)[1]
    assert torch.allclose(layer.own.loss, expected / 4)
    hook.remove()
    memory = io.BytesIO()
    torch.save(model, memory)  # with a loss that nothing took
    assert interface.own_loss(copy.deepcopy(model)) is None and interface.own_loss(model) > 0


@pytest.mark.parametrize("mechanism", ["lha", "linformer"])
def test_saved_and_loaded(tmp_path, mechanism):
    model = hashattn.torch.replace_attention(made(), mechanism, **OPTIONS[mechanism])
    with torch.no_grad():
        for each in model.modules():
            if isinstance(each, Learned):
                for parameter in each.values():
                    parameter += 1
    model.save_pretrained(tmp_path)
    again = transformers.BertForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(again.eval()(tokens()).logits, model.eval()(tokens()).logits)
    hashattn.torch.replace_attention(again, mechanism, **OPTIONS[mechanism])  # the same: keeps what was learned
    assert torch.equal(again(tokens()).logits, model(tokens()).logits)
    again.train()(tokens(), labels=LABELS).loss.backward()
    made().save_pretrained(tmp_path / "plain")  # has nothing learned
    name = interface.layers(model)[0].runs
    drawn = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "plain", attn_implementation=name)
    fresh = hashattn.torch.replace_attention(made(), mechanism, **OPTIONS[mechanism])
    for a, b in zip(drawn.modules(), fresh.modules()):
        if isinstance(a, Learned):
            assert all(torch.equal(a[key], b[key]) for key in b)
    late = made()
    late.set_attn_implementation(name)
    if interface.layers(late)[0].runs == "sdpa":  # before 5.0 the library says that it cannot
        return
    with pytest.raises(ValueError, match=f"BertSelfAttention has no parameters for {mechanism}, which learns: use"):
        late(tokens())


def test_learned_in_other_models():
    sizes = dict(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 intermediate_size=48, max_position_embeddings=128)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    hashattn.torch.replace_attention(model, "lha", num_buckets=4)
    model.train()(tokens(), labels=tokens()).loss.backward()
    assert model.model.layers[1].self_attn.own.query.grad.any()
    yoso = hashattn.torch.replace_attention(made("Yoso"), "lha", num_buckets=4)
    yoso.train()(tokens(), labels=LABELS).loss.backward()
    assert yoso.yoso.encoder.layer[1].attention.self.own.query.grad.any()


def test_filter(tmp_path):
    model = made(suffix="Model").eval()
    own = copy.deepcopy(model)
    hashattn.torch.replace_attention(model, "yoso", num_hashes=4, filter=lambda name, layer: name.startswith("encoder.layer.1"))
    assert [each.runs for each in interface.layers(model)] == ["sdpa", "hashattn-yoso,num_hashes=4,layers=1"]
    mask = (torch.arange(64) < torch.tensor([[64], [40]])).long()
    with torch.no_grad():
        for given in (None, mask):
            real = mask.bool() if given is not None else torch.ones(2, 64).bool()
            first, own_first = (each(tokens(), attention_mask=given, output_hidden_states=True).hidden_states
                                for each in (model, own))
            assert torch.allclose(first[1][real], own_first[1][real], rtol=0, atol=1e-5)
            assert not torch.allclose(first[2][real], own_first[2][real], atol=1e-3)
        model.save_pretrained(tmp_path)
        again = transformers.BertModel.from_pretrained(tmp_path).eval()
        assert torch.equal(again(tokens()).last_hidden_state, model(tokens()).last_hidden_state)
        assert interface.layers(again) == interface.layers(model)
        exact = hashattn.torch.replace_attention(again, "softmax")
        assert {each.runs for each in interface.layers(exact)} == {"hashattn-softmax"}
    with pytest.raises(ValueError, match="filter takes none of the 2 attention layers: encoder.layer.0.attention.self, "):
        hashattn.torch.replace_attention(model, filter=lambda name, layer: False)


def test_filter_takes_the_global_layers():
    """Layers with windows stay; masks of both kinds are made."""
    sizes = dict(vocab_size=60, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48,
                 local_attention=8, global_attn_every_n_layers=2, pad_token_id=0, cls_token_id=1, sep_token_id=2)
    torch.manual_seed(0)
    model = skip_without_layers(transformers.ModernBertModel(transformers.ModernBertConfig(**sizes)).eval())
    expected = copy.deepcopy(model)
    hashattn.torch.replace_attention(model, "softmax", filter=lambda name, layer: layer.sliding_window is None)
    assert [each.runs for each in interface.layers(model)] == ["hashattn-softmax,layers=0+2", "sdpa"] * 2
    mask = (torch.arange(40) < torch.tensor([[40], [25]])).long()
    ids = torch.randint(5, 60, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        a, b = (each(ids, attention_mask=mask).last_hidden_state[mask.bool()] for each in (model, expected))
    assert torch.allclose(a, b, rtol=0, atol=1e-4)
