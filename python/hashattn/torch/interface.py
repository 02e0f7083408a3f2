"""The attention function and the mask function that hashattn registers with the transformers library.

"hashattn-yoso", "hashattn-softmax" and so on are registered on import, one for each mechanism, and others by `register`. The
function for masks is registered with them, because without one the library drops the padding.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, cast

import torch
from torch import Tensor

from ..errors import InvalidError, RefusedError
from ..options import OptionValue, mechanisms
from . import learned, names
from .cached import CachedRows, Runs
from .callers import adds_masks, attends_to_itself, rows_so_far
from .functions import Seed, attention, learns, seed_of
from .layers import LEFT, is_left
from .mask_functions import asked
from .masks import Mask, Reading, in_full, lengths_of, make, offsets_of, read
from .sdpa import has_places, on_host, padding_of_others, queries_compete, values_are_known
from .versions import AttentionInterface, AttentionMaskInterface, causal_mask_function

_CHANGES_SCORES = ("softcap", "position_bias", "s_aux")


def register(name: str, mechanism: str = "yoso", *, seed: Seed = None, **options: OptionValue) -> None:
    """Makes `attn_implementation=name` stand for a mechanism with options, such as num_hashes=64.

    seed: of every call; None draws one for each call in training mode, from torch's generator, and is 0 in evaluation.
    Attention weights have no dropout and are not returned. "reformer" takes the queries as its keys, so the model's key
    layers have no effect. Masked tokens in front or in the middle are as if they had been cut out, which shifts blocks,
    windows and segments. A configuration that is saved holds mechanism and options in place of `name`. InvalidError: an
    unknown mechanism or option.
    """
    learned_here = learns(mechanism, options)

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
               scaling: float | None = None, is_causal: bool | None = None, **more: Any) -> tuple[Tensor, None]:
        if isinstance(key, CachedRows):
            fixed = seed_of(False, seed)
            runs = Runs("softmax" if is_left(module) else mechanism, options, int(0 if fixed is None else fixed),
                        learned.arrays_of(module))
            return key.layer.attend(module, query, attention_mask, scaling, more, runs).transpose(1, 2), None
        if is_left(module):
            return _as_the_library(module, query, key, value, attention_mask, scaling, is_causal, more)
        given = {"seed": seed_of(getattr(module, "training", False), seed), "scale": scaling}
        layer = _Layer(module, mechanism, options, learned_here)
        return _attend(layer, query, key, value, attention_mask, given, is_causal, more), None

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _mask)
    names.remember(name, names.name_of(mechanism, seed, options))


def _as_the_library(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None,
                    is_causal: bool | None, more: dict[str, Any]) -> tuple[Tensor, None]:
    """A layer that was left as it is, with the mask of one that changed."""
    function: Any = AttentionInterface()[LEFT]  # type: ignore[no-untyped-call,unused-ignore]
    return cast("tuple[Tensor, None]", function(module, query, key, value, in_full(mask) if isinstance(mask, Mask) else mask,
                                                scaling=scaling, is_causal=is_causal, **more))


class _Layer(NamedTuple):
    """A layer of the library, and what it computes in place of softmax."""

    module: Any
    mechanism: str
    options: dict[str, Any]
    learns: bool

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        return learned.attend(self.module, self.mechanism, q, k, v, given, self.options, self.learns)


def _softmax_within(reach: int, queries: int) -> Callable[..., Tensor]:
    """Attention in a sliding window."""
    if queries == 1:
        return functools.partial(attention, mechanism="softmax")
    return functools.partial(attention, mechanism="longformer", window=2 * reach, global_tokens=0)


def _attend(layer: _Layer, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, given: dict[str, Any],
            is_causal: bool | None, more: dict[str, Any]) -> Tensor:
    """(batch, heads, n, d) to (batch, n, heads, d)."""
    module, attend = layer.module, cast("Callable[..., Tensor]", layer)
    for name in _CHANGES_SCORES:
        if more.get(name) is not None:
            raise InvalidError(f"{type(module).__name__} passes {name} to its attention, which hashattn does not have")
    dtype = query.dtype
    if dtype == torch.float64:  # of the whole model; attention is computed in float32
        query, key, value = query.float(), key.float(), value.float()
    queries, keys = query.shape[-2], key.shape[-2]
    # As the library's own functions: without a mask the layer says whether it is causal, and one query sees all keys.
    of_layer = bool(getattr(module, "is_causal", False))
    causal = (of_layer if is_causal is None else is_causal) and queries > 1
    reading = read(mask, queries, keys, causal)
    if mask is None and more.get("sliding_window") is not None:  # with a mask, that has the window
        reading = _windowed(reading, int(more["sliding_window"]) - 1, queries, keys)
    if reading.reach is not None and query.is_cuda:
        raise RefusedError(f"{type(module).__name__} has a sliding window, whose softmax hashattn does not compute on {query.device}; "
                           "leave such layers to PyTorch: replace_attention(model, filter=...)")
    if reading.sequences is not None:
        if reading.reach is not None:
            attend = _softmax_within(reading.reach, queries)
        return _attend_packed(attend, reading, query, key, value, given).to(dtype)
    if reading.reach is not None:
        attend = _softmax_within(reading.reach, queries)
        key, value, reading = _in_window(reading, key, value, queries)
        keys = key.shape[-2]
    elif queries == 1 and of_layer and not reading.causal and has_places(layer.mechanism, layer.options):
        reading = _at_the_end(layer, reading, keys)
    if reading.causal:
        seen = _keys_of_causal(reading, queries, keys)
        if seen < keys:
            key, value = key[..., :seen, :], value[..., :seen, :]
        # By a mask of the keys, not by lengths: padded queries have an output, which `generate` continues.
        key_mask = None if _plain(reading, seen) else cast(Tensor, reading.key_mask)[:, :seen]
        out = attend(query, key, value, causal=True, key_mask=key_mask, **given)
        return out.transpose(1, 2).to(dtype)
    earlier = _earlier_queries(layer, queries, keys) if reading.reach is None else 0
    if earlier:
        query, queries = torch.cat([query.new_zeros((*query.shape[:2], earlier, query.shape[-1])), query], 2), queries + earlier
    if _plain(reading, keys):
        out = attend(query, key, value, **given)
    elif queries != keys or not attends_to_itself(module, keys):
        key, value, of_keys = padding_of_others(key, value, queries, cast(Tensor, reading.key_mask), reading.lengths)
        out = attend(query, key, value, **of_keys, **given)
    else:
        key_mask = reading.key_mask if reading.lengths is None else None
        out = attend(query, key, value, key_mask=key_mask, lengths=reading.lengths, **given)
    return out[..., earlier:, :].transpose(1, 2).to(dtype)


def _earlier_queries(layer: _Layer, queries: int, keys: int) -> int:
    """Of cross attention with a cache: how many queries came before these, whose places count and whose values do not.

    InvalidError: their values count, or their number is not known. A compiled graph does not tell whether there is a cache:
    there one query is refused, and several, which are most often a whole sequence, are taken as the first ones.
    """
    if not has_places(layer.mechanism, layer.options):
        return 0
    rows = rows_so_far(layer.module, queries, keys)
    name = f"{layer.mechanism}: cross attention of {queries} queries in {type(layer.module).__name__} with a cache"
    if rows is None and keys > 1 and (queries == 1 or not torch.compiler.is_compiling()):
        raise InvalidError(f"{name} does not know their place, which counts; use use_cache=False")
    if rows is not None and rows > queries and queries_compete(layer.mechanism):
        raise InvalidError(f"{name} needs all {rows}, because the keys of a query depend on the other queries; use "
                           "use_cache=False")
    return 0 if rows is None else max(0, rows - queries)


def _windowed(reading: Reading, reach: int, queries: int, keys: int) -> Reading:
    """A layer's own window, where it gets no mask."""
    farthest = reading.first + queries - 1 if reading.causal or queries < keys else keys - 1
    return reading if reach >= farthest else reading._replace(reach=reach)


