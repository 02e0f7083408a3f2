"""Texts in lists: training, prediction, and a classifier for scikit-learn. Planted and caught: predictions in another
order; classes as strings instead of their own type; files of the run cut in a pickle; the best parameters of a set that
was not asked for; a tenth of the texts left out; an attribute that predict sets; the counts of one label for all;
a note that every report repeats; the id of the document before; the name of a temporary file; a column of classes compared
with each prediction; the columns of a table as texts, or as classes; labels of a Series by their index; the number of a class
in place of it; a file of the texts before one that is refused, or after a call that fails; NaN as a class of texts, numbers
beside texts as texts; a label that is missing, named by a line of a file; a label that JSON does not have; a relative path before
the name of a text; an error of the user's generator as one of the disk; a file of another process removed; a part of a file
left; the files of a fitted classifier removed by a fork, by a cleaner or by a second thread, or with a warning; a fork that
waits for a thread of the other process.
"""

import concurrent.futures
import gc
import os
import pickle
import resource
import shutil
import signal
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import hashattn
from hashattn import estimator

TINY = dict(layers=1, dim=16, heads=2, ffn=16, batch=8, max_len=32, learning_rate=0.02, tokens="bytes", steps=60,
            eval_every=20)
TEXTS = ["aaaa", "zzzz"] * 40


def test_texts_are_trained_on_and_predicted(tmp_path):
    with pytest.raises(hashattn.InvalidError, match="one of them is missing"):
        hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, progress=False)
    with pytest.raises(hashattn.InvalidError, match="there are 80 texts and 1 labels"):
        hashattn.train("text", tmp_path / "no", tmp_path / "run", texts=TEXTS, labels=["x"], progress=False)
    run = hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, labels=["low", "high"] * 40,
                         progress=False, **TINY)
    assert [found.label for found in run.predict(["zzzz", "aaaa", "zzzz"], progress=False)] == ["high", "low", "high"]
    assert run.predict([]) == []
    with pytest.raises(hashattn.InvalidError, match="reads single texts"):
        run.predict([("zzzz", "aaaa")])
    with pytest.raises(hashattn.InvalidTypeError, match=r"texts\[1\] is a str; a pair of texts is needed, as texts\[0\]"):
        run.predict([("zzzz", "aaaa"), "aaaa"])
    with pytest.raises(hashattn.InvalidTypeError, match=r"texts\[1\] is a int"):
        run.predict(["a", 5])
    assert run.evaluate("test", progress=False).examples == 8
    found = run.evaluate("train", progress=False)
    assert [of.examples for of in found.per_class.values()] == [sum(row) for row in found.confusion]
    assert run.predict(["zzzz"], progress=False)[0].labels == ("high",) and not run.label_sets
    run.close()
    run = hashattn.resume(tmp_path / "run", steps=80, progress=False)
    assert [line["step"] for line in run.log][-1] == 80


def test_predictions_have_the_names_of_their_files(tmp_path):
    run = hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, labels=["low", "high"] * 40,
                         progress=False, **TINY)
    lines, table, folder = tmp_path / "new.jsonl", tmp_path / "new.csv", tmp_path / "inbox"
    lines.write_text('{"text": "zzzz", "id": 17}\nbroken\n{"text": "aaaa", "id": "b, \\"c\\""}\n{"text": "zz", "id": 0.5}\n')
    table.write_text('id,Text\nx7,"zzzz, zzzz"\n')
    folder.mkdir()
    (folder / "1.txt").write_text("aaaa\naaaa")
    (folder / "2.txt").write_text("zzzz")
    (folder / "3.pdf").write_text("zzzz")
    with pytest.warns(UserWarning, match="1 file or folder is not read: .*inbox/3.pdf"):
        assert len(run.predict(folder, progress=False)) == 2
    (folder / "3.pdf").unlink()
    with pytest.raises(hashattn.BadFileError, match="new.jsonl: line 2: "):
        run.predict(lines, table, folder, progress=False)
    with pytest.warns(UserWarning, match="1 bad line left out, the first one: .*new.jsonl: line 2: "):
        found = run.predict(lines, table, folder, skip_bad=True, progress=False)
    names = [(17, lines), ('b, "c"', lines), (0.5, lines), ("x7", table), (None, folder / "1.txt"), (None, folder / "2.txt")]
    assert [(one.id, one.file) for one in found] == [(name, str(file)) for name, file in names]
    assert type(found[0].id) is int and [one.label for one in found] == ["high", "low", "high", "high", "low", "high"]
    assert [one.label for one in run.predict(folder / "1.txt", lines=True, progress=False)] == ["low", "low"]
    alone = run.predict(["zzzz"], progress=False)[0]
    assert (alone.id, alone.file) == (None, None) and alone.probabilities == found[5].probabilities
    run.close()
    assert hashattn.predict(tmp_path / "run", table, folder, progress=False) == found[3:]


