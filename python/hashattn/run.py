"""Trained runs: evaluate and compare them on a data set, predict documents.

Source: include/hashattn/model.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import stat
import warnings
from ctypes import byref
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from . import _library
from .arrays import real_number, seed_of, whole_number
from .context import Context, ContextObject, ObjectHandle
from .errors import BadFileError, InvalidError, InvalidTypeError
from .options import OptionValue, path_of, text_of
from .progress import Progress, Watch, Watcher, metrics_of
from .texts import arrays_of


def _open_regular(path: str, flags: int) -> int:
    """Opens a file of a run, which must be a regular one (docs/FORMATS.md)."""
    file = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise BadFileError(f"{path}: a regular file is needed")


class ClassScores(NamedTuple):
    """How well one label is predicted."""

    precision: float  #: the share of the documents predicted to have it that have it; 0 if there are none
    recall: float  #: the share of the documents that have it for which it is predicted; 0 if there are none
    f1: float
    examples: int  #: documents that have it


def _scores_of(right: int, wrong: int, missed: int) -> ClassScores:
    return ClassScores(right / (right + wrong or 1), right / (right + missed or 1),
                       2 * right / (2 * right + wrong + missed or 1), right + missed)


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
    per_class: Mapping[str, ClassScores] = {}  #: of a model of at most 256 labels


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

    label: str | None  #: the most probable; None: the model predicts a score
    probabilities: dict[str, float]  #: of every label
    score: float | None = None  #: of a model that predicts scores
    #: Of a model of several labels per document, those with a probability above a half; otherwise the label.
    labels: tuple[str, ...] = ()
    id: str | int | float | None = None  #: "id" of its line or row
    file: str | None = None  #: that holds it; None: standard input, or a list of texts


class Forecast(NamedTuple):
    """The rows that follow a table, in its units."""

    dates: tuple[str, ...]  #: of the rows, in the style of the table; empty after the year 9999
    columns: tuple[str, ...]  #: that are forecast
    values: np.ndarray  #: (rows, columns); of a model of quantiles, that nearest to 0.5
    quantiles: Mapping[float, np.ndarray] = {}  #: the values of each level, ascending
    series: str | None = None  #: None: the table is one series


class Generated(NamedTuple):
    """A text that follows a prompt."""

    text: str
    tokens: int
    tokens_per_second: float  #: since the prompt was read; texts that grow together share the time
    stopped: bool  #: a stop text ended it


def _prompt_bytes(prompt: str) -> bytes:
    """A prompt as UTF-8; bytes that an argument of a program could not decode are those bytes again."""
    try:
        return prompt.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidError(f"prompt holds {prompt[error.start]!r} at {error.start}, which is no character") from None


def _stop_texts(stop: Any) -> list[bytes]:
    if isinstance(stop, (bytes, bytearray)) or not isinstance(stop, Iterable):
        raise InvalidTypeError(f"stop is {stop!r}; a text or several are needed")
    texts = [stop] if isinstance(stop, str) else list(stop)
    for one in texts:
        if not isinstance(one, str):
            raise InvalidTypeError(f"stop is {one!r}; a text is needed")
    return [text_of("stop", one).encode() for one in texts]


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
            self.label_sets = bool(info.label_sets)  #: a document has any number of labels
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

        data: a directory, or a file of the user, which is evaluated whole; None = the recorded one. seed: of the
            hashing; None = that of training.
        progress: True = a tqdm bar if tqdm is installed; False = nothing; or a function of `Progress` that is called
            after each batch and returns True to stop, which raises Interrupted. Ctrl-C stops after a batch.
        """
        found = _library.Evaluation()
        directory = None if data is None else path_of("data", data)
        name, number = text_of("split", split).encode(), self.seed if seed is None else seed_of(seed)
        function = _library.functions().model_evaluate
        metrics: dict[str, float] = {}
        confusion: list[tuple[int, ...]] = []
        scores: dict[str, ClassScores] = {}

        def call(pointer: int) -> int:
            status = function(pointer, directory, name, number, byref(found))
            if status == _library.OK:
                metrics.update(metrics_of(found.metrics))
                count = found.num_confused
                confusion.extend(tuple(found.confusion[row * count:row * count + count]) for row in range(count))
                scores.update((label, _scores_of(*found.label_counts[3 * i:3 * i + 3]))
                              for i, label in enumerate(self.labels[:found.num_labels]))
            return int(status)

        self._watched(progress, call)
        return Evaluation(metrics, found.examples, found.num_cut, found.seconds, found.tokens_per_second,
                          found.tokens, found.num_unknown, tuple(confusion), scores)

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

    def predict(self, path: Any, *more: Any, lines: bool = False, skip_bad: bool = False, seed: int | None = None,
                progress: Watcher = True) -> list[Prediction]:
        """Predicts every document of files and folders, read as in training, in order; labels in them are ignored.

        path, more: .jsonl, .tsv, .csv or .txt files, or folders of these; "-" is standard input. Or one list of
            texts, for task retrieval of pairs of texts. A string is a path. InvalidError (a ValueError): a text of the
            list, named texts[i], such as one with NUL.
        lines: each line of a .txt file, or of standard input, is a document; False = the file is one. skip_bad: bad
            lines are left out, and a UserWarning counts them; False = a bad line is a BadFileError.
        Other arguments as of `evaluate`. RefusedError: the task has no such files.
        """
        options = _library.PredictOptions(seed=self.seed if seed is None else seed_of(seed), lines=bool(lines))
        if isinstance(path, (list, tuple)) and not more:
            texts, seconds = arrays_of(path)
            return self._predictions(_library.functions().model_predict_texts, (texts, seconds, len(path)), options,
                                     progress)
        paths = [path_of("path", one) for one in (path, *more)]
        bad: list[str] = []

        def skip(user: Any, message: bytes) -> int:
            bad.append(_library.text(message))
            return 0

        if skip_bad:
            options.skip = _library.SKIP_CALLBACK(skip)
        found = self._predictions(_library.functions().model_predict,
                                  ((ctypes.c_char_p * len(paths))(*paths), len(paths)), options, progress)
        self._warn_of_repairs(3)
        if bad:
            warnings.warn(f"{len(bad)} bad line{'' if len(bad) == 1 else 's'} left out, the first one: {bad[0]}",
                          stacklevel=2)
        return found

    def _predictions(self, function: Callable[..., int], given: tuple[Any, ...], options: _library.PredictOptions,
                     progress: Watcher) -> list[Prediction]:
        """The predictions by a function of the library, which takes `given` and the options."""
        found: list[Prediction] = []

        def take(user: Any, prediction: Any) -> int:
            of = prediction.contents
            number = None if of.id is None else _library.text(of.id)
            name = json.loads(number) if number is not None and of.id_is_number else number
            file = None if of.file is None else os.fsdecode(of.file)
            if not self.labels:
                found.append(Prediction(None, {}, of.probabilities[0], (), name, file))
                return 0
            best = self.labels[of.best_class]
            chances = dict(zip(self.labels, of.probabilities[:len(self.labels)]))
            has = tuple(label for label, chance in chances.items() if chance > 0.5) if self.label_sets else (best,)
            found.append(Prediction(best, chances, None, has, name, file))
            return 0

        callback = _library.PREDICTED_CALLBACK(take)
        self._watched(progress, lambda pointer: function(pointer, *given, byref(options), callback, None, None))
        return found

    def generate(self, prompt: str | bytes = "", *, max_tokens: int | None = None, temperature: float = 1.0,
                 top_k: int = 0, top_p: float = 1.0, seed: int | None = None, stop: str | Iterable[str] = (),
                 num: int = 1, stream: Callable[[int, str], Any] | None = None) -> list[Generated]:
        """Writes `num` texts that follow a prompt, by a language model (task "lm").

        max_tokens: of each text; None = 256, or as many as the model has learned positions for. temperature: divides
            the scores of tokens; 0 = the likeliest token. top_k: only the k likeliest; 0 = all. top_p: only the
            likeliest that together have this probability. seed: of choices and hashing; None = that of training.
        stop: a text or several, before which a text ends. stream: called with the index of a text and the characters
            that a token completes; it returns True to end all texts where they are, which are then returned.

        An empty prompt is a line feed. A seed gives the same texts for any number of threads. Ctrl-C raises
        KeyboardInterrupt. RefusedError: the run is not of lm. InvalidError: an option, or a prompt that is too long
        for learned positions.
        """
        if stream is not None and not callable(stream):
            raise InvalidTypeError(f"stream is {stream!r}; a function or None is needed")
        if not isinstance(prompt, (str, bytes)):
            raise InvalidTypeError(f"prompt is a {type(prompt).__name__}; a str or bytes is needed")
        given = _prompt_bytes(prompt) if isinstance(prompt, str) else prompt
        if max_tokens is not None and whole_number("max_tokens", max_tokens, 2**31) == 0:
            raise InvalidError("max_tokens is 0, at least 1 is needed")
        stops = _stop_texts(stop)
        options = _library.GenerateOptions(
            max_tokens=max_tokens or 0, temperature=real_number("temperature", temperature),
            top_k=whole_number("top_k", top_k, 2**31), top_p=real_number("top_p", top_p),
            seed=self.seed if seed is None else seed_of(seed), num_stops=len(stops),
            stops=(ctypes.c_char_p * len(stops))(*stops), num_texts=whole_number("num", num, 10**6))
        pieces: dict[int, list[str]] = {}
        last: dict[int, tuple[int, float, bool]] = {}
        ended = []  # by the function

        def show(now: Progress) -> bool:
            if stream is None or not added:
                return False
            if stream(added[0], added[1]):
                ended.append(True)
            return bool(ended)

        added: tuple[Any, ...] = ()
        watch = Watch(show, "token")

        def take(user: Any, generated: Any) -> int:
            nonlocal added
            of = generated.contents
            text = ctypes.string_at(of.added, of.size).decode("utf-8")
            added = (of.text, text) if text else ()
            if of.tokens > 0:
                pieces.setdefault(of.text, []).append(text)
                last[of.text] = of.tokens, of.tokens_per_second, bool(of.stopped)
            return watch(Progress(of.tokens, options.max_tokens))

        callback = _library.GENERATE_CALLBACK(take)
        with watch, self._use() as handle:
            status = _library.functions().model_generate(handle.pointer, given, len(given), byref(options), callback,
                                                         None)
            if not ended or status != _library.INTERRUPTED:
                watch.check(handle.origin, status)
        return [Generated("".join(pieces[index]), *last[index]) for index in sorted(last)]

    def forecast(self, path: Any = None, *, seed: int | None = None, progress: Watcher = True) -> Forecast:
        """Forecasts the rows after the end of a table, a CSV file with the columns of the training.

        path: None = the table of the training. Other arguments as of `evaluate`. A UserWarning says what was repaired.
        RefusedError: the task does not forecast. InvalidError: the data are several series, see `forecasts`.
        """
        found = self.forecasts(path, seed=seed, progress=progress)
        if len(found) > 1:
            raise InvalidError(f"the data are {len(found)} series; forecasts() returns one forecast of each")
        return found[0]

    def forecasts(self, path: Any = None, *, seed: int | None = None, progress: Watcher = True) -> list[Forecast]:
        """Forecasts the rows after the end of each series of a table, or of a directory of them; see `forecast`."""
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
            levels = of.quantiles[:of.num_quantiles] if of.num_quantiles else []
            shape = (of.horizon, of.num_columns, len(levels))
            every = np.array(of.quantile_values[:math.prod(shape)]).reshape(shape)
            quantiles = {level: every[:, :, i] for i, level in enumerate(levels)}
            series = _library.text(of.series) if of.series else None
            found.append(Forecast(tuple(dates), columns, values, quantiles, series))
            return 0

        callback = _library.FORECAST_CALLBACK(take)
        self._watched(progress, lambda pointer: library.model_forecast(pointer, encoded, None, number, callback, None))
        self._warn_of_repairs(4)
        return found

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


def predict(run: Any, path: Any, *more: Any, lines: bool = False, skip_bad: bool = False, seed: int | None = None,
            progress: Watcher = True, context: Context | None = None, **options: OptionValue) -> list[Prediction]:
    """Predicts every document of files and folders with the run in the directory `run`; see `Run` and `Run.predict`."""
    with Run(run, context=context, **options) as loaded:
        return loaded.predict(path, *more, lines=lines, skip_bad=skip_bad, seed=seed, progress=progress)
