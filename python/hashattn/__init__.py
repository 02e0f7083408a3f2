"""Attention by hashing for NumPy: YOSO and LHA at linear cost, on ordinary processors.

    import hashattn
    out = hashattn.attention(q, k, v)  # (n, d), (heads, n, d) or (batch, heads, n, d), float32

`attention` computes in one call, `Attention` also gradients, `Stream` in chunks, `Cache` over the keys and values of a
decoder. `train`, `evaluate` and `predict` work on runs, as the tool does; `Tokenizer` and `Pretrained` read vocabularies and
checkpoints of the transformers library; `Density` tells how dense rows are around a point. `python -m hashattn` is the tool.
A `Context` sets threads, instruction set and precision. The library loads on first use; NumPy too, so importing takes a few
milliseconds.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cache import Cache as Cache
    from .context import Context as Context
    from .context import Description as Description
    from .density import Density as Density
    from .device import DeviceArray as DeviceArray
    from .estimator import TextClassifier as TextClassifier
    from .errors import BadFileError as BadFileError
    from .errors import Error as Error
    from .errors import FailedError as FailedError
    from .errors import Interrupted as Interrupted
    from .errors import InvalidError as InvalidError
    from .errors import InvalidTypeError as InvalidTypeError
    from .errors import NoDiskError as NoDiskError
    from .errors import OutOfMemoryError as OutOfMemoryError
    from .errors import RefusedError as RefusedError
    from .operator import Attention as Attention
    from .operator import attention as attention
    from .options import Mechanism as Mechanism
    from .options import Option as Option
    from .options import Task as Task
    from .options import instruction_sets as instruction_sets
    from .options import mechanisms as mechanisms
    from .options import tasks as tasks
    from .pretrained import Guess as Guess
    from .pretrained import Pretrained as Pretrained
    from .pretrained import TokenVectors as TokenVectors
    from .progress import Progress as Progress
    from .run import ClassScores as ClassScores
    from .run import Comparison as Comparison
    from .run import Difference as Difference
    from .run import Evaluation as Evaluation
    from .run import Forecast as Forecast
    from .run import Generated as Generated
    from .run import Prediction as Prediction
    from .run import Run as Run
    from .run import evaluate as evaluate
    from .run import predict as predict
    from .stream import Stream as Stream
    from .tokenizer import Encoding as Encoding
    from .tokenizer import Tokenizer as Tokenizer
    from .training import Prepared as Prepared
    from .training import generate as generate
    from .training import make_data as make_data
    from .training import prepare as prepare
    from .training import resume as resume
    from .training import train as train

_NAMES = {
    "cache": ("Cache",),
    "context": ("Context", "Description"),
    "density": ("Density",),
    "device": ("DeviceArray",),
    "errors": ("Error", "InvalidError", "InvalidTypeError", "RefusedError", "FailedError", "BadFileError",
               "NoDiskError", "OutOfMemoryError", "Interrupted"),
    "estimator": ("TextClassifier",),
    "operator": ("attention", "Attention"),
    "options": ("Mechanism", "Option", "Task", "instruction_sets", "mechanisms", "tasks"),
    "pretrained": ("Guess", "Pretrained", "TokenVectors"),
    "progress": ("Progress",),
    "run": ("ClassScores", "Comparison", "Difference", "Evaluation", "Forecast", "Generated", "Prediction", "Run",
            "evaluate", "predict"),
    "stream": ("Stream",),
    "tokenizer": ("Encoding", "Tokenizer"),
    "training": ("Prepared", "generate", "make_data", "prepare", "resume", "train"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from .context import Context

        with Context(threads=1) as context:
            value: Any = context.describe().version
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module("." + _MODULE_OF[name], __name__), name)
    else:
        raise AttributeError(f"module 'hashattn' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