def test_several_labels_of_a_text(tmp_path):
    texts, sets = ["aaaa", "zzzz", "aaaa zzzz", "mmmm"] * 20, [["food"], ["travel"], ["food", "travel"], []] * 20
    run = hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=texts, labels=sets, progress=False,
                         multi_label=True, **{**TINY, "steps": 200})
    found = run.predict(texts[:4], progress=False)
    assert run.label_sets and [list(one.labels) for one in found] == sets[:4] and found[2].label in sets[2]
    scores = run.evaluate("train", progress=False).per_class
    right = run.predict(texts, progress=False)
    assert list(scores) == ["food", "travel"] and scores["food"].f1 > 0.9 and 20 < scores["food"].examples < 40
    whole = run.evaluate(data=tmp_path / "data" / "train.jsonl", progress=False)
    for label, of in whole.per_class.items():
        hits = sum(label in has and label in one.labels for has, one in zip(sets, right))
        given, taken = sum(label in has for has in sets), sum(label in one.labels for one in right)
        assert of.examples == given and of.precision == hits / taken and of.recall == hits / given
    assert abs(whole.metrics["macro_f1"] - sum(of.f1 for of in whole.per_class.values()) / 2) < 1e-12
    assert whole.confusion == ()


def test_what_stops_an_export_is_told_before_training(tmp_path, capsys):
    """On stderr with progress=True, in the first report to a function, and not with progress=False."""
    words = dict(texts=TEXTS, labels=["low", "high"] * 40, **TINY)
    refusal = "export will refuse this run: a file of type yoso cannot describe the model: norm is pre (post is needed)"
    hashattn.train("text", tmp_path / "a", tmp_path / "one", progress=True, **words).close()
    shown = capsys.readouterr().err
    assert refusal in shown and "tokens is bytes (bpe is needed)" in shown
    notes = []
    hashattn.train("text", tmp_path / "b", tmp_path / "two", progress=lambda now: notes.append(now.note), **words).close()
    assert notes[0].startswith(refusal) and not any(notes[1:])
    hashattn.train("text", tmp_path / "c", tmp_path / "three", progress=False, **words).close()
    good = {**words, "tokens": "bpe", "norm": "post", "pooling": "first", "classifier": "gelu"}
    hashattn.train("text", tmp_path / "d", tmp_path / "four", progress=True, **good).close()
    assert "export" not in capsys.readouterr().err


def test_text_classifier():
    model = hashattn.TextClassifier(seed=1, **TINY)
    assert model.get_params()["steps"] == 60
    with pytest.raises(ValueError, match="no option 'stepps'"):
        model.set_params(stepps=1)
    with pytest.raises(hashattn.InvalidError, match="not fitted"):
        model.predict(["a"])
    for given, reason in ((None, "target y is None"), ([0.5] * 80, "continuous"), ([1, 2], "80 texts"), ([1] * 80, "one class"),
                          ([float("nan")] * 80, "NaN")):
        with pytest.raises(hashattn.InvalidError, match=reason):
            hashattn.TextClassifier(**TINY).fit(TEXTS, given)
    model.fit(TEXTS, np.array([7, -3] * 40))
    assert list(model.classes_) == [-3, 7]
    assert list(model.predict(["zzzz", "aaaa"])) == [-3, 7]
    chances = model.predict_proba(["zzzz", "aaaa", "zz"])
    assert chances.shape == (3, 2) and np.allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert model.score(TEXTS, [7, -3] * 40) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))


