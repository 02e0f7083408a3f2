"""What the tests of the Python package share. SPDX-License-Identifier: Apache-2.0"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hashattn
from hashattn import _library

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the transformers library asks its server for files that a folder lacks

ROOT = Path(__file__).resolve().parents[2]


def numbers(*shape, seed=0, dtype=np.float32):
    """Independent N(0, 1) numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32).astype(dtype)


def same_bits(a, b):
    """True if two arrays have the same shape, dtype and bytes."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def run_tool(*arguments, **keywords):
    """The tool of the package under test; returns its output."""
    command = [str(_library.TOOL), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **keywords)
    assert done.returncode == 0, done.stderr
    return done.stdout


def skip_without_layers(model):
    """Skips a test if this version of the transformers library has layers of its own there, as ELECTRA's and
    ModernBERT's before 5.0."""
    from transformers import __version__ as version

    from hashattn.torch.transformers import layers

    if int(version.split(".")[0]) < 5 and {each.runs for each in layers(model)} == {"its own code"}:
        pytest.skip(f"transformers {version} has its own attention in {type(model).__name__}")
    return model


def holding(cache):
    """A cache of the transformers library by the name that its models have for it: before `cache` it was another."""
    import inspect

    from transformers import LlamaForCausalLM

    return {"cache" if "cache" in inspect.signature(LlamaForCausalLM.forward).parameters else "past_key_values": cache}


TINY = dict(steps=20, batch=8, layers=1, dim=16, heads=2, ffn=16, eval_every=10, seed=3, num_hashes=8)


@pytest.fixture(scope="session")
def needles(tmp_path_factory):
    """A small data set of the task needle."""
    directory = tmp_path_factory.mktemp("data") / "needles"
    hashattn.make_data("needle", directory, train=64, valid=16, test=16, seed=1, seq_len=64, marks=8)
    return directory


@pytest.fixture(scope="session")
def mail(tmp_path_factory):
    """A data set of the task text with two classes that are easy to tell apart."""
    directory = tmp_path_factory.mktemp("data") / "mail"
    directory.mkdir()
    lines = [f"{'low' if i % 2 == 0 else 'high'}\t{('aaaabaaaac' if i % 2 == 0 else 'zzzzyzzzzx')[: 4 + i % 5]}\n"
             for i in range(60)]
    (directory / "train.tsv").write_text("".join(lines))
    return directory


@pytest.fixture(scope="session")
def text_run(tmp_path_factory, mail):
    """A trained run of the task text."""
    path = tmp_path_factory.mktemp("runs") / "filter"
    options = {**TINY, "steps": 60, "tokens": "bytes", "max_len": 16, "learning_rate": 0.02, "eval_every": 20}
    hashattn.train("text", mail, path, progress=False, **options)
    return path
