"""The library's errors as exceptions. Each carries the library's message, which has the numbers.

Source: include/hashattn/status.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Iterator

from . import _library


class Error(Exception):
    """Base of all exceptions of the library."""


class InvalidError(Error, ValueError):
    """An argument is out of range, or arguments do not fit each other."""


class InvalidTypeError(InvalidError, TypeError):
    """An argument has the wrong type: dtype, device or class."""


class RefusedError(InvalidError):
    """The mechanism or task does not support this form, such as `causal`."""


class FailedError(Error, RuntimeError):
    """The work failed, such as a training whose loss is not finite."""


class BadFileError(Error, OSError):
    """A file or directory is missing, or its contents are wrong."""


class NoDiskError(Error, OSError):
    """A file cannot be written."""


class OutOfMemoryError(Error, MemoryError):
    """Memory runs out, or sizes overflow."""


class Interrupted(Error):
    """A progress function stopped an evaluation or prediction. Ctrl-C is KeyboardInterrupt everywhere."""


_CLASSES = {
    _library.FAILED: FailedError,
    _library.INVALID: InvalidError,
    _library.REFUSED: RefusedError,
    _library.BAD_FILE: BadFileError,
    _library.NO_MEMORY: OutOfMemoryError,
    _library.NO_DISK: NoDiskError,
    _library.INTERRUPTED: Interrupted,
}


def of_status(status: int, message: bytes | None) -> Error:
    """The exception of a status other than OK."""
    said = _library.text(message)
    return _CLASSES.get(status, FailedError)(said or f"status {status}")


@contextmanager
def named(path: str, name: str) -> Iterator[None]:
    """Errors about a temporary file, or about its lines, are about the argument `name`, or about its elements. A wrong line
    of the file is a wrong argument, InvalidError."""
    elements = []

    def shown(found: "re.Match[str]") -> str:
        line = found[1]
        if line is None:
            return name
        elements.append(line)
        return f"{name}[{int(line) - 1}]"

    try:
        yield
    except Error as error:
        paths = "|".join(map(re.escape, (os.path.realpath(path), path)))  # the library's messages can have either
        message = re.sub(f"(?:{paths})" + r"(?:: line (\d+))?", shown, str(error))
        kind = InvalidError if elements and isinstance(error, BadFileError) else type(error)
        raise kind(message) from None