def test_the_files_of_a_text_classifier():
    """A fork, a cleaner of temporary files and threads leave it working, and it ends without a warning."""
    model = hashattn.TextClassifier(seed=1, **{**TINY, "steps": 2}).fit(TEXTS, [7, -3] * 40)
    expected = model.predict_proba(TEXTS[:4])
    child = os.fork()
    if child == 0:
        del model  # as a fit there does
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(model.predict_proba(TEXTS[:4]), expected)
    shutil.rmtree(model._run().path)
    assert np.array_equal(model.predict_proba(TEXTS[:4]), expected)
    for copied in [pickle.loads(pickle.dumps(model)) for _ in range(5)]:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for found in pool.map(copied.predict_proba, [TEXTS[:4]] * 4):
                assert np.array_equal(found, expected)
    path = model._run().path
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        del model
        gc.collect()
    assert not given and not os.path.exists(path)


def test_a_fork_does_not_wait_for_the_threads_of_the_other_process(monkeypatch):
    """One of them is loading the files of a text classifier."""
    model = hashattn.TextClassifier(seed=1, **{**TINY, "steps": 2}).fit(TEXTS, [7, -3] * 40)
    loading, end = threading.Event(), threading.Event()

    def load(path):
        loading.set()
        assert end.wait(60)
        return hashattn.Run(path)

    monkeypatch.setattr(estimator, "Run", load)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loaded = pool.submit(model._run)
        try:
            assert loading.wait(60)
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # ends a child that waits
                estimator.Run = hashattn.Run
                found = len(model.predict(TEXTS[:4]))
                shutil.rmtree(model._run().path)
                os._exit(0 if found == 4 else 1)
            assert os.waitpid(child, 0)[1] == 0
        finally:
            end.set()
        assert os.path.exists(loaded.result().path)


class Sparse:
    """As scipy.sparse.csr_matrix."""

    shape = (80, 1)

    def toarray(self):
        return np.array([[7], [-3]] * 40)


def test_sparse_classes():
    with pytest.raises(hashattn.InvalidTypeError, match=r"^y is a sparse Sparse; one class .* y.toarray\(\).ravel\(\)"):
        hashattn.TextClassifier(**TINY).fit(TEXTS, Sparse())


class Table:
    """As pandas.DataFrame: iteration gives the names of the columns."""

    def __init__(self, name, values):
        self.name, self.values, self.shape = name, values, (len(values), 1)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter([self.name])

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)[:, None]


class Series(list):
    """As pandas.Series after a shuffle: an element by its index, which is not its place."""

    def __getitem__(self, index):
        return super().__getitem__(-1 - index)


def test_tables_and_columns():
    few, classes = TEXTS[:8], ["low", "high"] * 4
    model = hashattn.TextClassifier(seed=1, **TINY).fit(TEXTS, ["low", "high"] * 40)
    right = model.score(few, classes)
    assert right == 1 and model.score(few, ["low"] * 8) == 0.5
    for column in (np.array(classes)[:, None], [[name] for name in classes], Table("label", classes)):
        with pytest.warns(UserWarning, match="column-vector y"):
            assert model.score(few, column) == right
        with pytest.warns(UserWarning, match="column-vector y"):
            fitted = hashattn.TextClassifier(**{**TINY, "steps": 1}).fit(few, column)
        assert list(fitted.classes_) == ["high", "low"]
    for given in (["low"], classes[:7], classes * 2, np.array([classes]), np.array([classes] * 8), np.array("low"), "lowlow"
                  "lo", "low", b"low"):
        with pytest.raises(ValueError, match="8 texts, and y has the shape|y is one "):
            model.score(few, given)
    for given in ("lhlhlhlh", b"lhlhlhlh"):  # a class for each text, if it were taken as letters
        with pytest.raises(ValueError, match="y is one "):
            hashattn.TextClassifier(**TINY).fit(few, given)
    assert model.score(few, ["low"] * 8, sample_weight=[3, 1] * 4) == 0.75
    for weights in ([1] * 7, np.ones((8, 1))):
        with pytest.raises(ValueError, match="8 texts, and sample_weight has the shape"):
            model.score(few, classes, weights)
    for table in (Table("text", few), np.array(few)[:, None], Table("text", ["aaaa"]), np.array("aaaa")):
        for call in (model.predict, model.predict_proba, lambda X: model.fit(X, classes), lambda X: model.score(X, classes)):
            with pytest.raises(hashattn.InvalidTypeError, match="X has the shape .*; a list of texts or one column"):
                call(table)


