#!/bin/sh
# data, train, eval: generated tasks through the tool. Stops, resuming and threads are compared bit for bit.
# Planted and caught: a second start that overwrites a run; exit code 0 after SIGINT; --until never reached; the seed of the
# tool not passed to the training; a given warm-up scaled; a bar written to something that is not a terminal; options
# of mechanisms that reach the other run of --against too; data that moved with an advice that --resume refuses; other
# data taken with --resume --data, or the new place forgotten.
# Covers: cmd_train.c cmd_eval.c cmd_data.c profile_out.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --quiet"

run data needle --out d --train 200 --valid 40 --test 40 --seq-len 16 --marks 4 --seed 3 --json
cp out data.json
holds report_of_data json data.json '(d["task"], d["train"], d["valid"], d["test"], d["seed"]) == ("needle", 200, 40, 40, 3)'
holds lines_of_data test "$(grep -c . d/test.tsv)" -ge 40
run data needle --out d2 --train 200 --valid 40 --test 40 --seq-len 16 --marks 4 --seed 3
holds same_seed_same_data cmp d/train.tsv d2/train.tsv
expect data_are_not_overwritten 2 "exists already" data needle --out d
expect data_need_a_directory 2 "data needs --out DIR" data needle
expect data_need_a_task 2 "data needs one operand, the task; got 0" data --out d3
expect data_of_unknown_task 2 "no task or kind 'neddle'; did you mean needle? There are: needle, " data neddle --out d3
expect data_of_unknown_kind 2 "no task or kind 'descibe'; did you mean describe? There are: needle, listops, " data descibe text p.jsonl
run data xyzzy
holds data_names_what_it_makes sh -c 'grep -q "mlm, pathfinder, describe (see" err && ! grep -q glue err'
expect kinds_come_first 2 "data describe: the kind must come before options" data --json describe text p.jsonl
expect data_of_text 2 "text cannot be generated" data text --out d3
expect data_without_room 4 "" data needle --out /proc/nowhere
[ -e d3 ] && failed nothing_was_made "d3 is there" || passed nothing_was_made

