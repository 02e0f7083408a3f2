"""Texts in lists: which ones are taken, and the file that the library reads them from.

A table with a shape, such as pandas.DataFrame, is refused: iterating over it gives the names of its columns.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import math
import os
import re
from contextlib import contextmanager
from ctypes import c_char_p
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from .errors import InvalidError, InvalidTypeError, NoDiskError, named

# NUL, or half of a surrogate pair without the other. A whole pair is one character in the file.
_NOT_IN_TEXTS = re.compile("\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def listed(name: str, given: Any, of: str = "texts") -> Iterable[Any]:
    """`given`. InvalidTypeError: it is one str, or a table and not one column."""
    if isinstance(given, (str, bytes)):
        raise InvalidTypeError(f"{name} is one {type(given).__name__}, a list of {of} is needed")
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) != 1:
        raise InvalidTypeError(f"{name} has the shape {tuple(shape)}; a list of {of} or one column is needed, of shape (n,)")
    if not hasattr(given, "__iter__") and not hasattr(given, "__getitem__"):
        raise InvalidTypeError(f"{name} is {given!r}; a list of {of} is needed")
    elements: Iterable[Any] = given
    return elements


def check_characters(name: str, text: Any) -> None:
    """InvalidError: a str with a character that the library's files cannot have."""
    found = _NOT_IN_TEXTS.search(text) if isinstance(text, str) else None
    if found is not None:
        raise InvalidError(f"{name}: character {found.start() + 1} of {len(text)} is U+{ord(found[0]):04X}; a text may have "
                           "neither NUL (U+0000) nor a lone surrogate (U+D800 to U+DFFF)")


def utf8_of(name: str, text: Any) -> bytes:
    """A text as functions of the library take it. InvalidTypeError: it is no str. InvalidError: as of check_characters."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"{name} is a {type(text).__name__}; a str is needed")
    check_characters(name, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()  # joins pairs of surrogates


def arrays_of(texts: Sequence[Any]) -> tuple[Any, Any]:
    """Texts, or pairs of texts, as arrays of C strings; the second array is None if they are no pairs."""
    firsts, seconds = [], []
    pairs = len(texts) > 0 and isinstance(texts[0], (list, tuple))
    for index, text in enumerate(texts):
        if not pairs:
            firsts.append(utf8_of(f"texts[{index}]", text))
            continue
        if not isinstance(text, (list, tuple)) or len(text) != 2:
            raise InvalidTypeError(f"texts[{index}] is a {type(text).__name__}; a pair of texts is needed, as texts[0] is one")
        firsts.append(utf8_of(f"texts[{index}][0]", text[0]))
        seconds.append(utf8_of(f"texts[{index}][1]", text[1]))
    array = c_char_p * len(firsts)
    return array(*firsts), array(*seconds) if pairs else None


def is_missing(value: Any) -> bool:
    """None, NaN, or pandas' NA and NaT: a cell without a value."""
    return (value is None or type(value).__name__ in ("NAType", "NaTType")
            or (isinstance(value, (float, np.floating)) and math.isnan(value)))


@contextmanager
def file_of_texts(folder: str, run: str, texts: Iterable[Any], labels: Iterable[Any], **columns: str) -> Iterator[None]:
    """The file train.jsonl of `folder` for a training, with the arguments of write_texts. After an error it stays only if
    there is a new run, so that the call can be repeated. Errors about a line of the file are about an element of `texts`."""
    # Here, because an OSError of the user's iterable is not about the file.
    given, of_given = list(listed("texts", texts)), list(listed("labels", labels, "labels"))
    path, is_new, had_run = os.path.join(folder, "train.jsonl"), not os.path.isdir(folder), os.path.exists(run)
    written = False
    try:
        try:
            os.makedirs(folder, exist_ok=True)
            write_texts(path, given, of_given, **columns)
            written = True
        except OSError as error:
            raise NoDiskError(f"{path}: cannot write: {error.strerror}") from None
        with named(path, "texts"):
            yield
    except BaseException:
        if had_run or not os.path.exists(run):
            if written and os.path.exists(path):
                os.remove(path)
            if is_new and os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
        raise


def write_texts(path: str, texts: Iterable[Any], labels: Iterable[Any], *, text_column: str = "text",
                label_column: str = "label") -> None:
    """Writes a new .jsonl file of texts, or of pairs of texts, with their labels; after an error there is no part of it.
    InvalidError: the file exists."""
    given = list(listed("texts", texts))
    # By place: in a pandas.Series, labels[0] is the one whose index is 0.
    of_texts = list(listed("labels", labels, "labels"))
    if len(of_texts) != len(given):
        raise InvalidError(f"there are {len(given)} texts and {len(of_texts)} labels")
    lines = []
    for index, text in enumerate(given):
        row = _columns(index, text, text_column)
        row[label_column] = _label(f"labels[{index}]", of_texts[index])
        lines.append(json.dumps(row) + "\n")
    try:
        file = open(path, "x", encoding="ascii")
    except FileExistsError:
        raise InvalidError(f"{path} exists already and is not overwritten") from None
    try:
        with file:
            file.writelines(lines)
    except BaseException:
        os.remove(path)
        raise


def _columns(index: int, text: Any, text_column: str) -> dict[str, Any]:
    """The columns of a text or of a pair."""
    if isinstance(text, (list, tuple)) and len(text) == 2 and all(isinstance(part, str) for part in text):
        for place, part in enumerate(text):
            check_characters(f"texts[{index}][{place}]", part)
        return {"text1": text[0], "text2": text[1]}
    if not isinstance(text, str):
        raise InvalidTypeError(f"texts[{index}] is a {type(text).__name__}; a str is needed")
    check_characters(f"texts[{index}]", text)
    return {text_column: text}


def _label(name: str, label: Any) -> Any:
    """A label as the file has it, or the labels of a document with several."""
    if isinstance(label, (list, tuple)):
        return [_label_alone(name, part) for part in label]
    return _label_alone(name, label)


def _label_alone(name: str, label: Any) -> Any:
    if is_missing(label):
        raise InvalidError(f"{name} is {label!r}: the label is missing")
    plain = label.item() if isinstance(label, np.generic) else label
    if not isinstance(plain, (str, bool, int, float)):
        raise InvalidTypeError(f"{name} is a {type(label).__name__}; a str, a bool or a number is needed")
    if isinstance(plain, float) and math.isinf(plain):
        raise InvalidError(f"{name} is {plain}; a finite number is needed")
    check_characters(name, plain)
    return plain