def test_lists_for_train(tmp_path):
    """Tables are refused, labels are taken in order, and what is refused leaves no file."""
    for texts, labels, reason in ((Table("text", TEXTS), ["low", "high"] * 40, "texts has the shape"),
                                  (TEXTS, Table("label", ["low", "high"] * 40), "labels has the shape"),
                                  (TEXTS, "lh" * 40, "labels is one str"), ("az" * 40, ["low", "high"] * 40, "texts is one str"),
                                  ([*TEXTS[:-1], 5], ["low", "high"] * 40, r"texts\[79\] is a int"),
                                  ([*TEXTS[:-1], "a\0"], ["low", "high"] * 40, r"texts\[79\]: character 2 of 2 is U\+0000"),
                                  ([("a", "b\ud800")] * 80, ["low", "high"] * 40, r"texts\[0\]\[1\]: character 2 of 2"),
                                  (TEXTS, ["low", "hi\0"] * 40, r"labels\[1\]: character 3 of 3"),
                                  (TEXTS, [["low"], ["hi\0"]] * 40, r"labels\[1\]: character 3 of 3")):
        with pytest.raises(hashattn.InvalidError, match=reason):
            hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=texts, labels=labels, progress=False, **TINY)
    hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, labels=Series(["low", "high"] * 40),
                   progress=False, **{**TINY, "steps": 1}).close()
    lines = (tmp_path / "data" / "train.jsonl").read_text().splitlines()
    assert lines == ['{"text": "aaaa", "label": "low"}', '{"text": "zzzz", "label": "high"}'] * 40


def test_a_call_that_fails_can_be_repeated(tmp_path):
    """It leaves no file, because there is no run that could read it; what stands there is not overwritten."""
    data, run, labels = tmp_path / "new" / "data", tmp_path / "run", ["low", "high"] * 40

    def train(labels, **options):
        return hashattn.train("text", data, run, texts=TEXTS, labels=labels, progress=False, **{**TINY, "steps": 1, **options})

    for reason, given, options in (("texts\\[0\\]: the label is empty", ["", "high"] * 40, {}), ("no option 'step'", labels, {"step": 3}),
                                   ("steps is 0", labels, {"steps": 0}), ("multiple of heads", labels, {"heads": 3})):
        with pytest.raises(hashattn.InvalidError, match=reason):
            train(given, **options)
        assert not data.exists() and not run.exists()
    data.mkdir(parents=True, exist_ok=True)
    (data / "notes.txt").write_text("mine")
    with pytest.raises(hashattn.InvalidError, match="steps is 0"):
        train(labels, steps=0)
    run.mkdir()
    with pytest.raises(hashattn.Error, match="run exists"):
        train(labels)
    run.rmdir()
    assert [each.name for each in data.iterdir()] == ["notes.txt"]
    with pytest.raises(RuntimeError, match="of the user"):
        hashattn.train("text", data, run, texts=TEXTS, labels=labels, progress=stops, **TINY)
    assert (data / "train.jsonl").exists() and run.exists()  # the run reads it when it goes on
    with pytest.raises(hashattn.InvalidError, match="train.jsonl exists already and is not overwritten"):
        train(labels)
    (tmp_path / "file").write_text("")
    with pytest.raises(hashattn.NoDiskError, match="file/train.jsonl: cannot write: "):
        hashattn.train("text", tmp_path / "file", tmp_path / "other", texts=TEXTS, labels=labels, progress=False, **TINY)


@pytest.mark.parametrize("data", ["data", "./new/../data", "link"])
def test_a_label_is_named_without_the_path_of_the_file(tmp_path, monkeypatch, data):
    """The library names files by their real paths."""
    monkeypatch.chdir(tmp_path)
    Path("new").mkdir()
    Path("real").mkdir()
    Path("link").symlink_to("real")
    with pytest.raises(hashattn.InvalidError, match=r"^texts\[0\]: the label is empty$"):
        hashattn.train("text", data, "run", texts=TEXTS, labels=["", "high"] * 40, progress=False, **TINY)
    assert not Path(data, "train.jsonl").exists()


def test_errors_of_iterables_are_not_of_the_disk(tmp_path):
    for place in ("texts", "labels"):
        given = {"texts": TEXTS, "labels": ["low", "high"] * 40, place: (open(name).read() for name in ["none.txt"])}
        with pytest.raises(FileNotFoundError, match="none.txt"):
            hashattn.train("text", tmp_path / "data", tmp_path / "run", progress=False, **given, **TINY)
        assert not (tmp_path / "data").exists()


