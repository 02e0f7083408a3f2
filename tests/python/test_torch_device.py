"""hashattn.torch on a device, with the emulator of tests/gpu as the driver, in every PyTorch.

Runs with BUILD=FOLDER, if the build is not build/. The device memory of the emulator is that of the process, so
tensors on the CPU stand for those on CUDA, and only the two questions that torch without CUDA cannot answer are
replaced: a tensor's device, and torch's stream there. test_torch_cuda.py has tensors that PyTorch takes for those of CUDA.
"""

import ctypes
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from hashattn.torch import calls  # noqa: E402

EMULATOR = Path(__file__).resolve().parents[2] / os.environ.get("BUILD", "build") / "tests/gpu/plain/libcuda.so.1"
OPTIONS = {"num_hashes": 8, "hash_bits": 3, "projection": "int16-dp", "seed": 5}

# torch with CUDA finds the emulator too, and warns that it is no driver for it.
pytestmark = [pytest.mark.skipif(not EMULATOR.exists(), reason="the emulator is not built"),
              pytest.mark.filterwarnings("ignore:CUDA initialization")]


@pytest.fixture
def device(monkeypatch):
    ctypes.CDLL(str(EMULATOR))  # the driver file asks for its name, libcuda.so.1
    monkeypatch.setattr(calls, "device_of", lambda tensor: "cuda:0")
    monkeypatch.setattr(calls, "_stream_of", lambda tensor: 0)


def results(dtype, **more):
    generator = torch.Generator().manual_seed(1)
    q, k, v, g = (torch.randn(2, 2, 20, 32, generator=generator).to(dtype).requires_grad_() for _ in range(4))
    out = hashattn.torch.attention(q, k, v, **OPTIONS, **more)
    out.backward(g.detach())
    return [each.detach().float() for each in (out, q.grad, k.grad, v.grad)]


FORMS = {"plain": {}, "causal": {"causal": True}, "mask": {"key_mask": torch.arange(20) % 3 != 1},
         "lengths": {"lengths": torch.tensor([20, 7])}, "recompute": {"recompute": True}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_as_the_processor(device, monkeypatch, form, dtype):
    there = results(dtype, **FORMS[form])
    monkeypatch.undo()
    here = results(dtype, **FORMS[form])
    for a, b in zip(here, there):
        assert (a - b).abs().max() <= (1e-5 if dtype == torch.float32 else 8e-3) * a.abs().max()


def test_only_yoso(device):
    with pytest.raises(hashattn.RefusedError, match="softmax is not computed on a device, only: yoso"):
        hashattn.torch.attention(*[torch.ones(4, 16)] * 3, mechanism="softmax")


def test_no_such_device(device, monkeypatch):
    monkeypatch.setattr(calls, "device_of", lambda tensor: "cuda:7")
    with pytest.raises(ValueError, match="device is 'cuda:7', the NVIDIA driver finds 1"):
        hashattn.torch.attention(*[torch.ones(4, 16)] * 3)
