# SPDX-License-Identifier: Apache-2.0
"""Nystromformer (Xiong et al. 2021): the transformers library's, and one in plain PyTorch whose two long softmaxes are SDPA,
so that no n x landmarks array exists. Both with 64 landmarks, without the convolution of values, which for us is a layer
of the model. The library needs lengths that the landmarks divide."""

import torch
import torch.nn.functional as F
from opponents import Nystromformer

RIVALS = [("transformers Nystromformer", Nystromformer), ("PyTorch, SDPA to landmarks", lambda n, heads, d: nystrom)]


def nystrom(q, k, v, landmarks=64):
    (q_mean, k_mean), d = (x.unflatten(-2, (landmarks, -1)).mean(-2) for x in (q, k)), q.shape[-1]
    a = torch.softmax(q_mean @ k_mean.transpose(-1, -2) / d ** 0.5, -1)
    z, one = a.transpose(-1, -2) / a.sum(-2, keepdim=True).amax(-1, keepdim=True), torch.eye(landmarks)
    for _ in range(6):
        az = a @ z
        z = 0.25 * z @ (13 * one - az @ (15 * one - az @ (7 * one - az)))
    return F.scaled_dot_product_attention(q, k_mean, z @ F.scaled_dot_product_attention(q_mean, k, v))
