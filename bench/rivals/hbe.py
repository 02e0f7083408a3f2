# SPDX-License-Identifier: Apache-2.0
"""Hashing-based estimators (Charikar and Siminelakis 2017) in plain PyTorch: keys sorted by code in each of 32 tables of 8
bits, a query's bucket found by binary search, one of its keys drawn and gathered, and softmax over the 32 draws."""

import math

import torch

OPTIONS = {"num_hashes": 32, "hash_bits": 8}
FORWARD_ONLY = True
RIVALS = [("PyTorch, HBE", lambda n, heads, d: Hbe(32, 8, d))]


class Hbe:
    forward_only = True

    def __init__(self, hashes, bits, d):
        self.planes = torch.randn(d, hashes * bits, generator=torch.Generator().manual_seed(0))
        self.hashes, self.bits, self.powers = hashes, bits, 2 ** torch.arange(bits)

    def codes(self, x):
        codes = (((x @ self.planes > 0).unflatten(-1, (self.hashes, self.bits))) * self.powers).sum(-1)
        return codes.transpose(-1, -2).to(torch.int32).contiguous()

    def __call__(self, q, k, v):
        (b, heads, n, d), queries = q.shape, self.codes(q)
        keys, order = self.codes(k).sort(-1)
        first = torch.searchsorted(keys, queries)
        count = torch.searchsorted(keys, queries, right=True) - first
        place = (first + (torch.rand(count.shape) * count).long()).clamp_max(k.shape[-2] - 1)
        drawn = order.gather(-1, place).transpose(-1, -2).reshape(b, heads, -1, 1)  # (b, heads, n hashes, 1)
        size = count.transpose(-1, -2)
        k, v = (x.gather(-2, drawn.expand(-1, -1, -1, d)).view(b, heads, n, self.hashes, d) for x in (k, v))
        dots = (k @ q.unsqueeze(-1)).squeeze(-1)
        cosine = (dots / (k.norm(dim=-1) * q.norm(dim=-1, keepdim=True))).clamp(-1, 1)
        chance = (1 - cosine.acos() / math.pi).clamp_min(1e-7)
        weights = (dots / d ** 0.5 - self.bits * chance.log() + size.log()).softmax(-1).nan_to_num()  # log 0: an empty bucket
        return (weights.unsqueeze(-2) @ v).squeeze(-2)
