"""Contexts: threads, instruction sets, calls at once, forks, the end of the interpreter during a call.

Planted and caught: the default context used by two threads at once without its lock; the handle of the parent used in a
forked child; a lock that another thread of the parent held, kept in the child; objects of the library not freed; a
training called back after the end of the interpreter; a child that waits for a training of its parent.
SPDX-License-Identifier: Apache-2.0
"""

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import hashattn
from conftest import numbers, same_bits

Q, K, V = (numbers(4, 300, 32, seed=i) for i in range(3))


def test_threads_do_not_change_the_bits():
    found = []
    for threads in (1, 2, 5):
        with hashattn.Context(threads=threads) as context:
            assert context.describe().threads == threads and f"threads={threads}" in repr(context)
            found.append(hashattn.attention(Q, K, V, context=context))
    assert same_bits(found[0], found[1]) and same_bits(found[0], found[2])
    assert same_bits(found[0], hashattn.attention(Q, K, V))


def test_instruction_sets():
    runs = [name for name, refusal in hashattn.instruction_sets().items() if refusal is None]
    refused = {name: refusal for name, refusal in hashattn.instruction_sets().items() if refusal is not None}
    assert "ref" in runs
    expected = hashattn.attention(Q, K, V)
    for isa in runs:
        with hashattn.Context(isa=isa) as context:
            assert context.describe().isa == isa
            assert np.abs(hashattn.attention(Q, K, V, context=context) - expected).max() < 1e-4
    for isa in refused:
        with pytest.raises(ValueError, match=isa):
            hashattn.Context(isa=isa)


def test_precision():
    with hashattn.Context(precision="bf16") as context:
        assert context.describe().precision == "bf16"
        rough = hashattn.attention(Q, K, V, mechanism="softmax", context=context)
    exact = hashattn.attention(Q, K, V, mechanism="softmax")
    assert 0 < np.abs(rough - exact).max() < 0.05


def in_threads(functions):
    """Runs the functions at once; raises what one of them raised."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


@pytest.mark.parametrize("own", [True, False])
def test_threads_of_python(own):
    """With a context for each thread, and all with the default one."""
    expected = [hashattn.attention(Q, K, V, seed=seed) for seed in range(4)]

    def work(seed):
        context = hashattn.Context(threads=1) if own else None
        for _ in range(20):
            assert same_bits(hashattn.attention(Q, K, V, seed=seed, context=context), expected[seed])
            with pytest.raises(ValueError, match=f"num_hashes is {5000 + seed}"):  # its own message
                hashattn.attention(Q, K, V, num_hashes=5000 + seed, context=context)

    in_threads([lambda seed=seed: work(seed) for seed in range(4)])


def test_the_gil_is_released():
    """Python runs while another thread computes: on a busy machine not in each of the tries."""
    query = numbers(8, 3000, 64)
    context = hashattn.Context(threads=1)

    def times_awake():
        started, count = threading.Event(), 0

        def compute():
            started.set()
            hashattn.attention(query, query, query, mechanism="softmax", context=context)

        thread = threading.Thread(target=compute)
        thread.start()
        started.wait()
        while thread.is_alive():
            count += 1
            time.sleep(0.001)
        return count

    assert any(times_awake() > 10 for _ in range(20))


def test_close_waits_for_a_call():
    context = hashattn.Context()
    query = numbers(4, 2000, 64)
    started, found = threading.Event(), []

    def compute():
        attention = hashattn.Attention("softmax", context=context)
        started.set()
        try:
            found.append(attention.forward(query, query, query))
        except ValueError as error:  # closed before the call began
            found.append(error)

    thread = threading.Thread(target=compute)
    thread.start()
    started.wait()
    context.close()
    thread.join()
    assert len(found) == 1


def test_objects_are_freed():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def use():
        with hashattn.Context(threads=2) as context:
            stream = hashattn.Stream(8, 32, context=context)
            attention = hashattn.Attention(context=context)
            attention.forward(Q, K, V)
            stream.absorb(Q[:1].repeat(8, 0), Q[:1].repeat(8, 0))

    use()
    gc.collect()
    before = resident()
    for _ in range(30):
        use()
    gc.collect()
    assert resident() - before < 60 << 20  # a stream alone has 16 MiB


def test_objects_of_a_cycle_are_freed_in_any_order():
    for _ in range(20):
        made = [hashattn.Context(threads=1)]
        made += [hashattn.Attention(context=made[0]), hashattn.Stream(1, 8, num_hashes=2, context=made[0])]
        made.append(made)
        del made
    gc.collect()


# ---- forks -----------------------------------------------------------------------------------------------------------


def in_child(function):
    """Runs the function in a forked child; its result. A child that hangs is killed after a minute."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, function())
            os._exit(0)
        except BaseException as error:
            os.write(write, repr(error).encode())
            os._exit(1)
    os.close(write)
    watchdog = threading.Timer(60, os.kill, (child, 9))
    watchdog.start()
    with os.fdopen(read, "rb") as pipe:
        found = pipe.read()
    status = os.waitpid(child, 0)[1]
    watchdog.cancel()
    assert status == 0, found
    return found


