"""hashattn.attention and hashattn.Attention on arrays of a GPU, which come and go by DLPack, with the emulator of tests/gpu as
the driver.

The device memory of the emulator is that of the process, so arrays of NumPy stand for those of a GPU: the capsules that NumPy
makes are changed to say so, in either form of DLPack, and those that come back are changed again, and read by NumPy. Runs with
BUILD=FOLDER, if the build is not build/.
Planted and caught: memory that is not given back, of a capsule that nobody takes too; an array without its byte offset;
padding not cleared, in `out` too; inputs taken on no stream; arrays of the processor on a context of a device.
"""

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import hashattn
from conftest import numbers

EMULATOR = Path(__file__).resolve().parents[2] / os.environ.get("BUILD", "build") / "tests/gpu/plain/libcuda.so.1"
pytestmark = pytest.mark.skipif(not EMULATOR.exists(), reason="the emulator is not built")
OPTIONS = {"num_hashes": 5, "hash_bits": 3, "projection": "int16-dp"}
CUDA, ROCM = 2, 10
DATA, KIND, CODE, BYTE_OFFSET = 0, 8, 20, 40  # places in DLTensor
TENSOR_OF = {b"dltensor": 0, b"dltensor_versioned": 32}  # place of the DLTensor, by the name of the capsule
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
VERSIONS = [False, True] if int(np.__version__.split(".")[0]) >= 2 else [False]


def change(capsule, kind, bits=None):
    """Says where a capsule's memory is, and the dtype: bfloat16 for 16 bits."""
    name = _get_name(capsule)
    tensor = _get_pointer(capsule, name) + TENSOR_OF[name]
    assert ctypes.c_int32.from_address(tensor + KIND).value in (1, CUDA)
    ctypes.c_int32.from_address(tensor + KIND).value = kind
    if kind != 1:
        ctypes.c_uint64.from_address(tensor + DATA).value -= 64
        ctypes.c_uint64.from_address(tensor + BYTE_OFFSET).value += 64
    if bits is not None:
        ctypes.c_uint8.from_address(tensor + CODE).value = 4 if kind != 1 else 1
    return capsule


class There:
    """An array of NumPy as one on a GPU; uint16 is bfloat16."""

    def __init__(self, array, versioned=VERSIONS[-1], kind=CUDA, number=0):
        self.array, self.versioned, self.kind, self.number, self.streams = array, versioned, kind, number, []

    def __dlpack__(self, *, stream=None, **more):
        if more and not self.versioned:
            raise TypeError("no max_version before DLPack 1.0")
        self.streams.append(stream)
        return change(self.array.__dlpack__(**more), self.kind, 16 if self.array.dtype == np.uint16 else None)

    def __dlpack_device__(self):
        return self.kind, self.number


class Here:
    """A result as an array of the processor."""

    def __init__(self, result, versioned):
        self.result, self.versioned = result, versioned

    def __dlpack__(self, **more):
        capsule = self.result.__dlpack__(stream=3, max_version=(1, 1) if self.versioned else None)
        return change(capsule, 1, 16 if self.result.dtype == "bfloat16" else None)

    def __dlpack_device__(self):
        return 1, 0


def here(result, versioned=VERSIONS[-1]):
    assert result.__dlpack_device__() == (CUDA, 0) and result.device == "cuda:0"
    return np.from_dlpack(Here(result, versioned))


@pytest.fixture(autouse=True)
def driver():
    """The driver's library; at its end the device has no memory in use but that of contexts."""
    library = ctypes.CDLL(str(EMULATOR))
    library.fake_cuda_bytes.restype = ctypes.c_size_t
    hashattn.attention(*[There(numbers(4, 16))] * 3, **OPTIONS)  # makes the context of the process
    gc.collect()
    before = library.fake_cuda_bytes()
    yield library
    gc.collect()
    assert library.fake_cuda_bytes() == before


def close(a, b, bound=1e-5):
    return a.shape == b.shape and np.abs(a - b).max() <= bound * np.abs(b).max()


FORMS = {
    "plain": {}, "causal": {"causal": True}, "mask": {"key_mask": np.arange(20) % 3 != 1}, "lengths": {"lengths": [20, 7]},
    "recompute": {"recompute": True}, "seed": {"seed": 2**64 - 1}, "normalize": {"normalize": "sum"},
}


