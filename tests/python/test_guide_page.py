"""The page "My BERT, long documents" of the guide is followed, with a small checkpoint in the place of the reader's: its
command, and its lines of Python.

It fails where the page names what does not exist.
SPDX-License-Identifier: Apache-2.0
"""

import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from conftest import ROOT, run_tool  # noqa: E402

PAGE = (ROOT / "docs" / "guide" / "my-bert-long-documents.md").read_text()
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "long", "short", "one", "report"]


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64))
    model.save_pretrained("my-bert")
    (tmp_path / "my-bert" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "my-bert" / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    return tmp_path


def test_the_lines_of_python(checkpoint):
    names = {}
    for block in re.findall(r"^```py\n(.*?)^```$", PAGE, re.M | re.S):
        exec(block, names)
    assert names["batch"]["input_ids"].shape[1] > 512
    again = transformers.AutoModelForSequenceClassification.from_pretrained("my-long-bert").eval()
    import hashattn.torch.transformers as interface

    assert {each.runs for each in interface.layers(again)} == {"hashattn-yoso,num_hashes=64"}
    assert again.config.max_position_embeddings == 4096
    with torch.no_grad():
        assert torch.equal(again(**names["batch"]).logits, names["model"].eval()(**names["batch"]).logits)


def test_the_commands(checkpoint):
    (checkpoint / "reports").mkdir()
    rows = [f"{'long' if i % 2 else 'short'}\ta {'long' if i % 2 else 'short'} report {'one ' * (90 if i % 2 else 3)}\n"
            for i in range(24)]
    for name in ("train", "valid", "test"):
        (checkpoint / "reports" / f"{name}.tsv").write_text("".join(rows))
    (checkpoint / "new.jsonl").write_text('{"text": "a long report"}\n')
    commands = [line[2:].split() for line in PAGE.splitlines() if line.startswith("$ hashattn ")]
    assert [each[1] for each in commands] == ["train", "predict"]
    run_tool(*commands[0][1:])
    assert run_tool(*commands[1][1:]).strip()
