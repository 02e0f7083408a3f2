"""hashattn.torch on tensors of CUDA, and models of the transformers library that were moved there, without a GPU.

torch_on_host.cpp, compiled by g++, gives PyTorch without CUDA tensors of CUDA in memory of the process, and the emulator
of tests/gpu is the driver. Dispatch, autograd, modules and our code are the real ones; an operation that mixes devices
fails as on a GPU. The first test runs the others in a process that loads both before PyTorch. What this does not show:
PyTorch's allocator and streams of CUDA, torch.compile there. Runs with BUILD=FOLDER, if the build is not build/.
Planted and caught: a mask on the processor beside scores on CUDA, keys sorted by an order on the processor, what vmap
saves on the processor.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from conftest import holding  # noqa: E402

HERE = Path(__file__).resolve()
EMULATOR = HERE.parents[2] / os.environ.get("BUILD", "build") / "tests/gpu/plain/libcuda.so.1"
INSIDE = "HASHATTN_TORCH_ON_HOST"  # set in the process that has the tensors
OPTIONS = {"num_hashes": 8, "hash_bits": 3, "projection": "int16-dp", "seed": 5}
on_cuda = pytest.mark.skipif(INSIDE not in os.environ, reason="runs inside of test_in_a_process_of_its_own")

BEGIN = f"""
import ctypes, os, sys
library = ctypes.CDLL(os.environ[{INSIDE!r}])
ctypes.CDLL({str(EMULATOR)!r})
import pytest
os._exit(pytest.main([{str(HERE)!r}, "-q", "-x", "-p", "no:cacheprovider"]))
"""  # _exit, because threads of autograd for a device never end


@pytest.mark.skipif(INSIDE in os.environ, reason="this is the process")
def test_in_a_process_of_its_own(tmp_path):
    if shutil.which("g++") is None or not EMULATOR.exists():
        pytest.skip("no g++, or the emulator is not built")
    if torch.version.cuda is not None:
        pytest.skip("a PyTorch without CUDA is needed")
    library, folder = tmp_path / "torch_on_host.so", Path(torch.__file__).parent
    made = subprocess.run(
        ["g++", "-std=c++20", "-shared", "-fPIC", "-O0", "-w", f"-I{folder}/include",
         f"-I{folder}/include/torch/csrc/api/include", str(HERE.with_name("torch_on_host.cpp")), "-o", str(library),
         f"-L{folder}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{folder}/lib"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"torch_on_host.cpp does not compile with torch {torch.__version__}: {made.stderr[-300:]}")
    done = subprocess.run([sys.executable, "-c", BEGIN], env={**os.environ, INSIDE: str(library)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    print(done.stdout[-300:])


if INSIDE in os.environ:
    import hashattn
    import hashattn.torch
    from hashattn.torch import calls

    torch.cuda._lazy_init = lambda: None
    calls._stream_of = lambda device: 0
    _transfers = ctypes.c_long.in_dll(ctypes.CDLL(os.environ[INSIDE]), "transfers")


def error(there, here):
    there, here = there.detach().cpu().float(), here.detach().float()
    return float((there - here).abs().max() / here.abs().max())


# ---- the operator ------------------------------------------------------------------------------------------------------


def results(place, dtype=torch.float32, shape=(2, 2, 20, 32), **more):
    generator = torch.Generator().manual_seed(1)
    q, k, v, g = (torch.randn(shape, generator=generator).to(place, dtype) for _ in range(4))
    for each in (q, k, v):
        each.requires_grad_()
    more = {name: each.to(place) if isinstance(each, torch.Tensor) else each for name, each in more.items()}
    out = hashattn.torch.attention(q, k, v, **{**OPTIONS, **more})
    out.backward(g)
    assert out.device == q.device and q.grad.device == q.device
    return out, q.grad, k.grad, v.grad


FORMS = {
    "plain": {}, "causal": {"causal": True}, "is_causal": {"is_causal": True},
    "mask": {"key_mask": torch.arange(20) % 3 != 1},
    "mask of numbers": {"key_mask": (torch.arange(40).view(2, 20) % 5 != 1).long()},
    "attn_mask": {"attn_mask": (torch.arange(40).view(2, 1, 1, 20) % 5 == 1) * -1e9},
    "expanded attn_mask": {"attn_mask": (torch.arange(40).view(2, 1, 1, 20) % 5 != 1).expand(2, 2, 20, 20).contiguous()},
    "both masks": {"key_mask": torch.arange(20) < 17, "attn_mask": torch.arange(40).view(2, 1, 1, 20) % 5 != 1},
    "lengths": {"lengths": torch.tensor([20, 7])}, "seed": {"seed": torch.tensor(9)}, "scale": {"scale": 0.3},
    "offsets": {"offsets": torch.tensor([0, 3, 3, 20]), "shape": (20, 2, 32)}, "recompute": {"recompute": True},
}


@on_cuda
@pytest.mark.parametrize("form", FORMS)
def test_attention(form):
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 8e-3), (torch.float16, 2e-3)):
        for there, here in zip(results("cuda", dtype, **FORMS[form]), results("cpu", dtype, **FORMS[form])):
            assert error(there, here) <= bound


@on_cuda
def test_other_calls():
    q, k, v = (torch.randn(3, 2, 9, 16).to("cuda") for _ in range(3))
    each = torch.vmap(lambda q, k, v: hashattn.torch.attention(q, k, v, **OPTIONS))(q, k, v)
    assert each.is_cuda and error(each[1], hashattn.torch.attention(q[1].cpu(), k[1].cpu(), v[1].cpu(), **OPTIONS)) < 1e-5
    gradient = torch.vmap(torch.func.grad(lambda q, k, v: hashattn.torch.attention(q, k, v, **OPTIONS).sum()))(q, k, v)
    wanted = q[1].cpu().requires_grad_()
    hashattn.torch.attention(wanted, k[1].cpu(), v[1].cpu(), **OPTIONS).sum().backward()
    assert gradient.is_cuda and error(gradient[1], wanted.grad) < 1e-5
    wide = torch.randn(16, 9)
    there = hashattn.torch.attention(*[wide.to("cuda").t()] * 3, **OPTIONS)  # strides that are copied
    assert there.is_cuda and error(there, hashattn.torch.attention(*[wide.t()] * 3, **OPTIONS)) < 1e-5
    module = hashattn.torch.MultiheadAttention(32, 2, batch_first=True, **OPTIONS).eval()
    x, padded = torch.randn(2, 9, 32), torch.arange(18).view(2, 9) % 9 > 6
    here = module(x, x, x, key_padding_mask=padded)[0]
    module.to("cuda")
    there = module(x.to("cuda"), x.to("cuda"), x.to("cuda"), key_padding_mask=padded.to("cuda"))[0]
    assert there.is_cuda and error(there, here) < 1e-5


@on_cuda
def test_errors():
    q = torch.randn(2, 9, 16).to("cuda")
    with pytest.raises(hashattn.RefusedError, match="softmax is not computed on a device, only: yoso"):
        hashattn.torch.attention(q, q, q, mechanism="softmax")
    bad = q.clone()
    bad[1, 7, 3] = float("nan")
    hashattn.torch.attention(q, bad, q, **OPTIONS)
    with pytest.raises(hashattn.InvalidError, match="key holds NaN or infinity at sequence 0, head 1, row 7"):
        hashattn.torch.wait("cuda:0")
    hashattn.torch.wait("cuda:0")  # told once
    hashattn.torch.wait("cpu")
    with pytest.raises(hashattn.InvalidTypeError, match="q, k, v are on cuda:0, cpu, cuda:0; all must be on one device"):
        hashattn.torch.attention(q, q.cpu(), q)


@on_cuda
def test_waits():
    """Without masks, lengths and a seed on CUDA nothing is read from there; each of them is read once."""
    q = torch.randn(2, 2, 9, 16).to("cuda")
    mask, lengths, seed = torch.arange(9) < 7, torch.tensor([9, 4]), torch.tensor(3)
    options = {name: value for name, value in OPTIONS.items() if name != "seed"}
    for given, wanted in (({}, 0), ({"key_mask": mask, "seed": seed}, 0), ({"lengths": lengths}, 0), ({"causal": True}, 0),
                          ({"key_mask": mask.to("cuda")}, 1), ({"key_mask": mask.long().to("cuda")}, 1),
                          ({"lengths": lengths.to("cuda")}, 1), ({"seed": seed.to("cuda")}, 1)):
        before = _transfers.value
        hashattn.torch.attention(q, q, q, **options, **given)
        assert _transfers.value - before == wanted, given


# ---- models ------------------------------------------------------------------------------------------------------------

SMALL = dict(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
KINDS = {
    "bert": ("BertModel", "BertConfig", {**SMALL, "max_position_embeddings": 32}),
    "yoso": ("YosoModel", "YosoConfig", {**SMALL, "max_position_embeddings": 32, "use_expectation": False}),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", {**SMALL, "max_position_embeddings": 40}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=32)),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "num_key_value_heads": 1}),
    "vit": ("ViTModel", "ViTConfig", {**SMALL, "image_size": 8, "patch_size": 2}),
    "bart": ("BartModel", "BartConfig", dict(vocab_size=50, d_model=32, encoder_layers=1, decoder_layers=1,
                                             encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=48,
                                             decoder_ffn_dim=48, max_position_embeddings=32)),
}
PADDING = {"none": None, "right": torch.tensor([[1] * 12, [1] * 7 + [0] * 5]), "left": torch.tensor([[1] * 12, [0] * 5 + [1] * 7]),
           "middle": torch.tensor([[1] * 12, [1] * 3 + [0] * 5 + [1] * 4])}


READS = {"yoso": 5, "bart": 3}  # masks of a forward pass: YosoModel gives one to each layer, BART has three


def made(kind, **more):
    transformers = pytest.importorskip("transformers")
    name, configuration, options = KINDS[kind]
    torch.manual_seed(0)
    return getattr(transformers, name)._from_config(getattr(transformers, configuration)(**options), **more).eval()


def inputs_of(kind, padding, place):
    if kind == "vit":
        return {"pixel_values": torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(2)).to(place)}
    ids = torch.randint(3, 50, (2, 12), generator=torch.Generator().manual_seed(2))
    inputs = {"input_ids": ids.to(place)}
    if PADDING[padding] is not None:
        inputs["attention_mask"] = PADDING[padding].to(place)
    return inputs


def rows_that_count(kind, padding, out):
    mask = PADDING[padding]
    return out[0] if mask is None or kind == "vit" or out[0].ndim < 3 else out[0] * mask[..., None].to(out[0].device)


def run(model, kind, padding, place):
    model.to(place)
    inputs = inputs_of(kind, padding, place)
    before = _transfers.value
    out = model(**inputs)
    if place == "cuda":
        assert _transfers.value - before <= READS.get(kind, padding != "none"), "more than the mask was read from CUDA"
    assert out[0].device.type == place
    rows = rows_that_count(kind, padding, out)
    weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(3))
    model.zero_grad()
    (rows * weights.to(place)).sum().backward()
    return rows, torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


@on_cuda
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("kind", KINDS)
def test_models(kind, padding):
    """replace_attention, forward and backward of a whole model, where it was moved to CUDA before and after."""
    options = {name: value for name, value in OPTIONS.items()}
    if kind == "vit" and padding != "none":
        pytest.skip("images have no padding")
    model = hashattn.torch.replace_attention(made(kind), **options)
    here = run(model, kind, padding, "cpu")
    there = run(model, kind, padding, "cuda")
    for a, b in zip(here, there):
        assert error(b, a) <= 2e-4


@on_cuda
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_one_layer(kind):
    """The other one is left to PyTorch's own attention, which gets the mask in full."""
    model = hashattn.torch.replace_attention(made(kind), filter=lambda name, layer: "1" in name, **OPTIONS)
    for a, b in zip(run(model, kind, "left", "cpu"), run(model, kind, "left", "cuda")):
        assert error(b, a) <= 2e-4


