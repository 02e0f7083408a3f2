"""The C library for ctypes: the structs and functions of include/hashattn/, and loading libhashattn.

The structs repeat the headers field by field; tests/python/test_headers.py compares them with a compiler's layout.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
LIBRARY = FOLDER / "lib" / "libhashattn.so.0"
TOOL = FOLDER / "bin" / "hashattn"

FLOAT32, BYTE, BF16 = 0, 1, 2
OK, FAILED, INVALID, REFUSED, BAD_FILE, NO_MEMORY, NO_DISK, INTERRUPTED = range(8)


class Sized(ctypes.Structure):
    """A struct that begins with struct_size, which is set here."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class ContextOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int), ("precision", c_char_p), ("isa", c_char_p),
                ("allocate", c_void_p), ("release", c_void_p), ("user", c_void_p), ("communicator", c_void_p),
                ("device", c_char_p), ("option_dashes", c_int)]


class Description(Sized):
    _fields_ = [("struct_size", c_size_t), ("version", c_char_p), ("isa", c_char_p), ("projection", c_char_p),
                ("precision", c_char_p), ("bf16", c_char_p), ("products", c_char * 64), ("processor", c_char * 64),
                ("threads", c_int), ("libraries", c_char * 64), ("caches", c_char * 64), ("rank", c_int),
                ("ranks", c_int), ("bytes_sent", c_uint64)]


class Option(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("owner", c_char_p), ("type", c_int),
                ("preset", c_char * 64), ("minimum", c_double), ("maximum", c_double),
                ("choices", POINTER(c_char_p)), ("help", c_char_p), ("unread", c_int)]


class MechanismInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("summary", c_char_p), ("exact", c_int),
                ("num_options", c_size_t), ("num_params", c_size_t), ("departures", POINTER(c_char_p)),
                ("has_own_loss", c_int)]


class Tensor(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("rows", c_size_t), ("cols", c_size_t)]


class Array(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("sequence_stride", c_size_t), ("row_stride", c_size_t),
                ("head_stride", c_size_t)]


class Problem(Sized):
    _fields_ = [("struct_size", c_size_t), ("num_sequences", c_size_t), ("num_heads", c_size_t),
                ("num_queries", c_size_t), ("num_keys", c_size_t), ("head_dim", c_size_t), ("value_dim", c_size_t),
                ("query_offsets", c_void_p), ("key_offsets", c_void_p), ("key_mask", c_void_p), ("causal", c_int),
                ("seed", c_uint64), ("sample_ids", c_void_p), ("element", c_int), ("max_len", c_size_t),
                ("padded", c_int), ("total_rows", c_size_t)]


class StreamOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("num_heads", c_size_t), ("head_dim", c_size_t), ("value_dim", c_size_t),
                ("chunk_rows", c_size_t), ("causal", c_int), ("first_head", c_size_t), ("seed", c_uint64)]


class Chunk(Sized):
    _fields_ = [("struct_size", c_size_t), ("rows", c_size_t), ("query", Array), ("key", Array), ("value", Array),
                ("out", Array), ("key_mask", c_void_p)]


class DensityOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("num_hashes", c_size_t), ("hash_bits", c_size_t), ("map", c_char_p),
                ("seed", c_uint64)]


class DensityInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("dim", c_size_t), ("num_hashes", c_size_t), ("hash_bits", c_size_t),
                ("map", c_char_p), ("seed", c_uint64), ("rows", c_uint64)]


class CacheOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("mechanism", c_char_p), ("num_sequences", c_size_t), ("num_heads", c_size_t),
                ("kv_heads", c_size_t), ("head_dim", c_size_t), ("element", c_int), ("scale", c_double),
                ("window", c_size_t), ("window_step", c_size_t), ("budget", c_double), ("tolerance", c_double),
                ("bits", c_size_t), ("first_rows", c_size_t), ("last_rows", c_size_t), ("sharpness", c_double),
                ("seed", c_uint64)]


