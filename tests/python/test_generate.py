"""Run.generate: the texts of the tool, streaming, stops, Ctrl-C and errors; the former name of make_data.

Planted and caught: top_k lost; stop texts lost; the pieces of texts mixed; the seed of the run ignored; an exception of the
function swallowed; Ctrl-C that raises another error; texts that are not returned when the function ends them; the numbers of
bytes as stop texts; half a surrogate pair as a raw error.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import signal
import threading

import pytest

import hashattn
from conftest import run_tool


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("letters")
    (folder / "train.txt").write_text("Bär-ist_wo.\n" * 600, encoding="utf-8")
    hashattn.train("lm", folder, folder / "run", mechanism="yoso*1,softmax*1", progress=False, layers=1, dim=32, heads=2,
                   ffn=64, batch=16, seq_len=24, steps=100, eval_every=100, warmup=10, learning_rate=0.01, seed=3,
                   hash_bits=4, num_hashes=16, positions="sinusoidal", dropout=0)
    return folder / "run"


def test_texts_are_those_of_the_tool(letters):
    options = {"max_tokens": 30, "temperature": 3, "top_k": 40, "top_p": 0.97, "num": 10}
    flags = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
    theirs = [json.loads(line) for line in run_tool("generate", letters, "B", "--json", *flags).splitlines()]
    with hashattn.Run(letters) as run:
        ours = run.generate("B", **options)
        assert [one.text for one in ours] == [one["text"] for one in theirs]
        assert all(one.tokens == 30 and one.tokens_per_second > 0 and not one.stopped for one in ours)
        assert len({one.text for one in ours}) == 10
        assert [one.text for one in run.generate("B", seed=run.seed, **options)] == [one.text for one in ours]
        assert [one.text for one in run.generate("B", seed=run.seed + 1, **options)] != [one.text for one in ours]


def test_what_was_learned_goes_on(letters):
    with hashattn.Run(letters) as run:
        assert run.generate("wo.\nB", temperature=0, max_tokens=11)[0].text == "är-ist_wo."
        assert run.generate("B".encode(), temperature=9, top_k=1, max_tokens=11)[0].text == "är-ist_wo."
        stopped = run.generate("B", temperature=0, stop=["zz", "_wo"])
        assert stopped[0].text == "är-ist" and stopped[0].stopped and len(stopped) == 1
        assert run.generate("B", temperature=0, stop="t_")[0].text == "är-is"
        assert run.generate(temperature=0, max_tokens=13)[0].text == "Bär-ist_wo.\n"


def test_streaming(letters):
    with hashattn.Run(letters) as run:
        seen = {}

        def keep(index, added):
            seen[index] = seen.get(index, "") + added

        texts = run.generate("B", num=3, max_tokens=40, temperature=2, stream=keep)
        assert seen == {index: one.text for index, one in enumerate(texts)}
        ended = run.generate("B", max_tokens=40, temperature=0, stream=lambda index, added: added == "i")
        assert [one.text for one in ended] == ["är-i"] and ended[0].tokens == 5
        with pytest.raises(ZeroDivisionError):
            run.generate("B", stream=lambda index, added: 1 / 0)
        assert run.generate("B", max_tokens=2, temperature=0)[0].text == "ä"


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also where the shell ignores it, as for processes in the background."""
    held = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, held)


def test_ctrl_c(letters, interrupts):
    with hashattn.Run(letters) as run:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run.generate("B", max_tokens=10**7)
        timer.join()
        assert len(run.generate("B", max_tokens=3)) == 1


def test_refusals(letters, needles, tmp_path):
    with hashattn.Run(letters) as run:
        for kind, part, options in [
                (hashattn.InvalidError, "max_tokens is 0", {"max_tokens": 0}),
                (hashattn.InvalidError, "temperature is -1", {"temperature": -1}),
                (hashattn.InvalidError, "top_p is 2", {"top_p": 2}),
                (hashattn.InvalidError, "top_k is -1", {"top_k": -1}),
                (hashattn.InvalidError, "number of texts is 0", {"num": 0}),
                (hashattn.InvalidError, "stop text 1 is empty", {"stop": ""}),
                (TypeError, "prompt is a int", {"prompt": 3}),
                (TypeError, "stream is 3", {"stream": 3}),
                (hashattn.InvalidTypeError, "temperature is 'hot'; a number is needed", {"temperature": "hot"}),
                (hashattn.InvalidTypeError, "top_p is None; a number is needed", {"top_p": None}),
                (TypeError, "stop is b'x'", {"stop": [b"x"]}),
                (hashattn.InvalidTypeError, "stop is b'xy'; a text or several", {"stop": b"xy"}),
                (hashattn.InvalidTypeError, "stop is None; a text or several", {"stop": None}),
                (hashattn.InvalidTypeError, "stop is 5; a text is needed", {"stop": ["x", 5]}),
                (hashattn.InvalidError, r"prompt holds '\\ud800' at 1", {"prompt": "a\ud800"})]:
            with pytest.raises(kind, match=part):
                run.generate(**options)
    finder = hashattn.train("needle", needles, tmp_path / "run", progress=False, steps=2, eval_every=2, layers=1, dim=8,
                            heads=1, ffn=8)
    with pytest.raises(hashattn.RefusedError, match="a run of needle does not generate text"):
        finder.generate("x")


def test_the_former_name_of_make_data_says_so(tmp_path):
    with pytest.warns(DeprecationWarning, match="hashattn.generate is now hashattn.make_data; hashattn.Run.generate"):
        hashattn.generate("needle", tmp_path / "data", train=4, seq_len=16, marks=2)
    assert any((tmp_path / "data").iterdir())
