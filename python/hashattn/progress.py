"""Progress of training, evaluation and prediction: callbacks, a tqdm bar, and Ctrl-C.

The library calls back on the thread of the call. An exception of a callback, or Ctrl-C, becomes a clean stop: the run
is saved, the call returns, and then the exception is raised.

A daemon thread must not call back into an interpreter that has ended, so the end of the interpreter stops the calls of
other threads and waits for them; their runs are saved. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import warnings
from typing import Any, Callable, NamedTuple, Union

from . import _library
from .context import ContextHandle
from .errors import Interrupted, InvalidTypeError


class Progress(NamedTuple):
    """A report. An evaluation counts examples as steps; only training sets what follows them."""

    step: int
    steps: int
    train: dict[str, float] = {}  #: running means over the batches since the last evaluation
    valid: dict[str, float] = {}  #: after an evaluation, otherwise empty
    best: dict[str, float] = {}  #: of the best model on validation so far
    tokens_per_second: float = 0.0
    seconds: float = 0.0  #: of the run
    learning_rate: float = 0.0
    saved_bytes: int = 0  #: saved by attention for backward, largest batch so far
    warning: str = ""  #: a problem, such as a save that just failed
    #: In the first report: what a table has, what was taken from a stored model, what will stop an export.
    note: str = ""


#: True: a tqdm bar if tqdm is installed, and notes on stderr; False: nothing; or a function, which returns True for a
#: clean stop.
Watcher = Union[bool, Callable[[Progress], Any]]


def metrics_of(metrics: _library.Metrics) -> dict[str, float]:
    return {_library.text(metrics.list[i].name): metrics.list[i].value for i in range(metrics.count)}


def progress_of(report: _library.Progress) -> Progress:
    return Progress(report.step, report.steps, metrics_of(report.train), metrics_of(report.valid),
                    metrics_of(report.best), report.tokens_per_second, report.seconds, report.learning_rate,
                    report.saved_bytes, _library.text(report.warning), _library.text(report.note))


class _Bar:
    """A tqdm bar on stderr; on a terminal only."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._bar: Any = None

    def __call__(self, now: Progress) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]

        if self._bar is None:
            self._bar = tqdm(total=now.steps, unit=self._unit, initial=max(0, now.step - 1), disable=None)
        shown = {**now.train, **{"valid " + name: value for name, value in now.valid.items()}}
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(now.step - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


_running: "set[Watch]" = set()  # calls that have callbacks


def _end() -> None:
    for watch in list(_running):
        watch.ending = True
        watch.done.wait()


atexit.register(_end)
os.register_at_fork(after_in_child=_running.clear)


def _bar(unit: str) -> _Bar | None:
    try:
        import tqdm  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        return None
    return _Bar(unit)


class Watch:
    """Calls the user's function, and remembers why to stop. `with` takes Ctrl-C as a request to stop.

    Ctrl-C is taken only on the main thread and only if Python's own handler is in place; a second Ctrl-C has its usual
    effect.
    """

    def __init__(self, progress: Watcher, unit: str) -> None:
        if not isinstance(progress, bool) and not callable(progress):
            raise InvalidTypeError(f"progress is {progress!r}; True, False or a function is needed")
        self._bar = _bar(unit) if progress is True else None
        self._function = progress if callable(progress) else self._bar
        self._shows = progress is True
        self._notes: list[str] = []  # for the first report to the function
        self._warned: set[str] = set()
        self._before: Any = None
        self.interrupted = False  # by Ctrl-C
        self.ending = False  # the interpreter ends
        self.done = threading.Event()
        self.error: BaseException | None = None  # of the function

    def __enter__(self) -> "Watch":
        own = threading.current_thread() is threading.main_thread()
        if own and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        _running.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._bar is not None:
            self._bar.close()
        _running.discard(self)
        self.done.set()

    def _interrupt(self, number: int, frame: Any) -> None:
        self.interrupted = True
        signal.signal(signal.SIGINT, self._before)

    @property
    def tells(self) -> bool:
        """True if a person or a function sees notes."""
        return self._shows or self._function is not None

    def tell(self, note: str) -> None:
        """Shows a note before the first report, or gives it to the function with that."""
        if self._shows:
            print(note, file=sys.stderr)
        else:
            self._notes.append(note)

    def __call__(self, now: Progress) -> int:
        """The result of a callback: 1 to stop."""
        try:
            if now.note and self._shows:
                print(now.note, file=sys.stderr)
            if self._notes:
                now = now._replace(note="\n".join(filter(None, [*self._notes, now.note])))
                self._notes = []
            if now.warning and now.warning not in self._warned:
                self._warned.add(now.warning)
                warnings.warn(now.warning, RuntimeWarning, stacklevel=2)
            stop = self._function is not None and bool(self._function(now))
        except BaseException as error:  # raised again after the call
            self.error, stop = error, True
        return int(stop or self.interrupted or self.ending)

    def check(self, origin: ContextHandle, status: int) -> None:
        """Raises what ended a call: the exception of the function, Ctrl-C as KeyboardInterrupt, or a failed status. The
        caller holds the context's lock."""
        if self.error is not None:
            raise self.error
        try:
            origin.check(status)
        except Interrupted as stopped:
            if self.interrupted:
                raise KeyboardInterrupt(str(stopped)) from None
            raise
        if self.interrupted:
            raise KeyboardInterrupt("interrupted after the last report")
