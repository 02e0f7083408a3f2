#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency by length and attention size, as in figure 5 of the LHA paper: `lha`, `lsh` and `local` at about as many keys a
query, beside our own `softmax` over all keys. 4 heads, d 64, iid inputs.

    bench/lha_latency.py BUILD [--kept FILE]          measures what is missing; a line of FILE for each point and round
    bench/peers.py --show "latency of lha"             prints the tables of every kind of machine

S keys a query: 2 n / S buckets of `lha` and `lsh`, whose enlarged buckets hold 1.4 n / B tokens each; blocks of S / 3 of
`local`, which sees three. Training is forward + backward with the loss of the hashes. The mechanisms of a length run in
turn, round after round; a cell is the median over rounds, and the ratio to `softmax` is taken inside a round."""

import argparse
import statistics
import sys

import machine
import runs

LENGTHS = (1024, 2048, 4096, 8192, 16384)
SIZES = (96, 192, 384)


def contenders(n):
    """(name, keys a query, options) of a length."""
    return [("softmax", n, ()), *((name, size, options(n, size)) for size in SIZES for name, options in (
        ("lha", lambda n, size: ("--num-buckets", round(2 * n / size))),
        ("lsh", lambda n, size: ("--num-buckets", round(2 * n / size))),
        ("local", lambda n, size: ("--block-size", size // 3))))]


def measure(given, n, name, size, options, rounds):
    found = runs.tool(given.build, "bench", "attention", "--attention", name, "--seq-len", n, "--heads", 4, "--head-dim", 64,
                      "--backward", *options, threads=given.threads)
    return {"n": n, "mechanism": name, "keys": size, "round": rounds, **runs.origin(given.build), "isa": found["isa"],
            "threads": found["threads"], "forward_ms": found["forward_ms"],
            "training_ms": found["forward_ms"] + found["backward_ms"]}


def cell(rows, n, name, size, time):
    """Median time, and the ratio of softmax to it."""
    mine = {row["round"]: row[time] for row in rows if (row["n"], row["mechanism"], row["keys"]) == (n, name, size)}
    exact = {row["round"]: row[time] for row in rows if (row["n"], row["mechanism"]) == (n, "softmax")}
    both = [exact[index] / mine[index] for index in mine if index in exact]
    if not both:
        return "-"
    if name == "softmax":
        return f"{statistics.median(mine.values()):.3g} ms"
    return f"{statistics.median(mine.values()):.3g} ms, {statistics.median(both):.1f}x"


def table(rows, time):
    lines = ["| mechanism | keys | " + " | ".join(f"n {n}" for n in LENGTHS) + " |", "|---|---|" + "---|" * len(LENGTHS),
             "| softmax | all | " + " | ".join(cell(rows, n, "softmax", n, time) for n in LENGTHS) + " |"]
    for size in SIZES:
        for name in ("lha", "lsh", "local"):
            lines.append(f"| {name} | {size} | " + " | ".join(cell(rows, n, name, size, time) for n in LENGTHS) + " |")
    return "\n".join(lines)


def document(rows, kind):
    threads = " and ".join(sorted({str(row["threads"]) for row in rows}))
    return (f"{kind}, {threads} threads, forward:\n\n{table(rows, 'forward_ms')}\n\n"
            f"{kind}, {threads} threads, forward + backward with the loss of the hashes:\n\n{table(rows, 'training_ms')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_point_arguments(parser, "lha_latency", LENGTHS)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    kept = runs.Kept(given.kept)
    done = {(row["n"], row["mechanism"], row["keys"], row["round"]) for row in kept.here()}
    for n in given.lengths:
        for index in range(given.rounds):
            for name, size, options in contenders(n):
                if (n, name, size, index) not in done:
                    kept.add(measure(given, n, name, size, options, index))
            print(f"n {n}: round {index + 1} of {given.rounds}", file=sys.stderr, flush=True)
    print(document(kept.here(), machine.kind_of(machine.cpuinfo())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
