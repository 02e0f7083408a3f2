#!/bin/sh
# The script of the table of forecasts in small: a line per finished run, a second start that trains only what is missing, and
# a failed run that leaves the others alone.
# Planted and caught: every seed trained with the first; the horizon of the first row for all; a failed run that ends the others;
# DLinear counted among the encoders; the models of one table in the other; Informer's among the baselines; seeds that
# only one model has in a ratio; a run without a line that ended before.
# Covers: bench/forecast.py bench/grid.py bench/runs.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1

mkdir data
python3 - <<'P'
import datetime, math
begin = datetime.datetime(2016, 7, 1)
with open("data/ETTh1.csv", "w") as file:
    file.write("date,HUFL,OT\n")
    for t in range(14400):
        file.write(f"{begin + t * datetime.timedelta(hours=1)},{math.sin(t / 4):.3f},{math.cos(t / 7) + t % 24 / 10:.3f}\n")
P
script="$source_dir/bench/forecast.py $build --data data --out t --sets ETTh1 --features S"
tiny="--steps 1 --eval-every 1 --eval-examples 50 --warmup 1 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 4"
python3 $script --horizons 24,96 --models last,dlinear,softmax --seeds 2 --jobs 2 -- $tiny >table.md 2>err || cat err
holds a_line_for_each_run test "$(wc -l <t/runs.jsonl)" = 10
holds lines_are_complete python3 -c '
import json
rows = [json.loads(line) for line in open("t/runs.jsonl")]
assert {(r["horizon"], r["model"], r["seed"]) for r in rows} == {
    (h, m, s) for h in (24, 96) for m in ("last", "dlinear", "softmax") for s in (1, 2)[:1 if m == "last" else 2]}, rows
assert all(r["data"] == "ETTh1" and r["features"] == "S" and r["mse"] > 0 and r["mae"] > 0 for r in rows)
assert json.load(open("t/runs/ETTh1-S-96/dlinear/seed2/config.json"))["task"]["options"]["horizon"] == 96'
holds seeds_differ sh -c '! cmp -s t/runs/ETTh1-S-24/softmax/seed1/model.safetensors t/runs/ETTh1-S-24/softmax/seed2/model.safetensors'
holds row_of_a_horizon grep -qE '^\| ETTh1 S \| 24 \| [0-9.]+ ± [0-9.]+ \| [0-9.]+ ± [0-9.]+ \|$' table.md
holds models_with_a_run_have_a_column grep -qxF "| data | horizon | dlinear | softmax |" table.md
holds the_paper_stands_beside_the_others grep -qE '^\| ETTh1 S \| 24 \| [0-9.]+ \| 0\.060 \|$' table.md
holds others_have_a_table_of_their_own grep -qxF "| data | horizon | last | LHA paper |" table.md
holds informer_has_a_table_of_its_own python3 -c '
import sys, types
sys.path.insert(0, sys.argv[1])
import forecast
row = lambda model, horizon: dict(data="ETTh1", features="S", horizon=horizon, model=model, seed=1, mse=0.5)
page = forecast.document(types.SimpleNamespace(rows=[row("last", 24), row("last", 96), row("informer-lha", 24), row("softmax", 24)]))
assert "| data | horizon | last | LHA paper |\n" in page and "| data | horizon | softmax |\n" in page
assert page.count("| data | horizon | lha | LHA paper |\n|---|---|---|---|\n| ETTh1 S | 24 | 0.500 | 0.060 |\n\n") == 1' "$source_dir/bench"
holds rows_are_counted python3 -c '
import json, statistics
rows = [json.loads(line) for line in open("t/runs.jsonl")]
mse = lambda h, m: statistics.mean(r["mse"] for r in rows if (r["horizon"], r["model"]) == (h, m))
won = sum(mse(h, "softmax") <= mse(h, "dlinear") for h in (24, 96))
assert won < 2 and f"DLinear: softmax in {won} of 2." in open("table.md").read(), won'

# A line that a crash cut is a run that is missing; nothing else runs again.
cp t/runs.jsonl before
head -c "$(($(wc -c <before) - 20))" before >t/runs.jsonl
python3 $script --horizons 24,96 --models last,dlinear,softmax --seeds 2 --jobs 1 -- $tiny >again.md 2>err || cat err
holds only_the_cut_run_runs_again sh -c 'grep -q "^1/1 " err && [ "$(grep -c " mse " err)" = 1 ]'
holds the_same_table cmp again.md table.md

# A run that ended just before its line was written has a line after the next start.
mkdir -p t/runs/ETTh1-S-24/local
"$tool" train forecast --data data/ETTh1.csv --split-by months --seq-len 336 --features S --horizon 24 --model encoder --patch-len 16 \
    --attention local --out t/runs/ETTh1-S-24/local/seed1 --quiet $tiny
python3 $script --horizons 24 --models local --seeds 1 --jobs 1 -- $tiny >out 2>err || cat err
holds a_finished_run_is_counted python3 -c '
import json
row = json.loads(open("t/runs.jsonl").read().splitlines()[-1])
assert row["model"] == "local" and row["steps"] == 1 and row["valid_mse"] > 0 and row["seconds"] > 0, row'

# A run that fails is told and leaves the others alone.
mkdir -p t/runs/ETTh1-S-24/lha/seed1
python3 $script --horizons 24 --models lha,yoso --seeds 1 --jobs 1 -- $tiny >out 2>err && code=0 || code=$?
holds failure_is_told grep -q "^ETTh1 S 24 lha 1: failed: " err
holds others_run grep -q "ETTh1 S 24 yoso 1: mse" err
python3 $script --horizons 96 --models yoso --seeds 1 --jobs 1 -- $tiny >beside.md 2>err || cat err
holds relative_to_softmax_with_the_same_seeds python3 -c '
import json, statistics
rows = [json.loads(line) for line in open("t/runs.jsonl") if line.endswith("}\n")]  # one is cut
mse = {(r["horizon"], r["model"], r["seed"]): r["mse"] for r in rows}
values = [100 * (mse[h, "yoso", 1] / mse[h, "softmax", 1] - 1) for h in (24, 96)]
cell = f"{statistics.mean(values):+.1f} ({statistics.stdev(values) / 2 ** 0.5:.1f})"
assert f"| yoso | - | {cell} | {cell} |" in open("beside.md").read(), cell'
holds failure_is_an_exit_code test "$code" = 1
python3 $script --models softmex >out 2>err && failed unknown_model "exit code 0" || holds unknown_model grep -q "softmex; there are last, seasonal" err
finish
