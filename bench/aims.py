# SPDX-License-Identifier: Apache-2.0
"""The ratios of a run that say most, and the figures to reach. Standard library only."""

import math

from figures import median, ratio, row_of, rows_of, spread
from page import Table

AIMED = ("Zen 5", "Zen 3", "AMX")  # kinds of machines that have aims
SUMMARY = 12  # the first rows, which open the page


class Aim:
    """value: a list of ratios, one a round, or one number, or None. wanted: the least that is enough for each of AIMED, or
    None; one number holds for all. most: wanted is the most that is allowed."""

    def __init__(self, work, against, value, wanted, form="{:.1f}x", most=False):
        self.work, self.against, self.value, self.form, self.most = work, against, value, form, most
        self.wanted = dict(zip(AIMED, wanted if isinstance(wanted, tuple) else (wanted,) * len(AIMED)))

    def measured(self):
        if self.value is None or self.value == []:
            return "-"
        return spread(self.value, self.form) if isinstance(self.value, list) else self.form.format(self.value)

    def aim(self, kind):
        """The aim of a kind of machine, and whether it is reached."""
        wanted = self.wanted.get(kind)
        if wanted is None:
            return "-"
        text = ("<= " if self.most else ">= ") + self.form.format(wanted).replace(".0x", "x")
        if self.value is None or self.value == []:
            return text
        found = median(self.value) if isinstance(self.value, list) else self.value
        return text + (", reached" if (found <= wanted if self.most else found >= wanted) else ", missed")


def kind_with_aims(machine):
    return "AMX" if machine["amx"] else machine["kind"]


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


def hash_share(peak):
    """Hashing against the product peak of its precision. Pairs of 16-bit numbers have the rate of bf16; with the tiles of AMX,
    half of it: four products of bytes, each at twice the rate of bf16."""
    if not peak or "hash_gflops" not in peak:
        return None
    if not peak["projection"].endswith("-dp"):
        return peak["hash_gflops"] / peak["float32_gflops"]
    return peak["hash_gflops"] / peak["bf16_gflops"] * (2 if peak.get("isa") == "amx" else 1)


def memory_growth(results):
    """Saved and scratch bytes of `lha` per token, at the longest length over the shortest; 1: linear in n."""
    rows = results.get("lha_memory", [])
    each = [(row["saved_bytes"] + row["scratch_bytes"]) / row["n"] for row in rows]
    return each[-1] / each[0] if len(each) > 1 else None


def layer_across(results):
    """Our bf16 layer against the transformers library's in float32, where bf16 was not faster."""
    a, b = row_of(results, "layer", "yoso", "bf16"), row_of(results, "layer", "transformers-yoso")
    return [y / x for x, y in zip(a["ms"]["forward"], b["ms"]["forward"])] if a and b else None


