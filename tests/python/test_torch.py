"""hashattn.torch: the bits of hashattn.attention, torch's own checks of operators, compile, export, autocast.

Planted and caught: dk and dv swapped; seeds above 2^63 cut; the width of keys in the fake output; saved memory not set;
gradients that can be differentiated; no autocast; the mask or the learned tensors not passed on; the slope of the loss
not scaled; learned tensors joined in the order of their names; learned tensors of an earlier call kept; a stale thread
count; tensors of another device or layout read; float16 beside float32 told as a dtype that is not taken; a flag of NumPy as
text. SPDX-License-Identifier: Apache-2.0
"""

import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from conftest import TINY, numbers  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402


def tensors(*shape, dtype=torch.float32, gradient=False, count=3):
    return [torch.from_numpy(numbers(*shape, seed=i)).to(dtype).requires_grad_(gradient) for i in range(count)]


FORMS = [("yoso", {}), ("yoso", {"causal": True, "num_hashes": 8}), ("softmax", {}), ("yoso-e", {}),
         ("lha", {"num_buckets": 4}), ("lsh", {"num_buckets": 4}), ("local", {"block_size": 8})]


@pytest.mark.parametrize("mechanism, options", FORMS)
@pytest.mark.parametrize("shape", [(40, 16), (3, 40, 16), (2, 3, 40, 16)])
def test_bits_are_those_of_numpy(mechanism, options, shape):
    q, k, v = tensors(*shape, gradient=True)
    g = tensors(*shape, count=4)[3]
    out = hashattn.torch.attention(q, k, v, mechanism=mechanism, seed=2**64 - 5, **options)
    out.backward(g)
    causal = options.get("causal", False)
    with hashattn.Attention(mechanism, **{n: o for n, o in options.items() if n != "causal"}) as attention:
        expected = attention.forward(*(t.detach().numpy() for t in (q, k, v)), seed=2**64 - 5, causal=causal)
        gradients = attention.backward(g.numpy())
    assert np.array_equal(out.detach().numpy(), expected)
    for tensor, gradient in zip((q, k, v), gradients):
        assert np.array_equal(tensor.grad.numpy(), gradient)


def arguments(q, k, v, mechanism="yoso", mask=None, lengths=None, causal=False, save=True):
    counts = (lengths, None)
    options = {"yoso": ["num_hashes", "8"], "lha": ["num_buckets", "4"]}.get(mechanism, [])
    params = learned(3, q.shape[-1]) if mechanism == "lha" else None
    return (q, k, v, mask, *counts, params, None, lengths is not None, torch.tensor(5), causal, mechanism, options, save)


def learned(heads, head_dim):
    """The learned tensors of lha with 4 buckets, (heads, floats)."""
    with hashattn.Attention("lha", num_buckets=4) as attention:
        found = attention.params(heads, head_dim, seed=3)
    return torch.cat([torch.from_numpy(array).flatten(1) for array in found.values()], 1).requires_grad_()


def test_opcheck():
    operator = torch.ops.hashattn.attention.default
    q, k, v = tensors(2, 3, 20, 8, gradient=True)
    mask = torch.arange(20).remainder(3).ne(0).expand(2, 20)
    for given in (
        arguments(q, k, v),
        arguments(q, k, v, "softmax"),
        arguments(q, k, v, mask=mask, lengths=torch.tensor([20, 7])),
        arguments(q, k, v, causal=True),
        arguments(q, k, v[..., :5]),
        arguments(q, k, v, "lha"),
        arguments(*tensors(2, 3, 20, 8), save=False),
        arguments(*tensors(2, 3, 20, 8, gradient=True, dtype=torch.bfloat16)),
        arguments(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),
    ):
        torch.library.opcheck(operator, given)
    given = arguments(*tensors(2, 3, 20, 8), "lha")
    saved = operator(*given)[1]
    torch.library.opcheck(torch.ops.hashattn.own_loss.default, (*given[:-1], saved))


@pytest.mark.parametrize("mechanism", ["softmax", "yoso-e"])
def test_gradcheck(mechanism):
    """In float32, the only type; so with larger steps and tolerances than usual."""
    inputs = tensors(2, 6, 4, gradient=True)
    assert torch.autograd.gradcheck(
        lambda *given: hashattn.torch.attention(*given, mechanism=mechanism, seed=1,
                                                **({"gradient": "true"} if mechanism == "yoso-e" else {})),
        inputs, eps=1e-2, atol=2e-3, rtol=2e-2, nondet_tol=0.0)


