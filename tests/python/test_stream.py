"""Stream: the bits of the whole sequence for any division into chunks, causal streams, shards.

Planted and caught: a chunk taken twice; the mask not cut with its chunk; an output that was copied not copied back.
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
