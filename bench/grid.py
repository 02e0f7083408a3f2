# SPDX-License-Identifier: Apache-2.0
"""Tables of many trainings: their arguments, what is trained and in which order, and the table that is written. Standard
library only.

A script of a table has the points of its table as tuples and these functions: missing(given, kept), the points to train in
their order; directory_of(given, *point), the place of a run; train(given, *point), its row; told(row), the row in words;
document(kept), its tables; summary(kept), what its page shows if that is less."""

import concurrent.futures
import os
import shutil
import sys
import threading
import time

import runs
from page import replace

STATE = ("last.safetensors", "optimizer.safetensors")  # what is needed to continue, and not to evaluate


def add_arguments(parser, lists):
    """The arguments of a table of trainings. lists: name of an option to the names that it can list, all by default."""
    parser.add_argument("build", help="build directory with the tool")
    parser.add_argument("--data", metavar="DIR", help="directory of the published data")
    parser.add_argument("--out", required=True, help="directory of the runs")
    parser.add_argument("--kept", metavar="FILE", help="finished runs, a line each, read and appended: those of docs/results "
                        "count as done, so that a table goes on on another machine (default: OUT/runs.jsonl)")
    for name, known in lists.items():
        parser.add_argument("--" + name, type=lambda text: text.split(","), default=list(known),
                            help="names between commas (default: all)")
    parser.add_argument("--seeds", type=int, default=1000, help="most seeds of a row")
    parser.add_argument("--jobs", type=int, default=2, help="single-threaded runs at a time")
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--docs", action="store_true", help="write the table of the finished runs to its page of docs/answers")


def read_arguments(parser, lists, needs_data=False):
    """Reads them. given.train: what follows --, for every training. needs_data: nothing can be trained without --data."""
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:at])
    given.train = words[at + 1:]
    for name, known in lists.items():
        unknown = [each for each in getattr(given, name) if each not in known]
        if unknown:
            parser.error(f"--{name} has {unknown[0]}; there are {', '.join(known)}")
    if needs_data and given.data is None and not given.docs:
        parser.error("--data is needed to train")
    given.build, given.out = os.path.abspath(given.build), os.path.abspath(given.out)
    given.data = given.data and os.path.abspath(given.data)
    given.kept = given.kept or os.path.join(given.out, "runs.jsonl")
    os.makedirs(given.out, exist_ok=True)
    return given


def train_and_test(given, place, *words):
    """What `train WORDS --out PLACE` prints, and then `eval` on the test part. A run that was stopped continues bit for bit.
    A finished one whose row was lost starts again."""
    if os.path.exists(os.path.join(place, "model.safetensors")) and not os.path.exists(os.path.join(place, STATE[0])):
        shutil.rmtree(place)
    if os.path.exists(os.path.join(place, "config.json")):
        found = runs.resume(given.build, place, threads=1)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        found = runs.tool(given.build, "train", *words, "--out", place, *given.train, threads=1)
    return found, runs.tool(given.build, "eval", place, "--split", "test", threads=1)


def run_all(left, train, finish, jobs, hours):
    """Calls train(point) for the points of the list `left` in order, `jobs` at a time, and starts none later than `hours` from
    now. finish(point, row), one call at a time, gets what train returns and says what is printed. A point whose training
    fails is told on stderr and leaves the others alone. Returns the number of points that failed."""
    ends, lock, failed, total = time.monotonic() + 3600 * hours, threading.Lock(), [], len(left)

    def worker():
        while True:
            with lock:
                if not left or time.monotonic() > ends:
                    return
                point = left.pop(0)
            try:
                row = train(*point)
            except (RuntimeError, OSError, KeyError) as error:
                with lock:
                    failed.append(point)
                    print(f"{' '.join(map(str, point))}: failed: {error}", file=sys.stderr, flush=True)
                continue
            with lock:
                print(f"{total - len(left)}/{total} {finish(point, row)}", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for job in [pool.submit(worker) for _ in range(jobs)]:
            job.result()
    if left:
        print(f"{len(left)} runs are left after {hours:g} hours", file=sys.stderr)
    return len(failed)


def fill(given, script, page, block):
    """Trains what is missing, prints the tables, and with --docs only writes their summary to the block of
    docs/answers/PAGE.md. script: the module with these functions. Returns the exit code."""
    kept, failed = runs.Kept(given.kept), 0

    def finish(point, row):
        kept.add(row)
        for name in STATE:  # the best model stays
            os.remove(os.path.join(script.directory_of(given, *point), name))
        return script.told(row)

    if not given.docs:
        failed = run_all(script.missing(given, kept), lambda *point: script.train(given, *point), finish, given.jobs, given.hours)
    print(script.document(kept))
    if given.docs:
        replace(os.path.join(runs.DOCS, "answers", page + ".md"), block, getattr(script, "summary", script.document)(kept))
    return 1 if failed else 0