def test_double_backward_is_refused():
    q, k, v = tensors(2, 10, 8, gradient=True)
    out = hashattn.torch.attention(q, k, v, mechanism="softmax")
    (gradient,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="hashattn has no double backward"):
        gradient.sum().backward()


def test_compile_and_export():
    q, k, v = tensors(2, 3, 24, 8, gradient=True)

    def loss(q, k, v):
        return hashattn.torch.attention(q * 2, k, v, seed=3, num_hashes=8).square().sum()

    expected = torch.autograd.grad(loss(q, k, v), (q, k, v))
    for dynamic in (False, True):
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for a, b in zip(torch.autograd.grad(compiled(q, k, v), (q, k, v)), expected):
            assert torch.equal(a, b)

    class Module(torch.nn.Module):
        def forward(self, q, k, v):
            return hashattn.torch.attention(q, k, v, seed=3)

    inputs = tensors(2, 3, 24, 8)
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(Module(), tuple(inputs), dynamic_shapes=[{2: rows}] * 3)
    assert torch.equal(program.module()(*inputs), Module()(*inputs))
    longer = tensors(2, 3, 40, 8)
    assert torch.equal(program.module()(*longer), Module()(*longer))


@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler")
def test_compile_by_inductor():
    q, k, v = tensors(2, 24, 8, gradient=True)

    def loss(q, k, v):
        return hashattn.torch.attention(q * 2, k, v, seed=3, num_hashes=8).square().sum()

    found = torch.autograd.grad(torch.compile(loss, fullgraph=True)(q, k, v), (q, k, v))
    for a, b in zip(found, torch.autograd.grad(loss(q, k, v), (q, k, v))):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_learned_tensors_follow_the_seed():
    q, k, v = tensors(3, 60, 8)
    outs = [hashattn.torch.attention(q, k, v, mechanism="lha", num_buckets=4, seed=seed, params=params)
            for seed, params in ((1, None), (2, None), (1, learned(3, 8).detach()), (1, None))]
    assert torch.equal(outs[0], outs[3]) and not torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])


def test_threads_follow_torch():
    from hashattn.torch.calls import _place

    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert _place(None).context.describe().threads == threads
    finally:
        torch.set_num_threads(before)


def test_seeds_come_from_the_generator():
    q, k, v = tensors(2, 24, 8)
    torch.manual_seed(1)
    one, two = (hashattn.torch.attention(q, k, v, num_hashes=4) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(hashattn.torch.attention(q, k, v, num_hashes=4), one) and not torch.equal(one, two)
    fixed = hashattn.torch.attention(q, k, v, seed=torch.tensor(4))
    assert torch.equal(hashattn.torch.attention(q, k, v, seed=4), fixed)


def test_autocast_and_inference():
    q, k, v = tensors(2, 24, 8)
    with torch.autocast("cpu", torch.bfloat16):
        out = hashattn.torch.attention(q, k, v, seed=1)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, hashattn.torch.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), seed=1))
    with torch.inference_mode():
        assert torch.equal(hashattn.torch.attention(q, k, v, seed=1), hashattn.torch.attention(q, k, v, seed=1))


def test_strides_lengths_and_offsets():
    q, k, v = tensors(2, 24, 3, 8)
    moved = [t.transpose(1, 2) for t in (q, k, v)]
    expected = hashattn.torch.attention(*(t.contiguous() for t in moved), seed=1)
    assert torch.equal(hashattn.torch.attention(*moved, seed=1), expected)
    wide = q[:1, :, :1].transpose(1, 2).expand(2, 3, 24, 8)
    assert torch.equal(hashattn.torch.attention(wide, *moved[1:], seed=1),
                       hashattn.torch.attention(wide.contiguous(), *moved[1:], seed=1))
    inside = [t.clone().transpose(1, 2).requires_grad_() for t in (q, k, v)]  # heads inside rows, also in the results
    out = hashattn.torch.attention(*inside, seed=1)
    assert torch.equal(out, expected)
    for each in (out, *torch.autograd.grad(out.sum(), inside)):
        assert each.transpose(1, 2).is_contiguous()
    cut = hashattn.torch.attention(*moved, lengths=torch.tensor([24, 9]), seed=1)
    mask = torch.arange(24) < torch.tensor([[24], [9]])
    masked = hashattn.torch.attention(*moved, key_mask=mask, seed=1)
    assert torch.equal(cut[0], masked[0]) and torch.equal(cut[1, :, :9], masked[1, :, :9]) and not cut[1, :, 9:].any()
    packed = [torch.cat([t[0], t[1, :9]]) for t in (q, k, v)]
    out = hashattn.torch.attention(*packed, offsets=[0, 24, 33], seed=1)
    assert torch.equal(out[24:].transpose(0, 1), cut[1, :, :9])


