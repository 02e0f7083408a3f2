"""Tokenizers: text to ids and back, and learning a vocabulary.

Source: include/hashattn/tokenizer.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import whole_number
from .context import Context, ContextObject, ObjectHandle, default_context
from .errors import InvalidError, InvalidTypeError
from .options import path_of, paths_of
from .progress import Progress, Watch, Watcher

Text = Union[str, bytes]

_MOST_IDS = 2**20


class Encoding(NamedTuple):
    """The tokens of a text, or of a pair of texts."""

    ids: npt.NDArray[np.uint32]  #: (tokens,)
    segments: npt.NDArray[np.uint8]  #: (tokens,) 1 for the second text of a pair, otherwise 0
    offsets: npt.NDArray[np.int64] | None  #: (tokens, 2) begin and end in bytes; 0, 0 for special tokens
    truncated: bool  #: the text has more tokens


def bytes_of(name: str, text: Any) -> bytes:
    """A text as UTF-8; a lone surrogate is three bytes that are not UTF-8."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes):
        return text
    raise InvalidTypeError(f"{name} is {type(text).__name__}; a str or bytes is needed")


def _copied(pointer: Any, count: int, dtype: Any) -> npt.NDArray[Any]:
    return np.ctypeslib.as_array(pointer, (count,)).astype(dtype) if count else np.empty(0, dtype)


class Tokenizer(ContextObject):
    """A byte-level BPE (GPT-2, RoBERTa) or WordPiece (BERT), read from a directory.

    path: a directory with tokenizer.json, or vocab.json and merges.txt, or encoder.json and vocab.bpe, or vocab.txt.
    `with` or `close` frees it.

    BadFileError (an OSError): a file is missing, broken or needs what is not supported, with the line or key.
    """

    def __init__(self, path: Any, *, context: Context | None = None) -> None:
        super().__init__(context)
        encoded, made = path_of("path", path), ctypes.c_void_p()
        with self._context._use() as origin:
            origin.check(_library.functions().tokenizer_load(origin.pointer, encoded, byref(made)))
            self._own(ObjectHandle(origin, made.value or 0, _library.functions().tokenizer_free))

    def _own(self, handle: ObjectHandle) -> None:
        self._handle = handle
        self.num_ids = int(_library.functions().tokenizer_num_ids(handle.pointer))  #: one more than the largest id

    @classmethod
    def learn(cls, files: Any, vocab_size: int = 30000, *, min_frequency: int = 2, progress: Watcher = True,
              context: Context | None = None) -> "Tokenizer":
        """Learns a byte-level BPE from text files of any size.

        files: a path or several. vocab_size: tokens, 261 to 1048576, with <s> <pad> </s> <unk> <mask> and 256 bytes;
        fewer if the text has too few pairs. min_frequency: of a pair that becomes a token.
        progress: as of `train`. Ctrl-C raises KeyboardInterrupt.

        BadFileError (an OSError): a file cannot be read. InvalidError: the files have no text, or a number is out of
        range.
        """
        paths = paths_of("files", files)
        sizes = whole_number("vocab_size", vocab_size, _MOST_IDS), whole_number("min_frequency", min_frequency, 10**15)
        watch, library, made = Watch(progress, "token"), _library.functions(), ctypes.c_void_p()

        def report(user: Any, tokens: int, of: int) -> int:
            return watch(Progress(tokens, of))

        options = _library.LearnOptions(vocab_size=sizes[0], min_frequency=sizes[1],
                                        progress=_library.LEARN_CALLBACK(report))
        self = cls.__new__(cls)
        ContextObject.__init__(self, context or default_context())
        names = (ctypes.c_char_p * len(paths))(*paths)
        with self._context._use() as origin, watch:
            status = library.tokenizer_learn(origin.pointer, names, len(paths), byref(options), byref(made))
            watch.check(origin, status)
            self._own(ObjectHandle(origin, made.value or 0, library.tokenizer_free))
        return self

    def __repr__(self) -> str:
        return f"<hashattn.Tokenizer num_ids={self.num_ids}>"

    def id_of(self, token: str) -> int | None:
        """The id of a token as the vocabulary writes it ("<mask>"); None if there is none."""
        with self._use() as handle:
            found = _library.functions().tokenizer_find(handle.pointer, bytes_of("token", token))
        return None if found < 0 else int(found)

    def encode(self, text: Text, second: Text | None = None, *, max_tokens: int = 0, special_tokens: bool = False,
               offsets: bool = False) -> Encoding:
        """The tokens of a text, or of a pair.

        text, second: str, or bytes of any kind; docs/FORMATS.md says what becomes of bytes that are not UTF-8.
        max_tokens: with special tokens; 0 = no limit. The rest is cut and not read; of a pair, the longer text first.
        special_tokens: add those of the tokenizer, such as <s> and </s>. offsets: compute where tokens stand, in bytes.

        InvalidError: max_tokens has no room for the special tokens.
        """
        first, other = bytes_of("text", text), None if second is None else bytes_of("second", second)
        options = _library.EncodeOptions(max_tokens=whole_number("max_tokens", max_tokens, 2**48),
                                         special_tokens=bool(special_tokens), offsets=bool(offsets))
        found = _library.Encoding()
        with self._use() as handle:
            handle.origin.check(_library.functions().tokenizer_encode(
                handle.pointer, first, len(first), other, len(other or b""), byref(options), byref(found)))
            ids, segments = _copied(found.ids, found.count, np.uint32), _copied(found.segments, found.count, np.uint8)
            places = None
            if offsets:
                columns = [_copied(array, found.count, np.int64) for array in (found.begins, found.ends)]
                places = np.stack(columns, axis=1)
            return Encoding(ids, segments, places, bool(found.truncated))

    def decode(self, ids: Sequence[int] | npt.NDArray[Any], *, skip_special: bool = True) -> str:
        """The text of ids. Bytes that form no character become U+FFFD. InvalidError: an id has no token."""
        given = np.asarray(ids)
        if given.size == 0:
            return ""
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise InvalidTypeError(f"ids has dtype {given.dtype} and shape {given.shape}; whole numbers are needed")
        if given.min() < 0 or given.max() >= 2**32:
            raise InvalidError(f"ids has {given.min() if given.min() < 0 else given.max()}, which no token has")
        array = np.ascontiguousarray(given, np.uint32)
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        with self._use() as handle:
            handle.origin.check(_library.functions().tokenizer_decode(
                handle.pointer, array.ctypes.data, array.size, bool(skip_special), byref(text), byref(size)))
            return ctypes.string_at(text.value or 0, size.value).decode("utf-8")

    def save(self, directory: Any) -> None:
        """Writes tokenizer.json, which the library `tokenizers` opens, to a directory, made if absent.

        InvalidError: the file exists.
        """
        path = path_of("directory", directory)
        with self._use() as handle:
            handle.origin.check(_library.functions().tokenizer_save(handle.pointer, path))
