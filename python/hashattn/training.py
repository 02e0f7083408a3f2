"""Generating data, training and resuming runs.

Source: include/hashattn/train.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
import warnings
from contextlib import contextmanager, nullcontext
from ctypes import byref
from typing import Any, ContextManager, Iterable, Iterator, Mapping, NamedTuple, Sequence

from . import _library
from .arrays import seed_of, whole_number
from .context import Context, ContextHandle, ObjectHandle, default_context
from .errors import Interrupted, InvalidError
from .options import OptionValue, path_of, paths_of, text_of
from .progress import Progress, Watch, Watcher, progress_of
from .run import Run
from .texts import file_of_texts


@contextmanager
def _setup(context: Context, task: str, preset: str | None, mechanism: str | None,
           options: Mapping[str, OptionValue], start: bytes | None = None,
           size: str | None = None) -> Iterator[ObjectHandle]:
    """A setup of this task: preset, model to start from, size, mechanism, options. Holds the context."""
    given = {"task": task, "preset": preset, "size": size, "mechanism": mechanism}
    names = {name: text_of(name, value).encode() for name, value in given.items() if value is not None or name == "task"}
    texts = {name: text_of(name, value) for name, value in options.items()}
    library, made = _library.functions(), ctypes.c_void_p()
    with context._use() as origin:
        origin.check(library.setup_new(origin.pointer, names["task"], byref(made)))
        assert made.value is not None
        handle = ObjectHandle(origin, made.value, library.setup_free)
        try:
            if "preset" in names:
                origin.check(library.setup_preset(handle.pointer, names["preset"]))
            if start is not None:
                origin.check(library.setup_from(handle.pointer, start))
            if "size" in names:
                origin.check(library.setup_size(handle.pointer, names["size"]))
            if "mechanism" in names:
                origin.check(library.setup_mechanism(handle.pointer, names["mechanism"]))
            for name, text in texts.items():
                origin.check(library.setup_set(handle.pointer, name.encode(), text.encode()))
            yield handle
        finally:
            handle.release()


def make_data(task: str, directory: Any, *, train: int = 0, valid: int = 0, test: int = 0, seed: int = 0,
              context: Context | None = None, **options: OptionValue) -> None:
    """Generates examples of a task ("needle", "listops") in `directory`, which is created if absent.

    train, valid, test: numbers of examples. options: of the task. RefusedError: its data cannot be generated.
    NoDiskError (an OSError): a file cannot be written, or exists.
    """
    numbers = {"train": train, "valid": valid, "test": test}
    counts = (ctypes.c_size_t * 3)(*(whole_number(name, count, 2**48) for name, count in numbers.items()))
    encoded, number = path_of("directory", directory), seed_of(seed)
    with _setup(context or default_context(), task, None, None, options) as handle:
        handle.origin.check(_library.functions().setup_generate(handle.pointer, encoded, counts, number))


def generate(*arguments: Any, **options: Any) -> None:
    """The former name of `make_data`; `Run.generate` writes text."""
    warnings.warn("hashattn.generate is now hashattn.make_data; hashattn.Run.generate writes text", DeprecationWarning,
                  stacklevel=2)
    make_data(*arguments, **options)


class Prepared(NamedTuple):
    """What `prepare` made; the lists are of train, valid and test."""

    examples: tuple[int, int, int]
    tokens: tuple[int, int, int]
    documents: int  #: in all of them; parts of long documents count as documents
    dropped: int  #: tokens in no example


def prepare(task: str, files: Any, directory: Any, tokenizer: Any, *, valid: Any = None, test: Any = None,
            seed: int = 0, progress: Watcher = True, context: Context | None = None,
            **options: OptionValue) -> Prepared:
    """Turns texts into the data of a task ("mlm") in `directory`, which is created if absent.

    files: a path or several, .txt, .jsonl or .tokens (WikiText). tokenizer: the directory of a tokenizer.
    valid, test: files of these splits; None = drawn from the others by valid_share and test_share.
    options: of the data, such as seq_len=512, order="none"; `tasks()[task].options` lists them.
    progress: as of `train`, with bytes of text as steps. Ctrl-C raises KeyboardInterrupt.

    The result does not depend on the number of threads. BadFileError (an OSError): a file. InvalidError: an option, or
    a file that exists. RefusedError: the task's data is not made from texts.
    """
    paths, watch, found = paths_of("files", files), Watch(progress, "byte"), _library.Prepared()
    splits = [None if one is None else path_of(name, one) for name, one in (("valid", valid), ("test", test))]

    def report(user: Any, done: int, total: int) -> int:
        return watch(Progress(done, max(done, total)))

    sources = _library.Sources(files=(ctypes.c_char_p * len(paths))(*paths), num_files=len(paths), valid=splits[0],
                               test=splits[1], tokenizer=path_of("tokenizer", tokenizer), seed=seed_of(seed),
                               progress=_library.SOURCES_CALLBACK(report))
    encoded = path_of("directory", directory)
    with _setup(context or default_context(), task, None, None, options) as handle, watch:
        status = _library.functions().setup_prepare(handle.pointer, byref(sources), encoded, byref(found))
        watch.check(handle.origin, status)
    return Prepared(tuple(found.examples), tuple(found.tokens), found.documents, found.dropped)


def _finish(watch: Watch, origin: ContextHandle, status: int, run: bytes) -> None:
    """Raises what ended a training early, except a stop by the progress function."""
    if watch.error is not None:
        raise watch.error
    if status == _library.INTERRUPTED and not watch.interrupted:
        return
    try:
        origin.check(status)
    except Interrupted as stopped:
        raise KeyboardInterrupt(f"{stopped}; continue with hashattn.resume({os.fsdecode(run)!r})") from None
    if watch.interrupted:
        raise KeyboardInterrupt(f"interrupted after the last step; {os.fsdecode(run)} is saved")


def _callback(watch: Watch) -> Any:
    return _library.PROGRESS_CALLBACK(lambda user, report: watch(progress_of(report.contents)))


def _data_callback(watch: Watch, handle: ObjectHandle) -> Any:
    """Says what will stop an export, when the data are read."""
    library = _library.functions()

    def take(user: Any, part: Any) -> int:
        if part.contents.split == b"valid" and library.setup_check_export(handle.pointer) == _library.REFUSED:
            watch.tell("export will refuse this run: " + _library.text(library.context_message(handle.origin.pointer)))
        return 0

    return _library.DATA_CALLBACK(take)


def train(task: str, data: Any, run: Any, *, mechanism: str | None = None, preset: str | None = None,
          size: str | None = None, start: Any = None, freeze: Iterable[str] = (), texts: Sequence[Any] | None = None,
          labels: Sequence[Any] | None = None, progress: Watcher = True, context: Context | None = None,
          **options: OptionValue) -> Run:
    """Trains a new run in the directory `run`, which must not exist, and returns it loaded.

    task: "text", "retrieval", "lm", "mlm", "glue", "needle", "listops", "image", "pathfinder", "forecast". data: the
        directory of the data set; of text, retrieval, lm and forecast also a file.
    mechanism: None = "yoso"; a list for several heads or layers, "local*5,lha*5", as in the tool.
    preset: "lra", the settings of YOSO's Long Range Arena configurations; "bert", of BERT's pretraining.
    size: "tiny", "mini", "small" or "base", layers, dim, heads and ffn of BERT's published models.
    start: a run or a stored checkpoint (BERT, RoBERTa and kin, YOSO) to start from. It determines the architecture, the
        mechanism unless one is given, and the meaning of ids; its tensors are the initial values.
    freeze: names of parameters that are not trained: tensors, their first words ("embeddings", "encoder.layer.0"),
        "trunk", or "all-but-own": all but the tensors that mechanisms learn, such as the hashes of lha.
    texts, labels: lists of texts (for retrieval of pairs) and of their labels, in one order, which become the new file
        data/train.jsonl, so that the run can be evaluated and resumed. Without a run, after an error, it is removed;
        parent folders stay.
    options: of the task, the mechanism, the model and training, such as steps=1000, heads=4, seed=1, num_hashes=64;
        `tasks()[task].options` and `mechanisms()[name].options` list them.
    progress: True = a tqdm bar if tqdm is installed, and notes on stderr, such as what will stop `Pretrained.save` from
        exporting the run; False = nothing; or a function of `Progress`, called after each step, each batch of an evaluation
        and each evaluation. If it returns True, training stops and `train` returns the run; before the first evaluation
        that has the last parameters, and a UserWarning says so.

    Ctrl-C, or an exception of the function, saves the run and is raised after that; Ctrl-C as KeyboardInterrupt.
    `resume` continues bit for bit. InvalidError: an option. BadFileError (an OSError): the data.
    NoDiskError (an OSError): the run cannot be written. FailedError (a RuntimeError): the loss is not finite.
    """
    used = context or default_context()
    paths = path_of("data", data), path_of("run", run)
    if (texts is None) != (labels is None):
        raise InvalidError("texts and labels belong together, and one of them is missing")
    written: ContextManager[None] = nullcontext()
    if texts is not None and labels is not None:
        columns = {name: str(options.get(name, usual)) for name, usual in (("text_column", "text"), ("label_column", "label"))}
        written = file_of_texts(os.fsdecode(paths[0]), os.fsdecode(paths[1]), texts, labels, **columns)
    begin = None if start is None else path_of("start", start)
    frozen = text_of("freeze", freeze if isinstance(freeze, str) else ",".join(freeze)).encode()
    watch = Watch(progress, "step")
    callback = _callback(watch)
    with written, _setup(used, task, preset, mechanism, options, begin, size) as handle, watch:
        handle.origin.check(_library.functions().setup_freeze(handle.pointer, frozen))
        read = _data_callback(watch, handle)
        if watch.tells:
            _library.functions().setup_watch_data(handle.pointer, read, None)
        status = _library.functions().train(handle.pointer, *paths, callback, None)
        _finish(watch, handle.origin, status, paths[1])
    return Run(run, context=used)


def resume(run: Any, *, steps: int = 0, data: Any = None, progress: Watcher = True, context: Context | None = None) -> Run:
    """Continues a training that was stopped, bit for bit as if it had not been, and returns the run loaded.

    steps: the new total, which the run then has; 0 = that of the run. The learning rate goes on as if it had been
        planned for them.
    data: where the data of the run are now, which the run then records; None = where they were.
    Other arguments and errors as of `train`. InvalidError: more steps are done; another process or context is training it.
    BadFileError: other data.
    """
    used, path = context or default_context(), path_of("run", run)
    place = None if data is None else path_of("data", data)
    watch = Watch(progress, "step")
    callback = _callback(watch)
    with used._use() as origin, watch:
        total = whole_number("steps", steps, 10**9)
        status = _library.functions().train_extend(origin.pointer, path, place, total, callback, None)
        _finish(watch, origin, status, path)
    return Run(run, context=used)
