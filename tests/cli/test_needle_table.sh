#!/bin/sh
# The script of the table of needle with one mark: a line per finished run, nothing trained twice, a column per commit
# and instruction set.
# Planted and caught: a run of another commit, or with other steps, counted as done; a run that stands still counted as learned;
# seeds in the columns of others.
# Covers: bench/needle.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1

script="$source_dir/bench/needle.py $build --out t --jobs 1 --isas ref"
tiny="--eval-every 1 --eval-examples 8 --dim 8 --ffn 8 --batch 2"
row() { python3 -c 'import json, sys; print(json.dumps({"model": "m 32, τ 8, `lower`", "isa": sys.argv[1], "seed": int(sys.argv[2]),
    "limit": 1000, "steps": int(sys.argv[3]), "learned": sys.argv[3] != "1000", "test": 0.875, "seconds": 1, "commit": sys.argv[4],
    "machine": "Zen 9"}))' "$@"; }

python3 $script --models 'm 32, τ 8, `true`' --seeds 1 --steps 2 -- $tiny >one.md 2>err || cat err
holds a_line_per_run python3 -c '
import json
row, = map(json.loads, open("t/runs.jsonl"))
assert (row["model"], row["isa"], row["seed"], row["limit"], row["steps"]) == ("m 32, τ 8, `true`", "ref", 1, 2, 2), row
assert row["learned"] is False and 0 <= row["test"] < 0.5, row
options = json.load(open("t/runs/m-32-8-true/ref-2/seed1/config.json"))["attention"]["options"]
assert (options["num_hashes"], options["hash_bits"], options["gradient"]) == (32, 8, "true"), options'
python3 $script --models 'm 32, τ 8, `true`' --seeds 1 --steps 2 -- $tiny >again.md 2>err || cat err
holds nothing_twice sh -c 'cmp one.md again.md && [ "$(wc -l <t/runs.jsonl)" = 1 ]'
python3 $script --models 'm 32, τ 8, `true`' --seeds 1 --steps 3 -- $tiny >more.md 2>err || cat err
holds other_steps_are_another_run test "$(wc -l <t/runs.jsonl)" = 2
sed 's/"commit": "[^"]*"/"commit": "0123456789ab"/' t/runs.jsonl >t/other.jsonl
python3 $script --kept t/other.jsonl --models 'm 32, τ 8, `true`' --seeds 1 --steps 2 -- $tiny >other.md 2>err || cat err
holds another_commit_is_another_run test "$(wc -l <t/other.jsonl)" = 3

{ row avx2 1 250 aaaaaaaaaaaa; row avx2 3 1000 aaaaaaaaaaaa; row avx512 2 400 aaaaaaaaaaaa; row avx2 2 750 bbbbbbbbbbbb; } >kept.jsonl
python3 $script --kept kept.jsonl --hours 0 >table.md 2>err || cat err
cat >want.md <<'T'
| seeds 1 to 3, steps | aaaaaaaa, avx2 | aaaaaaaa, avx512 | bbbbbbbb, avx2 |
|---|---|---|---|
| m 32, τ 8, `lower`, 1,000 | 250, –, no (87.5) | –, 400, – | –, 750, – |
T
holds the_table diff want.md table.md
finish
