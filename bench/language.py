#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All comparisons of the language part with other programs, one after another: stored checkpoints with the transformers
library (checkpoints.py), tokenizers with the reference library (tokens.py), and the bar for `train text` (tfidf.py).

    bench/language.py BUILD --setup             once: installs the other programs into BUILD/*-env (1.3 GB)
    bench/language.py BUILD --data DIR          runs all, and prints what they print and a table
    bench/language.py BUILD --docs              puts the table of the last outputs into docs/results/tables.jsonl

DIR has books/*.txt, wikitext-2/wiki.*.tokens, vocab/NAME (tokenizers' files) and aclImdb. --only checkpoints,tokens,tfidf
runs a part. Each part's output is kept in BUILD/language, so that the table is of the last run of each. Exit code 1 if
anything differs."""
import argparse
import os
import re
import subprocess
import sys
import time

import results
import runs
from page import Table

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ("checkpoints", "tokens", "tfidf")


def script(name):
    return os.path.join(HERE, name + ".py")


def setup(build):
    for command in ([script("checkpoints"), "--build", build, "--setup"], [script("tokens"), build, "--setup"],
                    [script("tfidf"), "--setup", os.path.join(build, "tfidf-env")]):
        code = subprocess.run([sys.executable, *command]).returncode
        if code != 0:
            return code
    return 0


def files_of(data, folder, ending):
    found = os.path.join(data, folder)
    return sorted(os.path.join(found, name) for name in os.listdir(found) if name.endswith(ending))


def command_of(part, given):
    if part == "checkpoints":
        other = ["--env", given.checkpoints_env] if given.checkpoints_env else []
        return [sys.executable, script(part), "--build", given.build, "--threads", str(given.threads), *other]
    if part == "tokens":
        vocabularies = [word for path in files_of(given.data, "vocab", "") for word in ("--vocab", path)]
        texts = files_of(given.data, "books", ".txt") + files_of(given.data, "wikitext-2", ".tokens")
        return [sys.executable, script(part), given.build, *texts, "--lines", str(given.lines), *vocabularies]
    data = next(path for path in (os.path.join(given.data, "aclImdb"), os.path.join(given.data, "imdb", "aclImdb"))
                if os.path.isdir(path))
    return [os.path.join(given.build, "tfidf-env", "bin", "python"), script(part), data]


def run(part, given, folder):
    """Prints and keeps what the part prints; its last line is the exit code."""
    path = os.path.join(folder, part + ".txt")
    with open(path + ".next", "w") as kept:
        process = subprocess.Popen(command_of(part, given), stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            print(line, end="", flush=True)
            kept.write(line)
        code = process.wait()
        kept.write(f"exit code {code}\n")
    os.replace(path + ".next", path)
    return code


def rows_of(part, text):
    """Rows of the table: what, how much, result."""
    code = re.search(r"exit code (\S+)\n$", text)[1]
    if code != "0":
        yield part, "", f"exit code {code}"
    if part == "checkpoints":
        cases = re.findall(r"hidden (\S+) (\S+)  logits (\S+) (\S+)  saved (\w+)", text)
        largest = [max([float(case[i]) for case in cases], default=0) for i in range(4)]
        saved = sum(case[4] == "equal" for case in cases)
        yield ("hidden states, transformers library", f"{len(cases)} cases",
               f"largest difference {largest[0]:.1e}, mean at most {largest[1]:.1e}")
        yield "logits, the same", f"{len(cases)} cases", f"largest difference {largest[2]:.1e}, mean at most {largest[3]:.1e}"
        yield "directories saved here, opened by that library", f"{len(cases)} cases", f"{saved} with equal outputs"
    elif part == "tokens":
        for size, text_size, same in re.findall(r"learn (\d+) tokens from (\S+ MB): (\w+) vocabulary", text):
            yield f"vocabulary of {int(size):,} tokens learned from the same text", text_size, same.lower()
        for name, lines, tokens, differences in re.findall(r"^\| (.*?) \| ([\d,]+) \| ([\d,]+) \| (\d+) \|", text, re.M):
            yield f"tokens of {name}, reference library", f"{lines} lines, {tokens} tokens", f"{differences} differences"
    else:
        for accuracy, count in re.findall(r"test accuracy (\S+) on (\d+) documents", text):
            yield "TF-IDF of words and pairs, logistic regression", f"{int(count):,} reviews", f"{float(accuracy):.2%}"


def table(folder):
    rows, failed = [], False
    for part in PARTS:
        path = os.path.join(folder, part + ".txt")
        if not os.path.exists(path):
            continue
        with open(path) as file:
            text = file.read()
        failed |= not text.endswith("exit code 0\n")
        rows += [((what, on), {"result": result}) for what, on, result in rows_of(part, text)]
    return Table(["compared", "on"], rows, named=True), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--data", metavar="DIR")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--lines", type=int, default=50000, help="of generated and of real text, for the tokenizers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoints-env", help="another environment with PyTorch and transformers")
    given = parser.parse_args()
    given.build = os.path.abspath(given.build)
    if given.setup:
        return setup(given.build)
    folder = os.path.join(given.build, "language")
    parts = given.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"--only has no part {unknown[0]}; there are {', '.join(PARTS)}")
    if not given.docs:
        if not given.data:
            parser.error("--data is missing")
        os.makedirs(folder, exist_ok=True)
        for part in parts:
            run(part, given, folder)
    found, failed = table(folder)
    print(found.text() + "\n\n" + ("Something differs." if failed else "Nothing differs by more than allowed."))
    if given.docs:
        origin = runs.origin(given.build)
        results.publish({"language": found}, origin["machine"], origin["commit"], time.strftime("%Y-%m-%d"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
