"""Pretrained: the vectors, guesses and files of the tool, hidden states of packed sequences.

Planted and caught: a prompt or `normalize` dropped; offsets that count documents, or do not begin at 0; guesses of all masks
in one list; segments or options dropped; a table, or the letters of one text, as texts; ids without a list as a raw error;
two halves of a character refused. SPDX-License-Identifier: Apache-2.0
"""

import json
import shutil

import numpy as np
import pytest

import hashattn
from conftest import ROOT, run_tool, same_bits

BERT = ROOT / "tests" / "models" / "checkpoints" / "bert"
TEXTS = ["the cat sat on the mat", "a dog", "the the the"]


@pytest.fixture(scope="module")
def bert():
    return hashattn.Pretrained(BERT)


@pytest.fixture()
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def test_vectors_are_those_of_the_tool(bert, texts, tmp_path):
    reports = []
    run_tool("embed", BERT, texts, "--out", tmp_path / "e.npy", "--quiet")
    found = bert.embed_files(texts, progress=reports.append)
    assert same_bits(found, np.load(tmp_path / "e.npy")) and found.shape == (3, bert.dim)
    assert same_bits(bert.embed(TEXTS), found)
    assert [(report.step, report.steps) for report in reports] == [(1, 3), (2, 3), (3, 3)]
    run_tool("embed", BERT, texts, "--pooling", "none", "--no-special-tokens", "--out", tmp_path / "t.npy", "--quiet")
    tokens = bert.embed(TEXTS, pooling="none", special_tokens=False)
    assert same_bits(tokens.vectors, np.load(tmp_path / "t.npy"))
    assert (tokens.offsets == np.load(tmp_path / "t.offsets.npy")).all() and tokens.offsets[0] == 0
    assert bert.embed([]).shape == (0, bert.dim)


