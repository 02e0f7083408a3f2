# SPDX-License-Identifier: Apache-2.0
"""Sinkhorn attention (Tay et al. 2020), blocks of 64, in plain PyTorch: the sort net, 7 rounds of balancing in logarithms,
sorted blocks by one product, and SDPA on each block beside its sorted one."""

import torch
import torch.nn.functional as F

BLOCK, ROUNDS, TEMPERATURE = 64, 7, 0.75
OPTIONS = {"block_size": BLOCK}


class Sinkhorn(torch.nn.Module):
    def __init__(self, n, heads, d):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        start = lambda *shape: torch.nn.Parameter(0.02 * torch.randn(*shape, generator=generator))
        self.hidden, self.output = start(heads, d, d), start(heads, d, n // BLOCK)
        self.bias = torch.nn.ParameterList([start(heads, 1, d), start(heads, 1, n // BLOCK)])

    def forward(self, q, k, v):
        heads, n, d = q.shape[1:]
        q, k, v = (x.reshape(heads, -1, BLOCK, d) for x in (q, k, v))
        scores = F.relu(F.relu(k.sum(2) @ self.hidden + self.bias[0]) @ self.output + self.bias[1]) / TEMPERATURE
        for _ in range(ROUNDS):
            scores = scores - scores.logsumexp(-1, keepdim=True)
            scores = scores - scores.logsumexp(-2, keepdim=True)
        beside = lambda x: torch.cat([(scores.exp() @ x.flatten(2)).view_as(x), x], 2)
        return F.scaled_dot_product_attention(q, beside(k), beside(v)).view(1, heads, n, d)


RIVALS = [("PyTorch, SDPA beside sorted blocks", Sinkhorn)]
