#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hashattn.torch in a model of BERT-base size, against the same model with SDPA and the transformers library's own YOSO.

    tools/stage_python.sh build && python3 -m venv env && env/bin/pip install torch==2.13.0 transformers==5.23.0 numpy
    PYTHONPATH=build/python env/bin/python bench/torch_models.py            # an hour on two cores; prints the table
    ... bench/torch_models.py --docs                                        # fills docs/PERFORMANCE.md too
    ... bench/torch_models.py --quick                                       # checks that everything runs

Every figure is that of a process of its own: a model with random weights, a short run to warm up, then a forward pass
in inference mode, or a training step (forward, backward, AdamW), of one sequence. Processes of all columns run in turn,
round after round. Time is the median over rounds. Memory is the most that was resident during the step, beyond the
loaded model and of the whole process; in a training step it includes gradients and the optimizer's averages. Lengths at
which the library's n x n matrices need too much are measured with fewer layers, in every column alike, or not at all;
the table says so.
"""

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "PERFORMANCE.md"
COLUMNS = {"hashattn": "`hashattn.torch`", "sdpa": "SDPA", "library": "the library's YOSO",
           "compiled": "the same, compiled"}
LAYERS = {"forward": {1024: 12, 2048: 12, 4096: 12, 8192: 4, 16384: 2},
          "step": {1024: 12, 2048: 12, 4096: 8, 8192: 2, 16384: 2}}
MATRICES = 3  # of n x n floats per head that a layer of the library holds at once; a training step keeps one per layer


# ---- one process -----------------------------------------------------------------------------------------------------


def resident(field):
    """VmRSS or VmHWM of this process, in bytes."""
    return int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def make(column, n, layers):
    """The model of a column; every one has the weights of the same seed."""
    import torch
    from transformers import BertConfig, BertModel, YosoConfig, YosoModel

    torch.manual_seed(0)
    size = dict(num_hidden_layers=layers, max_position_embeddings=n, vocab_size=30522)
    if column == "sdpa":
        return BertModel._from_config(BertConfig(**size), attn_implementation="sdpa", add_pooling_layer=False)
    model = YosoModel(YosoConfig(**size))
    if column == "hashattn":
        import hashattn.torch

        return hashattn.torch.replace_attention(model, "yoso")
    return torch.compile(model) if column == "compiled" else model


def cell(column, n, layers, kind, threads):
    """Seconds and bytes of one figure."""
    import torch

    torch.set_num_threads(threads)
    model = make(column, n, layers)
    model.train(kind == "step")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    tokens = torch.randint(5, 30000, (1, n), generator=torch.Generator().manual_seed(1))

    def work(ids):
        if kind == "forward":
            with torch.inference_mode():
                model(input_ids=ids)
            return
        hidden = model(input_ids=ids).last_hidden_state
        (hidden * torch.linspace(-1, 1, hidden.shape[-1])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    work(tokens if column == "compiled" else tokens[:, :128])
    optimizer.state.clear()  # its averages count as memory of the step
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
    seconds, start = [], time.perf_counter()
    while not seconds or (time.perf_counter() - start < 2 and len(seconds) < 20):
        begin = time.perf_counter()
        work(tokens)
        seconds.append(time.perf_counter() - begin)
    peak = resident("VmHWM")
    return {"seconds": statistics.median(seconds), "bytes": peak - before, "process": peak}


def error(n, layers, threads):
    """How far the sampled outputs of the model are from those of the library's own: radians and relative length."""
    import torch

    torch.set_num_threads(threads)
    tokens = torch.randint(5, 30000, (1, n), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        own, found = (make(column, n, layers).eval()(input_ids=tokens).last_hidden_state[0]
                      for column in ("library", "hashattn"))
    cosine = torch.nn.functional.cosine_similarity(own, found, dim=-1).clamp(-1, 1)
    return {"radians": float(cosine.acos().mean()), "relative": float((own - found).norm() / own.norm())}


def in_process(*words):
    """The result of this script in a process of its own; a text: why there is none."""
    done = subprocess.run([sys.executable, __file__, "--cell", json.dumps(words)], capture_output=True, text=True)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:100]
    return json.loads(done.stdout.splitlines()[-1])


# ---- all of them -----------------------------------------------------------------------------------------------------


def available():
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024


def too_large(column, n, layers, kind):
    """Why a figure is left out, or None."""
    if column not in ("library", "compiled"):
        return None
    needed = 12 * n * n * 4 * (MATRICES + (layers if kind == "step" else 0)) + 2 * 2**30
    return f"needs about {needed / 2**30:.0f} GiB" if needed > 0.9 * available() else None


def measure(lengths, rounds, threads, quick):
    rows = []
    for kind in ("forward", "step"):
        for n in lengths:
            layers = 1 if quick else LAYERS[kind][n]
            row = {"kind": kind, "n": n, "layers": layers, "cells": {}, "missing": {}}
            for turn in range(rounds):
                for column in COLUMNS:
                    reason = row["missing"].get(column) or too_large(column, n, layers, kind)
                    found = reason or in_process("cell", column, n, layers, kind, threads)
                    if isinstance(found, str):
                        row["missing"][column] = found
                    else:
                        row["cells"].setdefault(column, []).append(found)
                    print(f"{kind} n {n} {layers} layers, round {turn + 1}, {column}: {found}", file=sys.stderr)
            rows.append(row)
    errors = {}
    for n in lengths:
        layers = 1 if quick else 12
        found = too_large("library", n, layers, "forward") or in_process("error", n, layers, threads)
        if not isinstance(found, str):
            errors[n] = {"layers": layers, **found}
    return {"rows": rows, "errors": errors, "machine": machine(threads), "rounds": rounds, "quick": quick}


