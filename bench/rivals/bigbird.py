# SPDX-License-Identifier: Apache-2.0
"""BigBird (Zaheer et al. 2020), blocks of 64, 3 random ones: transformers', and plain PyTorch: SDPA on the eight gathered
blocks of each block of queries, and full SDPA for the first and the last block. In PyTorch, a random block may be one of
the others, which changes no time."""

import torch
import torch.nn.functional as F
from opponents import with_given

BLOCK, RANDOM = 64, 3
OPTIONS = {"block_size": BLOCK, "random_blocks": RANDOM, "global_blocks": 1}


class BigBird:
    def __init__(self, n, heads, d):
        from transformers import BigBirdConfig
        from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel
        config = BigBirdConfig(hidden_size=heads * d, num_attention_heads=heads, block_size=BLOCK,
                               num_random_blocks=RANDOM, max_position_embeddings=n)
        self.module = with_given(BigBirdBlockSparseAttention(config, seed=0), ("query", "key", "value"), heads)
        blocks, band, self.rows, self.cols = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, n), BLOCK)
        self.masks, self.heads = dict(band_mask=band, from_blocked_mask=blocks, to_blocked_mask=blocks), heads

    def __call__(self, q, k, v):
        m = self.module
        m.query.rows, m.key.rows, m.value.rows = q, k, v
        out = m(q.new_zeros(1, q.shape[2], 1), from_mask=self.rows, to_mask=self.cols, **self.masks)[0]
        return out.view(1, q.shape[2], self.heads, -1).transpose(1, 2)


class Gathered:
    def __init__(self, n, heads, d):
        blocks = n // BLOCK
        middle = torch.arange(1, blocks - 1).view(1, -1, 1).expand(heads, -1, 1)
        ends = torch.tensor([0, blocks - 1]).expand(heads, blocks - 2, 2)
        drawn = torch.rand(heads, blocks - 2, blocks, generator=torch.Generator().manual_seed(0)).argsort(-1)[..., :RANDOM]
        self.blocks = torch.cat([ends, middle - 1, middle, middle + 1, drawn], -1)
        self.head = torch.arange(heads).view(-1, 1, 1)

    def gather(self, x):
        return x.view(x.shape[1], -1, BLOCK, x.shape[3])[self.head, self.blocks].flatten(2, 3)

    def __call__(self, q, k, v):
        heads, n, d = q.shape[1:]
        ends = torch.cat([q[:, :, :BLOCK], q[:, :, -BLOCK:]], 2)
        first, last = F.scaled_dot_product_attention(ends, k, v).split(BLOCK, 2)
        middle = q[0, :, BLOCK:-BLOCK].reshape(heads, -1, BLOCK, d)
        middle = F.scaled_dot_product_attention(middle, self.gather(k), self.gather(v)).reshape(1, heads, -1, d)
        return torch.cat([first, middle, last], 2)


RIVALS = [("transformers BigBird", BigBird), ("PyTorch, SDPA on gathered blocks", Gathered)]
