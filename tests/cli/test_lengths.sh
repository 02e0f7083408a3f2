#!/bin/sh
# The script of time and memory by length: a line per point, the largest batch below the limit, tables of this kind of machine
# only, and a second start that measures only what is missing.
# Planted and caught: figures of a batch given as those of a sequence; points of another kind of machine counted as done; a
# batch above the limit; the largest batch of 4 GB in the place of 4 GiB.
# Covers: bench/lengths.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
script="$source_dir/bench/lengths.py $build --kept points.jsonl --limit 0.06 --repeats 1 --threads 1"
echo '{"mechanism": "none", "n": 128, "machine": "elsewhere", "batch": 1, "forward_ms": 1, "step_ms": 1, "forward_bytes": 1, "training_bytes": 1}' >points.jsonl
python3 $script --mechanisms softmax,none --lengths 128,256 >table.md 2>err || cat err
holds a_line_for_each_point test "$(wc -l <points.jsonl)" = 5
holds figures_are_of_a_sequence python3 -c '
import json
rows = {(r["mechanism"], r["n"]): r for r in map(json.loads, list(open("points.jsonl"))[1:])}
assert set(rows) == {(m, n) for m in ("softmax", "none") for n in (128, 256)}, rows
for r in rows.values():
    assert r["commit"] and min(r["forward_ms"], r["step_ms"]) > 0 and 0 < r["forward_bytes"] < r["training_bytes"], r
    assert r["batch"] * r["training_bytes"] <= 0.06 * 2**30, r
    assert 1.6 < rows[r["mechanism"], 256]["training_bytes"] / rows[r["mechanism"], 128]["training_bytes"] < 2.4, rows
assert rows["none", 128]["batch"] == 4 and rows["none", 256]["batch"] == 2, rows'
holds tables_have_the_points sh -c 'grep -qE "^\| softmax \|( [0-9.,e+]+ ms, [0-9.,e+]+ MiB \|){2}( - \|){6}$" table.md && [ "$(grep -c "^| none |" table.md)" = 3 ]'
holds largest_batch_in_4_gib python3 -c '
import json, re
bytes_of = {r["n"]: r["training_bytes"] for r in map(json.loads, list(open("points.jsonl"))[1:]) if r["mechanism"] == "softmax"}
row = re.findall(r"^\| softmax \| ([0-9,]+) \| ([0-9,]+) \|( - \|){6}$", open("table.md").read(), re.M)[-1]
for n, cell in zip((128, 256), row):
    batch = int(cell.replace(",", ""))
    assert batch * bytes_of[n] <= 2**32 < (batch + 1) * bytes_of[n], (n, cell, bytes_of[n])'
cp points.jsonl before
python3 $script --mechanisms softmax,none --lengths 128,256 >again.md 2>err || cat err
holds nothing_is_measured_twice sh -c '[ ! -s err ] && cmp points.jsonl before && cmp table.md again.md'
python3 $script --mechanisms softmex >out 2>err && failed unknown_mechanism "exit code 0" || holds unknown_mechanism grep -q "softmex; there are softmax, none" err
finish
