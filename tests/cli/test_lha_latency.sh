#!/bin/sh
# The script of LHA's latency: a line per point and round, ratios taken inside a round, tables of this kind of machine only,
# and a second start that measures only what is missing.
# Planted and caught: the ratio turned over; points of another kind of machine counted as done; blocks of local three times
# as large; a ratio of medians in place of the median of ratios.
# Covers: bench/lha_latency.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
script="$source_dir/bench/lha_latency.py $build --kept points.jsonl --threads 1"
echo '{"n": 1024, "mechanism": "softmax", "keys": 1024, "round": 0, "machine": "elsewhere", "threads": 1, "forward_ms": 1, "training_ms": 1}' >points.jsonl
python3 $script --lengths 1024 --rounds 1 >table.md 2>err || cat err
holds a_line_for_each_point python3 -c '
import json
rows = [json.loads(line) for line in list(open("points.jsonl"))[1:]]
want = {("softmax", 1024)} | {(m, s) for m in ("lha", "lsh", "local") for s in (96, 192, 384)}
assert {(r["mechanism"], r["keys"]) for r in rows} == want and len(rows) == 10, rows
assert all(r["commit"] and 0 < r["forward_ms"] < r["training_ms"] and r["round"] == 0 for r in rows), rows'
cp points.jsonl before
python3 $script --lengths 1024 --rounds 1 >again.md 2>err || cat err
holds nothing_is_measured_twice sh -c 'cmp points.jsonl before && cmp table.md again.md'
# Three rounds of made figures: ratios 10, 2 and 3, so their median is 3; that of the medians would be 3.6.
python3 - "$source_dir" <<'P'
import json, sys
sys.path.insert(0, sys.argv[1] + "/bench")
import machine
kind = machine.kind_of(machine.cpuinfo())
row = lambda name, keys, index, ms: {"n": 4096, "mechanism": name, "keys": keys, "round": index, "machine": kind, "threads": 1,
                                     "forward_ms": ms, "training_ms": 2 * ms}
with open("made.jsonl", "w") as file:
    for index, (exact, mine) in enumerate(((100, 10), (50, 25), (90, 30))):
        for each in (row("softmax", 4096, index, exact), row("lha", 192, index, mine)):
            print(json.dumps(each), file=file)
P
python3 "$source_dir/bench/lha_latency.py" "$build" --kept made.jsonl --lengths 1024 --rounds 0 >made.md 2>err || cat err
holds ratios_inside_a_round sh -c '[ "$(grep -c "^| lha | 192 | - | - | 25 ms, 3.0x | - | - |$" made.md)" = 1 ] && [ "$(grep -c "^| softmax | all | - | - | 90 ms | - | - |$" made.md)" = 1 ]'
holds training_has_its_own grep -q "^| lha | 192 | - | - | 50 ms, 3.0x |" made.md
# As many keys: buckets of 2 n / keys, blocks of a third.
holds sizes_are_equal python3 -c '
import sys
sys.path.insert(0, sys.argv[1] + "/bench")
from lha_latency import contenders
found = {(name, keys): options for name, keys, options in contenders(4096)}
assert found["lha", 192] == found["lsh", 192] == ("--num-buckets", 43) and found["local", 192] == ("--block-size", 64), found' "$source_dir"
finish
