# SPDX-License-Identifier: Apache-2.0
"""The marked parts of documents. A table of docs/PERFORMANCE.md has a column for each kind of machine; fill() replaces the
column of one kind and leaves the others, so that figures of two machines are never mixed. tests/cli/test_tables.sh checks
it. Standard library only."""

KINDS = ("Zen 5", "Zen 4", "Zen 3", "Granite Rapids", "Emerald Rapids", "Sapphire Rapids", "Intel AMX")


class Table:
    """keys: names of the first columns, which identify a row. rows: [(cells of the keys, {column: cell})]."""

    def __init__(self, keys, rows):
        self.keys, self.rows = list(keys), [(tuple(key), dict(cells)) for key, cells in rows]

    def columns(self):
        """Columns that are not kinds of machines come first, then the known kinds in the order of KINDS."""
        names = dict.fromkeys(name for _, cells in self.rows for name in cells)
        place = lambda name: KINDS.index(name) if name in KINDS else -1 if name.startswith("aim") else len(KINDS)
        return sorted(names, key=place)

    def text(self):
        columns = self.columns()
        line = lambda cells: "| " + " | ".join(cells) + " |"
        return "\n".join([line(self.keys + columns), "|" + "---|" * len(self.keys + columns)]
                         + [line([*key, *(cells.get(name, "-") for name in columns)]) for key, cells in self.rows])


def parse(text, keys):
    """The table in text; one without rows if it has other keys."""
    lines = [[cell.strip() for cell in line.strip()[1:-1].split(" | ")] for line in text.splitlines() if line.startswith("|")]
    if not lines or lines[0][:len(keys)] != list(keys):
        return Table(keys, [])
    names = lines[0][len(keys):]
    return Table(keys, [(line[:len(keys)], {name: cell for name, cell in zip(names, line[len(keys):]) if cell != "-"})
                        for line in lines[2:]])


def merge(old, new, kind, partial=False):
    """new's rows with old's cells of other machines; rows that only others have come last. partial: not everything was
    measured, so old cells of this machine stay where new has none."""
    kept = {key: {name: cell for name, cell in cells.items() if name in KINDS and (partial or name != kind)}
            for key, cells in old.rows}
    known = lambda cells: {name: cell for name, cell in cells.items() if cell != "-" or not partial}
    rows = [(key, {**kept.pop(key, {}), **known(cells)}) for key, cells in new.rows]
    return Table(new.keys, rows + [(key, cells) for key, cells in kept.items() if cells])


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


def fill(path, tables, kind, partial=False):
    """Merges the tables {name: Table} into the page; a table that is not given stays as it is. `machines` says what the
    whole column ran on, so a partial run fills only its empty cells. Raises ValueError if a table's two marks do not each
    occur once; then nothing is written."""
    with open(path) as file:
        page = file.read()
    for name, table in tables.items():
        begin, end = f"<!-- peers: {name} -->", f"<!-- peers: end of {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{path}: the marks '{begin}' and '{end}' must each occur once")
        head, rest = page.split(begin)
        old, tail = rest.split(end)
        weak, strong = parse(old, table.keys), table
        if partial and name == "machines":
            weak, strong = strong, weak
        page = f"{head}{begin}\n{merge(weak, strong, kind, partial).text()}\n{end}{tail}"
    with open(path, "w") as file:
        file.write(page)