class CacheReport(Sized):
    _fields_ = [("struct_size", c_size_t), ("rows_read", c_double), ("error", c_double)]


class Metric(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_double), ("more_is_better", c_int), ("selects", c_int)]


class Metrics(ctypes.Structure):
    _fields_ = [("count", c_size_t), ("list", POINTER(Metric))]


class ModelInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("task", c_char_p), ("mechanism", c_char_p), ("data", c_char_p),
                ("num_params", c_size_t), ("num_classes", c_size_t), ("max_len", c_size_t), ("seed", c_uint64),
                ("predicts", c_int), ("precision", c_char_p), ("has_buckets", c_int), ("forecasts", c_int),
                ("last_step", c_int64), ("label_sets", c_int), ("positive", c_char_p)]


class DataPart(Sized):
    _fields_ = [("struct_size", c_size_t), ("split", c_char_p)]  # the first fields; no more are read


class Evaluation(Sized):
    _fields_ = [("struct_size", c_size_t), ("metrics", Metrics), ("examples", c_size_t), ("num_cut", c_size_t),
                ("seconds", c_double), ("tokens_per_second", c_double), ("tokens", c_size_t),
                ("num_unknown", c_size_t), ("confusion", POINTER(c_size_t)), ("num_confused", c_size_t),
                ("label_counts", POINTER(c_size_t)), ("num_labels", c_size_t)]


class Difference(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_double), ("other", c_double), ("difference", c_double),
                ("standard_error", c_double), ("z", c_double), ("p", c_double), ("more_is_better", c_int),
                ("selects", c_int)]


class Comparison(Sized):
    _fields_ = [("struct_size", c_size_t), ("examples", c_size_t), ("list", POINTER(Difference)),
                ("count", c_size_t)]


class Forecast(Sized):
    _fields_ = [("struct_size", c_size_t), ("window", c_size_t), ("num_windows", c_size_t), ("num_columns", c_size_t),
                ("num_read", c_size_t), ("horizon", c_size_t), ("columns", POINTER(c_char_p)),
                ("read", POINTER(c_double)), ("values", POINTER(c_double)), ("truth", POINTER(c_double)),
                ("dates", c_void_p), ("date_column", c_char_p), ("deviations", POINTER(c_double)),
                ("scales", POINTER(c_double)), ("quantiles", POINTER(c_double)),
                ("quantile_values", POINTER(c_double)), ("num_quantiles", c_size_t), ("evaluation", c_void_p),
                ("series", c_char_p)]


class Prediction(Sized):
    _fields_ = [("struct_size", c_size_t), ("document", c_size_t), ("best_class", c_size_t),
                ("probabilities", POINTER(c_float)), ("file", c_char_p), ("id", c_char_p), ("id_is_number", c_int)]


SKIP_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p)


class PredictOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("seed", c_uint64), ("lines", c_int), ("skip", SKIP_CALLBACK)]


class TaskInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("summary", c_char_p), ("generates", c_int),
                ("predicts", c_int), ("has_lra", c_int), ("attention", c_char_p),
                ("prepares", c_int), ("forecasts", c_int)]


class Progress(Sized):
    _fields_ = [("struct_size", c_size_t), ("step", c_int64), ("steps", c_int64), ("train", Metrics),
                ("valid", Metrics), ("best", Metrics), ("tokens_per_second", c_double), ("seconds", c_double),
                ("learning_rate", c_double), ("saved_bytes", c_size_t), ("warning", c_char_p),
                ("note", c_char_p), ("step_loss", c_double), ("stopping", c_int)]


SOURCES_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class Sources(Sized):
    _fields_ = [("struct_size", c_size_t), ("files", POINTER(c_char_p)), ("num_files", c_size_t),
                ("valid", c_char_p), ("test", c_char_p), ("tokenizer", c_char_p), ("seed", c_uint64),
                ("progress", SOURCES_CALLBACK), ("user", c_void_p)]


