#!/bin/sh
# The task forecast on a made table: every model is trained and evaluated by the same commands, figures of the baselines are
# those of a plain formula, runs resume bit for bit, and bad files are refused with row and column.
# Planted and caught: seven digits for a column of large numbers; the word date for the name of its column; attention of a
# baseline; a picture that is tried after the training; numbers beyond float32; columns of a window as examples of their own;
# a window compared by its first column only; the seasonal mean of the wrong phase; windows of the test part that begin at its
# first row; columns standardised by the whole file; the date of the last row for the first forecast; errors of the first
# column for all; the picture of the first window; layers of the decoder counted from 0; shares of keys of the queries; rows
# of the decoder not counted; the decoder's layers of a stored model forgotten.
# Covers: cmd_predict.c cmd_eval.c forecast_out.c forecast_picture.c plot.c
. "$(dirname "$0")/checks.sh"
tiny="--seq-len 48 --horizon 12 --patch-len 12 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 32 --quiet --threads 1"

python3 - <<'P'
import datetime, math, random
random.seed(1)
begin = datetime.datetime(2020, 1, 1)
rows = []
for t in range(700):
    date = (begin + t * datetime.timedelta(hours=1)).isoformat(" ")
    day = math.sin(2 * math.pi * t / 24)
    rows.append(f"{date},{10 + 3 * day + random.gauss(0, .3):.4f},{100 + t / 50 + 5 * abs(day) + random.gauss(0, .5):.4f},7")
open("table.csv", "w").write("date,load,heat,fixed\n" + "\n".join(rows) + "\n")
P
run train forecast --data table.csv --attention softmax --steps 60 --eval-every 20 --learning-rate 0.003 --out encoder --json $tiny
cp out train.json
holds encoder_learns json train.json 'd["best_mse"] < 0.3 and d["best_mse"] == d["best_loss"] and 0 < d["best_mae"] < 1'
for model in dlinear last seasonal; do
    run train forecast --data table.csv --model $model --steps 300 --eval-every 100 --learning-rate 0.003 --out $model $tiny
    run eval $model --json --threads 1
    cp out $model.json
done
run eval encoder --json --threads 1
cp out encoder.json

# The test part is the last 140 rows; columns are standardised by the first 490; "fixed" is only centred.
python3 - <<'P' && passed baselines_are_those_of_the_formula || failed baselines_are_those_of_the_formula "$(cat last.json seasonal.json)"
import csv, json
rows = list(csv.reader(open("table.csv")))[1:]
columns = [[float(row[c]) for row in rows] for c in (1, 2, 3)]
for c, column in enumerate(columns):
    train = column[:490]
    mean = sum(train) / 490
    deviation = (sum((x - mean) ** 2 for x in train) / 490) ** .5 or 1
    columns[c] = [(x - mean) / deviation for x in column]
assert all(x == 0 for x in columns[2])
sums = {"last": [0, 0, 0], "seasonal": [0, 0, 0]}
for begin in range(560, 700 - 12 + 1):
    for column in columns:
        window = column[begin - 48:begin]
        for h in range(12):
            for name, guess in (("last", window[-1]), ("seasonal", (window[h] + window[h + 24]) / 2)):
                off = guess - column[begin + h]
                sums[name] = [sums[name][0] + off * off, sums[name][1] + abs(off), sums[name][2] + 1]
for name, (squares, sizes, count) in sums.items():
    found = json.load(open(name + ".json"))
    assert found["examples"] == 3 * 129 == count / 12, found
    assert abs(found["mse"] - squares / count) < 1e-5 and abs(found["mae"] - sizes / count) < 1e-5, (found, squares / count)
