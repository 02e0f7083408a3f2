# SPDX-License-Identifier: Apache-2.0
"""Improved clustered attention (Vyas et al. 2020) in plain PyTorch: 100 clusters, 32 top keys. Hamming distances are products
of +-1; the queries of a cluster meet its top keys in rows padded to the largest cluster."""

import torch

RIVALS = [("PyTorch, i-FCA", lambda n, heads, d: Clustered(heads, d))]


class Clustered:
    def __init__(self, heads, d, clusters=100, top=32, bits=63):
        generator = torch.Generator().manual_seed(0)
        self.planes = torch.randn(heads, d, bits, generator=generator)
        self.thresholds = torch.randn(heads, 1, bits, generator=generator)
        self.clusters, self.top = clusters, top

    @torch.no_grad()
    def assign(self, q):
        signs = (q @ self.planes + self.thresholds > 0).float() * 2 - 1
        centres = signs[:, torch.randperm(signs.shape[1])[:self.clusters]]
        for step in range(10):
            assigned = (signs @ centres.mT).argmax(-1)
            if step == 9:
                return assigned
            sums = torch.zeros_like(centres).scatter_add_(1, assigned[..., None].expand_as(signs), signs)
            centres = (sums > 0).float() * 2 - 1

    def __call__(self, q, k, v):
        (q, k, v), (heads, n, d) = (x[0] for x in (q, k, v)), q.shape[1:]
        assigned, one = self.assign(q), torch.ones(())
        count = torch.zeros(heads, self.clusters).scatter_add_(1, assigned, one.expand(heads, n))
        of_rows = assigned[..., None].expand(-1, -1, d)
        mean = torch.zeros(heads, self.clusters, d).scatter_add(1, of_rows, q) / count.clamp_min(1)[..., None]
        weights = torch.softmax(mean @ k.mT / d ** 0.5, -1)
        mass, best = weights.topk(self.top)
        rest = weights.scatter(-1, best, 0) @ v
        order = assigned.argsort(dim=-1, stable=True)
        place = torch.arange(n) - (count.cumsum(-1) - count).gather(1, assigned.gather(1, order)).long()
        longest = int(count.max())
        slot = torch.empty_like(order).scatter_(1, order, assigned.gather(1, order) * longest + place)[..., None].expand(-1, -1, d)
        padded = torch.zeros(heads, self.clusters * longest, d).scatter(1, slot, q).unflatten(1, (self.clusters, longest))
        near, far = (torch.gather(x, 1, best.flatten(1)[..., None].expand(-1, -1, d)).unflatten(1, best.shape[1:]) for x in (k, v))
        met = torch.softmax(padded @ near.mT / d ** 0.5, -1) @ far * mass.sum(-1)[..., None, None] + rest[:, :, None]
        return met.flatten(1, 2).gather(1, slot)[None]
