"""A cache for `generate` of the transformers library: its keys and values are held by `hashattn.Cache`, one for a layer, or
their sums by `hashattn.Stream`.

    cache = hashattn.torch.transformers.Cache(model.config, mechanism="hashed", budget=0.02)
    model.generate(**inputs, cache=cache)    # attn_implementation="hashattn-softmax"

In older versions of that library the parameter `cache` is `past_key_values`.

A layer of a model gives its new rows to the cache and takes what it gets back to its attention function. What it gets are
the new rows alone, as `CachedRows`: tensors that know their layer and refuse all arithmetic. The attention function of
"hashattn-softmax", or of the mechanism with a state, appends them, with the padding that its mask shows, and attends to the
cache; any other raises.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import cache_utils  # type: ignore[import-not-found,unused-ignore]

from .. import cache as key_value_cache
from ..errors import InvalidError, InvalidTypeError, RefusedError
from ..options import mechanisms
from ..stream import Stream
from .calls import ELEMENTS, TensorLayout, check_tensors
from .masks import read
from .names import PREFIX
from .sdpa import for_each_head, scaled

_KINDS = ("full_attention", "sliding_attention")
_CHANGES_SCORES = ("softcap", "position_bias", "s_aux")
_DESCRIBES = frozenset({"__get__", "size", "dim", "stride", "numel", "element_size", "is_contiguous", "__len__",
                        "is_floating_point", "get_device", "data_ptr"})

_Layers: Any = cache_utils.CacheLayerMixin
_Caches: Any = cache_utils.Cache


class Runs(NamedTuple):
    """What the attention function of a layer computes. params: what the layer has learned, by name."""

    mechanism: str
    options: dict[str, Any]
    seed: int
    params: dict[str, Any] | None


def _needs(layer: "CacheLayer") -> str:
    return (f"a hashattn cache of mechanism=\"{layer.mechanism}\" works with attn_implementation=\"{PREFIX}"
            f"{layer.works_with}\" alone")


class CachedRows(Tensor):
    """New keys or values of a layer on their way to its attention function. layer: the layer of the cache."""

    layer: "CacheLayer"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in _DESCRIBES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        layer = next(each.layer for each in args if isinstance(each, CachedRows))
        raise InvalidError(f"{_needs(layer)}: model.set_attn_implementation(\"{PREFIX}{layer.works_with}\")")


def _rows_of(tensor: Tensor, layer: "CacheLayer") -> CachedRows:
    rows = tensor.as_subclass(CachedRows)
    rows.layer = layer
    return rows


class CacheLayer(_Layers):  # type: ignore[misc,unused-ignore]
    """The rows of one layer. columns: those that `update` has seen, padding included."""

    is_compileable = False
    is_croppable = True
    supports_early_init = False
    is_sliding = False  # all columns count for masks, because the window is in the cache
    works_with = "softmax"  # the mechanism of the attention function

    def __init__(self, window: int | None, mechanism: str, options: dict[str, Any]) -> None:
        self.keys = self.values = None
        self.is_initialized = False
        self.window = window
        self.mechanism = "softmax" if window is not None else mechanism
        self.options = {} if window is not None else options
        self.columns = 0
        self.cache: Any = None
        self._new: tuple[Tensor, Tensor] | None = None
        self._order: Tensor | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """The cache is made by the first attention, which knows the number of query heads."""

    def update(self, key_states: Tensor, value_states: Tensor, *more: Any, **named: Any) -> tuple[Tensor, Tensor]:
        if self._new is not None:
            raise InvalidError("keys were given to a hashattn cache, and no attention with them followed: is "
                               f"attn_implementation=\"{PREFIX}{self.works_with}\"?")
        self._new = key_states, value_states
        self.columns += key_states.shape[-2]
        self.is_initialized = True
        return _rows_of(key_states, self), _rows_of(value_states, self)

    def attend(self, module: Any, query: Tensor, mask: Tensor | None, scaling: float | None, more: dict[str, Any],
               runs: Runs) -> Tensor:
        """Appends the new rows and attends: (batch, heads, rows, d)."""
        name = type(module).__name__
        if self.window is None and runs.mechanism != self.works_with:
            raise InvalidError(f"{_needs(self)}; {name} calls {runs.mechanism}")
        for each in _CHANGES_SCORES:
            if more.get(each) is not None:
                raise InvalidError(f"{name} passes {each} to its attention, which hashattn does not have")
        if more.get("sliding_window") not in (None, self.window):
            raise InvalidError(f"{name} has a window of {more['sliding_window']} rows, its configuration {self.window}")
        assert self._new is not None
        key, value = self._new
        dtype = query.dtype
        if query.dtype == key.dtype == value.dtype and dtype in (torch.float16, torch.float64):  # of the whole model
            query, key, value = query.float(), key.float(), value.float()
        check_tensors((torch.float16, torch.float64), query=query, key=key, value=value)
        if query.is_cuda:
            raise RefusedError(f"a hashattn cache is memory of the processor, and {name} is on {query.device}")
        if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad):
            raise InvalidError("a hashattn cache has no gradients; use torch.no_grad()")
        if key.shape != value.shape:
            raise InvalidError(f"{name} has keys of shape {tuple(key.shape)} and values of shape {tuple(value.shape)}; a "
                               "cache needs the same")
        rows = query.shape[-2]
        reading = read(mask, rows, self.columns, True)
        if reading.sequences is not None or reading.reach not in (None, (self.window or 0) - 1):
            raise InvalidError(f"{name} asks for another mask than its configuration, which a hashattn cache does not have")
        key_mask = reading.key_mask
        key_mask = None if key_mask is None else key_mask[:, -rows:].expand(key.shape[0], rows).contiguous()
        out = self._attend(query, key, value, key_mask, scaling, runs)
        self._new = None
        return out.to(dtype)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, scaling: float | None,
                runs: Runs) -> Tensor:
        """Appends checked rows and attends. key_mask: (batch, rows)."""
        if self.cache is None:
            self.cache = self._make(query, key, scaling, self.mechanism, self.options)
        first = not any(self.cache.lengths)
        _append(self.cache, key, value, key_mask)
        if not (first and query.shape[-2] > 1 and self.mechanism != "softmax"):
            return _attend(self.cache, query)
        with self._make(query, key, scaling, "softmax", {}) as exact:  # a prompt is read with exact attention
            _append(exact, key, value, key_mask)
            return _attend(exact, query)

    def _make(self, query: Tensor, key: Tensor, scaling: float | None, mechanism: str,
              options: dict[str, Any]) -> key_value_cache.Cache:
        return key_value_cache.Cache(query.shape[1], key.shape[1], key.shape[-1], mechanism=mechanism, scale=scaling,
                                     window=self.window, dtype=str(key.dtype).replace("torch.", ""), **options)

    def get_seq_length(self, *more: Any) -> int:
        return self.columns

    def get_mask_sizes(self, query_length: Any, *more: Any) -> tuple[int, int]:
        rows = query_length if isinstance(query_length, int) else query_length.shape[0]
        return self.columns + rows, 0

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        return -1

    @property
    def batch_size(self) -> int:
        return -1 if self.cache is None else self._sequences()

    def _sequences(self) -> int:
        return len(self.cache.lengths)

    @property
    def nbytes(self) -> int:
        return 0 if self.cache is None else self.cache.nbytes

    def reset(self) -> None:
        self.columns, self._new = 0, None
        if self.cache is not None:
            self.cache.close()
            self.cache = None

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.cache is not None:
            self.cache.reorder(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.cache is not None:
            self.cache.reorder([s for s in range(self._sequences()) for _ in range(repeats)])

    def batch_select_indices(self, indices: Tensor) -> None:
        if self.cache is not None:
            chosen = indices.nonzero().flatten() if indices.dtype == torch.bool else indices
            self.cache.reorder(chosen.tolist())

    def crop(self, given: int) -> None:
        """Removes the last columns: `given` of them, or in versions of the library where it is a length, all behind it."""
        removed = given if _CROP_REMOVES else (-given if given < 0 else max(0, self.columns - given))
        if removed > 0 and self.cache is not None:
            self.cache.truncate([max(0, length - removed) for length in self.cache.lengths])
        self.columns -= min(removed, self.columns)


class StateLayer(CacheLayer):
    """The sums of one layer by a mechanism with a state of constant size, a `Stream`."""

    is_croppable = False

    def __init__(self, mechanism: str) -> None:
        super().__init__(None, mechanism, {})
        self.works_with = mechanism

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, scaling: float | None,
                runs: Runs) -> Tensor:
        batch, heads, _, width = query.shape
        key, value = for_each_head(query, key, -3), for_each_head(query, value, -3)
        if self.cache is None:
            self.cache = Stream(heads, width, batch=batch, mechanism=runs.mechanism, causal=True, seed=runs.seed,
                                params=runs.params, **runs.options)
        inputs = [each.detach().float().numpy() for each in (scaled(query, scaling), key, value)]
        out = self.cache.read(*inputs, None if key_mask is None else key_mask.numpy())
        return torch.from_numpy(out).to(query.dtype)

    def _sequences(self) -> int:
        return int(self.cache.batch)

    def crop(self, given: int) -> None:
        raise InvalidError(f"a cache of {self.mechanism} holds sums of rows, from which none can be removed")


_OF_ROWS = ("softmax", "lsh")  # names of attention that are those of a key-value cache, too


class Cache(_Caches):  # type: ignore[misc,unused-ignore]
    """Keys and values of a decoder of the transformers library, or their sums, for `cache` (`past_key_values`).

    config: of the model. mechanism and options: as of `hashattn.Cache` (budget, tolerance, bits, sharpness, seed, ...), for
    attn_implementation="hashattn-softmax"; or a mechanism of `hashattn.Stream` ("yoso", "linear", ...), for its own
    attn_implementation, which has the options. Its memory does not grow with the text: a layer of yoso holds num_hashes *
    2^hash_bits * d * 4 bytes for a head and sequence (4 MiB at 32, 9 and 64), and cannot be cropped.
    Layers with a sliding window hold all rows and read their window exactly. A prompt is read with exact attention. Dtype,
    heads and widths are those of the rows. nbytes: of all layers.
    InvalidError: the configuration has layers of another kind, with the reason; an unknown mechanism or option; another
    attn_implementation, when the model runs. RefusedError: the mechanism has no state, as "lha".
    """

    def __init__(self, config: Any, mechanism: str = "softmax", **options: Any) -> None:
        if not hasattr(config, "get_text_config"):
            raise InvalidTypeError(f"config is a {type(config).__name__}; the configuration of a model is needed")
        if getattr(config, "is_encoder_decoder", False):
            raise InvalidError(f"{config.model_type} has an encoder; a hashattn cache serves decoders alone")
        text = config.get_text_config(decoder=True)
        summed = mechanism in mechanisms() and mechanism not in _OF_ROWS
        if summed and options:
            raise InvalidError(f"{', '.join(options)}: a cache of {mechanism} has the options of the model's attention, "
                               f"such as attn_implementation=\"{PREFIX}{mechanism},num_hashes=64\"")
        tried: Any = Stream(1, 64, mechanism=mechanism, causal=True) if summed else key_value_cache.Cache(
            1, 1, 64, mechanism=mechanism, **options)
        tried.close()  # refuses what no layer could be made with
        super().__init__(layers=[StateLayer(mechanism) if summed and window is None else CacheLayer(window, mechanism, options)
                                 for window in _windows(text)])
        self.mechanism, self.options = mechanism, options

    def __repr__(self) -> str:
        given = "".join(f" {name}={value!r}" for name, value in self.options.items())
        return (f"<hashattn.torch.transformers.Cache layers={len(self.layers)} columns={self.get_seq_length()} "
                f"mechanism={self.mechanism!r}{given}>")

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)


def _windows(config: Any) -> list[int | None]:
    """The window of each layer, None for all rows."""
    count, window = config.num_hidden_layers, getattr(config, "sliding_window", None)
    if getattr(config, "use_sliding_window", True) is False:
        window = None
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        kinds = ["full_attention" if window is None else "sliding_attention"] * count
    for kind in kinds:
        if kind not in _KINDS:
            raise InvalidError(f"{config.model_type} has layers of the kind {kind}; a hashattn cache has {' and '.join(_KINDS)}")
    if getattr(config, "attention_chunk_size", None) is not None or getattr(config, "kv_sharing_modes", None) is not None \
            or getattr(config, "num_kv_shared_layers", None):
        raise InvalidError(f"{config.model_type} has chunks, or layers that share keys, which a hashattn cache does not have")
    return [window if kind == "sliding_attention" else None for kind in kinds]


def _append(cache: key_value_cache.Cache, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    layouts = TensorLayout(key.detach(), False), TensorLayout(value.detach(), False)
    cache._append(key.shape[0], key.shape[-2], ELEMENTS[key.dtype], layouts[0].struct, layouts[1].struct,
                  None if mask is None else mask.data_ptr())


def _attend(cache: key_value_cache.Cache, query: Tensor) -> Tensor:
    out = torch.empty(query.shape, dtype=query.dtype)
    layouts = TensorLayout(query.detach(), False), TensorLayout(out, False)
    cache._attend(query.shape[0], query.shape[-2], ELEMENTS[query.dtype], layouts[0].struct, layouts[1].struct)
    return out


_CROP_REMOVES = "tokens_to_remove" in inspect.signature(_Caches.crop).parameters if hasattr(_Caches, "crop") else False
