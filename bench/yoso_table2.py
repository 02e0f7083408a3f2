#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Table 2 of the YOSO paper in small: masked tokens and the order of texts, learned with softmax, with the expectation
yoso-e and with 64, 32 and 16 hashes (gradients true and released), each evaluated with 8 to 128 hashes and with the
expectation.

  bench/yoso_table2.py BUILD --data DIR --out DIR [--steps N] [--seeds 3] [--only yoso-32-true,...] [-- OPTIONS]

--data: token files of `hashattn data mlm`, with an order. OPTIONS go to every training: --size tiny, --batch 32. A model
that learned with softmax is evaluated with softmax only; one that learned with yoso or yoso-e with every other number of
hashes, and "E", the expectation. One table has the validation perplexity of masked tokens, one the accuracy of the order:
mean, and standard deviation over seeds.

Resume: run the same command again. A finished training has DIR/NAME/seedN/done.json, each evaluation a file beside it; a
training that was stopped continues bit for bit. The table is written to DIR/table.md and to stdout."""
import argparse
import os
import statistics
import sys

from runs import once
from trainings import replaced, scores, tool, train

HASHES = [8, 16, 32, 64, 128]
MODELS = {"softmax": ["--attention", "softmax"], "yoso-e": ["--attention", "yoso-e"]}
for count in (64, 32, 16):
    for gradient in ("lower", "true", "released"):
        MODELS[f"yoso-{count}-{gradient}"] = ["--attention", "yoso", "--num-hashes", str(count), "--gradient", gradient]


def evaluate(given, name, seed):
    """Scores by what they were computed with."""
    place = os.path.join(given.out, name, f"seed{seed}")
    run = os.path.join(place, "run")
    once(os.path.join(place, "done.json"), lambda: train(
        given, run, "mlm", "--data", given.data, *MODELS[name], "--steps", given.steps, "--seed", seed, *given.train))

    def itself(*options):
        return scores(tool(given, "eval", run, "--split", "valid", *options))

    def with_other(label, *attention):
        return scores(replaced(given, os.path.join(place, "with-" + label), "mlm", "--data", given.data, "--from", run,
                               *attention), "valid_")

    ways = {"softmax": itself} if name == "softmax" else {"E": itself} if name == "yoso-e" else {
        "E": lambda: with_other("E", "--attention", "yoso-e")}
    for hashes in HASHES if name != "softmax" else []:
        if name == "yoso-e":
            ways[str(hashes)] = lambda m=hashes: with_other(str(m), "--attention", "yoso", "--num-hashes", m)
        else:
            ways[str(hashes)] = lambda m=hashes: itself("--num-hashes", m)
    return {way: once(os.path.join(place, way + ".json"), compute) for way, compute in ways.items()}


def over_seeds(values):
    """Mean, and standard deviation if there is more than one."""
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


def table(all_scores, title, value_of):
    columns = ["softmax", *map(str, HASHES), "E"]
    lines = [title + ":", "", "| learned with | softmax | " + " | ".join(f"m {m}" for m in HASHES) + " | E |",
             "|---|" + "---|" * len(columns)]
    for name, seeds in all_scores.items():
        known = [[value_of(scored[column]) for scored in seeds if column in scored] for column in columns]
        lines.append(f"| {name} | " + " | ".join(over_seeds(values) if values else "" for values in known) + " |")
    return "\n".join(lines)


def document(all_scores):
    return "\n\n".join([table(all_scores, "Perplexity of masked tokens", lambda scored: scored["perplexity"]),
                        table(all_scores, "Accuracy of the order in per cent", lambda scored: 100 * scored["order"])])


def main():
    words, options = sys.argv[1:], []
    if "--" in words:
        words, options = words[:words.index("--")], words[words.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="names of models, separated by commas: " + ", ".join(MODELS))
    given = parser.parse_args(words)
    given.train = options
    names = given.only.split(",") if given.only else list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join(MODELS)}")
    done = {}
    for seed in range(1, given.seeds + 1):
        for name in names:
            done.setdefault(name, []).append(evaluate(given, name, seed))
            text = document(done)
            with open(os.path.join(given.out, "table.md"), "w") as file:
                file.write(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
