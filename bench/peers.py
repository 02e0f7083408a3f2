#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hashattn beside what a person would use instead: the same arrays, the same number of threads, in turn, in one process.

    bench/peers.py --setup              once: PyTorch, transformers and ONNX Runtime into BUILD/peers-env (1.3 GB)
    bench/peers.py [--quick]            measures: BUILD/peers.json and BUILD/peers.md, about ten minutes
    bench/peers.py --docs               measures, and puts the figures of this machine into docs/results/tables.jsonl
    bench/peers.py --show [TABLE]       measures nothing: prints a table of docs/results, or lists all

Contenders of one row run one after another, round after round; ratios are taken inside a round, and what is reported is
their median with the least and the largest. hashattn is called through libhashattn.so on the arrays that PyTorch has;
layers and steps, which have no such call, are processes of `hashattn bench`. Forward is timed in inference mode,
"both" is forward + backward as training does it. Memory is what a call adds to the resident memory at its peak, and for
processes of `hashattn bench` what the library allocates for it. A row whose package is absent is named with the reason.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from contest import Contender, clock, compete, optional
from environment import enter

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS, DIM = 12, 64
YOSO = {"num_hashes": 32, "hash_bits": 9}
MOST_HASHES = 1024  # tried for the time of an opponent
PACKAGES = ["torch==2.13.0+cpu", "numpy", "transformers", "onnxruntime", "onnx"]
KINDS = ("iid", "clustered", "matched")  # inputs whose errors are reported
SAMPLED = 256  # queries whose error is measured


# ---- the private environment ---------------------------------------------------------------------------------------

