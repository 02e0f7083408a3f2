#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hashattn.torch in a model of BERT-base size, against the same model with SDPA and the transformers library's own YOSO.

    tools/stage_python.sh build && python3 -m venv env && env/bin/pip install torch==2.13.0 transformers==5.23.0 numpy
    PYTHONPATH=build/python env/bin/python bench/torch_models.py            # two hours on two cores; prints the tables
    ... bench/torch_models.py --docs                                        # puts its figures into docs/results too
    ... bench/torch_models.py --quick                                       # checks that everything runs
    ... bench/torch_models.py --families                                    # which models work, in minutes; with --docs too
    ... bench/torch_models.py --causal                                      # whether decoders see the future, all there are

Every figure is that of a process of its own: a model with random weights, a short run to warm up, then a forward pass
in inference mode, or a training step (forward, backward, AdamW), of one sequence. Processes of all contenders run in
turn, round after round. Time is the median over rounds. Memory is the most that was resident during the step, beyond
the loaded model and of the whole process; in a training step it includes gradients and the optimizer's averages. Models
of the library are also compiled by torch.compile, before the clock starts. "bf16": under torch.autocast. No
model drops attention probabilities: with such a dropout, PyTorch's fused attention falls back to n x n matrices (83 s and
22 GB for the step of 8 layers at n 4096). Lengths at which the library's n x n
matrices need too much are measured with fewer layers, by every contender alike, or not at all; the table says so.
Errors are those of the hidden states in inference mode, compared with `yoso-e`, the exact expectation; `yoso-e` is itself
compared with the library's own model.
"""

import argparse
import importlib.metadata as metadata
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import machine
import results as kept
import torch_causal
import torch_families
from page import Table

HERE = Path(__file__).resolve().parent
CONTENDERS = {"hashattn": "`hashattn.torch`", "hashattn bf16": "the same, autocast to bfloat16",
              "sdpa": "BertModel with SDPA", "sdpa compiled": "the same, compiled",
              "sdpa compiled bf16": "the same, compiled, autocast to bfloat16",
              "library": "YosoModel of the library", "library compiled": "the same YosoModel, compiled",
              "library compiled bf16": "the same YosoModel, compiled, autocast to bfloat16"}
KINDS = ("forward", "step")
LAYERS = {"forward": {1024: 12, 2048: 12, 4096: 12, 8192: 4, 16384: 2},
          "step": {1024: 12, 2048: 12, 4096: 8, 8192: 2, 16384: 2}}
ERROR_LAYERS = 12
COMPARED = (("hashattn", "yoso-e"), ("hashattn bf16", "yoso-e"), ("yoso-e", "library"))
MATRICES = 3  # of n x n floats per head that a layer of the library holds at once; a training step keeps one per layer


# ---- one process -----------------------------------------------------------------------------------------------------


def resident(field):
    """VmRSS or VmHWM of this process, in bytes."""
    return int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def make(contender, n, layers):
    """The model of a contender; every one has the weights of the same seed."""
    import torch
    from transformers import BertConfig, BertModel, YosoConfig, YosoModel

    torch.manual_seed(0)
    size = dict(num_hidden_layers=layers, max_position_embeddings=n, vocab_size=30522, attention_probs_dropout_prob=0)
    if contender.startswith("sdpa"):
        model = BertModel._from_config(BertConfig(**size), attn_implementation="sdpa", add_pooling_layer=False)
    else:
        model = YosoModel(YosoConfig(**size))
    if contender in ("hashattn", "hashattn bf16", "yoso-e"):
        import hashattn.torch

        return hashattn.torch.replace_attention(model, "yoso-e" if contender == "yoso-e" else "yoso")
    return torch.compile(model) if "compiled" in contender else model


def autocast(contender):
    """The precision of a contender."""
    import torch

    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=contender.endswith("bf16"))


def cell(contender, n, layers, kind, threads):
    """Seconds and bytes of one figure."""
    import torch

    torch.set_num_threads(threads)
    model = make(contender, n, layers)
    model.train(kind == "step")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    tokens = torch.randint(5, 30000, (1, n), generator=torch.Generator().manual_seed(1))

    def work(ids):
        if kind == "forward":
            with torch.inference_mode(), autocast(contender):
                model(input_ids=ids)
            return
        with autocast(contender):
            hidden = model(input_ids=ids).last_hidden_state
        (hidden * torch.linspace(-1, 1, hidden.shape[-1])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    work(tokens if "compiled" in contender else tokens[:, :128])
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


def error(contender, reference, n, layers, threads):
    """How far the hidden states of two models are apart: mean angle of rows, and relative length of the difference."""
    import torch

    torch.set_num_threads(threads)
    tokens = torch.randint(5, 30000, (1, n), generator=torch.Generator().manual_seed(1))
    found = []
    for each in (contender, reference):
        with torch.inference_mode(), autocast(each):
            found.append(make(each, n, layers).eval()(input_ids=tokens).last_hidden_state[0].double())
    found, wanted = found
    unit = lambda rows: rows / rows.norm(dim=-1, keepdim=True)
    angles = 2 * torch.atan2((unit(found) - unit(wanted)).norm(dim=-1), (unit(found) + unit(wanted)).norm(dim=-1))
    return {"radians": float(angles.mean()), "relative": float((found - wanted).norm() / wanted.norm())}


def in_process(*words):
    """The result of this script in a process of its own; a text: why there is none."""
    done = subprocess.run([sys.executable, __file__, "--cell", json.dumps(words)], capture_output=True, text=True)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:100]
    return json.loads(done.stdout.splitlines()[-1])


# ---- all of them -----------------------------------------------------------------------------------------------------


def available():
    return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024


def too_large(contender, n, layers, kind):
    """Why a figure is left out, or None."""
    if not contender.startswith("library"):
        return None
    needed = 12 * n * n * 4 * (MATRICES + (layers if kind == "step" else 0)) + 2 * 2**30
    return f"needs about {needed / 2**30:.0f} GiB" if needed > 0.9 * available() else None


def measure(lengths, rounds, threads, quick):
    rows, errors = [], []
    for kind in KINDS:
        for n in lengths:
            layers = 1 if quick else LAYERS[kind][n]
            row = {"kind": kind, "n": n, "layers": layers, "cells": {}, "missing": {}}
            for turn in range(rounds):
                for contender in CONTENDERS:
                    reason = row["missing"].get(contender) or too_large(contender, n, layers, kind)
                    found = reason or in_process("cell", contender, n, layers, kind, threads)
                    if isinstance(found, str):
                        row["missing"][contender] = found
                    else:
                        row["cells"].setdefault(contender, []).append(found)
                    print(f"{kind} n {n} {layers} layers, round {turn + 1}, {contender}: {found}", file=sys.stderr)
            rows.append(row)
    for n in lengths:
        layers = 1 if quick else ERROR_LAYERS
        for contender, reference in COMPARED:
            found = too_large(reference, n, layers, "forward") or in_process("error", contender, reference, n, layers, threads)
            print(f"error n {n} {layers} layers, {contender} to {reference}: {found}", file=sys.stderr)
            errors.append({"n": n, "layers": layers, "contender": contender, "found": found})
    return {"rows": rows, "errors": errors, "machine": describe(threads), "rounds": rounds, "quick": quick}


def describe(threads):
    info = machine.cpuinfo()
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    versions = {"python": platform.python_version()} | {name: metadata.version(name) for name in ("torch", "transformers")}
    return {"kind": machine.kind_of(info), "name": f"{info.get('model name', '?')}, family {info.get('cpu family', '?')} model "
            f"{info.get('model', '?')}", "cores": len(os.sched_getaffinity(0)), "threads": threads,
            "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
            "versions": versions, "commit": commit.stdout.strip() or "unknown", "date": time.strftime("%Y-%m-%d")}


# ---- which models work -----------------------------------------------------------------------------------------------


def families(asked):
    """The table of bench/torch_families.py; with --docs it replaces the one in docs/results and python/MODELS.md."""
    found = {}
    for family in asked.only.split(",") if asked.only else torch_families.all_families():
        found[family] = torch_families.row(family)
        print(f"{family}: {found[family]}", file=sys.stderr)
    table, here = torch_families.table(found), describe(1)
    print(table.text())
    if asked.docs:
        kept.publish({"torch families": table}, here["kind"], here["commit"], here["date"])
        torch_families.write_page(table, measured_with())


def measured_with():
    """Versions, commit and date of a page, as one line."""
    here = describe(1)
    versions = ", ".join(f"{name} {number}" for name, number in here["versions"].items())
    return f"{versions}; hashattn commit {here['commit']}, {here['date']}"


# ---- the tables ------------------------------------------------------------------------------------------------------


def median(row, contender, what):
    cells = row["cells"].get(contender)
    return statistics.median(each[what] for each in cells) if cells else None


def times(row, contender, what):
    """How many times as much as `hashattn` a contender takes, round by round: the median; "" if one is missing."""
    pair = [row["cells"].get(each) for each in ("hashattn", contender)]
    return f", {statistics.median(b[what] / a[what] for a, b in zip(*pair)):.3g}x" if all(pair) else ""


def time_cell(row, contender):
    return f"{median(row, contender, 'seconds'):.3g} s{times(row, contender, 'seconds')}"


def memory_cell(row, contender):
    beyond, process = (f"{median(row, contender, what) / 2**20:.0f} MiB{times(row, contender, what)}"
                       for what in ("bytes", "process"))
    return f"{beyond}; {process}"


def error_cell(found):
    return found if isinstance(found, str) else f"{found['radians']:.2g} radians, {found['relative']:.2g} of the length"


def contender_table(results, kind, form):
    column = results["machine"]["kind"]
    found = [((str(row["n"]), str(row["layers"]), label),
              {column: (form(row, key) if row["cells"].get(key) else row["missing"].get(key, "-")).replace("|", "/")})
             for row in results["rows"] if row["kind"] == kind for key, label in CONTENDERS.items()]
    return Table(["n", "layers", "contender"], found)


def tables(results):
    """The tables by their names in docs/results/tables.jsonl."""
    m = results["machine"]
    facts = [("processor", m["name"]), ("cores, threads, memory", f"{m['cores']}, {m['threads']}, {m['memory']}"),
             *m["versions"].items(), ("hashattn", f"commit {m['commit']}"),
             ("measured on", m["date"] + (", QUICK: one layer, no figure to quote" if results["quick"] else "")),
             ("rounds", str(results["rounds"]))]
    compared = {"hashattn": "`yoso`, 64 hashes of 9 bits, to `yoso-e`",
                "hashattn bf16": "the same, autocast to bfloat16", "yoso-e": "`yoso-e` to the library"}
    made = {"torch machines": Table(["machine"], [((name,), {m["kind"]: text}) for name, text in facts]),
            "torch error": Table(["n", "layers", "hidden states"], [
                ((str(e["n"]), str(e["layers"]), compared[e["contender"]]), {m["kind"]: error_cell(e["found"])})
                for e in results["errors"]])}
    for kind in KINDS:
        made[f"torch {kind}"] = contender_table(results, kind, time_cell)
        made[f"torch {kind} memory"] = contender_table(results, kind, memory_cell)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384", help="some of these")
    parser.add_argument("--out", default="build/torch_models.json", help="all figures as JSON")
    parser.add_argument("--docs", action="store_true", help="replace this machine's figures in docs/results/tables.jsonl")
    parser.add_argument("--quick", action="store_true", help="one layer, 256 tokens, one round")
    parser.add_argument("--families", action="store_true", help="which families of models work with hashattn.torch")
    parser.add_argument("--causal", action="store_true", help="which decoders see the future with hashattn.torch")
    parser.add_argument("--only", default="", help="with --families and --causal: these, separated by commas")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # fails here rather than ending other processes
        name, *words = json.loads(asked.cell)
        print(json.dumps({"cell": cell, "error": error}[name](*words)))
        return
    if asked.families:
        return families(asked)
    if asked.causal:
        found = torch_causal.walk(asked.only)
        print(torch_causal.text(found))
        if asked.docs:
            torch_causal.write_page(found, measured_with())
        sys.exit(any(each.startswith(("FUTURE", "fails")) for each in found.values()))
    if asked.docs and asked.quick:
        parser.error("--quick measures nothing to publish")
    lengths = [256] if asked.quick else [int(n) for n in asked.lengths.split(",")]
    if not asked.quick and not set(lengths) <= set(LAYERS["step"]):
        parser.error(f"--lengths {asked.lengths}: allowed are {', '.join(map(str, LAYERS['step']))}")
    results = measure(lengths, 1 if asked.quick else asked.rounds, asked.threads, asked.quick)
    Path(asked.out).parent.mkdir(parents=True, exist_ok=True)
    Path(asked.out).write_text(json.dumps(results, indent=1))
    made = tables(results)
    print("\n\n".join(f"## {name}\n\n{table.text()}" for name, table in made.items()))
    if asked.docs:
        here = results["machine"]
        kept.publish(made, here["kind"], here["commit"], here["date"])


if __name__ == "__main__":
    main()
