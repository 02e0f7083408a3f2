#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sketches of densities (question 26 of docs/RESULTS.md) beside the exact kernel and scikit-learn: error by number of hashes
and rows, processor time beside KernelDensity and a product of matrices, and outliers of data sets that scikit-learn ships.

    bench/density.py --setup ENV                            installs scikit-learn into the virtual environment ENV
    tools/stage_python.sh BUILD                             puts the Python package together
    ENV/bin/python bench/density.py BUILD --out FILE        measures what FILE lacks, a line of JSON each; --parts, --most-rows
    bench/density.py --show FILE                            prints the tables; FILE: docs/results/density.jsonl

Times are processor times of one thread, the contenders in turn, the median of three. scikit-learn scores 20 points, and its time is
taken per point; the sketch scores 10,000."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import venv

import page
import runs

PACKAGE = "scikit-learn==1.9.1"
PARTS = ("error", "time", "outliers")
HASHES, BITS, SEEDS = 128, 9, 5  # of times; seeds of outliers
POINTS, FEW = 10000, 20


def mixture(n, d, seed):
    """Rows around ten centres, as wide as the centres lie apart."""
    import numpy as np

    centres = np.random.default_rng(1).standard_normal((10, d), np.float32)
    rng = np.random.default_rng([seed, n, d])
    return centres[rng.integers(10, size=n)] + rng.standard_normal((n, d), np.float32)


def exact(points, rows, bits):
    """The kernel that a sketch estimates, in double."""
    import numpy as np

    points, total = points / np.linalg.norm(points, axis=1, keepdims=True), 0
    for at in range(0, len(rows), 20000):
        block = rows[at:at + 20000] / np.linalg.norm(rows[at:at + 20000], axis=1, keepdims=True)
        total = total + ((1 - np.arccos(np.clip(points @ block.T, -1, 1)) / np.pi) ** bits).sum(1, dtype=float)
    return total / len(rows)


def measure_error(point):
    import hashattn
    import numpy as np

    d, bits, n, hashes = (point[name] for name in ("d", "hash_bits", "n", "num_hashes"))
    rows, points = mixture(n, d, 1), mixture(200, d, 2)
    want, relative, z = exact(points, rows, bits), [], []
    for seed in range(SEEDS):
        got, errors = hashattn.Density(hashes, bits, seed=seed).fit(rows).score(points, errors=True)
        relative.append(got / want - 1)
        z.append((got - want) / errors)
    return {"rms_relative": float(np.sqrt(np.mean(np.square(relative)))), "mean_relative": float(np.mean(relative)),
            "rms_z": float(np.sqrt(np.mean(np.square(z))))}


def seconds(call):
    begun = time.process_time()
    call()
    return time.process_time() - begun


def measure_time(point):
    """Seconds of processor time to read n rows and to score 10,000 points."""
    import hashattn
    import numpy as np
    from sklearn.neighbors import KernelDensity

    d, n = point["d"], point["n"]
    rows, points = mixture(n, d, 1), mixture(POINTS, d, 2)
    times = {name: [] for name in ("sketch_fit", "sketch_score", "tree_fit", "tree_score", "product_score")}
    wide, few = rows.astype(np.float64), points[:FEW].astype(np.float64)
    scale = POINTS / FEW
    with hashattn.Context(threads=1) as context:
        for _ in range(3 if n < 10**6 else 1):
            sketch = hashattn.Density(HASHES, BITS, seed=1, context=context)
            tree = KernelDensity(bandwidth="scott", rtol=0.1)
            times["sketch_fit"].append(seconds(lambda: sketch.fit(rows)))
            times["tree_fit"].append(seconds(lambda: tree.fit(wide)))
            times["sketch_score"].append(seconds(lambda: sketch.score(points)))
            times["tree_score"].append(scale * seconds(lambda: tree.score_samples(few)))
            times["product_score"].append(scale * seconds(lambda: exact(points[:FEW], rows, BITS)))
        got, want = sketch.score(points[:FEW]), exact(points[:FEW], rows, BITS)
    found = {name: statistics.median(each) for name, each in times.items()}
    return {**found, "rms_relative": float(np.sqrt(np.mean((got / want - 1) ** 2)))}


def outliers_of(name, seed):
    """Rows of all classes but one, and 5 % of that one, each class in turn: [(rows, which are outliers)]."""
    import numpy as np
    from sklearn import datasets

    data = getattr(datasets, "load_" + name)()
    for rare in sorted(set(data.target)):
        rng = np.random.default_rng([seed, int(rare)])
        usual, others = np.flatnonzero(data.target != rare), np.flatnonzero(data.target == rare)
        some = rng.choice(others, min(len(others), max(5, round(len(usual) / 19))), replace=False)
        yield data.data[np.concatenate([usual, some])], np.r_[np.zeros(len(usual)), np.ones(len(some))]


