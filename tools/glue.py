#!/usr/bin/env python3
"""Counts the lines of each mechanism that only copy fields, lay out memory or check: glue.py [--root DIR] [--functions].

A mechanism is src/attention/NAME.c, or the .c files of the folder src/attention/NAME/. Counted are the functions, from the
signature to the blank line behind the body, that
- have no loop, no operator + - * / % between operands and no call of a kernel,
- choose nothing: no ?:, and no `if` but one that returns a constant or a sentence at once,
- make at most one call for its effect: the one that does the work,
- return no float or double, and have no variable of these types.
What is left are declarations, assignments, arenas, sizes and returns. Comments, tables of options and the row of the
mechanism are lines, but not glue. Neither are functions that a macro of parts/ defines: they exist once. The rule reads the
layout of clang-format, not C. It is the same for every commit, so the sums of two can be compared.
(bench/glue.py is about the tasks of the GLUE benchmark.)
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import pathlib
import re

FUNCTION = re.compile(r"^(?![ #/}\n])([^;={}#]*?)\n\{\n(.*?)^\}\n", re.M | re.S)
FLOATS = re.compile(r"\b(float|double) \w+( = |,|;|\[)")
CHECK = re.compile(r'\bif \([^;]*?\)\s*return (""|NULL|0|false|true);')


def statements(code):
    """The statements of a body: its parts between semicolons that are outside of parentheses and braces."""
    depth, start, found = 0, 0, []
    for at, letter in enumerate(code):
        depth += (letter in "({") - (letter in ")}")
        if letter == ";" and depth == 0:
            found.append(" ".join(code[start:at].split()))
            start = at + 1
    return found


def is_glue(signature, body):
    """True by the rule at the head of this file."""
    code = re.sub(r'"[^"]*"', '""', re.sub(r"/\*.*?\*/", "", body, flags=re.S))
    code = CHECK.sub("", code)
    if re.search(r"\b(for|while|do|switch|if)\b|\?| [-+*/%] |kernels->", code):
        return False
    if FLOATS.search(code) or re.match(r"(static )?(inline )?(float|double) \w", signature):
        return False
    return sum(bool(re.match(r"\w+\(", statement)) for statement in statements(code)) <= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path,
                        help="the tree to count (default: this one)")
    parser.add_argument("--functions", action="store_true", help="print the functions that are counted")
    options = parser.parse_args()
    floor = options.root / "src" / "attention"
    mechanisms = {}
    for path in sorted(floor.rglob("*.c")):
        name = path.stem if path.parent == floor else path.parent.name
        if name not in ("driver", "mechanism_table"):
            mechanisms.setdefault(name, []).append(path)
    total = glue = 0
    print(f"{'mechanism':16}{'lines':>7}{'glue':>7}")
    for name, paths in mechanisms.items():
        lines = own = 0
        for path in paths:
            text = path.read_text()
            lines += text.count("\n")
            for match in FUNCTION.finditer(text):
                if is_glue(*match.groups()):
                    count = match[0].count("\n") + 1
                    own += count
                    if options.functions:
                        print(f"    {path.name}: {re.search(r'([a-z_0-9]+)[(]', match[1])[1]} {count}")
        print(f"{name:16}{lines:7}{own:7}{own / lines:7.0%}")
        total, glue = total + lines, glue + own
    print(f"{'sum':16}{total:7}{glue:7}{glue / total:7.0%}")


if __name__ == "__main__":
    main()
