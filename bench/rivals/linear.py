# SPDX-License-Identifier: Apache-2.0
"""The linear Transformer (Katharopoulos et al. 2020) in plain PyTorch: three products, no n x n array."""

import torch.nn.functional as F

RIVALS = [("PyTorch, elu + 1", lambda n, heads, d: linear_attention)]


def linear_attention(q, k, v):
    """The feature elu(x) + 1, no softmax."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2))
