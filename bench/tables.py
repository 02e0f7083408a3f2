# SPDX-License-Identifier: Apache-2.0
"""The tables of bench/peers.py from its JSON: every contender with ratios, and the figures to reach. Nothing is measured
here, so tests/cli/test_tables.sh holds it against a made run. Standard library only."""

import math
import re
import statistics


def rows_of(results, work, key, precision="float32", **facts):
    return [row for row in results["rows"] if row["work"] == work and row["key"] == key and row["precision"] == precision
            and all(row.get(name) == value for name, value in facts.items())]


def ratio(results, work, ours, theirs, figure, **facts):
    """theirs / ours, round by round; facts may give precision. None where one of them was not measured."""
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
    """The length from which on yoso is faster than SDPA, log-linear between the lengths measured; the least length where
    it is faster from the start, infinity where it never is."""
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


# ---- figures to reach ----------------------------------------------------------------------------------------------

def figures(results):
    """(what, values as [(name, list of ratios or one number)], targets with AMX, targets without, form) per row."""
    n, long = results["n"], results["long"]
    of = lambda *words, **facts: ratio(results, *words, **facts)
    told = lambda what, precision: next((row[what] for row in rows_of(results, "layer", "yoso", precision)
                                         if row.get(what) is not None), None)
    stream = results.get("stream", {"seq_len": "16M"})
    files = results.get("files", {"tokens": "16M"})
    copied = f" (at {spread(files['rate_over_copy'], '{:.2f}')} of the rate of copying the same bytes)" if "rate_over_copy" in files else ""
    times, percent, tokens = "{:.1f}x", "{:.0%}", "n {:.0f}"
    return [
        (f"forward, n {n}, float32, against SDPA float32", [("", of("length", "yoso", "sdpa", "forward", n=n))], [25], [30], times),
        (f"the same, n {long}", [("", of("length", "yoso", "sdpa", "forward", n=long))], [100], [120], times),
        (f"the same, n {n}, bf16 in and out, against SDPA bf16",
         [("", of("bf16", "yoso", "sdpa", "forward", n=n, precision="bf16"))], [4], [30], times),
        (f"forward + backward (`lower`), n {n}, against SDPA float32",
         [("iid", of("length", "yoso", "sdpa", "both", n=n)),
          ("clustered", of("clustered", "yoso", "sdpa", "both", n=n))], [15, 5], [20, 6], times),
        ("crossover with SDPA float32", [("forward", crossover(results, "forward")), ("forward + backward", crossover(results, "both"))],
         [-384, -384], [-256, -256], tokens),
        (f"our exact `softmax`, n {n}, float32, against SDPA",
         [("forward", of("length", "softmax", "sdpa", "forward", n=n)),
          ("forward + backward", of("length", "softmax", "sdpa", "both", n=n))], [1.1, 1.2], [1.4, 1.5], times),
        ("hash projection, against the product peak in its precision",
         [(results.get("peak", {}).get("projection", ""), hash_share(results.get("peak")))], [0.8], [0.8], percent),
        (f"layer of BERT-base size, {n} tokens, forward, against the transformers library's YosoModel",
         [("float32", of("layer", "yoso", "transformers-yoso", "forward")), ("bf16", layer_across(results))], [18, 40], [18, 30], times),
        ("the same layer against the same layer with SDPA in PyTorch",
         [("float32", of("layer", "yoso", "sdpa", "forward")),
          ("bf16", of("layer", "yoso", "sdpa", "forward", precision="bf16"))], [1.8, 2], [4, 4], times),
        ("LRA-size training step, against the same step with SDPA in PyTorch, padded / against our packed `softmax`",
         [("SDPA", of("step", "yoso", "sdpa", "step")), ("softmax", of("step", "yoso", "softmax", "step"))], [10, 3], [10, 3], times),
        ("products of the layer, against the same calls of the product library alone, and against the product peak",
         [("float32", told("products_over_library", "float32")), ("bf16", told("products_over_library", "bf16")),
          ("of the peak: float32", told("products_share_of_peak", "float32")), ("bf16", told("products_share_of_peak", "bf16"))],
         [0.85, 0.85], [0.85, 0.85], percent),
        (f"`lha` with 64 buckets, n {n}, against our own `softmax`",
         [("forward", of("lha", "lha", "softmax", "forward", n=n)),
          ("forward + backward with its loss", of("lha", "lha", "softmax", "both", n=n))], [8, 4], [8, 4], times),
        ("the same: memory of a token at the longest length over that at the shortest", [("", memory_growth(results))], [-1.05], [-1.05], "{:.2f}"),
        (f"{stream['seq_len']} tokens of one head, forward, from a callback: resident memory",
         [("", stream["peak_rss_bytes"] / 2**30 if "peak_rss_bytes" in stream else None)], [-1], [-1], "{:.2f} GiB"),
        ("the same: share of the time that all threads are busy", [("", stream.get("threads_busy"))], [0.9], [0.9], percent),
        (f"the same, {files['tokens']} tokens from files{copied}: resident memory",
         [("", files["peak_rss_bytes"] / 2**30 if "peak_rss_bytes" in files else None)], [-1], [-1], "{:.2f} GiB"),
    ]


