"""attention(): the bits of the tool in every form, shapes, strides, element types, masks, lengths and offsets.

Planted and caught: row and head strides swapped; the mask of padded keys not packed; the rest of padded outputs left as
it was; the copy of an output not copied back; columns that are apart taken in place; offsets of queries used for keys.
SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import hashattn
from conftest import numbers, run_tool, same_bits

FORMS = [
    ("yoso", {}),
    ("yoso", {"causal": True}),
    ("yoso", {"num_hashes": 7, "hash_bits": 5, "normalize": "sum", "seed": 2**64 - 1}),
    ("yoso", {"planes": "hadamard", "seed": 9}),
    ("yoso-e", {}),
    ("softmax", {}),
    ("softmax", {"causal": True}),
    ("lha", {"num_buckets": 4}),
    ("lsh", {"num_buckets": 4}),
    ("random", {"num_buckets": 4}),
    ("local", {"block_size": 8}),
    ("none", {}),
]
SHAPES = [(40, 32), (3, 40, 32), (2, 3, 40, 32)]


@pytest.mark.parametrize("mechanism, options", FORMS, ids=lambda form: str(form).replace(" ", ""))
def test_bits_are_those_of_the_tool(tmp_path, mechanism, options):
    flags = []
    for name, value in options.items():
        flags += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    for shape in SHAPES:
        q, k, v = (numbers(*shape, seed=i) for i in range(3))
        for name, array in zip("qkv", (q, k, v)):
            np.save(tmp_path / f"{name}.npy", array)
        run_tool("attend", "--attention", mechanism, *flags, "--q", tmp_path / "q.npy", "--k", tmp_path / "k.npy",
                 "--v", tmp_path / "v.npy", "--out", tmp_path / "y.npy")
        found = hashattn.attention(q, k, v, mechanism=mechanism, **options)
        assert same_bits(found, np.load(tmp_path / "y.npy")), shape


def test_masks_have_the_bits_of_the_tool(tmp_path):
    q, k, v = numbers(2, 3, 30, 8), numbers(2, 3, 50, 8, seed=1), numbers(2, 3, 50, 12, seed=2)
    mask = np.random.default_rng(3).random((2, 50)) < 0.6
    for name, array in {"q": q, "k": k, "v": v, "m": mask}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [word for name in "qkv" for word in (f"--{name}", tmp_path / f"{name}.npy")]
    run_tool("attend", "--attention", "yoso", *files, "--mask", tmp_path / "m.npy", "--out", tmp_path / "y.npy",
             "--seed", 5)
    found = hashattn.attention(q, k, v, key_mask=mask, seed=5)
    assert same_bits(found, np.load(tmp_path / "y.npy"))
    assert same_bits(found, hashattn.attention(q, k, v, key_mask=mask.astype(np.uint8), seed=5))
    one = hashattn.attention(q, k, v, key_mask=mask[1], seed=5)
    assert same_bits(one[1], found[1]) and not same_bits(one[0], found[0])


@pytest.mark.parametrize("mechanism, options", [("local", {"block_size": 4}), ("longformer", {"window": 4}),
                                                ("bigbird", {"block_size": 4}), ("nystrom", {"num_landmarks": 4})])
def test_a_mask_cuts_keys_out(mechanism, options):
    """As the docstring says: a mask in the middle or in front shifts the positions behind it."""
    q, k, v = (numbers(2, 40, 4, seed=i) for i in range(3))
    mask = np.arange(40) % 7 != 0
    out = hashattn.attention(q, k, v, mechanism=mechanism, key_mask=mask, **options)
    cut = hashattn.attention(q[:, mask], k[:, mask], v[:, mask], mechanism=mechanism, **options)
    assert same_bits(out[:, mask], cut)
    assert not np.any(out[:, ~mask])


def test_softmax_is_softmax():
    q, k, v = numbers(3, 20, 8), numbers(3, 30, 8, seed=1), numbers(3, 30, 5, seed=2)
    scores = np.einsum("hid,hjd->hij", q, k, dtype=np.float64) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights @ v / weights.sum(-1, keepdims=True)
    assert np.abs(hashattn.attention(q, k, v, mechanism="softmax") - expected).max() < 2e-6


def strided(array, how):
    """An array with the same elements in another layout."""
    if how == "heads inside rows":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, -3, -2)), -2, -3)
    if how == "part of a wider array":
        wide = np.full(array.shape[:-2] + (array.shape[-2] + 3, array.shape[-1] + 5), np.nan, array.dtype)
        part = wide[..., 2:-1, 1:-4]
        part[...] = array
        return part
    if how == "every other row":
        wide = np.repeat(array, 2, axis=-2)
        wide[..., 1::2, :] = np.nan
        return wide[..., ::2, :]
    if how == "every other column":
        wide = np.repeat(array, 2, axis=-1)
        wide[..., 1::2] = np.nan
        return wide[..., ::2]
    if how == "backwards":
        return np.ascontiguousarray(array[..., ::-1, :])[..., ::-1, :]
    if how == "columns first":
        return np.swapaxes(np.ascontiguousarray(np.swapaxes(array, -1, -2)), -1, -2)
    if how == "not aligned":
        memory = np.zeros(array.nbytes + 1, np.uint8)
        moved = memory[1:].view(array.dtype).reshape(array.shape)
        moved[...] = array
        return moved
    raise ValueError(how)


LAYOUTS = ["heads inside rows", "part of a wider array", "every other row", "every other column", "backwards",
           "columns first", "not aligned"]
IN_PLACE = LAYOUTS[:3]


@pytest.mark.parametrize("how", LAYOUTS)
def test_any_strides(how):
    q, k, v = (numbers(2, 3, 24, 8, seed=i) for i in range(3))
    expected = hashattn.attention(q, k, v)
    moved = [strided(array, how) for array in (q, k, v)]
    assert all(np.array_equal(a, b) for a, b in zip(moved, (q, k, v)))
    assert same_bits(hashattn.attention(*moved), expected)
    out = strided(np.zeros_like(q), how)
    assert hashattn.attention(q, k, v, out=out) is out
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("how", IN_PLACE)
def test_strides_without_a_copy(how):
    from hashattn.arrays import Layout

    array = strided(numbers(2, 3, 24, 8), how)
    layout = Layout(array, False)
    assert layout.copied is None and layout.struct.data == array.ctypes.data
    shared = Layout(np.broadcast_to(numbers(24, 8), (2, 3, 24, 8)), False)
    assert shared.copied is None and shared.struct.head_stride == shared.struct.sequence_stride == 0


def test_heads_and_sequences_may_be_broadcast():
    q, k, v = numbers(2, 3, 24, 8), numbers(24, 8, seed=1), numbers(1, 3, 24, 8, seed=2)
    k, v = np.broadcast_to(k, q.shape), np.broadcast_to(v, q.shape)
    assert same_bits(hashattn.attention(q, k, v), hashattn.attention(q, k.copy(), v.copy()))


def test_a_sequence_has_the_same_bits_in_any_batch():
    q, k, v = (numbers(4, 3, 24, 8, seed=i) for i in range(3))
    whole = hashattn.attention(q, k, v)
    for sequence in range(4):
        assert same_bits(hashattn.attention(q[sequence], k[sequence], v[sequence]), whole[sequence])


@pytest.mark.parametrize("mechanism", ["yoso", "softmax", "lha"])
def test_lengths_cut_padded_rows(mechanism):
    q, k, v = (numbers(4, 3, 24, 8, seed=i) for i in range(3))
    lengths = [24, 7, 0, 13]
    for sequence, length in enumerate(lengths):
        for array in (q, k, v):
            array[sequence, :, length:] = np.nan
    out = np.full_like(q, 7)
    found = hashattn.attention(q, k, v, lengths=lengths, mechanism=mechanism, out=out)
    assert found is out
    assert same_bits(found, hashattn.attention(q, k, v, lengths=np.array(lengths, np.int32), mechanism=mechanism))
    for sequence, length in enumerate(lengths):
        alone = hashattn.attention(*(array[sequence, :, :length] for array in (q, k, v)), mechanism=mechanism)
        assert same_bits(found[sequence, :, :length].copy(), alone)
        assert not found[sequence, :, length:].any()


def test_lengths_with_masks_and_of_keys_only():
    q, k, v = numbers(2, 3, 10, 8), numbers(2, 3, 24, 8, seed=1), numbers(2, 3, 24, 8, seed=2)
    lengths = [5, 20]
    mask = np.random.default_rng(1).random((2, 24)) < 0.5
    short = mask & (np.arange(24) < np.array(lengths)[:, np.newaxis])
    expected = hashattn.attention(q, k, v, key_mask=short)
    assert same_bits(hashattn.attention(q, k, v, key_mask=mask, lengths=lengths), expected)
    both = hashattn.attention(q, k, v, key_mask=mask, lengths=([10, 3], lengths))
    assert same_bits(both[0], expected[0]) and same_bits(both[1, :, :3].copy(), expected[1, :, :3].copy())
    assert not both[1, :, 3:].any()
    one = hashattn.attention(q[0], k[0], v[0], lengths=5)
    assert same_bits(one, hashattn.attention(q[0], k[0, :, :5], v[0, :, :5]))


def test_offsets_pack_sequences():
    lengths = [5, 0, 24, 1]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    q, k, v = (numbers(30, 3, 8, seed=i) for i in range(3))
    mask = np.random.default_rng(1).random(30) < 0.7
    for given in (None, mask):
        found = hashattn.attention(q, k, v, offsets=offsets, key_mask=given)
        assert found.shape == (30, 3, 8)
        for first, end in zip(offsets, offsets[1:]):
            alone = hashattn.attention(*(array[first:end].swapaxes(0, 1) for array in (q, k, v)),
                                       key_mask=None if given is None else given[first:end])
            assert same_bits(found[first:end].swapaxes(0, 1).copy(), alone)


def test_offsets_of_queries_and_keys():
    q, k, v = numbers(7, 2, 8), numbers(20, 2, 8, seed=1), numbers(20, 2, 6, seed=2)
    found = hashattn.attention(q, k, v, offsets=([0, 3, 7], [0, 15, 20]), mechanism="softmax")
    alone = hashattn.attention(*(array.swapaxes(0, 1) for array in (q[3:], k[15:], v[15:])), mechanism="softmax")
    assert same_bits(found[3:].swapaxes(0, 1).copy(), alone)


def test_empty_arrays():
    for shape in [(0, 8), (3, 0, 8), (2, 3, 0, 8), (0, 3, 5, 8)]:
        found = hashattn.attention(*[np.zeros(shape, np.float32)] * 3)
        assert found.shape == shape and found.dtype == np.float32
    no_keys = hashattn.attention(numbers(3, 5, 8), np.zeros((3, 0, 8), np.float32), np.zeros((3, 0, 6), np.float32))
    assert no_keys.shape == (3, 5, 6) and not no_keys.any()
    packed = hashattn.attention(*[np.zeros((0, 3, 8), np.float32)] * 3, offsets=[0])
    assert packed.shape == (0, 3, 8)
    assert not hashattn.attention(*[numbers(4, 8)] * 3, key_mask=np.zeros(4, bool)).any()


def test_bfloat16(tmp_path):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    q, k, v = (numbers(2, 3, 24, 8, seed=i, dtype=bfloat16) for i in range(3))
    found = hashattn.attention(q, k, v)
    assert found.dtype == bfloat16
    wide = hashattn.attention(*(array.astype(np.float32) for array in (q, k, v)))
    assert same_bits(found, wide.astype(bfloat16))
    assert same_bits(hashattn.attention(q[..., ::-1, :], k, v)[..., ::-1, :].copy(), found)
    padded = hashattn.attention(q, k, v, lengths=[10, 24])
    assert same_bits(padded[1], found[1]) and not padded[0, :, 10:].any()
    lists = [array.astype(np.float32) for array in (q, k, v)]
    for name, array in zip("qkv", lists):
        np.save(tmp_path / f"{name}.npy", array)
    run_tool("attend", "--attention", "yoso", "--precision", "bf16", "--q", tmp_path / "q.npy", "--k",
             tmp_path / "k.npy", "--v", tmp_path / "v.npy", "--out", tmp_path / "y.npy")
    with hashattn.Context(precision="bf16") as context:
        found = hashattn.attention(q, k, v, context=context)
    assert same_bits(found.astype(np.float32), np.load(tmp_path / "y.npy"))


def test_seeds_determine_sampled_mechanisms():
    q, k, v = (numbers(40, 8, seed=i) for i in range(3))
    assert same_bits(hashattn.attention(q, k, v, seed=1), hashattn.attention(q, k, v, seed=np.uint64(1)))
    assert not same_bits(hashattn.attention(q, k, v, seed=1), hashattn.attention(q, k, v, seed=2))


class Lent:
    """An array that has DLPack's protocol only."""

    def __init__(self, array, kind=1):
        self.array, self.kind = array, kind

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.kind, 0


def test_dlpack():
    q = np.random.default_rng(1).standard_normal((2, 20, 16)).astype(np.float32)
    assert (hashattn.attention(Lent(q), Lent(q), Lent(q)) == hashattn.attention(q, q, q)).all()
    with pytest.raises(TypeError, match=r"k is on device \(10, 0\) of DLPack; this computes on the processor"):
        hashattn.attention(q, Lent(q, 10), q)  # ROCm