def test_only_files_of_the_call_are_removed(tmp_path, monkeypatch):
    data, path = tmp_path / "data", tmp_path / "data" / "train.jsonl"
    words = dict(texts=["a" * 1000, "zzzz"] * 200, labels=["low", "high"] * 200, progress=False, **TINY)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, limits[1]))
    try:
        with pytest.raises(hashattn.NoDiskError, match="train.jsonl: cannot write: File too large"):
            hashattn.train("text", data, tmp_path / "run", **words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not data.exists()
    makedirs = os.makedirs

    def makes_a_file(*arguments, **options):  # as another process, at the last moment
        makedirs(*arguments, **options)
        path.write_text("of another process")

    monkeypatch.setattr(os, "makedirs", makes_a_file)
    with pytest.raises(hashattn.InvalidError, match="train.jsonl exists already and is not overwritten"):
        hashattn.train("text", data, tmp_path / "run", **words)
    assert path.read_text() == "of another process"


def stops(progress):
    raise RuntimeError("of the user")


class NAType:
    """Stands in for the type of pandas.NA, which compares with nothing."""

    def __eq__(self, other):
        raise TypeError("boolean value of NA is ambiguous")

    __lt__ = __eq__


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), NAType()])
def test_labels_that_are_missing(tmp_path, missing):
    """A cell without a value is no class, and the message has its place."""
    labels = ["low", missing] * 40
    with pytest.raises(hashattn.InvalidError, match=r"^labels\[1\] is .*: the label is missing$"):
        hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, labels=labels, progress=False, **TINY)
    for given in (labels, Series(np.array(labels, dtype=object))):
        with pytest.raises(hashattn.InvalidError, match=r"^Input y contains NaN or None: y\[1\] is "):
            hashattn.TextClassifier(**TINY).fit(TEXTS, given)


def test_labels_of_other_types(tmp_path):
    for label, reason in ((b"low", "bytes; a str"), ({"low"}, "set; a str"), (["low", {}], "dict; a str")):
        with pytest.raises(hashattn.InvalidTypeError, match=rf"^labels\[0\] is a {reason}, a bool or a number is needed$"):
            hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, labels=[label] * 80, progress=False, **TINY)
    with pytest.raises(hashattn.InvalidError, match=r"^labels\[1\] is inf; a finite number is needed$"):
        hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS, labels=[1.5, np.inf] * 40, progress=False,
                       label_type="number", **TINY)
    for given in ([1, "high"] * 40, np.array([1, "high"] * 40, dtype=object)):
        with pytest.raises(hashattn.InvalidTypeError, match="^y has classes of the types int, str, which have no order"):
            hashattn.TextClassifier(**TINY).fit(TEXTS, given)
    with pytest.raises(hashattn.InvalidError, match="^y has several classes for one text; one class for each text is needed$"):
        hashattn.TextClassifier(**TINY).fit(TEXTS, [["low"], ["low", "high"]] * 40)
    with pytest.raises(hashattn.InvalidTypeError, match=r"^X\[1\] is a int; a str is needed$"):
        hashattn.TextClassifier(**TINY).fit(["a", 5], ["low", "high"])
    with pytest.raises(hashattn.InvalidError, match="^there are no texts to train on$"):
        hashattn.TextClassifier(**TINY).fit([], [])


def test_classes_of_one_text_each(tmp_path):
    """The message has the user's class, and no option that the classifier does not take."""
    classes = ["many"] * 7 + [f"class {i}" for i in range(13)]
    with pytest.raises(hashattn.InvalidError, match="^13 of 14 classes have one text each, such as 'class 0'; of 20 texts, at "
                                                    "most 10 may be the only one of their class$"):
        hashattn.TextClassifier(**TINY).fit(TEXTS[:20], classes)
    quick = {**TINY, "steps": 1}
    assert len(hashattn.TextClassifier(**quick).fit(TEXTS[:20], ["many"] * 10 + classes[7:17]).classes_) == 11
    with pytest.raises(hashattn.BadFileError, match="11 of 12 labels occur once"):  # so the number 10 is that of the task
        hashattn.train("text", tmp_path / "data", tmp_path / "run", texts=TEXTS[:20], labels=["many"] * 9 + classes[7:18],
                       progress=False, **quick)
    assert len(hashattn.TextClassifier(**quick).fit(TEXTS[:19], range(19)).classes_) == 19


