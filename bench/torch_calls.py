#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What hashattn.torch.attention costs over the C calls: forward, and forward + backward, with yoso, m 32, d 64.

    PYTHONPATH=BUILD/python ENV/bin/python bench/torch_calls.py [--threads 2]
    ... bench/torch_calls.py --overhead [--docs]    # one head of 8 rows, beside SDPA; with --docs into docs/results too

ENV has PyTorch and NumPy. C calls reuse their arrays; "fresh" makes new output arrays in every call, as PyTorch does.
"empty" is an operator written in Python that makes the same tensors and computes nothing: what PyTorch takes by itself.
All run in turn, round after round; the least time of each counts.
--overhead measures the processor time of one thread, which other programs on the machine change little."""

import argparse
import ctypes
import time
from ctypes import byref

try:
    import numpy as np
    import torch
except ImportError as error:
    raise SystemExit(f"no {error.name}: run it with the Python of an environment that has PyTorch and NumPy")

import page
import results
import torch_models

import hashattn
import hashattn.torch
from hashattn import _library
from hashattn.arrays import Call, Layout, block

SHAPES = [(256, 1), (256, 12), (4096, 1), (4096, 12)]  # rows, heads
HASHES, DIM, ROUNDS = 32, 64, 8


def least(function, repeats):
    """Microseconds of a call, the less of two means of `repeats` calls."""
    function()
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        for _ in range(repeats):
            function()
        times.append((time.perf_counter() - begun) / repeats)
    return 1e6 * min(times)


class Calls:
    """The C calls on the arrays of three tensors."""

    def __init__(self, tensors, gradient, threads):
        self.attention = hashattn.Attention("yoso", context=hashattn.Context(threads), num_hashes=HASHES)
        self.library, self.handle = _library.functions(), self.attention._handle.pointer
        self.shape = tuple(gradient.shape)
        self.call = Call([tensor.numpy() for tensor in tensors], _library.FLOAT32, seed=1)
        self.inputs = [byref(layout.struct) for layout in self.call.layouts]
        self.gradient = Layout(gradient.numpy(), False)
        saved, scratch = ctypes.c_size_t(), ctypes.c_size_t()
        self.library.attention_sizes(self.handle, byref(self.call.problem), byref(saved), byref(scratch))
        self.saved_size, self.scratch = saved.value, block(scratch.value)
        self.outputs, self.saved = self.made(4), block(self.saved_size)

    def made(self, count):
        return [Layout(np.empty(self.shape, np.float32), False) for _ in range(count)]

    def run(self, outputs, saved):
        """Forward; with memory for it also backward."""
        out, *gradients = (byref(layout.struct) for layout in outputs)
        keep = None if saved is None else saved[1]
        self.library.attention_forward(self.handle, byref(self.call.problem), *self.inputs, out, keep, self.scratch[1])
        if saved is not None:
            self.library.attention_backward(self.handle, byref(self.call.problem), *self.inputs, out,
                                            byref(self.gradient.struct), *gradients, keep, self.scratch[1])


class Empty(torch.autograd.Function):
    """The same tensors as attention, registered in the same way, but nothing is computed."""

    @staticmethod
    def forward(ctx, q, k, v, seed, size):
        with torch._C._AutoDispatchBelowAutograd():
            out, saved = torch.ops.hashattn_bench.empty(q, k, v, seed, size)
        ctx.save_for_backward(q, k, v, seed, out, saved)
        ctx.mark_non_differentiable(saved)
        ctx.set_materialize_grads(False)
        return out, saved

    @staticmethod
    def backward(ctx, dout, _):
        with torch._C._AutoDispatchBelowAutograd():
            return *torch.ops.hashattn_bench.empty_backward(*ctx.saved_tensors, dout), None, None


def register_empty():
    library = torch.library.Library("hashattn_bench", "DEF")
    library.define("empty(Tensor q, Tensor k, Tensor v, Tensor seed, int size) -> (Tensor, Tensor)")
    library.define("empty_backward(Tensor q, Tensor k, Tensor v, Tensor seed, Tensor out, Tensor saved, Tensor dout)"
                   " -> (Tensor, Tensor, Tensor)")
    library.impl("empty", lambda q, k, v, seed, size: (torch.empty_like(q), torch.empty(size, dtype=torch.uint8)), "CPU")
    library.impl("empty_backward", lambda q, k, v, *rest: tuple(torch.empty_like(each) for each in (q, k, v)), "CPU")
    return library


def measure(n, heads, threads):
    tensors, gradient = [torch.randn(1, heads, n, DIM) for _ in range(3)], torch.randn(1, heads, n, DIM)
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    calls = Calls(tensors, gradient, threads)

    def forward():
        with torch.no_grad():
            hashattn.torch.attention(*tensors, seed=1, num_hashes=HASHES)

    def both():
        torch.autograd.grad(hashattn.torch.attention(*leaves, seed=1, num_hashes=HASHES), leaves, gradient)

    def empty():
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
            torch.ops.hashattn_bench.empty(*tensors, torch.scalar_tensor(1, dtype=torch.int64), 0)

    def empty_both():
        out, _ = Empty.apply(*leaves, torch.scalar_tensor(1, dtype=torch.int64), calls.saved_size)
        torch.autograd.grad(out, leaves, gradient)

    contenders = [lambda: calls.run(calls.outputs[:1], None), lambda: calls.run(calls.made(1), None), forward, empty,
                  lambda: calls.run(calls.outputs, calls.saved),
                  lambda: calls.run(calls.made(4), block(calls.saved_size)), both, empty_both]
    repeats = 50 if n < 1000 else 3 if heads == 1 else 1
    rounds = [[least(contender, repeats) for contender in contenders] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds)]


# ---- calls that compute next to nothing ------------------------------------------------------------------------------


def processor_time(function, repeats=300):
    """Microseconds of the processor for a call."""
    begun = time.process_time()
    for _ in range(repeats):
        function()
    return 1e6 * (time.process_time() - begun) / repeats


def overheads():
    """{call: (forward, forward and backward)} in microseconds, of one head of 8 rows, d 64."""
    torch.set_num_threads(1)
    leaves, gradient = [torch.randn(1, 1, 8, DIM).requires_grad_() for _ in range(3)], torch.randn(1, 1, 8, DIM)
    seed = torch.scalar_tensor(1, dtype=torch.int64)
    calls = {"an empty operator in Python": lambda: Empty.apply(*leaves, seed, 1024)[0],
             "SDPA": lambda: torch.nn.functional.scaled_dot_product_attention(*leaves),
             **{f"hashattn.torch, {mechanism}": lambda mechanism=mechanism, options=options: hashattn.torch.attention(
                 *leaves, mechanism=mechanism, seed=1, **options)
                for mechanism, options in (("softmax", {}), ("yoso", {"num_hashes": 1, "hash_bits": 1}), ("none", {}))}}

    def both(call):
        return lambda: torch.autograd.grad(call(), leaves, gradient)

    def without(call):
        def run():
            with torch.no_grad():
                call()
        return run

    inference = {**calls, "an empty operator in Python": lambda: torch.ops.hashattn_bench.empty(*leaves, seed, 0)}
    contenders = {name: (without(inference[name]), both(call)) for name, call in calls.items()}
    rounds = [{name: [processor_time(each) for each in pair] for name, pair in contenders.items()} for _ in range(3 * ROUNDS)]
    return {name: [min(found[name][kind] for found in rounds) for kind in (0, 1)] for name in contenders}


def overhead_table(docs):
    cells = lambda pair: {"forward": f"{pair[0]:.0f} us", "forward and backward": f"{pair[1]:.0f} us"}
    table = page.Table(["call"], [((name,), cells(pair)) for name, pair in overheads().items()], named=True)
    print(table.text())
    if docs:
        here = torch_models.describe(1)
        results.publish({"torch overhead": table}, here["kind"], here["commit"], here["date"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--overhead", action="store_true", help="what calls cost that compute next to nothing")
    parser.add_argument("--docs", action="store_true", help="with --overhead: into docs/results too")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    library = register_empty()  # lives as long as its operators
    if asked.overhead:
        overhead_table(asked.docs)
        library._destroy()
        return
    names = ["rows, heads", "forward: C calls", "fresh", "over", "empty", "both: C calls", "fresh", "over", "over fresh", "empty"]
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    for n, heads in SHAPES:
        c, fresh, ours, empty, c_both, fresh_both, both, empty_both = measure(n, heads, asked.threads)
        cells = [f"{n}, {heads}", f"{c:.0f} us", f"{fresh:.0f} us", f"{ours - c:.0f} us, {ours / c - 1:.1%}", f"{empty:.0f} us",
                 f"{c_both:.0f} us", f"{fresh_both:.0f} us", f"{both - c_both:.0f} us, {both / c_both - 1:.1%}",
                 f"{both - fresh_both:.0f} us, {both / fresh_both - 1:.1%}", f"{empty_both:.0f} us"]
        print("| " + " | ".join(cells) + " |", flush=True)
    library._destroy()


if __name__ == "__main__":
    main()
