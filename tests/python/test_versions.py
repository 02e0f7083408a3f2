"""The oldest torch and transformers: the metadata and the code name the same, and an older one is refused in a sentence.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from conftest import ROOT  # noqa: E402


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_extras_name_the_oldest():
    from hashattn.torch import _needs

    text = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'"torch>=([0-9.]+)"', text) == [".".join(map(str, _needs.OLDEST_TORCH))] * 2
    pytest.importorskip("transformers")
    from hashattn.torch import versions

    assert re.findall(r'"transformers>=([0-9.]+)"', text) == [".".join(map(str, versions.OLDEST))]


def test_older_ones_are_refused():
    done = run("import torch; torch.__version__ = '2.3.1'; import hashattn.torch")
    assert "hashattn.torch needs PyTorch 2.4 or later; this is 2.3.1" in done.stderr
    pytest.importorskip("transformers")
    done = run("import transformers; transformers.__version__ = '4.56.2'; import hashattn.torch.transformers")
    assert "hashattn.torch needs transformers 4.57 or later; this is 4.56.2" in done.stderr
    done = run("import transformers; transformers.__version__ = '4.56.2'; import hashattn.torch, transformers.modeling_utils")
    assert done.returncode == 0, done.stderr