# Uninterrupted, stopped and resumed, and with other numbers of threads: the same bits.
run train needle --data d --out whole --steps 12 --eval-every 4 --seed 5 --threads 1 --json $tiny
cp out whole.json
holds report_of_train json whole.json 'd["steps"] == 12 and d["stopped_by"] == "steps" and d["seconds"] > 0 and d["tokens_per_second"] > 0 and d["loss"] > 0 and 0 <= d["valid_accuracy"] <= 1 and d["best_accuracy"] >= d["valid_accuracy"] and d["saved_bytes"] > 0 and d["peak_rss_bytes"] > 1 << 20'
holds quiet_is_quiet test ! -s err
holds files_of_a_run test -e whole/config.json -a -e whole/model.safetensors -a -e whole/last.safetensors -a -e whole/optimizer.safetensors -a -e whole/trainer.json -a -e whole/log.jsonl
holds config_has_the_seed json whole/config.json 'd["training"]["seed"] == 5 and d["attention"]["name"] == "yoso" and d["training"]["steps"] == 12'
run train needle --data d --out threads --steps 12 --eval-every 4 --seed 5 --threads 3 $tiny
holds threads_change_no_bit cmp whole/last.safetensors threads/last.safetensors
# A mechanism with parameters and a loss of its own.
lha="--attention lha --num-buckets 3 --eval-every 4 --seed 5 $tiny"
run train needle --data d --out hashes --steps 12 --threads 1 $lha
run train needle --data d --out hashes3 --steps 12 --threads 3 $lha
holds threads_change_no_bit_of_lha cmp hashes/last.safetensors hashes3/last.safetensors
run train needle --data d --out hashes_part --steps 12 --max-seconds 0.000001 $lha
run train --resume hashes_part --quiet
holds lha_resumes_bit_for_bit cmp hashes/last.safetensors hashes_part/last.safetensors
run train needle --data d --out frozen --steps 12 --threads 1 --hash-loss 0 $lha
cmp -s hashes/last.safetensors frozen/last.safetensors && failed hash_loss_matters "the same bits" || passed hash_loss_matters
says lha_is_evaluated '"accuracy"' eval hashes --json
run train needle --data d --out profiled --steps 12 --eval-every 4 --seed 5 --threads 2 --profile --json $tiny
cp out profiled.json
holds profile_of_training json profiled.json '{p["part"] for p in d["profile"] if p["ms"] > 0} >= {"attention", "products", "evaluation", "saving"} and abs(sum(p["share"] for p in d["profile"]) - 1) < 1e-9'
cmp -s profiled/last.safetensors whole/last.safetensors && passed profile_changes_no_bit || failed profile_changes_no_bit "they differ"
run train needle --data d --out other --steps 12 --eval-every 4 --seed 6 $tiny
cmp -s whole/last.safetensors other/last.safetensors && failed seed_matters "two seeds, one model" || passed seed_matters
# A run hashes as it was trained: the projection recorded in config.json is used.
holds auto_is_settled json whole/config.json 'd["attention"]["options"]["projection"] == "int16-dp" and "projection" not in d["attention"]'
run train needle --data d --out pairs --steps 4 --seed 5 --projection bf16-dp $tiny
holds projection_is_recorded json pairs/config.json 'd["attention"]["options"]["projection"] == "bf16-dp"'
HASHATTN_ISA=ref says projection_runs_elsewhere '"loss"' eval pairs --json
sed 's/"projection": "bf16-dp"/"projection": "bf16-amx"/' pairs/config.json >config.json && mv config.json pairs/config.json
expect unknown_projection 3 "projection is 'bf16-amx'" eval pairs
run train needle --data d --out warm --warmup 5 --steps 7 $tiny
holds warm_up_that_was_set json warm/config.json '(d["training"]["warmup"], d["training"]["steps"]) == (5, 7)'
run train needle --data d --out part --steps 100000 --eval-every 50000 --max-seconds 0.2 --json $tiny
cp out part.json
holds time_is_up json part.json 'd["stopped_by"] == "time" and 0 < d["steps"] < 100000 and d["valid_accuracy"] is not None'
# A run that was stopped before its first evaluation is a run: its last parameters are used, with a word.
steps=$(python3 -c 'import json; print(json.load(open("part.json"))["steps"])')
run eval part --json
cp out eval.json
holds last_parameters_are_evaluated json eval.json 'd["parameters"] == "last" and d["loss"] > 0'
grep -q "^hashattn: part has no best model yet; these are its last parameters, of training step $steps\$" err && passed last_parameters_are_told || failed last_parameters_are_told "$(cat err)"
run eval whole --json
cp out eval.json
holds best_parameters_are_evaluated json eval.json 'd["parameters"] == "best"'
[ -s err ] && failed best_parameters_are_silent "$(cat err)" || passed best_parameters_are_silent
run inspect part --probe lsh --num-buckets 2 --examples 1
[ "$code" = 0 ] && grep -q "part has no best model yet" err && passed last_parameters_are_inspected || failed last_parameters_are_inspected "$(cat err)"
run train needle --data d --out from_part --from part --steps 1 --batch 8
[ "$code" = 0 ] && grep -q "starts from $work/part (no best model yet: the last parameters, of step $steps): " err && passed last_parameters_start_a_run || failed last_parameters_start_a_run "$(cat err)"
run train needle --data d --out learned --steps 100000 --eval-every 5 --until accuracy=0.1 --learning-rate 0.01 --json $tiny
cp out learned.json
[ "$code" = 0 ] && holds accuracy_is_reached json learned.json 'd["stopped_by"] == "accuracy" and d["valid_accuracy"] >= .1 and d["steps"] % 5 == 0' || failed accuracy_is_reached "$(cat err)"

