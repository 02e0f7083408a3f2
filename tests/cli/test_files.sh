#!/bin/sh
# The tool and the file system: neighbouring files, links, signals, pipes, two processes on one run.
# Planted and caught: temporary files with a fixed name; links in a run followed on writing; a signal not handled, or
# handled although it was ignored; a pipe opened in place of a file of a run, or refused as an input of the user; a run
# without a lock; a run killed in its first save that cannot continue; memory allocated for the sizes in config.json
# although the tensors are missing; a loop over heads or sequences without rows; splits of a killed attempt in the way;
# the steps or the patience of an extended run lost by a kill before its first save.
# Covers: signals.c attend_chunks.c
. "$(dirname "$0")/checks.sh"
npy=$source_dir/tests/cli/npy.py
arrays="--q q.npy --k k.npy --v v.npy"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --seed 5 --quiet"
python3 "$npy" make 2
run data needle --out d --train 60 --valid 10 --test 10 --seq-len 16 --marks 4 --seed 3

# Neighbouring files of an output belong to the user; links planted in a directory that others can write are not followed.
echo mine >y.npy.tmp
echo victim >victim
cp victim kept
run attend $arrays --out y.npy
[ "$code" = 0 ] && [ "$(cat y.npy.tmp)" = mine ] && passed file_beside_is_kept || failed file_beside_is_kept "$(cat y.npy.tmp err)"
ln -sf victim y.npy.tmp
run attend $arrays --chunk 2 --out y.npy
[ "$code" = 0 ] && [ -L y.npy.tmp ] && passed link_beside_is_kept || failed link_beside_is_kept "$(cat err)"
holds link_beside_is_not_followed cmp victim kept
rm y.npy.tmp
run train needle --data d --out shared --steps 4 --eval-every 2 --max-seconds 0.000001 $tiny
for file in last.safetensors optimizer.safetensors trainer.json model.safetensors log.jsonl; do
    for name in "$file" "$file.tmp" "$file.next" "$file.next.tmp"; do
        [ -e "shared/$name" ] || ln -s ../victim "shared/$name"
    done
done
run train --resume shared --quiet
[ "$code" = 0 ] && passed run_with_planted_links || failed run_with_planted_links "$(cat err)"
holds links_of_a_run_are_not_followed cmp victim kept
[ -f shared/model.safetensors ] && [ ! -L shared/model.safetensors ] && passed links_of_a_run_are_replaced || failed links_of_a_run_are_replaced "$(ls -l shared)"

# A signal that ends the tool leaves no temporary file and does not change the old output.
temporary() { ls | grep -F "$1.tmp"; } # temporary OUTPUT: its temporary files
ended() { # ended NAME SIGNAL CODE OUTPUT ARGS...: sends the tool a signal while it writes OUTPUT
    name=$1 signal=$2 want=$3 output=$4
    shift 4
    "$tool" "$@" >out 2>err &
    process=$!
    while [ -z "$(temporary "$output")" ]; do kill -0 $process 2>/dev/null || break; done
    kill -$signal $process
    wait $process
    code=$?
    left=$(temporary "$output")
    [ $code = "$want" ] && [ -z "$left" ] && passed "$name" || failed "$name" "code $code; left behind: $left; $(cat err)"
    rm -f "$output".tmp*
}
python3 - "$source_dir/tests/cli" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
npy.write_raw("zeros.npy", "<f4", (16, 20000, 64), b"")
with open("zeros.npy", "r+b") as file:
    file.truncate(128 + 4 * 16 * 20000 * 64)
