#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of masked tokens beside the same step in PyTorch with SDPA, in turn, in one run.

    bench/peers.py --setup                 once: PyTorch into BUILD/peers-env
    bench/pretraining.py [--quick]         measures: BUILD/pretraining.json, about ten minutes
    bench/pretraining.py --docs            measures, and puts the figures of this machine into docs/results

Both train BERT (post-LN, GELU, dropout 0.1, tied output behind a transform, AdamW) on pieces of one length, so PyTorch
pads nothing. Both compute the output for the 15 % of rows that are masked. PyTorch has no dropout of attention
probabilities, its fused AdamW, and torch.compile where that is faster. Memory is that of peers.py."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from contest import Contender, clock, compete, reason
from environment import enter
from figures import median, row_of
from page import Table

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"tiny": (2, 128, 2), "small": (4, 512, 8), "base": (12, 768, 12)}  # layers, dim, heads; feed-forward 4 dim
VOCAB, SHARE = 30000, 0.15
WORK = [("tiny", 512, 16), ("small", 512, 8), ("base", 512, 4),  # model, tokens of a piece, pieces of a batch
        ("tiny", 4096, 2), ("small", 4096, 1), ("base", 4096, 1)]
QUICK = [("tiny", 512, 2), ("tiny", 1024, 1)]


def words(path, size):
    """A file of random words of two to nine letters, one document a paragraph: enough pairs for VOCAB tokens."""
    import random
    draw = random.Random(1)
    vocabulary = ["".join(draw.choices("etaoinshrdlucmfwypvbgkjqxz", k=draw.randint(2, 9))) for _ in range(60000)]
    with open(path, "w") as file:
        while file.tell() < size:
            file.write(" ".join(draw.choices(vocabulary, k=6000)) + ".\n\n")


def data(tool, folder, lengths, vocab):
    """Data sets of the task mlm by length: whole documents in pieces, without order."""
    run = lambda *command: subprocess.run([tool, *map(str, command)], check=True)
    text, tokenizer = os.path.join(folder, "words.txt"), os.path.join(folder, "tokenizer")
    words(text, 8 << 20)
    run("tokenizer", "train", text, "--vocab-size", vocab, "--out", tokenizer, "--quiet")
    for n in lengths:
        run("data", "mlm", text, "--tokenizer", tokenizer, "--seq-len", n, "--long", "--order", "none", "--quiet",
            "--out", os.path.join(folder, str(n)))
    return {n: os.path.join(folder, str(n)) for n in lengths}