run train needle --data d --out relu --steps 12 --eval-every 4 --seed 5 --activation relu $tiny
holds activation_is_recorded json relu/config.json 'd["model"]["activation"] == "relu"'
cmp -s whole/last.safetensors relu/last.safetensors && failed activation_matters "two activations, one model" || passed activation_matters
run train needle --data d --out plain --steps 12 --eval-every 4 --seed 5 --no-attention-biases $tiny
holds only_other_layers_have_biases python3 -c 'import json, struct; f = open("plain/model.safetensors", "rb"); names = json.loads(f.read(struct.unpack("<Q", f.read(8))[0])); attention = [n for n in names if ".attention." in n]; assert len(attention) == 4 and not [n for n in attention if "bias" in n] and "encoder.layer.0.output.dense.bias" in names, sorted(names)'
says plain_runs_are_evaluated '"accuracy"' eval plain --json
# Two runs on the same examples.
run eval whole --json
cp out whole.json
run eval other --json --seed 5
cp out other.json
run eval whole --against other --json
cp out against.json
holds against_has_the_metrics_of_both json against.json 'all(abs(m["run"] - json.load(open("whole.json"))[k]) < 1e-12 and abs(m["against"] - json.load(open("other.json"))[k]) < 1e-12 and m["standard_error"] > 0 for k, m in d["metrics"].items()) and set(d["metrics"]) == {"accuracy", "loss"} and (d["examples"], d["run"], d["against"]) == (40, "whole", "other")'
holds against_tests_one_tail json against.json 'all(abs(m["p"] - __import__("math").erfc(m["z"] / 2 ** .5) / 2) < 1e-12 and (m["z"] > 0) == ((m["run"] > m["against"]) == m["more_is_better"]) for m in d["metrics"].values() if m["difference"])'
says against_speaks 'z is positive if the run is better' eval whole --against other
run eval whole --num-hashes 64 --against whole --json
cp out hashes.json
holds more_hashes_against_the_same_run json hashes.json 'abs(d["metrics"]["loss"]["against"] - json.load(open("whole.json"))["loss"]) < 1e-12 and d["metrics"]["loss"]["difference"] != 0'
expect against_nothing 3 "nowhere/config.json" eval whole --against nowhere
run data needle --out d_other --train 20 --valid 8 --test 8 --seq-len 16 --marks 4 --seed 4
run train needle --data d_other --out elsewhere --steps 2 --eval-every 2 $tiny
expect against_other_data 2 "/d_other; name the data to compare them on" eval whole --against elsewhere
says against_on_named_data '8 examples' eval whole --against elsewhere --data d_other

# Precision: the run records it, eval uses it unless --precision is given, and resuming cannot change it.
run train needle --data d --out rounded --steps 12 --eval-every 4 --seed 5 --threads 1 --precision bf16 $tiny
holds config_has_the_precision json rounded/config.json 'd["model"]["precision"] == "bf16"'
cmp -s whole/last.safetensors rounded/last.safetensors && failed precision_matters "the same bits" || passed precision_matters
run train needle --data d --out rounded3 --steps 12 --eval-every 4 --seed 5 --threads 3 --precision bf16 $tiny
holds threads_change_no_bit_of_bf16 cmp rounded/last.safetensors rounded3/last.safetensors
run eval rounded --json
cp out rounded.json
run eval rounded --json --precision float32
cp out single.json
holds eval_has_the_precision json rounded.json 'd["precision"] == "bf16" and d["loss"] > 0'
holds eval_can_be_told json single.json 'd["precision"] == "float32" and d["loss"] != json.load(open("rounded.json"))["loss"] and abs(d["loss"] - json.load(open("rounded.json"))["loss"]) < .1'
expect resuming_keeps_the_precision 2 "--precision" train --resume rounded --precision float32

# Signals: the first one saves and exits with 130, and the run resumes as if it had not been interrupted.
for signal in INT TERM; do
    "$tool" train needle --data d --out "by$signal" --steps 1500 --eval-every 100 --seed 5 --threads 1 $tiny >out 2>err &
    process=$!
    while [ ! -s "by$signal/log.jsonl" ]; do kill -0 $process 2>/dev/null || break; done
    kill -$signal $process
    wait $process
    code=$?
    [ $code = 130 ] && passed "code_after_SIG$signal" || failed "code_after_SIG$signal" "code $code: $(cat err)"
    run train --resume "by$signal" --threads 2 --quiet
    [ "$code" = 0 ] && passed "resumed_after_SIG$signal" || failed "resumed_after_SIG$signal" "$(cat err)"
done
holds two_stops_one_result cmp byINT/last.safetensors byTERM/last.safetensors
run train needle --data d --out unstopped --steps 1500 --eval-every 100 --seed 5 --threads 1 $tiny
holds stops_change_no_bit cmp byINT/last.safetensors unstopped/last.safetensors
holds nor_the_best_model cmp byINT/model.safetensors unstopped/model.safetensors
run train --resume unstopped --json
cp out again.json
holds nothing_is_left_to_do json again.json 'd["steps"] is None'
grep -q "nothing left to do" err && passed finished_run_is_told || failed finished_run_is_told "$(cat err)"

