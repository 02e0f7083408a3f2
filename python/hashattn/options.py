"""Mechanisms, tasks and their options by name, as the library lists them; options as text.

Source: include/hashattn/attention.h and train.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import numbers
import os
from ctypes import byref
from typing import Any, Callable, Iterator, NamedTuple, Union

from . import _library
from .errors import InvalidError, InvalidTypeError

OptionValue = Union[bool, int, float, str]

_INT, _REAL, _CHOICE, _FLAG = range(4)


class Option(NamedTuple):
    """An option of a mechanism, a task, a model or training."""

    name: str  #: "num_hashes"
    owner: str  #: "attention", "task", "model" or "training"
    type: type  #: int, float, str (one of the choices) or bool
    default: OptionValue
    minimum: float | None  #: of int and float
    maximum: float | None
    choices: tuple[str, ...]
    help: str


class Mechanism(NamedTuple):
    """A mechanism of attention."""

    name: str
    summary: str
    exact: bool  #: False: sampled, so the output depends on the seed
    options: dict[str, Option]
    departures: tuple[str, ...]  #: from its paper or the released code, where no option follows them
    has_own_loss: bool  #: its tensors learn from `Attention.own_loss`

    def __repr__(self) -> str:
        return f"<hashattn.Mechanism {self.name!r}: {self.summary}>"


class Task(NamedTuple):
    """A task that a model can be trained for."""

    name: str
    summary: str
    generates: bool  #: `generate` makes its data
    predicts: bool  #: `predict` works
    presets: tuple[str, ...]
    attention: str  #: option values that its trainings give to mechanisms, "yoso.hash_bits=8"; "" none
    options: dict[str, Option]  #: of the task, the model, training and data; those of mechanisms are not included
    prepares: bool  #: `prepare` makes its data

    def __repr__(self) -> str:
        return f"<hashattn.Task {self.name!r}: {self.summary}>"


def _texts(list_of_c: Any) -> tuple[str, ...]:
    """A list of the library, ended by NULL; () for NULL."""
    found: list[str] = []
    while list_of_c and list_of_c[len(found)] is not None:
        found.append(_library.text(list_of_c[len(found)]))
    return tuple(found)


def _option(row: _library.Option) -> Option:
    kind = (int, float, str, bool, str)[row.type]
    ranged = row.type in (_INT, _REAL)
    made = Option(_library.text(row.name), _library.text(row.owner), kind, "", row.minimum if ranged else None,
                  row.maximum if ranged else None, _texts(row.choices), _library.text(row.help))
    return made._replace(default=value_of(made, _library.text(row.preset)))


def value_of(option: Option, text: str) -> OptionValue:
    """The value of an option from the library's text."""
    if option.type is bool:
        return text == "true"
    return option.type(text) if option.type in (int, float) else text


def text_of(name: str, value: Any) -> str:
    """The library's text for a value. InvalidTypeError: not a bool, number or str."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, str) and "\0" not in value and _is_utf8(value):
        return value
    raise InvalidTypeError(f"{name} is {value!r}; a bool, a number or a text is needed")


def _is_utf8(text: str) -> bool:
    """Without a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_of(name: str, path: Any) -> bytes:
    """A path as the library takes it: a str, bytes or os.PathLike without a zero byte."""
    try:
        encoded = os.fsencode(path)
    except TypeError:
        raise InvalidTypeError(f"{name} is {path!r}; a path is needed") from None
    except UnicodeEncodeError:
        raise InvalidError(f"{name} is {path!r}, which no file can be called") from None
    if b"\0" in encoded:
        raise InvalidError(f"{name} holds a zero byte: {path!r}")
    return encoded


def paths_of(name: str, files: Any) -> list[bytes]:
    """A path or several."""
    if isinstance(files, (str, bytes, os.PathLike)):
        files = [files]
    if not hasattr(files, "__iter__"):
        raise InvalidTypeError(f"{name} is {files!r}; a path or several are needed")
    return [path_of(name, path) for path in files]


def _options(fill: Callable[[int, Any], int]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    row = _library.Option()
    while fill(len(found), byref(row)):
        option = _option(row)
        found[option.name] = option
    return found


@functools.lru_cache(maxsize=None)
def _mechanisms() -> dict[str, Mechanism]:
    found: dict[str, Mechanism] = {}
    library, info = _library.functions(), _library.MechanismInfo()
    while library.mechanism_get(len(found), byref(info)):
        index = len(found)
        options = _options(lambda option, row: library.mechanism_option(index, option, row))
        name = _library.text(info.name)
        found[name] = Mechanism(name, _library.text(info.summary), bool(info.exact), options, _texts(info.departures),
                                bool(info.has_own_loss))
    return found


def _presets(task: int) -> Iterator[str]:
    index, library = 0, _library.functions()
    while name := library.task_preset(task, index):
        yield _library.text(name)
        index += 1


@functools.lru_cache(maxsize=None)
def _tasks() -> dict[str, Task]:
    found: dict[str, Task] = {}
    library, info = _library.functions(), _library.TaskInfo()
    while library.task_get(len(found), byref(info)):
        index = len(found)
        options = _options(lambda option, row: library.task_option(index, option, row))
        name = _library.text(info.name)
        found[name] = Task(name, _library.text(info.summary), bool(info.generates), bool(info.predicts),
                           tuple(_presets(index)), _library.text(info.attention), options, bool(info.prepares))
    return found


def mechanisms() -> dict[str, Mechanism]:
    """All mechanisms by name, with their options and their departures from their papers."""
    return dict(_mechanisms())


def tasks() -> dict[str, Task]:
    """All tasks by name, with the options of their training."""
    return dict(_tasks())


def names_of(mechanism: str) -> list[Option]:
    return list(_mechanisms()[mechanism].options.values())


def instruction_sets() -> dict[str, str | None]:
    """All known instruction sets, narrowest first, with the reason why one does not run here; None if it does."""
    found: dict[str, str | None] = {}
    library = _library.functions()
    names = library.isa_names()
    while names[len(found)] is not None:
        refusal = library.isa_refusal(names[len(found)])
        found[_library.text(names[len(found)])] = None if refusal is None else _library.text(refusal)
    return found
