#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`needle` with one mark (question 5 of docs/RESULTS.md): which trainings of `yoso` learn it, by number of hashes, bits and
gradient, on each instruction set.

    bench/needle.py BUILD --out OUT                trains what is missing, two runs at a time, and prints the table
    bench/needle.py BUILD --out OUT --docs         writes the table of the finished runs to docs/answers/yoso.md

A run that stands still and one that learns differ by roundings, so a row wants many seeds; an instruction set counts as other
seeds. A finished run is a line of OUT/runs.jsonl, or of --kept FILE, such as docs/results/needle.jsonl. To resume, run the
same command again. --models, --isas and --seeds run a part, --steps other lengths. OPTIONS after -- go to every training."""

import argparse
import os
import re
import sys

import grid
import runs

SEEDS = 6
DATA = ("--seq-len", 256, "--marks", 1, "--train", 64000, "--valid", 500, "--test", 2000)
UNTIL = 0.995  # accuracy of the validation sequences
ISAS = ("ref", "avx2", "avx512", "avx512bf16", "amx", "neon")


def model(hashes, bits, gradient):
    return f"m {hashes}, τ {bits}, `{gradient}`", (hashes, bits, gradient)


MODELS = dict(model(*each) for each in ((64, 8, "lower"), (32, 8, "lower"), (32, 8, "true")))


def directory_of(given, name, isa, seed):
    return os.path.join(given.out, "runs", re.sub("[^a-z0-9]+", "-", name).strip("-"), f"{isa}-{given.steps}", f"seed{seed}")


def train(given, name, isa, seed):
    """Trains one model until it is right or the steps end, and evaluates it on fresh sequences: a line of runs.jsonl."""
    data = os.path.join(given.out, f"data{seed}")
    if not os.path.exists(os.path.join(data, "test.tsv")):
        runs.tool(given.build, "data", "needle", "--out", data, *DATA, "--seed", seed)
    hashes, bits, gradient = MODELS[name]
    found, test = grid.train_and_test(given, directory_of(given, name, isa, seed), "needle", "--data", data, "--seed", seed,
                                      "--attention", "yoso", "--num-hashes", hashes, "--hash-bits", bits, "--gradient", gradient,
                                      "--steps", given.steps, "--eval-every", 50, "--until", f"accuracy={UNTIL}", "--isa", isa)
    return {"model": name, "isa": isa, "seed": seed, "limit": given.steps, "steps": found["steps"],
            "learned": found["best_accuracy"] >= UNTIL, "test": test["accuracy"], "seconds": found["seconds"],
            **runs.origin(given.build)}


def missing(given, kept):
    """(model, isa, seed) in the order in which they run."""
    commit = runs.origin(given.build)["commit"]
    done = {(each["model"], each["isa"], each["seed"]) for each in kept.rows
            if each["limit"] == given.steps and each["commit"] == commit}
    return [point for seed in range(1, min(given.seeds, SEEDS) + 1) for name in given.models for isa in given.isas
            if (point := (name, isa, seed)) not in done]


def told(row):
    return f"{row['model']}, {row['isa']}, seed {row['seed']}: {cell(row)} after {row['seconds']:.0f} s"


def cell(row):
    """"400", the steps after which it was right, or "no (87.5)", per cent."""
    return str(row["steps"]) if row["learned"] else f"no ({100 * row['test']:.1f})"


def document(kept):
    """A row per model and limit, a column per commit and instruction set, whose cells have the seeds in order."""
    seeds = range(1, max((each["seed"] for each in kept.rows), default=0) + 1)
    columns = sorted({(each["commit"], each["isa"]) for each in kept.rows})
    lines = [f"| seeds 1 to {len(seeds)}, steps | " + "".join(f"{commit[:8]}, {isa} | " for commit, isa in columns).rstrip(),
             "|" + "---|" * (len(columns) + 1)]
    limits = sorted({each["limit"] for each in kept.rows})
    for name, limit in ((name, limit) for name in MODELS for limit in limits):
        cells = []
        for column in columns:
            found = {each["seed"]: cell(each) for each in kept.rows
                     if (each["model"], each["limit"], each["commit"], each["isa"]) == (name, limit, *column)}
            cells.append(", ".join(found.get(seed, "–") for seed in seeds) if found else "")
        if any(cells):
            lines.append(f"| {name}, {limit:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def read_arguments():
    lists = {"isas": ISAS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--models", type=lambda text: text.split(";"), default=list(MODELS),
                        help="names between semicolons, such as 'm 32, τ 8, `lower`' (default: all)")
    grid.add_arguments(parser, lists)
    parser.set_defaults(isas=["avx2"])
    return grid.read_arguments(parser, {"models": MODELS, **lists})


if __name__ == "__main__":
    sys.exit(grid.fill(read_arguments(), sys.modules[__name__], "yoso", "needle with one mark"))
