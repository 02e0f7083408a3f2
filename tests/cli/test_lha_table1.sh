#!/bin/sh
# The script of LHA's Table 1 in small: softmax and local with all seeds before any other row, a line per finished run, and
# differences by seed.
# Planted and caught: the first seed of all rows before the second of local; a difference of the wrong sign; seeds that only one
# of two rows has in a difference; test in the place of valid; the options of one row for all; those of local heads for rows
# without any.
# Covers: bench/lha_table1.py bench/grid.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1

mkdir texts
for part in train valid test; do
    python3 -c '
import random, sys
random.seed(sys.argv[1])
print(" ".join(random.choice("the a of in on by".split()) + " " + random.choice("cat dog ship sea day".split()) for _ in range(3000)))
' $part >texts/$part.txt
done
script="$source_dir/bench/lha_table1.py $build --data texts --out t --jobs 1"
tiny="--max-words 300 --seq-len 64 --dim 16 --ffn 16 --batch 2 --steps 1 --warmup 0 --eval-every 1 --eval-examples 4"
models="local,(f) lha mlp 5 x 8,softmax 5 x 8"
python3 $script --models "$models" --seeds 2 --hours 0 -- $tiny >none.md 2>err && holds no_time_no_run test ! -s t/runs.jsonl ||
    failed no_time_no_run "$(cat err)"
python3 $script --models "$models" --seeds 2 -- $tiny >table.md 2>err || cat err
holds the_order_of_the_runs python3 -c '
import json
found = [(row["model"], row["seed"]) for row in map(json.loads, open("t/runs.jsonl"))]
hybrid = "(f) lha mlp 5 x 8"
assert found == [(m, s) for s in (1, 2) for m in ("local", "softmax 5 x 8")] + [(hybrid, 1), (hybrid, 2)], found'
holds options_of_rows python3 -c '
import json
attention = lambda path: json.load(open(f"t/runs/{path}/seed1/config.json"))["attention"]
assert attention("local")["name"] == "local*4" and attention("softmax-5-x-8")["name"] == "local*4/local*2,softmax*2"
hybrid = attention("f-lha-mlp-5-x-8")
assert hybrid["name"] == "local*4/local*2,lha*2" and hybrid["options"]["lha"]["hash"] == "mlp" and hybrid["options"]["lha"]["num_buckets"] == 32, hybrid'
holds the_table python3 -c '
import json, re, statistics
rows = [json.loads(line) for line in open("t/runs.jsonl")]
test = {name: [row["test"] for row in rows if row["model"] == name] for name in ("local", "softmax 5 x 8")}
text = open("table.md").read()
mean, spread = statistics.mean(test["local"]), statistics.stdev(test["local"])
assert re.search(rf"\| local \| 2 \| [^|]*\| {mean:.2f} ± {spread:.2f} \| 23.82 \|", text), text
cells = []
for part in ("valid", "test"):
    of = {(row["model"], row["seed"]): row[part] for row in rows}
    found = [of["softmax 5 x 8", seed] - of["local", seed] for seed in (1, 2)]
    cells.append(f"{statistics.mean(found):+.2f} ({statistics.stdev(found) / 2 ** 0.5:.2f})")
line = f"| softmax 5 x 8 − local | 2 | {cells[0]} | {cells[1]} |"
assert line in text, (line, text)
assert "lsh" not in text, "a row without runs"'

# A difference takes the seeds that both rows have.
grep -v '"softmax 5 x 8", "seed": 1' t/runs.jsonl >one.jsonl
python3 $script --kept one.jsonl --hours 0 >one.md 2>err || cat err
holds a_seed_of_both python3 -c '
import json
of = {(row["model"], row["seed"]): row for row in map(json.loads, open("one.jsonl"))}
valid, test = (of["softmax 5 x 8", 2][part] - of["local", 2][part] for part in ("valid", "test"))
assert f"| softmax 5 x 8 − local | 1 | {valid:+.2f} | {test:+.2f} |" in open("one.md").read(), (valid, test)'

# A row without local heads has none of their options.
python3 $script --out all --seeds 1 -- $tiny >all.md 2>err || cat err
holds every_row_trains python3 -c '
import json
found = {row["model"] for row in map(json.loads, open("all/runs.jsonl"))}
assert len(found) == 16 and "(a) random 10 x 16" in found, sorted(found)'
finish
