"""Directories as people download them: small random models of the transformers library, in every shape of its files. Those
that compute what BERT or RoBERTa compute give the library's hidden states and logits; others are refused by name.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json

import numpy as np
import pytest

import hashattn
from hashattn import _library

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
             max_position_embeddings=20)
DISTIL = dict(vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=20)
SAME = {  # class: options of its config
    "Bert": SIZES, "Roberta": SIZES, "XLMRoberta": SIZES | {"layer_norm_eps": 1e-5, "type_vocab_size": 1},
    "Camembert": SIZES | {"type_vocab_size": 1}, "Electra": SIZES | {"embedding_size": 16}, "DistilBert": DISTIL}


def build(name, head, options):
    torch.manual_seed(0)
    model = getattr(transformers, name + head)(getattr(transformers, name + "Config")(**options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    model.tie_weights()
    return model


def scores(model, ids):
    """The logits of masked tokens for every place of one sequence."""
    packed = np.asarray(ids, np.uint32)
    offsets, places = np.array([0, len(ids)], np.uint64), np.arange(len(ids), dtype=np.uint64)
    sequences = _library.Sequences(num_sequences=1, offsets=offsets.ctypes.data, ids=packed.ctypes.data, segments=None)
    found = np.empty((len(ids), model.num_scores), np.float32)
    with model._use() as handle:
        handle.origin.check(_library.functions().pretrained_scores(
            handle.pointer, ctypes.byref(sequences), 0, places.ctypes.data, len(ids), found.ctypes.data))
    return found


def check(path, model, logits=False):
    ids = np.random.default_rng(1).integers(5, 40, 12)
    with torch.no_grad():
        out = model(torch.tensor(ids)[None], output_hidden_states=True)
    ours = hashattn.Pretrained(path)
    gap = np.abs(out.hidden_states[-1][0].numpy() - ours.hidden_states([ids])[0]).max()
    assert gap < 1e-5, f"hidden states differ by {gap}"
    if logits:
        assert np.abs(out.logits[0].numpy() - scores(ours, ids)).max() < 1e-5
    return ours


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("head", ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"])
def test_same_mathematics(tmp_path, name, head):
    model = build(name, head, SAME[name])
    model.save_pretrained(tmp_path / "m")
    ours = check(tmp_path / "m", model, logits=head == "ForMaskedLM")
    assert ours.type == model.config.model_type and ours.num_scores == (40 if head == "ForMaskedLM" else 0)
    ours.save(tmp_path / "again")
    check(tmp_path / "again", type(model).from_pretrained(tmp_path / "again").eval(), logits=head == "ForMaskedLM")


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("word", ["relu", "gelu_python"])
def test_activations_and_doubles(tmp_path, name, word):
    from safetensors.torch import load_file, save_file

    key = "activation" if name == "DistilBert" else "hidden_act"
    model = build(name, "ForSequenceClassification", SAME[name] | {key: word})
    model.save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    save_file({key: tensor.double() for key, tensor in load_file(path).items()}, path, {"format": "pt"})
    ours = check(tmp_path / "m", model)
    ours.save(tmp_path / "again")
    check(tmp_path / "again", type(model).from_pretrained(tmp_path / "again").eval())
    masked = build(name, "ForMaskedLM", SAME[name] | {key: word})
    masked.save_pretrained(tmp_path / "masked")
    if word == "gelu_python" or name not in ("Bert", "DistilBert"):
        check(tmp_path / "masked", masked, logits=True)
    else:
        with pytest.raises(OSError, match="the activation is relu, also of the output for masked tokens"):
            hashattn.Pretrained(tmp_path / "masked")


@pytest.mark.parametrize("name", SAME)
def test_shards_of_all_types(tmp_path, name):
    model = build(name, "ForMaskedLM", SAME[name])
    model.save_pretrained(tmp_path / "m", max_shard_size="5KB")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 2
    check(tmp_path / "m", model, logits=True)


def test_discriminator_of_electra(tmp_path):
    model = build("Electra", "ForPreTraining", SAME["Electra"])
    model.save_pretrained(tmp_path / "m")
    check(tmp_path / "m", model)
    narrow = build("Electra", "Model", SIZES | {"embedding_size": 8})
    narrow.save_pretrained(tmp_path / "narrow")
    with pytest.raises(OSError, match="embedding_size is 8 and hidden_size 16, which must be equal"):
        hashattn.Pretrained(tmp_path / "narrow")


@pytest.mark.parametrize("name, prefix, copy", [
    ("Bert", "bert.", "cls.predictions.decoder"), ("XLMRoberta", "roberta.", "lm_head.decoder"),
    ("Electra", "electra.", "generator_lm_head"), ("DistilBert", "distilbert.", "vocab_projector")])
def test_buffers_and_tied_tables(tmp_path, name, prefix, copy):
    """As older versions of the library and its converters wrote them."""
    from safetensors.torch import load_file, save_file

    model = build(name, "ForMaskedLM", SAME[name])
    model.save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    tensors[prefix + "embeddings.position_ids"] = torch.arange(20)[None]
    tensors[copy + ".weight"] = tensors[prefix + "embeddings.word_embeddings.weight"].clone()
    save_file(tensors, path, {"format": "pt"})
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))  # the table is there
    ours = check(tmp_path / "m", model, logits=True)
    ours.save(tmp_path / "again")
    check(tmp_path / "again", type(model).from_pretrained(tmp_path / "again").eval(), logits=True)
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert set(again) == set(tensors) - {prefix + "embeddings.position_ids", copy + ".weight"}
    tensors[copy + ".weight"] += 1
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(OSError, match="only tied ones are computed"):
        hashattn.Pretrained(tmp_path / "m")


def test_pickled_weights_are_told_the_remedy(tmp_path):
    import os
    import re
    import subprocess
    import sys

    model = build("DistilBert", "Model", DISTIL)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="a pickled archive can run code, so it is not read; convert it") as refused:
        hashattn.Pretrained(tmp_path)
    program = re.search(r'python3 -c "(.*)"', str(refused.value))
    assert program is not None
    subprocess.run([sys.executable, "-c", program.group(1)], cwd=tmp_path, check=True, env=os.environ)
    check(tmp_path, model)


@pytest.mark.parametrize("name, options, reason", [
    ("MPNet", SIZES, "biases for relative positions"), ("Deberta", SIZES, "reads relative positions"),
    ("DebertaV2", SIZES, "reads relative positions"), ("Albert", SIZES | {"embedding_size": 16}, "share their weights"),
    ("ModernBert", SIZES | {"pad_token_id": 0}, "rotates queries and keys"), ("XLNet", {"vocab_size": 40}, "relative positions"),
    ("T5", {"vocab_size": 40}, "models of type yoso, bert, roberta, xlm-roberta, camembert, electra and distilbert are read")])
def test_other_mathematics_is_refused(tmp_path, name, options, reason):
    config = getattr(transformers, name + "Config")(**options)
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(OSError, match=f"model_type is '{config.model_type}'.*{reason}"):
        hashattn.Pretrained(tmp_path)


@pytest.mark.parametrize("change, message", [
    ({"activation": "silu"}, r"activation is 'silu', gelu \(gelu_python\) and relu are computed"),
    ({"n_heads": 3}, "dim is 16, which is not a multiple of n_heads, 3")])
def test_settings_of_distilbert(tmp_path, change, message):
    transformers.DistilBertConfig(**DISTIL).save_pretrained(tmp_path)
    text = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(text | change))
    with pytest.raises(OSError, match=message):
        hashattn.Pretrained(tmp_path)
