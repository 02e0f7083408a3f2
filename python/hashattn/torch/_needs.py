"""What hashattn.torch needs: PyTorch from 2.4 on; and the transformers library where that is imported, without importing it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Sequence

import torch

from ..errors import InvalidError

OLDEST_TORCH = (2, 4)
_MODELS = "transformers.modeling_utils"  # what every model of the library imports

if tuple(int(each) for each in torch.__version__.split(".")[:2]) < OLDEST_TORCH:
    raise InvalidError(f"hashattn.torch needs PyTorch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or later; this is {torch.__version__}")


def restore_with_transformers() -> None:
    """Imports hashattn.torch.transformers beside the models of the transformers library, now or once they are imported."""
    if _MODELS in sys.modules:
        _import_ours()
    elif not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _import_ours() -> None:
    try:
        importlib.import_module("hashattn.torch.transformers")
    except (ImportError, InvalidError):  # a library too old, for which the module says so when it is asked for
        pass


class _Finder(MetaPathFinder):
    """Finds the library's models as Python does, and imports ours behind them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _MODELS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, own: Any) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._own.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _import_ours()