def torch_step(size, n, batch, vocab):
    """A call that makes one step."""
    import torch
    import torch.nn.functional as F
    layers, dim, heads = size

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(vocab, dim), torch.nn.Embedding(n, dim)
            self.kinds, self.norm = torch.nn.Embedding(2, dim), torch.nn.LayerNorm(dim)
            self.layers = torch.nn.ModuleList([torch.nn.ModuleDict(dict(
                qkv=torch.nn.Linear(dim, 3 * dim), out=torch.nn.Linear(dim, dim), up=torch.nn.Linear(dim, 4 * dim),
                down=torch.nn.Linear(4 * dim, dim), norm1=torch.nn.LayerNorm(dim), norm2=torch.nn.LayerNorm(dim)))
                for _ in range(layers)])
            self.transform, self.last = torch.nn.Linear(dim, dim), torch.nn.LayerNorm(dim)
            self.bias = torch.nn.Parameter(torch.zeros(vocab))
            for module in self.modules():
                if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
                    torch.nn.init.normal_(module.weight, std=0.02)

        def forward(self, ids, places, targets):
            x = self.words(ids) + self.places.weight[None] + self.kinds.weight[0]
            x = F.dropout(self.norm(x), 0.1)
            for part in self.layers:
                q, k, v = part["qkv"](x).view(batch, n, 3, heads, -1).permute(2, 0, 3, 1, 4)
                mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, n, dim)
                x = part["norm1"](x + F.dropout(part["out"](mixed), 0.1))
                x = part["norm2"](x + F.dropout(part["down"](F.gelu(part["up"](x))), 0.1))
            x = self.last(F.gelu(self.transform(x.view(-1, dim)[places])))
            return F.cross_entropy(F.linear(x, self.words.weight, self.bias), targets)

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    ids = torch.randint(5, vocab, (batch, n))
    places = torch.randperm(batch * n)[:round(SHARE * batch * n)].sort().values
    targets = torch.randint(5, vocab, (len(places),))

    def step_of(function):
        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = function(ids, places, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return step
    return step_of(model), lambda: step_of(torch.compile(model, dynamic=False))


def theirs(size, n, batch, vocab, try_compiler):
    plain, compiled = torch_step(SIZES[size], n, batch, vocab)
    label, call = "PyTorch with SDPA", plain
    if try_compiler:
        try:
            fused = compiled()
            fused()
            if clock(fused) < clock(plain):
                label, call = "PyTorch with SDPA, compiled", fused
        except Exception as error:  # no compiler for this machine: the plain step stays
            print(f"torch.compile: {reason(error)}", file=sys.stderr)
    return Contender("sdpa", label, calls={"step": call})


def ours(tool, threads, name, directory, size, batch, precision):
    command = [tool, "bench", "step", "mlm", "--data", directory, "--preset", "bert", "--size", size,
               "--attention", name, "--batch", str(batch), "--repeats", "2" if size == "base" else "5",
               "--threads", str(threads), "--precision", precision, "--json"]

    def measure():
        told = json.loads(subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *command], check=True, capture_output=True,
                                         text=True).stdout)
        return {"step": told["step_ms"], "memory": {"step": told["saved_bytes"] + told["workspace_bytes"]}}
    return Contender(name, f"hashattn with {name}", precision=precision, measure=measure)


def measure(asked, results):
    tool, vocab = os.path.join(asked.build, "hashattn"), 600 if asked.quick else VOCAB
    work = [row for row in (QUICK if asked.quick else WORK) if not asked.only or row[0] in asked.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        sets = data(tool, folder, sorted({n for _, n, _ in work}), vocab)
        for size, n, batch in work:
            contenders = [ours(tool, asked.threads, name, sets[n], size, batch, "float32")
                          for name in ("yoso", "softmax")]
            contenders.append(theirs(size, n, batch, vocab, not asked.no_compile))
            compete(results, f"pretraining {size}", contenders, 1 if asked.quick else asked.rounds, n=n, batch=batch)


def table(results):
    rows = []
    for row in results["rows"]:
        base = row_of(results, row["work"], "yoso", row["precision"], n=row["n"])
        text = f"{median(row['ms']['step']):.4g} ms"
        if base:
            text += f", {median([y / x for x, y in zip(base['ms']['step'], row['ms']['step'])]):.3g}x"
        if "step" in row["memory"]:
            text += f", {row['memory']['step'] / 2**20:.4g} MiB"
        rows.append(((row["work"].split()[1], str(row["n"]), str(row["batch"]), row["label"]),
                     {results["machine"]["kind"]: text}))
    return Table(["model", "tokens", "batch", "contender"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--quick", action="store_true", help="small shapes, one round: does everything run?")
    parser.add_argument("--docs", action="store_true", help="replace this machine's figures in docs/results/tables.jsonl")
    parser.add_argument("--only", metavar="SIZE,...", help=", ".join(SIZES))
    parser.add_argument("--no-compile", action="store_true", help="do not try torch.compile")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    enter(os.path.join(asked.build, "peers-env"), "bench/peers.py --setup", asked.threads)
    import torch
    import library
    import machine
    from results import publish
    torch.set_num_threads(asked.threads)
    described = machine.describe(torch, library.Library(asked.build, asked.threads), asked.threads)
    results = {"machine": described, "rows": [], "missing": []}
    measure(asked, results)
    with open(os.path.join(asked.build, "pretraining.json"), "w") as file:
        json.dump(results, file, indent=1)
    print(table(results).text())
    for missing in results["missing"]:
        print(f"missing: {missing}")
    if asked.docs:
        publish({"pretraining": table(results)}, described["kind"], described["commit"], described["date"], bool(asked.only))


if __name__ == "__main__":
    main()
