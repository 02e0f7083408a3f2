#!/usr/bin/env python3
"""GLUE dev scores by the grid of the YOSO paper: batch sizes 8, 16 and 32, learning rates 2e-5 to 5e-5, four epochs.

  bench/glue.py BUILD --data GLUE --out DIR --from MODEL [--from "NAME=MODEL:MECHANISM --OPTION X"] [--sets RTE,MRPC] [--seeds 5]
  bench/glue.py BUILD --data GLUE --out DIR --small

GLUE: a directory with RTE, MRPC, ... in the official layout (train.tsv, dev.tsv). It may have a set of documents, the folder
IMDb in the layout of aclImdb: the epoch is chosen on a tenth of train, and the score is that on test. MODEL: a run or a
checkpoint that each training starts from; MECHANISM replaces its attention, as in YOSO-x-E rows (pretrained with samples,
fine-tuned with yoso-e). --before: a row of each further model before fine-tuning: its mechanism in the first model's
fine-tuned runs. --tune EPOCHS: hashes that a mechanism learns (lha) are trained so long with all else frozen, before either
row. --small: models from scratch, or small pretrained ones, with larger learning rates. A score is that of the best epoch
on dev. As in the paper, the best of the grid is reported: every point of it runs with the first seed, and the best point
with all seeds. The table has mean and standard deviation over seeds, and the chosen point. Its first row, "majority",
always answers the most frequent label of train; a correlation with a constant is written as 0.

Resume: run the same command again. A finished training has DIR/.../done.json; one that was stopped continues bit for
bit. The table is written to DIR/table.md and to stdout."""
import argparse
import os
import statistics
import sys
from collections import Counter

from runs import once
from trainings import LEARN_HASHES, TUNING, replaced, tool, train

SETS = {"CoLA": ["matthews"], "SST-2": ["accuracy"], "MRPC": ["f1", "accuracy"], "QQP": ["f1", "accuracy"],
        "STS-B": ["pearson", "spearman"], "MNLI": ["accuracy"], "QNLI": ["accuracy"], "RTE": ["accuracy"], "IMDb": ["accuracy"]}
DOCUMENTS = "IMDb"  # folders train and test, which have a folder for each label
# Column of the label in a .tsv, and the label that is positive. STS-B has none: every correlation with a constant is undefined.
LABELS = {"CoLA": (1, "1"), "SST-2": (-1, "1"), "MRPC": (0, "1"), "QQP": (-1, "1"), "MNLI": (-1, None), "QNLI": (-1, None),
          "RTE": (-1, None), DOCUMENTS: (None, None)}
PAPER = {"batches": [8, 16, 32], "rates": [2e-5, 3e-5, 4e-5, 5e-5], "epochs": 4}
SMALL = {"batches": [16, 32], "rates": [1e-4, 3e-4, 1e-3], "epochs": 4}


class Model:
    """A model to start from: "NAME=DIR:MECHANISM", name and mechanism optional; "scratch" starts from the seed."""

    def __init__(self, text):
        name, equals, rest = text.partition("=")
        if not equals:
            name, rest = "", text
        self.directory, _, self.mechanism = rest.partition(":")
        self.name = name or "-".join(filter(None, [os.path.basename(self.directory.rstrip("/")), self.mechanism]))

    def attention(self):
        return ["--attention", *self.mechanism.split()] if self.mechanism else []

    def options(self):
        return ([] if self.directory == "scratch" else ["--from", self.directory]) + self.attention()

    def learns_hashes(self):
        return self.directory != "scratch" and self.mechanism.partition(" ")[0] in LEARN_HASHES


def place_of(arguments, model, which, batch, rate, seed):
    return os.path.join(arguments.out, model.name, which, f"batch{batch}-rate{rate:g}-seed{seed}")


def data_of(arguments, which):
    data = os.path.join(arguments.data, which)
    return ["text", "--data", data] if which == DOCUMENTS else ["glue", "--data", data, "--name", which]


def evaluated(arguments, directory, which):
    found = tool(arguments, "eval", directory, "--split", "test" if which == DOCUMENTS else "valid")
    return {name: found[name] for name in SETS[which]}


def remove_states(arguments, directory):
    """The best model stays."""
    for name in "last.safetensors", "optimizer.safetensors":
        path = os.path.join(directory, name)
        if os.path.exists(path) and not arguments.keep:
            os.remove(path)


def tune(arguments, model, which, batch, seed, start, directory):
    """Trains the hashes of the model's mechanism in the run or checkpoint `start`, with all else frozen."""
    train(arguments, directory, *data_of(arguments, which), "--from", start, *model.attention(), *TUNING,
          "--epochs", arguments.tune, "--batch", batch, "--seed", seed, *arguments.train)


def run(arguments, model, which, batch, rate, seed):
    """Trains one point, unless it is done, and returns the scores of its best model on dev."""
    place = place_of(arguments, model, which, batch, rate, seed)
    directory = os.path.join(place, "run")

    def compute():
        options = model.options()
        if arguments.tune and model.learns_hashes():
            tuned = os.path.join(place, "tuned")
            tune(arguments, model, which, batch, seed, model.directory, tuned)
            remove_states(arguments, tuned)
            options = ["--from", tuned]
        train(arguments, directory, *data_of(arguments, which), *options, "--epochs", arguments.epochs, "--batch", batch,
              "--learning-rate", f"{rate:g}", "--seed", seed, *arguments.train)
        return evaluated(arguments, directory, which)
    scores = once(os.path.join(place, "done.json"), compute)
    remove_states(arguments, directory)
    return scores


