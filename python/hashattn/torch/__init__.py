"""Attention by hashing for PyTorch tensors on the CPU and on CUDA: registered operators with autograd, and modules.

    import hashattn.torch
    out = hashattn.torch.attention(q, k, v)

The operators read and write the tensors' own memory and give the bits of `hashattn.attention`. They work with
torch.compile(fullgraph=True), torch.export, autocast and inference mode. On CUDA yoso runs, on torch's current stream,
with memory of torch's; masks, lengths and seeds are brought to the host, and `wait` tells what is wrong in the numbers.
Needs PyTorch 2.4 or later, made with 2.14.
Where the transformers library is imported, before or after, its models load the mechanism that they were saved with.
Sources: as of hashattn.attention. SPDX-License-Identifier: Apache-2.0
"""

from . import _needs as _needs  # first: it tells what is missing

from . import flops as _flops  # registers formulas
from .modules import Learned as Learned
from .modules import LHAAttention as LHAAttention
from .modules import SelfAttention as SelfAttention
from .modules import YosoAttention as YosoAttention
from .multihead import MultiheadAttention as MultiheadAttention
from .calls import wait as wait
from .density import density as density
from .functions import attention as attention
from .functions import attention_and_loss as attention_and_loss
from .positions import extend_positions as extend_positions
from .replace import replace_attention as replace_attention

__all__ = ["Learned", "LHAAttention", "MultiheadAttention", "SelfAttention", "YosoAttention", "attention",
           "attention_and_loss", "density", "extend_positions", "replace_attention", "wait"]

_needs.restore_with_transformers()


def __dir__() -> list[str]:
    return [*__all__, "transformers"]
