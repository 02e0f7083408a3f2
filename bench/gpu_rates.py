#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rates that the cost model of src/gpu assumes, from the times of kernels that bench/gpu.sh wrote (`bench attention
--device cuda --backward --profile --json`). A line of JSON for each such call, per second: additions to shared memory and
bytes gathered from tables (1e9), products of bytes on tensor cores (1e12). Tables are built and read once in the forward
pass and once for dV; codes are computed once, of queries and keys."""
import argparse
import json


def rates(bench):
    """{name: rate}, of the kernels that ran."""
    ms = {row["kernel"]: row["ms"] for row in bench["kernels"]}
    m, tau = int(bench["options"]["num_hashes"]), int(bench["options"]["hash_bits"])
    width = 32 if bench["head_dim"] <= 32 else 64 if bench["head_dim"] <= 64 else 128
    sums = 2 * bench["heads"] * bench["seq_len"] * m * width
    build = sum(time for kernel, time in ms.items() if kernel.startswith("build_"))
    return {"shared_additions_g": sums / build * 1e-6, "gathered_gb": 4 * sums / ms["read"] * 1e-6,
            "byte_products_t": 8 * bench["heads"] * 2 * bench["seq_len"] * width * m * tau / ms["hash"] * 1e-9}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", metavar="FILE.jsonl")
    for line in open(parser.parse_args().file):
        row = json.loads(line)
        bench = row.get("bench", {})
        if bench.get("kernels") and not bench["causal"]:
            found = {name: float("%.4g" % rate) for name, rate in rates(bench).items()}
            print(json.dumps({"kind": "rates", "seq_len": bench["seq_len"], "head_dim": bench["head_dim"],
                              "precision": bench["precision"], **found}))


if __name__ == "__main__":
    main()
