#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of a model by length, as in figure 7 of the YOSO paper and Table 4 of its earlier version: 6 layers, 256
wide, 4 heads, 1,024 in the feed-forward layer, lengths 128 to 16,384, every mechanism, forward and training.

    bench/lengths.py BUILD [--kept FILE] [--limit GIB]   measures what is missing; a line of FILE for each point
    bench/peers.py --show "models by length"             prints the tables of every kind of machine

A step has the largest batch, a power of two, whose activations fit in the limit (default 4 GiB) by a step of one sequence.
Figures are per sequence. Forward is an evaluation of the same batch; its memory grows with one layer, that of training with
all. Times are medians of --repeats steps after one that warms up. The last table has the largest batch of a training step
in 4 GiB, from the memory of a sequence."""

import argparse
import sys

import machine
import runs

MODEL = ("--layers", 6, "--dim", 256, "--heads", 4, "--ffn", 1024)
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
GIB = 1 << 30
MEMORY = 4 * GIB  # of the largest batch

# Sizes as in the papers' tables, the same at every length.
MECHANISMS = {
    "softmax": (), "none": (), "yoso-e": (), "yoso": ("--num-hashes", 32),
    "yoso-c": ("--num-hashes", 16, "--conv-window", 33), "lha": ("--num-buckets", 64), "lsh": ("--num-buckets", 64),
    "local": ("--block-size", 256), "linear": (), "performer": ("--num-features", 256), "rfa": ("--num-features", 64),
    "race": (), "nystrom": ("--num-landmarks", 64, "--conv-window", 33), "linformer": ("--rank", 256),
    "longformer": ("--window", 512, "--global-tokens", 1), "bigbird": ("--block-size", 64, "--random-blocks", 3),
    "sparse": ("--block-size", 128), "sinkhorn": ("--block-size", 64), "synthesizer": (), "reformer": ("--rounds", 2),
    "smyrf": ("--cluster-size", 128, "--rounds", 2), "clustered": ("--num-clusters", 100, "--top-keys", 32),
    "routing": ("--num-clusters", 64), "probsparse": ("--factor", 5),
}


def step(given, name, n, batch, repeats):
    attention = "yoso" if name == "yoso-c" else name
    return runs.tool(given.build, "bench", "step", "needle", "--seq-len", n, "--attention", attention, *MECHANISMS[name],
                     *MODEL, "--batch", batch, "--repeats", repeats, "--seed", 1, threads=given.threads)


def measure(given, name, n):
    """A line of the kept results; with `refused` in the place of figures if the mechanism does not take this length."""
    row = {"mechanism": name, "n": n, **runs.origin(given.build)}
    try:
        alone = step(given, name, n, 1, 1)
    except RuntimeError as error:
        return {**row, "refused": str(error).rpartition("hashattn: ")[2]}
    batch = 1
    while 2 * batch * alone["workspace_bytes"] <= given.limit * GIB:
        batch *= 2
    found = step(given, name, n, batch, given.repeats)
    return {**row, "batch": batch, "isa": found["isa"], "threads": found["threads"], "forward_ms": found["forward_ms"] / batch,
            "step_ms": found["step_ms"] / batch, "forward_bytes": found["forward_bytes"] // batch,
            "training_bytes": found["workspace_bytes"] // batch}


def figure(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def cell(row, time, size):
    if row is None or "refused" in row:
        return "-"
    return f"{figure(row[time])} ms, {figure(row[size] / (1 << 20))} MiB"


def largest_batch(row):
    return "-" if row is None or "refused" in row else f"{MEMORY // row['training_bytes']:,}"


def table(rows, cell_of):
    lines = ["| mechanism | " + " | ".join(f"n {n}" for n in LENGTHS) + " |", "|---|" + "---|" * len(LENGTHS)]
    for name in MECHANISMS:
        of = {row["n"]: row for row in rows if row["mechanism"] == name}
        if of:
            lines.append("| " + " | ".join([name, *(cell_of(of.get(n)) for n in LENGTHS)]) + " |")
    return "\n".join(lines)


def document(rows, kind):
    forward = table(rows, lambda row: cell(row, "forward_ms", "forward_bytes"))
    training = table(rows, lambda row: cell(row, "step_ms", "training_bytes"))
    return (f"{kind}, a sequence forward:\n\n{forward}\n\n{kind}, a sequence of a training step:\n\n{training}\n\n"
            f"{kind}, sequences of the largest training step in 4 GiB of activations:\n\n{table(rows, largest_batch)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_point_arguments(parser, "lengths", LENGTHS)
    parser.add_argument("--mechanisms", type=lambda text: text.split(","), default=list(MECHANISMS))
    parser.add_argument("--limit", type=float, default=4, help="GiB of the activations of a batch")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    unknown = [name for name in given.mechanisms if name not in MECHANISMS]
    if unknown:
        parser.error(f"--mechanisms has {unknown[0]}; there are {', '.join(MECHANISMS)}")
    kept = runs.Kept(given.kept)
    done = {(row["mechanism"], row["n"]) for row in kept.here()}
    for n in given.lengths:
        for name in given.mechanisms:
            if (name, n) not in done:
                row = measure(given, name, n)
                kept.add(row)
                print(name, n, row.get("refused") or f"batch {row['batch']}: {cell(row, 'step_ms', 'training_bytes')}",
                      file=sys.stderr, flush=True)
    print(document(kept.here(), machine.kind_of(machine.cpuinfo())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
