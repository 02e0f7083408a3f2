# SPDX-License-Identifier: Apache-2.0
"""Calls of the tool, and results that are kept, for scripts that train many models. Standard library only."""

import json
import os
import subprocess

import machine

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


def add_point_arguments(parser, name, lengths):
    """The arguments of a table of measured points by length, kept in docs/results/NAME.jsonl."""
    parser.add_argument("build", help="build directory with the tool")
    parser.add_argument("--kept", metavar="FILE", default=os.path.join(DOCS, "results", name + ".jsonl"))
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=list(lengths))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