def hash_share(peak):
    """Codes against the product peak in the precision that they are computed in: pairs of 16 bits have the rate of bf16."""
    if not peak or "hash_gflops" not in peak:
        return None
    return peak["hash_gflops"] / peak["bf16_gflops" if peak["projection"].endswith("-dp") else "float32_gflops"]


def memory_growth(results):
    """Of `lha`, what is saved and what is scratch, a token; 1: linear in n."""
    rows = results.get("lha_memory", [])
    each = [(row["saved_bytes"] + row["scratch_bytes"]) / row["n"] for row in rows]
    return each[-1] / each[0] if len(each) > 1 else None


def lha_tables(results):
    """Memory over the length, and what trained buckets catch beside the time of the row above."""
    parts, rows, utility = [], results.get("lha_memory", []), results.get("lha_utility")
    if rows:
        mib = lambda row, key: f"{row[key] / 2**20:.1f}"
        parts.append("\n".join(["| n | saved, MiB | scratch, MiB | peak of the process, MiB |", "|---|---|---|---|"] + [
            f"| {row['n']} | {mib(row, 'saved_bytes')} | {mib(row, 'scratch_bytes')} | {mib(row, 'peak_rss_bytes')} |" for row in rows]))
    if utility:
        share = lambda name, key: f"{utility[name][key]:.1%}"
        parts.append(f"Attention utility of 8 buckets trained on needle (`hashattn inspect`), of {share('own', 'pairs')} of all pairs: "
                     f"learned {share('own', 'utility')}, LSH {share('lsh', 'utility')}, asymmetric LSH (SMYRF) "
                     f"{share('smyrf', 'utility')}; upper bound {share('own', 'bound')}.")
    return parts


def layer_across(results):
    """bf16 of ours against the transformers library's layer, which is float32: bf16 was not faster there."""
    a = next(iter(rows_of(results, "layer", "yoso", "bf16")), None)
    b = next(iter(rows_of(results, "layer", "transformers-yoso")), None)
    return [y / x for x, y in zip(a["ms"]["forward"], b["ms"]["forward"])] if a and b else None


def reached(value, target):
    """A negative target is a bound from above."""
    found = median(value) if isinstance(value, list) else value
    return None if found is None else found <= -target if target < 0 else found >= target


def aim(targets, form):
    return " / ".join(("<= " if t < 0 else ">= ") + form.format(abs(t)).replace(".0x", "x") for t in targets)


def figures_table(results):
    amx = results["machine"]["amx"]
    lines = [f"| work (12 heads, d 64, m 32, tau 9) | AMX: aim | AMX | AVX512-BF16: aim | AVX512-BF16 | reached |",
             "|---|---|---|---|---|---|"]
    short = []
    for what, values, with_amx, without, form in figures(results):
        told = []
        for name, value in values:
            text = ("not measured" if value is None else spread(value, form) if isinstance(value, list) else form.format(value))
            told.append(f"{name} {text}".strip())
        targets = with_amx if amx else without
        verdicts = [reached(value, target) for (_, value), target in zip(values, targets)]
        word = "not measured" if all(v is None for v in verdicts) else "yes" if all(verdicts) else \
            "in part" if any(verdicts) else "no"
        if word != "yes":
            short.append(what)
        found, other = "; ".join(told), "not measured here"
        lines.append(f"| {what} | {aim(with_amx, form)} | {found if amx else other} | {aim(without, form)} |"
                     f" {other if amx else found} | {word} |")
    return "\n".join(lines), short


