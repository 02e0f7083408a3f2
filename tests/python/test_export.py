"""Exported runs in the transformers library: equal hidden states, logits and classes, and the tokenizer.

Planted and caught: unused rows after the positions; a tokenizer without its mask; the labels in another order; a number in
units of its deviation; the second text of a pair without its segment; token types that are not returned.
SPDX-License-Identifier: Apache-2.0
"""

import json

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
    assert model.config.model_type == ("yoso" if attention == "yoso-e" else "roberta" if options else "bert")
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


OURS = {"softmax": dict(mechanism="softmax", conv_window=0, classifier="tanh"),
        "yoso-e": dict(mechanism="yoso-e", classifier="gelu")}
DOCUMENTS = [(f"{'buy now, offer' if i % 3 else 'see you at noon, room'} {i}", i % 3 > 0) for i in range(90)]


def compare(run, directory, value, number=False):
    """The library's outputs for texts beside the predictions of the run; returns its model."""
    hashattn.Pretrained(run).save(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()
    texts = ["buy me at noon", "offer", "see you 7", "", "room " * 60]
    with hashattn.Run(run) as own:
        found = list(own.predict(texts, progress=False))
    for text, mine in zip(texts, found):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt", truncation=True)).logits[0]
        if number:
            assert logits.item() == pytest.approx(mine.score, abs=1e-5 * max(1, abs(mine.score)))
            continue
        shares = dict(zip(model.config.id2label.values(), value(logits).tolist()))
        assert shares.keys() == mine.probabilities.keys()
        assert all(abs(shares[label] - mine.probabilities[label]) <= 1e-5 for label in shares)
    if not number and model.config.model_type != "yoso":  # whose class does not mask padding
        with torch.no_grad():
            padded = model(**tokenizer(texts, return_tensors="pt", truncation=True, padding=True)).logits
        assert np.abs(value(padded).numpy() - [list(one.probabilities.values()) for one in found]).max() <= 1e-5
    return model


@pytest.mark.parametrize("name", OURS)
def test_classifier(tmp_path, name):
    texts, labels = [text for text, _ in DOCUMENTS], ["spam" if bad else "ham" for _, bad in DOCUMENTS]
    hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=texts, labels=labels, progress=False, max_len=40,
                   pooling="first", norm="post", **OURS[name], **SMALL).close()
    model = compare(tmp_path / "run", tmp_path / "there", lambda logits: logits.softmax(-1))
    assert model.config.problem_type == "single_label_classification" and model.config.label2id == {"ham": 0, "spam": 1}
    assert hashattn.Pretrained(tmp_path / "there").num_labels == 2


@pytest.mark.parametrize("kind", ["number", "set"])
def test_numbers_and_sets(tmp_path, kind):
    (tmp_path / "data").mkdir()
    for i, (text, bad) in enumerate(DOCUMENTS):
        label = 40.0 + 7 * bad if kind == "number" else ["spam", "short"][: 1 + i % 2] if bad else ["ham"]
        with open(tmp_path / "data" / "train.jsonl", "a") as file:
            file.write(json.dumps({"text": text, "label": label}) + "\n")
    options = dict(label_type="number") if kind == "number" else dict(multi_label=True)
    hashattn.train("text", tmp_path / "data", tmp_path / "run", progress=False, max_len=40, pooling="first", norm="post",
                   **options, **OURS["softmax"], **SMALL).close()
    model = compare(tmp_path / "run", tmp_path / "there", torch.sigmoid, number=kind == "number")
    assert model.config.problem_type == {"number": "regression", "set": "multi_label_classification"}[kind]


PAIRS = [(f"see you at {i}", f"{'buy' if i % 2 else 'see'} offer {i}") for i in range(80)]


