"""Texts in lists: which ones are taken, and the file that the library reads them from.

A table with a shape, such as pandas.DataFrame, is refused: iterating over it gives the names of its columns.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Sequence

import numpy as np

from .errors import InvalidError, InvalidTypeError

# NUL, or half of a surrogate pair without the other. A whole pair is one character in the file.
_NOT_IN_TEXTS = re.compile("\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def listed(name: str, given: Any, of: str = "texts") -> Iterable[Any]:
    """`given`. InvalidTypeError: it is one str, or a table and not one column."""
    if isinstance(given, (str, bytes)):
        raise InvalidTypeError(f"{name} is one {type(given).__name__}, a list of {of} is needed")
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) != 1:
        raise InvalidTypeError(f"{name} has the shape {tuple(shape)}; a list of {of} or one column is needed, of shape (n,)")
    elements: Iterable[Any] = given
    return elements


def check_characters(name: str, text: Any) -> None:
    """InvalidError: a str with a character that the library's files cannot have."""
    found = _NOT_IN_TEXTS.search(text) if isinstance(text, str) else None
    if found is not None:
        raise InvalidError(f"{name}: character {found.start() + 1} of {len(text)} is U+{ord(found[0]):04X}; a text may have "
                           "neither NUL (U+0000) nor a lone surrogate (U+D800 to U+DFFF)")


def write_texts(path: str, texts: Iterable[Any], labels: Iterable[Any] | None = None, *, text_column: str = "text",
                label_column: str = "label") -> None:
    """Writes a new .jsonl file of texts, or of pairs of texts, with their labels."""
    given = list(listed("texts", texts))
    # By place: in a pandas.Series, labels[0] is the one whose index is 0.
    named = None if labels is None else list(listed("labels", labels, "labels"))
    if named is not None and len(named) != len(given):
        raise InvalidError(f"there are {len(given)} texts and {len(named)} labels")
    lines = []
    for index, text in enumerate(given):
        row = _columns(index, text, text_column)
        if named is not None:
            row[label_column] = _label(f"labels[{index}]", named[index])
        lines.append(json.dumps(row) + "\n")
    with open(path, "x", encoding="ascii") as file:
        file.writelines(lines)


def _columns(index: int, text: Any, text_column: str) -> dict[str, Any]:
    """The columns of a text or of a pair."""
    if isinstance(text, (list, tuple)) and len(text) == 2 and all(isinstance(part, str) for part in text):
        for place, part in enumerate(text):
            check_characters(f"texts[{index}][{place}]", part)
        return {"text1": text[0], "text2": text[1]}
    if not isinstance(text, str):
        raise InvalidTypeError(f"text {index} is a {type(text).__name__}, a str is needed")
    check_characters(f"texts[{index}]", text)
    return {text_column: text}


def _label(name: str, label: Any) -> Any:
    """A label as the file has it; of a document with several, each is looked at."""
    parts: Sequence[Any] = label if isinstance(label, (list, tuple)) else [label]
    for part in parts:
        check_characters(name, part)
    return label.item() if isinstance(label, np.generic) else label
