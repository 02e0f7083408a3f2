"""Stream: the bits of the whole sequence for any division into chunks, causal streams, shards, batches.

Planted and caught: a chunk taken twice; the mask not cut with its chunk; an output that was copied not copied back; the mask,
the output and the emptying of the first sequence for all; copies of a sequence that share a state.
SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import hashattn
from conftest import numbers, same_bits

Q, K, V = (numbers(3, 50, 8, seed=i) for i in range(3))


@pytest.mark.parametrize("chunk_rows", [1, 7, 1024])
def test_any_division_has_the_bits_of_the_whole(chunk_rows):
    mask = np.random.default_rng(1).random(50) < 0.7
    expected = hashattn.attention(Q, K, V, seed=4, num_hashes=8, key_mask=mask)
    with hashattn.Stream(3, 8, seed=4, num_hashes=8, chunk_rows=chunk_rows) as stream:
        stream.absorb(K[:, :20], V[:, :20], mask[:20])
        stream.absorb(K[:, 20:], V[:, 20:], mask[20:])
        assert same_bits(stream.read(Q), expected)
        out = np.zeros_like(Q)[:, ::-1]
        assert stream.read(Q, out=out) is out and np.array_equal(out, expected)
        stream.clear()
        assert not stream.read(Q).any()


def test_a_decoder_reads_row_by_row():
    expected = hashattn.attention(Q, K, V, num_hashes=8, causal=True)
    with hashattn.Stream(3, 8, num_hashes=8, causal=True) as stream:
        before = stream.nbytes
        rows = [stream.read(Q[:, i:i + 1], K[:, i:i + 1], V[:, i:i + 1]) for i in range(50)]
        assert same_bits(np.concatenate(rows, 1), expected)
        assert stream.nbytes == before  # the state does not grow


def test_one_head_has_no_axis():
    with hashattn.Stream(1, 8, 5, num_hashes=8) as stream:
        stream.absorb(K[0], V[0, :, :5])
        assert same_bits(stream.read(Q[0]), hashattn.attention(Q[0], K[0], V[0, :, :5], num_hashes=8))
        assert same_bits(stream.read(Q[:1])[0], stream.read(Q[0]))


def test_shards_are_merged():
    options = dict(num_hashes=8, seed=2)
    with hashattn.Stream(3, 8, **options) as one, hashattn.Stream(3, 8, **options) as two:
        one.absorb(K[:, :30], V[:, :30])
        two.absorb(K[:, 30:], V[:, 30:])
        one.merge(two)
        assert np.allclose(one.read(Q), hashattn.attention(Q, K, V, **options), atol=1e-6)
        with hashattn.Stream(3, 8, num_hashes=9, seed=2) as other, pytest.raises(ValueError, match="options"):
            one.merge(other)


def test_heads_split_over_streams():
    with hashattn.Stream(1, 8, num_hashes=8, first_head=2) as last:
        last.absorb(K[2], V[2])
        assert same_bits(last.read(Q[2]), hashattn.attention(Q, K, V, num_hashes=8)[2])


BATCH = [np.stack([numbers(3, 50, 8, seed=10 * s + i) for s in range(4)]) for i in range(3)]


@pytest.mark.parametrize("mechanism", ["yoso", "linear", "performer", "race", "rfa"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_batch_is_its_sequences(mechanism, causal):
    q, k, v = BATCH
    mask = np.random.default_rng(1).random((4, 50)) < 0.7
    options = dict(mechanism=mechanism, seed=4, causal=causal, chunk_rows=16)
    with hashattn.Stream(3, 8, batch=4, **options) as stream:
        whole = stream.read(q, k, v, mask) if causal else stream.absorb(k, v, mask) or stream.read(q)
        assert whole.shape == (4, 3, 50, 8)
        expected = hashattn.attention(q, k, v, mechanism=mechanism, seed=4, causal=causal, key_mask=mask)
        assert np.allclose(whole, expected, atol=1e-5)
        sizes = []
        for s in range(4):
            with hashattn.Stream(3, 8, **options) as one:
                if causal:
                    own = one.read(q[s], k[s], v[s], mask[s])
                else:
                    one.absorb(k[s], v[s], mask[s])
                    own = one.read(q[s])
                sizes.append(one.nbytes)
            assert same_bits(own, np.ascontiguousarray(whole[s]))
        assert stream.nbytes == sum(sizes)
        out = np.zeros((4, 50, 3, 8), np.float32).transpose(0, 2, 1, 3)
        stream.clear()
        stream.read(q, k, v, mask[0], out=out) if causal else stream.absorb(k, v, mask[0]) or stream.read(q, out=out)
        assert np.allclose(out[0], whole[0]) and not np.allclose(out[1], whole[1])


def test_a_batch_is_reordered_and_merged():
    q, k, v = BATCH
    with hashattn.Stream(3, 8, batch=4, num_hashes=8) as stream, hashattn.Stream(3, 8, batch=4, num_hashes=8) as rest:
        stream.absorb(k[:, :, :30], v[:, :, :30])
        rest.absorb(k[:, :, 30:], v[:, :, 30:])
        stream.merge(rest)
        before = stream.read(q)
        assert np.allclose(before, hashattn.attention(q, k, v, num_hashes=8), atol=1e-6)
        stream.reorder([2, 0, 2, 3, 2])
        assert stream.batch == 5
        chosen = [2, 0, 2, 3, 2]
        again = stream.read(q[chosen])
        assert same_bits(again, before[chosen])
        with pytest.raises(ValueError, match="indices is 5, allowed are 0 to 4"):
            stream.reorder([0, 5])
        with pytest.raises(hashattn.InvalidTypeError, match="indices is 5; a list of numbers of sequences is needed"):
            stream.reorder(5)
        with pytest.raises(ValueError, match="indices is empty"):
            stream.reorder([])
        assert same_bits(stream.read(q[chosen]), again)
        with pytest.raises(ValueError, match="5 and 4 sequences"):
            stream.merge(rest)
        stream.reorder([4, 1])
        assert same_bits(stream.read(q[[2, 0]]), before[[2, 0]])
        stream.clear()
        assert not stream.read(q[:2]).any()
    with hashattn.Stream(3, 8) as one, pytest.raises(ValueError, match="make it with batch="):
        one.reorder([0])


def test_what_a_batch_refuses():
    q, k, v = BATCH
    with hashattn.Stream(3, 8, batch=4) as stream:
        with pytest.raises(ValueError, match=r"q has shape \(3, 50, 8\); \(4, 3, rows, 8\) is needed"):
            stream.read(q[0])
        with pytest.raises(ValueError, match=r"key_mask has shape \(3, 50\); \(50,\) or \(4, 50\) is needed"):
            stream.absorb(k, v, np.ones((3, 50), bool))
    with pytest.raises(ValueError, match="batch is 0"):
        hashattn.Stream(3, 8, batch=0)
    with pytest.raises(MemoryError, match="this machine has"):
        hashattn.Stream(12, 64, batch=10**9)
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.reorder([0])
