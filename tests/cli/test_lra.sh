#!/bin/sh
# The script of the Long Range Arena in small: a line per finished run, a table of ours and tables of the papers, and a second
# start that trains only what is missing.
# Planted and caught: a line written behind one that a crash cut; every seed trained with the first; a failed run that ends the
# others; the mean of two tasks given as that of five; runs of --kept trained again.
# Covers: bench/lra.py bench/lra_data.py bench/grid.py bench/runs.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
script="$source_dir/bench/lra.py $build --out t --examples 80 --tasks listops,pathfinder"
tiny="--steps 2 --eval-every 1 --warmup 1 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 4"

python3 $script --mechanisms softmax,none --seeds 2 --jobs 2 -- $tiny >table.md 2>err || cat err
holds a_line_for_each_run test "$(wc -l <t/runs.jsonl)" = 8
holds lines_are_complete python3 -c '
import json
rows = [json.loads(line) for line in open("t/runs.jsonl")]
assert {(r["task"], r["mechanism"], r["seed"]) for r in rows} == {
    (t, m, s) for t in ("listops", "pathfinder") for m in ("softmax", "none") for s in (1, 2)}, rows
assert all(0 <= r["accuracy"] <= 1 and r["steps"] == 2 and r["peak_rss_bytes"] > 1 << 20 for r in rows)'
holds seeds_differ sh -c '! cmp -s t/runs/listops/softmax/seed1/model.safetensors t/runs/listops/softmax/seed2/model.safetensors'
holds preset_of_the_arena json t/runs/listops/none/seed1/config.json 'd["attention"]["name"] == "none" and d["training"]["seed"] == 1'
holds row_of_a_mechanism grep -qE '^\| softmax \| 2 \| [0-9.]+ ± [0-9.]+ \| - \| - \| - \| [0-9.]+ ± [0-9.]+ \| - \|' table.md
holds theirs_stand_apart sh -c 'grep -qxF "| softmax | softmax | 37.10 | 65.02 | 79.35 | 38.20 | 74.16 |" table.md && grep -qxF "| LHA | lha | 37.9 | 66.8 | 62.8 | 45.2 | - |" table.md'
holds stars_are_escaped grep -qF '| \*YOSO-16 | \*yoso-16 | 37.20' table.md

# A line that a crash cut is a run that is missing; nothing else runs again.
cp t/runs.jsonl before
head -c "$(($(wc -c <before) - 20))" before >t/runs.jsonl
python3 $script --mechanisms softmax,none --seeds 2 --jobs 1 -- $tiny >again.md 2>err || cat err
holds only_the_cut_run_runs_again sh -c 'grep -q "^1/1 " err && [ "$(grep -c " seed " err)" = 1 ]'
head -n 7 before >first && head -n 7 t/runs.jsonl >kept
holds other_lines_stay cmp first kept
holds new_line_is_whole python3 -c '
import json
assert json.loads(open("t/runs.jsonl").read().splitlines()[-1])["steps"] == 2'

# Runs that another machine finished count as done, and new ones are added to their file.
head -n 6 before >elsewhere.jsonl
python3 $script --mechanisms softmax,none --seeds 2 --jobs 1 --out u --kept elsewhere.jsonl -- $tiny >again.md 2>err || cat err
holds runs_of_elsewhere_count sh -c '[ "$(grep -c " seed " err)" = 2 ] && [ "$(wc -l <elsewhere.jsonl)" = 8 ] && [ ! -e u/runs.jsonl ]'
holds lines_say_where python3 -c '
import json
row = json.loads(open("elsewhere.jsonl").read().splitlines()[-1])
assert row["commit"] and row["machine"], row'

# A run that fails is told and leaves the others alone.
touch t/runs/listops/local
python3 $script --mechanisms local,sinkhorn --seeds 1 --jobs 1 -- $tiny >out 2>err && code=0 || code=$?
holds failure_is_told grep -q "^listops local 1: failed: " err
holds others_run sh -c '[ "$(grep -cE "(pathfinder local|listops sinkhorn|pathfinder sinkhorn) seed 1: " err)" = 3 ]'
holds failure_is_an_exit_code test "$code" = 1
python3 $script --mechanisms softmex >out 2>err && failed unknown_mechanism "exit code 0" || holds unknown_mechanism grep -q "softmex; there are softmax, none" err
finish
