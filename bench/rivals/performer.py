# SPDX-License-Identifier: Apache-2.0
"""FAVOR+ (Choromanski et al. 2020) in plain PyTorch as in its released code: 256 positive orthogonal features, the queries'
maximum per row, the keys' over the head."""

import torch

OPTIONS = {"num_features": 256}
RIVALS = [("PyTorch, FAVOR+", lambda n, heads, d: Favor(256, d))]


class Favor:
    def __init__(self, features, d):
        generator = torch.Generator().manual_seed(0)
        blocks = [torch.linalg.qr(torch.randn(d, d, generator=generator))[0] for _ in range(-(-features // d))]
        length = torch.randn(features, d, generator=generator).norm(dim=1, keepdim=True)
        self.directions = (torch.cat(blocks)[:features] * length).T.contiguous() * d ** -0.25

    def features(self, x, over):
        u = x @ self.directions
        return torch.exp(u - x.square().sum(-1, keepdim=True) / (2 * x.shape[-1] ** 0.5) - u.amax(over, True).detach()) + 1e-6

    def __call__(self, q, k, v):
        f, g = self.features(q, (-1,)), self.features(k, (-1, -2))
        return (f @ (g.transpose(-1, -2) @ v)) / (f @ g.sum(-2, keepdim=True).transpose(-1, -2))
