# SPDX-License-Identifier: Apache-2.0
"""Tables of Markdown, the marked parts of documents that scripts write, and output that `head` cuts. Standard library only."""

import signal

KINDS = ("Zen 5", "Zen 4", "Zen 3", "Zen 2", "Zen 1", "Granite Rapids", "Emerald Rapids", "Sapphire Rapids", "Intel AMX")


class Table:
    """keys: names of the first columns, which identify a row. rows: [(cells of the keys, {column: cell})]. named: columns
    have names of their own; otherwise each is a kind of machine."""

    def __init__(self, keys, rows, named=False):
        self.keys, self.rows, self.named = list(keys), [(tuple(key), dict(cells)) for key, cells in rows], named

    def columns(self):
        """The known kinds of machines in the order of KINDS, then the others."""
        names = dict.fromkeys(name for _, cells in self.rows for name in cells)
        place = lambda name: KINDS.index(name) if name in KINDS else len(KINDS)
        return sorted(names, key=place)

    def text(self, heads=None):
        """heads: {column: what its head says}."""
        columns = self.columns()
        line = lambda cells: "| " + " | ".join(cells) + " |"
        return "\n".join([line(self.keys + [(heads or {}).get(name, name) for name in columns]),
                          "|" + "---|" * len(self.keys + columns)]
                         + [line([*key, *(cells.get(name, "-") for name in columns)]) for key, cells in self.rows])


def may_be_cut():
    """From here on the script ends quietly when the reader of its output, such as `head`, has seen enough."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def replace(path, name, text):
    """Replaces what is between the marks <!-- NAME: begin --> and <!-- NAME: end --> by the text."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    with open(path) as file:
        page = file.read()
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{path}: the marks '{begin}' and '{end}' must each occur once")
    head, rest = page.split(begin)
    with open(path, "w") as file:
        file.write(f"{head}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")
