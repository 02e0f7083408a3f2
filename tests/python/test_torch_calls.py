"""What hashattn.torch keeps from call to call, and what it leaves to torch's threads.

Planted and caught: causal, strides, dtype or options left out of what identifies a kept call; the seed of the first call
kept; the alignment of tensors not looked at; memory set by torch.zeros, which starts threads of OpenMP; padding of the
results not set; saved bytes that hooks moved used from the next aligned address on, or with gaps; a thread of Python ended
inside C++ at the end of the interpreter. SPDX-License-Identifier: Apache-2.0
"""

import random
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hashattn  # noqa: E402
import hashattn.torch  # noqa: E402
from conftest import numbers  # noqa: E402


def expected(tensors, g, causal, **options):
    """Output and gradients by NumPy, of float32 tensors."""
    with hashattn.Attention(num_hashes=options["num_hashes"]) as attention:
        out = attention.forward(*(t.numpy() for t in tensors), seed=options["seed"], causal=causal)
        return out, *attention.backward(g.numpy())


def test_kept_calls_are_told_apart():
    """Calls of one shape that differ in one thing each, in any order, twice."""
    plain = [torch.from_numpy(numbers(2, 24, 24, 8, seed=i)) for i in range(4)]
    moved = [t.transpose(1, 2) for t in plain]
    cases = []
    for tensors in (plain, moved):
        for causal in (False, True):
            for num_hashes in (4, 8):
                for seed in (1, 2**63 + 1):
                    cases.append((tensors, dict(causal=causal, num_hashes=num_hashes, seed=seed)))
    random.Random(1).shuffle(cases)
    for tensors, options in cases * 2:
        inputs = [t.detach().requires_grad_() for t in tensors[:3]]
        out = hashattn.torch.attention(*inputs, **options)
        found = out, *torch.autograd.grad(out, inputs, tensors[3])
        for a, b in zip(found, expected(tensors[:3], tensors[3], **options)):
            assert np.array_equal(a.detach().numpy(), b)
        rounded = [t.bfloat16() for t in tensors[:3]]
        again = hashattn.torch.attention(*(t.float() for t in rounded), **options).bfloat16()
        assert torch.equal(hashattn.torch.attention(*rounded, **options), again)


def test_tensors_that_are_not_aligned(monkeypatch):
    """They are copied, also when the call is a kept one."""
    copies = []
    copy = hashattn.torch.calls._copy
    monkeypatch.setattr(hashattn.torch.calls, "_copy", lambda tensor: copies.append(tensor) or copy(tensor))
    q = torch.from_numpy(numbers(3, 24, 8))
    shifted = torch.frombuffer(bytearray(1) + q.numpy().tobytes(), dtype=torch.float32, offset=1).view(3, 24, 8)
    expected = hashattn.torch.attention(q, q, q, seed=1)
    assert shifted.data_ptr() % 4 and torch.equal(shifted, q) and not copies
    for count in (3, 6):
        assert torch.equal(hashattn.torch.attention(shifted, shifted, shifted, seed=1), expected)
        assert len(copies) == count


@pytest.mark.parametrize("mechanism", ["yoso", "softmax", "lha", "linear"])
def test_saved_tensors_may_move(mechanism):
    """torch.autograd.graph.saved_tensors_hooks may bring them back at any address, and as columns of something."""
    leaves = [torch.from_numpy(numbers(2, 24, 8, seed=i)).requires_grad_() for i in range(3)]

    def gradients(out):
        return torch.autograd.grad(out.square().sum(), leaves)

    def attend():
        return hashattn.torch.attention(*leaves, mechanism=mechanism, seed=1)

    def moved(offset, step=1):
        """To `offset` bytes behind an aligned address, with `step` elements for each."""
        def back(kept):
            size = step * kept.nbytes
            memory = np.zeros(size + 128, np.uint8)
            start = -memory.ctypes.data % 64 + offset
            there = memory[start:start + size].view(kept.dtype).reshape(*kept.shape, step)[..., 0]
            there[...] = kept
            return torch.from_numpy(there)

        return back

    expected = gradients(attend())
    for back in (moved(0), moved(16), moved(56), moved(0, step=2)):
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach().numpy().copy(), back):
            out = attend()
        assert all(torch.equal(a, b) for a, b in zip(gradients(out), expected))


def test_padded_rows_of_results_are_zero():
    inputs = [torch.from_numpy(numbers(2, 2, 64, 16, seed=i)).requires_grad_() for i in range(3)]
    for _ in range(3):
        used = [torch.full((2, 2, 64, 16), float("nan")) for _ in range(8)]
        del used  # the results get this memory
        out = hashattn.torch.attention(*inputs, lengths=torch.tensor([64, 9]), seed=1, num_hashes=4)
        for each in (out, *torch.autograd.grad(out, inputs, torch.ones_like(out))):
            assert each[0].any() and each[1, :, :9].any() and not each[1, :, 9:].any()
        del out, each


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_calls_start_no_threads_of_torch():
    """Threads of OpenMP spin after each parallel loop and would take the processors from the library's threads."""
    script = textwrap.dedent("""
        import os, numpy, torch, hashattn.torch
        torch.set_num_threads(3)
        *inputs, slope = (torch.from_numpy(numpy.ones((2, 12, 256, 64), numpy.float32)) for _ in range(4))
        for each in inputs:
            each.requires_grad_()
        before = len(os.listdir("/proc/self/task"))
        for options in ({}, {"lengths": torch.tensor([256, 9])}):
            out = hashattn.torch.attention(*inputs, seed=1, num_hashes=32, **options)
            torch.autograd.grad(out, inputs, slope)
        library = len(os.listdir("/proc/self/task")) - before
        torch.zeros(10**6)
        print(library, len(os.listdir("/proc/self/task")) - before)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library, with_torch = map(int, done.stdout.split())
    assert library == 2 and with_torch > 2


def test_the_interpreter_may_end_during_calls():
    """A daemon thread that came back from the library into C++ would be ended there, which crashes."""
    script = textwrap.dedent("""
        import threading, time, torch, hashattn.torch
        inputs = [torch.ones(12, 2000, 64).requires_grad_() for _ in range(3)]
        started = threading.Semaphore(0)
        def forward():
            while True:
                hashattn.torch.attention(*(each.detach() for each in inputs), seed=1)
                started.release()
        def backward():
            while True:
                out = hashattn.torch.attention(*inputs, seed=1)
                torch.autograd.grad(out, inputs, out.detach())
                started.release()
        for work in (forward, backward):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(4):
            started.acquire()
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_threads_of_python_have_their_own_calls():
    """Kept calls of one shape at once, with different seeds."""
    inputs = [torch.from_numpy(numbers(2, 64, 16, seed=i)) for i in range(3)]
    expected = {seed: hashattn.torch.attention(*inputs, seed=seed, num_hashes=4) for seed in range(3)}
    wrong = []

    def work(seed):
        for _ in range(100):
            if not torch.equal(hashattn.torch.attention(*inputs, seed=seed, num_hashes=4), expected[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
