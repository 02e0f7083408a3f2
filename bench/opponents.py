# SPDX-License-Identifier: Apache-2.0
"""The best alternatives: attention, layers and training steps in PyTorch, the transformers library and ONNX Runtime.
Everything takes q, k, v of shape (1, heads, n, d). RACE, which has no library, is written here
from its paper. bench/rivals/ has those of single mechanisms.
"""

import itertools
import math

import torch
import torch.nn.functional as F


class Given(torch.nn.Module):
    """Replaces a projection in a library's attention and returns a given tensor, (1, n, heads d). So only attention is
    timed, on the same arrays for all."""

    def __init__(self, heads):
        super().__init__()
        self.heads, self.rows = heads, None

    def forward(self, _):
        return self.rows.transpose(1, 2).reshape(1, -1, self.rows.shape[1] * self.rows.shape[3])


def with_given(module, names, heads):
    for name in names:
        setattr(module, name, Given(heads))
    return module.eval()


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


class Race:
    """Soft hashing into corners of a cube (RACE attention, algorithm 1): `tables` of `bits` planes. Each row is spread
    over the 2^bits corners by softmax(beta tanh(W x) . corner); values are summed per corner, averaged over tables and
    divided by the mass. Tables are processed in groups, so that features fit the caches."""

    def __init__(self, tables, bits, beta, d, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.planes = torch.randn(tables, bits, d, generator=generator)
        self.corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=bits))).T.contiguous()
        self.tables, self.bits, self.beta = tables, bits, beta
        self.group = max(1, min(tables, 2048 >> bits))

    def features(self, x, planes):
        heads, n, d = x.shape[-3:]
        signs = torch.tanh(x @ planes.reshape(-1, d).T).reshape(1, heads, n, -1, self.bits)
        return torch.softmax(self.beta * signs @ self.corners, -1).flatten(-2)

    def __call__(self, q, k, v):
        ones = torch.cat([v, torch.ones_like(v[..., :1])], -1)
        total = 0
        for first in range(0, self.tables, self.group):
            planes = self.planes[first:first + self.group]
            total = total + self.features(q, planes) @ (self.features(k, planes).transpose(-1, -2) @ ones)
        return total[..., :-1] / total[..., -1:]


class TransformersYoso:
    """YosoSelfAttention of the transformers library: on a CPU it has only the quadratic expectation."""

    def __init__(self, n, heads, d):
        from transformers import YosoConfig
        from transformers.models.yoso.modeling_yoso import YosoSelfAttention
        config = YosoConfig(hidden_size=heads * d, num_attention_heads=heads, attention_probs_dropout_prob=0.0)
        self.module = with_given(YosoSelfAttention(config), ("query", "key", "value"), heads)
        self.mask, self.heads = torch.ones(1, n), heads

    def __call__(self, q, k, v):
        m = self.module
        m.query.rows, m.key.rows, m.value.rows = q, k, v
        out = m(q.new_zeros(1, q.shape[2], 1), self.mask)[0]
        return out.view(1, q.shape[2], self.heads, -1).transpose(1, 2)


class Nystromformer:
    """64 landmarks, the default; without the learned convolution that is added to attention."""

    def __init__(self, n, heads, d):
        from transformers import NystromformerConfig
        from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention
        config = NystromformerConfig(hidden_size=heads * d, num_attention_heads=heads, segment_means_seq_len=n,
                                     num_landmarks=64, attention_probs_dropout_prob=0.0)
        self.module, self.heads = with_given(NystromformerSelfAttention(config), ("query", "key", "value"), heads), heads
        self.module.conv_kernel_size = None

    def __call__(self, q, k, v):
        m = self.module
        m.query.rows, m.key.rows, m.value.rows = q, k, v
        out = m(q.new_zeros(1, q.shape[2], 1))[0]
        return out.view(1, q.shape[2], self.heads, -1).transpose(1, 2)


class Longformer:
    """A sliding window of 512, no global tokens."""

    def __init__(self, n, heads, d):
        from transformers import LongformerConfig
        from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
        config = LongformerConfig(hidden_size=heads * d, num_attention_heads=heads, attention_window=[512],
                                  attention_probs_dropout_prob=0.0, num_hidden_layers=1)
        self.module = with_given(LongformerSelfAttention(config, 0), ("query", "key", "value"), heads)
        self.hidden, self.mask, self.none = torch.zeros(1, n, heads * d), torch.zeros(1, n), torch.zeros(1, n).bool()
        self.heads = heads

    def __call__(self, q, k, v):
        m = self.module  # it expects (n, 1, heads d) from its projections and scales queries in place
        for given, rows in ((m.query, q.clone()), (m.key, k), (m.value, v)):
            given.forward = lambda _, rows=rows: rows.permute(2, 0, 1, 3).reshape(rows.shape[2], 1, -1)
        out = m(self.hidden, self.mask, self.none, self.none, False)[0]
        return out.view(1, q.shape[2], self.heads, -1).transpose(1, 2)