def threads_of_process():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_after_use():
    context = hashattn.Context(threads=3)
    attention = hashattn.Attention("lha", num_buckets=4, context=context)
    params = {name: numbers(*array.shape, seed=9) for name, array in attention.params(4, 32).items()}
    attention.set_params(params, 32)
    stream = hashattn.Stream(4, 32, context=context)
    stream.absorb(K, V)
    expected = [attention.forward(Q, K, V), hashattn.attention(Q, K, V), stream.read(Q)]

    def use():
        before = threads_of_process()
        found = [attention.forward(Q, K, V), hashattn.attention(Q, K, V), stream.read(Q)]
        assert all(same_bits(a, b) for a, b in zip(found, expected))
        assert threads_of_process() > before  # a context of its own, not one thread for all
        assert context.describe().threads == 3
        with pytest.raises(ValueError, match="num_hashes is 0"):
            hashattn.attention(Q, K, V, num_hashes=0)
        context.close()
        return b"done"

    assert in_child(use) == b"done"
    assert same_bits(attention.forward(Q, K, V), expected[0])  # the parent is as before
    assert in_child(lambda: in_child(use)) == b"done"
    context.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_computes():
    query = numbers(8, 3000, 64)
    hashattn.attention(Q, K, V)
    thread = threading.Thread(target=lambda: hashattn.attention(query, query, query, mechanism="softmax"))
    thread.start()
    time.sleep(0.02)
    expected = numbers(3, 8)
    found = in_child(lambda: hashattn.attention(expected, expected, expected).tobytes())
    thread.join()
    assert found == hashattn.attention(expected, expected, expected).tobytes()


def work_of_a_loader(seed):
    return hashattn.attention(Q, K, V, seed=seed)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_pools_of_processes():
    """As the workers of a data loader."""
    expected = [hashattn.attention(Q, K, V, seed=seed) for seed in range(4)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(same_bits(a, b) for a, b in zip(pool.map(work_of_a_loader, range(4)), expected))


# ---- the end of the interpreter --------------------------------------------------------------------------------------


def run_python(code, **keywords):
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, timeout=60, **keywords)


@pytest.mark.parametrize("ending", ["pass", "sys.exit(3)", "raise RuntimeError('end')"])
def test_the_interpreter_may_end_during_a_call(ending):
    done = run_python(f"""
        import sys, threading, time
        import numpy as np, hashattn
        query = np.ones((8, 6000, 64), np.float32)
        started = threading.Event()
        def compute():
            context = hashattn.Context()
            attention = hashattn.Attention("softmax", context=context)
            started.set()
            while True:
                attention.forward(query, query, query)
        threading.Thread(target=compute, daemon=True).start()
        started.wait()
        time.sleep(0.1)
        {ending}
    """)
    assert done.returncode == {"pass": 0, "sys.exit(3)": 3}.get(ending, 1), done.stderr
    assert "Fatal" not in done.stderr and "Segmentation" not in done.stderr


@pytest.mark.parametrize("forks", [False, True])
def test_the_interpreter_may_end_during_a_training(needles, tmp_path, forks):
    done = run_python(f"""
        import os, sys, threading, time
        import hashattn
        started = threading.Event()
        def watch(progress):
            started.set()
        def work():
            hashattn.train("needle", {str(needles)!r}, {str(tmp_path / "run")!r}, progress=watch, steps=1000000,
                           layers=1, dim=16, heads=2, ffn=16, batch=4)
        threading.Thread(target=work, daemon=True).start()
        started.wait()
        time.sleep(0.1)
        if {forks}:  # a child has none of the threads that it would wait for
            child = os.fork()
            if child == 0:
                sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr
    resumed = []
    hashattn.resume(tmp_path / "run", progress=lambda now: resumed.append(now.step) or True)
    assert resumed[0] > 1  # what was trained is saved


def test_objects_alive_at_the_end():
    done = run_python("""
        import numpy as np, hashattn
        context = hashattn.Context()
        attention = hashattn.Attention(context=context)
        stream = hashattn.Stream(2, 8, num_hashes=4, context=context)
        attention.cycle = [attention, stream, context]
        attention.forward(*[np.ones((2, 9, 8), np.float32)] * 3)
    """)
    assert done.returncode == 0 and done.stderr == ""