class Prepared(Sized):
    _fields_ = [("struct_size", c_size_t), ("examples", c_size_t * 3), ("tokens", c_size_t * 3),
                ("documents", c_size_t), ("dropped", c_size_t)]


LEARN_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t)


class GenerateOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("max_tokens", c_size_t), ("temperature", c_double), ("top_k", c_size_t),
                ("top_p", c_double), ("seed", c_uint64), ("stops", POINTER(c_char_p)), ("num_stops", c_size_t),
                ("num_texts", c_size_t)]


class Generated(Sized):
    _fields_ = [("struct_size", c_size_t), ("text", c_size_t), ("added", c_void_p), ("size", c_size_t),
                ("tokens", c_size_t), ("done", c_int), ("stopped", c_int), ("tokens_per_second", c_double),
                ("prompt_tokens", c_size_t), ("prompt_unknown", c_size_t), ("prompt_seconds", c_double),
                ("recomputes", c_char_p)]


class EncodeOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("max_tokens", c_size_t), ("special_tokens", c_int), ("offsets", c_int)]


class Encoding(Sized):
    _fields_ = [("struct_size", c_size_t), ("count", c_size_t), ("ids", POINTER(c_uint32)),
                ("segments", POINTER(c_uint8)), ("begins", POINTER(c_size_t)), ("ends", POINTER(c_size_t)),
                ("truncated", c_int)]


class LearnOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("vocab_size", c_size_t), ("min_frequency", c_size_t),
                ("progress", LEARN_CALLBACK), ("user", c_void_p)]


class PretrainedInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("type", c_char_p), ("mechanism", c_char_p), ("num_params", c_size_t),
                ("layers", c_size_t), ("dim", c_size_t), ("vocab_size", c_size_t), ("num_segments", c_size_t),
                ("max_len", c_size_t), ("num_scores", c_size_t), ("num_labels", c_size_t), ("seed", c_uint64)]


class Sequences(Sized):
    _fields_ = [("struct_size", c_size_t), ("num_sequences", c_size_t), ("offsets", c_void_p), ("ids", c_void_p),
                ("segments", c_void_p)]


class TextOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("pooling", c_char_p), ("special_tokens", c_int), ("truncate", c_int),
                ("seed", c_uint64), ("normalize", c_int), ("prompt_name", c_char_p), ("prompt", c_char_p),
                ("lines", c_int), ("no_header", c_int), ("text_column", c_char_p), ("delimiter", c_char_p),
                ("encoding", c_char_p)]


class Embedding(Sized):
    _fields_ = [("struct_size", c_size_t), ("num_documents", c_size_t), ("num_vectors", c_size_t),
                ("num_cut", c_size_t), ("document", c_size_t), ("first", c_size_t), ("count", c_size_t),
                ("dim", c_size_t), ("vectors", POINTER(c_float)), ("max_tokens", c_size_t), ("file", c_char_p),
                ("id", c_char_p), ("id_is_number", c_int)]


class Guess(Sized):
    _fields_ = [("struct_size", c_size_t), ("mask", c_size_t), ("rank", c_size_t), ("id", c_uint32),
                ("token", c_char_p), ("probability", c_double)]


EMBEDDING_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Embedding))
GUESS_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Guess))
DATA_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(DataPart))
PROGRESS_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Progress))
EVALUATION_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t)
GENERATE_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Generated))
FORECAST_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Forecast))
PREDICTED_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Prediction))

DATE_TEXT = 40  # HASHATTN_DATE_TEXT

_HANDLE = c_void_p
_NEW = POINTER(c_void_p)
_ARRAY = POINTER(Array)
_CALL = [_HANDLE, POINTER(Problem)]