def test_bad_input():
    q, k, v = tensors(2, 24, 8)
    for kind, message, call in [
        (TypeError, "q has dtype torch.float64 .* bfloat16 or float16 is needed", lambda: hashattn.torch.attention(q.double(), k, v)),
        (TypeError, "q, k, v have dtypes", lambda: hashattn.torch.attention(q, k.bfloat16(), v)),
        (TypeError, "q, k, v have dtypes torch.float16, ", lambda: hashattn.torch.attention(q.half(), k, v)),
        (TypeError, "q has dtype torch.float16 .* float32 or bfloat16 is needed", lambda: torch.ops.hashattn.attention(
            *[q.half()] * 3, *[None] * 5, False, torch.tensor(1), False, "yoso", [], False)),
        (TypeError, "^q is a nested tensor", lambda: hashattn.torch.attention(*[torch.nested.nested_tensor([q, q])] * 3)),
        (TypeError, "^q is a nested tensor", lambda: hashattn.torch.attention(
            *[torch.nested.nested_tensor([q, q], layout=torch.jagged)] * 3)),
        (TypeError, "num_hashes is None; a bool, a number or a text", lambda: hashattn.torch.attention(q, k, v, num_hashes=None)),
        (ValueError, "may differ only", lambda: hashattn.torch.attention(q, k[..., :4], v)),
        (ValueError, "q has 2 heads and k or v 3", lambda: hashattn.torch.attention(q, *[torch.cat([k, k[:1]])] * 2)),
        (ValueError, "query is nan", lambda: hashattn.torch.attention(q * float("nan"), k, v)),
        (ValueError, "^linear: numbers are too large", lambda: hashattn.torch.attention(q * 1e30, k, v, mechanism="linear")),
        (ValueError, "yoso has no option", lambda: hashattn.torch.attention(q, k, v, x=1)),
        (TypeError, "key_mask has dtype torch.float32 and the value 1", lambda: hashattn.torch.attention(q, k, v, key_mask=torch.ones(24))),
        (ValueError, "seed is -1", lambda: hashattn.torch.attention(q, k, v, seed=-1)),
        (TypeError, "seed is 1.5", lambda: hashattn.torch.attention(q, k, v, seed=1.5)),
        (TypeError, "dtype torch.float32; one whole", lambda: hashattn.torch.attention(q, k, v, seed=torch.ones(()))),
        (TypeError, "mechanism is 3", lambda: hashattn.torch.attention(q, k, v, mechanism=3)),
        (TypeError, "q is a list", lambda: hashattn.torch.attention([1], k, v)),
        (TypeError, "key_mask is a list", lambda: hashattn.torch.attention(q, k, v, key_mask=[True] * 24)),
        (TypeError, "lengths has dtype float32", lambda: hashattn.torch.attention(
            q[None], k[None], v[None], lengths=torch.ones(1))),
        (TypeError, r"to_dense\(\)", lambda: hashattn.torch.attention(q.to_sparse(), k, v)),
        (TypeError, "q, k, v are on meta, cpu, cpu", lambda: hashattn.torch.attention(q.to("meta"), k, v)),
        (ValueError, "dout is nan", lambda: (hashattn.torch.attention(q.clone().requires_grad_(), k, v) * float("nan"))
         .sum().backward()),
        (MemoryError, "cannot be copied", lambda: hashattn.torch.attention(
            *[q[:1, :1].expand(1, 10**12, 8)] * 3)),
        (MemoryError, "no memory for a tensor|overflow", lambda: hashattn.torch.attention(
            *[q[:1, :1, None].expand(10**6, 10**6, 1, 8)] * 3)),
    ]:
        with pytest.raises(kind, match=message):
            call()
    flagged = [hashattn.torch.attention(q, k, v, seed=1, recompute=flag) for flag in (True, np.True_, "true")]
    assert torch.equal(flagged[0], flagged[1]) and torch.equal(flagged[0], flagged[2])
    with FakeTensorMode(), pytest.raises(TypeError, match=r"q is on xpu:0; hashattn computes on the CPU and on CUDA: q.cpu"):
        hashattn.torch.attention(*[torch.empty(2, 24, 8, device="xpu")] * 3)
    with FakeTensorMode():
        assert hashattn.torch.attention(*[torch.empty(2, 24, 16, device="cuda")] * 3).device.type == "cuda"
    with pytest.raises((TypeError, NotImplementedError), match="CPU|meta"):
        hashattn.torch.attention(*(t.to("meta") for t in (q, k, v)), seed=1).numpy()


