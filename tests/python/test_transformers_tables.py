"""Layers whose class a model takes from a table, and which call scaled_dot_product_attention themselves: BERT's and those of
its relatives in transformers before 5.0. They are as made here, so that every version of the library tests them.

Planted and caught: the table without the name; the mask of a call left out; no refusal where the function is not called; a name
that does not come with the pickle. SPDX-License-Identifier: Apache-2.0
"""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn.torch  # noqa: E402
import hashattn.torch.transformers as interface  # noqa: E402
from hashattn.torch import tables  # noqa: E402


class EagerAttention(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads, self.attention_head_size = 2, 8
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        q, k, v = (layer(hidden_states).unflatten(-1, (2, 8)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / 8 ** 0.5
        weights = torch.softmax(scores if attention_mask is None else scores + attention_mask, -1)
        return (weights @ v).transpose(1, 2).flatten(2)


class SdpaAttention(EagerAttention):
    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        if output_attentions:
            return super().forward(hidden_states, attention_mask)
        q, k, v = (layer(hidden_states).unflatten(-1, (2, 8)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
        return out.transpose(1, 2).flatten(2)


TINY_ATTENTION_CLASSES = {"eager": EagerAttention, "sdpa": SdpaAttention}


class TinyConfig(transformers.PretrainedConfig):
    model_type = "tiny-of-tables"
    num_attention_heads, hidden_size = 2, 16


class TinyModel(transformers.PreTrainedModel):
    config_class = TinyConfig
    base_model_prefix = "tiny"
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.words = torch.nn.Embedding(30, 16)
        self.attention = torch.nn.ModuleList(TINY_ATTENTION_CLASSES[config._attn_implementation](config) for _ in range(2))
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            module.weight.data.normal_(0, 0.3)

    def forward(self, input_ids, attention_mask=None, output_attentions=False):
        rows = self.words(input_ids)
        added = None
        if attention_mask is not None:
            added = (1 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for layer in self.attention:
            rows = rows + layer(rows, added, output_attentions)
        return rows


IDS = torch.randint(0, 30, (2, 24), generator=torch.Generator().manual_seed(1))
MASK = (torch.arange(24) < torch.tensor([[24], [15]])).long()


def made(implementation="sdpa"):
    torch.manual_seed(0)
    configuration = TinyConfig()
    configuration._attn_implementation = implementation
    return TinyModel(configuration).eval()


def runs(model):
    return [each.runs for each in interface.layers(model)]


@torch.no_grad()
def out(model, mask=MASK):
    return model(IDS, attention_mask=mask)[MASK.bool()]


def test_both_routes_are_exact():
    model = made()
    assert runs(model) == ["sdpa"] * 2
    replaced, named = hashattn.torch.replace_attention(copy.deepcopy(model), "softmax"), made("hashattn-softmax")
    named.load_state_dict(model.state_dict())
    for each in (replaced, named):
        assert runs(each) == ["hashattn-softmax"] * 2
        assert torch.allclose(out(each), out(model), rtol=0, atol=1e-4)
        assert torch.allclose(out(each, None), out(model, None), rtol=0, atol=1e-4)
    assert runs(made()) == ["sdpa"] * 2 and torch.equal(out(made()), out(model))  # others of the class


@pytest.mark.parametrize("mechanism, options", [("yoso", {}), ("lsh", {}), ("nystrom", {"num_landmarks": 4})])
def test_padding_changes_nothing(mechanism, options):
    model = hashattn.torch.replace_attention(made(), mechanism, **options)
    with torch.no_grad():
        assert torch.allclose(model(IDS, attention_mask=MASK)[1, :15], model(IDS[1:, :15])[0], rtol=0, atol=1e-5)
    assert not torch.allclose(out(model), out(made()), atol=1e-2)


def test_a_class_that_inherits():
    class Own(SdpaAttention):
        def forward(self, *given, **named):
            return super().forward(*given, **named)

    model, expected = made(), out(made())
    for number, layer in enumerate(model.attention):
        layer.__class__ = Own if number else type("Without", (SdpaAttention,), {"__module__": __name__})
    hashattn.torch.replace_attention(model, "softmax")
    assert runs(model) == ["hashattn-softmax"] * 2 and torch.allclose(out(model), expected, rtol=0, atol=1e-4)
    assert not torch.allclose(out(hashattn.torch.replace_attention(model, "none")), expected, atol=1e-2)


def test_saved_copied_and_pickled(tmp_path):
    model = hashattn.torch.replace_attention(made(), "yoso", num_hashes=8, seed=3, filter=lambda name, _: name.endswith("1"))
    assert runs(model) == ["sdpa", "hashattn-yoso,num_hashes=8,seed=3,layers=1"]
    expected = out(model)
    model.save_pretrained(tmp_path)
    for again in (TinyModel.from_pretrained(tmp_path).eval(), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert runs(again) == runs(model) and torch.equal(out(again), expected)
    assert runs(pickle.loads(pickle.dumps(copy.deepcopy(model)))) == runs(model)


def test_what_a_mechanism_learns():
    model = hashattn.torch.replace_attention(made(), "lha", num_buckets=4).train()
    model(IDS, attention_mask=MASK).square().sum().backward()
    assert all(each.grad is not None for name, each in model.named_parameters() if "own" in name)
    assert interface.own_loss(model) is not None


def test_what_is_refused():
    model = hashattn.torch.replace_attention(made(), "softmax")
    with pytest.raises(ValueError, match="SdpaAttention did not call scaled_dot_product_attention, as with output_attentions"):
        model(IDS, output_attentions=True)
    assert not tables.calls_sdpa(EagerAttention)