P
holds models_beat_the_last_value sh -c 'python3 -c "
import json
mse = {m: json.load(open(m + \".json\"))[\"mse\"] for m in (\"encoder\", \"dlinear\", \"last\", \"seasonal\")}
assert mse[\"encoder\"] < mse[\"last\"] / 2 and mse[\"dlinear\"] < mse[\"last\"], mse"'
holds baselines_have_no_attention json last/config.json 'd["attention"] == {"name": "none", "options": {}}'
holds baselines_have_no_parameters json last.json 'd["num_params"] == 0'
holds linear_maps_only json dlinear.json 'd["num_params"] == 2 * 49 * 12'
holds columns_are_kept json encoder/config.json '[c["name"] for c in d["task"]["facts"]["columns"]] == ["load", "heat", "fixed"]'

# Informer's encoder and decoder: learns, forecasts the rows after the end, has a preset, and refuses what does not fit.
two="--model informer --label-len 24 --norm post --positions sinusoidal --eval-every 50 --learning-rate 0.003"
run train forecast --data table.csv --attention softmax --steps 150 --out informer $two $tiny
run eval informer --json --threads 1
cp out informer.json
holds informer_learns json out 'd["mse"] < 0.6 and d["examples"] == 129'
run predict informer table.csv
holds informer_forecasts sh -c 'head -n 1 out | grep -qx "date,load,heat,fixed" && [ "$(wc -l <out)" = 13 ] && sed -n 2p out | grep -q "^2020-01-30 04:00:00,"'
run train forecast --data table.csv --attention lha/lha/local/softmax --num-buckets 3 --features MS --target heat --attention-dropout 0.1 --layers 2 --steps 20 --out both --model informer --label-len 0 --norm post --positions sinusoidal --eval-every 10 --seq-len 48 --horizon 12 --dim 16 --heads 2 --ffn 16 --batch 32 --quiet --threads 1
run eval both --json --threads 1
holds mechanisms_of_both_stacks json out '0 < d["mse"] < 20 and d["attention"] == "lha/lha/local/softmax"'
run train forecast --data table.csv --attention lha/lha/local/softmax --num-buckets 3 --features MS --target heat --attention-dropout 0.1 --layers 2 --steps 20 --out threads --model informer --label-len 0 --norm post --positions sinusoidal --eval-every 10 --seq-len 48 --horizon 12 --dim 16 --heads 2 --ffn 16 --batch 32 --quiet --threads 3
holds threads_of_both_stacks cmp threads/model.safetensors both/model.safetensors
run train forecast --data table.csv --preset informer --split-by shares --layers 2 --dim 16 --heads 2 --ffn 16 --steps 2 --eval-every 2 --out preset --quiet --threads 1
holds preset_of_informer json preset/config.json '"probsparse/probsparse/probsparse/softmax" in str(d) and d["task"]["options"]["label_len"] == 48 and d["model"]["norm"] == "post" and d["task"]["facts"]["decoder_rows"] == 72 and d["task"]["facts"]["decoded_rows"] == 24'

# Distilling: learns, the same bits with any number of threads, is kept in the run, and is refused where it means nothing.
half="--model informer --label-len 24 --norm post --positions sinusoidal --seq-len 48 --horizon 12 --dim 16 --heads 2 --ffn 16 --batch 32 --quiet --learning-rate 0.003"
run train forecast --data table.csv --attention lha/lha/local/softmax --num-buckets 3 --distil --layers 3 --steps 150 --eval-every 50 --out halved --threads 1 $half
run eval halved --json --threads 1
holds distilling_learns json out 'd["mse"] < 0.6 and d["examples"] == 129'
run train forecast --data table.csv --attention lha/lha/local/softmax --num-buckets 3 --distil --layers 3 --steps 150 --eval-every 50 --out halved3 --threads 3 $half
holds threads_of_distilling cmp halved3/model.safetensors halved/model.safetensors
holds distilling_is_kept json halved/config.json 'd["model"]["distil"] is True'
holds preset_distils json preset/config.json 'd["model"]["distil"] is True'
holds distilling_has_tensors grep -aq "encoder.distil.1.convolution.weight" halved/model.safetensors
run predict halved table.csv
holds distilling_forecasts sh -c '[ "$(wc -l <out)" = 13 ] && sed -n 2p out | grep -q "^2020-01-30 04:00:00,"'
run train forecast --data table.csv --preset informer --no-distil --split-by shares --dim 16 --heads 2 --ffn 16 --steps 1 --eval-every 1 --out undistilled --quiet --threads 1
holds preset_without_distilling json undistilled/config.json 'd["model"]["distil"] is False'

# inspect and bench step count both stacks: the second encoder layer has 24 rows, the decoder 36.
run train forecast --data table.csv --attention lha --num-buckets 3 --distil --layers 2 --steps 5 --eval-every 5 --out grouped --threads 1 $half
run inspect grouped --examples 2 --json
cp out grouped.json
holds inspects_both_stacks json grouped.json '[(h["layer"], h["head"], h["stack"]) for h in d["heads"]] == [(l, h, s) for l, s in enumerate(("encoder", "encoder", "decoder", "cross")) for h in (0, 1)]'
holds inspects_rows_of_each json grouped.json '[tuple(map(sum, zip(*h["own"]["buckets"]))) for h in d["heads"][::2]] == [(48, 48), (24, 24), (36, 36), (36, 24)]'
holds keys_have_shares json grouped.json 'all(abs(sum(h[m][s]) - 1) < 1e-9 for h in d["heads"] for m in ("own", "lsh", "smyrf") for s in ("queries_in", "keys_in"))'
says inspect_names_the_stack "lha, cross" inspect grouped --examples 1
run train forecast --data table.csv --attention softmax --distil --layers 2 --steps 5 --eval-every 5 --out probed --threads 1 $half
run inspect probed --examples 2 --probe lsh --json
holds probes_both_stacks json out '[(h["layer"], h["stack"], h["probe"]) for h in d["heads"][::2]] == [(0, "encoder", "lsh"), (1, "encoder", "lsh"), (2, "decoder", "lsh"), (3, "cross", "lsh")]'
run bench step forecast --data table.csv --attention softmax --distil --layers 2 --repeats 2 --threads 1 --json --model informer --label-len 30 --norm post --positions sinusoidal --seq-len 48 --horizon 40 --dim 16 --heads 2 --ffn 16 --batch 32
holds step_of_both_stacks json out '(d["sequences_per_step"], d["tokens_per_step"], d["longest"]) == (64, 32 * (48 + 70), 70)'
run eval probed --json --threads 1
holds eval_counts_both_stacks json out 'd["tokens"] == 129 * (48 + 36)'
run train forecast --data table.csv --attention softmax --distil --layers 2 --decoder-layers 2 --steps 1 --eval-every 1 --out deep --threads 1 $half
again="--from deep --model informer --label-len 24 --seq-len 48 --horizon 12 --batch 32 --steps 1 --eval-every 1"
run train forecast --data table.csv $again --out again --quiet --threads 1
holds stacks_of_a_stored_model json again/config.json 'd["model"]["distil"] is True and d["model"]["decoder_layers"] == 2'
expect distilling_is_stored 2 "deep, where training starts; it cannot be false" train forecast --data table.csv $again --no-distil --out no
expect decoder_layers_are_stored 2 "deep, where training starts; it cannot be 1" train forecast --data table.csv $again --decoder-layers 1 --out no
expect distil_one_layer 2 "--distil is true and --layers is 1; it halves rows between layers, so 2 to 16 are allowed" train forecast --data table.csv --out no --distil --layers 1 $half
expect distil_too_often 2 "--distil: a sequence of 48 rows has 2 left before halving 6 of 6, at least 3 are needed" train forecast --data table.csv --out no --distil --layers 7 $half
expect distil_of_an_encoder 2 "it halves the rows of an encoder that a decoder reads (forecast with --model informer)" train forecast --data table.csv --out no --distil --norm post
# 431 windows in steps of 32: the 20th step begins in the second pass, the 30th and 40th in the third, the 50th in the fourth.
run train forecast --data table.csv --attention softmax --schedule halving --warmup 0 --steps 50 --eval-every 50 --learning-rate 0.008 --out halving $tiny --input joint
holds rate_halves_after_each_pass sh -c 'python3 -c "
import json
rates = {d[\"step\"]: d[\"learning_rate\"] for d in map(json.loads, open(\"halving/log.jsonl\")) if \"learning_rate\" in d}
assert [rates[s] for s in (10, 20, 30, 40, 50)] == [.008, .004, .002, .002, .001], rates"'
holds preset_halves json preset/config.json 'd["training"]["schedule"] == "halving"'
expect label_too_long 2 "--label-len is 24, --seq-len 12; the decoder reads rows that the encoder reads" train forecast --data table.csv --out no --model informer --seq-len 12 --label-len 24 --norm post
expect decoder_is_post 2 "--norm is pre, blocks of a decoder have post" train forecast --data table.csv --out no --model informer
expect causal_half 2 "sinkhorn cannot do sequences of 96 rows with heads of 16 in the decoder's self-attention, which is causal" train forecast --data table.csv --out no --model informer --norm post --attention sinkhorn

# predict: the rows after the end of a file, with dates, in the units of the file.
run predict seasonal table.csv
cp out after.csv
python3 - <<'P' && passed rows_after_the_end || failed rows_after_the_end "$(cat after.csv)"
import csv, datetime
table, after = (list(csv.reader(open(name))) for name in ("table.csv", "after.csv"))
assert after[0] == ["date", "load", "heat", "fixed"] and len(after) == 13, after
last = datetime.datetime.fromisoformat(table[-1][0])
for h, row in enumerate(after[1:]):
    assert row[0] == (last + (h + 1) * datetime.timedelta(hours=1)).isoformat(" "), row
    for c in (1, 2, 3):
        want = (float(table[-48 + h][c]) + float(table[-24 + h][c])) / 2
        assert abs(float(row[c]) - want) < 1e-3 * abs(want), (row, want)
P
holds rows_are_counted grep -qx "12 rows" err
tail -n 60 table.csv >end && (head -n 1 table.csv; cat end) >end.csv
run predict seasonal end.csv --out end_after.csv --quiet
holds a_short_file_suffices cmp end_after.csv after.csv
"$tool" predict seasonal - <table.csv >streamed 2>err
holds table_on_standard_input cmp streamed after.csv
(head -n 1 table.csv; tail -n 40 table.csv) >short.csv
expect short_file 3 "short.csv: 40 rows, a forecast reads 48" predict seasonal short.csv
sed 's/^date,load/date,"a ""b"", c"/' table.csv >quoted.csv
run train forecast --data quoted.csv --model last --steps 1 --eval-every 1 --out odd $tiny
run predict odd quoted.csv --quiet
holds names_are_quoted sh -c 'head -n 1 out | grep -qxF "date,\"a \"\"b\"\", c\",heat,fixed"'

# As many digits as a column has: the last ones of large numbers are kept.
python3 -c '
import datetime
print("when,count")
for t in range(200):
    print(f"{datetime.date(2020, 1, 1) + datetime.timedelta(t)},{1234567890 + t % 7 / 4}")' >large.csv
run train forecast --data large.csv --date-column when --model last --seq-len 14 --horizon 3 --steps 1 --eval-every 1 --out large --quiet --threads 1
run predict large large.csv --quiet
holds large_numbers_keep_their_digits sh -c '[ "$(tail -n 1 out)" = "2020-07-21,1234567890.75" ] || { cat out; exit 1; }'
holds dates_keep_their_name sh -c 'head -n 1 out | grep -qx when,count'
sed '40s/,.*/,1e200/' large.csv >huge.csv
expect huge_numbers 3 "huge.csv: row 39: column 'count' is 1e+200, too large to standardise; up to 1e150 are allowed" train forecast --data huge.csv --date-column when --model last --seq-len 14 --horizon 3 --out no --quiet

sed '190s/,.*/,1e200/' large.csv >late.csv
expect huge_numbers_of_later_parts 3 "late.csv: row 189: column 'count' is 1e+200, more than 1e+18 deviations of the training part from its mean" eval large --data late.csv
expect huge_numbers_to_predict_from 3 "row 189: column 'count' is 1e+200" predict large late.csv

# Errors in the units of the file.
run eval last --json --threads 1
cp out units.json
python3 - <<'P' && passed errors_in_units || failed errors_in_units "$(cat units.json)"
import csv, json
rows = list(csv.reader(open("table.csv")))[1:]
found = json.load(open("units.json"))["columns"]
for c, name in enumerate(("load", "heat", "fixed"), 1):
    x = [float(row[c]) for row in rows]
    offs = [x[begin - 1] - x[begin + h] for begin in range(560, 689) for h in range(12)]
    shares = [200 * abs(x[begin - 1] - x[begin + h]) / (abs(x[begin - 1]) + abs(x[begin + h])) for begin in range(560, 689) for h in range(12)]
    scale = sum(abs(x[t] - x[t - 24]) for t in range(24, 490)) / 466
    for key, want in (("mse", sum(o * o for o in offs)), ("mae", sum(map(abs, offs))), ("smape", sum(shares))):
        assert abs(found[name][key] - want / len(offs)) <= 1e-4 * want / len(offs), (name, key, found)
    if scale == 0:
        assert found[name]["mase"] is None, found
    else:
        assert abs(found[name]["mase"] * scale * len(offs) / sum(map(abs, offs)) - 1) < 1e-4, (name, scale, found)
P
says errors_as_words "in the units of the file" eval last
"$tool" data needle --out needles --train 8 --valid 4 --test 4 --seq-len 16 --marks 2 --quiet 2>err
run train needle --data needles --attention none --layers 1 --dim 16 --heads 2 --ffn 16 --steps 1 --eval-every 1 --out needle --quiet
run eval needle
holds only_forecasts_have_units sh -c '! grep -q units out'
expect pictures_of_one_run 2 "--draw applies to one run, --against compares two" eval last --draw x.svg --against seasonal
run eval dlinear --against last --json --threads 1
run eval last --against seasonal --json --threads 1
cp out pair.json
python3 - <<'P' && passed a_window_is_an_example || failed a_window_is_an_example "$(cat pair.json)"
import csv, json
rows = list(csv.reader(open("table.csv")))[1:]
columns = [[float(row[c]) for row in rows] for c in (1, 2)]
for c, column in enumerate(columns):
    mean = sum(column[:490]) / 490
    deviation = (sum((x - mean) ** 2 for x in column[:490]) / 490) ** .5
    columns[c] = [(x - mean) / deviation for x in column]
off = []  # of each window, with the constant column
for begin in range(560, 689):
    ahead = [(x[begin - 48:begin], x[begin:begin + 12]) for x in columns]
    off.append(sum((w[-1] - y[h]) ** 2 - ((w[h] + w[h + 24]) / 2 - y[h]) ** 2 for w, y in ahead for h in range(12)) / 36)
mean = sum(off) / 129
error = (sum((d - mean) ** 2 for d in off) / 128 / 129) ** .5
found = json.load(open("pair.json"))
mse = found["metrics"]["mse"]
assert found["examples"] == 129 and abs(mse["difference"] - mean) < 1e-5 and abs(mse["standard_error"] - error) < 1e-5 * error + 1e-9, (mse, mean, error)
P
run eval informer --against seasonal --json --threads 1
cp out pair.json
holds one_column_against_all python3 -c '
import json
found, joint, single = (json.load(open(name + ".json")) for name in ("pair", "informer", "seasonal"))
mse = found["metrics"]["mse"]
assert found["examples"] == 129 and abs(mse["run"] - joint["mse"]) < 1e-6 and abs(mse["against"] - single["mse"]) < 1e-6, (mse, joint["mse"], single["mse"])'
says windows_depend_on_each_other "windows overlap" eval dlinear --against last --threads 1
run eval dlinear --against last --json --threads 1
holds models_are_compared json out 'd["metrics"]["mse"]["difference"] < 0 and d["metrics"]["mse"]["z"] > 0'

# Pictures: well-formed, with the points of truth and forecast.
run eval seasonal --draw picture.svg --threads 1 --json
holds eval_still_reports json out 'd["mse"] > 0'
python3 - <<'P' && passed picture_of_the_last_window || failed picture_of_the_last_window "$(head -c 600 picture.svg)"
import re, xml.etree.ElementTree as xml
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse("picture.svg").getroot()
assert root.find(svg + "title").text == "fixed: forecast of 12 rows from 2020-01-29 16:00:00 on"
assert [t.text for t in root.iter(svg + "text") if t.get("class") == "name"] == ["truth", "forecast"]
lines = [p.get("d") for g in root.iter(svg + "g") for p in g.findall(svg + "path") if (g.get("class") or "")[0:1] == "s"]
points = [len(re.findall("[ML]", d)) for d in lines if d.count("L") > 0]
assert points == [36 + 12, 12], points
assert "var(" not in open("picture.svg").read()
P
run train forecast --data table.csv --model last --steps 1 --eval-every 1 --out drawn --draw trained.svg $tiny
holds train_draws grep -q "forecast of 12 rows from 2020-01-23 20:00:00 on" trained.svg
expect only_forecasts_are_drawn 2 "--draw draws forecasts, needle makes none" train needle --data needles --out bad --draw bad.svg
expect pictures_are_tried_first 4 "nowhere/p.svg" train forecast --data table.csv --model last --steps 1 --eval-every 1 --out untrained --draw nowhere/p.svg $tiny
holds no_run_without_its_picture test ! -e untrained
expect picture_not_writable 4 "nowhere/p.svg" eval last --draw nowhere/p.svg

# A run that was stopped and resumed is the uninterrupted one.
run train forecast --data table.csv --attention softmax --steps 60 --eval-every 20 --learning-rate 0.003 --save-every 20 --until mse=9 --out part $tiny
run train --resume part --threads 1 --quiet
holds resumed_bits cmp part/model.safetensors encoder/model.safetensors

# A directory with one CSV file is that file; S reads nothing but its target.
mkdir folder
sed '300s/,7$/,oops/' table.csv >folder/one.csv
expect bad_cell 3 "folder/one.csv: line 300, row 299: column 'fixed' is 'oops', a finite number is needed" \
    train forecast --data folder --steps 2 --out bad $tiny
run train forecast --data folder --features S --target load --steps 2 --eval-every 2 --out single $tiny
holds other_columns_may_hold_anything test "$code" = 0
run train forecast --data table.csv --features MS --target load --steps 2 --eval-every 2 --out several $tiny
run eval several --json --threads 1
holds all_columns_for_one json out 'd["examples"] == 129'
sed '300d' table.csv >gap.csv
expect missing_date 3 "line 300, row 299: 1 date is missing before 2020-01-13 11:00:00" \
    train forecast --data gap.csv --steps 2 --out bad $tiny
expect long_horizon 3 "table.csv: a forecast has 701 rows (--horizon), the file has 700" \
    train forecast --data table.csv --horizon 701 --seq-len 48 --patch-len 12 --out bad --quiet
expect no_such_target 3 "no column 'OT' (--target); there are: date, load, heat, fixed" \
    train forecast --data table.csv --target OT --features S --out bad $tiny
holds refused_runs_leave_nothing test ! -e bad
finish