def machine(threads):
    text = Path("/proc/cpuinfo").read_text()
    facts = {name: re.search(rf"^{name}\s*: (.*)", text, re.M) for name in ("model name", "cpu family", "model")}
    known = {name: found[1] if found else "?" for name, found in facts.items()}
    zen = {("25", "17"): "Zen 4", ("25", "97"): "Zen 4", ("26", "2"): "Zen 5", ("26", "17"): "Zen 5"}
    versions = in_process("versions")
    return {"processor": f"{known['model name']} family {known['cpu family']} model {known['model']}"
            + (f" ({name})" if (name := zen.get((known["cpu family"], known["model"]))) else ""),
            "cores": len(os.sched_getaffinity(0)), "threads": threads, "versions": versions,
            "memory": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "date": time.strftime("%Y-%m-%d")}


def versions():
    import torch
    import transformers

    import hashattn

    return {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
            "hashattn": hashattn.__version__}


# ---- the table -------------------------------------------------------------------------------------------------------


def median(row, column, what):
    cells = row["cells"].get(column)
    return statistics.median(each[what] for each in cells) if cells else None


def times(row, column, what):
    """How many times as much as `hashattn` a column takes, round by round: the median."""
    pair = [row["cells"].get(each) for each in ("hashattn", column)]
    return statistics.median(b[what] / a[what] for a, b in zip(*pair)) if all(pair) else None


def table(rows, what, unit, form):
    head = ["n", "layers", f"`hashattn.torch`, {unit}", *(f"{COLUMNS[c]}, {unit}" for c in list(COLUMNS)[1:])]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [str(row["n"]), str(row["layers"]), form(median(row, "hashattn", what))]
        for column in list(COLUMNS)[1:]:
            found = median(row, column, what)
            cells.append("-" if found is None else f"{form(found)} ({times(row, column, what):.3g}x)")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(results):
    m = results["machine"]
    wrapped = lambda text: textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)
    v = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    parts = [wrapped(f"{m['processor']}, {m['cores']} cores, {m['threads']} threads, {m['memory']} GiB; {v}; {m['date']}. "
                     f"Median of {results['rounds']} rounds"
                     f"{'; QUICK: no figure to quote' if results['quick'] else ''}.")]
    for kind, title in (("forward", "Forward in inference mode"), ("step", "Training step")):
        rows = [row for row in results["rows"] if row["kind"] == kind]
        parts += [f"{title}, seconds (times those of `hashattn.torch`):",
                  table(rows, "seconds", "s", lambda value: f"{value:.3g}"),
                  f"{title}, peak memory beyond the loaded model (times that of `hashattn.torch`):",
                  table(rows, "bytes", "MiB", lambda value: f"{value / 2**20:.0f}"),
                  f"{title}, peak memory of the whole process:",
                  table(rows, "process", "MiB", lambda value: f"{value / 2**20:.0f}")]
    errors = "; ".join(f"n {n}, {e['layers']} layers: {e['radians']:.2f} radians, {e['relative']:.2f} of their length"
                       for n, e in results["errors"].items())
    parts.append(wrapped(f"Outputs of models with random weights differ from the library's exact expectation by the "
                         f"sampling of 64 hashes of 9 bits, on average over rows: {errors or 'not measured'}."))
    missing = [f"- {COLUMNS[column]}, {row['kind']}, n {row['n']}, {row['layers']} layers: {reason}"
               for row in results["rows"] for column, reason in row["missing"].items()]
    if missing:
        parts.append("Not measured:\n\n" + "\n".join(missing))
    return "\n\n".join(parts)


def fill(text):
    begin, end = "<!-- torch models -->", "<!-- end of torch models -->"
    page = PAGE.read_text()
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"{PAGE}: the marks '{begin}' and '{end}' must each occur once")
    before, rest = page.split(begin)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384", help="some of these")
    parser.add_argument("--out", default="build/torch_models.json", help="all figures as JSON")
    parser.add_argument("--docs", action="store_true", help="fill the table of docs/PERFORMANCE.md")
    parser.add_argument("--quick", action="store_true", help="one layer, 256 tokens, one round")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # fails here rather than ending other processes
        name, *words = json.loads(asked.cell)
        print(json.dumps({"cell": cell, "error": error, "versions": versions}[name](*words)))
        return
    lengths = [256] if asked.quick else [int(n) for n in asked.lengths.split(",")]
    results = measure(lengths, 1 if asked.quick else asked.rounds, asked.threads, asked.quick)
    Path(asked.out).parent.mkdir(parents=True, exist_ok=True)
    Path(asked.out).write_text(json.dumps(results, indent=1))
    print(document(results))
    if asked.docs:
        fill(document(results))


if __name__ == "__main__":
    main()
