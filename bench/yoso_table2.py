#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Table 2 of the YOSO paper in small: masked tokens and the order of texts, learned with softmax, with the expectation
yoso-e and with 64, 32 and 16 hashes (gradients true and released), each evaluated with 8 to 128 hashes and with the
expectation.

  bench/yoso_table2.py BUILD --data DIR --out DIR [--steps N] [--seeds 3] [--only yoso-32-true,...] [-- OPTIONS]

--data: token files of `hashattn data mlm`, with an order. OPTIONS go to every training: --size tiny, --batch 32. A model
that learned with softmax is evaluated with softmax only; one that learned with yoso or yoso-e with every other number of
hashes, and "E", the expectation. A row has the validation perplexity of masked tokens and the accuracy of the order, means
over seeds.

Resume: run the same command again. A finished training has DIR/NAME/seedN/done.json, each evaluation a file beside it; a
training that was stopped continues bit for bit. The table is written to DIR/table.md and to stdout."""
import argparse
import json
import os
import statistics
import subprocess
import sys

HASHES = [8, 16, 32, 64, 128]
MODELS = {"softmax": ["--attention", "softmax"], "yoso-e": ["--attention", "yoso-e"]}
for count in (64, 32, 16):
    for gradient in ("lower", "true", "released"):
        MODELS[f"yoso-{count}-{gradient}"] = ["--attention", "yoso", "--num-hashes", str(count), "--gradient", gradient]


def tool(given, *words):
    """What the tool prints with --json."""
    command = [os.path.join(given.build, "hashattn"), *map(str, words), "--json", "--quiet", "--threads", str(given.threads)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def once(path, compute):
    """The content of a JSON file, computed if there is none."""
    if not os.path.exists(path):
        found = compute()
        with open(path + ".next", "w") as file:
            json.dump(found, file)
        os.replace(path + ".next", path)
    with open(path) as file:
        return json.load(file)


def train(given, name, seed):
    run = os.path.join(given.out, name, f"seed{seed}", "run")
    if os.path.exists(os.path.join(run, "config.json")):
        return tool(given, "train", "--resume", run)
    os.makedirs(os.path.dirname(run), exist_ok=True)
    return tool(given, "train", "mlm", "--data", given.data, "--out", run, *MODELS[name], "--steps", given.steps,
                "--seed", seed, *given.train)


def scores(found, prefix=""):
    return {key: found[prefix + metric] for key, metric in (("perplexity", "masked_tokens.perplexity"),
                                                            ("order", "classify.accuracy"))}


def replaced(given, place, label, *attention):
    """An evaluation with another mechanism: a training from the run that changes nothing, because `eval` keeps the
    mechanism."""
    found = tool(given, "train", "mlm", "--data", given.data, "--from", os.path.join(place, "run"), *attention,
                 "--steps", 1, "--warmup", 0, "--learning-rate", 0, "--eval-every", 1, "--batch", 1,
                 "--out", os.path.join(place, "with-" + label))
    return scores(found, "valid_")


def evaluate(given, name, seed):
    """Scores by what they were computed with."""
    place = os.path.join(given.out, name, f"seed{seed}")
    once(os.path.join(place, "done.json"), lambda: train(given, name, seed))

    def itself(*options):
        return scores(tool(given, "eval", os.path.join(place, "run"), "--split", "valid", *options))

    ways = {"softmax": itself} if name == "softmax" else {"E": itself} if name == "yoso-e" else {
        "E": lambda: replaced(given, place, "E", "--attention", "yoso-e")}
    for hashes in HASHES if name != "softmax" else []:
        if name == "yoso-e":
            ways[str(hashes)] = lambda m=hashes: replaced(given, place, str(m), "--attention", "yoso", "--num-hashes", m)
        else:
            ways[str(hashes)] = lambda m=hashes: itself("--num-hashes", m)
    return {way: once(os.path.join(place, way + ".json"), compute) for way, compute in ways.items()}


def table(all_scores):
    columns = ["softmax", *map(str, HASHES), "E"]
    lines = ["| learned with | softmax | " + " | ".join(f"m {m}" for m in HASHES) + " | E |",
             "|---|" + "---|" * len(columns)]
    for name, seeds in all_scores.items():
        cells = []
        for column in columns:
            known = [scored[column] for scored in seeds if column in scored]
            cells.append("" if not known else f"{statistics.mean(k['perplexity'] for k in known):.1f} "
                         f"({100 * statistics.mean(k['order'] for k in known):.1f} %)")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
            text = table(done)
            with open(os.path.join(given.out, "table.md"), "w") as file:
                file.write(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
