"""Stored checkpoints of the transformers library: vectors of documents, masked tokens, hidden states.

Source: include/hashattn/pretrained.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import seed_of, whole_number
from .context import Context, ContextObject, ObjectHandle
from .errors import BadFileError, InvalidError, InvalidTypeError
from .options import OptionValue, path_of, text_of
from .progress import Progress, Watch, Watcher
from .texts import listed, utf8_of

Floats = npt.NDArray[np.float32]


class Guess(NamedTuple):
    """A token for a mask."""

    token: str
    probability: float
    id: int


class TokenVectors(NamedTuple):
    """One vector per token: those of document i are vectors[offsets[i] : offsets[i + 1]]."""

    vectors: Floats  #: (tokens, dim)
    offsets: npt.NDArray[np.int64]  #: (documents + 1,)


class Pretrained(ContextObject):
    """An encoder of type yoso, bert, roberta, xlm-roberta, camembert, electra or distilbert, with any mechanism.

    path: a directory with config.json and model.safetensors, which stays mapped: do not overwrite it in place.
    mechanism: instead of that of the config, or a plan of heads, "local*6,lha*6". options: of the mechanism, such as
    num_hashes=128. `with` or `close` frees it.

    BadFileError (an OSError): a file is missing or broken, or tensors do not fit the config. InvalidError: a mechanism
    or option that the model cannot have.
    """

    def __init__(self, path: Any, mechanism: str | None = None, *, context: Context | None = None,
                 **options: OptionValue) -> None:
        super().__init__(context)
        encoded, texts = path_of("path", path), {name: text_of(name, value) for name, value in options.items()}
        name = None if mechanism is None else text_of("mechanism", mechanism).encode()
        if not os.path.isdir(encoded):
            raise BadFileError(f"{os.fsdecode(encoded)} is no directory; one with config.json, model.safetensors and the "
                               "tokenizer's files is needed (nothing is downloaded)")
        library, made, info = _library.functions(), ctypes.c_void_p(), _library.PretrainedInfo()
        self.path: str = os.fsdecode(encoded)
        with self._context._use() as origin:
            origin.check(library.pretrained_load(origin.pointer, encoded, name, byref(made)))
            handle = ObjectHandle(origin, made.value or 0, library.pretrained_free)
            for option, text in texts.items():
                origin.check(library.pretrained_set(handle.pointer, option.encode(), text.encode()))
            library.pretrained_describe(handle.pointer, byref(info))
            self.type = _library.text(info.type)  #: "bert"
            self.mechanism = _library.text(info.mechanism)
        self.num_params, self.layers, self.dim = int(info.num_params), int(info.layers), int(info.dim)
        self.vocab_size, self.num_segments = int(info.vocab_size), int(info.num_segments)
        self.max_len = int(info.max_len)  #: tokens of the longest sequence
        self.num_scores = int(info.num_scores)  #: ids scored by the output for masked tokens; 0: there is none
        self.num_labels = int(info.num_labels)  #: outputs of the classifier; 0: there is none
        self.seed = int(info.seed)  #: of the training of a run, otherwise 0; that of every call without its own
        self._handle = handle

    def __repr__(self) -> str:
        return f"<hashattn.Pretrained {self.path!r} type={self.type!r} mechanism={self.mechanism!r}>"

    def _seed_of(self, seed: int | None) -> int:
        return self.seed if seed is None else seed_of(seed)

    def hidden_states(self, sequences: Sequence[Any], segments: Sequence[Any] | None = None, *,
                      seed: int | None = None) -> list[Floats]:
        """The last hidden states of sequences of ids, (tokens, dim) each. Nothing is padded.

        sequences: arrays or lists of ids, of any lengths up to max_len. segments: the same shapes; None = all 0.
        InvalidError: a sequence is empty or too long, or an id or segment is too large.
        """
        packed = _Packed(sequences, segments)
        rows = np.empty((packed.offsets[-1], self.dim), np.float32)
        number = self._seed_of(seed)
        with self._use() as handle:
            handle.origin.check(_library.functions().pretrained_rows(
                handle.pointer, byref(packed.struct), number, rows.ctypes.data))
        return np.split(rows, packed.offsets[1:-1].astype(np.intp)) if packed.struct.num_sequences else []

    def embed(self, texts: Sequence[str], *, pooling: str = "stored", normalize: bool = False,
              prompt_name: str | None = None, prompt: str | None = None, special_tokens: bool = True,
              truncate: bool = False, seed: int | None = None, progress: Watcher = False) -> Floats | TokenVectors:
        """One vector for each text, (texts, dim), or `TokenVectors` with "none". Arguments as of `embed_files`.

        InvalidError (a ValueError): a text is empty, too long or no text, named texts[i].
        """
        encoded = [utf8_of(f"texts[{index}]", text) for index, text in enumerate(listed("texts", texts))]
        options = self._text_options(pooling, normalize, special_tokens, truncate, seed, prompt_name=prompt_name,
                                     prompt=prompt)
        return self._vectors(_library.functions().pretrained_embed_texts, encoded, options, progress)

    def embed_files(self, paths: Any, *, pooling: str = "stored", normalize: bool = False,
                    prompt_name: str | None = None, prompt: str | None = None, special_tokens: bool = True,
                    truncate: bool = False, lines: bool = False, header: bool = True, text_column: str | None = None,
                    delimiter: str | None = None, encoding: str | None = None, seed: int | None = None,
                    progress: Watcher = True) -> Floats | TokenVectors:
        """One vector for each document of files and folders, which are read as `Run.predict` reads them.

        pooling: "mean" of the tokens, "first" token, "max" of each column, or "none", one vector for each token;
        "stored": as modules.json of a sentence-transformers directory says, otherwise the mean. normalize: give vectors
        unit length, as stored ones have if the directory says so. prompt_name, prompt: written before every document, by
        its name in config_sentence_transformers.json or as a text. special_tokens: with those of the tokenizer, such as
        <s>. truncate: cut documents at max_len; otherwise they are cut at max_seq_length of such a directory, and refused
        if there is none. lines: each line of a .txt file is a document. header, text_column, delimiter, encoding: of
        tables; of a run those of its training by default. progress: as of `train`.

        BadFileError (an OSError): a document is empty, too long or no text, with file and line; no tokenizer.
        RefusedError: the stored pooling is another one.
        """
        listed: list[Any] = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)
        encoded = [path_of("paths", path) for path in listed]
        options = self._text_options(pooling, normalize, special_tokens, truncate, seed, prompt_name=prompt_name,
                                     prompt=prompt, text_column=text_column, delimiter=delimiter, encoding=encoding)
        options.lines, options.no_header = bool(lines), not header
        found = self._vectors(_library.functions().pretrained_embed, encoded, options, progress)
        self._warn_of_repairs(3)
        return found

    def _text_options(self, pooling: str, normalize: bool, special_tokens: bool, truncate: bool, seed: int | None,
                      **named: str | None) -> _library.TextOptions:
        texts = {name: None if given is None else text_of(name, given).encode() for name, given in named.items()}
        return _library.TextOptions(pooling=text_of("pooling", pooling).encode(), normalize=bool(normalize),
                                    truncate=bool(truncate), special_tokens=bool(special_tokens),
                                    seed=self._seed_of(seed), **texts)

    def _vectors(self, function: Callable[..., int], given: list[bytes], options: _library.TextOptions,
                 progress: Watcher) -> Floats | TokenVectors:
        """The vectors by a function of the library, which takes `given` and the options."""
        watch = Watch(progress, "document")
        vectors: list[Floats] = []
        offsets = [0]

        def take(user: Any, pointer: Any) -> int:
            now = pointer.contents
            vectors.append(np.ctypeslib.as_array(now.vectors, (now.count, now.dim)).copy())
            offsets.append(offsets[-1] + int(now.count))
            return watch(Progress(now.document + 1, now.num_documents))

        callback = _library.EMBEDDING_CALLBACK(take)
        array = (ctypes.c_char_p * len(given))(*given)
        with self._use() as handle, watch:
            watch.check(handle.origin, function(handle.pointer, array, len(given), byref(options), callback, None))
        rows = np.concatenate(vectors) if vectors else np.empty((0, self.dim), np.float32)
        return TokenVectors(rows, np.array(offsets, np.int64)) if options.pooling == b"none" else rows

    def fill_mask(self, text: str, *, top: int = 5, seed: int | None = None) -> list[list[Guess]]:
        """The `top` most probable tokens for each mask of a text, most probable first.

        text: with the mask of the tokenizer, "Paris is the <mask> of France." InvalidError: it has no mask, or is too
        long. RefusedError: the files have no output for masked tokens.
        """
        found: list[list[Guess]] = []

        def take(user: Any, pointer: Any) -> int:
            guess = pointer.contents
            if guess.rank == 0:
                found.append([])
            found[-1].append(Guess(_library.text(guess.token), guess.probability, guess.id))
            return 0

        callback, number = _library.GUESS_CALLBACK(take), whole_number("top", top, 2**20)
        encoded, key = utf8_of("text", text), self._seed_of(seed)
        with self._use() as handle:
            handle.origin.check(_library.functions().pretrained_fill_mask(
                handle.pointer, encoded, number, key, callback, None))
        return found

    def save(self, directory: Any, *, encoder_only: bool = False) -> None:
        """Writes the model and its tokenizer to a new directory, which the transformers library opens.

        A run is written with its output for masked tokens, or with its classifier and labels, as
        AutoModelForMaskedLM and AutoModelForSequenceClassification read them; encoder_only leaves both out.
        RefusedError: the files of that library cannot describe the model; the message names every setting that has no
        place there.
        """
        path, library = path_of("directory", directory), _library.functions()
        with self._use() as handle:
            write = library.pretrained_save_encoder if encoder_only else library.pretrained_save
            handle.origin.check(write(handle.pointer, path))


class _Packed:
    """Sequences of ids one after another, for the C API."""

    def __init__(self, sequences: Sequence[Any], segments: Sequence[Any] | None) -> None:
        ids = _all_numbers("sequences", sequences, 2**32 - 1)
        kinds = None if segments is None else _all_numbers("segments", segments, 255)
        if kinds is not None and [len(k) for k in kinds] != [len(i) for i in ids]:
            raise InvalidError(f"segments have lengths {[len(k) for k in kinds]}, sequences {[len(i) for i in ids]}")
        self.offsets = np.concatenate(([0], np.cumsum([len(i) for i in ids]))).astype(np.uint64)
        self.ids = np.concatenate(ids).astype(np.uint32) if ids else np.empty(0, np.uint32)
        self.kinds = None if kinds is None or not kinds else np.concatenate(kinds).astype(np.uint8)
        self.struct = _library.Sequences(num_sequences=len(ids), offsets=self.offsets.ctypes.data,
                                         ids=self.ids.ctypes.data,
                                         segments=None if self.kinds is None else self.kinds.ctypes.data)


def _all_numbers(name: str, given: Any, most: int) -> list[npt.NDArray[np.int64]]:
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise InvalidTypeError(f"{name} is {given!r}; a list is needed, with a list of whole numbers for each sequence")
    return [_numbers(f"{name}[{i}]", each, most) for i, each in enumerate(given)]


def _numbers(name: str, given: Any, most: int) -> npt.NDArray[np.int64]:
    array = np.asarray(given)
    if array.shape == (0,):
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidTypeError(f"{name} has dtype {array.dtype} and shape {array.shape}; whole numbers (n,) are needed")
    if array.size and (array.min() < 0 or array.max() > most):
        raise InvalidError(f"{name} has {array.min() if array.min() < 0 else array.max()}, allowed are 0 to {most}")
    return array.astype(np.int64)