# Messages: one line per evaluation, no bar without a terminal.
run train needle --data d --out words --steps 8 --eval-every 4 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 8
[ "$(grep -c "^step [48]/8  accuracy .*  loss .*valid accuracy .*best accuracy .*tokens/s$" err)" = 2 ] && passed words_of_evaluations || failed words_of_evaluations "$(cat err)"
grep -q "$(printf '\r')" err && failed no_bar_without_a_terminal "$(cat err)" || passed no_bar_without_a_terminal
[ -s out ] && failed train_is_silent_on_stdout "$(cat out)" || passed train_is_silent_on_stdout
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    TERM=xterm script -qec "'$tool' train needle --data d --out bar --steps 8 --eval-every 4 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 8" /dev/null >terminal 2>&1 </dev/null
    grep -q "#.* left" terminal && passed bar_on_a_terminal || failed bar_on_a_terminal "$(head -c 300 terminal)"
    grep -q "$(printf '\033')\[32m" terminal && passed colour_on_a_terminal || failed colour_on_a_terminal "none"
    NO_COLOR=1 TERM=xterm script -qec "'$tool' train needle --data d --out grey --steps 8 --eval-every 4 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 8" /dev/null >terminal 2>&1 </dev/null
    grep -q "$(printf '\033')\[32m" terminal && failed no_color_is_heard "coloured" || passed no_color_is_heard
else
    echo "SKIPPED: progress bar (no script command, or no pseudo-terminal)"
fi

# Time of a run: a profile has no more than the run took, and a limit counts from the start of this process.
holds profile_within_the_run json profiled.json 'sum(p["ms"] for p in d["profile"] if p["part"] not in ("evaluation", "saving")) * 12 / 1000 <= d["seconds"] * 1.01 and all((p["ms"] == 0) == (p["share"] == 0) and (p["ms"] > 0 or p["busy"] == 0) for p in d["profile"])'
run train --resume part --max-seconds 0.2 --json --quiet
cp out more.json
holds time_of_this_process json more.json 'd["stopped_by"] == "time" and d["task"] is None and d["run"] == "part" and d["seconds"] > .2 and d["steps"] > json.load(open("part.json"))["steps"] + 1'
run train --resume whole --profile --json
cp out nothing.json
holds profile_of_nothing json nothing.json 'd["busy"] == 0 and all((p["ms"], p["share"], p["busy"]) == (0, 0, 0) for p in d["profile"]) and d["seconds"] is None and d["stopped_by"] == "steps"'
grep -qx "  all  *0.000     0.0 %     0.0 %" err && passed profile_of_nothing_is_told || failed profile_of_nothing_is_told "$(cat err)"
run train needle --data d --out silent --steps 2 --profile $tiny
[ "$code" = 0 ] && [ ! -s err ] && passed quiet_profile || failed quiet_profile "$(cat err)"
run data needle --out d3 --train 2 --valid 1 --test 1 --seq-len 8 --marks 2 --quiet
[ "$code" = 0 ] && [ ! -s err ] && [ ! -s out ] && passed quiet_data || failed quiet_data "$(cat err out)"
rm -r d3
# The second signal ends a long step at once.
"$tool" data needle --out long --train 8 --valid 1 --test 1 --seq-len 16384 --marks 4 --quiet
"$tool" train needle --data long --out slow --attention softmax --steps 9 --batch 8 --quiet 2>err &
process=$!
while [ ! -s slow/log.jsonl ]; do kill -0 $process 2>/dev/null || break; done
kill -TERM $process
for i in 1 2 3; do # a busy process may take the first two as one
    sleep 0.2
    kill -TERM $process 2>/dev/null
done
wait $process
code=$?
[ $code = 143 ] && passed second_signal_ends_at_once || failed second_signal_ends_at_once "code $code: $(cat err)"

