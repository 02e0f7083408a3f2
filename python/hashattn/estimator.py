"""A text classifier for scikit-learn, which is needed for its tools only, not for this class.

Source: the task `text` of the tool. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import warnings
import weakref
from typing import Any, Iterable

import numpy as np

from .context import forks
from .errors import InvalidError, InvalidTypeError, named
from .options import mechanisms, tasks
from .run import Run
from .texts import check_characters, is_missing, listed, write_texts
from .training import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from sklearn.exceptions import DataConversionWarning  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from sklearn.exceptions import NotFittedError  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""

    class ClassifierMixin:  # type: ignore[no-redef]
        """The same."""

    class NotFittedError(ValueError):  # type: ignore[no-redef]
        """The same."""

    DataConversionWarning = UserWarning


class _NotFitted(InvalidError, NotFittedError):  # type: ignore[misc,unused-ignore]
    """Both packages' error of an estimator that is not fitted."""


_FILES = "config.json", "model.safetensors", "tokenizer.json", "vocab.txt"
_OTHERS = "mechanism", "preset", "size", "start", "freeze", "early_stopping"
#: Options of the task that say what files hold.
_OF_FILES = "text_column", "label_column", "label_type", "multi_label", "delimiter", "encoding", "header"
#: From this number on the task refuses texts of which more than half are the only one of their class; here the refusal
#: names the class, and no option that files have.
_MANY_TEXTS = 20


class _Stored:
    """The files of a fitted run in memory. They are written and loaded when they are first needed, and again if a program
    that cleans temporary files has removed them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self._run: Run | None = None
        self._folder = ""
        self._locks: dict[int, threading.Lock] = {}  # by `forks`: one that was copied may be held for ever

    def run(self) -> Run:
        with self._locks.setdefault(forks(), threading.Lock()):
            if self._run is None or not all(os.path.exists(os.path.join(self._folder, name)) for name in self.files):
                folder = tempfile.mkdtemp(prefix="hashattn-")
                weakref.finalize(self, _remove, folder, os.getpid())
                for name, content in self.files.items():
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(content)
                self._run, self._folder = Run(folder), folder
            return self._run

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["files"])  # type: ignore[misc]


def _remove(folder: str, process: int) -> None:
    """A fork leaves the folder to the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _texts_of(documents: Iterable[Any]) -> list[str]:
    texts = [document.item() if isinstance(document, np.generic) else document for document in listed("X", documents)]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidTypeError(f"X[{index}] is a {type(text).__name__}; a str is needed")
        check_characters(f"X[{index}]", text)
    return texts


def _labels_of(y: Any, count: int) -> np.ndarray:
    """(count) classes, one for each text; those of a column too, with a warning."""
    if y is None:
        raise InvalidError("TextClassifier requires y to be passed, but the target y is None")
    if isinstance(y, (str, bytes)):
        raise InvalidTypeError(f"y is one {type(y).__name__}, a list of classes is needed")
    if hasattr(y, "toarray"):
        raise InvalidTypeError(f"y is a sparse {type(y).__name__}; one class for each text is needed, as y.toarray().ravel() has "
                               "them if y is one column")
    elements = y if hasattr(y, "shape") else list(y)  # iterating over a table gives the names of its columns
    try:
        given = np.asarray(elements)
        objects = np.asarray(elements, dtype=object)
        if given.dtype.kind == "U" and not all(isinstance(label, str) for label in objects.flat):
            given = objects  # in which numbers and NaN beside texts have not become texts
    except ValueError:
        raise InvalidError("y has several classes for one text; one class for each text is needed") from None
    if given.ndim == 2 and given.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected; its column is taken",
                      DataConversionWarning, stacklevel=3)
        given = given[:, 0]
    if given.shape != (count,):
        raise InvalidError(f"there are {count} texts, and y has the shape {given.shape}")
    return given


