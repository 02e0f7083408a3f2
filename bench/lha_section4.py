#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Section 4 of the LHA paper in small: how much of a trained softmax model is kept when its heads are replaced by hashed
ones, over numbers of buckets B.

  bench/lha_section4.py masked BUILD --from RUN --data DIR --out DIR
  PYTHONPATH=BUILD/python ENV/bin/python bench/lha_section4.py listops BUILD --weights FILE --data DIR --known FILE... --out DIR

masked: RUN is a run of `train mlm --attention softmax`, DIR its token files. Everything is done by the tool.
listops: FILE is the ListOps encoder of github.com/imanefjer/LongListOps as safetensors, DIR is made by `hashattn data
listops`, and a file of --known has rows "label TAB expression". ENV has PyTorch (lha_listops.py).

Every mechanism computes about 2 / B of all pairs. The heads are
  replaced   and nothing is trained; `none` looks at no other token, `random` at tokens that chance chooses
  hashes     of lha, and only its hashes are trained, with the rest frozen
  all        and everything is trained for the same number of steps, lha from its trained hashes; softmax too, because
             longer training helps every model
Mode `paper` computes the scores that the model has learned; `released` (the default of the tool) normalises queries and
keys, which a trained model does not expect. "lha released" is that, trained in both stages.

Resume: run the same command again. Each figure is a file in --out, and so is each training. The tables are written to
DIR/table.md and to stdout."""
import argparse
import json
import os
import statistics
import struct

from runs import once
from trainings import replaced, scores, tool, train

HASHED = ("lsh", "lha", "lha released")  # can be inspected by the tool
# (mechanism, what is trained), in the order of the table. The first ones have no buckets.
WHOLE = [("softmax", "replaced"), ("none", "replaced"), ("softmax", "all"), ("none", "all")]
WAYS = [("random", "replaced"), ("local", "replaced"), ("lsh", "replaced"), ("smyrf", "replaced"), ("lha", "replaced"),
        ("lha", "hashes"), ("random", "all"), ("lsh", "all"), ("lha", "all"),
        ("lha released", "hashes"), ("lha released", "all")]
SAMPLED = {"random", "lsh", "smyrf", "lha", "lha released"}  # differ from seed to seed


def options_of(mechanism, buckets, n):
    """Options with which the mechanism computes about 2 / buckets of the pairs of n tokens."""
    if mechanism in ("softmax", "none"):
        return {}
    if mechanism == "local":
        return {"block_size": max(1, round(2 * n / (3 * buckets)))}
    if mechanism == "smyrf":
        return {"rounds": 2, "cluster_size": -(-n // buckets)}
    return {"mode": "released" if mechanism == "lha released" else "paper", "num_buckets": buckets}


class Masked:
    """Masked tokens, by the tool."""

    title = "perplexity of masked tokens (accuracy of the order of texts)"

    def __init__(self, given):
        self.given = given
        with open(os.path.join(given.start, "config.json")) as file:
            config = json.load(file)
        if config["task"]["name"] != "mlm" or config["attention"]["name"] != "softmax":
            raise SystemExit(f"{given.start} is a run of {config['task']['name']} with {config['attention']['name']}; "
                             "one of mlm with softmax is needed")
        with open(os.path.join(given.data, "valid.tokens"), "rb") as file:  # docs/FORMATS.md
            examples, tokens = struct.unpack("<16x2Q", file.read(32))
        self.n = -(-tokens // examples)  # the mean length

    def place(self, way, buckets, seed):
        mechanism, stage = way
        name = mechanism.replace(" ", "-") + (f"-{buckets}" if buckets else "")
        return os.path.join(self.given.out, name, f"{stage}-seed{seed}")

    def attention(self, mechanism, buckets):
        words = [word for name, value in options_of(mechanism, buckets, self.n).items()
                 for word in ("--" + name.replace("_", "-"), value)]
        return ["--attention", mechanism.split()[0], *words]

    def score(self, way, buckets, seed):
        (mechanism, stage), given = way, self.given
        run = os.path.join(self.place(way, buckets, seed), "run")
        attention = [*self.attention(mechanism, buckets), "--seed", seed]
        if stage == "replaced":
            return scores(replaced(given, run, "mlm", "--data", given.data, "--from", given.start, *attention), "valid_")
        steps, rate, start, freeze = given.steps, given.rate, given.start, []
        if stage == "hashes":
            steps, rate, freeze = given.hash_steps, given.hash_rate, ["--freeze", "all-but-own"]
        elif mechanism.startswith("lha"):
            self.figure((mechanism, "hashes"), buckets, seed)
            start = os.path.join(self.place((mechanism, "hashes"), buckets, seed), "run")
        return scores(train(given, run, "mlm", "--data", given.data, "--from", start, *attention, *freeze, "--steps", steps,
                            "--eval-every", steps, "--batch", given.batch, "--learning-rate", rate,
                            "--warmup", steps // 10), "valid_")

    def figure(self, way, buckets, seed):
        return once(os.path.join(self.place(way, buckets, seed), "scores.json"), lambda: self.score(way, buckets, seed))

    def caught(self, way, buckets, seed):
        """Per cent of the attention that pairs hold, of the pairs, and the bound; None: the tool cannot tell."""
        if way[0] not in HASHED:
            return None
        self.figure(way, buckets, seed)
        place = self.place(way, buckets, seed)
        found = once(os.path.join(place, "inspect.json"), lambda: tool(
            self.given, "inspect", os.path.join(place, "run"), "--split", "valid", "--examples", self.given.inspected))
        return {name: 100 * found["all"]["own"][name] for name in ("utility", "pairs", "bound")}

    @staticmethod
    def cell(figures):
        text = f"{statistics.mean(f['perplexity'] for f in figures):.1f}"
        if "order" in figures[0]:
            text += f" ({100 * statistics.mean(f['order'] for f in figures):.1f} %)"
        return text


def spread_table(work, name, cell, rows, seeds):
    """One line for each way, one column for each number of buckets; cell: text from the figures of the seeds, or None."""
    buckets = work.given.buckets
    lines = [f"| {name} | trained | " + " | ".join(f"B {b}" for b in buckets) + " |", "|---|---|" + "---|" * len(buckets)]
    for way in rows:
        cells = [cell(way, b, seeds if way[0] in SAMPLED else seeds[:1]) for b in buckets]
        if any(cells):
            trained = {"replaced": "nothing", "hashes": "hashes", "all": "all"}[way[1]]
            lines.append(f"| `{way[0]}` | {trained} | " + " | ".join(text or "" for text in cells) + " |")
    return lines


def tables(work, seeds):
    lines = [f"Cells: {work.title}. The same at every B:", "", "| heads | trained | |", "|---|---|---|"]
    for way in WHOLE:
        figures = [work.figure(way, 0, seeds[0])]
        lines.append(f"| `{way[0]}` | {'all' if way[1] == 'all' else 'nothing'} | {work.cell(figures)} |")
    rows = [way for way in WAYS if way[0] in work.given.only]

    def score(way, b, some):
        return work.cell([work.figure(way, b, seed) for seed in some])

    def utility(way, b, some):
        found = [work.caught(way, b, seed) for seed in some]
        return found[0] and " / ".join(f"{statistics.mean(each[name] for each in found):.1f}"
                                       for name in ("utility", "pairs", "bound"))
    lines += ["", *spread_table(work, "heads", score, rows, seeds), "",
              "Per cent of the attention weight of all pairs that the pairs of the buckets hold / of the pairs / held by as "
              "many pairs if each query chose its best keys:", "", *spread_table(work, "heads", utility, rows, seeds)]
    return "\n".join(lines) + "\n"


def numbers(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    masked, listops = kinds.add_parser("masked"), kinds.add_parser("listops")
    for kind in masked, listops:
        kind.add_argument("build", help="build directory with the tool")
        kind.add_argument("--data", required=True, help="token files, or the directory of `hashattn data listops`")
        kind.add_argument("--out", required=True)
        kind.add_argument("--buckets", type=numbers(int), default=[4, 8, 16, 32])
        kind.add_argument("--seeds", type=int, default=1)
        kind.add_argument("--only", type=numbers(str), default=sorted({way[0] for way in WAYS}), help="mechanisms")
        kind.add_argument("--threads", type=int, default=os.cpu_count())
        kind.add_argument("--hash-steps", type=int, default=200)
        kind.add_argument("--hash-rate", type=float, default=3e-3)
        kind.add_argument("--steps", type=int, default=200)
        kind.add_argument("--rate", type=float, default=1e-4)
        kind.add_argument("--batch", type=int, default=16)
        kind.add_argument("--inspected", type=int, default=8, help="sequences for the shares of attention")
    masked.add_argument("--from", dest="start", required=True, help="run of `train mlm --attention softmax`")
    listops.add_argument("--weights", required=True)
    listops.add_argument("--known", action="append", default=[], help="rows \"label TAB expression\"; may be repeated")
    listops.add_argument("--rows", type=int, default=500, help="test rows of --data, and of each --known")
    given = parser.parse_args()
    unknown = set(given.only) - {way[0] for way in WAYS}
    if unknown:
        parser.error(f"no mechanism {min(unknown)}; there are {', '.join(sorted({way[0] for way in WAYS}))}")
    return given


def main():
    given = read_arguments()
    if given.kind == "masked":
        work = Masked(given)
    else:
        from lha_listops import ListOps  # needs PyTorch
        work = ListOps(given, options_of)
    os.makedirs(given.out, exist_ok=True)
    for count in range(1, given.seeds + 1):
        text = tables(work, list(range(1, count + 1)))
        with open(os.path.join(given.out, "table.md"), "w") as file:
            file.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
