"""The package as users meet it: import, the tool, the lines of its README, type hints and docstrings.

Planted and caught: NumPy imported with the package; a public function without a docstring.
SPDX-License-Identifier: Apache-2.0
"""

import importlib.metadata
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import hashattn
from conftest import ROOT, numbers, same_bits
from hashattn import _library


def run_python(*arguments, timeout=100, **keywords):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=timeout, **keywords)


def test_import_takes_less_than_100_ms():
    """Of processor time, which a busy machine does not stretch."""
    code = ("import time; start = time.process_time(); import hashattn; end = time.process_time(); import sys; "
            "print(end - start, 'numpy' in sys.modules, 'torch' in sys.modules, 'ctypes' in sys.modules)")
    times = []
    for _ in range(3):
        seconds, *loaded = run_python("-c", code).stdout.split()
        assert loaded == ["False"] * 3
        times.append(float(seconds))
    assert min(times) < 0.1


def test_the_first_call_takes_little():
    """Processor time; NumPy, which a caller has, not counted."""
    code = ("import numpy as np, time; q = np.ones((8, 4), 'f4'); start = time.process_time(); import hashattn; "
            "hashattn.attention(q, q, q); print(time.process_time() - start)")
    assert min(float(run_python("-c", code).stdout) for _ in range(3)) < 2


def test_the_tool_is_the_module():
    version = run_python("-m", "hashattn", "--version")
    assert version.returncode == 0 and version.stdout.startswith(f"hashattn {hashattn.__version__}\n")
    refused = run_python("-m", "hashattn", "atend")
    assert refused.returncode == 2 and "did you mean attend" in refused.stderr
    assert run_python("-m", "hashattn", "info", "--json").stdout.startswith("{")


def test_the_library_shows_only_its_interface():
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    found = subprocess.run(["nm", "-D", "--defined-only", _library.LIBRARY], check=True, capture_output=True, text=True)
    names = {line.split()[-1].partition("@")[0] for line in found.stdout.splitlines()}
    assert {name for name in names if not name.startswith(("hashattn_", "HASHATTN_"))} == set()
    assert "hashattn_attention_forward" in names


def python_lines(text):
    """The blocks of Python in a document."""
    return re.findall(r"```python\n(.*?)```", text, re.S)


def test_the_blocks_of_the_packages_readme(tmp_path, monkeypatch):
    """python/README.md: every block, in order, in one session."""
    monkeypatch.chdir(tmp_path)
    blocks = python_lines((ROOT / "python" / "README.md").read_text())
    assert len(blocks) == 6
    names = {}
    for block in blocks:
        needed = [name for name in ("torch", "transformers") if name in block]
        if any(importlib.util.find_spec(name) is None for name in needed):
            continue
        exec(block.replace("(3, 2, 12, 4096, 64)", "(3, 2, 12, 128, 64)").replace("[4096, 1000]", "[128, 100]"), names)
    assert names["dq"].shape[-1] == 64 and names["row"].shape == (12, 1, 64)
    assert names["run"].log


def test_the_block_of_the_page_for_pypi(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = python_lines((ROOT / "python" / "PYPI.md").read_text())
    names = {}
    exec(block.replace("(3, 2, 12, 4096, 64)", "(3, 2, 12, 128, 64)").replace("[4096, 1000]", "[128, 100]"), names)
    assert names["exact"].shape == names["out"].shape == (2, 12, 128, 64)


def test_everything_public_is_documented_and_typed():
    for name in hashattn.__all__:
        item = getattr(hashattn, name)
        assert item.__doc__, name
        if inspect.isclass(item):
            for method, function in inspect.getmembers(item, inspect.isfunction):
                if not method.startswith("_") and not issubclass(item, tuple):
                    assert function.__doc__, f"{name}.{method}"
        else:
            signature = inspect.signature(item)
            assert signature.return_annotation is not inspect.Signature.empty, name
            assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values()), name
    assert (_library.FOLDER / "py.typed").exists()
    assert set(hashattn.__all__) < set(dir(hashattn))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hashattn.nothing


def test_types_agree():
    pytest.importorskip("mypy")
    torch = importlib.util.find_spec("torch") and importlib.metadata.version("torch")
    if torch and tuple(map(int, torch.split(".")[:2])) < (2, 10):
        pytest.skip(f"torch {torch} leaves functions without types")
    without = [] if importlib.util.find_spec("torch") else ["--exclude", "hashattn/torch"]
    done = run_python("-m", "mypy", "--strict", "--python-version", "3.10", *without, str(ROOT / "python" / "hashattn"),
                      timeout=600)
    assert done.returncode == 0, done.stdout


def test_exceptions_are_of_the_kinds_of_python():
    kinds = {hashattn.InvalidError: ValueError, hashattn.InvalidTypeError: TypeError, hashattn.RefusedError: ValueError,
             hashattn.FailedError: RuntimeError, hashattn.BadFileError: OSError, hashattn.NoDiskError: OSError,
             hashattn.OutOfMemoryError: MemoryError, hashattn.Interrupted: Exception}
    for own, kind in kinds.items():
        assert issubclass(own, kind) and issubclass(own, hashattn.Error)
        assert str(own("12 is too many")) == "12 is too many"
    q = np.ones((4, 8), np.float32)
    with pytest.raises(MemoryError, match="this machine has"):
        hashattn.Stream(2**40, 8)
    with pytest.raises(hashattn.RefusedError):
        hashattn.Stream(2, 8, mechanism="softmax")
    assert hashattn.attention(q, q, q).shape == (4, 8)
