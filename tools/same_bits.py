#!/usr/bin/env python3
"""Compares two builds bit for bit: same_bits.py BUILD OTHER [MECHANISM ...]. For changes that must not change results.

Outputs and gradients of every mechanism, or of those named, on several shapes, masks and precisions, and in chunks;
parameters and logs of short trainings of tasks that make their own data, with mechanisms and, without names, mixed heads,
a decoder and own losses. Learned parameters are drawn from the seed. What both builds refuse with the same message counts
as equal. Two minutes on two cores.
SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

SHAPES = [  # batch, heads, queries, keys, width, width of values, causal, mask, more options
    (1, 2, 150, 150, 16, 16, False, False, []),
    (2, 2, 33, 33, 8, 24, False, True, []),
    (1, 1, 40, 17, 16, 8, False, True, []),
    (1, 3, 64, 64, 16, 16, True, False, []),
    (1, 1, 5000, 5000, 8, 8, False, False, []),
    (1, 2, 150, 150, 16, 16, False, False, ["--precision", "bf16"]),
]
SMALL = ["--layers", "2", "--dim", "16", "--heads", "2", "--ffn", "32", "--steps", "6", "--eval-every", "3", "--batch", "6",
         "--seed", "3", "--threads", "2", "--quiet"]
TRAININGS = [  # task, options
    ("needle", ["--attention", "softmax,yoso"]),
    ("needle", ["--attention", "lha", "--num-buckets", "4"]),
    ("needle", ["--attention", "local/local,lha", "--num-buckets", "4", "--accumulate", "2"]),
    ("needle", ["--attention", "yoso", "--conv-window", "5", "--dropout", "0.2", "--precision", "bf16"]),
    ("listops", ["--attention", "yoso", "--norm", "post"]),
    ("lm", ["--attention", "softmax", "--seq-len", "64"]),
    ("text", ["--attention", "yoso-e"]),
    ("forecast", ["--attention", "softmax", "--seq-len", "48", "--horizon", "12"]),
    ("forecast", ["--model", "informer", "--attention", "probsparse/softmax", "--seq-len", "48", "--horizon", "12",
                  "--distil", "--label-len", "24", "--norm", "post"]),
]


def array(path, shape, seed, ones=False):
    """Writes standard normal floats, or a mask with a tenth of zeros, as .npy."""
    drawn, count = random.Random(seed), 1
    for size in shape:
        count *= size
    kind = "|u1" if ones else "<f4"
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        if ones:
            file.write(bytes(int(drawn.random() > 0.1) for _ in range(count)))
        else:
            file.write(struct.pack(f"<{count}f", *(drawn.gauss(0, 1) for _ in range(count))))


class Side:
    """One of the two builds, in a directory of its own."""

    def __init__(self, build, folder):
        self.tool, self.folder = str(pathlib.Path(build).resolve() / "hashattn"), folder
        folder.mkdir()

    def run(self, *words):
        """Returns the exit code and what it printed on stderr, without the paths."""
        done = subprocess.run([self.tool, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.replace(str(self.folder), "")

    def files(self):
        """The files under the directory, without those that name the machine or the clock."""
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(self.folder.rglob("*"))
                if path.is_file() and path.name not in ("lock", "trainer.json", "log.jsonl")}


def losses(folder):
    """The numbers of a run's log except times, rates and bytes of memory."""
    kept = []
    for path in sorted(folder.rglob("log.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            kept.append({name: value for name, value in row.items()
                         if isinstance(value, (int, float)) and not re.search("second|bytes", name)})
    return kept


def texts(folder):
    """Data for the tasks that read files."""
    drawn = random.Random(5)
    words = ["red", "green", "blue", "one", "two", "three", "list", "table"]
    for part, count in (("train", 60), ("valid", 12), ("test", 12)):
        for name in ("lm", "text"):
            (folder / name).mkdir(exist_ok=True)
        lines = [" ".join(drawn.choice(words) for _ in range(12)) for _ in range(count)]
        (folder / "lm" / f"{part}.txt").write_text("\n".join(lines) + "\n")
        (folder / "text" / f"{part}.tsv").write_text("".join(f"{line.split()[0]}\t{line}\n" for line in lines))
    rows = ["date,load,price"]
    rows += [f"2024-01-{1 + i // 96:02d} {i // 4 % 24:02d}:{i % 4 * 15:02d}:00,{i * 7 % 96},{i % 96}" for i in range(28 * 96)]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")


