"""Tokenizer: the ids of the tool, offsets, pairs, limits, learning and saving.

Planted and caught: ids not copied before the next call; bytes cut at a zero; a pair's second text dropped; skip_special
ignored; an exception of the progress function swallowed. SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import pytest

import hashattn
from conftest import ROOT, run_tool

CATS = "".join(f"The cat sat on the mat, and {i} dogs sat on the log.\n" for i in range(200))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cats")
    (path / "cats.txt").write_text(CATS)
    run_tool("tokenizer", "train", path / "cats.txt", "--vocab-size", 300, "--out", path / "bpe", "--quiet")
    return path


@pytest.fixture(scope="module")
def cats(folder):
    return hashattn.Tokenizer(folder / "bpe")


def test_ids_are_those_of_the_tool(folder, cats):
    (folder / "lines.txt").write_text("The cat sat.\nna\u00efve \U0001f600\n")
    lines = run_tool("tokenizer", "encode", folder / "bpe", folder / "lines.txt", "--json").splitlines()
    found = [cats.encode(text) for text in ("The cat sat.", "na\u00efve \U0001f600")]
    assert [encoding.ids.tolist() for encoding in found] == [json.loads(line)["ids"] for line in lines]
    assert found[0].ids.dtype == np.uint32 and found[0].offsets is None and not found[0].truncated
    assert [cats.decode(encoding.ids) for encoding in found] == ["The cat sat.", "na\u00efve \U0001f600"]
    assert cats.num_ids == 300 and cats.id_of("<mask>") == 4 and cats.id_of("no such token") is None


def test_offsets_are_bytes_of_the_text(cats):
    text = "na\u00efve cats"
    encoding = cats.encode(text, offsets=True, special_tokens=True)
    raw = text.encode()
    assert encoding.offsets.dtype == np.int64 and encoding.offsets.shape == (len(encoding.ids), 2)
    inside = encoding.offsets[1:-1]
    assert {raw[begin:end].decode() for begin, end in inside} >= {"n", "\u00ef", "cat"}  # not "\u0120cat"
    assert inside[-1, 1] == len(raw) and (np.diff(inside[:, 0]) >= 0).all()
    assert encoding.offsets[0].tolist() == encoding.offsets[-1].tolist() == [0, 0]
    assert (encoding.ids[0], encoding.ids[-1]) == (cats.id_of("<s>"), cats.id_of("</s>"))
    again = encoding.ids.copy()
    cats.encode("something else, and longer than that", offsets=True)
    assert (encoding.ids == again).all() and inside[0, 0] == 0
    assert cats.decode(encoding.ids) == text and cats.decode(encoding.ids, skip_special=False) == f"<s>{text}</s>"


def test_pairs_limits_and_bytes(cats):
    pair = cats.encode("the cat", "the dogs sat", special_tokens=True)
    assert (pair.ids == cats.id_of("</s>")).sum() == 3 and "the dogs sat" in cats.decode(pair.ids)
    cut = cats.encode("the cat sat on the mat", max_tokens=3)
    assert cut.truncated and (cut.ids == cats.encode("the cat sat on the mat").ids[:3]).all()
    zeros = cats.encode(b"a\0b\xff")
    assert len(zeros.ids) == 4 and cats.decode(zeros.ids) == "a\0b\ufffd"
    assert len(cats.encode("\ud800").ids) == 3  # a lone surrogate is three bytes
    assert cats.encode("").ids.size == 0 and cats.decode([]) == ""


def test_learning_is_that_of_the_tool(tmp_path):
    text, reports = ROOT / "docs" / "MATH.md", []
    run_tool("tokenizer", "train", text, "--vocab-size", 500, "--out", tmp_path / "theirs", "--quiet")
    learned = hashattn.Tokenizer.learn(text, 500, progress=reports.append)
    learned.save(tmp_path / "ours")
    ours, theirs = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("ours", "theirs"))
    assert ours == theirs and learned.num_ids == 500
    assert [report.step for report in reports] == sorted(report.step for report in reports) and len(reports) > 1
    assert {report.steps for report in reports} == {500}
    with pytest.raises(ValueError, match="exist"):
        learned.save(tmp_path / "ours")

    def fail(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        hashattn.Tokenizer.learn([text], 500, progress=fail)
    with pytest.raises(hashattn.Interrupted):
        hashattn.Tokenizer.learn([text], 500, progress=lambda progress: True)


def test_the_words_of_bert(tmp_path):
    bert = hashattn.Tokenizer(ROOT / "tests" / "models" / "checkpoints" / "bert")
    pair = bert.encode("a", "a", special_tokens=True)
    assert pair.segments.tolist() == [0, 0, 0, 1, 1]


def test_bad_input_is_named(folder, cats, tmp_path):
    with pytest.raises(OSError, match="no tokenizer.json"):
        hashattn.Tokenizer(tmp_path)
    with pytest.raises(TypeError, match="text is int; a str or bytes is needed"):
        cats.encode(5)
    with pytest.raises(ValueError, match="max_tokens is -1, allowed are 0 to"):
        cats.encode("a", max_tokens=-1)
    with pytest.raises(ValueError, match="at most 1 tokens are allowed"):
        cats.encode("a", max_tokens=1, special_tokens=True)
    with pytest.raises(ValueError, match="900"):
        cats.decode([5, 900])
    with pytest.raises(ValueError, match="ids has -1"):
        cats.decode([-1])
    with pytest.raises(TypeError, match=r"dtype float64 and shape \(1,\)"):
        cats.decode([0.5])
    with pytest.raises(ValueError, match="vocab_size"):
        hashattn.Tokenizer.learn(folder / "cats.txt", 10, progress=False)
    with pytest.raises(OSError, match="no-such-file"):
        hashattn.Tokenizer.learn(tmp_path / "no-such-file", progress=False)
    with hashattn.Tokenizer(folder / "bpe") as closed:
        pass
    with pytest.raises(ValueError, match="the Tokenizer is closed"):
        closed.encode("a")