@pytest.mark.parametrize("versioned", VERSIONS)
@pytest.mark.parametrize("form", FORMS)
def test_as_the_processor(form, versioned):
    q, k, v = (numbers(2, 3, 20, 32, seed=i) for i in range(3))
    given = [There(each, versioned) for each in (q, k, v)]
    wanted = hashattn.attention(q, k, v, **{**OPTIONS, **FORMS[form]})
    found = hashattn.attention(*given, **{**OPTIONS, **FORMS[form]})
    assert found.shape == wanted.shape and found.dtype == "float32"
    assert close(here(found, versioned), wanted)
    assert [each.streams for each in given] == [[1]] * 3  # the legacy default stream, on which the library works
    out = np.full_like(wanted, 7)
    target = There(out, versioned)
    assert hashattn.attention(*given, out=target, **{**OPTIONS, **FORMS[form]}) is target
    assert close(out, wanted) and (form != "lengths" or not out[1, :, 7:].any())


@pytest.mark.parametrize("strided", [False, True])
def test_packed_and_strides(strided):
    rows = numbers(20, 3, 96)
    q, k, v = (rows[..., 32 * i:32 * i + 32] if strided else rows[..., 32 * i:32 * i + 32].copy() for i in range(3))
    wanted = hashattn.attention(q, k, v, offsets=[0, 3, 3, 20], **OPTIONS)
    assert close(here(hashattn.attention(There(q), There(k), There(v), offsets=[0, 3, 3, 20], **OPTIONS)), wanted)
    wide = np.full((2, 20, 5, 40), 9, np.float32)  # an output with heads inside rows, and more between them
    out = wide[..., 3:35].transpose(0, 2, 1, 3)[:, 1:4]
    q, k, v = (numbers(2, 3, 20, 32, seed=i) for i in range(3))
    hashattn.attention(There(q), There(k), There(v), lengths=[11, 20], out=There(out), **OPTIONS)
    assert close(out, hashattn.attention(q, k, v, lengths=[11, 20], **OPTIONS)) and not out[0, :, 11:].any()
    assert (wide[..., :3] == 9).all() and (wide[:, :, 0] == 9).all() and (wide[:, :, 4] == 9).all()


def test_bfloat16():
    rows = [numbers(2, 20, 32, seed=i) for i in range(3)]
    halves = [(each.view(np.uint32) >> 16).astype(np.uint16) for each in rows]
    wanted = hashattn.attention(*[(each.astype(np.uint32) << 16).view(np.float32) for each in halves], **OPTIONS)
    found = hashattn.attention(*map(There, halves), **OPTIONS)
    assert found.dtype == "bfloat16" and "bfloat16 (2, 20, 32) on cuda:0" in repr(found)
    assert close((here(found).astype(np.uint32) << 16).view(np.float32), wanted, 8e-3)


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form):
    form = dict(FORMS[form])
    options = {**OPTIONS, **{name: form.pop(name) for name in ("recompute", "normalize") if name in form}}
    q, k, v, g = (numbers(2, 3, 20, 32, seed=i) for i in range(4))
    with hashattn.Context(1, device="cuda") as context:
        there, made = hashattn.Attention("yoso", context=context, **options), hashattn.Attention("yoso", **options)
        out, wanted = there.forward(There(q), There(k), There(v), **form), made.forward(q, k, v, **form)
        assert context.device == "cuda:0" and close(here(out), wanted)
        for a, b in zip(there.backward(There(g)), made.backward(g)):
            assert close(here(a), b)
        with pytest.raises(TypeError, match="dout is a ndarray of the processor, and the call is on cuda:0"):
            there.backward(g)
        del out, a
        gc.collect()


def test_edges():
    q, k, v = numbers(0, 16), numbers(4, 16), numbers(4, 8)
    assert hashattn.attention(There(q), There(k), There(v), **OPTIONS).shape == (0, 8)
    assert not here(hashattn.attention(There(k), There(q), There(np.zeros((0, 8), np.float32)), **OPTIONS)).any()
    offset = numbers(9, 16)[3:7]
    assert close(here(hashattn.attention(There(offset), There(k), There(v), **OPTIONS)), hashattn.attention(offset, k, v, **OPTIONS))


