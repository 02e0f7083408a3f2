"""Bad input: an exception with the numbers, of the kind that a Python user expects; nothing is written or crashes.

Planted and caught: float64 taken as float32; a read-only output written; an overlap of output and input not noticed;
offsets that end too early; a closed context opened again; seeds cut to 64 bits; an error of Python's own in place of one
that names the argument. SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import hashattn
from conftest import numbers, same_bits

Q = numbers(2, 3, 10, 8)
READ_ONLY = np.zeros_like(Q)
READ_ONLY.flags.writeable = False


class OnAnotherDevice:
    """As a CUDA tensor of PyTorch describes itself."""

    class device:
        type = "cuda"

        def __repr__(self):
            return "cuda:0"

    device = device()


class Cuda:
    """As an array of CuPy describes itself."""

    __cuda_array_interface__ = {"shape": (3, 8), "typestr": "<f4"}


NAN = Q.copy()
NAN[1, 2, 3, 4] = np.nan
INFINITE = Q.copy()
INFINITE[0, 1, 2, 3] = -np.inf

CASES = [
    (TypeError, "q has dtype float64 and shape", (Q.astype(float), Q, Q), {}),
    (TypeError, "v has dtype int32", (Q, Q, Q.astype(np.int32)), {}),
    (TypeError, "k has dtype float16", (Q, Q.astype(np.float16), Q), {}),
    (TypeError, "q has dtype >f4", (Q.astype(">f4"), Q, Q), {}),
    (TypeError, "q has dtype object", ([[None]], Q, Q), {}),
    (TypeError, "q has dtype uint16", (Q.astype(np.uint16), Q, Q), {}),
    (TypeError, "q is on cuda:0; hashattn computes on the CPU", (OnAnotherDevice(), Q, Q), {}),
    (TypeError, "k is on cuda; hashattn computes on the CPU", (Q, Cuda(), Q), {}),
    (ValueError, r"q has shape \(8,\); it must be \(n, d\)", (Q[0, 0, 0],) * 3, {}),
    (ValueError, r"q has shape \(1, 2, 3, 10, 8\)", (Q[np.newaxis],) * 3, {}),
    (ValueError, r"q has shape \(2, 3, 10, 8\) and k \(2, 2, 10, 8\)", (Q, Q[:, :2], Q[:, :2]), {}),
    (ValueError, r"q has shape \(2, 3, 10, 8\) and k \(3, 10, 8\)", (Q, Q[0], Q[0]), {}),
    (ValueError, r"q has shape \(2, 3, 10, 8\) and k \(2, 3, 10, 7\)", (Q, Q[..., :7], Q), {}),
    (ValueError, r"k has shape \(2, 3, 10, 8\) and v \(2, 3, 9, 8\)", (Q, Q, Q[:, :, :9]), {}),
    (ValueError, "num_heads is 0", (Q[:, :0],) * 3, {}),
    (ValueError, "head_dim is 0", (Q[..., :0],) * 3, {}),
    (ValueError, "value_dim is 0", (Q, Q, Q[..., :0]), {}),
    (ValueError, "query is nan at sequence 1, head 2, row 3, column 4", (NAN, Q, Q), {}),
    (ValueError, "key is -inf at sequence 0, head 1, row 2, column 3", (Q, INFINITE, Q), {}),
    (ValueError, "value is nan", (Q, Q, NAN), {}),
    (ValueError, "10 queries and 9 keys", (Q, Q[:, :, :9], Q[:, :, :9]), {"causal": True}),
    (ValueError, "gradient true needs hash_bits of at least 2", (Q, Q, Q), {"gradient": "true", "hash_bits": 1}),
    (ValueError, "no mechanism 'yoyo', there are", (Q, Q, Q), {"mechanism": "yoyo"}),
    (TypeError, "mechanism is 5", (Q, Q, Q), {"mechanism": 5}),
    (ValueError, "yoso has no option 'hashes'; it has num_hashes, hash_bits, ", (Q, Q, Q), {"hashes": 5}),
    (ValueError, "num_hashes is 0, allowed are 1 to", (Q, Q, Q), {"num_hashes": 0}),
    (ValueError, "num_hashes is '2.5'", (Q, Q, Q), {"num_hashes": 2.5}),
    (TypeError, "num_hashes is None", (Q, Q, Q), {"num_hashes": None}),
    (ValueError, "seed is -1, allowed are 0 to", (Q, Q, Q), {"seed": -1}),
    (ValueError, "seed is 18446744073709551616", (Q, Q, Q), {"seed": 2**64}),
    (TypeError, "seed is 1.5", (Q, Q, Q), {"seed": 1.5}),
    (TypeError, "key_mask has dtype float32", (Q, Q, Q), {"key_mask": np.ones(10, np.float32)}),
    (ValueError, r"key_mask\[0\] is 2, allowed are 0 and 1", (Q, Q, Q), {"key_mask": np.full(10, 2)}),
    (ValueError, r"key_mask\[0\] is -1, allowed are 0 and 1", (Q, Q, Q), {"key_mask": np.full(10, -1, np.int8)}),
    (TypeError, r"q is a masked array; .* q.filled\(0\)", (np.ma.masked_array(Q, Q > 0), Q, Q), {}),
    (ValueError, r"key_mask has shape \(9,\); \(2, 10\) or \(10,\)", (Q, Q, Q), {"key_mask": np.ones(9, bool)}),
    (ValueError, r"key_mask\[3\] is 2", (Q, Q, Q), {"key_mask": np.array([0, 1, 1, 2] * 5, np.uint8).reshape(2, 10)}),
    (ValueError, r"lengths\[1\] is 11, allowed are 0 to 10", (Q, Q, Q), {"lengths": [3, 11]}),
    (ValueError, r"lengths\[0\] is -1", (Q, Q, Q), {"lengths": [-1, 3]}),
    (ValueError, r"lengths has shape \(3,\); \(2,\)", (Q, Q, Q), {"lengths": [1, 2, 3]}),
    (TypeError, "lengths has dtype float64", (Q, Q, Q), {"lengths": [1.0, 2.0]}),
    (ValueError, "lengths and offsets", (Q[0],) * 3, {"lengths": [1], "offsets": [0, 3]}),
    (ValueError, "offsets must ascend from 0 to the number of rows, 3", (Q[0],) * 3, {"offsets": [0, 2]}),
    (ValueError, "offsets must ascend", (Q[0],) * 3, {"offsets": [0, 3, 1, 3]}),
    (ValueError, "offsets must ascend", (Q[0],) * 3, {"offsets": [1, 3]}),
    (ValueError, "offsets must ascend", (Q[0],) * 3, {"offsets": []}),
    (ValueError, r"offsets\[1\] is 4, allowed are 0 to 3", (Q[0],) * 3, {"offsets": [0, 4]}),
    (ValueError, "1 query and 2 key sequences", (Q[0],) * 3, {"offsets": ([0, 3], [0, 1, 3])}),
    (ValueError, r"q has shape \(2, 3, 10, 8\); it must be \(rows, heads, d\)", (Q, Q, Q), {"offsets": [0, 2]}),
    (ValueError, "read-only", (Q, Q, Q), {"out": READ_ONLY}),
    (ValueError, "read-only", (Q, Q, Q), {"out": np.broadcast_to(np.float32(0), Q.shape)}),
    (ValueError, r"out has shape \(3, 10, 8\); \(2, 3, 10, 8\)", (Q, Q, Q), {"out": np.zeros_like(Q[0])}),
    (TypeError, "out has dtype float64", (Q, Q, Q), {"out": np.zeros(Q.shape)}),
    (TypeError, "out has type list", (Q, Q, Q), {"out": []}),
    (ValueError, "overlaps an input", (Q, Q, Q), {"out": Q}),
    (TypeError, "context is a int", (Q, Q, Q), {"context": 5}),
]


@pytest.mark.parametrize("kind, message, arrays, options", CASES, ids=[case[1] for case in CASES])
def test_bad_calls(kind, message, arrays, options):
    before = Q.copy()
    with pytest.raises(kind, match=message) as caught:
        hashattn.attention(*arrays, **options)
    assert isinstance(caught.value, hashattn.Error) and isinstance(caught.value, ValueError)
    assert same_bits(Q, before) and not READ_ONLY.any()


def test_outputs_that_overlap_themselves():
    memory = np.zeros(2 * 3 * 10 * 8, np.float32)
    twice = np.lib.stride_tricks.as_strided(memory, Q.shape, (0, 320, 32, 4))
    with pytest.raises(ValueError, match="would overlap"):
        hashattn.attention(Q, Q, Q, out=twice)
    assert not memory.any()


def test_dtypes_must_agree():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    with pytest.raises(TypeError, match="dtypes float32, bfloat16, float32"):
        hashattn.attention(Q, Q.astype(bfloat16), Q)
    with hashattn.Stream(3, 8) as stream, pytest.raises(TypeError, match="streams take float32"):
        stream.absorb(Q[0].astype(bfloat16), Q[0].astype(bfloat16))


def shown(*shape):
    """An array of any size in the memory of one number."""
    return np.broadcast_to(np.float32(1), shape)


@pytest.mark.parametrize("shape", [(2**50, 3, 10, 8), (2**31, 2**20, 10, 8), (2, 3, 2**55, 4)])
def test_sizes_that_overflow(shape):
    if shape[2] > 10:  # NumPy refuses to make the copy of rows that overlap
        array = shown(*shape)
    else:
        array = np.lib.stride_tricks.as_strided(numbers(10, 8), shape, (0, 0, 32, 4))
    with pytest.raises((MemoryError, ValueError)):
        hashattn.attention(array, array, array)


def test_a_billion_numbers_by_broadcast():
    """10^9 numbers that share the memory of few: refused for lack of memory, or the output would be as large."""
    array = np.lib.stride_tricks.as_strided(numbers(10, 8), (2**40, 3, 10, 8), (0, 0, 32, 4))
    with pytest.raises((MemoryError, ValueError), match="memory|allocate|too many|large"):
        hashattn.attention(array, array, array)
    keys = np.broadcast_to(numbers(1, 8), (10**9, 1, 8)).swapaxes(0, 1)
    with pytest.raises((MemoryError, ValueError)):
        hashattn.attention(numbers(1, 5, 8), keys[:, :, :4], keys)


def test_backward_checks_dout():
    with hashattn.Attention("yoso") as attention:
        attention.forward(Q, Q, Q)
        for bad, kind, message in [
            (Q[0], ValueError, r"dout has shape \(3, 10, 8\)"),
            (Q.astype(float), TypeError, "dout has dtype float64"),
            (NAN, ValueError, "dout is nan at sequence 1, head 2, row 3, column 4"),
        ]:
            with pytest.raises(kind, match=message):
                attention.backward(bad)
        assert attention.backward(Q)[0].shape == Q.shape


def test_a_failed_forward_leaves_nothing_to_follow():
    with hashattn.Attention("yoso") as attention:
        attention.forward(Q, Q, Q)
        with pytest.raises(ValueError):
            attention.forward(NAN, Q, Q)
        with pytest.raises(ValueError, match="no forward"):
            attention.backward(Q)


def test_closed_objects():
    context = hashattn.Context(threads=1)
    attention = hashattn.Attention(context=context)
    stream = hashattn.Stream(3, 8, context=context)
    attention.forward(Q, Q, Q)
    attention.close()
    attention.close()
    with pytest.raises(ValueError, match="the Attention is closed"):
        attention.backward(Q)
    context.close()
    context.close()
    for use in (
        lambda: hashattn.attention(Q, Q, Q, context=context),
        lambda: hashattn.Attention(context=context),
        lambda: stream.absorb(Q[0], Q[0]),
        lambda: stream.nbytes,
        context.describe,
    ):
        with pytest.raises(ValueError, match="the context is closed"):
            use()
    assert context.closed and "closed" in repr(context)
    stream.close()


@pytest.mark.parametrize("kind, message, options", [
    (ValueError, "threads is -1", {"threads": -1}),
    (ValueError, "threads is 1025", {"threads": 1025}),
    (TypeError, "threads='2'", {"threads": "2"}),
    (TypeError, "isa=5", {"isa": 5}),
    (ValueError, "isa 'sse9'", {"isa": "sse9"}),
    (ValueError, "no precision 'float16', there are: float32, bf16", {"precision": "float16"}),
])
def test_bad_contexts(kind, message, options):
    with pytest.raises(kind, match=message):
        hashattn.Context(**options)


def test_bad_streams():
    for kind, message, options in [
        (ValueError, "softmax", {"mechanism": "softmax"}),
        (ValueError, "num_heads is 0", {"heads": 0}),
        (MemoryError, "this machine has", {"heads": 2**40}),
        (TypeError, "heads is 1.5", {"heads": 1.5}),
        (ValueError, "yoso has no option 'x'", {"x": 5}),
    ]:
        with pytest.raises(kind, match=message):
            hashattn.Stream(**{"heads": 3, "head_dim": 8, **options})
    with hashattn.Stream(3, 8) as stream, hashattn.Stream(3, 8, causal=True) as causal:
        for kind, message, call in [
            (ValueError, r"k has shape \(2, 10, 8\); \(3, rows, 8\)", lambda: stream.absorb(Q[0][:2], Q[0][:2])),
            (ValueError, "the numbers of rows differ", lambda: stream.absorb(Q[0], Q[0][:, :4])),
            (ValueError, "key is nan at row 3 of the sequence, head 2, column 4", lambda: stream.absorb(NAN[1], Q[1])),
            (ValueError, "only a causal stream reads k and v", lambda: stream.read(Q[0], Q[0], Q[0])),
            (ValueError, "a causal stream reads q with k and v", lambda: causal.read(Q[0])),
            (ValueError, "causal stream", lambda: causal.absorb(Q[0], Q[0])),
            (TypeError, "a str cannot be merged", lambda: stream.merge("x")),
            (ValueError, "causal", lambda: stream.merge(causal)),
            (TypeError, "key_mask has dtype float64", lambda: stream.absorb(Q[0], Q[0], np.ones(10))),
            (ValueError, r"key_mask has shape \(9,\); \(10,\)", lambda: stream.absorb(Q[0], Q[0], np.ones(9, bool))),
            (ValueError, "read-only", lambda: stream.read(Q[0], out=READ_ONLY[0])),
        ]:
            with pytest.raises(kind, match=message):
                call()


@pytest.mark.parametrize("message, call", [
    ("path is 'a.ud800', which no file can be called", lambda: hashattn.Run("a\ud800")),
    ("task is None; a bool, a number or a text", lambda: hashattn.train(None, "data", "run")),
    ("texts is 5; a list of texts is needed", lambda: hashattn.train("text", "data", "run", texts=5, labels=[1])),
    ("files is None; a path or several are needed", lambda: hashattn.Tokenizer.learn(None)),
    ("path is None; a path is needed", lambda: hashattn.Cache.load(None)),
    ("path is 3; a path is needed", lambda: hashattn.Cache(2, head_dim=8).save(3)),
    (r"lengths is \[1, 2, 3\]; a row number for each of 1 sequences", lambda: hashattn.Cache(2, head_dim=8).truncate([1, 2, 3])),
    ("num_hashes is 'a.ud800'; a bool, a number or a text", lambda: hashattn.attention(Q, Q, Q, num_hashes="a\ud800")),
    ("params is a float; arrays by name", lambda: hashattn.Attention("rfa").set_params(1.5, 8)),
    ("of_density is no array", lambda: hashattn.Density().fit(Q[0, 0]).gradient(Q[0, 0], Q[0, 0], of_density="x")),
])
def test_errors_name_the_argument(message, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hashattn.InvalidError, match=message):
        call()
    assert not list(tmp_path.iterdir())
