"""bench/torch_families.py: the columns of a family that works, of one with code of its own, and of one that is refused.
bench/torch_causal.py: the cells of decoders.

Outputs compared with themselves would be equal for `none` too, and one test has it differ; a decoder that sees the future is
told. SPDX-License-Identifier: Apache-2.0
"""

import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from conftest import ROOT  # noqa: E402

sys.path.insert(0, str(ROOT / "bench"))

import torch_causal  # noqa: E402
import torch_families  # noqa: E402


def test_columns(monkeypatch):
    works = dict.fromkeys(torch_families.STEPS, "equal")
    assert torch_families.row("llama") == works
    assert torch_families.row("bert") == {**works, "generate": "-"}
    assert set(torch_families.row("bloom").values()) == {"own code"}
    assert torch_families.row("gemma2") == {**dict.fromkeys(works, "refused"), "forward": "refused: softcap"}
    text = torch_families.table({"bert": works, "bloom": dict.fromkeys(works, "own code")}).text()
    assert "| encoder | bert | equal |" in text and "| decoder | bloom | own code |" in text
    import hashattn.torch

    replace = hashattn.torch.replace_attention
    monkeypatch.setattr(hashattn.torch, "replace_attention", lambda model, name: replace(model, "none"))
    found = torch_families.row("bert")  # attention that is another
    assert found["forward"].startswith("differs by ") and found["save and load"] == "equal"


def test_decoders(monkeypatch):
    found = torch_causal.walk("llama,bart,bloom,gemma2")
    kinds = {family: cell.split(":")[0] for family, cell in found.items()}
    assert kinds == {"llama": "causal", "bart": "causal", "bart (with encoder)": "causal", "bloom": "own code",
                     "gemma2": "refused"}
    assert "**causal: 3.** bart, llama, bart (with encoder)\n" in torch_causal.text(found)
    from hashattn.torch import interface

    made = interface.make
    monkeypatch.setattr(interface, "make", lambda batch, queries, keys, mask, causal, *more: made(
        batch, queries, keys, mask, False, *more))
    assert torch_causal.walk("llama")["llama"].startswith("FUTURE: softmax")
