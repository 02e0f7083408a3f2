# SPDX-License-Identifier: Apache-2.0
"""Reformer's attention (Kitaev et al. 2020): the layer of the transformers library without its projections. Queries are keys,
so the keys given are not used, and the exact attention that it approximates is that of each query to all other normed queries.
"""

CHUNK, ROUNDS = 64, 2
OPTIONS = {"chunk_size": CHUNK, "rounds": ROUNDS}


def transformers_reformer(n, heads, d):
    from opponents import with_given
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention
    layer = with_given(LSHSelfAttention(ReformerConfig(
        hidden_size=heads * d, num_attention_heads=heads, attention_head_size=d, attn_layers=["lsh"], num_hashes=ROUNDS,
        lsh_attn_chunk_length=CHUNK, lsh_num_chunks_before=1, lsh_num_chunks_after=0, is_decoder=False,
        num_buckets=2 * n // CHUNK, max_position_embeddings=n)), ("query_key", "value"), heads)

    def attend(q, k, v):
        layer.query_key.rows, layer.value.rows = q, v
        return layer(q.new_zeros(1, n, 1)).hidden_states.view(1, n, heads, d).transpose(1, 2)

    return attend


def others(q, k, v, places):
    """Rows of exact attention to all other queries, normed."""
    unit = q / (q.square().mean(-1, keepdim=True) + 1e-6).sqrt() / q.shape[-1]**0.5
    scores = q[:, places] @ unit.transpose(-1, -2)
    scores[:, range(len(places)), places] = float("-inf")
    return scores.softmax(-1) @ v


RIVALS = [("transformers LSHSelfAttention", transformers_reformer)]
EXACT = ("attention to the other queries", others)