def _at_the_end(layer: _Layer, reading: Reading, keys: int) -> Reading:
    """Of one query of a causal layer, whose mask has the keys that it sees and not its place: at the last of them."""
    if reading.key_mask is None:
        return reading._replace(causal=True, first=keys - 1)
    if not values_are_known(reading.key_mask):
        raise InvalidError(f"{layer.mechanism}: one query over a cache whose length is not known cannot be compiled, because "
                           "its place counts")
    seen = reading.key_mask.any(0).nonzero()
    return reading._replace(causal=True, first=int(seen.max()) if len(seen) else keys - 1)


def _in_window(reading: Reading, key: Tensor, value: Tensor, queries: int) -> tuple[Tensor, Tensor, Reading]:
    """The keys and values that a layer with a sliding window reads.

    Keys in front of all windows are cut off. InvalidError: holes in the padding, which would make a window longer.
    """
    reach, keys = cast(int, reading.reach), key.shape[-2]
    seen = _keys_of_causal(reading, queries, keys) if reading.causal or queries < keys else keys
    front, key_mask = max(0, reading.first - reach), reading.key_mask
    if key_mask is not None:
        key_mask = key_mask[:, front:seen]
        if values_are_known(key_mask) and int((key_mask[:, 1:] & ~key_mask[:, :-1]).sum(1).add(key_mask[:, 0]).max()) > 1:
            raise InvalidError("padding in the middle of a sequence and a sliding window cannot be combined")
    reading = reading._replace(key_mask=key_mask, lengths=None if key_mask is None or not values_are_known(key_mask)
                               else lengths_of(key_mask), first=reading.first - front)
    return key[..., front:seen, :], value[..., front:seen, :], reading


def _attend_packed(attend: Callable[..., Tensor], reading: Reading, query: Tensor, key: Tensor, value: Tensor,
                   given: dict[str, Any]) -> Tensor:
    """Several sequences in a row, each of which sees itself only."""
    q, k, v = (each.transpose(1, 2).flatten(0, 1) for each in (query, key, value))
    out = attend(q, k, v, causal=reading.causal, offsets=offsets_of(cast(Tensor, reading.sequences)), **given)
    return out.view(query.shape[0], query.shape[2], *out.shape[1:])