def compare_pairs(run, directory, model_type):
    """The library's probabilities of pairs beside those of the run, padded and cut."""
    hashattn.Pretrained(run).save(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()
    pairs = [*PAIRS[:5], ("room", "offer " * 40), ("", "")]
    with hashattn.Run(run) as own:
        found = own.predict(pairs, progress=False)
    first, second = zip(*pairs)
    encoded = tokenizer(list(first), list(second), return_tensors="pt", truncation=True, padding=True)
    with torch.no_grad():
        shares = model(**encoded).logits.softmax(-1).numpy()
    assert model.config.model_type == model_type
    assert np.abs(shares - [list(one.probabilities.values()) for one in found]).max() <= 1e-5
    assert np.ptp(shares[:5, 0]) > 1e-5  # both texts matter
    return encoded


@pytest.mark.parametrize("kind", ["own", "bert", "roberta"])
def test_pairs(tmp_path, kind):
    options = dict(**OURS["softmax"], **SMALL, norm="post") if kind == "own" else dict(steps=20, batch=8, seed=2)
    if kind != "own":
        (tmp_path / "stored").mkdir()
        stored(kind, tmp_path / "stored")
        options["start"] = tmp_path / "stored"
    hashattn.train("retrieval", tmp_path / "data", tmp_path / "run", texts=PAIRS, labels=["other", "same"] * 40,
                   progress=False, max_len=30, join=True, pooling="first", **options).close()
    encoded = compare_pairs(tmp_path / "run", tmp_path / "there", "roberta" if kind == "roberta" else "bert")
    assert ("token_type_ids" in encoded) == (kind != "roberta")
    if kind != "roberta":
        assert encoded["token_type_ids"].max() == 1


def test_pairs_of_glue(tmp_path):
    (tmp_path / "RTE").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        rows = [f"{i}\t{a}\t{b}\t{'not_' if i % 2 else ''}entailment\n" for i, (a, b) in enumerate(PAIRS)]
        (tmp_path / "RTE" / name).write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rows))
    hashattn.train("glue", tmp_path / "RTE", tmp_path / "run", progress=False, max_len=30, vocab_size=300,
                   mechanism="softmax", **SMALL).close()
    hashattn.Pretrained(tmp_path / "run").save(tmp_path / "there")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "there").eval()
    encoded = tokenizer(*map(list, zip(*PAIRS)), return_tensors="pt", truncation=True, padding=True)
    with torch.no_grad():
        shares = model(**encoded).logits.softmax(-1).numpy()
    with hashattn.Run(tmp_path / "run") as own:
        found = own.predict(tmp_path / "RTE" / "dev.tsv", progress=False)
        with pytest.raises(hashattn.RefusedError, match="a run of glue predicts files, not texts in memory"):
            own.predict(PAIRS[:2])
    assert np.abs(shares - [list(one.probabilities.values()) for one in found]).max() <= 1e-5


def stored(kind, directory):
    """A small model of the transformers library, as a person has it."""
    sizes = dict(vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    if kind == "bert":
        words = sorted({w for text, _ in DOCUMENTS for w in text.replace(",", " ,").split()})
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
        (directory / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
        (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
        model = transformers.BertModel(transformers.BertConfig(max_position_embeddings=64, **sizes))
    else:
        (directory / "texts.txt").write_text("".join(text + "\n" for text, _ in DOCUMENTS))
        hashattn.Tokenizer.learn([directory / "texts.txt"], vocab_size=300, progress=False).save(directory / "tokens")
        for file in (directory / "tokens").iterdir():
            file.rename(directory / file.name)
        model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(
            max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5, **sizes))
    torch.manual_seed(5)
    model.save_pretrained(directory)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_fine_tuned(tmp_path, kind):
    (tmp_path / "stored").mkdir()
    stored(kind, tmp_path / "stored")
    texts, labels = [text for text, _ in DOCUMENTS], ["spam" if bad else "ham" for _, bad in DOCUMENTS]
    hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=texts, labels=labels, progress=False, max_len=40,
                   start=tmp_path / "stored", steps=20, batch=8, learning_rate=0.001, pooling="first", seed=2).close()
    model = compare(tmp_path / "run", tmp_path / "there", lambda logits: logits.softmax(-1))
    assert model.config.model_type == kind
    assert model.config.max_position_embeddings == 40 + (2 if kind == "roberta" else 0)
