# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/PERFORMANCE.md from the JSON of bench/peers.py: every contender with ratios, and the aims. Nothing is
measured here, so tests/cli/test_tables.sh checks it on a made-up run. No line is longer than WIDTH. Standard library only."""

import math
import re
import statistics
import textwrap

WIDTH = 118


def rows_of(results, work, key, precision="float32", **facts):
    return [row for row in results["rows"] if row["work"] == work and row["key"] == key and row["precision"] == precision
            and all(row.get(name) == value for name, value in facts.items())]


def ratio(results, work, ours, theirs, figure, **facts):
    """theirs / ours, round by round; facts may give precision. None if one of them was not measured."""
    a, b = (next(iter(rows_of(results, work, key, **facts)), None) for key in (ours, theirs))
    if not a or not b or figure not in a["ms"] or figure not in b["ms"]:
        return None
    return [y / x for x, y in zip(a["ms"][figure], b["ms"][figure])]


def median(values):
    return statistics.median(values) if values else None


def spread(values, form="{:.1f}x"):
    if not values:
        return "not measured"
    middle = form.format(median(values))
    return middle if len(values) == 1 else f"{middle} ({form.format(min(values))} to {form.format(max(values))})"


def crossover(results, figure):
    """The length at which yoso becomes faster than SDPA, log-linear between the lengths measured; the least length if it is
    faster from the start, infinity if it never is."""
    points = sorted((row["n"], median(ratio(results, "length", "yoso", "sdpa", figure, n=row["n"])))
                    for row in rows_of(results, "length", "yoso")
                    if ratio(results, "length", "yoso", "sdpa", figure, n=row["n"]))
    if not points:
        return None
    slower = [i for i, (_, r) in enumerate(points) if r < 1]
    if not slower:
        return points[0][0]
    if slower[-1] == len(points) - 1:
        return math.inf
    (n0, r0), (n1, r1) = points[slower[-1]], points[slower[-1] + 1]
    return n0 * (n1 / n0) ** (math.log(1 / r0) / math.log(r1 / r0))


# ---- aims ----------------------------------------------------------------------------------------------------------

class Aim:
    """One measured value and what it should be. value: a list of ratios, one a round, or one number, or None. aim and
    aim_with_amx: the least that is enough; the most if negative; None if there is no aim. summary: one of the ten rows
    that open the page."""

    def __init__(self, work, against, value, aim, aim_with_amx, form="{:.1f}x", summary=False):
        self.work, self.against, self.value, self.form, self.summary = work, against, value, form, summary
        self.aim, self.aim_with_amx = aim, aim_with_amx

    def measured(self):
        return spread(self.value, self.form) if isinstance(self.value, list) else \
            "not measured" if self.value is None else self.form.format(self.value)

    def wanted(self, aim):
        return "-" if aim is None else ("<= " if aim < 0 else ">= ") + self.form.format(abs(aim)).replace(".0x", "x")

    def reached(self, amx):
        aim = self.aim_with_amx if amx else self.aim
        found = median(self.value) if isinstance(self.value, list) else self.value
        if found is None or aim is None:
            return "not measured" if found is None else "-"
        return "yes" if (found <= -aim if aim < 0 else found >= aim) else "no"


def aims(results):
    n, long, peak = results["n"], results["long"], results.get("peak", {})
    of = lambda *words, **facts: ratio(results, *words, **facts)
    layer = lambda what, precision: next((row[what] for row in rows_of(results, "layer", "yoso", precision)
                                          if row.get(what) is not None), None)
    stream = results.get("stream", {"seq_len": "16M"})
    files = results.get("files", {"tokens": "16M"})
    gib = lambda run: run["peak_rss_bytes"] / 2**30 if "peak_rss_bytes" in run else None
    sdpa, softmax, bert = "PyTorch SDPA", "our `softmax`", "BERT-base layer, forward"
    calls, memory = "the product library's own calls", "resident memory"
    percent, tokens = "{:.0%}", "n {:.0f}"
    return [
        Aim(f"forward, n {n}", sdpa, of("length", "yoso", "sdpa", "forward", n=n), 30, 25, summary=True),
        Aim(f"forward, n {long}", sdpa, of("length", "yoso", "sdpa", "forward", n=long), 120, 100, summary=True),
        Aim(f"forward, n {n}, bf16 in and out", f"{sdpa} in bf16",
            of("bf16", "yoso", "sdpa", "forward", n=n, precision="bf16"), 30, 4, summary=True),
        Aim(f"forward + backward, n {n}", sdpa, of("length", "yoso", "sdpa", "both", n=n), 20, 15, summary=True),
        Aim(f"forward + backward, n {n}, clustered", sdpa, of("clustered", "yoso", "sdpa", "both", n=n), 6, 5, summary=True),
        Aim("least n at which forward is faster", sdpa, crossover(results, "forward"), -256, -384, tokens),
        Aim("least n at which forward + backward is faster", sdpa, crossover(results, "both"), -256, -384, tokens),
        Aim(f"`softmax`, forward, n {n}", sdpa, of("length", "softmax", "sdpa", "forward", n=n), 1.4, 1.1),
        Aim(f"`softmax`, forward + backward, n {n}", sdpa, of("length", "softmax", "sdpa", "both", n=n), 1.5, 1.2),
        Aim(f"hash projection, {peak.get('projection', '')}", "product peak of its precision", hash_share(peak), 0.8, 0.8,
            percent),
        Aim(bert, "transformers YosoLayer", of("layer", "yoso", "transformers-yoso", "forward"), 18, 18,
            summary=True),
        Aim(f"{bert}, bf16", "transformers YosoLayer, float32", layer_across(results), 30, 40),
        Aim(bert, "PyTorch layer with SDPA", of("layer", "yoso", "sdpa", "forward"), 4, 1.8, summary=True),
        Aim(f"{bert}, bf16", "PyTorch layer with SDPA, bf16",
            of("layer", "yoso", "sdpa", "forward", precision="bf16"), 4, 2),
        Aim("training step of LRA size", "PyTorch with SDPA, padded", of("step", "yoso", "sdpa", "step"), 10, 10, summary=True),
        Aim("training step of LRA size", f"{softmax}, packed", of("step", "yoso", "softmax", "step"), 3, 3, summary=True),
        Aim("products of the layer", calls, layer("products_over_library", "float32"), 0.85, 0.85, percent),
        Aim("products of the layer, bf16", calls, layer("products_over_library", "bf16"), 0.85, 0.85, percent),
        Aim("products of the layer", "product peak", layer("products_share_of_peak", "float32"), None, None, percent),
        Aim("products of the layer, bf16", "product peak", layer("products_share_of_peak", "bf16"), None, None, percent),
        Aim(f"`lha`, 64 buckets, n {n}, forward", softmax, of("lha", "lha", "softmax", "forward", n=n), 8, 8, summary=True),
        Aim(f"`lha`, 64 buckets, n {n}, forward + backward, loss", softmax,
            of("lha", "lha", "softmax", "both", n=n), 4, 4),
        Aim("`lha`, memory of a token, longest n", "shortest n", memory_growth(results), -1.05, -1.05, "{:.2f}"),
        Aim(f"{stream['seq_len']} tokens from a callback", memory, gib(stream), -1, -1, "{:.2f} GiB"),
        Aim("the same: share of time with all threads busy", "wall time x threads", stream.get("threads_busy"), 0.9, 0.9,
            percent),
        Aim(f"{files['tokens']} tokens from files", memory, gib(files), -1, -1, "{:.2f} GiB"),
        Aim("the same: bytes per second", "copying the same bytes", files.get("rate_over_copy"), None, None, "{:.2f}"),
    ]


def hash_share(peak):
    """Hashing against the product peak of its precision; pairs of 16-bit numbers have the rate of bf16."""
    if not peak or "hash_gflops" not in peak:
        return None
    return peak["hash_gflops"] / peak["bf16_gflops" if peak["projection"].endswith("-dp") else "float32_gflops"]


def memory_growth(results):
    """Saved and scratch bytes of `lha` per token, at the longest length over the shortest; 1: linear in n."""
    rows = results.get("lha_memory", [])
    each = [(row["saved_bytes"] + row["scratch_bytes"]) / row["n"] for row in rows]
    return each[-1] / each[0] if len(each) > 1 else None


def layer_across(results):
    """Our bf16 layer against the transformers library's in float32, where bf16 was not faster."""
    a = next(iter(rows_of(results, "layer", "yoso", "bf16")), None)
    b = next(iter(rows_of(results, "layer", "transformers-yoso")), None)
    return [y / x for x, y in zip(a["ms"]["forward"], b["ms"]["forward"])] if a and b else None