open("many.jsonl", "w").write('{"text": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}\n' * 30000)
open("train.tsv", "w").write("a\taa\nb\tbb\n" * 20)
P
zeros="--q zeros.npy --k zeros.npy --v zeros.npy --chunk 50 --out z.npy"
run attend $arrays --out z.npy
cp z.npy kept.npy
ended chunks_after_TERM TERM 143 z.npy attend $zeros
ended chunks_after_HUP HUP 129 z.npy attend $zeros
holds old_output_is_kept cmp z.npy kept.npy
(trap '' HUP; exec "$tool" attend $zeros 2>err) &
process=$!
while [ -z "$(temporary z.npy)" ]; do kill -0 $process 2>/dev/null || break; done
kill -HUP $process
sleep 0.1
[ -n "$(temporary z.npy)" ] && passed ignored_signal_stays_ignored || failed ignored_signal_stays_ignored "$(cat err)"
kill -TERM $process
wait $process
[ -z "$(temporary z.npy)" ] && passed next_signal_ends || failed next_signal_ends "$(temporary z.npy)"
mkdir texts
mv train.tsv texts
run train text --data texts --out filter --steps 2 --eval-every 2 --max-len 32 $tiny
ended predictions_after_TERM TERM 143 lines predict filter many.jsonl --out lines
ended data_after_TERM TERM 143 basic_test.tsv data listops --train 10 --valid 10 --test 96000 --out .

# What SIGKILL leaves is not in the way of the next attempt, or the message says what to do.
"$tool" data listops --train 96000 --valid 10 --test 10 --out killed 2>err &
process=$!
while [ -z "$(ls killed 2>/dev/null | grep -F basic_train.tsv.tmp)" ]; do kill -0 $process 2>/dev/null || break; done
kill -KILL $process
wait $process 2>/dev/null
run data listops --train 20 --valid 10 --test 10 --out killed --quiet
[ "$code" = 0 ] && [ "$(ls killed | wc -l)" = 3 ] && passed data_after_KILL || failed data_after_KILL "$(ls killed; cat err)"
rm killed/basic_train.tsv
expect data_killed_at_the_end 2 "killed/basic_train.tsv, which is written last, is missing: if an attempt was killed, remove the file" data listops --train 20 --valid 10 --test 10 --out killed

# A pipe in place of a file of a run is refused, or replaced if the file is only written. The tool never waits for it.
mkdir words
printf 'a b c a b c\na b a c\n' >words/train.txt
for i in 1 2 3 4 5; do cat words/train.txt words/train.txt >more && mv more words/train.txt; done
run train needle --data d --out whole --steps 6 --eval-every 2 $tiny
run train lm --data words --vocabulary words --attention softmax --seq-len 8 --out language --steps 2 --eval-every 2 $tiny
piped() { # piped NAME CODE PART FILE ARGS...: puts a pipe in place of FILE; RUN is a copy of its run
    name=$1 want=$2 part=$3 file=$4
    shift 4
    cp -r "${file%/*}" RUN
    rm -f "RUN/${file##*/}"
    mkfifo "RUN/${file##*/}"
    timeout -k 1 20 "$tool" "$@" >out 2>err
    code=$?
    [ $code = "$want" ] && grep -qF -- "$part" err && passed "$name" || failed "$name" "code $code: $(cat err)"
    rm -rf RUN
}
for file in config.json model.safetensors; do
    piped "eval_of_pipe_$file" 3 "RUN/$file: is a pipe, a regular file is needed" whole/$file eval RUN
done
for file in config.json trainer.json last.safetensors optimizer.safetensors; do
    piped "resume_of_pipe_$file" 3 "RUN/$file: is a pipe, a regular file is needed" whole/$file train --resume RUN
done
piped eval_of_pipe_vocab 3 "RUN/vocab.txt: is a pipe" language/vocab.txt eval RUN
run train needle --data d --out part --steps 6 --eval-every 2 --max-seconds 0.000001 $tiny
for file in model.safetensors last.safetensors.next optimizer.safetensors.next; do
    piped "resume_over_pipe_$file" 0 "done: 6 steps" part/$file train --resume RUN
done
piped resume_with_pipe_log 0 "RUN/log.jsonl: is a pipe" part/log.jsonl train --resume RUN
mkfifo pipe.npy
expect chunks_of_a_pipe 3 "pipe.npy: is a pipe, a regular file is needed" attend --q pipe.npy --k k.npy --v v.npy --chunk 2 --out new.npy

# Inputs of the user may be pipes.
run attend --attention softmax $arrays --out y.npy
cat q.npy >pipe.npy &
run attend --attention softmax --q pipe.npy --k k.npy --v v.npy --out piped.npy
holds array_through_a_pipe cmp y.npy piped.npy
mkfifo pipe.jsonl
head -n 3 many.jsonl >three.jsonl
run predict filter three.jsonl
cp out three
cat three.jsonl >pipe.jsonl &
run predict filter pipe.jsonl
sed 's/pipe.jsonl/three.jsonl/' out >named # lines have the name of their file
holds documents_through_a_pipe cmp three named

