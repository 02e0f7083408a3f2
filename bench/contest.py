# SPDX-License-Identifier: Apache-2.0
"""Contenders of one row run in turn, round after round, so that a machine whose speed drifts favours none. Time and memory
of a call. Standard library only."""

import ctypes
import gc
import statistics
import sys
import time


def clock(call):
    """Milliseconds of a call: the median of as many as fit 60 ms, after one that warms; what takes seconds runs once."""
    time.sleep(0.01)  # threads of the one before stop spinning
    begun = time.perf_counter()
    call()
    first = time.perf_counter() - begun
    if first > 1.5:
        return 1e3 * first
    times = []
    while not times or (sum(times) < 0.06 and len(times) < 15):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times)


def status(name):
    with open("/proc/self/status") as file:
        return 1024 * int(next(line.split()[1] for line in file if line.startswith(name)))


def memory(call):
    """Bytes by which a call raises the resident memory at its peak, results included; None where the kernel does not tell.
    Freed memory goes back to the system first, else the call would use it uncounted."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # sets the peak to the present size
        before = status("VmRSS")
        call()
        return status("VmHWM") - before
    except (AttributeError, OSError):
        return None


class Contender:
    """calls: name of the figure ("forward", "both") -> what is run; or measure, which returns all figures at once, with
    "memory" among them if it is known. held: bytes that calls use and that were allocated before, by figure."""

    def __init__(self, key, label, precision="float32", calls=None, measure=None, held=None, **facts):
        self.row = {"key": key, "label": label, "precision": precision, **facts, "ms": {}, "memory": {}}
        self.calls, self.measure, self.held = calls or {}, measure, held or {}

    def round(self):
        found = self.measure() if self.measure else {name: clock(call) for name, call in self.calls.items()}
        self.row["memory"].update(found.pop("memory", {}))
        for name, ms in found.items():
            self.row["ms"].setdefault(name, []).append(ms)

    def weigh(self):
        """The memory of each call, once it is warm."""
        for name, call in self.calls.items():
            more = memory(call)
            if more is not None:
                self.row["memory"][name] = more + self.held.get(name, 0)


def reason(error):
    return f"{type(error).__name__}: {error}".split("\n")[0][:200]


def compete(results, work, contenders, rounds, **facts):
    """All contenders of one row in turn; one that fails is named with the reason and leaves."""
    def all_do(what):
        for contender in list(contenders):
            try:
                what(contender)
            except Exception as error:  # whatever a package raises: the others still run
                results["missing"].append({"work": work, "label": contender.row["label"], **facts, "reason": reason(error)})
                contenders.remove(contender)
    for index in range(rounds):
        all_do(Contender.round)
        print(f"{work} {facts}: round {index + 1} of {rounds}", file=sys.stderr)
    all_do(Contender.weigh)
    results["rows"] += [{"work": work, **facts, **c.row} for c in contenders]


def optional(results, work, label, make, **facts):
    """make(), or None and its name among the missing."""
    try:
        return make()
    except Exception as error:
        results["missing"].append({"work": work, "label": label, **facts, "reason": reason(error)})
        return None