class OnnxRuntime:
    """The contrib operator MultiHeadAttention of ONNX Runtime, float32, forward only."""

    def __init__(self, n, heads, d, threads):
        import onnx
        import onnxruntime
        from onnx import TensorProto, helper
        shape = [1, n, heads * d]
        node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft", num_heads=heads)
        graph = helper.make_graph(
            [node], "attention", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "qkv"],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)])
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
        onnx.checker.check_model(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.force_spinning_stop", "1")  # its threads stop spinning after each run
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        self.shape, self.heads, self.inputs = shape, heads, None

    def prepare(self, q, k, v):
        rows = lambda x: x.transpose(1, 2).reshape(self.shape).contiguous().numpy()
        self.inputs = {"q": rows(q), "k": rows(k), "v": rows(v)}

    def __call__(self, q, k, v):
        out = torch.from_numpy(self.session.run(None, self.inputs)[0])
        return out.view(1, q.shape[2], self.heads, -1).transpose(1, 2)


class SdpaLayer(torch.nn.Module):
    """A layer of BERT-base in idiomatic PyTorch: one product for q, k and v, SDPA, post-LN, exact gelu."""

    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(dim, 3 * dim), torch.nn.Linear(dim, dim)
        self.up, self.down = torch.nn.Linear(dim, ffn), torch.nn.Linear(ffn, dim)
        self.norm1, self.norm2 = torch.nn.LayerNorm(dim), torch.nn.LayerNorm(dim)

    def forward(self, x, mask=None):
        batch, n, dim = x.shape
        q, k, v = self.qkv(x).view(batch, n, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, n, dim)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


def transformers_yoso_layer(n, dim, heads, ffn):
    from transformers import YosoConfig
    from transformers.models.yoso.modeling_yoso import YosoLayer
    layer = YosoLayer(YosoConfig(hidden_size=dim, num_attention_heads=heads, intermediate_size=ffn)).eval()
    mask = torch.ones(1, n)
    return lambda x: layer(x, mask)[0]


class LraStep:
    """One training step at LRA size in the usual way: all sequences padded to 2,048, a key mask, mean pooling, the pre-LN
    encoder of the released configuration (2 layers, 64 wide, 2 heads, feed-forward 128), AdamW."""

    def __init__(self, lengths, longest=2048, vocab=32, dim=64, heads=2, ffn=128, classes=10):
        torch.manual_seed(0)
        self.tokens = torch.randint(1, vocab, (len(lengths), longest))
        positions = torch.arange(longest)
        keep = positions[None] < torch.tensor(lengths)[:, None]
        self.tokens *= keep
        self.labels = torch.randint(0, classes, (len(lengths),))
        self.heads = heads
        self.mask = torch.zeros(len(lengths), 1, 1, longest).masked_fill(~keep[:, None, None], -math.inf)
        self.keep = keep[..., None].float()
        self.embed, self.place = torch.nn.Embedding(vocab, dim), torch.nn.Embedding(longest, dim)
        layer = lambda: torch.nn.ModuleDict(dict(
            norm1=torch.nn.LayerNorm(dim), qkv=torch.nn.Linear(dim, 3 * dim), out=torch.nn.Linear(dim, dim),
            norm2=torch.nn.LayerNorm(dim), up=torch.nn.Linear(dim, ffn), down=torch.nn.Linear(ffn, dim)))
        self.layers = torch.nn.ModuleList([layer() for _ in range(2)])
        self.norm = torch.nn.LayerNorm(dim)
        self.head = torch.nn.Sequential(torch.nn.Linear(dim, ffn), torch.nn.ReLU(), torch.nn.Linear(ffn, classes))
        parts = torch.nn.ModuleList([self.embed, self.place, self.layers, self.norm, self.head])
        self.optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-4, eps=1e-6, weight_decay=0, fused=True)

    def __call__(self):
        batch, n = self.tokens.shape
        x = F.dropout(self.embed(self.tokens) + self.place.weight[None], 0.1)
        for part in self.layers:
            q, k, v = part["qkv"](part["norm1"](x)).view(batch, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
            x = x + F.dropout(part["out"](mixed.transpose(1, 2).reshape(batch, n, -1)), 0.1)
            x = x + F.dropout(part["down"](F.dropout(F.gelu(part["up"](part["norm2"](x))), 0.1)), 0.1)
        x = (self.norm(x) * self.keep).mean(1)
        loss = F.cross_entropy(self.head(x), self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss
