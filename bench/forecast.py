#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forecasts of ETT (Zhou et al. 2021): the baselines, and an encoder over patches and Informer's encoder and decoder with
several mechanisms, on the usual split, as a table of mean squared errors on standardised values.

    bench/forecast.py BUILD --data DIR --out OUT [-- OPTIONS]   trains what is missing, two runs at a time, and prints the table
    bench/forecast.py BUILD --out OUT --docs                    writes the table of the finished runs to docs/answers/forecast.md

DIR has ETTh1.csv and ETTm1.csv. A finished run is a line of OUT/runs.jsonl, or of --kept FILE, such as
docs/results/forecast.jsonl. To resume, run the same command again: a run that was stopped continues bit for bit. The first seed
of all rows comes first. --hours H starts no run later than H hours after the start. --sets, --features, --horizons, --models
and --seeds run a part. OPTIONS after -- go to every training.

All models read the same 336 rows. DLinear is trained with the rate of its released code and reaches its published figure for
ETTh1, 96 rows and all columns, 0.375. The steps of the encoders were chosen on the validation part of ETTh1, 96 rows. The
column "LHA paper" has its Tables 4 (S) and 5 (M), with Informer's encoder and decoder. The block for ETTm1 of its Table 5
repeats that for ETTh1 of Table 4, and is left out."""

import argparse
import os
import statistics
import sys
import textwrap

import grid
import runs

SETS = {"ETTh1": (24, 48, 96, 168, 336, 720), "ETTm1": (24, 48, 96, 288, 672)}
FEATURES = ("M", "S")
SEEDS = 3
COMMON = ("--split-by", "months", "--seq-len", 336)
EVERY = {"M": ("--eval-every", 100), "S": ("--eval-every", 20)}
STEPS = {"M": ("--steps", 500), "S": ("--steps", 200)}  # of the encoders: one column has a seventh of the examples
ENCODER = ("--model", "encoder", "--patch-len", 16, "--stride", 8, "--dropout", 0.2)

# A quarter of Informer's width, which is a tenth of its time, its other settings, and the same 336 rows as all others. The
# mechanism is in both stacks; cross attention sees all keys, as in Informer.
INFORMER = ("--model", "informer", "--label-len", 168, "--norm", "post", "--positions", "sinusoidal", "--layers", 2, "--dim", 128,
            "--heads", 8, "--ffn", 512, "--batch", 32, "--learning-rate", 5e-4, "--dropout", 0.05)

# name: (options, seeds). A window of 336 rows is 41 tokens.
MODELS = {
    "last": (("--model", "last", "--steps", 1, "--eval-every", 1), 1),
    "seasonal": (("--model", "seasonal", "--steps", 1, "--eval-every", 1), 1),
    "dlinear": (("--model", "dlinear", "--steps", 1500, "--learning-rate", 0.005), SEEDS),
    "softmax": ((*ENCODER, "--attention", "softmax"), SEEDS),
    "yoso": ((*ENCODER, "--attention", "yoso"), SEEDS),
    "lha": ((*ENCODER, "--attention", "lha", "--num-buckets", 4), SEEDS),
    "local": ((*ENCODER, "--attention", "local", "--block-size", 8), SEEDS),
    "probsparse": ((*ENCODER, "--attention", "probsparse", "--factor", 5), SEEDS),
    "informer-softmax": ((*INFORMER, "--attention", "softmax"), SEEDS),
    "informer-lha": ((*INFORMER, "--attention", "lha/lha/lha/softmax", "--num-buckets", 4), SEEDS),
    "informer-local": ((*INFORMER, "--attention", "local/local/local/softmax", "--block-size", 56), SEEDS),
    "informer-probsparse": ((*INFORMER, "--attention", "probsparse/probsparse/probsparse/softmax", "--factor", 5), SEEDS),
}
LEARNED = [name for name in MODELS if name not in ("last", "seasonal", "dlinear")]
PATCHES = [name for name in MODELS if name == "dlinear" or (name in LEARNED and not name.startswith("informer"))]

LHA_PAPER = {
    ("ETTh1", "S"): {24: 0.060, 48: 0.088, 168: 0.158, 336: 0.219, 720: 0.265},
    ("ETTm1", "S"): {24: 0.016, 48: 0.021, 96: 0.054, 288: 0.121, 672: 0.403},
    ("ETTh1", "M"): {24: 0.475, 48: 0.569, 168: 0.883, 336: 0.970, 720: 1.021},
}


def directory_of(given, data, features, horizon, name, seed):
    return os.path.join(given.out, "runs", f"{data}-{features}-{horizon}", name, f"seed{seed}")


def train(given, data, features, horizon, name, seed):
    """Trains one model, or continues it, and evaluates the best one on the test part: a line of runs.jsonl."""
    place, steps = directory_of(given, data, features, horizon, name, seed), STEPS[features] if name in LEARNED else ()
    found, test = grid.train_and_test(
        given, place, "forecast", "--data", os.path.join(given.data, data + ".csv"), *COMMON, *EVERY[features], "--features", features,
        "--horizon", horizon, *steps, *MODELS[name][0], "--seed", seed)
    return {"data": data, "features": features, "horizon": horizon, "model": name, "seed": seed, "mse": test["mse"],
            "mae": test["mae"], "valid_mse": found["best_mse"], "seconds": found["seconds"], "steps": found["steps"],
            **runs.origin(given.build)}


def settings(given):
    return [(data, features, horizon) for data in given.sets for features in given.features for horizon in SETS[data]
            if not given.horizons or str(horizon) in given.horizons]


def missing(given, kept):
    """(data, features, horizon, model, seed) in the order in which they run."""
    done = {tuple(row[key] for key in ("data", "features", "horizon", "model", "seed")) for row in kept.rows}
    wanted = [(*setting, name, seed) for seed in range(1, SEEDS + 1) for name in given.models
              if seed <= min(given.seeds, MODELS[name][1]) for setting in settings(given)]
    return [point for point in wanted if point not in done]


def told(row):
    return (f"{row['data']} {row['features']} {row['horizon']} {row['model']} {row['seed']}: mse {row['mse']:.4f} in "
            f"{row['seconds']:.0f} s")


def cell(rows):
    """".375 ± .002": mean and standard deviation over seeds."""
    values = [row["mse"] for row in rows]
    if not values:
        return "-"
    return f"{statistics.mean(values):.3f}" + (f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else "")


def table(names, of, last=()):
    """of: {setting: {model: runs}}. A row for each setting with runs of these models; last: (name, function of the setting)
    of a last column."""
    shown = [name for name in names if any(name in models for models in of.values())]
    titles = [name.removeprefix("informer-") for name in shown]
    lines = ["| " + " | ".join(["data", "horizon", *titles, *last[:1]]) + " |", "|---|---|" + "---|" * (len(shown) + len(last[:1]))]
    for setting, models in of.items():
        if any(name in models for name in shown):
            data, features, horizon = setting
            cells = [f"{data} {features}", str(horizon), *(cell(models.get(name, [])) for name in shown),
                     *(ask(setting) for ask in last[1:])]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def beside_softmax(of):
    """The mean over settings of the MSE relative to softmax with the same seeds, in per cent, and its standard error."""
    lines = ["| model | M | S | all |", "|---|---|---|---|"]
    for name in (name for name in PATCHES if name not in ("dlinear", "softmax")):
        relative = {}
        for setting, models in of.items():
            ours, theirs = ({row["seed"]: row["mse"] for row in models.get(each, [])} for each in (name, "softmax"))
            seeds = ours.keys() & theirs.keys()
            if seeds:
                relative[setting] = 100 * (sum(ours[seed] for seed in seeds) / sum(theirs[seed] for seed in seeds) - 1)
        cells = []
        for features in (("M",), ("S",), FEATURES):
            values = [value for (_, each, _), value in relative.items() if each in features]
            cells.append(f"{statistics.mean(values):+.1f} ({statistics.stdev(values) / len(values) ** 0.5:.1f})"
                         if len(values) > 1 else "-")
        if relative:
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def paper(setting):
    data, features, horizon = setting
    theirs = LHA_PAPER.get((data, features), {}).get(horizon)
    return "-" if theirs is None else f"{theirs:.3f}"


def runs_of(kept):
    """{(data, features, horizon): {model: runs}}."""
    of = {(data, features, horizon): {} for data in SETS for features in FEATURES for horizon in SETS[data]}
    for row in kept.rows:
        of[row["data"], row["features"], row["horizon"]].setdefault(row["model"], []).append(row)
    return of


def document(kept):
    of = runs_of(kept)
    informers = [name for name in MODELS if name.startswith("informer")]
    others = [name for name in MODELS if name not in PATCHES + informers]
    return "\n".join(
        ["Test MSE on standardised values, mean and standard deviation over seeds. DLinear and encoders over patches:", "",
         *table(PATCHES, of), "", "The other baselines, and the paper:", "", *table(others, of, ("LHA paper", paper)), "",
         "Informer's encoder and decoder, with the mechanism of their own attention, and the paper:", "",
         *table(informers, of, ("LHA paper", paper)), "", summary(kept)])


def summary(kept):
    of, mean = runs_of(kept), lambda runs: statistics.mean(row["mse"] for row in runs)
    lines = ["MSE relative to `softmax` with the same seeds in per cent, mean and standard error over rows:", "",
             *beside_softmax(of), ""]
    counts = []
    for name in LEARNED:
        both = [runs for runs in of.values() if name in runs and "dlinear" in runs]
        if both:
            won = sum(mean(runs[name]) <= mean(runs["dlinear"]) for runs in both)
            counts.append(f"{name} in {won} of {len(both)}")
    return "\n".join([*lines, *textwrap.wrap("Rows with at most the MSE of DLinear: " + ", ".join(counts) + ".", 118, break_on_hyphens=False)])


def read_arguments():
    lists = {"sets": SETS, "features": FEATURES, "models": MODELS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    grid.add_arguments(parser, lists)
    parser.add_argument("--horizons", type=lambda text: text.split(","), default=[], help="numbers between commas (default: all)")
    return grid.read_arguments(parser, lists, needs_data=True)


if __name__ == "__main__":
    sys.exit(grid.fill(read_arguments(), sys.modules[__name__], "forecast", "forecast"))
