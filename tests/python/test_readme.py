"""The Python lines of README.md and python/README.md run as they stand.

Planted and caught: a misspelt option, and a function that does not exist, in each of the files.
SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import re

import pytest

from conftest import ROOT

BLOCKS = {file: re.findall(r"^```python\n(.*?)^```$", (ROOT / file).read_text(), re.M | re.S)
          for file in ("README.md", "python/README.md")}


def skip_without_packages(block):
    for name in ("torch", "transformers"):
        if re.search(rf"\b{name}\b", block) and importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("file, index", [(file, i) for file, blocks in BLOCKS.items() for i in range(len(blocks))])
def test_the_lines_run(file, index, tmp_path, monkeypatch):
    block = BLOCKS[file][index]
    skip_without_packages(block)
    monkeypatch.chdir(tmp_path)
    if "my-model" in block:  # stands for a model of the reader
        from transformers import YosoConfig, YosoModel

        YosoModel(YosoConfig(vocab_size=90, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                             intermediate_size=32)).save_pretrained("my-model")
    names = {}
    if file == "python/README.md" and "import" not in block:  # continues the first block
        exec(BLOCKS[file][0], names)
    exec(block, names)


def test_there_are_three_lines_each():
    found = [len(block.strip().splitlines()) for block in BLOCKS["README.md"]]
    assert found == [3, 3, 3]
