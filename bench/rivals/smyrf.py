# SPDX-License-Identifier: Apache-2.0
"""SMYRF (Daras et al. 2020) in plain PyTorch: sort, gather clusters, batched attention, scatter, merge by log-sum-exp."""

import torch

CLUSTER, ROUNDS = 64, 2
OPTIONS = {"cluster_size": CLUSTER, "rounds": ROUNDS}
RIVALS = [("PyTorch, clusters by sorting", lambda n, heads, d: smyrf_attention)]


def smyrf_attention(q, k, v):
    """Clusters without a gradient; all rounds and heads in one batch of (h, rounds, n / CLUSTER, CLUSTER, d)."""
    _, h, n, d = q.shape
    with torch.no_grad():
        q2, k2 = q[0].square().sum(-1), k[0].square().sum(-1)
        m2 = q2.amax(-1, keepdim=True) + k2.amax(-1, keepdim=True)
        a = torch.randn(h, d + 2, ROUNDS)
        order_q = (q[0] @ a[:, :d] + (m2 - q2).sqrt()[..., None] * a[:, d + 1, None]).transpose(1, 2).argsort(-1)
        order_k = (k[0] @ a[:, :d] + (m2 - k2).sqrt()[..., None] * a[:, d, None]).transpose(1, 2).argsort(-1)
        back = order_q.argsort(-1)
    head = torch.arange(h)[:, None, None]
    clusters = [x[0][head, order].view(h, ROUNDS, -1, CLUSTER, d) for x, order in ((q, order_q), (k, order_k), (v, order_k))]
    scores = clusters[0] @ clusters[1].transpose(-1, -2) / d**0.5
    total = scores.logsumexp(-1, keepdim=True)
    out = ((scores - total).exp() @ clusters[2]).view(h, ROUNDS, n, d)
    rounds = torch.arange(ROUNDS)[None, :, None]
    weight = total.view(h, ROUNDS, n)[head, rounds, back].softmax(1)
    return (out[head, rounds, back] * weight[..., None]).sum(1)[None]
