"""A text classifier for scikit-learn, which is needed for its tools only, not for this class.

Source: the task `text` of the tool. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Iterable

import numpy as np

from .errors import InvalidError, InvalidTypeError
from .options import mechanisms, tasks
from .run import Run
from .training import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""

    class ClassifierMixin:  # type: ignore[no-redef]
        """The same."""


_FILES = "config.json", "model.safetensors", "last.safetensors", "trainer.json", "tokenizer.json", "vocab.txt"
_OTHERS = "mechanism", "preset", "size", "start", "freeze"


def _texts_of(documents: Iterable[Any]) -> list[str]:
    if isinstance(documents, (str, bytes)):
        raise InvalidTypeError("one text is given, a list of texts is needed")
    texts = [document.item() if isinstance(document, np.generic) else document for document in documents]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidTypeError(f"document {index} is a {type(text).__name__}, a str is needed")
    return texts


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc,unused-ignore]
    """Classifies texts; `fit` trains a model of the task `text` in memory.

    TextClassifier(steps=1000, seed=1, num_hashes=64, ...) takes every option of `hashattn.train("text", ...)`, and
    mechanism, preset, size, start and freeze. A tenth of the documents is set aside to choose the best model, and
    another tenth is not used. It can be pickled, cloned, and searched with GridSearchCV.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return []

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options that were given."""
        return dict(self._options)

    def set_params(self, **options: Any) -> "TextClassifier":
        """Sets options. InvalidError (a ValueError): there is no such option."""
        known = {*tasks()["text"].options, *_OTHERS}
        for name in options:
            plain = name.split(".")[-1]
            if name not in known and not any(plain in mechanism.options for mechanism in mechanisms().values()):
                raise InvalidError(f"a text classifier has no option '{name}'")
        self._options = {**self._options, **options}
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stored")

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> "TextClassifier":
        """Trains on texts and their classes."""
        texts, given = _texts_of(X), np.asarray(list(y))
        self.classes_, places = np.unique(given, return_inverse=True)
        if len(texts) != len(given):
            raise InvalidError(f"there are {len(texts)} texts and {len(given)} classes")
        if len(self.classes_) < 2:
            raise InvalidError(f"all {len(texts)} texts have one class, at least 2 are needed")
        with tempfile.TemporaryDirectory(prefix="hashattn-") as folder:
            run = os.path.join(folder, "run")
            labels = [f"{place:06d}" for place in places]
            train("text", os.path.join(folder, "data"), run, texts=texts, labels=labels, progress=False,
                  **self._options).close()
            self._stored = {}
            for name in _FILES:
                if os.path.exists(os.path.join(run, name)):
                    with open(os.path.join(run, name), "rb") as file:
                        self._stored[name] = file.read()
        self._loaded: Run | None = None
        return self

    def _run(self) -> Run:
        if not hasattr(self, "_stored"):
            raise InvalidError("the classifier is not fitted yet")
        if self._loaded is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hashattn-")
            for name, content in self._stored.items():
                with open(os.path.join(self._folder.name, name), "wb") as file:
                    file.write(content)
            self._loaded = Run(self._folder.name)
        return self._loaded

    def predict_proba(self, X: Iterable[str]) -> np.ndarray:
        """(texts, classes), in the order of classes_."""
        run, texts = self._run(), _texts_of(X)
        rows = [list(found.probabilities.values()) for found in run.predict(texts, progress=False)]
        return np.array(rows, dtype=np.float64).reshape(len(texts), len(self.classes_))

    def predict(self, X: Iterable[str]) -> np.ndarray:
        """The most probable class of each text."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])

    def score(self, X: Iterable[str], y: Iterable[Any], sample_weight: Any = None) -> float:
        """The accuracy."""
        return float(np.average(self.predict(X) == np.asarray(list(y)), weights=sample_weight))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_loaded"] = None
        state.pop("_folder", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"TextClassifier({', '.join(f'{name}={value!r}' for name, value in self._options.items())})"