# name: (type of the result, types of the arguments)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "context_new": (c_int, [POINTER(ContextOptions), c_char_p, c_size_t, _NEW]),
    "context_free": (None, [_HANDLE]),
    "context_message": (c_char_p, [_HANDLE]),
    "context_describe": (None, [_HANDLE, POINTER(Description)]),
    "context_set_stream": (c_int, [_HANDLE, c_void_p]),
    "context_wait": (c_int, [_HANDLE]),
    "device_allocate": (c_int, [_HANDLE, c_size_t, _NEW]),
    "device_release": (None, [_HANDLE, c_void_p]),
    "device_write": (c_int, [_HANDLE, c_void_p, c_void_p, c_size_t]),
    "context_note": (c_char_p, [_HANDLE, POINTER(c_int)]),
    "isa_names": (POINTER(c_char_p), []),
    "isa_refusal": (c_char_p, [c_char_p]),
    "status_name": (c_char_p, [c_int]),
    "mechanism_get": (c_int, [c_size_t, POINTER(MechanismInfo)]),
    "mechanism_option": (c_int, [c_size_t, c_size_t, POINTER(Option)]),
    "attention_new": (c_int, [_HANDLE, c_char_p, _NEW]),
    "attention_free": (None, [_HANDLE]),
    "attention_set": (c_int, [_HANDLE, c_char_p, c_char_p]),
    "attention_get": (c_int, [_HANDLE, c_char_p, c_char_p, c_size_t]),
    "attention_tensor": (c_int, [_HANDLE, c_size_t, c_size_t, c_size_t, c_size_t, POINTER(Tensor)]),
    "attention_read_params": (c_int, [_HANDLE, c_char_p] + [c_size_t] * 4),
    "attention_set_params": (c_int, [_HANDLE, c_void_p] + [c_size_t] * 4),
    "attention_get_params": (c_int, _CALL + [c_void_p]),
    "attention_write_params": (c_int, [_HANDLE, c_char_p, c_void_p] + [c_size_t] * 4),
    "attention_sizes": (c_int, _CALL + [POINTER(c_size_t)] * 2),
    "attention_forward": (c_int, _CALL + [_ARRAY] * 4 + [c_void_p] * 2),
    "attention_backward": (c_int, _CALL + [_ARRAY] * 8 + [c_void_p] * 2),
    "attention_backward_params": (c_int, _CALL + [_ARRAY] * 8 + [c_void_p] * 3),
    "attention_own_loss": (c_int, _CALL + [_ARRAY] * 3 + [POINTER(c_double)] + [c_void_p] * 3),
    "problem_default_sized": (None, [POINTER(Problem), c_size_t]),
    "stream_options_default_sized": (None, [POINTER(StreamOptions), c_size_t]),
    "stream_new": (c_int, [_HANDLE, POINTER(StreamOptions), _NEW]),
    "stream_free": (None, [_HANDLE]),
    "stream_clear": (None, [_HANDLE]),
    "stream_bytes": (c_size_t, [_HANDLE]),
    "stream_absorb": (c_int, [_HANDLE, POINTER(Chunk)]),
    "stream_read": (c_int, [_HANDLE, POINTER(Chunk)]),
    "stream_merge": (c_int, [_HANDLE, _HANDLE]),
    "density_new": (c_int, [_HANDLE, c_size_t, POINTER(DensityOptions), _NEW]),
    "density_new_like": (c_int, [_HANDLE, _NEW]),
    "density_free": (None, [_HANDLE]),
    "density_describe": (None, [_HANDLE, POINTER(DensityInfo)]),
    "density_add": (c_int, [_HANDLE, c_void_p, c_size_t]),
    "density_remove": (c_int, [_HANDLE, c_void_p, c_size_t]),
    "density_score": (c_int, [_HANDLE, c_void_p, c_size_t, c_void_p, c_void_p]),
    "density_merge": (c_int, [_HANDLE, _HANDLE]),
    "density_save": (c_int, [_HANDLE, c_char_p]),
    "density_load": (c_int, [_HANDLE, c_char_p, _NEW]),
    "density_gradient": (c_int, [_HANDLE, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_int] + [c_void_p] * 3),
    "density_shift": (c_int, [_HANDLE, c_void_p, c_size_t, c_void_p, c_size_t, c_uint64]),
    "cache_options_default_sized": (None, [POINTER(CacheOptions), c_size_t]),
    "cache_new": (c_int, [_HANDLE, POINTER(CacheOptions), _NEW]),
    "cache_free": (None, [_HANDLE]),
    "cache_append": (c_int, [_HANDLE, c_size_t, c_int, _ARRAY, _ARRAY, c_void_p]),
    "cache_attend": (c_int, [_HANDLE, c_size_t, c_int, _ARRAY, _ARRAY]),
    "cache_describe": (None, [_HANDLE, POINTER(CacheReport)]),
    "cache_save": (c_int, [_HANDLE, c_char_p]),
    "cache_load": (c_int, [_HANDLE, c_char_p, _NEW]),
    "cache_get_options": (None, [_HANDLE, POINTER(CacheOptions)]),
    "cache_num_sequences": (c_size_t, [_HANDLE]),
    "cache_length": (c_size_t, [_HANDLE, c_size_t]),
    "cache_truncate": (c_int, [_HANDLE, POINTER(c_size_t)]),
    "cache_reorder": (c_int, [_HANDLE, POINTER(c_size_t), c_size_t]),
    "cache_clear": (None, [_HANDLE]),
    "cache_nbytes": (c_size_t, [_HANDLE]),
    "density_modes": (c_int, [_HANDLE, c_void_p, c_size_t, c_size_t, c_void_p, c_void_p, POINTER(c_size_t)]),
    "task_get": (c_int, [c_size_t, POINTER(TaskInfo)]),
    "task_preset": (c_char_p, [c_size_t, c_size_t]),
    "task_option": (c_int, [c_size_t, c_size_t, POINTER(Option)]),
    "setup_new": (c_int, [_HANDLE, c_char_p, _NEW]),
    "setup_free": (None, [_HANDLE]),
    "setup_preset": (c_int, [_HANDLE, c_char_p]),
    "setup_from": (c_int, [_HANDLE, c_char_p]),
    "setup_freeze": (c_int, [_HANDLE, c_char_p]),
    "setup_mechanism": (c_int, [_HANDLE, c_char_p]),
    "setup_set": (c_int, [_HANDLE, c_char_p, c_char_p]),
    "setup_size": (c_int, [_HANDLE, c_char_p]),
    "setup_watch_data": (None, [_HANDLE, DATA_CALLBACK, c_void_p]),
    "setup_check_export": (c_int, [_HANDLE]),
    "setup_prepare": (c_int, [_HANDLE, POINTER(Sources), c_char_p, POINTER(Prepared)]),
    "setup_generate": (c_int, [_HANDLE, c_char_p, POINTER(c_size_t), c_uint64]),
    "train": (c_int, [_HANDLE, c_char_p, c_char_p, PROGRESS_CALLBACK, c_void_p]),
    "train_resume": (c_int, [_HANDLE, c_char_p, PROGRESS_CALLBACK, c_void_p]),
    "train_extend": (c_int, [_HANDLE, c_char_p, c_char_p, c_int64, PROGRESS_CALLBACK, c_void_p]),
    "model_load": (c_int, [_HANDLE, c_char_p, _NEW]),
    "model_free": (None, [_HANDLE]),
    "model_set": (c_int, [_HANDLE, c_char_p, c_char_p]),
    "model_positive": (c_int, [_HANDLE, c_char_p]),
    "model_describe": (None, [_HANDLE, POINTER(ModelInfo)]),
    "model_label": (c_char_p, [_HANDLE, c_size_t]),
    "model_watch": (None, [_HANDLE, EVALUATION_CALLBACK, c_void_p]),
    "model_evaluate": (c_int, [_HANDLE, c_char_p, c_char_p, c_uint64, POINTER(Evaluation)]),
    "model_compare": (c_int, [_HANDLE, _HANDLE, c_char_p, c_char_p, c_uint64, POINTER(Comparison)]),
    "model_predict": (c_int, [_HANDLE, POINTER(c_char_p), c_size_t, POINTER(PredictOptions), PREDICTED_CALLBACK,
                              c_void_p, c_void_p]),
    "model_predict_texts": (c_int, [_HANDLE, POINTER(c_char_p), POINTER(c_char_p), c_size_t, POINTER(PredictOptions),
                                    PREDICTED_CALLBACK, c_void_p, c_void_p]),
    "model_forecast": (c_int, [_HANDLE, c_char_p, c_char_p, c_uint64, FORECAST_CALLBACK, c_void_p]),
    "model_generate": (c_int, [_HANDLE, c_char_p, c_size_t, POINTER(GenerateOptions), GENERATE_CALLBACK, c_void_p]),
    "forecast_date": (c_int, [POINTER(Forecast), c_size_t, c_char_p]),
    "tokenizer_load": (c_int, [_HANDLE, c_char_p, _NEW]),
    "tokenizer_free": (None, [_HANDLE]),
    "tokenizer_num_ids": (c_size_t, [_HANDLE]),
    "tokenizer_find": (c_int64, [_HANDLE, c_char_p]),
    "tokenizer_encode": (c_int, [_HANDLE, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(EncodeOptions),
                                 POINTER(Encoding)]),
    "tokenizer_decode": (c_int, [_HANDLE, c_void_p, c_size_t, c_int, _NEW, POINTER(c_size_t)]),
    "tokenizer_learn": (c_int, [_HANDLE, POINTER(c_char_p), c_size_t, POINTER(LearnOptions), _NEW]),
    "tokenizer_save": (c_int, [_HANDLE, c_char_p]),
    "pretrained_load": (c_int, [_HANDLE, c_char_p, c_char_p, _NEW]),
    "pretrained_free": (None, [_HANDLE]),
    "pretrained_set": (c_int, [_HANDLE, c_char_p, c_char_p]),
    "pretrained_describe": (None, [_HANDLE, POINTER(PretrainedInfo)]),
    "pretrained_rows": (c_int, [_HANDLE, POINTER(Sequences), c_uint64, c_void_p]),
    "pretrained_scores": (c_int, [_HANDLE, POINTER(Sequences), c_uint64, c_void_p, c_size_t, c_void_p]),
    "pretrained_embed": (c_int, [_HANDLE, POINTER(c_char_p), c_size_t, POINTER(TextOptions), EMBEDDING_CALLBACK,
                                 c_void_p]),
    "pretrained_embed_texts": (c_int, [_HANDLE, POINTER(c_char_p), c_size_t, POINTER(TextOptions), EMBEDDING_CALLBACK,
                                       c_void_p]),
    "pretrained_fill_mask": (c_int, [_HANDLE, c_char_p, c_size_t, c_uint64, GUESS_CALLBACK, c_void_p]),
    "pretrained_save": (c_int, [_HANDLE, c_char_p]),
    "pretrained_save_encoder": (c_int, [_HANDLE, c_char_p]),
}


class Functions:
    """The library's functions as attributes, without their prefix "hashattn_". Calls release the GIL."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(loaded, "hashattn_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the attributes come from the table
        raise AttributeError(f"the table FUNCTIONS has no {name}")


@functools.lru_cache(maxsize=None)
def functions() -> Functions:
    """Loads the library of this package on first use. OSError: it is missing or does not load."""
    if not LIBRARY.exists() and any(parent.is_file() for parent in LIBRARY.parents):
        raise OSError(f"{LIBRARY} is inside an archive, from which no library can be loaded; install hashattn in a directory")
    return Functions(ctypes.CDLL(str(LIBRARY)))


def text(value: bytes | None) -> str:
    """A string of the library, "" for NULL."""
    return "" if value is None else value.decode("utf-8", "surrogateescape")