@on_cuda
def test_sliding_windows():
    KINDS["mistral"] = ("MistralForCausalLM", "MistralConfig", {**SMALL, "num_key_value_heads": 1, "sliding_window": 4})
    model = hashattn.torch.replace_attention(made("mistral"), **OPTIONS).to("cuda")
    with pytest.raises(hashattn.RefusedError, match="MistralAttention has a sliding window, whose softmax hashattn does not"):
        model(**inputs_of("mistral", "left", "cuda"))


@on_cuda
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_attn_implementation(kind):
    """By name, with the library's own mask function, in a model that is on CUDA; the name's own options hold."""
    model = made(kind, attn_implementation="hashattn-yoso")
    inputs = inputs_of(kind, "right", "cpu")
    here = rows_that_count(kind, "right", model(**inputs))
    model.to("cuda")
    there = rows_that_count(kind, "right", model(**inputs_of(kind, "right", "cuda")))
    assert there.is_cuda and error(there, here) < 0.2  # the processor's projection may be another


@on_cuda
def test_generate():
    model = hashattn.torch.replace_attention(made("llama"), **OPTIONS)
    ids = torch.randint(3, 50, (2, 6), generator=torch.Generator().manual_seed(2))
    mask = torch.tensor([[1] * 6, [0] * 2 + [1] * 4])
    told = dict(max_new_tokens=5, do_sample=False, pad_token_id=0)
    here = model.generate(ids, attention_mask=mask, **told)
    there = model.to("cuda").generate(ids.to("cuda"), attention_mask=mask.to("cuda"), **told)
    assert torch.equal(there.cpu(), here)
    cache = hashattn.torch.transformers.Cache(model.config, "yoso")
    with pytest.raises(hashattn.RefusedError, match="a hashattn cache is memory of the processor, and LlamaAttention is on cuda:0"):
        model.generate(ids.to("cuda"), attention_mask=mask.to("cuda"), **holding(cache), **told)