# Only one process may train a run. A second one is refused with the number of the first, and changes nothing. A killed
# process releases the run.
long="--steps 1000000 --eval-every 500000 --save-every 50"
for how in new resumed; do
    if [ $how = new ]; then
        "$tool" train needle --data d --out locked $long $tiny 2>err1 &
    else
        "$tool" train --resume locked --quiet 2>err1 &
    fi
    process=$!
    while ! grep -qs "^$process " locked/lock || [ ! -s locked/log.jsonl ]; do kill -0 $process 2>/dev/null || break; done
    kill -STOP $process
    cp -r locked before
    expect "second_process_beside_a_$how" 2 "this run is being trained: locked/lock is held by process $process on " train --resume locked --max-seconds 5
    expect "new_run_beside_a_$how" 2 "locked exists already" train needle --data d --out locked $tiny
    holds "second_process_beside_a_${how}_changes_nothing" diff -r before locked
    rm -rf before
    kill -KILL $process
    wait $process
done
touch locked/last.safetensors.next.tmp-0123abcd
run train --resume locked --max-seconds 0.2 --quiet
[ "$code" = 0 ] && passed killed_process_holds_nothing || failed killed_process_holds_nothing "$(cat err)"
[ -z "$(ls locked | grep tmp)" ] && passed leftovers_are_removed || failed leftovers_are_removed "$(ls locked)"

# A run killed before its first save was complete continues from step 0; without config.json the message says what to
# delete.
mkdir early
cp whole/config.json early
run train --resume early --quiet
[ "$code" = 0 ] && passed run_killed_early_goes_on || failed run_killed_early_goes_on "$(cat err)"
holds run_killed_early_has_the_same_bits cmp early/last.safetensors whole/last.safetensors

# A kill between the extension of a run and its first save: what goes on is the extended run. A full pipe holds the tool
# at its first message, which is about the first step.
mkfifo full
exec 3<>full
python3 -c 'import os
os.set_blocking(3, False)
try:
    while True:
        os.write(3, bytes(65536))
except BlockingIOError:
    os.set_blocking(3, True)'
extended() { # extended RUN STEPS: kills an extension of RUN to this total, and leaves that of a copy to finish in RUN.whole
    cp -r "$1" "$1.whole"
    run train --resume "$1.whole" --steps "$2" --quiet
    "$tool" train --resume "$1" --steps "$2" 2>full &
    process=$!
    for i in $(seq 200); do grep -q "\"steps\": *$2," "$1/config.json" && break || sleep 0.05; done
    sleep 0.2
    kill -KILL $process
    wait $process 2>/dev/null
    cmp -s "$1/last.safetensors" "$1.before" && passed "kill_before_the_first_save_of_$1" || failed "kill_before_the_first_save_of_$1" "$(ls -l "$1" "$1.whole")"
    says "extension_of_${1}_can_be_evaluated" '"loss"' eval "$1" --json
    run train --resume "$1" --quiet
    for file in last optimizer model; do
        holds "extension_of_${1}_goes_on_$file" cmp "$1.whole/$file.safetensors" "$1/$file.safetensors"
    done
    holds "extension_of_${1}_has_its_steps" grep -q "\"step\": *${3:-$2}," "$1/trainer.json"
}
run train needle --data d --out short --steps 6 --eval-every 4 --save-every 100 $tiny
cp short/last.safetensors short.before
extended short 16
run train needle --data d --out vain --steps 40 --eval-every 2 --save-every 100 --patience 3 --learning-rate 0 $tiny
cp vain/last.safetensors vain.before
extended vain 60 14
exec 3>&-
mkdir earlier
touch earlier/config.json.tmp-0123abcd
expect run_killed_earlier_is_told 3 "earlier has no config.json: it is not a run, or one that was killed before it had saved anything and must be restarted" train --resume earlier
expect evaluating_what_is_no_run_is_told 3 "earlier has no config.json: it is not a run" eval earlier
expect run_killed_earlier_is_in_the_way 2 "earlier exists already and has no config.json: it is not a run, or one that was killed before it had saved anything; remove it or choose another name" train needle --data d --out earlier $tiny
rm -r earlier
run train needle --data d --out earlier --steps 6 --eval-every 2 $tiny
[ "$code" = 0 ] && passed it_begins_again || failed it_begins_again "$(cat err)"

