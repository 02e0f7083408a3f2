"""train, resume, evaluate, predict and Run: the bits and numbers of the tool, progress, stops, Ctrl-C.

Planted and caught: Ctrl-C lost in a callback; no handler for it; an exception of the progress function swallowed;
labels in the wrong order; options set before the mechanism; options that are text left at their defaults;
dates of the rows that were read for those of the forecast.
SPDX-License-Identifier: Apache-2.0
"""

import json
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import hashattn
from conftest import TINY, run_tool
from hashattn import _library


def tool_flags(options):
    return [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


def parameters(run):
    return (run / "model.safetensors").read_bytes(), (run / "last.safetensors").read_bytes()


def test_a_run_has_the_bits_of_the_tool(needles, tmp_path):
    reports = []
    run = hashattn.train("needle", needles, tmp_path / "ours", progress=reports.append, **TINY)
    run_tool("train", "needle", "--data", needles, "--out", tmp_path / "theirs", *tool_flags(TINY))
    assert parameters(tmp_path / "ours") == parameters(tmp_path / "theirs")
    assert reports[-1].step == reports[-1].steps == TINY["steps"]
    assert {report.step for report in reports} == set(range(1, 21))
    assert "accuracy" in reports[-1].valid and "loss" in reports[-1].best and reports[-1].learning_rate >= 0
    assert (run.task, run.mechanism, run.seed, run.predicts) == ("needle", "yoso", 3, False)
    assert run.num_params > 0 and run.data == str(needles) and len(run.labels) == 16
    assert [line["step"] for line in run.log if "step" in line][-1] == 20
    theirs = json.loads(run_tool("eval", tmp_path / "theirs", "--json"))
    found = run.evaluate(progress=False)
    assert found.examples == 16 and found.metrics["accuracy"] == pytest.approx(theirs["accuracy"])
    assert found.metrics["loss"] == pytest.approx(theirs["loss"])
    other = hashattn.evaluate(tmp_path / "ours", "valid", data=needles, seed=1, progress=False, num_hashes=9)
    assert other.examples == 16


def test_runs_are_compared_as_by_the_tool(needles, tmp_path):
    for name, seed in (("one", 3), ("two", 4)):
        hashattn.train("needle", needles, tmp_path / name, progress=False, **{**TINY, "seed": seed})
    theirs = json.loads(run_tool("eval", tmp_path / "one", "--against", tmp_path / "two", "--json"))
    with hashattn.Run(tmp_path / "one") as one, hashattn.Run(tmp_path / "two") as two:
        steps = []
        found = one.compare(two, progress=lambda now: steps.append(now.step))
        assert steps == list(range(1, 33)) and found.examples == theirs["examples"] == 16
        assert set(found.metrics) == set(theirs["metrics"]) == {"accuracy", "loss"}
        for name, values in found.metrics.items():
            assert (values.value, values.other) == (theirs["metrics"][name]["run"], theirs["metrics"][name]["against"])
            for key in ("difference", "standard_error", "z", "p"):
                assert getattr(values, key) == pytest.approx(theirs["metrics"][name][key], abs=1e-12)
        with pytest.raises(hashattn.InvalidTypeError, match="against is a str"):
            one.compare("two")
        with hashattn.Context(threads=1) as context, hashattn.Run(tmp_path / "two", context=context) as apart:
            with pytest.raises(hashattn.InvalidError, match="different contexts"):
                one.compare(apart)
    with hashattn.Run(tmp_path / "one") as one, pytest.raises(hashattn.InvalidError, match="closed"):
        one.compare(two, progress=False)


def test_mechanisms_have_their_options(needles, tmp_path):
    options = {**TINY, "steps": 2, "eval_every": 1}
    del options["num_hashes"]
    run = hashattn.train("needle", needles, tmp_path / "run", mechanism="local*1,lha*1", num_buckets=4, progress=False,
                         **{"lha.hash": "linear", **options})
    assert run.mechanism == "local*1,lha*1"


def test_options_that_are_text_have_the_bits_of_the_tool(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for name, repeats in (("train", 60), ("valid", 10), ("test", 10)):
        (texts / f"{name}.txt").write_text("one two one three two one four one two five\n" * repeats)
    options = {**TINY, "vocabulary": "words", "seq_len": 16, "cutoffs": "3,5", "div_value": 2, "learning_rate": 0.02}
    run = hashattn.train("lm", texts, tmp_path / "ours", progress=False, **options)
    run_tool("train", "lm", "--data", texts, "--out", tmp_path / "theirs", *tool_flags(options))
    assert parameters(tmp_path / "ours") == parameters(tmp_path / "theirs")
    assert hashattn.tasks()["lm"].options["cutoffs"].type is str and 1 < run.evaluate(progress=False).metrics["perplexity"] < 9
    with pytest.raises(hashattn.InvalidError, match="cutoffs is '5,3', and 3 is not above 5"):
        hashattn.train("lm", texts, tmp_path / "no", progress=False, **{**options, "cutoffs": "5,3"})


def test_generated_data_are_those_of_the_tool(needles, tmp_path):
    run_tool("data", "needle", "--out", tmp_path / "d", "--train", 64, "--valid", 16, "--test", 16, "--seed", 1,
             "--seq-len", 64, "--marks", 8)
    names = sorted(path.name for path in needles.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "d").iterdir()) and names
    assert all((needles / name).read_bytes() == (tmp_path / "d" / name).read_bytes() for name in names)


def test_prepared_data_are_those_of_the_tool(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("".join(f"The cat sat on mat {i}. The dog ran.\n\n" for i in range(200)))
    with hashattn.Tokenizer.learn(text, 300, progress=False) as tokenizer:
        tokenizer.save(tmp_path / "tokens")
    reports = []
    made = hashattn.prepare("mlm", [text], tmp_path / "ours", tmp_path / "tokens", seed=2, progress=reports.append,
                            seq_len=20, test_share=0.1)
    run_tool("data", "mlm", text, "--tokenizer", tmp_path / "tokens", "--out", tmp_path / "theirs", "--seed", 2,
             "--seq-len", 20, "--test-share", 0.1)
    for name in ("train.tokens", "valid.tokens", "test.tokens", "tokenizer.json"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
    assert made.documents == 200 and min(made.examples) > 0 and reports[-1].step == text.stat().st_size
    task = hashattn.tasks()["mlm"]
    assert task.prepares and task.presets == ("bert",) and task.options["seq_len"].owner == "data"
    run = hashattn.train("mlm", tmp_path / "ours", tmp_path / "run", size="tiny", steps=2, batch=4, eval_every=2,
                         mechanism="softmax", progress=False)
    assert {"masked_tokens.perplexity", "classify.accuracy"} <= set(run.evaluate(progress=False).metrics)
    with pytest.raises(hashattn.RefusedError, match="lm is not made from texts"):
        hashattn.prepare("lm", text, tmp_path / "x", tmp_path / "tokens")
    with pytest.raises(KeyboardInterrupt):
        hashattn.prepare("mlm", text, tmp_path / "x", tmp_path / "tokens", progress=_interrupt)


def _interrupt(now):
    raise KeyboardInterrupt


def test_predictions(text_run, tmp_path):
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in ["aaaaa", "zzzz", "aaab", "zzzzzzz"]))
    reports = []
    found = hashattn.predict(text_run, documents, progress=reports.append)
    assert [one.label for one in found] == ["low", "high", "low", "high"]
    assert reports[-1].step == reports[-1].steps == 4
    theirs = [json.loads(line) for line in run_tool("predict", text_run, documents).splitlines()]
    for one, other in zip(found, theirs):
        assert one.label == other["label"] and one.probabilities == pytest.approx(other["probabilities"], abs=1e-6)
    with hashattn.Run(text_run) as run:
        assert run.predict(documents, progress=False) == found and run.labels == ("high", "low")
    with pytest.raises(ValueError, match="closed"):
        run.predict(documents)


def test_forecasts(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("when,a,b\n" + "".join(f"2020-01-{day:02d},{day},{day % 7}\n" for day in range(1, 32)))
    run = hashattn.train("forecast", table, tmp_path / "run", progress=False, model="last", date_column="when", seq_len=5,
                         horizon=3, features="S", target="a", steps=1, eval_every=1)
    found = run.forecast(progress=False)
    assert found.dates == ("2020-02-01", "2020-02-02", "2020-02-03") and found.columns == ("a",)
    assert found.values.shape == (3, 1) and found.values == pytest.approx(31)
    theirs = [line.split(",") for line in run_tool("predict", tmp_path / "run", table).splitlines()]
    assert theirs[0] == ["when", "a"] and [row[0] for row in theirs[1:]] == list(found.dates)
    table.write_text("".join(table.read_text().splitlines(True)[:21]))
    assert run.forecast(table, progress=False).values == pytest.approx(20)
    with pytest.raises(hashattn.RefusedError, match="it forecasts tables"):
        run.predict(table, progress=False)
    with pytest.raises(OSError, match="none.csv"):
        run.forecast("none.csv", progress=False)
    assert found.quantiles == {} and found.series is None


def test_forecasts_of_quantiles_and_series(tmp_path):
    table = tmp_path / "table.csv"
    rows = [f"2020-{1 + day // 28:02d}-{1 + day % 28:02d},{shop},{day % 7}\n" for day in range(56) for shop in ("n", "s")]
    table.write_text("date,shop,x\n" + "".join(row for i, row in enumerate(rows) if i != 40))
    with hashattn.Context(threads=1) as context:
        run = hashattn.train("forecast", table, tmp_path / "run", progress=False, context=context, model="dlinear", seq_len=7,
                             horizon=2, series_column="shop", missing="last", quantiles="0.2,0.7", steps=5, eval_every=5)
        with pytest.warns(UserWarning, match="missing row"):
            found = run.forecasts(progress=False)
        assert [of.series for of in found] == ["n", "s"] and list(found[0].quantiles) == [0.2, 0.7]
        assert (found[1].quantiles[0.2] <= found[1].quantiles[0.7]).all()
        assert np.array_equal(found[1].quantiles[0.7], found[1].values) and found[1].values.shape == (2, 1)
        with pytest.raises(hashattn.InvalidError, match="2 series"), pytest.warns(UserWarning):
            run.forecast(progress=False)


def test_a_stop_and_resume_change_nothing(needles, tmp_path):
    stopped = hashattn.train("needle", needles, tmp_path / "a", progress=lambda now: now.step == 13, **TINY)
    assert isinstance(stopped, hashattn.Run)  # the evaluation of step 10 wrote the model
    steps = []
    hashattn.resume(tmp_path / "a", progress=lambda now: steps.append(now.step))
    assert steps[0] == 14
    with pytest.raises(ValueError, match="precision is given, and a resumed training has that of its run"):
        hashattn.resume(tmp_path / "a", context=hashattn.Context(precision="bf16"))
    hashattn.train("needle", needles, tmp_path / "b", progress=False, **TINY)
    assert parameters(tmp_path / "a") == parameters(tmp_path / "b")
    assert stopped.last_step is None


def test_the_data_of_a_run_may_move(needles, tmp_path):
    shutil.copytree(needles, tmp_path / "before")
    run = hashattn.train("needle", tmp_path / "before", tmp_path / "run", progress=False, **TINY)
    (tmp_path / "before").rename(tmp_path / "after")
    with pytest.raises(OSError, match="before: the data of the run is not there"):
        hashattn.resume(tmp_path / "run", steps=30, progress=False)
    run = hashattn.resume(tmp_path / "run", steps=30, data=tmp_path / "after", progress=False)
    assert run.evaluate("valid", progress=False).metrics["loss"] > 0  # at the place that the run records


def test_a_run_stopped_before_its_first_evaluation_has_its_last_parameters(needles, tmp_path):
    with pytest.warns(UserWarning, match="c has no best model yet; these are its last parameters, of training step 1$"):
        run = hashattn.train("needle", needles, tmp_path / "c", progress=lambda now: True, **TINY)
    assert run.last_step == 1
    assert run.evaluate("valid", progress=False).metrics["loss"] > 0


def test_an_exception_of_the_progress_function_is_raised_after_saving(needles, tmp_path, text_run):
    def fail(now):
        if now.step == 5:
            raise LookupError("from the function")

    with pytest.raises(LookupError, match="from the function"):
        hashattn.train("needle", needles, tmp_path / "run", progress=fail, **TINY)
    assert (tmp_path / "run" / "last.safetensors").exists()
    with hashattn.Run(text_run) as run:
        with pytest.raises(ZeroDivisionError):
            run.evaluate("train", progress=lambda now: 1 / 0)
        with pytest.raises(hashattn.Interrupted, match="stopped after 8 of 48 examples"):
            run.evaluate("train", progress=lambda now: True)
        assert run.evaluate("train", progress=False).examples == 48
    with pytest.raises(TypeError, match="progress is 'bar'"):
        hashattn.evaluate(text_run, progress="bar")


def test_a_callback_may_not_use_the_busy_context(needles, tmp_path):
    q = __import__("numpy").ones((4, 8), "f4")
    other = hashattn.Context(threads=1)

    def watch(now):
        assert hashattn.attention(q, q, q, context=other).shape == (4, 8)
        hashattn.attention(q, q, q)

    with pytest.raises(RuntimeError, match="the context is busy"):
        hashattn.train("needle", needles, tmp_path / "run", progress=watch, **TINY)


# A test may run where SIGINT is ignored, as in the background of a shell.
INTERRUPTED = """
    import os, signal, sys
    import hashattn
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sent = []
    def watch(now):
        if now.step == 7 and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
    try:
        hashattn.train("needle", sys.argv[1], sys.argv[2], progress=watch, steps=20, batch=8, layers=1, dim=16, heads=2,
                       ffn=16, eval_every=10, seed=3, num_hashes=8)
    except KeyboardInterrupt as error:
        print(type(error).__name__, error)
        raise
"""


def test_ctrl_c_saves_and_exits(needles, tmp_path):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(INTERRUPTED), needles, tmp_path / "run"],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGINT, done.stderr  # 130 in a shell
    assert done.stdout.startswith("KeyboardInterrupt stopped after step") and "hashattn.resume(" in done.stdout
    assert "Exception ignored" not in done.stderr
    run_tool("train", "--resume", tmp_path / "run")
    hashattn.train("needle", needles, tmp_path / "other", progress=False, **TINY)
    assert parameters(tmp_path / "run") == parameters(tmp_path / "other")


def test_ctrl_c_ends_an_evaluation(text_run):
    code = """
        import os, signal, sys
        import hashattn
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            hashattn.evaluate(sys.argv[1], "train", progress=lambda now: os.kill(os.getpid(), signal.SIGINT))
        except KeyboardInterrupt as error:
            print(error)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), text_run], capture_output=True, text=True,
                          timeout=100)
    assert done.returncode == 0 and done.stdout == "stopped after 8 of 48 examples\n", done.stderr


def test_bars_of_tqdm(needles, tmp_path, monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    made = []

    class Bar(tqdm.tqdm):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **{**keywords, "disable": False, "file": open(tmp_path / "bar", "w")})
            made.append(self)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    run = hashattn.train("needle", needles, tmp_path / "run", **TINY)
    assert made[0].n == made[0].total == 20 and made[0].unit == "step"
    run.evaluate()
    assert made[1].n == made[1].total == 16 and made[1].unit == "example"


def test_bad_trainings(needles, tmp_path, text_run):
    (tmp_path / "there").mkdir()
    for kind, message, call in [
        (ValueError, "no task 'needles'", lambda: hashattn.train("needles", needles, tmp_path / "x")),
        (ValueError, "there", lambda: hashattn.train("needle", needles, tmp_path / "there")),
        (OSError, "nowhere", lambda: hashattn.train("needle", tmp_path / "nowhere", tmp_path / "x")),
        (ValueError, "no option 'layer'", lambda: hashattn.train("needle", needles, tmp_path / "x", layer=1)),
        (ValueError, "preset", lambda: hashattn.train("needle", needles, tmp_path / "x", preset="lra")),
        (ValueError, "no mechanism 'y'", lambda: hashattn.train("needle", needles, tmp_path / "x", mechanism="y")),
        (TypeError, "data is None", lambda: hashattn.train("needle", None, tmp_path / "x")),
        (ValueError, "zero byte", lambda: hashattn.train("needle", needles, "x\0y")),
        (OSError, "nowhere", lambda: hashattn.resume(tmp_path / "nowhere")),
        (OSError, "nowhere", lambda: hashattn.Run(tmp_path / "nowhere")),
        (OSError, "nowhere.jsonl", lambda: hashattn.predict(text_run, "nowhere.jsonl", progress=False)),
        (ValueError, "split is 'tset', allowed are train, valid, test", lambda: hashattn.evaluate(text_run, "tset")),
        (ValueError, "has no option 'dim'", lambda: hashattn.Run(text_run, dim=5)),
        (ValueError, "text cannot be generated", lambda: hashattn.make_data("text", tmp_path / "g")),
        (ValueError, "train is -1", lambda: hashattn.make_data("needle", tmp_path / "g", train=-1)),
    ]:
        with pytest.raises(kind, match=message) as caught:
            call()
        assert isinstance(caught.value, hashattn.Error)
    assert not (tmp_path / "x").exists()


def test_warnings_of_the_library_are_warnings():
    from hashattn.progress import Progress, Watch

    watch = Watch(False, "step")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert watch(Progress(1, 2, warning="cannot save: disk full")) == 0
        assert watch(Progress(2, 2, warning="cannot save: disk full")) == 0
    assert [str(warning.message) for warning in caught] == ["cannot save: disk full"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert watch(Progress(2, 2, warning="another")) == 1
    assert isinstance(watch.error, RuntimeWarning)


def test_the_tool_is_here():
    assert _library.TOOL.exists()


def test_a_run_starts_from_a_run(needles, tmp_path):
    given = {**TINY, "steps": 4, "eval_every": 2}
    first = hashattn.train("needle", needles, tmp_path / "first", progress=False, **given)
    notes = []
    options = dict(epochs=0.25, batch=8, num_hashes=4, seed=3)  # without one, the tool takes 0 and we 1
    tuned = hashattn.train("needle", needles, tmp_path / "tuned", mechanism="yoso", start=tmp_path / "first",
                           freeze=["trunk"], progress=lambda now: notes.append(now.note), **options)
    assert tuned.num_params == first.num_params and [note != "" for note in notes] == [True] + [False] * (len(notes) - 1)
    assert notes[0].startswith(f"starts from {tmp_path / 'first'}: ")
    run_tool("train", "needle", "--data", needles, "--out", tmp_path / "tool", "--from", tmp_path / "first", "--attention",
             "yoso", "--freeze", "trunk", *tool_flags(options))
    assert parameters(tmp_path / "tuned") == parameters(tmp_path / "tool")
    with pytest.raises(hashattn.InvalidError, match="dim is 16 in .*, where training starts; it cannot be 32"):
        hashattn.train("needle", needles, tmp_path / "other", start=tmp_path / "first", dim=32)
    with pytest.raises(hashattn.InvalidError, match="no parameter is called 'head'"):
        hashattn.train("needle", needles, tmp_path / "other", start=tmp_path / "first", freeze="trunk,head")
    with pytest.raises(hashattn.BadFileError, match="cannot open"):
        hashattn.train("needle", needles, tmp_path / "other", start=tmp_path / "nowhere")
