# SPDX-License-Identifier: Apache-2.0
"""Calls of the tool, and results that are kept, for scripts that train many models. Standard library only."""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading
import time

import machine
from page import replace

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs")


def tool(build, *words, threads=None):
    """What the tool prints with --json. Raises RuntimeError with the tool's message."""
    command = [os.path.join(build, "hashattn"), *map(str, words), "--json", "--quiet"]
    command += [] if threads is None else ["--threads", str(threads)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def origin(build):
    """The commit of the tool and the kind of machine, for the line of a finished run."""
    done = subprocess.run([os.path.join(build, "hashattn"), "info", "--json"], stdout=subprocess.PIPE, check=True, text=True)
    return {"commit": json.loads(done.stdout)["commit"], "machine": machine.kind_of(machine.cpuinfo())}


def resume(build, run, threads=None):
    """What `train --resume` prints. If the training had ended before, best metrics, steps and seconds are those of its log."""
    found = tool(build, "train", "--resume", run, threads=threads)
    if found["steps"] is None:
        with open(os.path.join(run, "log.jsonl")) as file:
            records = [json.loads(line) for line in file]
        last = [record for record in records if any(key.startswith("best_") for key in record)][-1]
        found.update({key: value for key, value in last.items() if key.startswith("best_")})
        found.update(steps=last["step"], seconds=last["seconds"])
    return found


def once(path, compute):
    """The content of a JSON file, computed if there is none."""
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        found = compute()
        with open(path + ".next", "w") as file:
            json.dump(found, file)
        os.replace(path + ".next", path)
    with open(path) as file:
        return json.load(file)


class Kept:
    """Finished results in a file of JSON lines, one each. A line that a crash cut is ignored."""

    def __init__(self, path):
        self.path, self.rows = path, []
        if os.path.exists(path):
            with open(path) as file:
                text = file.read()
            for line in text.splitlines():
                try:
                    self.rows.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
            if text and not text.endswith("\n"):
                with open(path, "a") as file:
                    file.write("\n")

    def here(self):
        """The rows of this kind of machine."""
        kind = machine.kind_of(machine.cpuinfo())
        return [row for row in self.rows if row["machine"] == kind]

    def add(self, row):
        self.rows.append(row)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


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
    parser.add_argument("--docs", action="store_true", help="write the table of the finished runs to docs/RESULTS.md")


def add_point_arguments(parser, name, lengths):
    """The arguments of a table of measured points by length, kept in docs/results/NAME.jsonl."""
    parser.add_argument("build", help="build directory with the tool")
    parser.add_argument("--kept", metavar="FILE", default=os.path.join(DOCS, "results", name + ".jsonl"))
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=list(lengths))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--docs", action="store_true", help="write the tables to docs/PERFORMANCE.md, measure nothing")


def show_points(given, block, document):
    """Prints the tables document(rows, kind) of the points of this kind of machine; with --docs, writes them to the block."""
    text = document(Kept(given.kept).here(), machine.kind_of(machine.cpuinfo()))
    print(text)
    if given.docs:
        replace(os.path.join(DOCS, "PERFORMANCE.md"), block, text)


def read_arguments(parser, lists):
    """Reads them. given.train: what follows --, for every training."""
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:at])
    given.train = words[at + 1:]
    for name, known in lists.items():
        unknown = [each for each in getattr(given, name) if each not in known]
        if unknown:
            parser.error(f"--{name} has {unknown[0]}; there are {', '.join(known)}")
    given.build, given.out = os.path.abspath(given.build), os.path.abspath(given.out)
    given.data = given.data and os.path.abspath(given.data)
    given.kept = given.kept or os.path.join(given.out, "runs.jsonl")
    os.makedirs(given.out, exist_ok=True)
    return given


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
