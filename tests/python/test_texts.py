"""Texts in lists: training, prediction, and a classifier for scikit-learn. Planted and caught: predictions in another
order; classes as strings instead of their own type; files of the run cut in a pickle.
"""

import pickle

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
    run.close()
    run = hashattn.resume(tmp_path / "run", steps=80, progress=False)
    assert [line["step"] for line in run.log][-1] == 80


def test_text_classifier():
    model = hashattn.TextClassifier(seed=1, **TINY)
    assert model.get_params()["steps"] == 60
    with pytest.raises(ValueError, match="no option 'stepps'"):
        model.set_params(stepps=1)
    with pytest.raises(hashattn.InvalidError, match="not fitted"):
        model.predict(["a"])
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