# eval.
run eval whole --json
cp out eval.json
holds report_of_eval json eval.json 'd["split"] == "test" and d["examples"] == 40 and 0 <= d["accuracy"] <= 1 and d["loss"] > 0 and 0 < d["majority"] < 1 and d["num_cut"] == 0'
run eval whole --split train --data d2 --json
cp out eval2.json
holds another_split json eval2.json 'd["examples"] == 200'
run eval whole --json --threads 3
cp out eval3.json
holds threads_do_not_matter_in_eval json eval3.json "d['loss'] == $(python3 -c 'import json; print(json.load(open("eval.json"))["loss"])')"
run eval whole --json --num-hashes 1
cp out eval4.json
holds hashes_may_differ json eval4.json "d['loss'] != $(python3 -c 'import json; print(json.load(open("eval.json"))["loss"])')"
says words_of_eval "majority 0" eval whole
run eval whole --json --seed 5
cp out eval5.json
run eval whole --json --seed 6
cp out eval6.json
holds seed_of_eval json eval.json 'd["loss"] == json.load(open("eval5.json"))["loss"] != json.load(open("eval6.json"))["loss"]'

# Usage errors.
expect run_is_not_overwritten 2 "whole exists already; a run is never overwritten" train needle --data d --out whole $tiny
expect train_needs_data 2 "train needs --data DIR" train needle --out x
expect train_needs_out 2 "train needs --out RUN" train needle --data d
expect train_needs_a_task 2 "train needs one operand, the task; got 0" train --data d --out x
expect train_of_unknown_task 2 "no task 'neddle'" train neddle --data d --out x
mv d moved
expect data_that_moved 3 "/d: the data of the run is not there; move it back, or give its new place with --data" eval whole
says data_at_their_new_place '"loss"' eval whole --data moved --json
cp -r whole replaced
expect data_that_moved_before_resuming 3 "/d: the data of the run is not there; move it back, or give its new place with --data" train --resume replaced --steps 400
expect other_data_than_before 3 "/d_other: the training set is not the one the run began with" train --resume replaced --steps 400 --data d_other
holds other_data_are_not_kept cmp whole/config.json replaced/config.json
expect new_data_that_are_not_there 3 "cannot open nowhere: No such file" train --resume replaced --data nowhere
cp -r whole finished
run train --resume finished --data moved
holds the_new_place_is_kept json finished/config.json 'd["data"].endswith("/moved") and d["training"]["steps"] == 12'
expect resumed_with_a_new_place 0 "done: " train --resume replaced --steps 400 --data moved
mv moved d
run train needle --data d --out unmoved --steps 12 --eval-every 4 --seed 5 --threads 1 $tiny
run train --resume unmoved --steps 400 --quiet
holds moved_data_are_the_same cmp unmoved/last.safetensors replaced/last.safetensors
expect data_that_are_not_there 3 "cannot open nowhere: No such file" train needle --data nowhere --out x
expect other_data_that_are_not_there 3 "cannot open nowhere: No such file" eval whole --data nowhere
expect data_of_another_task 3 "d" train listops --data d --out x
expect unknown_preset 2 "text has no preset 'lar', there are: lra, lra-small" train text --data d --out x --preset lar
expect preset_of_another_task 2 "text has no preset 'bert', there are: lra, lra-small" train text --data d --out x --preset bert
expect preset_that_is_not 2 "needle has no preset 'lra', nor any other" train needle --data d --out x --preset lra
expect rate_that_is_read_as_0 2 "training: --learning-rate is '1e-400', which is too small and would be read as 0; allowed are 0 to 10" train needle --data d --out x --learning-rate 1e-400
expect hexadecimal_rate 2 "training: --learning-rate is '0x1p-3', a number from 0 to 10 is needed" train needle --data d --out x --learning-rate 0x1p-3
expect option_of_another_task 2 "train has no option --max-depth" train needle --data d --out x --max-depth 3
expect option_of_another_mechanism 2 "needle with softmax has no option 'num_hashes'" train needle --attention softmax --num-hashes 4 --data d --out x
expect steps_of_nothing 2 "--steps is 0, allowed are 1 to" train needle --data d --out x --steps 0
expect heads_that_do_not_divide 2 "--dim is 30, which is not a multiple of --heads, 4" train needle --data d --out x --dim 30 --heads 4
expect until_without_value 2 "--until is 'accuracy'; it must be METRIC=VALUE" train needle --data d --out x --until accuracy
expect until_without_number 2 "--until is 'accuracy=much'" train needle --data d --out x --until accuracy=much
expect until_unknown_metric 2 "no metric is called 'acuracy'; there are: accuracy, loss" train needle --data d --out misspelt --steps 2 --eval-every 1 --until acuracy=1 $tiny
for given in needle "--out x" "--preset lra" "--size tiny" "--attention yoso" "--seed 1 --threads 1" "--precision bf16"; do
    # shellcheck disable=SC2086
    expect "resume_takes_no_${given%% *}" 2 "--resume continues with the options of the run" train --resume whole $given
