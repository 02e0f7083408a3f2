# SPDX-License-Identifier: Apache-2.0
"""Importance sampling of keys from hash tables (Spring and Shrivastava 2017) in plain PyTorch: a mask of the pairs that share
a code in one of 32 tables of 8 bits, 512 queries at a time, and softmax with the logarithm of each key's chance subtracted
from its score. Gathering each query's keys instead takes longer, because samples differ in size."""

import math

import torch

OPTIONS = {"num_hashes": 32, "hash_bits": 8}
FORWARD_ONLY = True
RIVALS = [("PyTorch, LSS", lambda n, heads, d: Lss(32, 8, d))]


class Lss:
    forward_only = True

    def __init__(self, hashes, bits, d):
        self.planes = torch.randn(d, hashes * bits, generator=torch.Generator().manual_seed(0))
        self.hashes, self.bits, self.powers = hashes, bits, 2 ** torch.arange(bits)

    def codes(self, x):
        return (((x @ self.planes > 0).unflatten(-1, (self.hashes, self.bits))) * self.powers).sum(-1).to(torch.int16)

    def __call__(self, q, k, v):
        keys, k_unit = self.codes(k), torch.nn.functional.normalize(k, dim=-1)
        return torch.cat([self.block(part, k, v, keys, k_unit) for part in q.split(512, dim=-2)], -2)

    def block(self, q, k, v, keys, k_unit):
        queries, met = self.codes(q), torch.zeros(*q.shape[:-1], k.shape[-2], dtype=torch.bool)
        for h in range(self.hashes):
            met |= queries[..., h, None] == keys[..., None, :, h]
        cosine = (torch.nn.functional.normalize(q, dim=-1) @ k_unit.transpose(-1, -2)).clamp(-1, 1)
        chance = -torch.expm1(self.hashes * torch.log1p(-(1 - cosine.acos() / math.pi) ** self.bits))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 - chance.clamp_min(1e-25).log()
        return scores.masked_fill(~met, -math.inf).softmax(-1).nan_to_num() @ v
