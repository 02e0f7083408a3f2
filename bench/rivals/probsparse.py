# SPDX-License-Identifier: Apache-2.0
"""ProbSparse attention (Zhou et al. 2021, Informer) in plain PyTorch, as its algorithm 1 has it: all queries of a head are
scored on one sample of keys by a product, which is far faster than the released code's sample per query."""

import math

import torch
import torch.nn.functional as F

FACTOR = 5
OPTIONS = {"factor": FACTOR}
RIVALS = [("PyTorch, one sample of keys", lambda n, heads, d: probsparse_attention)]


def probsparse_attention(q, k, v):
    """Exact attention for the queries whose scores stand out, the mean of the values for the others."""
    _, heads, n, d = q.shape
    u = FACTOR * math.ceil(math.log(n))
    with torch.no_grad():
        sample = torch.randint(n, (heads, u, 1)).expand(heads, u, d)
        scores = q[0] @ k[0].gather(1, sample).transpose(1, 2)
        best = (scores.amax(-1) - scores.mean(-1)).topk(u, sorted=False).indices[..., None].expand(heads, u, d)
    exact = F.scaled_dot_product_attention(q[0].gather(1, best), k[0], v[0])
    return v[0].mean(1, keepdim=True).expand(heads, n, d).scatter(1, best, exact)[None]