done
for until in =1 accuracy= accuracy=1x accuracy=inf accuracy=nan accuracy=0x1p-1 accuracy=1e-400 "$(printf '%064d' 1)=1"; do
    expect "until_'$until'" 2 "--until is '$(printf %.60s "$until")'; it must be METRIC=VALUE" train needle --data d --out x --until "$until"
done
expect until_long_unknown_metric 2 "no metric is called '$(printf '%063d' 1)'; there are: accuracy, loss" train needle --data d --out misspelt2 --steps 2 --eval-every 1 --until "$(printf '%063d' 1)=1" $tiny
# A smaller loss is better; a condition that the last step meets stops nothing.
run train needle --data d --out less --steps 9 --eval-every 2 --until loss=100 --json $tiny
cp out less.json
holds a_loss_is_reached json less.json '(d["stopped_by"], d["steps"]) == ("loss", 2)'
run train needle --data d --out equal --steps 9 --eval-every 2 --until "loss=$(python3 -c 'import json; print(json.load(open("less.json"))["valid_loss"])')" --json $tiny
cp out equal.json
holds an_equal_loss_is_reached json equal.json '(d["stopped_by"], d["steps"]) == ("loss", 2)'
run train needle --data d --out least --steps 4 --eval-every 2 --until loss=0.00001 --json $tiny
cp out least.json
holds a_loss_is_not_reached json least.json '(d["stopped_by"], d["steps"]) == ("steps", 4)'
run train needle --data d --out last --steps 2 --eval-every 2 --until loss=100 --json --layers 1 --dim 16 --heads 2 --ffn 16
cp out last.json
holds the_last_step_stops_nothing json last.json '(d["stopped_by"], d["steps"]) == ("steps", 2)'
grep -q "^done: 2 steps in .* s, best accuracy 0[.0-9]*, in last$" err && passed the_last_step_is_told || failed the_last_step_is_told "$(cat err)"
expect resume_of_nothing 3 "nowhere" train --resume nowhere
expect eval_of_nothing 3 "nowhere/config.json" eval nowhere
expect eval_needs_a_run 2 "eval needs one operand" eval
expect unknown_split 2 "--split is 'tset', allowed are train, valid, test" eval whole --split tset
expect absurd_hashes_in_eval 2 "--num-hashes is 0" eval whole --num-hashes 0
[ -e x ] && failed no_run_was_begun "x is there" || passed no_run_was_begun

cp -r whole shortened
sed 's/"steps": *12/"steps": 8/' whole/config.json >shortened/config.json
expect more_steps_than_the_config 3 "shortened/trainer.json is of step 12, config.json has 8 steps" train --resume shortened

# Full disks and damaged files.
cp -r byINT kept
cp -r part spare
without_room train needle --data d --out x --steps 4 $tiny
[ "$code" = 4 ] && passed full_disk_at_the_start || failed full_disk_at_the_start "code $code: $(cat err)"
without_room train --resume part --max-seconds 0.2 --quiet
[ "$code" = 4 ] && passed full_disk_on_the_way || failed full_disk_on_the_way "code $code: $(cat err)"
cmp -s part/last.safetensors spare/last.safetensors && cmp -s part/trainer.json spare/trainer.json && passed what_was_saved_is_there || failed what_was_saved_is_there "the state differs"
run train --resume part --max-seconds 0.2 --quiet
[ "$code" = 0 ] && passed goes_on_with_room || failed goes_on_with_room "$(cat err)"