class Comparison:
    """Runs both sides and counts what differs."""

    def __init__(self, sides):
        self.sides, self.equal, self.refused, self.differ = sides, 0, 0, 0

    def __call__(self, name, *words):
        results = [side.run(*words) for side in self.sides]
        files = [side.files() for side in self.sides]
        logs = [losses(side.folder) for side in self.sides]
        if results[0][0] != results[1][0] or files[0] != files[1] or logs[0] != logs[1]:
            self.differ += 1
            others = [path for path in set(files[0]) | set(files[1]) if files[0].get(path) != files[1].get(path)]
            print(f"differs: {name}: exit codes {results[0][0]} and {results[1][0]}, files {sorted(others)[:6]}"
                  f"{'' if logs[0] == logs[1] else ', losses'}\n  {results[0][1].strip()[-200:]}\n"
                  f"  {results[1][1].strip()[-200:]}", flush=True)
            for side in self.sides:
                for path in others:
                    (side.folder / path).unlink(missing_ok=True)  # or later calls would differ by them
        elif results[0][0] == 0:
            self.equal += 1
        else:
            self.refused += 1


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        sides = [Side(build, folder / name) for name, build in zip("ab", sys.argv[1:3])]
        compare = Comparison(sides)
        texts(folder)
        known = json.loads(subprocess.run([sides[0].tool, "info", "--json"], capture_output=True, check=True).stdout)
        names = sys.argv[3:]
        mechanisms = names or [mechanism["name"] for mechanism in known["mechanisms"]]
        gradients = ["--grad-dir", "d", "--grad-out", "../g.npy"]
        for number, (batch, heads, queries, keys, width, values, causal, mask, more) in enumerate(SHAPES):
            for name, rows, cols in (("q", queries, width), ("k", keys, width), ("v", keys, values), ("g", queries, values)):
                array(folder / f"{name}.npy", (batch, heads, rows, cols), f"{number}{name}")
            array(folder / "m.npy", (batch, keys), f"{number}m", ones=True)
            for mechanism in mechanisms:
                words = ["attend", "--attention", mechanism, "--seed", "4", "--threads", "2", "--out", "y.npy",
                         *(["--causal"] if causal else []),
                         *(["--mask", "../m.npy"] if mask else []), *more]
                words += ["--q", "../q.npy", "--k", "../k.npy", "--v", "../v.npy"]
                compare(f"{mechanism}, shape {number}", *words, *gradients)
                compare(f"{mechanism}, shape {number}, forward", *words)
                compare(f"{mechanism}, shape {number}, chunks", *words, "--chunk", "37")
        for task, options in ([] if names else TRAININGS) + [("needle", ["--attention", name]) for name in mechanisms]:
            data = {"lm": "../lm", "text": "../text", "forecast": "../table.csv"}.get(task, "../" + task)
            if task in ("needle", "listops") and not (folder / task).exists():
                subprocess.run([sides[0].tool, "data", task, "--out", task, "--train", "40", "--valid", "12", "--test", "8",
                                *(["--seq-len", "96"] if task == "needle" else ["--min-len", "20", "--max-len", "96"]), "--seed", "1"],
                               cwd=folder, check=True, capture_output=True)
            for side in sides:
                subprocess.run(["rm", "-rf", "run"], cwd=side.folder, check=True)
            compare(f"train {task} {' '.join(options)}", "train", task, "--data", data, "--out", "run", *SMALL, *options)
            compare(f"eval {task} {' '.join(options)}", "eval", "run", "--split", "valid")
        print(f"{compare.equal} equal, {compare.refused} refused by both, {compare.differ} differ")
        sys.exit(compare.differ > 0)


if __name__ == "__main__":
    main()