def table(head, rows):
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def summary_table(results):
    amx = results["machine"]["amx"]
    return table(["work", "against", "ratio", "aim", "reached"],
                 [[a.work, a.against, a.measured(), a.wanted(a.aim_with_amx if amx else a.aim), a.reached(amx)]
                  for a in aims(results) if a.summary])


def aims_table(results):
    amx = results["machine"]["amx"]
    return table(["work", "against", "measured", "aim", "aim, AMX", "reached"],
                 [[a.work, a.against, a.measured(), a.wanted(a.aim), a.wanted(a.aim_with_amx), a.reached(amx)]
                  for a in aims(results)])


# ---- every contender -----------------------------------------------------------------------------------------------

def ms(row, figure):
    values = row["ms"].get(figure) if row else None
    return "-" if not values else f"{median(values):.4g}"


def base_of(work):
    """The mechanism whose time the others are divided by."""
    return "lha" if work == "lha" else "yoso"


def over_base(results, row, figure):
    """The time of a row over that of the base in the same work, length and precision; "1x" for the base itself."""
    own = row and next(iter(rows_of(results, row["work"], base_of(row["work"]), row["precision"], n=row.get("n"))), None)
    if not own or figure not in own["ms"] or figure not in row["ms"]:
        return "-"
    return f"{median([y / x for x, y in zip(own['ms'][figure], row['ms'][figure])]):.3g}x"