def measure_outliers(point):
    import hashattn
    import numpy as np
    from sklearn.ensemble import IsolationForest
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import KernelDensity
    from sklearn.preprocessing import StandardScaler

    def tree_of(x):
        x = StandardScaler().fit_transform(x)
        return KernelDensity(bandwidth="scott").fit(x).score_samples(x)

    methods = {
        "IsolationForest": lambda x, seed: IsolationForest(random_state=seed).fit(x).score_samples(x),
        "KernelDensity, columns scaled": lambda x, seed: tree_of(x),
        "exact kernel, directions": lambda x, seed: exact(x, x, BITS),
        "Density, directions": lambda x, seed: hashattn.Density(256, BITS, seed=seed).fit(x).score(x),
        "Density, euclidean": lambda x, seed: hashattn.Density(256, BITS, "euclidean", seed).fit(x).score(x),
        "Density, euclidean, 4 bits": lambda x, seed: hashattn.Density(256, 4, "euclidean", seed).fit(x).score(x),
        "Density, euclidean, 32 hashes": lambda x, seed: hashattn.Density(32, BITS, "euclidean", seed).fit(x).score(x),
    }
    found = [statistics.fmean(roc_auc_score(odd, -methods[point["method"]](x, seed)) for x, odd in outliers_of(point["set"], seed))
             for seed in range(SEEDS)]
    return {"auc": statistics.fmean(found), "deviation": statistics.stdev(found)}


METHODS = ("IsolationForest", "KernelDensity, columns scaled", "exact kernel, directions", "Density, directions",
           "Density, euclidean", "Density, euclidean, 4 bits", "Density, euclidean, 32 hashes")
MEASURE = {"error": measure_error, "time": measure_time, "outliers": measure_outliers}


def points_of(given):
    points = [{"part": "error", "d": d, "hash_bits": bits, "n": n, "num_hashes": m}
              for d in (16, 128) for bits, n, m in
              [(bits, 10**5, m) for bits in (5, 9) for m in (32, 128, 512)] + [(9, n, 128) for n in (10**3, 10**4, 10**6)]]
    points += [{"part": "time", "d": d, "n": n}  # a tree of 10^7 rows of 128 needs 25 GB
               for d, n in [(d, n) for d in (16, 128) for n in (10**4, 10**5, 10**6)] + [(16, 10**7)]]
    points += [{"part": "outliers", "set": name, "method": method}
               for name in ("digits", "breast_cancer", "wine", "iris") for method in METHODS]
    return [point for point in points if point["part"] in given.parts and point.get("n", 0) <= given.most_rows]


def show(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    print("| d | tau | n | m | error | mean | z |\n|---|---|---|---|---|---|---|")
    for row in rows:
        if row["part"] == "error":
            print(f"| {row['d']} | {row['hash_bits']} | {row['n']:,} | {row['num_hashes']} | {100 * row['rms_relative']:.1f} % | "
                  f"{100 * row['mean_relative']:+.1f} % | {row['rms_z']:.2f} |")
    print("\n| d | n | sketch: fit, score | KernelDensity | product | ratios | error |\n|---|---|---|---|---|---|---|")
    for row in rows:
        if row["part"] == "time":
            own, tree = row["sketch_fit"] + row["sketch_score"], row["tree_fit"] + row["tree_score"]
            print(f"| {row['d']} | {row['n']:,} | {row['sketch_fit']:.2f} s, {row['sketch_score']:.3f} s | {tree:.0f} s | "
                  f"{row['product_score']:.0f} s | {tree / own:.0f}x, {row['product_score'] / own:.0f}x | "
                  f"{100 * row['rms_relative']:.0f} % |")
    sets = list(dict.fromkeys(row["set"] for row in rows if row["part"] == "outliers"))
    print(f"\n| AUC | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
    for method in METHODS:
        cells = {row["set"]: f"{row['auc']:.3f} ({row['deviation']:.3f})" for row in rows if row.get("method") == method}
        print(f"| {method} | {' | '.join(cells.get(name, '-') for name in sets)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", metavar="BUILD")
    parser.add_argument("--setup", metavar="ENV")
    parser.add_argument("--out", metavar="FILE")
    parser.add_argument("--show", metavar="FILE")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--most-rows", type=int, default=10**6)
    given = parser.parse_args()
    if given.setup:
        venv.create(given.setup, with_pip=True)
        sys.exit(subprocess.run([f"{given.setup}/bin/pip", "install", "--quiet", PACKAGE]).returncode)
    if given.show:
        page.may_be_cut()
        show(given.show)
        return
    if not given.build or not given.out:
        parser.error("BUILD and --out FILE are needed")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    sys.path.insert(0, os.path.join(os.path.abspath(given.build), "python"))
    origin, done = runs.origin(given.build), []
    if os.path.exists(given.out):
        with open(given.out) as file:
            done = [json.loads(line) for line in file]
    for point in points_of(given):
        if not any(all(row.get(name) == value for name, value in point.items()) for row in done):
            found = {**point, **MEASURE[point["part"]](point), **origin}
            with open(given.out, "a") as file:
                file.write(json.dumps(found) + "\n")
            print(found, file=sys.stderr)


if __name__ == "__main__":
    main()
