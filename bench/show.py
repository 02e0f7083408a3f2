# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py --show: the tables of docs/results/*.jsonl. Standard library only."""

import os
import sys

import forecast
import lengths
import lha_latency
import lha_table1
import lra
import needle
import page
import results
import runs

# Tables of points and of trainings, which their scripts write and print.
BY_MACHINE = {"models by length": (lengths, "lengths"), "latency of lha": (lha_latency, "lha_latency")}
TRAININGS = {"lra": lra, "forecast": forecast, "lha table 1": lha_table1, "needle": needle}


def kept(name):
    return runs.Kept(os.path.join(results.DOCS, "results", name + ".jsonl"))


def trainings(name):
    return kept(name.replace(" 1", "1").replace(" ", "_"))


def points(name):
    """The tables of every kind of machine that has points."""
    script, file = BY_MACHINE[name]
    rows = kept(file).rows
    return "\n\n".join(script.document([row for row in rows if row["machine"] == kind], f"{kind}, {commits(rows, kind)}")
                       for kind in dict.fromkeys(row["machine"] for row in rows))


def commits(rows, kind):
    found = list(dict.fromkeys(row["commit"][:8] for row in rows if row["machine"] == kind))
    return found[0] + (f" to {found[-1]}" if len(found) > 1 else "")


def everything(lines):
    """The names of all tables, each with what has figures in it."""
    made = [f"{name}: {', '.join(kinds)}" for name, kinds in results.names(lines).items()]
    made += [f"{name}: {', '.join(dict.fromkeys(row['machine'] for row in kept(file).rows))}" for name, (_, file) in BY_MACHINE.items()]
    return "\n".join(made + [f"{name}: trainings" for name in TRAININGS])


def main(name):
    """Prints the tables whose names begin with `name`, or lists all. Returns the exit code."""
    page.may_be_cut()
    lines = results.read()
    if not name:
        print(everything(lines))
        return 0
    text = [results.document(lines, name)]
    text += [points(name)] if name in BY_MACHINE else []
    text += [TRAININGS[name].document(trainings(name))] if name in TRAININGS else []
    if not any(text):
        print(f"no table begins with '{name}'; there are\n{everything(lines)}", file=sys.stderr)
        return 1
    print("\n\n".join(filter(None, text)))
    return 0
