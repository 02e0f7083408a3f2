#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: trains the same encoder with `yoso` and with `softmax` on the same batches and prints one table.

Every training and every evaluation is a process of its own, so that peak memory belongs to one mechanism. The two are
given the same seed, hence the same start, the same batches and the same order. First `needle` until each has learned it
or its time is up, then a stretch of ListOps with the same number of steps for both.
"""

import json
import os
import shutil
import subprocess
import sys
import time

TOOL = os.path.join(sys.argv[1] if len(sys.argv) > 1 else "build", "hashattn")
WORK = os.path.join(os.path.dirname(TOOL), "demo")
MECHANISMS = ("yoso", "softmax")
NEEDLE_TOKENS = 2048
LISTOPS_TOKENS = 1035  # the mean of the generator's trees
THREADS = os.environ.get("HASHATTN_THREADS", str(len(os.sched_getaffinity(0))))


def run(*words):
    """Runs the tool; its progress goes to the terminal, its one JSON object comes back."""
    command = [TOOL, *map(str, words), "--threads", THREADS, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: exit code {done.returncode} from: {' '.join(command)}")
    return json.loads(done.stdout)


def stage(task, data, options):
    """Trains and tests each mechanism on one task: a row of figures per mechanism."""
    rows = {}
    for mechanism in MECHANISMS:
        print(f"\n{task}, {mechanism}", file=sys.stderr)
        out = os.path.join(WORK, f"{task}-{mechanism}")
        trained = run("train", task, "--data", data, "--attention", mechanism, "--out", out, "--seed", 1, *options)
        tested = run("eval", out, "--split", "test")
        with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        rows[mechanism] = {**trained, "test": tested, "config": config}
    return rows


def matrices(config, length):
    """Bytes that n x n matrices of one batch would take in all heads and layers: what neither mechanism holds."""
    model, batch = config["model"], config["training"]["batch"]
    return 4 * batch * model["layers"] * model["heads"] * length**2


def table(title, rows, length):
    """Prints the figures side by side; the ratio says how many times better yoso is. length: tokens of an example."""
    print(f"\n{title}\n")
    print(f"{'':24}{'yoso':>14}{'softmax':>14}{'ratio':>10}")

    def line(name, value, form, better=None):
        ours, theirs = value(rows["yoso"]), value(rows["softmax"])
        advantage = {"less": lambda: theirs / ours, "more": lambda: ours / theirs}
        against = f"{advantage[better]():9.2f}x" if better else ""
        print(f"{name:24}{form(ours):>14}{form(theirs):>14}{against:>10}".rstrip())

    line("test accuracy", lambda r: r["test"]["accuracy"], lambda x: f"{100 * x:.2f} %")
    line("majority class", lambda r: r["test"]["majority"], lambda x: f"{100 * x:.2f} %")
    line("test loss", lambda r: r["test"]["loss"], lambda x: f"{x:.4f}")
    line("steps", lambda r: r["steps"], lambda x: f"{x}")
    line("seconds", lambda r: r["seconds"], lambda x: f"{x:.1f}", "less")
    line("seconds per step", lambda r: r["seconds"] / max(r["steps"], 1), lambda x: f"{x:.3f}", "less")
    line("tokens per second", lambda r: r["tokens_per_second"], lambda x: f"{x:,.0f}", "more")
    line("saved by attention", lambda r: r["saved_bytes"], lambda x: f"{x / 2**20:.1f} MiB", "less")
    line("(n x n matrices)", lambda r: matrices(r["config"], length), lambda x: f"{x / 2**20:.0f} MiB")
    line("peak memory", lambda r: r["peak_rss_bytes"], lambda x: f"{x / 2**20:.0f} MiB", "less")


def main():
    started = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    info = json.loads(subprocess.run([TOOL, "info", "--json"], stdout=subprocess.PIPE, check=True).stdout)

    needle = os.path.join(WORK, "needle-data")
    run("data", "needle", "--out", needle, "--train", 8000, "--valid", 200, "--test", 500, "--seed", 1,
        "--seq-len", NEEDLE_TOKENS)
    needles = stage("needle", needle, ["--steps", 1000, "--batch", 8, "--eval-every", 25, "--dropout", 0,
                                       "--until", "accuracy=0.99", "--max-seconds", 50])

    listops = os.path.join(WORK, "listops-data")
    run("data", "listops", "--out", listops, "--train", 8000, "--valid", 100, "--test", 400, "--seed", 1)
    trees = stage("listops", listops, ["--steps", 240, "--eval-every", 60, "--max-seconds", 80])

    print(f"\n{info['processor']}, {info['isa']}, {THREADS} threads, products by {info['products']}")
    table(f"needle: {NEEDLE_TOKENS:,} tokens, which symbol is marked? (16 classes)", needles, NEEDLE_TOKENS)
    table("ListOps: trees of 500 to 2,000 tokens (10 classes), the first 240 steps of training", trees, LISTOPS_TOKENS)
    print(f"\nin all {time.monotonic() - started:.0f} seconds; the runs are in {WORK}")


if __name__ == "__main__":
    main()
