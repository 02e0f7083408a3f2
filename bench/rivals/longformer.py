# SPDX-License-Identifier: Apache-2.0
"""Longformer (Beltagy et al. 2020), window 512, no global tokens: transformers'; a window in plain PyTorch, as chunks of
256 queries, each with the 768 keys around it and a mask; and FlexAttention, which has no backward on a CPU."""

import torch
import torch.nn.functional as F
from opponents import Longformer

WINDOW = 512
OPTIONS = {"window": WINDOW, "global_tokens": 0}


class Window:
    def __init__(self, n, heads, d):
        self.reach = WINDOW // 2
        query = torch.arange(n).view(-1, self.reach, 1)
        key = query[:, :1] - self.reach + torch.arange(3 * self.reach)
        self.mask = ((query - key).abs() <= self.reach) & (key >= 0) & (key < n)

    def chunks(self, x):
        return F.pad(x, (0, 0, self.reach, self.reach)).unfold(2, 3 * self.reach, self.reach).transpose(-1, -2)[0]

    def __call__(self, q, k, v):
        heads, n, d = q.shape[1:]
        out = F.scaled_dot_product_attention(q.view(heads, -1, self.reach, d), self.chunks(k), self.chunks(v), self.mask)
        return out.view(1, heads, n, d)


class Flex:
    forward_only = True

    def __init__(self, n, heads, d):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        near = lambda batch, head, query, key: (query - key).abs() <= WINDOW // 2
        self.mask = create_block_mask(near, None, None, n, n, device="cpu")
        self.attend = torch.compile(flex_attention)

    def __call__(self, q, k, v):
        return self.attend(q, k, v, block_mask=self.mask)


RIVALS = [("transformers Longformer", Longformer), ("PyTorch, SDPA on chunks", Window), ("PyTorch, FlexAttention", Flex)]
