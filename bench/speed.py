#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table `inputs` of docs/results/tables.jsonl: `yoso` against our own `softmax`, both against the machine, as ratios.

Every figure comes from `hashattn bench`, each run in a process of its own. The commands run in turn, round after round,
and ratios are taken inside a round, so that a machine whose speed drifts does not decide. The script prints the median
over rounds, with the least and the largest, and with --docs it replaces the rows of this kind of machine.

    bench/speed.py [BUILD] [--rounds N] [--threads T] [--docs] > table.md
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import textwrap
import time

import page
import results
import runs

HEADS, HEAD_DIM, LENGTH = 12, 64, 4096
YOSO = ["--num-hashes", "32", "--hash-bits", "9"]


def bench(tool, threads, *words):
    command = [tool, "bench", *words, "--threads", str(threads), "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def attention(tool, threads, name, seq_len, kind, backward):
    words = ["attention", "--attention", name, "--seq-len", str(seq_len), "--heads", str(HEADS),
             "--head-dim", str(HEAD_DIM), "--input", kind]
    return bench(tool, threads, *words, *(YOSO if name == "yoso" else []), *(["--backward"] if backward else []))


def spread(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def times(value):
    return f"{value:.1f}x"


def share(value):
    return f"{100 * value:.0f} %"


def decimal(value):
    return f"{value:.1f}"


# (name, format, value from (softmax, yoso, peak) of one round)
ROWS = [
    ("`softmax` forward, ms", decimal, lambda s, y, p: s["forward_ms"]),
    ("`softmax` forward, share of the product peak", share,
     lambda s, y, p: 4 * LENGTH**2 * HEAD_DIM * HEADS / s["forward_ms"] / 1e6 / p["float32_gflops"]),
    ("`softmax` backward, ms", decimal, lambda s, y, p: s["backward_ms"]),
    ("`yoso` forward, ms", decimal, lambda s, y, p: y["forward_ms"]),
    ("`yoso` backward (`lower`), ms", decimal, lambda s, y, p: y["backward_ms"]),
    ("forward: `softmax` / `yoso`", times, lambda s, y, p: s["forward_ms"] / y["forward_ms"]),
    ("forward + backward: `softmax` / `yoso`", times,
     lambda s, y, p: (s["forward_ms"] + s["backward_ms"]) / (y["forward_ms"] + y["backward_ms"])),
    ("saved for backward by `yoso`, KiB a head", decimal, lambda s, y, p: y["saved_bytes"] / 1024 / HEADS),
    ("saved for backward by `softmax`, KiB a head", decimal, lambda s, y, p: s["saved_bytes"] / 1024 / HEADS),
    ("colliding pairs over uniform", times, lambda s, y, p: y["pairs_over_uniform"]),
    ("mean angle to `yoso-e`, radians", lambda x: f"{x:.2f}", lambda s, y, p: y["error_radians"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--docs", action="store_true", help="replace the rows of this kind of machine in docs/results")
    asked = parser.parse_args()
    tool = os.path.join(asked.build, "hashattn")

    kinds = ("iid", "clustered", "same")
    rounds, per_token = {kind: [] for kind in kinds}, {4096: [], 16384: [], 65536: []}
    for index in range(asked.rounds):
        print(f"round {index + 1} of {asked.rounds}", file=sys.stderr)
        for kind in kinds:
            peak = bench(tool, asked.threads, "peak")
            exact = attention(tool, asked.threads, "softmax", LENGTH, kind, True)
            rounds[kind].append((exact, attention(tool, asked.threads, "yoso", LENGTH, kind, True), peak))
        for length, found in per_token.items():
            forward = attention(tool, asked.threads, "yoso", length, "iid", False)["forward_ms"]
            found.append(forward * 1e6 / length / HEADS)

    measured = runs.origin(asked.build)
    peaks = [peak for kind in kinds for _, _, peak in rounds[kind]]
    print(textwrap.fill(
        f"{measured['machine']}, commit {measured['commit']}: {peak['processor']}, {peak['isa']}, {asked.threads} threads,"
        f" {peak['products']}; {HEADS} heads, d {HEAD_DIM},"
        f" m 32, tau 9, n {LENGTH}, float32; median (least to largest) of {asked.rounds} rounds. Product peak"
        f" {spread([p['float32_gflops'] for p in peaks], decimal)} GF/s, memory"
        f" {spread([p['memory_gbytes_per_s'] for p in peaks], decimal)} GB/s.", 118) + "\n")
    table = page.Table(["figure"], [((name,), {kind: spread([value(*found) for found in rounds[kind]], form) for kind in kinds})
                                    for name, form, value in ROWS], named=True)
    print(table.text())
    flat = {length: statistics.median(found) for length, found in per_token.items()}
    print("\n`yoso` forward per token and head, iid: "
          + ", ".join(f"{value:.0f} ns at n {length}" for length, value in flat.items())
          + f"; largest over least {max(flat.values()) / min(flat.values()):.2f}.")
    if asked.docs:
        results.publish({"inputs": table}, measured["machine"], measured["commit"], time.strftime("%Y-%m-%d"))


if __name__ == "__main__":
    main()