def test_vectors_of_a_sentence_directory(bert, tmp_path):
    model = tmp_path / "st"
    shutil.copytree(BERT, model)
    kinds = [{"path": "", "type": "sentence_transformers.models.Transformer"},
             {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
             {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
    (model / "modules.json").write_text(json.dumps(kinds))
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}')
    (model / "config_sentence_transformers.json").write_text('{"prompts": {"query": "the "}}')
    stored = hashattn.Pretrained(model)
    rows = np.stack([row.max(axis=0) for row in np.split(*_tokens(bert, TEXTS))])
    found = stored.embed(TEXTS)
    assert np.allclose(found, rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)
    assert same_bits(bert.embed(TEXTS, pooling="max", normalize=True), found)
    assert not np.allclose(bert.embed(TEXTS), found, atol=1e-3)
    prompted = stored.embed(TEXTS, prompt_name="query")
    assert same_bits(prompted, stored.embed(["the " + text for text in TEXTS]))
    assert same_bits(prompted, stored.embed(TEXTS, prompt="the "))
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    assert same_bits(stored.embed_files(tmp_path / "a.txt", lines=True, progress=False), found)
    (tmp_path / "a.csv").write_text("x;body\n" + "".join(f"1;{text}\n" for text in TEXTS), encoding="latin-1")
    assert same_bits(stored.embed_files(tmp_path / "a.csv", text_column="body", encoding="latin-1", progress=False), found)
    (tmp_path / "mail").mkdir()
    (tmp_path / "a.txt").rename(tmp_path / "mail" / "a.TXT")
    (tmp_path / "mail" / "a.pdf").write_text("x")
    with pytest.warns(UserWarning, match="1 file or folder is not read: .*mail/a.pdf") as caught:
        assert same_bits(stored.embed_files(tmp_path / "mail", lines=True, progress=False), found)
    assert [warning.filename for warning in caught] == [__file__]


def _tokens(model, texts):
    tokens = model.embed(texts, pooling="none")
    return tokens.vectors, tokens.offsets[1:-1]


def test_hidden_states_of_packed_sequences(bert):
    tokenizer = hashattn.Tokenizer(BERT)
    encoded = [tokenizer.encode(text, special_tokens=True) for text in TEXTS]
    rows = bert.hidden_states([encoding.ids for encoding in encoded])
    assert [row.shape for row in rows] == [(len(encoding.ids), bert.dim) for encoding in encoded]
    assert np.allclose(np.stack([row.mean(axis=0) for row in rows]), bert.embed(TEXTS), atol=1e-6)
    alone = bert.hidden_states([encoded[1].ids])
    assert np.allclose(alone[0], rows[1], atol=1e-6)
    pair = tokenizer.encode("a dog", "the cat", special_tokens=True)
    with_segments = bert.hidden_states([pair.ids], [pair.segments])[0]
    assert not np.allclose(with_segments, bert.hidden_states([pair.ids])[0], atol=1e-4)
    assert bert.hidden_states([]) == []
    assert same_bits(bert.hidden_states(iter([[1, 2]]))[0], bert.hidden_states(np.array([[1, 2]]))[0])
    assert same_bits(bert.embed(["a \ud83d\ude42"]), bert.embed(["a \U0001f642"]))  # half and half, as some JSON has it


def test_guesses_are_those_of_the_tool(bert):
    text = "the [MASK] sat on the [MASK]"
    lines = [json.loads(line) for line in run_tool("fill-mask", BERT, text, "--top", 3, "--json").splitlines()]
    found = bert.fill_mask(text, top=3)
    assert [len(guesses) for guesses in found] == [3, 3]
    assert [(guess.token, guess.id) for guesses in found for guess in guesses] == [(x["token"], x["id"]) for x in lines]
    assert found[0][0].probability >= found[0][1].probability > 0


def test_mechanisms_and_options(bert, tmp_path):
    few = hashattn.Pretrained(BERT, "yoso", num_hashes=4).embed(TEXTS, seed=1)
    many = hashattn.Pretrained(BERT, "yoso", num_hashes=64).embed(TEXTS, seed=1)
    assert not np.allclose(few, many) and not np.allclose(many, bert.embed(TEXTS))
    assert (bert.type, bert.mechanism) == ("bert", "softmax") and bert.num_params > 0 and bert.num_scores > 0
    bert.save(tmp_path / "saved")
    again = hashattn.Pretrained(tmp_path / "saved")
    assert same_bits(again.hidden_states([[1, 2, 3]])[0], bert.hidden_states([[1, 2, 3]])[0])


def test_bad_input_is_named(bert, tmp_path):
    with pytest.raises(OSError, match="config.json"):
        hashattn.Pretrained(tmp_path)
    with pytest.raises(ValueError, match="num_hashes"):
        hashattn.Pretrained(BERT, "yoso", num_hashes=0)
    with pytest.raises(ValueError, match="sequence 1"):
        bert.hidden_states([[1, 2], []])
    with pytest.raises(ValueError, match="100000000"):
        bert.hidden_states([[1, 100000000]])
    with pytest.raises(ValueError, match=r"segments have lengths \[1\], sequences \[2\]"):
        bert.hidden_states([[1, 2]], [[0]])
    with pytest.raises(ValueError, match="-3"):
        bert.hidden_states([[-3]])
    for sequences, message in (([1, 2], r"sequences\[0\] has dtype int64 and shape \(\)"), (None, "sequences is None; a list"),
                               ("12", "sequences is '12'; a list")):
        with pytest.raises(hashattn.InvalidTypeError, match=message):
            bert.hidden_states(sequences)
    for texts, message in ((["a", None], r"texts\[1\] is a NoneType; a str"), ([("a", "b")], r"texts\[0\] is a tuple; a str")):
        with pytest.raises(hashattn.InvalidTypeError, match=message):
            bert.embed(texts)
    for texts, message in ((["a dog", "the " * 10000], r"^texts\[1\]: "),
                           (["a dog", "a\0"], r"^texts\[1\]: character 2 of 2 is U\+0000"), ("a dog", "texts is one str"),
                           (np.array([["a dog"]]), r"texts has the shape \(1, 1\)")):
        with pytest.raises(ValueError, match=message):
            bert.embed(texts)
    with pytest.raises(ValueError, match="pooling"):
        bert.embed(TEXTS, pooling="median")
    with pytest.raises(ValueError, match="has no .MASK. to be filled"):
        bert.fill_mask("no mask here")
    with pytest.raises(TypeError, match="text is a bytes; a str"):
        bert.fill_mask(b"a [MASK]")

    def fail(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        bert.embed(TEXTS, progress=fail)
    with pytest.raises(hashattn.Interrupted):
        bert.embed(TEXTS, progress=lambda progress: True)
