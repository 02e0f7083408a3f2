# SPDX-License-Identifier: Apache-2.0
"""Linformer (Wang et al. 2020) in plain PyTorch: one projection of keys and values per head, then SDPA. Gradients are
those of q, k and v on both sides."""

import torch
import torch.nn.functional as F

RIVALS = [("PyTorch, SDPA to projected keys", lambda n, heads, d: Linformer(n, heads))]


class Linformer:
    def __init__(self, n, heads, rank=256):
        self.projection = 0.02 * torch.randn(heads, rank, n, generator=torch.Generator().manual_seed(0))

    def __call__(self, q, k, v):
        return F.scaled_dot_product_attention(q, self.projection @ k, self.projection @ v)
