"""Exported runs in the transformers library: equal hidden states and logits, with and without padding, and the tokenizer.

Planted and caught: unused rows after the positions; a tokenizer without its mask. SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hashattn  # noqa: E402

SMALL = dict(layers=2, dim=32, heads=2, ffn=48, batch=8, steps=30, learning_rate=0.01, seed=3)
TEXTS = ["The cat sat on <mask> 7.", "The dog lay"]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpora")
    text = directory / "cats.txt"
    text.write_text("".join(f"The cat sat on mat {i}. The dog lay on log {i}.\n\n" for i in range(200)))
    hashattn.Tokenizer.learn([text], vocab_size=300, progress=False).save(directory / "tokens")
    for name, options in {"ordered": {}, "long": {"long": True}}.items():
        hashattn.prepare("mlm", [text], directory / name, tokenizer=directory / "tokens", seq_len=32, progress=False,
                         **options)
    return directory


@pytest.mark.parametrize("data,attention,options", [
    ("ordered", "softmax", {}), ("long", "softmax", {"position_offset": 2}), ("ordered", "yoso-e", {}),
    ("long", "yoso-e", {"conv_window": 3, "hash_bits": 6})])
def test_equal_outputs(corpora, tmp_path, data, attention, options):
    hashattn.train("mlm", corpora / data, tmp_path / "run", mechanism=attention, progress=False, **SMALL, **options)
    hashattn.Pretrained(tmp_path / "run").save(tmp_path / "there")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "there").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    run, own = hashattn.Pretrained(tmp_path / "run"), hashattn.Tokenizer(corpora / "tokens")
    for text in TEXTS:
        ids = own.encode(text, special_tokens=True).ids
        encoded = tokenizer(text, return_tensors="pt")
        assert encoded["input_ids"][0].tolist() == list(ids)
        with torch.no_grad():
            found = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"],
                          output_hidden_states=True)
        rows = run.hidden_states([ids])[0]
        assert np.abs(found.hidden_states[-1][0].numpy() - rows).max() <= 1e-4
    guesses = run.fill_mask(TEXTS[0], top=5)[0]
    ids = tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        shares = model(input_ids=ids).logits[0, ids[0].tolist().index(tokenizer.mask_token_id)].softmax(-1)
    assert [guess.id for guess in guesses] == shares.topk(5).indices.tolist()
    assert np.allclose([guess.probability for guess in guesses], shares.topk(5).values, atol=1e-5)
