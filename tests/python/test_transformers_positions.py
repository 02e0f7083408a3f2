"""extend_positions: longer sequences in models with learned positions, the old function on short ones, saving and loading.

Planted and caught: rows repeated from the padding's on; buffers of the old length; a configuration that keeps the old number.
SPDX-License-Identifier: Apache-2.0
"""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn.torch  # noqa: E402
from hashattn.torch.transformers import layers  # noqa: E402

ENCODER = dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, pad_token_id=1)
SEQ2SEQ = dict(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, pad_token_id=1,
               decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=20)
MODELS = {  # sizes, the first row of a position
    "Bert": ({**ENCODER, "max_position_embeddings": 20}, 0),
    "Roberta": ({**ENCODER, "max_position_embeddings": 22}, 2),
    "XLMRoberta": ({**ENCODER, "max_position_embeddings": 22}, 2),
    "Electra": ({**ENCODER, "max_position_embeddings": 20, "embedding_size": 32}, 0),
    "DistilBert": (dict(vocab_size=60, dim=32, n_layers=1, n_heads=2, hidden_dim=48, max_position_embeddings=20), 0),
    "Yoso": ({**ENCODER, "max_position_embeddings": 20}, 2),
    "Bart": (SEQ2SEQ, 2),
    "OPT": (dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, ffn_dim=48,
                 max_position_embeddings=20, word_embed_proj_dim=32, pad_token_id=1), 2),
    "GPT2": (dict(vocab_size=60, n_embd=32, n_layer=1, n_head=2, n_positions=20), 0),
    "CLIPText": (dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
                      max_position_embeddings=20), 0),
}


def made(kind):
    torch.manual_seed(0)
    return getattr(transformers, kind + "Model")(getattr(transformers, kind + "Config")(**MODELS[kind][0])).eval()


def tables(model):
    return [each for name, each in model.named_modules()
            if isinstance(each, torch.nn.Embedding) and ("position" in name.split(".")[-1] or name.split(".")[-1] == "wpe")]


@pytest.mark.parametrize("kind", MODELS)
def test_longer_sequences(kind, tmp_path):
    model, first = made(kind), MODELS[kind][1]
    ids = torch.randint(5, 60, (2, 50), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(ids[:, :20])[0]
        old = [copy.deepcopy(each.weight.detach()) for each in tables(model)]
        assert hashattn.torch.extend_positions(model, 50) is model
        assert torch.equal(model(ids[:, :20])[0], expected) and model(ids)[0].shape[1] == 50
        for before, table in zip(old, tables(model)):
            after = table.weight
            assert after.requires_grad and len(after) == table.num_embeddings == 50 + first
            assert torch.equal(after[:len(before)], before) and torch.equal(after[-10:], before[first:first + 10])
        model.save_pretrained(tmp_path)
        again = type(model).from_pretrained(tmp_path).eval()
        assert torch.equal(again(ids)[0], model(ids)[0])
        if {each.runs for each in layers(again)} != {"its own code"}:
            hashattn.torch.replace_attention(again, "softmax")
            assert torch.allclose(again(ids)[0], model(ids)[0], rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match=r"has 50 positions already; 30 would drop some"):
        hashattn.torch.extend_positions(model, 30)


def test_models_without_learned_positions():
    model = transformers.LlamaModel(transformers.LlamaConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48))
    with pytest.raises(ValueError, match="LlamaModel has no embedding of positions .*; models with rotary or relative"):
        hashattn.torch.extend_positions(model, 4096)
