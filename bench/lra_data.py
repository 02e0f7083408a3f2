# SPDX-License-Identifier: Apache-2.0
"""The data sets of bench/lra.py, from the tool's generators and from published files. Standard library only."""

import csv
import os
import random

import runs

GENERATED = {  # options of `hashattn data`
    "listops": ["--min-len", 10, "--max-len", 100, "--max-depth", 5, "--max-args", 5],
    "pathfinder": ["--side", 16, "--contour-length", 1, "--distractors", 0],
}
SYMBOLS = 8  # of marked letters
EXAMPLES = 20000  # of a training set, if --examples does not say
TIMES = 3  # as many examples of a generated training set: fewer are learned by heart


def counts(given):
    return {"train": given.examples, "valid": given.examples // 40, "test": given.examples // 10}


def find(given, *names):
    """The first of the directories under --data that exists."""
    for name in names:
        path = os.path.join(given.data or "", name)
        if given.data and os.path.isdir(path):
            return path
    raise FileNotFoundError(f"--data {given.data} has none of the directories {', '.join(names)}")


def generated(given, task, out):
    sizes = counts(given)
    sizes["train"] *= TIMES
    sizes = [word for split, count in sizes.items() for word in (f"--{split}", count)]
    runs.tool(given.build, "data", task, "--out", out, *GENERATED[task], *sizes, "--seed", 1)


def reviews(given, task, out):
    """aclImdb: reviews drawn from both labels, of the training folder for train and valid, of the test folder for test."""
    root, draw = find(given, "aclImdb", "imdb/aclImdb"), random.Random(1)
    drawn, sizes = {}, counts(given)
    for folder, count in (("train", sizes["train"] + sizes["valid"]), ("test", sizes["test"])):
        paths = [(label, os.path.join(root, folder, label, name)) for label in ("neg", "pos")
                 for name in sorted(os.listdir(os.path.join(root, folder, label)))]
        drawn[folder] = draw.sample(paths, count)
    drawn["valid"] = [drawn["train"].pop() for _ in range(sizes["valid"])]
    for split, paths in drawn.items():
        with open(os.path.join(out, split + ".csv"), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["label", "text"])
            for label, path in paths:
                with open(path, encoding="utf-8") as review:
                    writer.writerow([label, review.read()])


def letters(draw, symbol):
    """63 random letters a to p behind a question mark. 6 of them are marked: upper case, all of one symbol."""
    text = draw.choices("abcdefghijklmnop", k=63)
    for place in draw.sample(range(63), 6):
        text[place] = "ABCDEFGH"[symbol]
    return "?" + "".join(text)


def pairs(given, task, out):
    """Pairs of made documents: label 1 if both are marked with the same symbol. The published papers, 4,000 bytes each and
    thousands of pairs, teach a small model nothing in minutes."""
    draw = random.Random(1)
    for split, count in counts(given).items():
        with open(os.path.join(out, split + ".tsv"), "w") as file:
            for i in range(count):
                one = draw.randrange(SYMBOLS)
                other = one if i % 2 else (one + draw.randint(1, SYMBOLS - 1)) % SYMBOLS
                file.write(f"{i % 2}\t{letters(draw, one)}\t{letters(draw, other)}\n")


def digits(given, task, out):
    """MNIST, as it is."""
    root = find(given, "mnist")
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        os.symlink(os.path.join(root, name), os.path.join(out, name))


MAKE = {"listops": generated, "text": reviews, "retrieval": pairs, "image": digits, "pathfinder": generated}


def directory(given, task):
    """The data set of a task, made if it is not there."""
    out = os.path.join(given.out, "data", task)
    if not os.path.isdir(out):
        unfinished = out + ".next"
        if os.path.isdir(unfinished):
            for name in os.listdir(unfinished):
                os.remove(os.path.join(unfinished, name))
        os.makedirs(unfinished, exist_ok=True)
        MAKE[task](given, task, unfinished)
        os.rename(unfinished, out)
    return out
