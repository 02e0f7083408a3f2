#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Table 1 of the LHA paper (Sun et al. 2022) in small, where far words help: language models of two layers with local heads,
hashed heads and both, beside softmax over all keys.

    bench/lha_table1.py BUILD --data DIR --out OUT [-- OPTIONS]  trains what is missing, two runs at a time, and prints the table
    bench/lha_table1.py BUILD --out OUT --docs                   writes the table of the finished runs to docs/answers/lha.md

DIR has train.txt, valid.txt and test.txt. A finished run is a line of OUT/runs.jsonl, or of --kept FILE, such as
docs/results/lha_table1.jsonl. To resume, run the same command again: a run that was stopped continues bit for bit. First come
softmax and local with all seeds, because without a difference between them no other row means anything, then the first seed
of all rows. --hours H starts no run later than H hours after the start. --models and --seeds run a part. OPTIONS after --
go to every training.

The paper's rows have all heads hashed in all layers (10 x 16), half of them (5 x 16), all in half of the layers (10 x 8), or
half in half (5 x 8). Here the four heads of two layers stand for these; the second layer is the half of the layers. Attention
has one size: local heads with blocks of 8 see 20 keys in the mean, hashed heads with 32 buckets of 1,024 tokens at most 45
earlier ones and 22 in the mean. "in the paper's way" has its mode, targets and membership, and no balancing; there later
tokens influence which keys are seen."""

import argparse
import math
import os
import re
import statistics
import sys

import grid
import runs

SEEDS = 3
COMMON = ("--vocabulary", "bpe", "--max-words", 4096, "--seq-len", 1024, "--layers", 2, "--dim", 128, "--heads", 4, "--ffn", 512,
          "--batch", 8, "--dropout", 0, "--precision", "bf16", "--steps", 3600, "--eval-every", 300, "--positions",
          "layered")
LOCAL = ("--relative", "--block-size", 8)  # of rows with local heads
HASHED = ("--num-buckets", 32)
MLP, LINEAR = ("--hash", "mlp"), ("--hash", "linear")
PAPER = ("--mode", "paper", "--balance", 0, "--targets", "features", "--membership", "whole")
FORMS = {"10 x 16": "{0}*4", "5 x 16": "local*2,{0}*2", "10 x 8": "local*4/{0}*4", "5 x 8": "local*4/local*2,{0}*2"}


def heads(form, mechanism, *options):
    attention = FORMS[form].format(mechanism)
    return attention, (*LOCAL, *options) if "local" in attention else options


# name: (--attention, options)
MODELS = {
    "local": ("local*4", LOCAL),
    "softmax 5 x 8": heads("5 x 8", "softmax"),
    "(f) lha mlp 5 x 8": heads("5 x 8", "lha", *HASHED, *MLP),
    "lsh 5 x 8": heads("5 x 8", "lsh", *HASHED),
    "random 5 x 8": heads("5 x 8", "random", *HASHED),
    "(d) lha mlp 5 x 16": heads("5 x 16", "lha", *HASHED, *MLP),
    "lsh 5 x 16": heads("5 x 16", "lsh", *HASHED),
    "(e) lha mlp 10 x 8": heads("10 x 8", "lha", *HASHED, *MLP),
    "lsh 10 x 8": heads("10 x 8", "lsh", *HASHED),
    "(c) lha mlp 10 x 16": heads("10 x 16", "lha", *HASHED, *MLP),
    "(b) lha linear 10 x 16": heads("10 x 16", "lha", *HASHED, *LINEAR),
    "(a) random 10 x 16": heads("10 x 16", "random", *HASHED),
    "lsh 10 x 16": heads("10 x 16", "lsh", *HASHED),
    "local with blocks of 16": ("local*4", ("--relative", "--block-size", 16)),
    "(f) in the paper's way": heads("5 x 8", "lha", *HASHED, *MLP, *PAPER),
    "(d) in the paper's way": heads("5 x 16", "lha", *HASHED, *MLP, *PAPER),
}
POWER = ("local", "softmax 5 x 8")

# Validation perplexity of WikiText-103 in the paper's Table 1.
THEIRS = {"local": 23.82, "local with blocks of 16": 22.89, "lsh 10 x 16": 24.64, "lsh 5 x 16": 23.51, "lsh 10 x 8": 23.76,
          "lsh 5 x 8": 23.53, "(a) random 10 x 16": 26.05, "(b) lha linear 10 x 16": 24.22, "(c) lha mlp 10 x 16": 24.00,
          "(d) lha mlp 5 x 16": 22.79, "(e) lha mlp 10 x 8": 23.00, "(f) lha mlp 5 x 8": 22.84}

# Each difference: the second is subtracted from the first, with the same seed.
DIFFERENCES = (POWER[::-1], ("local with blocks of 16", "local"),
               *((f"{each} 5 x 8", "local") for each in ("(f) lha mlp", "lsh", "random")),
               *((f"({letter}) lha mlp {form}", f"lsh {form}") for letter, form in
                 (("f", "5 x 8"), ("d", "5 x 16"), ("e", "10 x 8"), ("c", "10 x 16"))),
               ("(f) lha mlp 5 x 8", "random 5 x 8"), ("(c) lha mlp 10 x 16", "(b) lha linear 10 x 16"),
               ("(b) lha linear 10 x 16", "(a) random 10 x 16"),
               ("(f) in the paper's way", "(f) lha mlp 5 x 8"), ("(d) in the paper's way", "(d) lha mlp 5 x 16"))


def directory_of(given, name, seed):
    return os.path.join(given.out, "runs", re.sub("[^a-z0-9]+", "-", name).strip("-"), f"seed{seed}")


def train(given, name, seed):
    """Trains one model, or continues it, and evaluates the best one on the test text: a line of runs.jsonl."""
    attention, options = MODELS[name]
    found, test = grid.train_and_test(given, directory_of(given, name, seed), "lm", "--data", given.data, *COMMON, "--attention",
                                      attention, *options, "--seed", seed)
    return {"model": name, "seed": seed, "valid": found["best_perplexity"], "test": test["perplexity"], "seconds": found["seconds"],
            "steps": found["steps"], **runs.origin(given.build)}


def missing(given, kept):
    """(model, seed) in the order in which they run."""
    done = {(each["model"], each["seed"]) for each in kept.rows}
    seeds = range(1, min(given.seeds, SEEDS) + 1)
    first = [(name, seed) for seed in seeds for name in POWER]
    rest = [(name, seed) for seed in seeds for name in MODELS if name not in POWER]
    return [point for point in first + rest if point[0] in given.models and point not in done]


def told(row):
    return f"{row['model']}, seed {row['seed']}: {row['valid']:.2f} valid, {row['test']:.2f} test in {row['seconds']:.0f} s"


def mean_text(values):
    """"53.10 ± 0.21": mean and standard deviation."""
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


def difference_line(kept, first, second):
    """A row of the table of differences, or None if no seed has both."""
    of = {name: {each["seed"]: each for each in kept.rows if each["model"] == name} for name in (first, second)}
    seeds = sorted(set(of[first]) & set(of[second]))
    if not seeds:
        return None
    cells = []
    for part in ("valid", "test"):
        found = [of[first][seed][part] - of[second][seed][part] for seed in seeds]
        error = f" ({statistics.stdev(found) / math.sqrt(len(found)):.2f})" if len(found) > 1 else ""
        cells.append(f"{statistics.mean(found):+.2f}{error}")
    return f"| {first} − {second} | {len(seeds)} | {' | '.join(cells)} |"


def summary(kept):
    lines = ["Perplexity of tokens, mean and standard deviation over seeds; the paper's is of words of WikiText-103:", "",
             "| row | seeds | valid | test | theirs, valid |", "|---|---|---|---|---|"]
    for name in MODELS:
        found = [each for each in kept.rows if each["model"] == name]
        if found:
            cells = [name, str(len(found)), mean_text([each["valid"] for each in found]), mean_text([each["test"] for each in found]),
                     f"{THEIRS[name]:.2f}" if name in THEIRS else "-"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(kept):
    lines = [summary(kept), "", "Mean difference with the same seeds (its standard error):", "",
              "| difference | seeds | valid | test |", "|---|---|---|---|"]
    return "\n".join(lines + [line for pair in DIFFERENCES if (line := difference_line(kept, *pair))])


def read_arguments():
    lists = {"models": MODELS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    grid.add_arguments(parser, lists)
    return grid.read_arguments(parser, lists, needs_data=True)


if __name__ == "__main__":
    sys.exit(grid.fill(read_arguments(), sys.modules[__name__], "lha", "lha table 1"))