def test_own_loss_teaches_the_hashes():
    q, k, v = tensors(2, 3, 60, 8, gradient=True)
    params = learned(3, 8)
    out, loss = hashattn.torch.attention_and_loss(q, k, v, params, num_buckets=4, seed=3)
    (out.sum() + 2 * loss).backward()
    with hashattn.Attention("lha", num_buckets=4) as attention:
        assert np.array_equal(attention.forward(*(t.detach().numpy() for t in (q, k, v)), seed=3), out.detach().numpy())
        expected, gradient = attention.own_loss()
    flat = np.concatenate([array.reshape(3, -1) for array in gradient.values()], 1)
    assert loss.item() == np.float32(expected) and np.array_equal(params.grad.numpy(), 2 * flat)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, other = hashattn.torch.attention_and_loss(q, k, v, params, num_buckets=4, seed=3)
    assert rounded.dtype == torch.bfloat16 and other.dtype == torch.float32 and abs(other - loss) < 0.1 * loss
    with pytest.raises(ValueError, match=r"params has shape \(3, 95\)"):
        hashattn.torch.attention(q, k, v, mechanism="lha", num_buckets=4, params=params[:, 1:])


@pytest.mark.parametrize("kind, options", [("YosoAttention", {"num_hashes": 8}), ("LHAAttention", {"num_buckets": 4})])
def test_modules(kind, options):
    torch.manual_seed(2)
    layer = getattr(hashattn.torch, kind)(24, 3, **options)
    rows = tensors(2, 40, 24, gradient=True)[0]
    lengths = torch.tensor([40, 11])
    out = layer(rows, lengths=lengths, seed=1)
    assert out.shape == rows.shape and torch.equal(out[1, 11:], layer.output.dense.bias.expand(29, 24))
    loss = out.square().sum() + (layer.own_loss if kind == "LHAAttention" else 0)
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows, lengths=lengths, seed=1), out)
    layer.eval()
    assert torch.equal(layer(rows[0], seed=1), out[0])
    parts = [layer._heads(each(rows)) for each in (layer.query, layer.key, layer.value)]
    drawn = hashattn.torch.attention(*parts, mechanism=layer.mechanism, seed=0, **options)  # with the initial hashes
    assert torch.equal(layer(rows, seed=0), layer.output(drawn.transpose(1, 2).flatten(2)))
    again = getattr(hashattn.torch, kind)(24, 3, **options).eval()
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(rows, lengths=lengths, seed=1), out)
    with pytest.raises(ValueError, match="dim is 25, which 3 heads do not divide"):
        getattr(hashattn.torch, kind)(25, 3)
    with pytest.raises(ValueError, match="no option 'x'"):
        getattr(hashattn.torch, kind)(24, 3, x=1)


def read_safetensors(path):
    size = int.from_bytes(path.read_bytes()[:8], "little")
    data = path.read_bytes()[8:]
    header = json.loads(data[:size])
    return {name: torch.frombuffer(bytearray(data[size + row["data_offsets"][0]:size + row["data_offsets"][1]]),
                                   dtype=torch.float32).reshape(row["shape"])
            for name, row in header.items() if name != "__metadata__"}


@pytest.mark.parametrize("kind, options", [("YosoAttention", {"num_hashes": 8}), ("LHAAttention", {"num_buckets": 4})])
def test_modules_have_the_names_of_the_runs(needles, tmp_path, kind, options):
    layer = getattr(hashattn.torch, kind)(16, 2, **options)
    given = {**TINY, "steps": 1, "eval_every": 1}
    del given["num_hashes"]
    hashattn.train("needle", needles, tmp_path / "run", mechanism=layer.mechanism, progress=False, **given, **options)
    prefix = "encoder.layer.0.attention."
    stored = read_safetensors(tmp_path / "run" / "model.safetensors")
    found = {name[len(prefix):]: tensor for name, tensor in stored.items() if name.startswith(prefix)}
    layer.load_state_dict(found)  # strict: the same names and shapes
