# SPDX-License-Identifier: Apache-2.0
"""The Sparse Transformer (Child et al. 2019), fixed pattern, blocks of 64, the last 8 of each seen by all: plain PyTorch, as
SDPA with a mask of n x n, and as SDPA on each block's own keys beside all summaries."""

import torch
import torch.nn.functional as F

BLOCK, SUMMARY = 64, 8
OPTIONS = {"block_size": BLOCK, "pattern": "fixed", "summary_width": SUMMARY}


class Masked:
    def __init__(self, n, heads, d):
        place = torch.arange(n)
        self.mask = (place[:, None] // BLOCK == place // BLOCK) | (place % BLOCK >= BLOCK - SUMMARY)

    def __call__(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, self.mask)


def beside_summaries(x):
    """(heads, blocks, 56 + n / 8, d): the keys of a block that are not in its summary, and all summaries."""
    x = x.view(x.shape[1], -1, BLOCK, x.shape[3])
    own, summary = x[:, :, :-SUMMARY], x[:, :, -SUMMARY:].flatten(1, 2)
    return torch.cat([own, summary[:, None].expand(-1, x.shape[1], -1, -1)], 2)


def gathered(q, k, v):
    heads, n, d = q.shape[1:]
    out = F.scaled_dot_product_attention(q.view(heads, -1, BLOCK, d), beside_summaries(k), beside_summaries(v))
    return out.view(1, heads, n, d)


RIVALS = [("PyTorch, SDPA with a mask", Masked), ("PyTorch, SDPA on gathered keys", lambda n, heads, d: gathered)]
