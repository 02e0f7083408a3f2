# SPDX-License-Identifier: Apache-2.0
"""The Routing Transformer's attention (Roy et al. 2021) in plain PyTorch, with centroids that stay as they started. It
approximates softmax of normed rows."""

import torch
import torch.nn.functional as F

CLUSTERS = 64
OPTIONS = {"num_clusters": CLUSTERS}


def build(n, heads, d):
    return lambda q, k, v, centroids=torch.randn(heads, d, CLUSTERS): routing_attention(q[0], k[0], v[0], centroids)


def routing_attention(q, k, v, centroids):
    """The best n / CLUSTERS queries and keys of each centroid, attention inside, the mean over clusters."""
    heads, n, d = q.shape
    q, k = F.layer_norm(q, (d,), eps=1e-6), F.layer_norm(k, (d,), eps=1e-6)
    with torch.no_grad():
        best = [(x @ centroids).transpose(1, 2).topk(n // CLUSTERS, sorted=False).indices for x in (q, k)]
    head = torch.arange(heads)[:, None, None]
    clusters = (x[head, chosen] for x, chosen in ((q, best[0]), (k, best[1]), (v, best[1])))
    out = F.scaled_dot_product_attention(*clusters).view(heads, n, d)
    place = best[0].view(heads, n, 1)
    count = torch.zeros(heads, n, 1).scatter_add(1, place, torch.ones(heads, n, 1))
    return (torch.zeros(heads, n, d).scatter_add(1, place.expand(heads, n, d), out) / count.clamp_min(1))[None]


def normed(q, k, v, places):
    """Rows of exact attention of normed rows."""
    d = q.shape[-1]
    q, k = F.layer_norm(q[:, places], (d,), eps=1e-6), F.layer_norm(k, (d,), eps=1e-6)
    return F.scaled_dot_product_attention(q, k, v)


RIVALS = [("PyTorch, top-k of centroids", build)]
EXACT = ("softmax of normed rows", normed)
