"""Texts in lists: training, prediction, and a classifier for scikit-learn. Planted and caught: predictions in another
order; classes as strings instead of their own type; files of the run cut in a pickle; the best parameters of a set that
was not asked for; a tenth of the texts left out; an attribute that predict sets; the counts of one label for all;
a note that every report repeats; the id of the document before; the name of a temporary file.
"""

import pickle
from pathlib import Path

import numpy as np
import pytest

import hashattn

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
    with pytest.raises(hashattn.InvalidTypeError, match="text 1 is a int"):
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
