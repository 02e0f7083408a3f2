#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vectors of documents keep if another mechanism takes the place of a trained model's attention, without training
(question 29 of docs/RESULTS.md).

    bench/drop_in.py BUILD MODEL --out DIR --sts STS-B/dev.tsv --pairs new_aan_pairs.test.tsv
                     --row "local=local" --row "lha 8=lha --mode paper --num-buckets 8" [--tune DATA]

Each row is a mechanism with its options; the row "stored" comes first. Columns:

- cosine: of a document's vector to its stored one, the mean over the documents of --pairs;
- pairs: how often the two documents of a positive pair are more alike than those of a negative one (area under the curve of
  the cosine; chance 50), by lines of label, two names and two texts, as in the Long Range Arena's Retrieval;
- STS-B: Spearman correlation of cosines with people's scores.

Documents are cut at the positions of the model. --tune DATA: hashes that a mechanism learns are trained first on the
documents of `train retrieval`, with all else frozen; no label takes part. A finished row is DIR/ROW/seedN.json; the table has
the mean over the seeds that DIR has, and their standard deviation.

A row is a forward pass over all texts: about 3 minutes of a Zen 1 core for 467 papers and STS-B; --tune takes 15 more."""

import argparse
import bisect
import glob
import json
import math
import operator
import os
import statistics
import sys

from runs import once
from trainings import LEARN_HASHES, TUNING, tool, train

BATCH = 4  # of pairs in --tune: long documents have targets enough, and hashes need the steps
STORED = "stored"


def ranks(values):
    """From 1; equal values share the mean of theirs."""
    order = sorted(values)
    return [(bisect.bisect_left(order, value) + bisect.bisect_right(order, value) + 1) / 2 for value in values]


def spearman(first, second):
    return statistics.correlation(ranks(first), ranks(second))


def area(scores, positive):
    """The share of pairs (positive, negative) in which the positive one has the larger score; half of those that are equal."""
    of = ranks(scores)
    ones = sum(positive)
    over = sum(rank for rank, one in zip(of, positive) if one) - ones * (ones + 1) / 2
    return over / (ones * (len(scores) - ones))


def dot(first, second):
    return sum(map(operator.mul, first, second))


def cosine(first, second):
    return dot(first, second) / math.sqrt(dot(first, first) * dot(second, second))


def fields(paths, header):
    for path in paths:
        with open(path, encoding="utf-8", newline="\n") as file:
            for line in list(file)[header:]:
                yield line.rstrip("\r\n").split("\t")


def sentence_pairs(path):
    """[(text, text, score)] of STS-B: columns 7 to 9, after a line of names."""
    return [(row[7], row[8], float(row[9])) for row in fields([path], 1)]


def document_pairs(paths):
    """({name: text}, [(name, name, label)])"""
    texts, pairs = {}, []
    for label, *names, first, second in fields(paths, 0):
        texts.update(zip(names, (first, second)))
        pairs.append((*names, float(label) > 0))
    return texts, pairs


def embed(given, model, options, texts, seed):
    """{name: vector}"""
    source, target = (os.path.join(given.out, name) for name in ("texts.jsonl", "vectors.jsonl"))
    with open(source, "w", encoding="utf-8") as file:
        for name, text in texts.items():
            file.write(json.dumps({"id": name, "text": text}) + "\n")
    if os.path.exists(target):
        os.remove(target)
    tool(given, "embed", model, source, "--out", target, "--truncate", "--seed", seed, *options)
    with open(target, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return {row["id"]: row["vector"] for row in rows}


def tuned(given, options, seed, place):
    run = os.path.join(place, f"tuned-seed{seed}")
    train(given, run, "retrieval", "--data", given.tune, "--from", given.model, *options, *TUNING, "--batch", BATCH,
          "--steps", given.steps, "--eval-every", given.steps, "--seed", seed)
    return run


def measure(given, row, seed, data):
    """The figures of a row, and with them its vectors of documents."""
    name, options = row
    place = os.path.join(given.out, name)

    def compute():
        model, attention = given.model, options
        if given.tune and options and options[1] in LEARN_HASHES:
            model, attention = tuned(given, options, seed, place), []
        documents = embed(given, model, attention, data["texts"], seed)
        sentences = embed(given, model, attention, data["sentences"], seed)
        alike = [cosine(documents[first], documents[second]) for first, second, _ in data["pairs"]]
        scores = [score for _, _, score in data["scores"]]
        near = [cosine(sentences[first], sentences[second]) for first, second, _ in data["scores"]]
        return {"pairs": area(alike, [label for *_, label in data["pairs"]]), "STS-B": spearman(near, scores),
                "documents": documents}
    return once(os.path.join(place, f"seed{seed}.json"), compute)


def cell(values, digits):
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def table(given):
    def found(name):
        for path in sorted(glob.glob(os.path.join(glob.escape(given.out), glob.escape(name), "seed*.json"))):
            with open(path, encoding="utf-8") as file:
                yield json.load(file)

    stored = next(found(STORED))["documents"]
    lines = ["| attention | cosine | pairs | STS-B |", "|---|---|---|---|"]
    for name, _ in given.rows:
        seeds = list(found(name))
        near = [statistics.mean(cosine(each["documents"][key], stored[key]) for key in stored) for each in seeds]
        lines.append(f"| {name} | {cell(near, 3)} | {cell([100 * each['pairs'] for each in seeds], 1)} | "
                     f"{cell([100 * each['STS-B'] for each in seeds], 1)} |")
    return "\n".join(lines)


def row_of(text):
    name, equals, mechanism = text.partition("=")
    if not equals or not mechanism:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=MECHANISM with its options")
    return name, ["--attention", *mechanism.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build directory with the tool")
    parser.add_argument("model", help="a checkpoint with a tokenizer, or a run")
    parser.add_argument("--out", required=True, help="directory of the finished rows")
    parser.add_argument("--sts", required=True, metavar="FILE")
    parser.add_argument("--pairs", required=True, nargs="+", metavar="FILE")
    parser.add_argument("--row", dest="rows", action="append", default=[], type=row_of, metavar="NAME=MECHANISM")
    parser.add_argument("--tune", metavar="DATA", help="directory of `train retrieval`")
    parser.add_argument("--steps", type=int, default=160, help="of --tune (default 160)")
    parser.add_argument("--seed", type=int, default=1, help="of hashes (default 1)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    given.rows.insert(0, (STORED, []))
    os.makedirs(given.out, exist_ok=True)
    texts, pairs = document_pairs(given.pairs)
    sentences = sentence_pairs(given.sts)
    data = {"texts": texts, "pairs": pairs, "scores": [(f"{i}a", f"{i}b", row[2]) for i, row in enumerate(sentences)],
            "sentences": {f"{i}{side}": text for i, row in enumerate(sentences) for side, text in zip("ab", row[:2])}}
    for row in given.rows:
        found = measure(given, row, given.seed if row[0] != STORED else 0, data)
        print(f"{row[0]}: pairs {100 * found['pairs']:.1f}, STS-B {100 * found['STS-B']:.1f}", file=sys.stderr)
    print(table(given))


if __name__ == "__main__":
    main()