def test_memory_is_given_back(driver):
    before = driver.fake_cuda_bytes()
    arrays = [numbers(30, 16, seed=i).copy() for i in range(3)]
    alive = [weakref.ref(each) for each in arrays]
    result = hashattn.attention(*map(There, arrays), **OPTIONS)
    del arrays
    gc.collect()
    assert [each() for each in alive] == [None] * 3
    assert driver.fake_cuda_bytes() > before
    for versioned in VERSIONS:
        result.__dlpack__(max_version=(1, 0) if versioned else None)  # a capsule that nobody takes
    array = here(result)
    kept = array.copy()
    del result
    gc.collect()
    assert driver.fake_cuda_bytes() > before and (array == kept).all()
    del array
    gc.collect()
    assert driver.fake_cuda_bytes() == before


def test_errors():
    q = numbers(2, 20, 32)
    there = There(q)
    bad = q.copy()
    bad[1, 7, 3] = np.nan
    for given, options, error, words in (
        ((there, q, there), {}, TypeError, "k is a ndarray of the processor, and the call is on cuda:0"),
        ((q, there, there), {}, TypeError, "q is a ndarray of the processor, and the call is on cuda:0"),
        ((there, there, There(q, number=1)), {}, TypeError, "v is on cuda:1, and the call is on cuda:0"),
        ((There(q, number=7),) * 3, {}, ValueError, "device is 'cuda:7', the NVIDIA driver finds 1"),
        ((There(q, kind=ROCM),) * 3, {}, TypeError, r"q is on device \(10, 0\) of DLPack; this computes on the processor"),
        ((There(q.astype(np.float64)),) * 3, {}, TypeError, r"q has DLPack's dtype \(code, bits, lanes\) \(2, 64, 1\)"),
        ((There(q[..., ::-1]), there, there), {}, ValueError, r"q has shape \(2, 20, 32\) and strides \(640, 32, -1\)"),
        ((There(q[..., 0]), there, there), {}, ValueError, r"q has shape \(2, 20\) and k \(2, 20, 32\)"),
        ((There(bad), there, there), {}, ValueError, "query holds NaN or infinity at sequence 0, head 1, row 7"),
        ((there,) * 3, {"mechanism": "softmax"}, hashattn.RefusedError, "softmax is not computed on a device, only: yoso"),
        ((there,) * 3, {"out": There(q[:1].copy())}, ValueError, r"out has shape \(1, 20, 32\) and dtype float32; \(2, 20, 32\)"),
        ((there,) * 3, {"out": q.copy()}, TypeError, "out is a ndarray of the processor"),
        ((there,) * 3, {"out": there}, ValueError, "overlap"),
        ((there,) * 3, {"key_mask": There(np.ones(20, np.uint8))}, TypeError, r"key_mask is on device \(2, 0\) of DLPack; masks, "),
        ((there,) * 3, {"context": hashattn.Context(1)}, TypeError, "arrays are on cuda:0, and the context computes on the proc"),
        ((q,) * 3, {"context": hashattn.Context(1, device="cuda")}, TypeError, "on the processor, and the context computes on cuda:0"),
    ):
        options = {**({} if "mechanism" in options else OPTIONS), **options}
        with pytest.raises(error, match=words):
            hashattn.attention(*given, **options)
    if True in VERSIONS:
        fixed = q.copy()
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match=r"out, of shape \(2, 20, 32\), is read-only"):
            hashattn.attention(there, there, there, out=There(fixed, True), **OPTIONS)
    result = hashattn.attention(there, there, there, **OPTIONS)
    for stream in (0, -2, True, "1"):
        with pytest.raises(ValueError, match="allowed are None, -1, 1"):
            result.__dlpack__(stream=stream)
    for more in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            result.__dlpack__(**more)
    for cannot in (hashattn.Stream(2, 32).absorb, hashattn.Density(32).add):
        with pytest.raises(TypeError):
            cannot(there, there) if cannot.__name__ == "absorb" else cannot(There(q[0]))


def test_without_a_driver():
    program = ("import ctypes, numpy, sys; sys.path.insert(0, %r)\n"
               "try: ctypes.CDLL('libcuda.so.1')\n"
               "except OSError: pass\n"
               "else: sys.exit('SKIPPED')\n"
               "import test_device, hashattn\n"
               "try: hashattn.attention(*[test_device.There(numpy.ones((4, 16), numpy.float32))] * 3)\n"
               "except hashattn.FailedError as error: print(error)" % str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if "SKIPPED" in done.stderr:
        pytest.skip("this machine has a driver")
    assert done.stdout.startswith("no NVIDIA driver: libcuda.so.1"), done.stdout + done.stderr