def aims(results):
    n, long, peak = results["n"], results["long"], results.get("peak", {})
    of = lambda *words, **facts: ratio(results, *words, **facts)
    approximation = lambda ours, theirs: of("approximation", ours, theirs, "both")
    layer = lambda what, precision: next((row[what] for row in rows_of(results, "layer", "yoso", precision)
                                          if row.get(what) is not None), None)
    stream = results.get("stream", {"seq_len": 1 << 24})
    files = results.get("files", {"tokens": 1 << 24})
    gib = lambda run: run["peak_rss_bytes"] / 2**30 if "peak_rss_bytes" in run else None
    sdpa, softmax, bert = "PyTorch SDPA", "our `softmax`", "BERT-base layer, forward"
    linear, race = "linear attention, elu + 1", "RACE, 3 x 8"
    calls, memory = "the product library's own calls", "resident memory"
    percent, tokens, both = "{:.0%}", "n {:.0f}", "forward + backward"
    quarter = f"{both}, dQ and dK of a quarter of the hashes"
    return [
        Aim(f"forward, n {n}", sdpa, of("length", "yoso", "sdpa", "forward", n=n), (32, 15, 25)),
        Aim(f"forward, n {long}", sdpa, of("length", "yoso", "sdpa", "forward", n=long), (110, 65, 100)),
        Aim(f"{both}, n {n}", sdpa, of("length", "yoso", "sdpa", "both", n=n), (20, 13, 15)),
        Aim(f"{both}, n {n}, clustered", sdpa, of("clustered", "yoso", "sdpa", "both", n=n), (8, 4.5, 5)),
        Aim(f"{both}, n {long}, tau 11", sdpa, of("length", "yoso-11", "sdpa", "both", n=long), (50, 38, None)),
        Aim(f"{both}, n {n}", race, approximation("yoso", "race"), (1.05, 0.6, None), "{:.2f}x"),
        Aim(f"{both}, n {n}", linear, approximation("yoso", "linear"), (1.05, 0.6, None), "{:.2f}x"),
        Aim("training step of LRA size", "PyTorch with SDPA, padded", of("step", "yoso", "sdpa", "step"), (22, 15, 10)),
        Aim("training step of LRA size", f"{softmax}, packed", of("step", "yoso", "softmax", "step"), (2.1, 2, 3)),
        Aim("least n at which forward is faster", sdpa, crossover(results, "forward"), (150, 256, 384), tokens, True),
        Aim(f"least n at which {both} is faster", sdpa, crossover(results, "both"), (128, 192, 384), tokens, True),
        Aim(f"`lha`, 64 buckets, n {n}, forward", softmax, of("lha", "lha", "softmax", "forward", n=n), (12, 12, None)),
        Aim(quarter, race, approximation("yoso-quarter", "race"), (1.6, 1, None), "{:.2f}x"),
        Aim(quarter, linear, approximation("yoso-quarter", "linear"), (1.6, 1, None), "{:.2f}x"),
        Aim(f"forward, n {n}, bf16 in and out", f"{sdpa} in bf16",
            of("bf16", "yoso", "sdpa", "forward", n=n, precision="bf16"), (30, 30, 4)),
        Aim(f"`softmax`, forward, n {n}", sdpa, of("length", "softmax", "sdpa", "forward", n=n), (1.4, 1.4, 1.1)),
        Aim(f"`softmax`, {both}, n {n}", sdpa, of("length", "softmax", "sdpa", "both", n=n), (1.5, 1.5, 1.2)),
        Aim("hash projection", "product peak of its precision", hash_share(peak), 0.8, percent),
        Aim(bert, "transformers YosoLayer", of("layer", "yoso", "transformers-yoso", "forward"), 18),
        Aim(f"{bert}, bf16", "transformers YosoLayer, float32", layer_across(results), (30, 30, 40)),
        Aim(bert, "PyTorch layer with SDPA", of("layer", "yoso", "sdpa", "forward"), (4, 4, 1.8)),
        Aim(f"{bert}, bf16", "PyTorch layer with SDPA, bf16",
            of("layer", "yoso", "sdpa", "forward", precision="bf16"), (4, 4, 2)),
        Aim("products of the layer", calls, layer("products_over_library", "float32"), 0.85, percent),
        Aim("products of the layer, bf16", calls, layer("products_over_library", "bf16"), 0.85, percent),
        Aim("products of the layer", "product peak", layer("products_share_of_peak", "float32"), None, percent),
        Aim("products of the layer, bf16", "product peak", layer("products_share_of_peak", "bf16"), None, percent),
        Aim(f"`lha`, 64 buckets, n {n}, {both}, loss", softmax, of("lha", "lha", "softmax", "both", n=n), (8, 9, None)),
        Aim("`lha`, memory of a token, longest n", "shortest n", memory_growth(results), 1.05, "{:.2f}", True),
        Aim(f"{stream['seq_len']} tokens from a callback", memory, gib(stream), 1, "{:.2f} GiB", True),
        Aim("the same: share of time with all threads busy", "wall time x threads", stream.get("threads_busy"), 0.9, percent),
        Aim(f"{files['tokens']} tokens from files", memory, gib(files), 1, "{:.2f} GiB", True),
        Aim("the same: bytes per second", "copying the same bytes", files.get("rate_over_copy"), None, "{:.2f}"),
    ]


def table(results, aims_shown, cell):
    kind = results["machine"]["kind"]
    return Table(["work", "against"], [((a.work, a.against), {kind: cell(a)}) for a in aims_shown])


def summary_table(results):
    return table(results, aims(results)[:SUMMARY], Aim.measured)


def other_table(results):
    return table(results, aims(results)[SUMMARY:], Aim.measured)


def aims_table(results):
    """The figures to reach, for those who work on the speed; a user's page has none."""
    return table(results, aims(results), lambda a: a.aim(kind_with_aims(results["machine"])))
