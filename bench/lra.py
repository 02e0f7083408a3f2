#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Long Range Arena in small: every mechanism trained on five tasks with --preset lra-small, and the accuracies of the
test sets beside those of the papers.

    bench/lra.py BUILD --data DIR --out OUT [-- OPTIONS]   trains what is missing, two runs at a time, and prints the table
    bench/lra.py BUILD --out OUT --docs                    writes the table of the finished runs to docs/answers/arena.md

DIR has aclImdb and mnist, unpacked; the other data sets are generated into OUT/data. A finished run is a line of
OUT/runs.jsonl, or of --kept FILE, such as docs/results/lra.jsonl. To resume, run the same command again: a run that was
stopped continues bit for bit. Runs that matter most come first: the first seed of all mechanisms, then the further seeds of
those with three. --hours H starts no run later than H hours after the start. --tasks, --mechanisms and --seeds run a part.
OPTIONS after -- go to every training.

Rows of the papers are those of the YOSO paper (Table 3) and of the LHA paper (Table 3): other lengths, models and data, full
training. They are not comparable with ours in height, only in order."""

import argparse
import os
import statistics
import sys

import grid
import lra_data
import runs

TASKS = ("listops", "text", "retrieval", "image", "pathfinder")
SEEDS = 3  # of the mechanisms below that say so

# name: (options, name in the YOSO paper, name in the LHA paper, seeds). Sizes are in proportion to n, 100 to 512.
MECHANISMS = {
    "softmax": (["softmax"], "softmax", "Transformer", SEEDS),
    "none": (["none"], "none", None, SEEDS),
    "yoso-e": (["yoso-e"], "YOSO-E", None, SEEDS),
    "yoso": (["yoso", "--num-hashes", 32], "YOSO-32", None, SEEDS),
    "*yoso-16": (["yoso", "--num-hashes", 16, "--gradient", "released"], "*YOSO-16", None, SEEDS),
    "yoso-c-16": (["yoso", "--num-hashes", 16, "--conv-window", 33], "YOSO-C-16", None, SEEDS),
    "*yoso-c-16": (["yoso", "--num-hashes", 16, "--gradient", "released", "--conv-window", 33], "*YOSO-C-16", None, 1),
    "lha": (["lha", "--num-buckets", 8], None, "LHA", SEEDS),
    "lsh": (["lsh", "--num-buckets", 8], None, None, 1),
    "random": (["random", "--num-buckets", 8], None, None, 1),
    "local": (["local", "--block-size", 16], None, None, 1),
    "linear": (["linear"], None, "Linear", 1),
    "performer": (["performer", "--num-features", 64], "Performer", "Performer", 1),
    "rfa": (["rfa", "--num-features", 64], None, "RFA", 1),
    "race": (["race"], None, None, 1),
    "nystrom": (["nystrom", "--num-landmarks", 16, "--conv-window", 33], "Nystromformer", None, 1),
    "linformer": (["linformer", "--rank", 64], "Linformer", "Linformer", 1),
    "longformer": (["longformer", "--window", 64, "--global-tokens", 1], "Longformer", None, 1),
    "bigbird": (["bigbird", "--block-size", 16, "--random-blocks", 3], None, "BigBird", 1),
    "sparse": (["sparse", "--block-size", 16, "--pattern", "fixed"], None, "Sparse", 1),
    "sinkhorn": (["sinkhorn", "--block-size", 16], None, "Sinkhorn", 1),
    "synthesizer": (["synthesizer"], None, "Synthesizer", 1),
    "reformer": (["reformer", "--rounds", 2, "--chunk-size", 16], "Reformer", "Reformer", 1),
    "smyrf": (["smyrf", "--cluster-size", 16, "--rounds", 2], None, None, 1),
    "clustered": (["clustered", "--num-clusters", 25, "--top-keys", 16], None, None, 1),
    "routing": (["routing", "--num-clusters", 8], None, None, 1),
    "probsparse": (["probsparse", "--factor", 5], None, None, 1),
}

# Test accuracies of the papers' tables, in per cent, in the order of TASKS.
YOSO_PAPER = {
    "none": (19.20, 61.11, 74.78, 33.86, 66.51), "softmax": (37.10, 65.02, 79.35, 38.20, 74.16),
    "YOSO-E": (37.30, 64.71, 81.16, 39.78, 72.90), "Nystromformer": (37.15, 65.52, 79.56, 41.58, 70.94),
    "Longformer": (37.20, 64.60, 80.97, 39.06, 73.01), "Linformer": (37.25, 55.91, 79.37, 37.84, 67.60),
    "Reformer": (19.05, 64.88, 78.64, 43.29, 69.36), "Performer": (18.80, 63.81, 78.62, 37.07, 69.87),
    "YOSO-32": (37.25, 63.12, 78.69, 40.21, 72.33), "YOSO-C-16": (37.40, 64.28, 77.61, 44.67, 71.86),
    "*YOSO-16": (37.20, 62.97, 79.02, 40.50, 72.05), "*YOSO-C-16": (37.35, 65.89, 78.80, 45.93, 71.39),
}
LHA_PAPER = {
    "LHA": (37.9, 66.8, 62.8, 45.2), "Transformer": (36.4, 64.3, 57.5, 42.4), "Linformer": (35.7, 53.9, 52.3, 38.6),
    "Reformer": (37.3, 56.1, 53.4, 38.1), "Sparse": (17.1, 63.6, 59.6, 44.2), "Sinkhorn": (33.7, 61.2, 53.8, 41.2),
    "Synthesizer": (37.0, 61.7, 54.7, 41.6), "BigBird": (36.0, 64.0, 59.3, 40.8), "Linear": (16.1, 65.9, 53.1, 42.3),
    "Performer": (18.0, 65.4, 53.8, 42.8), "RFA": (36.8, 66.0, 56.1),
}


def directory_of(given, task, name, seed):
    return os.path.join(given.out, "runs", task, name.replace("*", "star-"), f"seed{seed}")


def train(given, task, name, seed):
    """Trains one model, or continues it, and evaluates the best one on the test set: a line of runs.jsonl."""
    options = MECHANISMS[name][0]
    found, test = grid.train_and_test(given, directory_of(given, task, name, seed), task, "--data", lra_data.directory(given, task),
                                      "--preset", "lra-small", "--attention", *options, "--seed", seed)
    return {"task": task, "mechanism": name, "seed": seed, "options": [str(word) for word in options],
            "accuracy": test["accuracy"], "valid_accuracy": found["best_accuracy"], "seconds": found["seconds"],
            "steps": found["steps"], "peak_rss_bytes": found["peak_rss_bytes"], **runs.origin(given.build)}


def missing(given, kept):
    """(task, mechanism, seed) in the order in which they run."""
    done = {(row["task"], row["mechanism"], row["seed"]) for row in kept.rows}
    wanted = [(task, name, seed) for seed in range(1, SEEDS + 1) for name in given.mechanisms
              if seed <= min(given.seeds, MECHANISMS[name][3]) for task in given.tasks]
    return [point for point in wanted if point not in done]


def told(row):
    return f"{row['task']} {row['mechanism']} seed {row['seed']}: {100 * row['accuracy']:.2f} % in {row['seconds']:.0f} s"


def cell(rows):
    """"61.3 ± 0.4": mean and standard deviation over seeds, in per cent."""
    values = [100 * row["accuracy"] for row in rows]
    if not values:
        return "-"
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


def mean_of(cells):
    """The mean over all tasks; none if a task is missing."""
    return f"{statistics.mean(cells):.1f}" if len(cells) == len(TASKS) else "-"


def own_table(kept, least_seeds=1):
    """Our rows, of mechanisms with that many seeds."""
    lines = ["| mechanism | seeds | " + " | ".join(TASKS) + " | mean |", "|---|---|" + "---|" * (len(TASKS) + 1)]
    for name in MECHANISMS:
        rows = [row for row in kept.rows if row["mechanism"] == name]
        seeds = {row["seed"] for row in rows}
        if len(seeds) < least_seeds:
            continue
        by_task = [[row for row in rows if row["task"] == task] for task in TASKS]
        means = [100 * statistics.mean(row["accuracy"] for row in found) for found in by_task if found]
        cells = [name, str(len(seeds)), *map(cell, by_task), mean_of(means)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def paper_table(papers, place):
    """A paper's rows, in the order of ours."""
    lines = ["| theirs | here | " + " | ".join(TASKS) + " |", "|---|---|" + "---|" * len(TASKS)]
    for name, facts in MECHANISMS.items():
        if facts[place] is None:
            continue
        cells = [f"{value:.2f}" if papers is YOSO_PAPER else f"{value:.1f}" for value in papers[facts[place]]]
        lines.append("| " + " | ".join([facts[place], name, *cells, *["-"] * (len(TASKS) - len(cells))]) + " |")
    return lines