def setup(environment):
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [os.path.join(environment, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"]
    # The wheel without CUDA, if pip knows an index that has it; else the one with CUDA, which runs as well here.
    if subprocess.run([*pip, PACKAGES[0]]).returncode != 0:
        subprocess.run([*pip, PACKAGES[0].partition("+")[0]], check=True)
    for package in PACKAGES[1:]:  # one at a time: what cannot be had is missing from the tables, no more
        subprocess.run([*pip, package])


# ---- attention -----------------------------------------------------------------------------------------------------

def arrays(torch, n, kind, heads=HEADS):
    """q, k, v and a gradient, (1, heads, n, d), as in `hashattn bench`: clustered has mean cosine 0.5, matched has query i
    at cosine 0.9 to key i, both at length sqrt(d)."""
    torch.manual_seed(n)
    made = [torch.randn(1, heads, n, DIM) for _ in range(4)]
    if kind == "clustered":
        centre = torch.randn(1, heads, 1, DIM)
        for i in (0, 1):
            made[i] = 0.5 ** 0.5 * (made[i] + centre)
            made[i] *= DIM ** 0.5 / made[i].norm(dim=-1, keepdim=True)
    if kind == "matched":
        made[0] = 0.9 * made[1] + (1 - 0.81) ** 0.5 * made[0]
        made[0] *= DIM ** 0.5 / made[0].norm(dim=-1, keepdim=True)
    return made


def ours(torch, library, name, label, data, both=True, dtype=None, row=None, **options):
    """A mechanism of hashattn, with blocks made before and outputs written where they are wanted."""
    from library import Attention
    query, key, value, dout = (x[0] if dtype is None else x[0].to(dtype) for x in data)
    out, *gradients = (torch.zeros_like(x) for x in (value, query, key, value))
    attention = Attention(library.in_bf16() if dtype else library, name, **options)
    attention.prepare(query, key, value, 1, bf16=dtype is not None)
    forward = lambda: attention.forward(query, key, value, out)

    def both_ways():
        forward()
        attention.backward(query, key, value, out, dout, *gradients)
    held = attention.saved_bytes + attention.scratch_bytes + out.nbytes
    contender = Contender(row or name, label, "bf16" if dtype else "float32",
                          calls={"forward": forward, **({"both": both_ways} if both else {})},
                          held={"forward": held, "both": held + sum(x.nbytes for x in gradients)})
    contender.output = lambda: (forward(), out[None])[1]
    return contender


def theirs(torch, key, label, function, data, both=True, dtype=None, prepare=None):
    q, k, v, dout = (x if dtype is None else x.to(dtype) for x in data)
    if prepare:
        prepare(q, k, v)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]

    def forward():
        with torch.inference_mode():
            return function(q, k, v)
    calls = {"forward": forward}
    if both:
        calls["both"] = lambda: torch.autograd.grad(function(*leaves), leaves, dout, allow_unused=True)
    contender = Contender(key, label, "bf16" if dtype else "float32", calls=calls)
    contender.output = forward
    return contender


def sampled_places(torch, n):
    return torch.arange(0, n, max(1, n // SAMPLED))[:SAMPLED]


def exact(torch, library, name, data, **options):
    """The exact output of SAMPLED evenly spaced queries, and their places."""
    from library import Attention
    query, key, value, _ = (x[0] for x in data)
    places = sampled_places(torch, query.shape[1])
    sampled = query[:, places].contiguous()
    out = torch.zeros(sampled.shape)
    attention = Attention(library, name, **options)
    attention.prepare(sampled, key, value, 1)
    attention.forward(sampled, key, value, out)
    attention.close()
    return out, places


def error(torch, out, reference):
    """The mean angle of rows, in radians."""
    wanted, places = reference
    unit = lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    found, wanted = unit(out[0][:, places].float()), unit(wanted)
    return float((2 * torch.atan2((found - wanted).norm(dim=-1), (found + wanted).norm(dim=-1))).mean())


def lengths_work(torch, library, results, lengths, rounds):
    """yoso, our softmax and SDPA at every length, forward and both; where 9 bits are too few, also with 11."""
    import opponents
    for n in lengths:
        data = arrays(torch, n, "iid")
        contenders = [ours(torch, library, "yoso", "hashattn yoso", data, **YOSO),
                      ours(torch, library, "softmax", "hashattn softmax", data),
                      theirs(torch, "sdpa", "PyTorch SDPA", opponents.sdpa, data)]
        if n > 4096:
            contenders.insert(1, ours(torch, library, "yoso", "hashattn yoso, tau 11", data, row="yoso-11",
                                      **{**YOSO, "hash_bits": 11}))
        compete(results, "length", contenders, min(rounds, 3) if n > 4096 else rounds, n=n, input="iid")


def clustered_work(torch, library, results, n, rounds):
    import opponents
    data = arrays(torch, n, "clustered")
    contenders = [ours(torch, library, "yoso", "hashattn yoso", data, **YOSO),
                  theirs(torch, "sdpa", "PyTorch SDPA", opponents.sdpa, data)]
    compete(results, "clustered", contenders, rounds, n=n, input="clustered")


def bf16_work(torch, library, results, n, long, rounds):
    """bf16 in and out."""
    import opponents
    for length in (n, long):
        data, both, facts = arrays(torch, length, "iid"), length == n, dict(n=length, input="iid")
        one = optional(results, "bf16", "hashattn yoso",
                       lambda: ours(torch, library, "yoso", "hashattn yoso", data, both, torch.bfloat16, **YOSO), **facts)
        two = optional(results, "bf16", "hashattn softmax",
                       lambda: ours(torch, library, "softmax", "hashattn softmax", data, both, torch.bfloat16), **facts)
        sdpa = theirs(torch, "sdpa", "PyTorch SDPA", opponents.sdpa, data, both, torch.bfloat16)
        for contender, name, options in ((one, "yoso-e", {"hash_bits": 9}), (two, "softmax", {}), (sdpa, "softmax", {})):
            if contender is not None and both:
                told = error(torch, contender.output(), exact(torch, library, name, data, **options))
                contender.row["error"] = {"to": name, "radians": {"iid": told}}
        compete(results, "bf16", [c for c in (one, two, sdpa) if c is not None], min(rounds, 3), **facts)


def race_that_reaches(torch, inputs, wanted):
    """The RACE with the fewest features whose error against the exact kernel (tau 9) is ours on all inputs, over tables,
    buckets and temperatures; (its parameters, whether there is one). inputs: [(data, exact output)], wanted: radians."""
    import opponents
    sizes = sorted((tables << bits, tables, bits) for bits in (3, 5, 7, 9) for tables in (1, 2, 4, 8, 16, 32, 64)
                   if tables << bits <= 16384)
    best = (float("inf"), None)
    for _, tables, bits in sizes:
        for beta in (1.0, 2.0, 4.0):
            race, worst = opponents.Race(tables, bits, beta, DIM), 0.0
            for (data, (exact_rows, places)), limit in zip(inputs, wanted):
                q, k, v = (x[:, :2] for x in data[:3])  # two heads tell enough
                with torch.inference_mode():
                    rows = race(q[:, :, places], k, v)
                here = torch.arange(len(places))
                worst = max(worst, error(torch, rows, (exact_rows[:2], here)) / limit)
                if worst > max(1, best[0]):
                    break
            best = min(best, (worst, (tables, bits, beta)))
            if worst <= 1:
                return (tables, bits, beta), True
    return best[1], False


def fastest(torch, function, data, try_compiler):
    """The function, or torch.compile's form of it where that works here and is faster forward."""
    if not try_compiler:
        return function, False
    with torch.inference_mode():
        compiled = torch.compile(function, dynamic=False)
        plain = clock(lambda: function(*data))
        compiled(*data)
        return (compiled, True) if clock(lambda: compiled(*data)) < plain else (function, False)


def approximations_work(torch, library, results, n, rounds, threads, try_compiler):
    """Everything that is not exact attention, with its errors beside its time: on the inputs timed, on clustered ones, and on
    such where each query has a key to find."""
    import opponents
    from rivals.linear import linear_attention
    inputs = {kind: arrays(torch, n, kind) for kind in KINDS}
    data = inputs["iid"]
    references = {to: {kind: exact(torch, library, name, d, **options) for kind, d in inputs.items()} for to, name, options in (
        ("yoso-e", "yoso-e", {"hash_bits": 9}), ("softmax", "softmax", {}),
        ("yoso-e, tau 3", "yoso-e", {"hash_bits": 3, "normalize": "sum"}))}
    facts, found = dict(n=n, input="iid"), []

    def enter_one(label, make, to):
        """make(data) gives the contender on these arrays."""
        def with_errors():
            errors = {kind: error(torch, make(d).output(), references[to][kind]) for kind, d in inputs.items()}
            contender = make(data)
            contender.row["error"] = {"to": to, "radians": errors}
            return contender
        contender = optional(results, "approximation", label, with_errors, **facts)
        if contender is not None:
            found.append(contender)
        return contender

    def formula(key, label, function):
        """A formula in plain PyTorch, forward in the form that is faster."""
        chosen = optional(results, "approximation", label + " by torch.compile",
                          lambda: fastest(torch, function, data[:3], try_compiler), **facts) or (function, False)

        def make(data):
            contender = theirs(torch, key, label, function, data)
            if chosen[1]:
                contender.row["label"] = label + ", compiled"
                contender.calls["forward"] = theirs(torch, key, label, chosen[0], data, both=False).calls["forward"]
            return contender
        return make

    own = enter_one("hashattn yoso", lambda d: ours(torch, library, "yoso", "hashattn yoso", d, **YOSO), "yoso-e")
    enter_one("hashattn yoso, dQ and dK of 8 hashes", lambda d: ours(
        torch, library, "yoso", "hashattn yoso, dQ and dK of 8 hashes", d, row="yoso-quarter", gradient_hashes=8, **YOSO), "yoso-e")
    enter_one("hashattn yoso-e", lambda d: ours(torch, library, "yoso-e", "hashattn yoso-e", d, hash_bits=9), "yoso-e")
    enter_one("hashattn softmax", lambda d: ours(torch, library, "softmax", "hashattn softmax", d), "softmax")
    enter_one("PyTorch SDPA", lambda d: theirs(torch, "sdpa", "PyTorch SDPA", opponents.sdpa, d), "softmax")

    def onnx(d):
        session = opponents.OnnxRuntime(n, HEADS, DIM, threads)
        return theirs(torch, "onnxruntime", "ONNX Runtime MultiHeadAttention", session, d, both=False, prepare=session.prepare)
    enter_one("ONNX Runtime MultiHeadAttention", onnx, "softmax")
    for key, label, kind, to in (
            ("transformers-yoso", "transformers YosoSelfAttention", opponents.TransformersYoso, "yoso-e"),
            ("nystromformer", "transformers Nystromformer, 64 landmarks", opponents.Nystromformer, "softmax"),
            ("longformer", "transformers Longformer, window 512", opponents.Longformer, "softmax")):
        enter_one(label, lambda d: theirs(torch, key, label, kind(n, HEADS, DIM), d), to)
    enter_one("linear attention, elu + 1",
              formula("linear", "linear attention, elu + 1", linear_attention), "softmax")
    enter_one("RACE, 3 tables of 8 buckets",
              formula("race", "RACE, 3 tables of 8 buckets", opponents.Race(3, 3, 1.0, DIM)), "yoso-e, tau 3")
    (tables, bits, beta), reached = race_that_reaches(
        torch, [(inputs[kind], references["yoso-e"][kind]) for kind in reversed(KINDS)],
        [own.row["error"]["radians"][kind] for kind in reversed(KINDS)])
    label = f"RACE, {tables} x {1 << bits} buckets, beta {beta:g}" + (": our error" if reached else ": nearest")
    enter_one(label, formula("race-equal", label, opponents.Race(tables, bits, beta, DIM)), "yoso-e")
    compete(results, "approximation", found, min(rounds, 3), **facts)
    equal_time_work(torch, library, results, found, inputs, references["yoso-e"])


def equal_time_work(torch, library, results, found, inputs, reference):
    """The error of yoso with as many hashes as fit the time of each opponent's forward: its time grows with their number."""
    own = statistics.median(found[0].row["ms"]["forward"])
    results["equal_time"] = []
    for opponent in found:
        if opponent.row["label"].startswith("hashattn"):
            continue
        hashes = int(YOSO["num_hashes"] * statistics.median(opponent.row["ms"]["forward"]) / own)
        options = {**YOSO, "num_hashes": max(1, min(MOST_HASHES, hashes))}
        make = lambda data: ours(torch, library, "yoso", "", data, both=False, **options)
        contender = make(inputs["iid"])
        ratios = [clock(contender.calls["forward"]) / clock(opponent.calls["forward"]) for _ in range(3)]
        errors = {kind: error(torch, make(data).output(), reference[kind]) for kind, data in inputs.items()}
        results["equal_time"].append({"label": opponent.row["label"], "error": opponent.row["error"],
                                      "num_hashes": options["num_hashes"], "time": statistics.median(ratios),
                                      "ours": {"to": "yoso-e", "radians": errors}})


# ---- layers and steps ----------------------------------------------------------------------------------------------

def tool(build, threads, *words):
    # Through a shell that forks once more: else the process would count our resident memory as its own peak.
    done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", os.path.join(build, "hashattn"), "bench", *words, "--threads", str(threads), "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def layer_work(torch, build, results, n, rounds, threads, try_compiler):
    """One layer of BERT-base size: 768 wide, 12 heads, feed-forward 3072."""
    import opponents
    dim, ffn = HEADS * DIM, 3072
    torch.manual_seed(0)
    x = torch.randn(1, n, dim)
    plain = opponents.SdpaLayer(dim, HEADS, ffn).eval()

    def own(name, precision):
        words = ["layer", "--attention", name, "--seq-len", str(n), "--precision", precision]
        words += ["--num-hashes", "32", "--hash-bits", "9", "--repeats", "5"]

        def measure():
            told = tool(build, threads, *words)
            for key in ("products_share_of_peak", "products_over_library"):
                contender.row[key] = told[key]
            return {"forward": told["forward_ms"], "memory": {"forward": told["saved_bytes"] + told["workspace_bytes"]}}
        contender = Contender(name, f"hashattn layer with {name}", precision, measure=measure)
        return contender

    def torch_layer(key, label, layer, precision, rows):
        def forward():
            with torch.inference_mode():
                return layer(rows)
        return Contender(key, label, precision, calls={"forward": forward})
    contenders = []
    for precision, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16)):
        rows, layer = x.to(dtype), opponents.SdpaLayer(dim, HEADS, ffn).eval().to(dtype)
        layer.load_state_dict(plain.state_dict())
        chosen = optional(results, "layer", f"SDPA layer by torch.compile, {precision}",
                          lambda: fastest(torch, layer, [rows], try_compiler), n=n) or (layer, False)
        label = "PyTorch layer with SDPA" + (" (torch.compile)" if chosen[1] else "")
        contenders += [own("yoso", precision), own("softmax", precision),
                       torch_layer("sdpa", label, chosen[0], precision, rows)]
    label = "transformers YosoLayer"
    yoso = optional(results, "layer", label, lambda: torch_layer(
        "transformers-yoso", label, opponents.transformers_yoso_layer(n, dim, HEADS, ffn), "float32", x), n=n)
    compete(results, "layer", contenders + [yoso] * (yoso is not None), min(rounds, 3), n=n)


def step_work(torch, build, results, batch, longest, rounds, threads):
    """A training step of LRA size: batch sequences of ListOps lengths, 500 to `longest`."""
    import opponents
    share = [0.16, 0.14, 0.13, 0.11, 0.1, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.03]  # of lengths, in steps of 125 from 500
    lengths = [min(longest, 562 + 125 * i) for i, part in enumerate(share) for _ in range(round(part * batch))]
    lengths = (lengths + [1000] * batch)[:batch]

    def own(name):
        words = ["step", "listops", "--preset", "lra", "--attention", name, "--batch", str(batch), "--repeats", "5"]
        words += ["--num-hashes", "32"] if name == "yoso" else []

        def measure():
            told = tool(build, threads, *words)
            contender.row["tokens"] = told["tokens_per_step"]
            return {"step": told["step_ms"], "memory": {"step": told["saved_bytes"] + told["workspace_bytes"]}}
        contender = Contender(name, f"hashattn step with {name}, packed", measure=measure)
        return contender
    step = opponents.LraStep(lengths, longest)
    padded = Contender("sdpa", "PyTorch step with SDPA, padded", calls={"step": step}, tokens=sum(lengths))
    compete(results, "step", [own("yoso"), own("softmax"), padded], min(rounds, 3), n=longest, batch=batch)


def lha_work(build, results, n, lengths, rounds, threads):
    """lha with 64 buckets against our own softmax, forward and forward + backward with its loss; its memory over the length;
    and what buckets catch of full attention once they were trained, which random inputs cannot tell."""
    def words(name, length):
        return ["attention", "--attention", name, "--seq-len", str(length), "--heads", str(HEADS), "--head-dim", str(DIM),
                "--num-buckets", "64"]

    def own(name, label):
        def measure():
            told = tool(build, threads, *words(name, n), "--backward")
            return {"forward": told["forward_ms"], "both": told["forward_ms"] + told["backward_ms"]}
        return Contender(name, label, measure=measure)
    compete(results, "lha", [own("lha", "hashattn lha, 64 buckets"), own("softmax", "hashattn softmax")], rounds, n=n, input="iid")

    def memory(length):
        told = tool(build, threads, *words("lha", length), "--backward", "--repeats", "1")
        return {"n": length, **{key: told[key] for key in ("saved_bytes", "scratch_bytes", "peak_rss_bytes")}}
    results["lha_memory"] = [row for row in (optional(results, "lha", "hashattn lha: memory", lambda: memory(length), n=length)
                                             for length in lengths) if row]
    utility = optional(results, "lha", "hashattn inspect", lambda: trained_utility(build, threads))
    results.update({} if utility is None else {"lha_utility": utility})


def trained_utility(build, threads):
    """`hashattn inspect` of a small run of needle, trained here: 1,024 tokens, one mark, 8 buckets."""
    with tempfile.TemporaryDirectory() as folder:
        for words in (("data", "needle", "--out", "data", "--train", "4000", "--valid", "100", "--test", "1", "--seq-len", "1024", "--marks", "1"),
                      ("train", "needle", "--data", "data", "--attention", "lha", "--num-buckets", "8", "--steps", "300", "--eval-every", "100",
                       "--seed", "1", "--out", "run", "--quiet"),
                      ("inspect", "run", "--examples", "8", "--json")):
            done = subprocess.run([os.path.abspath(os.path.join(build, "hashattn")), *words, "--threads", str(threads)], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)["all"]


def stream_work(build, results, tokens, threads):
    """One long sequence that a callback makes, in chunks."""
    told = optional(results, "stream", "hashattn bench stream", lambda: tool(
        build, threads, "stream", "--seq-len", str(tokens), "--num-hashes", "32", "--hash-bits", "9"))
    results.update({} if told is None else {"stream": told})


def files_work(build, results, tokens, threads, rounds):
    """The same from files, beside copying the same bytes."""
    import files
    told = optional(results, "files", "hashattn attend --chunk", lambda: files.measure(build, tokens, threads, rounds))
    results.update({} if told is None else {"files": told})


# ---- the run -------------------------------------------------------------------------------------------------------

def measure(asked):
    import warnings
    import torch
    import machine
    import mechanisms
    from library import Library
    warnings.filterwarnings("ignore")
    torch.set_num_threads(asked.threads)
    library = Library(asked.build, asked.threads)
    quick, only = asked.quick, asked.only.split(",") if asked.only else None
    n, long, rounds = (512, 1024, 1) if quick else (4096, 16384, asked.rounds)
    lengths = [128, 512, 1024] if quick else [128, 256, 384, 512, 1024, 2048, 4096, 8192, 16384]
    results = {"machine": machine.describe(torch, library, asked.threads), "quick": quick, "rounds": rounds,
               "n": n, "long": long, "heads": HEADS, "head_dim": DIM, **YOSO, "rows": [], "missing": []}
    build, threads, compiler = asked.build, asked.threads, not asked.no_compile
    works = {
        "peak": lambda: results.update(peak=tool(build, threads, "peak")),
        "length": lambda: lengths_work(torch, library, results, lengths, rounds),
        "clustered": lambda: clustered_work(torch, library, results, n, rounds),
        "bf16": lambda: bf16_work(torch, library, results, n, long, rounds),
        "approximation": lambda: approximations_work(torch, library, results, n, rounds, threads, compiler),
        "mechanisms": lambda: mechanisms.work(torch, sys.modules[__name__], library, results, n, min(rounds, 3), compiler,
                                              asked.mechanisms.split(",") if asked.mechanisms else ()),
        "layer": lambda: layer_work(torch, build, results, n, rounds, threads, compiler),
        "step": lambda: step_work(torch, build, results, *((4, 1024) if quick else (32, 2048)), rounds, threads),
        "lha": lambda: lha_work(build, results, n, [n, 4 * n, 16 * n], rounds, threads),
        "stream": lambda: stream_work(build, results, 1 << (16 if quick else 24), threads),
        "files": lambda: files_work(build, results, 1 << (16 if quick else 24), threads, min(rounds, 3)),
    }
    for name, work in works.items():
        if only is None or name in only:
            begun = time.time()
            work()
            print(f"{name}: {time.time() - begun:.0f} s", file=sys.stderr)
            keep(asked.build, results)
    return results


def keep(build, results):
    """After each work: what was measured is not lost with what comes after it."""
    with open(os.path.join(build, "peers.json"), "w") as file:
        json.dump(results, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--setup", action="store_true", help="make the private environment, then leave")
    parser.add_argument("--quick", action="store_true", help="small shapes, one round: does everything run?")
    parser.add_argument("--docs", action="store_true", help="replace this machine's figures in docs/results/tables.jsonl")
    parser.add_argument("--show", metavar="TABLE", nargs="?", const="", help="print a table of docs/results; without a name, list all")
    parser.add_argument("--tables", metavar="FILE.json", help="measure nothing: the tables of an earlier run")
    parser.add_argument("--only", metavar="WORK,...", help="peak, length, clustered, bf16, approximation, mechanisms, layer, "
                        "step, lha, stream, files")
    parser.add_argument("--mechanisms", metavar="NAME,...", help="those of the work `mechanisms` (files of bench/rivals); all")
    parser.add_argument("--no-compile", action="store_true", help="do not try torch.compile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    environment = os.path.join(asked.build, "peers-env")
    if asked.setup:
        return setup(environment)
    if asked.show is not None:
        import show
        return show.main(asked.show)
    import results as kept
    import tables
    if asked.tables:
        with open(asked.tables) as file:
            results = json.load(file)
    else:
        enter(environment, "bench/peers.py --setup", asked.threads)
        results = measure(asked)
    text = tables.document(results)
    with open(os.path.join(asked.build, "peers.md"), "w") as file:
        file.write(text)
    print(text)
    if asked.docs:
        here = results["machine"]
        kept.publish(tables.tables(results), here["kind"], here["commit"], here["date"], partial=bool(asked.only))


if __name__ == "__main__":
    sys.exit(main())