spoilt() { # spoilt NAME FILE PART COMMAND...: checks that the command reports the damaged file with exit code 3
    name=$1 file=$2 part=$3
    shift 3
    expect "$name" 3 "$part" "$@"
    rm -rf byINT
    cp -r kept byINT
}
: >byINT/config.json; spoilt empty_config config.json "byINT/config.json: " eval byINT
head -c 100 kept/config.json >byINT/config.json; spoilt cut_config config.json "byINT/config.json: " eval byINT
sed 's/"heads": *[0-9]*/"heads": 0/' kept/config.json >byINT/config.json; spoilt number_out_of_range config.json "heads is 0" eval byINT
sed 's/"yoso"/"yosso"/' kept/config.json >byINT/config.json; spoilt unknown_mechanism_in_config config.json "'yosso'" eval byINT
sed 's/"ffn": *[0-9]*/"ffn": 32/' kept/config.json >byINT/config.json; spoilt shapes_that_differ model.safetensors "byINT/model.safetensors" eval byINT
printf '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[' >byINT/config.json; spoilt hostile_config config.json "byINT/config.json: " train --resume byINT
head -c 1000 kept/model.safetensors >byINT/model.safetensors; spoilt cut_model model.safetensors "byINT/model.safetensors: " eval byINT
: >byINT/model.safetensors; spoilt empty_model model.safetensors "byINT/model.safetensors: " eval byINT
printf '\377\377\377\377\377\377\377\177{}' >byINT/model.safetensors; spoilt hostile_model model.safetensors "byINT/model.safetensors: " eval byINT
head -c 1000 kept/last.safetensors >byINT/last.safetensors; spoilt cut_state last.safetensors "byINT" train --resume byINT
rm byINT/trainer.json; spoilt state_that_is_gone trainer.json "byINT" train --resume byINT
printf 'x\ty\tz\n' >d2/train.tsv; expect spoilt_data 3 "d2/train.tsv" train needle --data d2 --out x2
: >d2/train.tsv; expect empty_data 3 "d2/train.tsv" train needle --data d2 --out x2

# listops, generated and read back.
run data listops --out l --train 30 --valid 6 --test 6 --min-len 10 --max-len 60 --seed 1
says listops_trains '"stopped_by": "steps"' train listops --data l --out lo --steps 2 --eval-every 2 --json $tiny
says listops_with_the_preset '"steps": 2' train listops --preset lra --data l --out lp --steps 2 --batch 2 --eval-examples 4 --json --quiet
holds preset_is_in_the_config json lp/config.json 'd["training"]["cycle_momentum"] and d["training"]["learning_rate"] == 1e-4 and d["attention"]["options"]["hash_bits"] == 11 and d["model"]["dim"] == 64'
run train needle --data d --out table --steps 4 --eval-every 4 --layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --profile
grep -Eq "^  all +[0-9.]+ +100.0 %" err && grep -q "attention backward" err && passed profile_is_a_table || failed profile_is_a_table "$(cat err)"
run train needle --data d --out post --steps 8 --eval-every 4 --norm post --positions sinusoidal --schedule cosine --accumulate 2 $tiny
grep -q '"norm": "post"' post/config.json && grep -q '"schedule": "cosine"' post/config.json && passed choices_are_recorded || failed choices_are_recorded "$(cat post/config.json err)"
run eval post --split test --json
cp out post.json
holds post_norm_is_evaluated json post.json '0 <= d["accuracy"] <= 1 and d["loss"] > 0'
expect unknown_norm 2 "--norm is 'mid', allowed are pre, post" train needle --data d --out mid --norm mid
expect unknown_schedule 2 "--schedule is 'saw', allowed are one-cycle, linear, cosine, constant, halving" train needle --data d --out saw --schedule saw
expect absurd_accumulate 2 "accumulate is 0" train needle --data d --out zero --accumulate 0
# A config of version 1, without a list of objectives and with the projection outside the options.
cp -r whole first
python3 -c 'import json; c = json.load(open("first/config.json")); f = c["task"]["facts"]; f.pop("objectives"); c["version"] = 1; c["attention"]["projection"] = c["attention"]["options"]["projection"]; c["model"].pop("causal"); json.dump(c, open("first/config.json", "w"))'
run eval first --split test --json
cp out first.json
run eval whole --split test --json
holds version_1_is_read json out "(d['accuracy'], d['loss']) == $(python3 -c 'import json; d = json.load(open("first.json")); print((d["accuracy"], d["loss"]))')"
# A config older than these options: missing ones have their defaults.
cp -r whole older
python3 -c 'import json; c = json.load(open("older/config.json")); [c["model"].pop(k) for k in ("norm", "positions")]; [c["training"].pop(k) for k in ("accumulate", "schedule")]; json.dump(c, open("older/config.json", "w"))'
run eval older --split test --json
cp out older.json
run eval whole --split test --json
holds older_configs_are_read json out "(d['accuracy'], d['loss']) == $(python3 -c 'import json; d = json.load(open("older.json")); print((d["accuracy"], d["loss"]))')"
finish