# Tiny files cost little memory and time. Address space is limited, except under sanitizers, which need more.
small() { # small ARGS...: runs the tool with 1.5 GiB and 20 s
    ( [ -n "${HASHATTN_SANITIZED:-}" ] || ulimit -v 1500000
        exec timeout -k 1 20 "$tool" "$@" >out 2>err )
    code=$?
}
mkdir promise
python3 - <<'P'
import json
config = json.load(open("whole/config.json"))
config["model"].update(layers=4, dim=8192, ffn=8192)
json.dump(config, open("promise/config.json", "w"))
open("promise/model.safetensors", "wb").write((8).to_bytes(8, "little") + b"{}      ")
P
for file in last optimizer; do cp promise/model.safetensors promise/$file.safetensors; done
cp whole/trainer.json promise
for command in "eval promise" "predict promise d/test.tsv" "train --resume promise"; do
    small $command
    [ $code = 3 ] && grep -q "safetensors: .* is missing" err && passed "promise_of_${command%% *}" || failed "promise_of_${command%% *}" "code $code: $(cat err)"
done

# Arrays without elements may have any axis lengths and cost no work.
hollow() { # hollow NAME SHAPE ARGS...: q, k and v of this shape; the output has the same
    name=$1 shape=$2
    shift 2
    python3 "$npy" raw hollow.npy '<f4' "$shape" ''
    rm -f hollow_y.npy
    small attend --q hollow.npy --k hollow.npy --v hollow.npy --out hollow_y.npy "$@"
    [ $code = 0 ] && tail -c +11 hollow_y.npy | grep -qaF "'shape': $shape" && passed "$name" || failed "$name" "code $code: $(cat err)"
}
hollow many_empty_sequences "(200000000, 1, 0, 4)"
hollow many_heads "(1, 1073741824, 0, 4)" --threads 1
hollow many_heads_with_parameters "(1, 1073741824, 0, 4)" --attention lha
hollow many_heads_in_bf16 "(1, 1073741824, 0, 4)" --precision bf16
hollow many_empty_sequences_in_chunks "(1099511627776, 1, 0, 4)" --chunk 3
hollow wide_and_empty "(0, 65536)" --planes gaussian
hollow wide_and_empty_in_chunks "(0, 65536)" --planes gaussian --chunk 3
hollow no_sequence "(0, 1073741824, 5, 4)"
python3 "$npy" raw hollow.npy '<f4' '(1, 1073741824, 0, 4)' ''
small attend --attention softmax --q hollow.npy --k hollow.npy --v hollow.npy --grad-out hollow.npy --grad-dir hollow --out hollow_y.npy
[ $code = 0 ] && passed gradients_of_many_heads || failed gradients_of_many_heads "code $code: $(cat err)"
python3 "$npy" raw one.npy '<f4' '(1, 4)' 00000000000000000000000000000000
python3 "$npy" raw hollow_k.npy '<f4' '(0, 4)' ''
python3 "$npy" raw hollow_v.npy '<f4' '(0, 4294967296)' ''
expect wide_values_without_a_row 3 "hollow_v.npy is (0, 4294967296) float32: values without rows may be at most 4096 wide" attend --q one.npy --k hollow_k.npy --v hollow_v.npy --out new.npy
python3 "$npy" raw hollow_v.npy '<f4' '(0, 4097)' ''
expect values_too_wide 3 "may be at most 4096 wide" attend --q one.npy --k hollow_k.npy --v hollow_v.npy --out new.npy
says wide_values_without_a_query '"keys": 0' attend --q hollow_k.npy --k hollow_k.npy --v hollow_v.npy --out hollow_y.npy --json
python3 "$npy" raw hollow_v.npy '<f4' '(0, 4096)' ''
says values_without_a_row '"keys": 0' attend --q one.npy --k hollow_k.npy --v hollow_v.npy --out hollow_y.npy --json
finish
