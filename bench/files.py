#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One head of a long sequence in files: compares `attend --chunk` with copying the same bytes. Standard library only.

    bench/files.py [BUILD] [--tokens N] [--rounds R]       prints one JSON object

Queries, keys and values are float32 .npy files of N x 64, created in BUILD and removed at the end. attend reads these
three files and writes one. The copy reads the same files and writes as many bytes, with the same fsync at the end:
`cat k v > /dev/null` and `dd if=q of=copy conv=fsync`. All files are read once, then both run in turn; times are wall
times. If memory cannot cache all files, both wait for the disk.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DIM, BLOCK = 64, 1 << 23  # bytes generated at a time
ROW = 4 * DIM


def make(path, rows, seed):
    """Writes random floats with 1 <= |x| < 2: random bits, with the exponent set by masks on whole blocks."""
    words = BLOCK // 4
    mask, one = (int.from_bytes(bytes.fromhex(word) * words, "little") for word in ("ffff7f80", "0000803f"))
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, DIM)
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    source = random.Random(seed)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        for left in range(rows * ROW, 0, -BLOCK):
            block = int.from_bytes(source.randbytes(BLOCK), "little") & mask | one
            file.write(block.to_bytes(BLOCK, "little")[:min(left, BLOCK)])


def wall(command, **more):
    begun = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return time.perf_counter() - begun, done.stdout


def tokens_that_fit(directory, wanted):
    """Number of tokens so that five files fit into four fifths of the free disk, in multiples of 65,536."""
    fit = int(0.8 * shutil.disk_usage(directory).free) // (5 * ROW)
    return min(wanted, max(fit >> 16 << 16, 1 << 10))


def measure(build, wanted, threads, rounds, chunk=16384):
    with tempfile.TemporaryDirectory(prefix="files-", dir=build) as work:
        tokens = tokens_that_fit(work, wanted)
        path = {name: os.path.join(work, name + ".npy") for name in ("q", "k", "v", "y")}
        for seed, name in enumerate("qkv"):
            make(path[name], tokens, seed)
        attend = [os.path.join(build, "hashattn"), "attend", "--attention", "yoso", "--num-hashes", "32", "--hash-bits", "9",
                  "--chunk", str(chunk), "--threads", str(threads), "--json", "--out", path["y"]]
        for name in "qkv":
            attend += ["--" + name, path[name]]
        copy = 'cat "$1" "$2" >/dev/null && dd if="$3" of="$4" bs=8M conv=fsync status=none'
        copy = ["sh", "-c", copy, "sh", path["k"], path["v"], path["q"], os.path.join(work, "copy")]
        wall(["sh", "-c", 'cat "$@" >/dev/null', "sh", path["q"], path["k"], path["v"]])
        told, seconds = {}, {"attend": [], "copy": []}
        for _ in range(rounds):
            # The extra fork by a shell keeps our resident memory out of the peak of the measured process.
            took, said = wall(["sh", "-c", '"$@"; exit $?', "sh", *attend])
            seconds["attend"].append(took)
            told = json.loads(said)
            seconds["copy"].append(wall(copy)[0])
    bytes_moved = 4 * tokens * ROW
    return {"tokens": tokens, "chunk": chunk, "threads": threads, "bytes": bytes_moved, "peak_rss_bytes": told["peak_rss_bytes"],
            "attend_s": seconds["attend"], "copy_s": seconds["copy"],
            "gbytes_per_s": bytes_moved / 1e9 / statistics.median(seconds["attend"]),
            "rate_over_copy": [c / a for a, c in zip(seconds["attend"], seconds["copy"])]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--tokens", type=int, default=1 << 24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=16384)
    asked = parser.parse_args()
    json.dump(measure(asked.build, asked.tokens, asked.threads, asked.rounds, asked.chunk), sys.stdout)
    print()


if __name__ == "__main__":
    main()