def length_table(results, figure):
    """One row a length: yoso, our softmax and SDPA."""
    rows = []
    for n in sorted({row["n"] for row in results["rows"] if row["work"] == "length"}):
        yoso, softmax, sdpa = (next(iter(rows_of(results, "length", key, n=n)), None) for key in ("yoso", "softmax", "sdpa"))
        rows.append([str(n), *(ms(row, figure) for row in (yoso, softmax, sdpa)),
                     *(over_base(results, row, figure) for row in (softmax, sdpa))])
    return table(["n", "`yoso`, ms", "`softmax`, ms", "SDPA, ms", "`softmax` / `yoso`", "SDPA / `yoso`"], rows)


def radians(error):
    return " / ".join(f"{v:.2f}" if v > 0.005 else f"{v:.0e}" if v > 0 else "0" for v in error["radians"].values()) + \
        f" to {error['to']}" if error else ""


def contender_table(results, work, figures):
    """One row a contender: the time of each figure and how many times that of the base it is; errors if there are any."""
    found = [row for row in results["rows"] if row["work"] == work]
    lengths, precisions = ({row.get(fact) for row in found} for fact in ("n", "precision"))
    errors = any(row.get("error") for row in found)
    head = ["n"] * (len(lengths) > 1) + ["contender"] + ["precision"] * (len(precisions) > 1)
    head += [name for figure in figures for name in (f"{figure}, ms", f"over {base_of(work)}")]
    rows = []
    for row in found:
        rows.append([str(row["n"])] * (len(lengths) > 1) + [row["label"]] + [row["precision"]] * (len(precisions) > 1)
                    + [cell for figure in figures for cell in (ms(row, figure), over_base(results, row, figure))]
                    + [radians(row.get("error"))] * errors)
    return table(head + ["error, radians"] * errors, rows)


