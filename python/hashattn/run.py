"""Trained runs: evaluate and compare them on a data set, predict documents.

Source: include/hashattn/model.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import warnings
from ctypes import byref
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

from . import _library
from .arrays import seed_of
from .context import Context, ContextObject, ObjectHandle
from .errors import BadFileError, InvalidError, InvalidTypeError
from .options import OptionValue, path_of, text_of
from .progress import Progress, Watch, Watcher, metrics_of


def _open_regular(path: str, flags: int) -> int:
    """Opens a file of a run, which must be a regular one (docs/FORMATS.md)."""
    file = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise BadFileError(f"{path}: a regular file is needed")


class Evaluation(NamedTuple):
    """The result of an evaluation."""

    metrics: Mapping[str, float]  #: "accuracy", "loss", "perplexity", ... and baselines such as "majority"
    examples: int
    num_cut: int  #: examples cut to the model's greatest length
    seconds: float
    tokens_per_second: float
    tokens: int
    num_unknown: int  #: targets that are not in the vocabulary
    #: For a classifier of at most 32 labels: the examples of each label (row) by predicted label (column); otherwise empty.
    confusion: tuple[tuple[int, ...], ...] = ()


class Difference(NamedTuple):
    """One metric of two runs on the same examples."""

    value: float
    other: float
    difference: float  #: value - other
    standard_error: float  #: of the difference over examples; NaN with fewer than two that have the metric
    z: float  #: gain / standard_error; positive if the first run is better
    p: float  #: one-tail: the probability of such a z or a larger one by chance


class Comparison(NamedTuple):
    """Two runs on the same examples."""

    metrics: Mapping[str, Difference]  #: rank correlations are left out
    examples: int


class Prediction(NamedTuple):
    """The prediction for one document."""

    label: str | None  #: None: the model predicts a score
    probabilities: dict[str, float]  #: of every label
    score: float | None = None  #: of a model that predicts scores


class Forecast(NamedTuple):
    """The rows that follow a table, in its units."""

    dates: tuple[str, ...]  #: of the rows, in the style of the table; empty after the year 9999
    columns: tuple[str, ...]  #: that are forecast
    values: np.ndarray  #: (rows, columns)


class Run(ContextObject):
    """A trained run, read from its directory.

    path: the directory, with config.json and model.safetensors. A run that was stopped before its first evaluation
    has no model.safetensors; its last saved parameters are used then, with a UserWarning. options: of its mechanism,
    which may differ from training, such as num_hashes=128. context: None = one for the process. `with` or `close`
    frees it.

    BadFileError (an OSError): not a run of this version, with the file and what is wrong in it. InvalidError: the
    trained parameters do not fit an option.
    """

    def __init__(self, path: Any, *, context: Context | None = None, **options: OptionValue) -> None:
        super().__init__(context)
        encoded, texts = path_of("path", path), {name: text_of(name, value) for name, value in options.items()}
        self.path: str = os.fsdecode(encoded)
        library, made, info = _library.functions(), ctypes.c_void_p(), _library.ModelInfo()
        with self._context._use() as origin:
            origin.check(library.model_load(origin.pointer, encoded, byref(made)))
            assert made.value is not None
            handle = ObjectHandle(origin, made.value, library.model_free)
            for name, text in texts.items():
                origin.check(library.model_set(handle.pointer, name.encode(), text.encode()))
            library.model_describe(handle.pointer, byref(info))
            labels = [library.model_label(handle.pointer, i) for i in range(info.num_classes)]
            self.task = _library.text(info.task)
            self.mechanism = _library.text(info.mechanism)
            self.data = _library.text(info.data)  #: directory of its training data
            self.num_params = int(info.num_params)
            self.max_len = int(info.max_len)
            self.seed = int(info.seed)  #: of its training
            self.predicts = bool(info.predicts)
            self.precision = _library.text(info.precision)  #: of products
            #: The step of the last saved parameters, if the run has no best model yet; None = the best are used.
            self.last_step: int | None = None if info.last_step < 0 else int(info.last_step)
        self.labels: tuple[str, ...] = tuple(_library.text(label) for label in labels if label is not None)
        self._handle = handle
        if self.last_step is not None:
            warnings.warn(f"{self.path} has no best model yet; these are its last parameters, of training step "
                          f"{self.last_step}", stacklevel=2)

    def __repr__(self) -> str:
        return f"<hashattn.Run {self.path!r} task={self.task!r} mechanism={self.mechanism!r}>"

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines of the run's log.jsonl; docs/FORMATS.md describes them."""
        try:
            with open(os.path.join(self.path, "log.jsonl"), encoding="utf-8", opener=_open_regular) as lines:
                return [json.loads(line) for line in lines]
        except ValueError as error:
            raise BadFileError(f"{self.path}/log.jsonl: {error}") from error

    def evaluate(self, split: str = "test", *, data: Any = None, seed: int | None = None,
                 progress: Watcher = True) -> Evaluation:
        """Evaluates the model on a split, "train", "valid" or "test".

        data: a directory; None = the recorded one. seed: of the hashing; None = that of training.
        progress: True = a tqdm bar if tqdm is installed; False = nothing; or a function of `Progress` that is called
            after each batch and returns True to stop, which raises Interrupted. Ctrl-C stops after a batch.
        """
        found = _library.Evaluation()
        directory = None if data is None else path_of("data", data)
        name, number = text_of("split", split).encode(), self.seed if seed is None else seed_of(seed)
        function = _library.functions().model_evaluate
        metrics: dict[str, float] = {}
        confusion: list[tuple[int, ...]] = []

        def call(pointer: int) -> int:
            status = function(pointer, directory, name, number, byref(found))
            if status == _library.OK:
                metrics.update(metrics_of(found.metrics))
                count = found.num_confused
                confusion.extend(tuple(found.confusion[row * count:row * count + count]) for row in range(count))
            return int(status)

        self._watched(progress, call)
        return Evaluation(metrics, found.examples, found.num_cut, found.seconds, found.tokens_per_second,
                          found.tokens, found.num_unknown, tuple(confusion))

    def compare(self, against: "Run", split: str = "test", *, data: Any = None, seed: int | None = None,
                progress: Watcher = True) -> Comparison:
        """Evaluates this run and another one of its task and context on the same examples, and tests each metric.

        Other arguments as of `evaluate`; the seed and the recorded directory are those of this run. The test is paired
        and one-tail, with the jackknife's standard error. InvalidError: the runs do not have the same examples.
        """
        if not isinstance(against, Run):
            raise InvalidTypeError(f"against is a {type(against).__name__}, a hashattn.Run is needed")
        if against._context is not self._context:
            raise InvalidError("the two runs are in different contexts")
        found = _library.Comparison()
        directory = None if data is None else path_of("data", data)
        name, number = text_of("split", split).encode(), self.seed if seed is None else seed_of(seed)
        function = _library.functions().model_compare
        metrics: dict[str, Difference] = {}

        def call(pointer: int) -> int:
            if against._handle is None:
                raise InvalidError("the Run to compare with is closed")
            status = function(pointer, against._handle.pointer, directory, name, number, byref(found))
            for of in found.list[:found.count] if status == _library.OK else []:
                metrics[_library.text(of.name)] = Difference(of.value, of.other, of.difference, of.standard_error,
                                                             of.z, of.p)
            return int(status)

        self._watched(progress, call)
        return Comparison(metrics, found.examples)

    def predict(self, path: Any, *, seed: int | None = None, progress: Watcher = True) -> list[Prediction]:
        """Predicts every document of a file in the format of the run's task; labels in it are ignored.

        Arguments as of `evaluate`. RefusedError: the task has no such files.
        """
        encoded, number = path_of("path", path), self.seed if seed is None else seed_of(seed)
        found: list[Prediction] = []

        def take(user: Any, document: int, best: int, probabilities: Any) -> int:
            if not self.labels:
                found.append(Prediction(None, {}, probabilities[0]))
            else:
                found.append(Prediction(self.labels[best], dict(zip(self.labels, probabilities[: len(self.labels)]))))
            return 0

        callback = _library.PREDICTION_CALLBACK(take)
        function = _library.functions().model_predict_file
        self._watched(progress, lambda pointer: function(pointer, encoded, number, callback, None, None))
        return found

    def forecast(self, path: Any = None, *, seed: int | None = None, progress: Watcher = True) -> Forecast:
        """Forecasts the rows after the end of a table, a CSV file with the columns of the training.

        path: None = the table of the training. Other arguments as of `evaluate`. RefusedError: the task does not
        forecast.
        """
        encoded, number = None if path is None else path_of("path", path), self.seed if seed is None else seed_of(seed)
        found: list[Forecast] = []
        library = _library.functions()

        def take(user: Any, forecast: Any) -> int:
            of, text, dates = forecast.contents, ctypes.create_string_buffer(_library.DATE_TEXT), []
            for step in range(of.num_read, of.num_read + of.horizon):
                library.forecast_date(forecast, step, text)
                dates.append(text.value.decode())
            values = np.array(of.values[:of.horizon * of.num_columns]).reshape(of.horizon, of.num_columns)
            columns = tuple(_library.text(name) for name in of.columns[:of.num_columns])
            found.append(Forecast(tuple(dates), columns, values))
            return 0

        callback = _library.FORECAST_CALLBACK(take)
        self._watched(progress, lambda pointer: library.model_forecast(pointer, encoded, None, number, callback, None))
        return found[0]

    def _watched(self, progress: Watcher, call: Callable[[int], int]) -> None:
        """Runs `call`, which returns a status, and reports its progress."""
        watch = Watch(progress, "example")
        callback = _library.EVALUATION_CALLBACK(lambda user, done, count: watch(Progress(done, count)))
        library = _library.functions()
        with watch, self._use() as handle:
            library.model_watch(handle.pointer, callback, None)
            try:
                status = call(handle.pointer)
            finally:
                library.model_watch(handle.pointer, _library.EVALUATION_CALLBACK(), None)
            watch.check(handle.origin, status)


def evaluate(run: Any, split: str = "test", *, data: Any = None, seed: int | None = None, progress: Watcher = True,
             context: Context | None = None, **options: OptionValue) -> Evaluation:
    """Evaluates the run in the directory `run`; see `Run` and `Run.evaluate`."""
    with Run(run, context=context, **options) as loaded:
        return loaded.evaluate(split, data=data, seed=seed, progress=progress)


def predict(run: Any, path: Any, *, seed: int | None = None, progress: Watcher = True, context: Context | None = None,
            **options: OptionValue) -> list[Prediction]:
    """Predicts every document of the file `path` with the run in the directory `run`; see `Run` and `Run.predict`."""
    with Run(run, context=context, **options) as loaded:
        return loaded.predict(path, seed=seed, progress=progress)