def before(arguments, model, which, batch, rate, seed):
    """The scores of the first model's run with this model's mechanism, not fine-tuned with it."""
    start = os.path.join(place_of(arguments, arguments.models[0], which, batch, rate, seed), "run")
    place = place_of(arguments, model, which, batch, rate, seed)

    def compute():
        directory = os.path.join(place, "before")
        if arguments.tune and model.learns_hashes():
            tune(arguments, model, which, batch, seed, start, directory)
            remove_states(arguments, directory)
        else:
            replaced(arguments, directory, *data_of(arguments, which), "--from", start, *model.attention(), *arguments.train)
        return evaluated(arguments, directory, which)
    return once(os.path.join(place, "before.json"), compute)


def score_of(scores):
    return statistics.mean(scores.values())


def measure(arguments, model, which):
    """The best point of the grid by the first seed, and its scores by all seeds."""
    grid = [(batch, rate) for batch in arguments.batches for rate in arguments.rates]
    first = arguments.first_seed
    best = max(grid, key=lambda point: score_of(run(arguments, model, which, *point, first)))
    seeds = range(first, first + arguments.seeds)
    return best, [run(arguments, model, which, *best, seed) for seed in seeds]


def cell(results):
    """"88.1 ± 0.4 / 83.0 ± 0.6", per cent, for each metric of the set."""
    parts = []
    for name in results[0]:
        values = [100 * scores[name] for scores in results]
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        parts.append(f"{statistics.mean(values):.1f}{spread}")
    return " / ".join(parts)


def labels(arguments, which, split):
    """The number of examples of each label."""
    place = os.path.join(arguments.data, which, split)
    if which == DOCUMENTS:
        return Counter({label: len(os.listdir(os.path.join(place, label))) for label in ("neg", "pos")})
    with open(place + ".tsv", encoding="utf-8-sig", errors="replace", newline="\n") as file:
        lines = file.read().rstrip("\n").split("\n")[which != "CoLA":]  # CoLA has no header
    return Counter(line.rstrip("\r").split("\t")[LABELS[which][0]] for line in lines)


def majority(arguments, which):
    """Scores of always answering the most frequent label of train."""
    if which not in LABELS:
        return {name: 0.0 for name in SETS[which]}
    positive = LABELS[which][1]
    train, scored = (labels(arguments, which, split) for split in ("train", "test" if which == DOCUMENTS else "dev"))
    answer = train.most_common(1)[0][0]
    share = scored[answer] / sum(scored.values())
    known = {"accuracy": share, "matthews": 0.0, "f1": 2 * share / (1 + share) if answer == positive else 0.0}
    return {name: known[name] for name in SETS[which]}


def table(arguments, found):
    heads = [f"{which} ({', '.join(SETS[which])})" for which in arguments.sets]
    lines = ["| model | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    lines.append("| majority | " + " | ".join(cell([majority(arguments, which)]) for which in arguments.sets) + " |")
    for name in dict.fromkeys(name for name, _ in found):
        cells = [cell(found[name, which][1]) if (name, which) in found else "-" for which in arguments.sets]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", f"Scores in per cent, best of {arguments.epochs} epochs; mean and standard deviation of "
                  f"{arguments.seeds} seeds. Points of the grid (batch, learning rate) chosen by the first seed:", ""]
    for (name, which), (point, _) in sorted(found.items()):
        lines.append(f"- {name}, {which}: {point[0]}, {point[1]:g}")
    return "\n".join(lines) + "\n"


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build directory with the tool")
    parser.add_argument("--data", required=True, help="directory with the sets")
    parser.add_argument("--out", required=True, help="directory of the trainings and the table")
    parser.add_argument("--from", dest="models", action="append", type=Model, metavar="[NAME=]DIR[:MECHANISM]",
                        help="a model to start from; may be repeated (default: scratch)")
    parser.add_argument("--before", choices=("also", "only"), help="rows before fine-tuning, with those after it or without")
    parser.add_argument("--tune", type=float, default=0, metavar="EPOCHS", help="train learned hashes first, all else frozen")
    parser.add_argument("--sets", type=numbers(str), help="names between commas (default: those with train.tsv)")
    parser.add_argument("--small", action="store_true", help="the grid of small models, with larger rates")
    parser.add_argument("--batches", type=numbers(int))
    parser.add_argument("--rates", type=numbers(float))
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds for the best point")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="keep the training states, for continuing them by hand")
    parser.add_argument("train", nargs="*", help="options of `train glue` after --, as in -- --max-len 64")
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:at])
    arguments.train = words[at + 1:]
    for name, value in (SMALL if arguments.small else PAPER).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    arguments.models = arguments.models or [Model("scratch")]
    present = [name for name in SETS
               if os.path.exists(os.path.join(arguments.data, name, "train" if name == DOCUMENTS else "train.tsv"))]
    arguments.sets = arguments.sets or present
    missing = [name for name in arguments.sets if name not in present]
    if missing or not arguments.sets:
        parser.error(f"{arguments.data} has no training examples of {', '.join(missing) or 'any set'}")
    return arguments


def rows(arguments, model, which, found):
    """The point and the scores of each row of a model."""
    first = arguments.models[0]
    if arguments.before and model is not first:
        point, _ = found[first.name, which]
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        yield f"{model.name}, before fine-tuning", (point, [before(arguments, model, which, *point, seed) for seed in seeds])
    if arguments.before != "only" or model is first:
        yield model.name, measure(arguments, model, which)


def main():
    arguments, found = read_arguments(), {}
    for model in arguments.models:
        for which in arguments.sets:
            for row, (point, results) in rows(arguments, model, which, found):
                found[row, which] = point, results
                print(f"{row}, {which}: {cell(results)} at batch {point[0]}, rate {point[1]:g}", file=sys.stderr)
                text = table(arguments, found)
                with open(os.path.join(arguments.out, "table.md"), "w") as file:
                    file.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
