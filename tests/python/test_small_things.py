"""What a user of the package tries first: threads by the environment, whole numbers as a mask, copies, a name where a
directory is needed, a package inside an archive, errors that name arguments.

Planted and caught: an error with the name of the temporary file; the line of a text as its index, and that of a set of few
texts as that of all; the bytes of that file in the message; an object that prints as an address. Bugs it looks for:
HASHATTN_THREADS read after OMP_NUM_THREADS; a mask of int64 read as bytes; an object copied without its memory.
SPDX-License-Identifier: Apache-2.0
"""

import copy
import pickle
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import hashattn
from conftest import numbers, same_bits
from hashattn import _library


@pytest.mark.parametrize("variables, threads", [({"HASHATTN_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
                                                ({"OMP_NUM_THREADS": "2"}, 2), ({"OMP_NUM_THREADS": "5,2"}, 5)])
def test_threads_by_the_environment(monkeypatch, variables, threads):
    monkeypatch.delenv("HASHATTN_THREADS", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with hashattn.Context() as context, hashattn.Context(threads=1) as given:
        assert context.describe().threads == threads and given.describe().threads == 1
    monkeypatch.setenv("HASHATTN_THREADS", "many")
    with pytest.raises(ValueError, match="HASHATTN_THREADS is 'many', allowed are 1 to 1024"):
        hashattn.Context()


def test_masks_of_whole_numbers():
    q, k, v = numbers(3, 2, 12, 8)
    taking = np.arange(12) < 7
    expected = hashattn.attention(q, k, v, mechanism="softmax", key_mask=taking)
    for dtype in (np.uint8, np.int8, np.int32, np.int64):
        assert same_bits(hashattn.attention(q, k, v, mechanism="softmax", key_mask=taking.astype(dtype)), expected)
    streams = [hashattn.Stream(2, 8) for _ in range(2)]
    for stream, mask in zip(streams, (taking, taking.astype(np.int64))):
        stream.absorb(k, v, mask)
    assert same_bits(streams[0].read(q), streams[1].read(q))


def test_copies_are_refused():
    with hashattn.Context(threads=1) as context:
        for made in (context, hashattn.Attention("yoso", context=context), hashattn.Stream(1, 8, context=context)):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match=f"^{type(made).__name__} holds memory of the C library and can be neither"):
                    copied(made)


def test_errors_name_arguments_and_no_temporary_files(text_run):
    run = hashattn.Run(text_run)
    for texts, index, character in ((["good", "bad\0"], 1, "4 of 4 is U+0000"), (["a", "b", "\ud800"], 2, "1 of 1 is U+D800"),
                                    (["a\udc00b"], 0, "2 of 3 is U+DC00")):
        with pytest.raises(ValueError, match=re.escape(f"texts[{index}]: character {character};")):
            run.predict(texts, progress=False)
    for texts, index, character in ((["a", "a\ud800", "b"], 1, "2 of 2 is U+D800"), (["a", "a", "b\0"], 2, "2 of 2 is U+0000")):
        with pytest.raises(ValueError, match=re.escape(f"X[{index}]: character {character};")):
            hashattn.TextClassifier(steps=2).fit(texts, ["x", "x", "y"])
    found = run.predict(["\ud83d\ude00", "\U0001f600"], progress=False)  # both halves of a character
    assert found[0].probabilities == found[1].probabilities


def test_an_unknown_option_lists_the_others():
    for call in (lambda q: hashattn.attention(q, q, q, num_hash=4), lambda q: hashattn.Attention("yoso", num_hash=4)):
        with pytest.raises(ValueError, match="yoso has no option 'num_hash'; it has num_hashes, hash_bits, .*max_norm"):
            call(numbers(4, 8))


def test_the_gradient_of_yoso_e_is_told():
    for documented in (hashattn.attention, hashattn.Attention):
        if '"yoso-e"' in (documented.__doc__ or ""):
            assert 'the paper\'s bound, "lower"' in documented.__doc__
            break
    else:
        raise AssertionError("neither docstring tells of yoso-e")


def test_masked_arrays_are_refused():
    q = np.ma.masked_array(numbers(4, 8), numbers(4, 8) > 1)
    for call in (lambda: hashattn.attention(q, q, q), lambda: hashattn.Stream(1, 8).absorb(q, q)):
        with pytest.raises(TypeError, match="masked array"):
            call()


def test_a_name_where_a_directory_is_needed():
    with pytest.raises(OSError, match="roberta-base is no directory; one with config.json, .* .nothing is downloaded"):
        hashattn.Pretrained("roberta-base")


def test_inside_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for path in _library.FOLDER.glob("*.py"):
            archive.write(path, f"hashattn/{path.name}")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'app.zip')!r}); import hashattn; hashattn.mechanisms()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": "", "PYTHONPATH": ":".join(each for each in sys.path if "site-packages" in each)})
    assert "is inside an archive, from which no library can be loaded" in done.stderr


def test_names_of_the_module_for_torch():
    pytest.importorskip("torch")
    import hashattn.torch

    documented = {"attention", "density", "MultiheadAttention", "replace_attention", "extend_positions"}
    assert documented <= set(dir(hashattn.torch)) and documented <= set(hashattn.torch.__all__)
    assert not [name for name in dir(hashattn.torch) if name.startswith("_")]


def test_objects_print_their_settings():
    with hashattn.Context(threads=1) as context:
        attention = hashattn.Attention("yoso", context=context, num_hashes=8)
        attention.set(hash_bits=5)
        stream = hashattn.Stream(2, 8, batch=3, causal=True, context=context, num_hashes=4)
        made = [hashattn.Cache(4, 2, 16, context=context, **given)
                for given in ({}, {"mechanism": "hashed", "budget": 0.1}, {"mechanism": "hashed", "tolerance": 0.2})]
        expected = ["<hashattn.Attention mechanism='yoso' num_hashes=8 hash_bits=5>",
                    "<hashattn.Stream batch=3 heads=2 head_dim=8 causal=True mechanism='yoso' num_hashes=4>"]
        expected += [f"<hashattn.Cache heads=4 kv_heads=2 head_dim=16 dtype='float32' mechanism={more}>"
                     for more in ("'softmax'", "'hashed' budget=0.1", "'hashed' tolerance=0.2")]
        assert [repr(each) for each in (attention, stream, *made)] == expected
    assert [repr(each) for each in (attention, stream, *made)] == expected  # closed with the context
    assert repr(hashattn.mechanisms()["linear"]) == f"<hashattn.Mechanism 'linear': {hashattn.mechanisms()['linear'].summary}>"
    assert repr(hashattn.tasks()["text"]).startswith("<hashattn.Task 'text': classify your own documents")