def escaped(lines):
    return [line.replace("*", "\\*") for line in lines]


OURS = "Ours, `--preset lra-small`, test accuracy in per cent, mean and standard deviation over seeds:"


def summary(kept):
    """The rows of several seeds."""
    return "\n".join([OURS, "", *escaped(own_table(kept, 2))])


def document(kept):
    return "\n".join([OURS, "", *escaped(own_table(kept)), "", "The YOSO paper's (its Table 3), its own models, lengths and data, full training:", "",
                      *escaped(paper_table(YOSO_PAPER, 1)), "",
                      "The LHA paper's (its Table 3; all rows but LHA and RFA are those of the Long Range Arena):", "",
                      *escaped(paper_table(LHA_PAPER, 2))])


def read_arguments():
    lists = {"tasks": TASKS, "mechanisms": MECHANISMS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    grid.add_arguments(parser, lists)
    parser.add_argument("--examples", type=int, default=lra_data.EXAMPLES, help="of generated and drawn training sets")
    return grid.read_arguments(parser, lists)


def main():
    given = read_arguments()
    if not given.docs:
        for task in given.tasks:
            lra_data.directory(given, task)
    return grid.fill(given, sys.modules[__name__], "arena", "lra")


if __name__ == "__main__":
    sys.exit(main())
