"""Cache: attention of the last rows as of the whole sequence, groups, batches, padding, beams, dtypes, and what is refused.

Planted and caught: a 0 that means the default; an option that is no number as a raw error; indices by the name in C;
sequences that a refused append leaves; a name cut at its zero character.
SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import hashattn
from conftest import numbers, same_bits

Q = numbers(8, 40, 16, seed=0)
K, V = numbers(2, 40, 16, seed=1), numbers(2, 40, 16, seed=2)
WHOLE = hashattn.attention(Q, K.repeat(4, 0), V.repeat(4, 0), mechanism="softmax", causal=True)


def cache_of(**options):
    return hashattn.Cache(heads=8, kv_heads=2, head_dim=16, **options)


@pytest.mark.parametrize("mechanism", ["softmax", "hashed", "top", "top-uniform", "hamming", "lsh", "window"])
@pytest.mark.parametrize("dtype, close", [("float32", 1e-5), ("bfloat16", 0.03)])
def test_rows_one_after_another_give_the_whole(mechanism, dtype, close):
    with cache_of(mechanism=mechanism, dtype=dtype, budget=40) as cache:
        cache.append(K[:, :30], V[:, :30])
        assert np.allclose(cache.attend(Q[:, :30]), WHOLE[:, :30], atol=close)
        for i in range(30, 40):
            cache.append(K[:, i:i + 1], V[:, i:i + 1])
            assert np.allclose(cache.attend(Q[:, i:i + 1]), WHOLE[:, i:i + 1], atol=close)
        assert cache.lengths == [40] and cache.rows_read == 40 and cache.error == 0


def test_the_example_of_the_documentation():
    k, v, q = numbers(8, 4000, 64, seed=1), numbers(8, 4000, 64, seed=2), numbers(32, 1, 64, seed=3)
    with hashattn.Cache(heads=32, kv_heads=8, head_dim=64, mechanism="hashed", budget=0.05, bits=128,
                        dtype="bfloat16") as cache:
        cache.append(k, v)
        out = cache.attend(q)
        assert out.shape == (32, 1, 64) and out.dtype == np.float32
        assert abs(cache.rows_read - 200) < 2 and 0 < cache.error < 2
        rows = 4000 * 8 * (2 * 64 * 2 + 16 + 4 + 4)
        assert rows < cache.nbytes < 1.2 * rows


def test_sequences_of_a_padded_batch_have_their_own_lengths():
    k, v, q = (np.stack([each, each]) for each in (K, V, Q))
    mask = np.ones((2, 40), bool)
    mask[1, :15] = False  # left padding
    k[1, :, :15] = np.nan
    with cache_of() as cache:
        cache.append(k, v, mask)
        assert cache.lengths == [40, 25]
        out = cache.attend(q)
        alone = hashattn.attention(Q[:, 15:], K[:, 15:].repeat(4, 0), V[:, 15:].repeat(4, 0), mechanism="softmax", causal=True)
        assert np.allclose(out[0], WHOLE, atol=1e-5)
        assert np.allclose(out[1, :, 15:], alone, atol=1e-5) and not out[1, :, :15].any()


def test_truncate_reorder_and_clear():
    with cache_of(mechanism="hashed") as cache:
        cache.append(K[None].repeat(2, 0), V[None].repeat(2, 0))
        cache.truncate([35, 20])
        cache.reorder([1, 0, 1])
        assert cache.lengths == [20, 35, 20]
        cache.truncate(30)
        assert cache.lengths == [20, 30, 20]
        assert np.allclose(cache.attend(Q[None, :, :20].repeat(3, 0))[0], WHOLE[:, :20], atol=1e-5)
        cache.append(K[None, :, 30:31].repeat(3, 0), V[None, :, 30:31].repeat(3, 0))
        assert np.allclose(cache.attend(Q[None, :, 30:31].repeat(3, 0))[1], WHOLE[:, 30:31], atol=1e-5)
        full = cache.nbytes
        cache.clear()
        assert cache.lengths == [0, 0, 0] and cache.nbytes < full
        cache.append(K, V)  # an empty cache takes another number of sequences
        assert cache.lengths == [40]


@pytest.mark.parametrize("mechanism, bits", [("softmax", None), ("hashed", None), ("hashed", 1024)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_cache_goes_on(mechanism, bits, dtype, tmp_path):
    k, v, q = numbers(2, 2, 500, 16, seed=1), numbers(2, 2, 500, 16, seed=2), numbers(2, 8, 3, 16, seed=3)
    with cache_of(mechanism=mechanism, bits=bits, dtype=dtype, budget=0.3, seed=7) as cache:
        cache.append(k, v)
        cache.truncate([500, 300])
        cache.save(tmp_path / "prompt")
        expected = cache.attend(q)
        with hashattn.Cache.load(tmp_path / "prompt") as loaded:
            assert repr(loaded) == repr(cache)
            assert (loaded.heads, loaded.kv_heads, loaded.head_dim) == (8, 2, 16)
            assert (loaded.mechanism, loaded.dtype, loaded.lengths) == (mechanism, dtype, [500, 300])
            assert same_bits(loaded.attend(q), expected)
    whole = (tmp_path / "prompt").read_bytes()
    for damaged, message in ((whole[:100], "its header needs"), (whole[:-1], "its header needs"), (b"x", "not a key-value cache"),
                             (whole[:900] + bytes([whole[900] ^ 1]) + whole[901:], "checksum is wrong")):
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(hashattn.BadFileError, match=message):
            hashattn.Cache.load(tmp_path / "damaged")


def test_windows_and_outputs():
    with cache_of(window=7, scale=0.3) as cache:
        cache.append(K, V)
        out = np.empty((8, 1, 16), np.float32)
        assert cache.attend(Q[:, -1:], out=out) is out
        with cache_of(scale=0.3) as other:
            other.append(K[:, -7:], V[:, -7:])
            assert np.allclose(other.attend(Q[:, -1:]), out, atol=1e-6)


def test_bfloat16_arrays():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with cache_of(dtype="bfloat16") as cache:
        cache.append(K.astype(ml_dtypes.bfloat16), V.astype(ml_dtypes.bfloat16))
        out = cache.attend(Q.astype(ml_dtypes.bfloat16))
        assert out.dtype == ml_dtypes.bfloat16 and np.allclose(out.astype(np.float32), WHOLE, atol=0.04)


@pytest.mark.parametrize("given, message", [
    (dict(mechanism="sotfmax"), "no mechanism \"sotfmax\""),
    (dict(dtype="float16"), "dtype is 'float16'"),
    (dict(mechanism="hashed", bits=100), "bits is 100"),
    (dict(mechanism="hashed", bits=1040), "bits is 1040; a multiple of 16 from 16 to 1024"),
    (dict(mechanism="hashed", budget=0), "budget is 0"),
    (dict(mechanism="top", tolerance=0.1), "top knows no error of its own"),
    (dict(scale=0.0), "scale is 0, more than 0 is needed; None leaves it out"),
    (dict(window=0), "window is 0, more than 0"),
    (dict(mechanism="hashed", bits=0), "bits is 0, more than 0"),
    (dict(mechanism="hashed", tolerance=0.0), "tolerance is 0, more than 0"),
    (dict(mechanism="hashed", sharpness=0), "sharpness is 0, more than 0"),
    (dict(mechanism="hashed", budget="0.1"), "budget is '0.1'; a number is needed"),
])
def test_bad_options(given, message):
    with pytest.raises(ValueError, match=message):
        cache_of(**given)


def test_names_end_where_they_end():
    with pytest.raises(hashattn.InvalidTypeError, match="mechanism is"):
        cache_of(mechanism="softmax\0x")


def test_a_refused_append_leaves_an_empty_cache_as_it_was():
    with cache_of() as cache:
        with pytest.raises(ValueError, match="key holds NaN"):
            cache.append(np.full((3, 2, 1, 16), np.nan, np.float32), np.zeros((3, 2, 1, 16), np.float32))
        assert cache.lengths == [0]


def test_bad_arrays():
    with cache_of() as cache:
        with pytest.raises(ValueError, match=r"k has shape \(3, 40, 16\); \(2, rows, 16\)"):
            cache.append(numbers(3, 40, 16), V)
        with pytest.raises(ValueError, match="they must be equal"):
            cache.append(K, V[:, :3])
        bad = K.copy()
        bad[1, 3, 2] = np.nan
        with pytest.raises(ValueError, match="key holds NaN or infinity at sequence 0, row 3, head 1"):
            cache.append(bad, V)
        assert cache.lengths == [0]
        cache.append(K, V)
        with pytest.raises(ValueError, match="q has 2 sequences, the cache has 1"):
            cache.attend(Q[None].repeat(2, 0))
        with pytest.raises(ValueError, match="k has 2 sequences, the cache has 1"):
            cache.append(K[None].repeat(2, 0), V[None].repeat(2, 0))
        with pytest.raises(ValueError, match="indices is 1, allowed are 0 to 0"):
            cache.reorder([1])
        with pytest.raises(hashattn.InvalidTypeError, match="indices is 1; a list of numbers of sequences is needed"):
            cache.reorder(1)
        with pytest.raises(TypeError, match="float64"):
            cache.attend(Q.astype(np.float64))
    with pytest.raises(ValueError, match="closed"):
        cache.append(K, V)
