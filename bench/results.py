# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/results/tables.jsonl: a line of JSON is a row of a table on one machine.

    {"table": "length forward", "row": {"n": "128", "contender": "SDPA"}, "ms": 0.3507, "ratio": 0.802,
     "machine": "Zen 5", "commit": "f57aadf", "date": "2026-11-24"}

A row has one figure per machine, `ms` with `ratio`, or `mib`, or a text `value`; or `cells`, several named columns. A line
with `about` says what was measured and how; it counts for every table whose name begins with its own. put() replaces the
lines of one machine and leaves the others, so figures of two machines are never mixed. tests/cli/test_tables.sh checks it.
Standard library only."""

import collections
import json
import os
import re

import page

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs")
PATH = os.path.join(DOCS, "results", "tables.jsonl")
SHORT = os.path.join(DOCS, "PERFORMANCE.md")
BLOCKS = ("summary",)  # the tables that docs/PERFORMANCE.md shows
NUMBER = r"(\d[\d.e+-]*)"
FORMS = [(re.compile(NUMBER + " ms, " + NUMBER + "x"), ("ms", "ratio")), (re.compile(NUMBER + " ms"), ("ms",)),
         (re.compile(NUMBER + " MiB"), ("mib",))]
UNITS = {"ms": "{:.4g} ms", "ratio": "{:.3g}x", "mib": "{:.4g} MiB"}


def figures(line):
    """The text of a line's figure."""
    return line["value"] if "value" in line else ", ".join(UNITS[name].format(line[name]) for name in UNITS if name in line)


def packed(text):
    """The figure of a text as numbers, where they give the same text again."""
    for form, names in FORMS:
        found = form.fullmatch(text)
        line = dict(zip(names, map(float, found.groups()))) if found else {}
        if found and figures(line) == text:
            return line
    return {"value": text}


def read(path=PATH):
    with open(path) as file:
        return [json.loads(line) for line in file]


def write(lines, path=PATH):
    with open(path, "w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def put(lines, tables, machine, commit, date, partial=False):
    """lines with the tables {name: Table} of a run on one kind of machine in the place of its old ones; tables that are not
    given stay. partial: not everything was measured, so old rows stay where the run has none, and where it has an aim without
    a verdict. `machines` describes the whole column, so a partial run adds only what is missing there."""
    line = lambda name, table, key, found: {"table": name, "row": dict(zip(table.keys, key)), **found,
                                            "machine": machine, "commit": commit, "date": date}
    made = {name: [line(name, table, key, {"cells": cells} if table.named else packed(cells[machine]))
                   for key, cells in table.rows if table.named or cells.get(machine, "-") != "-"] for name, table in tables.items()}
    kept = []
    for line in lines:
        if "about" in line or line["table"] not in made or line["machine"] != machine:
            kept.append(line)
            continue
        new = [other for other in made[line["table"]] if other["row"] == line["row"]]
        judged = line["table"] == "aims" and new and str(line.get("value")).startswith(f"{new[0].get('value')}, ")
        if partial and (not new or judged or line["table"] == "machines"):
            kept.append(line)
            made[line["table"]] = [other for other in made[line["table"]] if other not in new]
    for name, rows in made.items():
        last = max((place for place, line in enumerate(kept) if line["table"] == name), default=len(kept) - 1)
        kept[last + 1:last + 1] = rows
    return kept


def source(line):
    return " of ".join(text for text in (line["commit"], line["date"]) if text) or "no commit known"


def table_text(lines, name):
    """A table in Markdown. The head of a column names the commit and the day of most of its figures, and says if another
    column is newer; a figure of another commit names its own."""
    lines = [line for line in lines if line["table"] == name and "about" not in line]
    if lines and "cells" in lines[0]:
        made = []
        for of in dict.fromkeys((line["machine"], source(line)) for line in lines):
            rows = [(line["row"].values(), line["cells"]) for line in lines if (line["machine"], source(line)) == of]
            made.append(f"{of[0]}, {of[1]}:\n\n" + page.Table(lines[0]["row"], rows).text())
        return "\n\n".join(made)
    most = {machine: collections.Counter(source(line) for line in lines if line["machine"] == machine).most_common(1)[0][0]
            for machine in dict.fromkeys(line["machine"] for line in lines)}
    days = {machine: max(line["date"] or "" for line in lines if line["machine"] == machine and source(line) == most[machine])
            for machine in most}
    heads = {machine: f"{machine}, {most[machine]}" + (", older" if day < max(days.values()) else "") for machine, day in days.items()}
    rows = {}
    for line in lines:
        other = "" if source(line) == most[line["machine"]] else f" ({line['commit'] or line['date']})"
        rows.setdefault(tuple(line["row"].items()), {})[line["machine"]] = figures(line) + other
    keys = dict.fromkeys(key for row in rows for key, _ in row)
    return page.Table(keys, [([value for _, value in row], cells) for row, cells in rows.items()]).text(heads)


def names(lines):
    """The tables and the kinds of machines that have figures in them."""
    found = {}
    for line in lines:
        if "about" not in line:
            found.setdefault(line["table"], dict.fromkeys([]))[line["machine"]] = None
    return found


def document(lines, name):
    """What is known about the tables whose names begin with `name`, and the tables; "" if there is none."""
    begins = lambda table, part: table == part or table.startswith(part + " ")
    tables = [table for table in names(lines) if begins(table, name)]
    about = [line["about"] for line in lines if "about" in line
             and (begins(line["table"], name) or any(begins(table, line["table"]) for table in tables))]
    return "\n\n".join(about + [f"{table}\n\n{table_text(lines, table)}" for table in tables])


def fill(lines, path=SHORT):
    """Writes the tables of BLOCKS to docs/PERFORMANCE.md."""
    for name in BLOCKS:
        page.replace(path, name, table_text(lines, name))


def publish(tables, machine, commit, date, partial=False):
    """The tables of a run to docs/results/tables.jsonl, and from there to docs/PERFORMANCE.md."""
    lines = put(read(), tables, machine, commit, date, partial)
    write(lines)
    fill(lines)