def lha_memory_table(results):
    return table(["n", "saved, MiB", "scratch, MiB", "peak of the process, MiB"],
                 [[str(row["n"]), *(f"{row[key] / 2**20:.1f}" for key in ("saved_bytes", "scratch_bytes", "peak_rss_bytes"))]
                  for row in results["lha_memory"]])


def lha_utility_text(utility):
    share = lambda name, key: f"{utility[name][key]:.1%}"
    return wrapped(f"Attention utility of 8 buckets trained on needle (`hashattn inspect`), with {share('own', 'pairs')} of all "
                   f"pairs: learned {share('own', 'utility')}, LSH {share('lsh', 'utility')}, asymmetric LSH (SMYRF) "
                   f"{share('smyrf', 'utility')}; upper bound {share('own', 'bound')}.")


# ---- the page ------------------------------------------------------------------------------------------------------

def wrapped(text, **more):
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False, **more)


def machine_text(results):
    machine = results["machine"]
    versions = ", ".join(f"{name} {version or 'absent'}" for name, version in machine["versions"].items())
    return wrapped(
        f"{machine['processor'] or 'unknown processor'}, {machine['cores']} cores, {machine['threads']} threads, {machine['isa']}"
        f" (PyTorch: {machine['torch_isa']}), {'AMX' if machine['amx'] else 'no AMX'},"
        f" {'AVX512-BF16' if machine['avx512_bf16'] else 'no AVX512-BF16'}, {machine['products']}, projection"
        f" {machine['projection']}; {versions}; {machine['date']}. Median of {results['rounds']} rounds"
        f" (3 if a run takes long), least and largest in brackets"
        f"{'; QUICK: small shapes, no figure to quote' if results['quick'] else ''}.")


def missing_list(results):
    return "\n".join(["Not measured:\n"] + [wrapped(f"- {m['label']} ({m['work']}): {m['reason']}", subsequent_indent="  ")
                                            for m in results["missing"]])


def sections(results):
    """The text of each section of the page that this run measured; the names are those of the marks in the page."""
    has = lambda work: any(row["work"] == work for row in results["rows"])
    both = ["forward", "both"]
    parts = {
        "summary": [machine_text(results), summary_table(results)],
        "length": ["Forward, float32, independent vectors:", length_table(results, "forward"),
                   "Forward + backward:", length_table(results, "both")] if has("length") else [],
        "clustered": [contender_table(results, "clustered", both)] if has("clustered") else [],
        "bf16": [contender_table(results, "bf16", both)] if has("bf16") else [],
        "lha": ([contender_table(results, "lha", both)] if has("lha") else [])
        + ([lha_memory_table(results)] if results.get("lha_memory") else [])
        + ([lha_utility_text(results["lha_utility"])] if results.get("lha_utility") else []),
        "layer": [f"{results['n']} tokens:", contender_table(results, "layer", ["forward"])] if has("layer") else [],
        "step": [contender_table(results, "step", ["step"])] if has("step") else [],
        "approximation": [contender_table(results, "approximation", both)] if has("approximation") else [],
        "aims": [aims_table(results)] + ([missing_list(results)] if results["missing"] else []),
    }
    return {name: "\n\n".join(found) or "Not measured in this run." for name, found in parts.items()}


def document(results):
    """Everything, for a reader without the page."""
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in sections(results).items()) + "\n"


def fill(path, results):
    """Replaces what stands between the two marks of each section of the page."""
    with open(path) as file:
        page = file.read()
    for name, text in sections(results).items():
        begin, end = f"<!-- peers: {name} -->", f"<!-- peers: end of {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{path}: the marks '{begin}' and '{end}' must each occur once")
        page = re.sub(re.escape(begin) + ".*" + re.escape(end), lambda _: f"{begin}\n{text}\n{end}", page, flags=re.S)
    with open(path, "w") as file:
        file.write(page)