def _plain(reading: Reading, keys: int) -> bool:
    """The first `keys` keys all take part."""
    lengths = reading.lengths
    return reading.key_mask is None or (lengths is not None and bool((lengths >= keys).all()))


def _keys_of_causal(reading: Reading, queries: int, keys: int) -> int:
    """How many keys the last query sees; those behind it are places of a cache that are still empty."""
    seen = reading.first + queries
    if not queries <= seen <= keys:
        raise InvalidError(f"causal attention of {queries} queries, the first at key {reading.first}, over {keys} keys")
    return seen


def _mask(batch_size: int, kv_length: int, q_length: int | None = None, q_offset: Any = 0, kv_offset: Any = 0,
          mask_function: Any = causal_mask_function, attention_mask: Tensor | None = None,
          cache_position: Tensor | None = None, allow_is_bidirectional_skip: bool = False,
          dtype: torch.dtype = torch.float32, **more: Any) -> Tensor | None:
    """What the attention layers of a model get: a `Mask`, None for bidirectional attention without padding, or, of a function
    that is not known, the dense mask."""
    if cache_position is not None:  # in place of q_length and q_offset before 5.4
        q_length, q_offset = cache_position.shape[0], cache_position[0]
    assert q_length is not None
    wanted = asked(mask_function)
    if wanted is None:  # in full; a layer that runs on hashattn reads its values, and the model's own code computes with them
        places = {"q_length": q_length, "q_offset": q_offset} if cache_position is None else {"cache_position": cache_position}
        masks: Any = AttentionMaskInterface()  # type: ignore[no-untyped-call,unused-ignore]
        more["allow_is_causal_skip"] = False
        if adds_masks():
            dense = masks["eager"]
        else:  # before torch 2.5 it sets rows that see nothing, in place, which fails without padding, where there are none
            dense, more["allow_torch_fix"] = masks["sdpa"], attention_mask is not None
        return cast(Tensor, dense(batch_size=batch_size, kv_length=kv_length, kv_offset=kv_offset, dtype=dtype,
                                  mask_function=mask_function, attention_mask=attention_mask, **places, **more))
    key_mask = None
    if attention_mask is not None:
        key_mask = on_host(attention_mask).to(torch.bool)
        missing = kv_offset + kv_length - key_mask.shape[1]
        if missing > 0:  # places of a cache that nothing was written to
            key_mask = torch.nn.functional.pad(key_mask, (0, missing))
        key_mask = key_mask[:, kv_offset:kv_offset + kv_length]
    causal, first = wanted.causal, 0
    cut = isinstance(kv_offset, int) and kv_offset > 0  # by a cache with a window, whose layers then run in it
    reaches = wanted.reach is not None and (cut or wanted.reach < kv_length - 1)
    if (causal or reaches) and isinstance(q_offset, Tensor) and not values_are_known(q_offset):
        if reaches:
            raise InvalidError("a sliding window over a cache whose length is not known cannot be compiled")
        causal, first, key_mask = _unknown_place(q_length, kv_length, q_offset - kv_offset, key_mask)
    elif causal or reaches:
        first = int(q_offset) - int(kv_offset)
    placed = cache_position if attention_mask is None else attention_mask
    device = more.get("device", None if placed is None else placed.device)  # before 5.0 there is no device
    made = make(batch_size, q_length, kv_length, key_mask, causal, first, dtype if adds_masks() else torch.bool,
                wanted.reach if reaches else None, None if wanted.sequences is None else on_host(wanted.sequences), cut, device)
    plain = not causal and made.key_mask is None and made.reach is None and made.sequences is None
    return None if plain and allow_is_bidirectional_skip else made


def _unknown_place(queries: int, keys: int, first: Tensor, key_mask: Tensor | None) -> tuple[bool, int, Tensor | None]:
    """(causal, first, key mask) in a compiled graph, where the place of the first query is a tensor."""
    if queries == keys:
        return True, 0, key_mask
    if queries > 1:
        raise InvalidError(f"causal attention of {queries} queries over the {keys} places of a cache cannot be compiled")
    seen = on_host(torch.arange(keys, device=first.device) <= first)[None]
    return False, 0, seen if key_mask is None else seen & key_mask


for _name in mechanisms():
    register(names.PREFIX + _name, _name)


# ---- names that register themselves ----------------------------------------------------------------------------------


class Name(str):
    """A name inside a pickled model, which registers itself where it is loaded."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return restored, (str(self),)


def restored(name: str) -> str:
    """A name of a stored configuration or a pickled model, registered."""
    name = name.removesuffix(names.HINT)
    if names.stored_name(name) is None:
        mechanism, seed, options, _ = names.parts_of(name)
        register(name, mechanism, seed=seed, **options)
        names.remember(name, name)
    return name