# ---- every contender -----------------------------------------------------------------------------------------------

def ms(row, figure):
    values = row["ms"].get(figure)
    return "-" if not values else f"{median(values):.4g}"


def base_of(work):
    """Whose time those of the others are told over."""
    return "lha" if work == "lha" else "yoso"


def over_base(results, row, figure):
    """How many times as long as the base of the same work and precision, whose own row says 1."""
    own = next(iter(rows_of(results, row["work"], base_of(row["work"]), row["precision"], n=row.get("n"))), None)
    if not own or figure not in own["ms"] or figure not in row["ms"]:
        return "-"
    return f"{median([y / x for x, y in zip(own['ms'][figure], row['ms'][figure])]):.3g}x"


def contender_table(results, work, first, second):
    lines = [f"| n | | precision | {first}, ms | over {base_of(work)} | {second}, ms | over {base_of(work)} | error, radians |",
             "|---|---|---|---|---|---|---|---|"] if second else \
            [f"| n | | precision | {first}, ms | over {base_of(work)} |", "|---|---|---|---|---|"]
    for row in [row for row in results["rows"] if row["work"] == work]:
        cells = [str(row.get("n", "")), row["label"], row["precision"], ms(row, first), over_base(results, row, first)]
        if second:
            told, error = "", row.get("error")
            if error:
                told = " / ".join(f"{v:.2f}" if v > 0.005 else f"{v:.0e}" if v > 0 else "0" for v in error["radians"].values())
                told += f" to {error['to']}"
            cells += [ms(row, second), over_base(results, row, second), told]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(results):
    machine = results["machine"]
    versions = ", ".join(f"{name} {version or 'absent'}" for name, version in machine["versions"].items())
    head = (f"{machine['processor'] or 'unknown processor'}, {machine['cores']} cores, {machine['threads']} threads, {machine['isa']}"
            f" (PyTorch: {machine['torch_isa']}), {'AMX' if machine['amx'] else 'no AMX'},"
            f" {'AVX512-BF16' if machine['avx512_bf16'] else 'no AVX512-BF16'}, {machine['products']}, projection"
            f" {machine['projection']}; {versions}; {machine['date']}. Median of {results['rounds']} rounds"
            f" (3 where a run takes long), ratios inside a round{', QUICK: small shapes, no figure to quote' if results['quick'] else ''}.")
    table, short = figures_table(results)
    parts = [head, "### Figures to reach\n", table]
    if short:
        parts.append("Short of the aim, or not measured: " + "; ".join(short) + ".")
    titles = [("length", "Attention over the length, iid", "forward", "both"),
              ("clustered", "Clustered inputs", "forward", "both"), ("bf16", "bf16 in and out", "forward", "both"),
              ("approximation", "Everything else, with its error: iid / clustered / matched inputs", "forward", "both"),
              ("lha", "lha against our own softmax", "forward", "both"),
              ("layer", "A layer of BERT-base size", "forward", None), ("step", "A training step of LRA size", "step", None)]
    for work, title, first, second in titles:
        if any(row["work"] == work for row in results["rows"]):
            parts += [f"### {title}\n", contender_table(results, work, first, second)]
            parts += lha_tables(results) if work == "lha" else []
    if results["missing"]:
        parts.append("### Not measured\n")
        parts.append("\n".join(f"- {m['label']} ({m['work']}): {m['reason']}" for m in results["missing"]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def fill(path, results):
    """What stands between the two marks of the page becomes the tables of this run."""
    begin, end = "<!-- peers: begin -->", "<!-- peers: end -->"
    with open(path) as file:
        page = file.read()
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{path}: the marks '{begin}' and '{end}' must stand there once")
    page = re.sub(re.escape(begin) + ".*" + re.escape(end), lambda _: f"{begin}\n\n{document(results)}\n{end}", page, flags=re.S)
    with open(path, "w") as file:
        file.write(page)
