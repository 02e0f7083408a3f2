#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: attention by hashing (`yoso`) beside exact attention (`softmax`), by the clock and by what a model learns.

First the time of a forward and backward pass over the length of the sequence. Then `needle`: the same model is trained
with each mechanism, from the same seed on the same batches, until it has learned the task. Every measurement and every
training is a process of its own, so that peak memory belongs to one mechanism.

A slow or busy machine measures fewer lengths and trains on shorter sequences, so that the demo takes about --seconds. What
was not reached is "none" in the tables. After Ctrl-C, a training ends with an evaluation, and the report has what there is.

The text goes to stdout and to OUT/demo.txt, the picture to OUT/demo.svg. --docs puts both into README.md and docs/.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import demo_picture

options = argparse.ArgumentParser(description="yoso beside softmax: time over length, and learning")
options.add_argument("build", nargs="?", default="build", help="build folder, which has the tool")
options.add_argument("--out", help="folder of the data, the runs and the results, made anew (default: BUILD/demo)")
options.add_argument("--docs", action="store_true", help="put the text into README.md and the picture into docs/")
options.add_argument("--quick", action="store_true", help="short sequences and a few steps, to test the demo itself")
options.add_argument("--seconds", type=float, default=150, help="no training goes on later than this; a third is for the first table (default: 150)")
options = options.parse_args()

INTERRUPTED = 130  # exit code
TOOL = os.path.join(options.build, "hashattn")
WORK = options.out or os.path.join(options.build, "demo")
MECHANISMS = ("yoso", "softmax")
THREADS = os.environ.get("HASHATTN_THREADS", str(len(os.sched_getaffinity(0))))

SHORTEST = 256
# Exact attention of 65,536 tokens would take longer than the rest of the demo.
LONGEST = {"yoso": 1024, "softmax": 512} if options.quick else {"yoso": 65536, "softmax": 16384}
SLOW = 1000  # milliseconds: a mechanism that takes longer is not measured at twice the length

NEEDLE_TOKENS = 512 if options.quick else 4096
TOKENS_PER_MARK = 16
# A training, with its evaluations, until needle is learned takes as long as this many passes of one head.
PASSES = 450
ENDS = {"steps": "out of steps", "time": "out of time", "signal": "interrupted"}
EVALUATION = 20  # steps between two evaluations
LEARNED = 0.99  # validation accuracy that ends a training
MODEL = ("--layers", 1, "--heads", 1, "--dropout", 0)
TRAINING = ("--batch", 4, "--warmup", 20, "--steps", 40 if options.quick else 200, "--eval-every", EVALUATION,
            "--until", f"accuracy={LEARNED}")

report = []
interrupted = []  # by Ctrl-C, which reaches the tool too: the demo waits for it


def say(line=""):
    """Prints a line of the report."""
    report.append(line)
    print(line, flush=True)


def stop():
    print("\ndemo: interrupted", file=sys.stderr)
    sys.exit(INTERRUPTED)


