# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/results/tables.jsonl from the JSON of bench/peers.py. Nothing is measured here, so tests/cli/test_tables.sh
checks it on a made-up run. Standard library only."""

import aims
from figures import median, row_of
from page import Table


def base_of(work):
    """The mechanism whose time the others are divided by."""
    return "lha" if work == "lha" else "yoso"


def beside(row, base, figure):
    """"13.7 ms, 1.04x": the time, and how many times that of the base, a row or None, it is."""
    values = row["ms"].get(figure)
    if not values:
        return "-"
    text = f"{median(values):.4g} ms"
    if not base or figure not in base["ms"]:
        return text
    return f"{text}, {median([y / x for x, y in zip(base['ms'][figure], values)]):.3g}x"


def time_cell(results, row, figure):
    """The time beside that of the base in the same work, length and precision."""
    return beside(row, row_of(results, row["work"], base_of(row["work"]), row["precision"], n=row.get("n")), figure)


def memory_cell(row, figure):
    found = row.get("memory", {}).get(figure)
    return "-" if found is None else f"{found / 2**20:.4g} MiB"


def radians(error):
    return " / ".join(f"{v:.2f}" if v > 0.005 else f"{v:.0e}" if v > 0 else "0" for v in error["radians"].values()) + \
        f" to {error['to']}" if error else "-"


def contender_table(results, work, cell):
    """A row for each contender; n and precision are keys where they differ."""
    found = [row for row in results["rows"] if row["work"] == work]
    lengths, precisions = ({row.get(fact) for row in found} for fact in ("n", "precision"))
    keys = ["n"] * (len(lengths) > 1) + ["contender"] + ["precision"] * (len(precisions) > 1)
    rows = [([str(row["n"])] * (len(lengths) > 1) + [row["label"]] + [row["precision"]] * (len(precisions) > 1),
             {results["machine"]["kind"]: cell(row)}) for row in found]
    return Table(keys, [(key, cells) for key, cells in rows if set(cells.values()) != {"-"}])


def mechanisms_table(results, cell):
    """A row for each mechanism and each of its rivals. cell(row, own) has the row of our mechanism beside it."""
    found = [row for row in results["rows"] if row["work"] == "mechanisms"]
    own = {row["mechanism"]: row for row in found if row["key"] == row["mechanism"]}
    cells = [((row["mechanism"], row["label"]), cell(row, own.get(row["mechanism"]))) for row in found]
    return Table(["mechanism", "contender"], [(key, {results["machine"]["kind"]: text}) for key, text in cells if text not in ("-", "- / -")])


def length_table(results, figure):
    """Ratios by length."""
    rows = []
    for n in sorted({row["n"] for row in results["rows"] if row["work"] == "length"}):
        for key, label in (("yoso", "`yoso`"), ("yoso-11", "`yoso`, tau 11"), ("softmax", "our `softmax`"), ("sdpa", "SDPA")):
            row = row_of(results, "length", key, n=n)
            if row and figure in row["ms"]:
                rows.append(((str(n), label), {results["machine"]["kind"]: time_cell(results, row, figure)}))
    return Table(["n", "contender"], rows)


def equal_time_table(results):
    """Our error with as many hashes as fit the time of each opponent."""
    return Table(["opponent", "its error, radians"], [
        ((row["label"], radians(row["error"])),
         {results["machine"]["kind"]: f"m {row['num_hashes']}, {row['time']:.2f} of its time: {radians(row['ours'])}"})
        for row in results["equal_time"]])


def lha_memory_table(results):
    mib = lambda row, key: f"{row[key] / 2**20:.1f}"
    return Table(["n"], [((str(row["n"]),), {results["machine"]["kind"]: " / ".join(
        mib(row, key) for key in ("saved_bytes", "scratch_bytes", "peak_rss_bytes"))}) for row in results["lha_memory"]])


def lha_utility_table(results):
    utility, share = results["lha_utility"], lambda value: f"{value:.1%}"
    cells = [("pairs in buckets, of all", utility["own"]["pairs"]), ("learned buckets", utility["own"]["utility"]),
             ("LSH", utility["lsh"]["utility"]), ("asymmetric LSH (SMYRF)", utility["smyrf"]["utility"]),
             ("upper bound", utility["own"]["bound"])]
    return Table(["share of attention caught"], [((name,), {results["machine"]["kind"]: share(value)}) for name, value in cells])


def machine_table(results):
    machine = results["machine"]
    rows = [("processor", f"{machine['processor'] or 'unknown'}, family {machine['family']} model {machine['model']}"),
            ("cores, threads", f"{machine['cores']}, {machine['threads']}"),
            ("instruction set; PyTorch's", f"{machine['isa']}; {machine['torch_isa']}"), ("products", machine["products"]),
            ("projection", machine["projection"])]
    rows += [(name, version or "absent") for name, version in machine["versions"].items()]
    rows += [("measured on", machine["date"] + (", QUICK: small shapes, no figure to quote" if results["quick"] else "")),
             ("rounds", f"{results['rounds']}" + " (3 if a run takes long)" * (results["rounds"] > 3))]
    return Table(["machine"], [((name,), {machine["kind"]: text}) for name, text in rows])


def missing_table(results):
    return Table(["not measured", "work"], [((m["label"], m["work"]), {results["machine"]["kind"]: m["reason"][:60].replace("|", "/")})
                                            for m in results["missing"]])


def tables(results):
    """The tables that this run measured, by their names in docs/results/tables.jsonl."""
    has = {row["work"] for row in results["rows"]}
    time = lambda figure: lambda row: time_cell(results, row, figure)
    memory = lambda figure: lambda row: memory_cell(row, figure)
    error = lambda row: radians(row.get("error"))
    made = {"machines": machine_table(results), "summary": aims.summary_table(results)}
    if "length" in has:
        made.update({f"length {figure}": length_table(results, figure) for figure in ("forward", "both")})
    for work, figures in (("clustered", ("forward", "both")), ("bf16", ("forward", "both")), ("lha", ("forward", "both")),
                          ("layer", ("forward",)), ("step", ("step",)), ("approximation", ("forward", "both"))):
        if work in has:
            made.update({f"{work} {figure}": contender_table(results, work, time(figure)) for figure in figures})
    if "length" in has:
        made.update({f"length {figure} memory": contender_table(results, "length", memory(figure)) for figure in ("forward", "both")})
    if "approximation" in has:
        made.update({f"approximation {figure} memory": contender_table(results, "approximation", memory(figure))
                     for figure in ("forward", "both")})
        made["approximation error"] = contender_table(results, "approximation", error)
    if "mechanisms" in has:
        made.update({f"mechanisms {figure}": mechanisms_table(
            results, lambda row, own, figure=figure: beside(row, own, figure)) for figure in ("forward", "both")})
        made["mechanisms memory"] = mechanisms_table(
            results, lambda row, own: " / ".join(memory_cell(row, figure) for figure in ("forward", "both")))
        made["mechanisms error"] = mechanisms_table(results, lambda row, own: radians(row.get("error")))
    if "bf16" in has:
        made["bf16 error"] = contender_table(results, "bf16", error)
    for work in ("layer", "step"):
        if work in has:
            made[f"{work} memory"] = contender_table(results, work, memory("forward" if work == "layer" else "step"))
    for name, make in (("equal_time", equal_time_table), ("lha_memory", lha_memory_table), ("lha_utility", lha_utility_table)):
        if results.get(name):
            made[name.replace("_", " ")] = make(results)
    made["more ratios"], made["aims"] = aims.other_table(results), aims.aims_table(results)
    made["missing"] = missing_table(results)
    return made


def document(results):
    """Everything, for a reader without the page."""
    return "\n\n".join(f"## {name}\n\n{table.text()}" for name, table in tables(results).items()) + "\n"
