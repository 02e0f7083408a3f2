#!/bin/sh
# Accidents of the surroundings: closed standard descriptors, limits of the size of files, a mapped file that is cut, a run
# that is replaced while it is trained, appending with /dev/stdout, damaged files of a run.
# Planted and caught: a file of the run that takes the number of a closed descriptor and gets the messages; a limit of sizes
# that ends the tool and leaves temporary files; a bus error without a word; saves and records of a forgotten process in the
# run that took its place; a file replaced through /dev/stdout with what it held; a run without its best model that says it
# has one; a training whose messages nobody reads any more, which ends unsaved.
# Covers: standard.c signals.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --seed 5 --threads 1"
run data needle --out d --train 60 --valid 10 --test 10 --seq-len 16 --marks 4 --seed 3
run train needle --data d --out whole --steps 12 --eval-every 4 --save-every 3 --quiet $tiny

# Closed descriptors: the files are the same, and the lock, which is opened first, has only its line.
"$tool" train needle --data d --out all_closed --steps 12 --eval-every 4 --save-every 3 $tiny <&- >&- 2>&-
[ $? = 0 ] && cmp all_closed/last.safetensors whole/last.safetensors && passed all_closed || failed all_closed "$(ls all_closed)"
"$tool" train needle --data d --out closed --steps 12 --eval-every 4 --save-every 3 $tiny 2>&-
[ $? = 0 ] && passed closed_descriptors || failed closed_descriptors "$(ls closed)"
for file in last model optimizer; do holds "closed_descriptors_$file" cmp closed/$file.safetensors whole/$file.safetensors; done
holds closed_descriptors_lock grep -qE "^[0-9]+ [^ ]+$" closed/lock
[ "$(wc -l <closed/lock)" = 1 ] && passed no_messages_in_the_lock || failed no_messages_in_the_lock "$(cat closed/lock)"
"$tool" eval whole >&- 2>err
[ $? = 4 ] && grep -q "cannot write standard output: Bad file descriptor" err && passed closed_output_is_told || failed closed_output_is_told "$(cat err)"

# Standard output that goes to a file, under another name.
mkdir texts
for i in 1 2 3 4 5 6 7 8 9 10; do printf 'a\taa\nb\tbb\n'; done >texts/train.tsv
cp texts/train.tsv texts.tsv
run train text --data texts --out filter --steps 2 --eval-every 2 --max-len 32 --quiet $tiny
echo before >all
for name in - /dev/stdout /dev/fd/1; do "$tool" predict filter texts.tsv --out $name --quiet >>all 2>err || cat err; done
echo after >>all
[ "$(grep -c '"label"' all)" = 60 ] && [ "$(head -n 1 all)" = before ] && [ "$(tail -n 1 all)" = after ] && passed stdout_is_appended_to || failed stdout_is_appended_to "$(head -n 2 all)"

# A limit of the size of files is a full disk. Shells reset the signal to its default, which ends a process.
for i in 1 2 3 4 5 6 7 8 9; do cat texts.tsv texts.tsv >more && mv more texts.tsv; done
limited() { ( ulimit -f 1; exec "$tool" "$@" ) >/dev/null 2>&1; code=$?; }
mkdir limited
limited predict filter texts.tsv --out limited/p --quiet
[ "$code" = 4 ] && [ -z "$(ls limited)" ] && passed size_limit_of_an_output || failed size_limit_of_an_output "$code $(ls limited)"
limited train needle --data d --out limited/run --steps 2 --eval-every 2 $tiny
[ "$code" = 4 ] && [ ! -e limited/run ] && passed size_limit_of_a_run || failed size_limit_of_a_run "$code $(ls limited)"

# A file that is mapped and becomes shorter.
for i in $(seq 300); do printf 'the cat sat on mat %d\n the dog lay on log %d\n\n' $i $i; done >cats.txt
run tokenizer train cats.txt --vocab-size 300 --out tokens --quiet
run data mlm cats.txt --tokenizer tokens --seq-len 64 --duplicates 50 --out pretraining --quiet
"$tool" train mlm --data pretraining --out cut --steps 1000000 --eval-every 500000 --save-every 5 $tiny >out 2>err &
process=$!
while [ ! -s cut/log.jsonl ]; do kill -0 $process 2>/dev/null || break; done
cp pretraining/train.tokens kept.tokens
: >pretraining/train.tokens
wait $process 2>/dev/null
code=$?
[ "$code" -gt 128 ] && grep -q "^hashattn: bus error: a file was cut short while it was in use" err && passed a_mapped_file_is_cut || failed a_mapped_file_is_cut "$code $(cat err)"
mv kept.tokens pretraining/train.tokens
run train --resume cut --max-seconds 0.1 --quiet
holds the_run_goes_on test "$code" = 0

# A run that is removed, and begun anew, while a forgotten process trains it.
"$tool" train needle --data d --out again --steps 1000000 --eval-every 500000 --save-every 50 --quiet $tiny >out1 2>err1 &
process=$!
while ! grep -qs "^$process " again/lock || [ ! -s again/log.jsonl ]; do kill -0 $process 2>/dev/null || break; done
kill -STOP $process
rm -r again
run train needle --data d --out again --steps 12 --eval-every 4 --save-every 3 --quiet $tiny
cp -r again kept
kill -CONT $process
wait $process
code=$?
[ "$code" = 2 ] && grep -q "again is another run now, or has another lock: the one that this process trains was moved or removed" err1 && passed a_replaced_run_is_told || failed a_replaced_run_is_told "$code $(cat err1)"
holds a_replaced_run_is_left_alone diff -r again kept

# The reader of the messages goes: the training stops as by SIGTERM, and saves.
( "$tool" train needle --data d --out read --steps 1000000 --eval-every 20 --save-every 1000000 $tiny 2>&1; echo $? >code ) | sed "/^step/q" >/dev/null
[ "$(cat code)" = 141 ] && [ "$(sed -n 's/^  "step": \([0-9]*\),$/\1/p' read/trainer.json)" -ge 20 ] && passed a_stop_without_a_reader_is_saved || failed a_stop_without_a_reader_is_saved "$(cat code) $(ls read)"
run train --resume read --steps 10 --quiet
[ "$code" = 2 ] && passed its_steps_count || failed its_steps_count "$code $(cat err)"

# Damaged files.
: >again/trainer.json
expect an_empty_state_is_told 3 "again/trainer.json: the file is empty; a new run can start from the parameters of this one (--from)" train --resume again
run train needle --data d --from again --out from --steps 2 --eval-every 2 --quiet --threads 1
holds a_new_run_starts_from_it test "$code" = 0
rm again/model.safetensors
expect the_last_parameters_serve 0 "again has no best model yet; these are its last parameters, of training step 12" eval again
: >whole/model.safetensors
expect a_lost_best_model_is_told 0 "hashattn: the best model is lost, and the next one evaluated takes its place: whole/model.safetensors: " train --resume whole --steps 16
says it_is_replaced '"loss"' eval whole --json
finish