def _classes_of(given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes, and the place of each text's class among them."""
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise InvalidError("Input y contains NaN or infinity")
    if given.dtype.kind == "f" and (given != np.floor(given)).any():
        raise InvalidError("Unknown label type: continuous; a class for each text is needed, and "
                           "hashattn.train(..., label_type='number') predicts numbers")
    count = len(given)
    if given.dtype.kind == "O":
        for index, label in enumerate(given):
            if is_missing(label):
                raise InvalidError(f"Input y contains NaN or None: y[{index}] is {label!r}")
    try:
        classes, places, counts = np.unique(given, return_inverse=True, return_counts=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in given})
        raise InvalidTypeError(f"y has classes of the types {', '.join(kinds)}, which have no order; one type is needed") from None
    if count == 0:
        raise InvalidError("there are no texts to train on")
    if len(classes) < 2:
        raise InvalidError(f"all {count} texts are of one class, at least 2 classes are needed")
    once = np.flatnonzero(counts == 1)
    if count >= _MANY_TEXTS and len(once) > count // 2:
        raise InvalidError(f"{len(once)} of {len(classes)} classes have one text each, such as {classes.tolist()[once[0]]!r}; "
                           f"of {count} texts, at most {count // 2} may be the only one of their class")
    return classes, places


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc,unused-ignore]
    """Classifies texts; `fit` trains a model of the task `text` in memory.

    TextClassifier(steps=1000, seed=1, num_hashes=64, ...) takes every option of `hashattn.train("text", ...)` but those
    of files, and mechanism, preset, size, start and freeze. All texts are trained on, for all steps.
    TextClassifier(early_stopping=True, patience=10, best="macro_f1") instead sets a tenth of each class aside, keeps
    the model that is best on it by a metric, and stops after `patience` evaluations without a better one (default 10).
    It can be pickled, cloned, and searched with GridSearchCV.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return []

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options that were given."""
        return dict(self._options)

    def set_params(self, **options: Any) -> "TextClassifier":
        """Sets options. InvalidError (a ValueError): there is no such option."""
        known = {*tasks()["text"].options, *_OTHERS}.difference(_OF_FILES)
        for name in options:
            plain = name.split(".")[-1]
            if name not in known and not any(plain in mechanism.options for mechanism in mechanisms().values()):
                raise InvalidError(f"a text classifier has no option '{name}'")
        self._options = {**self._options, **options}
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stored")

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> "TextClassifier":
        """Trains on texts and their classes, lists or single columns. InvalidError (a ValueError): a table of texts, another
        number of classes, or a text that the library's files cannot have, named X[i]."""
        texts = _texts_of(X)
        classes, places = _classes_of(_labels_of(y, len(texts)))
        labels = [f"{place:06d}" for place in places]
        options = dict(self.set_params(**self._options).get_params())
        early = options.pop("early_stopping", False)
        if early:
            options = {"patience": 10, **options}
        for name in () if early else ("patience", "best"):
            if name in options:
                raise InvalidError(f"{name} needs early_stopping=True, which sets texts aside")
        with tempfile.TemporaryDirectory(prefix="hashattn-") as folder:
            run, data = os.path.join(folder, "run"), os.path.join(folder, "data")
            # A set that exists is not drawn from the training file: a test set that nothing reads, or a validation
            # set of a text of each class, which does not choose the parameters.
            first = [int(np.flatnonzero(places == place)[0]) for place in range(len(classes))]
            os.mkdir(data)
            write_texts(os.path.join(data, "test.jsonl" if early else "valid.jsonl"), [texts[i] for i in first],
                        [labels[i] for i in first])
            with named(run, "the run"), named(data, "the texts"), named(os.path.join(data, "train.jsonl"), "texts"):
                train("text", data, run, texts=texts, labels=labels, progress=False, **options).close()
            if not early:
                os.replace(os.path.join(run, "last.safetensors"), os.path.join(run, "model.safetensors"))
            files = {}
            for name in _FILES:
                if os.path.exists(os.path.join(run, name)):
                    with open(os.path.join(run, name), "rb") as file:
                        files[name] = file.read()
        self.classes_, self._stored = classes, _Stored(files)
        return self

    def _run(self) -> Run:
        if not hasattr(self, "_stored"):
            raise _NotFitted("this TextClassifier is not fitted yet; call fit first")
        return self._stored.run()

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
        """The accuracy; X and y as for `fit`. sample_weight: a number for each text."""
        found = self.predict(X)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        if weights is not None and weights.shape != found.shape:
            raise InvalidError(f"there are {len(found)} texts, and sample_weight has the shape {weights.shape}")
        return float(np.average(found == _labels_of(y, len(found)), weights=weights))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"TextClassifier({', '.join(f'{name}={value!r}' for name, value in self._options.items())})"