def run(*words):
    """Runs the tool. Its progress goes to the terminal, its one JSON object is returned; None after Ctrl-C, unless it is of a
    training."""
    command = [TOOL, *map(str, words), "--threads", THREADS, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if interrupted and not done.stdout:
        return None
    if done.returncode not in ((0, INTERRUPTED) if interrupted else (0,)):
        sys.exit(f"demo: exit code {done.returncode} from: {' '.join(command)}")
    return json.loads(done.stdout)


def milliseconds(mechanism, length):
    """Time of one forward and backward pass of one head. yoso hashes to log2(n) bits, as in its paper."""
    bits = ("--hash-bits", length.bit_length() - 1) if mechanism == "yoso" else ()
    repeats = max(3, min(25, 32768 // length))
    result = run("bench", "attention", "--attention", mechanism, "--heads", 1, "--seq-len", length, "--backward",
                 "--repeats", repeats, "--quiet", *bits)
    if interrupted:
        stop()
    return result["forward_ms"] + result["backward_ms"]


def speed(deadline):
    """Measures both mechanisms over the length: a list of (tokens, milliseconds) for each. After the first length, nothing is
    measured that would take longer than the deadline."""
    say("Time of attention, forward and backward: one head of width 64; yoso with 32 hashes of log2(n) bits")
    say()
    say(f"{'tokens':>8}{'yoso':>15}{'softmax':>15}   ratio")
    points = {mechanism: [] for mechanism in MECHANISMS}
    length = SHORTEST
    longest = dict(LONGEST)
    while length <= max(longest.values()):
        times = {}
        for mechanism in (m for m in MECHANISMS if length <= longest[m]):
            started = time.monotonic()
            times[mechanism] = milliseconds(mechanism, length)
            points[mechanism].append((length, times[mechanism]))
            now = time.monotonic()
            if times[mechanism] > SLOW or now + 4 * (now - started) > deadline:  # twice the length: at most four times as long
                longest[mechanism] = length
        row = f"{length:8,}" + "".join(f"{times[m]:12,.1f} ms" if m in times else " " * 15 for m in MECHANISMS)
        if len(times) == 2:
            ratio = times["softmax"] / times["yoso"]
            row += f"{ratio:7.1f}x {'█' * min(round(ratio), 60)}"
        say(row.rstrip())
        length *= 2
    return points


def affordable_length(points, seconds):
    """The longest sequence, up to NEEDLE_TOKENS, on which both mechanisms learn within the seconds; at least the shortest."""
    both = [(tokens, PASSES * 1e-3 * (yoso + softmax)) for (tokens, yoso), (_, softmax) in zip(points["yoso"], points["softmax"])]
    return max([tokens for tokens, needed in both if tokens <= NEEDLE_TOKENS and needed <= seconds], default=SHORTEST)


def train(mechanism, data, seconds):
    """Trains and tests one mechanism on needle: its figures, and pairs of seconds and validation accuracy."""
    print(f"\nneedle, {mechanism}", file=sys.stderr)
    out = os.path.join(WORK, mechanism)
    trained = run("train", "needle", "--data", data, "--attention", mechanism, "--out", out, "--seed", 1,
                  "--max-seconds", f"{seconds:.2f}", *MODEL, *TRAINING)
    if trained is None:
        return None
    with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as file:
        evaluations = [entry for entry in map(json.loads, file) if "valid_accuracy" in entry]
    return {**trained, "test": run("eval", out, "--split", "test", "--quiet") if evaluations else None,
            "curve": [(entry["seconds"], entry["valid_accuracy"]) for entry in evaluations],
            # The evaluation of a stopped training is no part of its seconds.
            "training_seconds": trained["seconds"] - sum(entry["valid_seconds"] for entry in evaluations
                                                         if entry["step"] % EVALUATION == 0)}


def learned(row):
    return row is not None and any(accuracy >= LEARNED for _, accuracy in row["curve"])


def needle(tokens, deadline):
    """Trains both mechanisms on sequences of this length and prints their figures side by side: the figures of each."""
    data = os.path.join(WORK, "needle-data")
    marked = tokens // TOKENS_PER_MARK
    run("data", "needle", "--out", data, "--train", 2000, "--valid", 64, "--test", 100, "--seed", 1,
        "--seq-len", tokens, "--marks", marked, "--quiet")
    if interrupted:
        stop()
    shorter = f" ({NEEDLE_TOKENS:,} would take too long here)" if tokens < NEEDLE_TOKENS else ""
    say()
    say(f"needle: {tokens:,} tokens{shorter}, {marked} of them marked. Which of 16 symbols do these carry?")
    rows = {}
    for mechanism in MECHANISMS:  # each has an equal share of the time left
        left = deadline - time.monotonic()
        rows[mechanism] = None if interrupted else train(mechanism, data, max(0.01, left / (len(MECHANISMS) - len(rows))))
    say()
    say(f"{'':36}{'yoso':>14}{'softmax':>14}{'ratio':>10}")

    def line(name, value, form, ratio=False):
        """value: of a row, or None where the training did not reach it."""
        values = [None if rows[mechanism] is None else value(rows[mechanism]) for mechanism in MECHANISMS]
        shown = "".join(f"{'none' if x is None else form(x):>14}" for x in values)
        say(f"{name:36}{shown}{f'{values[1] / values[0]:9.1f}x' if ratio and None not in values else ''}".rstrip())

    line("accuracy on 100 new sequences", lambda r: r["test"] and r["test"]["accuracy"], lambda x: f"{100 * x:.1f} %")
    line("accuracy of the most frequent class", lambda r: r["test"] and r["test"]["majority"], lambda x: f"{100 * x:.1f} %")
    line(f"validation accuracy, every {EVALUATION} steps", lambda r: r["curve"] or None, demo_picture.sparkline)
    line("steps of training", lambda r: r["steps"], str)
    line("end of training", lambda r: "learned" if learned(r) else ENDS[r["stopped_by"]], str)
    line("time of training and validation", lambda r: r["seconds"], lambda x: f"{x:.1f} s",
         all(map(learned, rows.values())))
    line("time of a training step", lambda r: 1e3 * r["training_seconds"] / r["steps"] if r["steps"] else None,
         lambda x: f"{x:.0f} ms", True)
    line("peak memory", lambda r: r["peak_rss_bytes"], lambda x: f"{x / 2**20:.0f} MiB", True)
    if not interrupted and any(row["steps"] < EVALUATION for row in rows.values()):
        say()
        say("A training was out of time before its first evaluation, and was evaluated where it stopped. More time than now:")
        say(f"tools/demo.py {options.build} --seconds {max(600, 4 * options.seconds):g}")
    return rows


def update_docs(picture):
    """Puts the report into README.md, between its two marks, and the picture into docs/."""
    with open("README.md", encoding="utf-8") as file:
        readme = file.read()
    text = "\n".join(report)
    readme, count = re.subn(r"(<!-- demo -->\n```\n).*?(\n```)", lambda found: found[1] + text + found[2], readme,
                            flags=re.DOTALL)
    if count != 1:
        sys.exit(f"demo: README.md has {count} places for the report, where one is expected")
    with open("README.md", "w", encoding="utf-8") as file:
        file.write(readme)
    shutil.copy(picture, "docs/demo.svg")


def main():
    started = time.monotonic()
    signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    info = json.loads(subprocess.run([TOOL, "info", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    machine = f"{info['processor']}, {info['isa']}, {THREADS} threads"
    say(machine)
    say()
    points = speed(started + options.seconds / 3)
    deadline = started + options.seconds
    tokens = affordable_length(points, deadline - time.monotonic())
    rows = needle(tokens, deadline)

    picture = os.path.join(WORK, "demo.svg")
    with open(picture, "w", encoding="utf-8") as file:
        file.write(demo_picture.draw(machine, points, {m: row["curve"] if row else [] for m, row in rows.items()},
                                     next((row["test"]["majority"] for row in rows.values() if row and row["test"]), None),
                                     LEARNED, tokens))
    with open(os.path.join(WORK, "demo.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(report) + "\n")
    if options.docs:
        update_docs(picture)
    print(f"\nThe demo took {time.monotonic() - started:.0f} s. Its picture is {picture}.")
    if interrupted:
        stop()


if __name__ == "__main__":
    main()