def test_text_classifier_in_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    model = hashattn.TextClassifier(seed=1, **TINY)
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(model, {"steps": [1, 60]}, cv=2).fit(TEXTS, ["low", "high"] * 40)
    assert search.best_params_ == {"steps": 60} and search.predict(["zzzz"])[0] == "high"


def test_all_texts_are_trained_on_unless_early_stopping_is_asked_for(monkeypatch):
    """The parameters are the last ones of a training on all texts; with early stopping a tenth of each class chooses them."""
    from hashattn import estimator

    seen = []

    def spy(task, data, run, **keywords):
        made = hashattn.train(task, data, run, **keywords)
        seen.append((made.evaluate("train", progress=False).examples, made.evaluate("valid", progress=False).examples,
                     [line["step"] for line in made.log][-1], (Path(run) / "last.safetensors").read_bytes()))
        return made

    monkeypatch.setattr(estimator, "train", spy)
    model = hashattn.TextClassifier(seed=1, **TINY).fit(TEXTS, ["low", "high"] * 40)
    assert seen[-1][:3] == (80, 2, 60) and model._stored.files["model.safetensors"] == seen[-1][3]
    early = dict(TINY, steps=2000, eval_every=5)
    hashattn.TextClassifier(seed=1, early_stopping=True, patience=3, best="loss", **early).fit(TEXTS, ["low", "high"] * 40)
    assert seen[-1][:2] == (72, 8) and seen[-1][2] < 2000
    with pytest.raises(hashattn.InvalidError, match="patience needs early_stopping=True"):
        hashattn.TextClassifier(patience=3, **TINY).fit(TEXTS, ["low", "high"] * 40)
    with pytest.raises(hashattn.InvalidError, match="no option 'text_column'"):
        hashattn.TextClassifier(text_column="x", **TINY).fit(TEXTS, ["low", "high"] * 40)


#: Checks of scikit-learn that are not meant for texts, or for an estimator whose options are keywords.
NOT_MEANT = {
    "check_do_not_raise_errors_in_init_or_set_params": "options are keywords, and set_params refuses an unknown name",
    "check_n_features_in": "texts have no features",
    "check_n_features_in_after_fitting": "the same",
    "check_estimators_empty_data_messages": "the same",
    "check_classifiers_train": "the same, for the texts to predict",
    "check_estimators_nan_inf": "a text may say nan",
    "check_complex_data": "a text may say 1+2j",
    "check_dtype_object": "an object that is no text is refused in other words",
    "check_estimator_sparse_tag": "texts are no sparse matrix",
    "check_estimator_sparse_array": "the same",
    "check_estimator_sparse_matrix": "the same",
    "check_classifier_data_not_an_array": "texts are a sequence",
    "check_fit1d": "the rows below have two dimensions",
    "check_fit2d_predict1d": "the same",
}


class Rows(hashattn.TextClassifier):
    """Writes rows of numbers as texts, so that the checks that need arrays run too."""

    def fit(self, X, y):
        return super().fit([" ".join(f"{value:.3f}" for value in row) for row in np.asarray(X)], y)

    def predict_proba(self, X):
        return super().predict_proba([" ".join(f"{value:.3f}" for value in row) for row in np.asarray(X)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = False, True
        tags.classifier_tags.poor_score = True
        return tags


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    pytest.importorskip("sklearn", minversion="1.6")
    from sklearn.utils.estimator_checks import check_estimator

    quick = dict(TINY, steps=1, max_len=64)
    found = check_estimator(hashattn.TextClassifier(**quick), on_skip=None)  # of texts: the tags, then it stops
    found += check_estimator(Rows(**quick), expected_failed_checks=NOT_MEANT, on_skip=None, on_fail=None)
    assert not {one["check_name"]: str(one["exception"]) for one in found if one["status"] == "failed"}
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == NOT_MEANT.keys()
    passed = {one["check_name"] for one in found if one["status"] == "passed"}
    assert {"check_dict_unchanged", "check_estimators_pickle", "check_fit_idempotent", "check_estimators_unfitted",
            "check_requires_y_none", "check_supervised_y_2d", "check_classifiers_one_label"} <= passed
