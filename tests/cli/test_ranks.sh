#!/bin/sh
# Ranks of MPI through the tool: the same bits on 1, 2, 3, 4 and 8 of them, resuming on others, eval and predict, refusals, and
# faults: a killed rank, a stopped one, a full disk, no memory, SIGTERM. KILL_MOMENTS="0 0.5": kill a rank after these seconds.
# Models without parameters. Ranks that share sequences: one pair, two pairs, resuming, eval and refusals; attend on shared rows, lha bit for bit.
# Planted and caught: shards of 1 under mpirun; a rank other than 0 that speaks; sums of examples
# that one rank has not computed; joining or leaving without a time limit; predictions before a bad line lost;
# attend on ranks with other seeds; eval on ranks with other splits; predict on ranks with other files.
# Covers: ranks.c
. "$(dirname "$0")/checks.sh"

if [ ! -e "$build/libhashattn-mpi.so" ] || ! command -v mpirun >/dev/null; then
    echo "SKIPPED: ranks (libhashattn-mpi is not built, or there is no mpirun)"
    finish
fi
# Open MPI as root, with more ranks than processors, on one machine; MPICH ignores these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_hwloc_base_binding_policy=none
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

if ! timeout 60 mpirun -n 2 true >out 2>err; then
    echo "SKIPPED: ranks (mpirun starts no processes here: $(grep -v '^$' err | head -n 1))"
    finish
fi

# ranks N ARGS...: runs the tool on N ranks.
ranks() {
    count=$1
    shift
    timeout 600 mpirun -n "$count" "$tool" "$@" >out 2>err
    code=$?
}
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 10 --threads 1 --eval-every 4 --save-every 4"

run data listops --out d --train 60 --valid 20 --test 24 --seed 3
for count in 1 2 3 4 8; do
    ranks "$count" train listops --data d --out "run$count" --steps 8 --seed 5 --json $tiny
    [ "$code" = 0 ] || failed "training_on_$count" "exit code $code: $(head -c 300 err)"
    for file in last.safetensors optimizer.safetensors model.safetensors config.json; do
        holds "${file}_of_${count}_ranks" cmp run1/$file "run$count/$file"
    done
    holds "one_rank_of_${count}_speaks" test "$(grep -c stopped_by out)" = 1 -a "$(grep -c '^done:' err)" = 1
done
holds eight_shards json run4/config.json 'd["training"]["shards"] == 8'
run train listops --data d --out plain --steps 8 --seed 5 --shards 8 $tiny --quiet
holds no_mpirun_needed_for_the_same_bits cmp plain/last.safetensors run1/last.safetensors
holds log_names_ranks grep -q '"ranks": 4' run4/log.jsonl

# Gradients of several ranges, which are sent during backward, in 32 and in 16 bits.
for precision in float32 bf16; do
    for count in 1 2 4; do
        ranks "$count" train listops --data d --out "$precision$count" --steps 2 --warmup 1 --layers 2 --dim 160 --heads 4 --ffn 512 \
            --batch 9 --threads 1 --eval-every 2 --eval-examples 2 --gradient-precision $precision
        holds "${precision}_on_$count" cmp ${precision}1/last.safetensors "$precision$count/last.safetensors"
    done
done
holds bf16_is_recorded json bf162/config.json 'd["training"]["gradient_precision"] == "bf16"'

# Stopped on 4, resumed on 2 and then on 1 without MPI.
ranks 4 train listops --data d --out parts --steps 8 --seed 5 --max-seconds 0.000001 $tiny
holds stopped_together grep -q 'stopped by time at step 2' err
ranks 2 train --resume parts --threads 1 --max-seconds 0.000001
run train --resume parts --threads 1 --quiet
holds resumed_on_other_ranks cmp parts/last.safetensors run1/last.safetensors

# Evaluation and prediction.
run eval plain --json
cp out eval.json
ranks 3 eval plain --json --threads 1
cp out eval3.json
json_same='import json, sys; a, b = (json.load(open(f)) for f in sys.argv[1:]); sys.exit(0 if all(a[k] == b[k] for k in a if k not in ("seconds", "tokens_per_second", "peak_rss_bytes")) else f"{a} {b}")'
holds eval_has_the_same_numbers python3 -c "$json_same" eval.json eval3.json
run train listops --data d --out exact --steps 8 --seed 5 --attention softmax $tiny --quiet
run eval plain --against exact --data d --json
cp out eval.json
ranks 3 eval plain --against exact --data d --json --threads 1
cp out eval3.json
holds against_has_the_same_numbers cmp eval.json eval3.json
mkdir texts
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do printf 'a\tgood day number %s\nb\tbad night %s\n' $i $i; done >texts/train.tsv
run train text --data texts --out words --steps 4 $tiny --quiet
run predict words texts/train.tsv
cp out predicted
ranks 3 predict words texts/train.tsv --threads 1
holds predictions_have_the_same_bits cmp out predicted
ranks 2 predict words texts/train.tsv --threads 1 --out file
holds predictions_in_a_file cmp file predicted
{ cat texts/train.tsv; printf 'a\t\377\n'; } >late.tsv
run predict words late.tsv
cp out predicted
ranks 2 predict words late.tsv --threads 1
holds predictions_before_a_bad_line cmp out predicted
holds there_are_predictions_before_it test "$(wc -l <predicted)" = 28
ranks 2 predict words - --threads 1
holds standard_input_is_of_one_rank grep -q "standard input" err

# A model without parameters: nothing to sum and nothing to send.
awk 'BEGIN { print "date,load"; for (t = 0; t < 300; t++) printf "2020-01-%02d %02d:00:00,%d\n", 1 + t / 24, t % 24, t * 7 % 24 }' >table.csv
nothing="--data table.csv --model last --seq-len 24 --horizon 6 --steps 4 --batch 8 --eval-every 2 --save-every 2 --seed 5 --threads 1"
for count in 1 2 4; do
    ranks "$count" train forecast $nothing --out "nothing$count" --json
    [ "$code" = 0 ] && passed "no_parameters_on_$count" || failed "no_parameters_on_$count" "exit code $code: $(head -c 300 err)"
    holds "no_parameters_same_bits_on_$count" cmp nothing1/last.safetensors "nothing$count/last.safetensors"
done
ranks 2 train forecast $nothing --out stopped --max-seconds 0.000001
ranks 4 train --resume stopped --threads 1
holds no_parameters_resumed cmp nothing1/last.safetensors stopped/last.safetensors

# Ranks that share the rows of sequences.
run data needle --out n --train 40 --valid 10 --test 10 --seq-len 64 --seed 3
rows="train needle --data n --steps 6 --batch 2 --eval-every 3 --save-every 3 --layers 1 --dim 16 --heads 1 --ffn 16 --threads 1"
rows="$rows --seed 5"
ranks 2 $rows --out rows2 --sequence-parallel 2
[ "$code" = 0 ] || failed sequence_parallel "exit code $code: $(head -c 300 err)"
holds it_is_recorded json rows2/config.json 'd["training"]["sequence_parallel"] == 2'
ranks 4 $rows --out rows4 --sequence-parallel 2
for file in last.safetensors optimizer.safetensors model.safetensors config.json; do
    holds "two_pairs_$file" cmp rows2/$file rows4/$file
done
ranks 4 $rows --out parts4 --sequence-parallel 2 --max-seconds 0.000001
ranks 2 train --resume parts4 --threads 1
holds pairs_resume cmp rows2/last.safetensors parts4/last.safetensors
run train --resume rows2
holds one_process_cannot_resume test "$code" != 0 -a "$(grep -c -e '--sequence-parallel is 2 and the number of ranks 1' err)" = 1
ranks 2 eval rows2 --json --threads 1
cp out eval2.json
run eval rows2 --json
near='import json, sys; a, b = (json.load(open(f)) for f in sys.argv[1:]); sys.exit(0 if a["accuracy"] == b["accuracy"] and abs(a["loss"] - b["loss"]) < 1e-4 else f"{a} {b}")'
holds eval_shares_sequences python3 -c "$near" eval2.json out
mkdir words_in_order
for split in train valid test; do yes 'one two three four five six seven' | head -n 120 >words_in_order/$split.txt; done
tokens="train lm --data words_in_order --steps 3 --warmup 1 --batch 2 --eval-every 3 --layers 1 --dim 16 --heads 2 --ffn 16"
run $tokens --seq-len 50 --shards 8 --threads 1 --out lm1 --quiet
ranks 2 $tokens --seq-len 50 --threads 1 --out lm2 --sequence-parallel 2
last='import json, sys; a, b = ([json.loads(l) for l in open(f) if "valid_loss" in l][-1]["valid_loss"] for f in sys.argv[1:]); sys.exit(0 if abs(a - b) < 1e-4 else f"{a} {b}")'
holds language_models_too python3 -c "$last" lm1/log.jsonl lm2/log.jsonl
ranks 2 $rows --out refused --sequence-parallel 2 --conv-window 67
holds long_convolutions_are_refused test "$code" != 0 -a "$(grep -c 'too few for --conv-window 67' err)" = 1 -a ! -e refused
ranks 3 $rows --out refused --sequence-parallel 2
holds ranks_are_a_multiple test "$code" != 0 -a "$(grep -c 'number of ranks 3; it must be a multiple' err)" = 1 -a ! -e refused
ranks 2 $rows --out refused --sequence-parallel 2 --attention linear
holds mechanisms_are_named test "$code" != 0 -a "$(grep -c 'linear cannot share a sequence.*softmax.*yoso' err)" = 1

# The operator alone: each rank writes the rows of its span, and those of lha have the bits of one process.
python3 -c '
import array, random
random.seed(1)
for name in "qkvg":
    with open(name + ".npy", "wb") as file:
        header = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (301, 8), }".ljust(117).encode() + b"\n"
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        array.array("f", [random.gauss(0, 1) for _ in range(301 * 8)]).tofile(file)
'
operator="attend --attention lha --q q.npy --k k.npy --v v.npy --grad-out g.npy --threads 1"
run $operator --grad-dir whole --out whole.npy
ranks 3 $operator --grad-dir parts --out parts.npy
mkdir -p joined
for name in dq dk dv; do mv whole/$name.npy joined/whole.$name; done
mv whole.npy joined/whole.out
for rank in 0 1 2; do tail -c +129 parts.$rank.npy; done >joined/out
for name in dq dk dv; do for rank in 0 1 2; do tail -c +129 parts/$name.$rank.npy; done >joined/$name; done
same_rows() { for name in out dq dk dv; do tail -c +129 joined/whole.$name | cmp - joined/$name || return 1; done; }
holds operator_on_shared_rows same_rows
ranks 2 $operator --grad-dir parts --out parts.npy --mask q.npy
holds operator_says_what_ranks_cannot_do test "$code" != 0 -a "$(grep -c 'mask cannot be used by several ranks' err)" = 1
ranks 2 $operator --grad-dir parts --out parts.npy --precision bf16
holds operator_of_ranks_is_float32 test "$code" != 0 -a "$(grep -c 'precision bf16 cannot be used by several ranks' err)" = 1

# Each rank writes its part of the gradients of learned tensors.
operator="attend --attention local --block-size 8 --relative --q q.npy --k k.npy --v v.npy --grad-out g.npy --threads 1"
run $operator --grad-dir whole --out whole.npy
ranks 3 $operator --grad-dir parts --out parts.npy
holds parts_of_learned_gradients_add_up python3 -c '
import struct
def numbers(name):
    data = open(name, "rb").read()
    size = 8 + int.from_bytes(data[:8], "little")
    return struct.unpack(f"<{(len(data) - size) // 4}f", data[size:])
whole = numbers("whole/dparams.safetensors")
parts = [sum(each) for each in zip(*(numbers(f"parts/dparams.{rank}.safetensors") for rank in range(3)))]
largest = max(map(abs, whole))
assert len(whole) == len(parts) == 66 * 8 and largest > 1
assert all(abs(a - b) < 1e-4 * largest for a, b in zip(whole, parts))
'

# Refusals.
ranks 2 train listops --data d --out refused --steps 8 --shards 1 $tiny
holds too_few_shards test "$code" != 0 -a "$(grep -c 'too few for 2 ranks' err)" = 1 -a ! -e refused
differ() { # NAME PART ARGS_OF_RANK_0 : ARGS_OF_RANK_1
    name=$1 part=$2
    shift 2
    timeout 60 env -u HASHATTN_ISA mpirun "$@" >out 2>err
    code=$?
    if [ $code = 0 ] || [ -e refused ]; then failed "$name" "not refused"; elif grep -qF -- "$part" err; then passed "$name"; else failed "$name" "$(head -c 400 err)"; fi
}
common="train listops --data d --out refused --steps 8 $tiny"
differ other_options "'\"learning_rate\": 0.25,' here" -n 1 "$tool" $common : -n 1 "$tool" $common --learning-rate 0.25
differ other_isa "'instruction set: ref' here" -n 1 "$tool" $common : -n 1 "$tool" $common --isa ref
operator="attend --attention yoso --q q.npy --k k.npy --v v.npy --threads 1 --comm-timeout 5 --out refused"
differ other_seed "'seed: 3' here, 'seed: 0' there" -n 1 "$tool" $operator : -n 1 "$tool" $operator --seed 3
differ other_mask "'causal: 1' here, 'causal: 0' there" -n 1 "$tool" $operator : -n 1 "$tool" $operator --causal
differ other_command "hashattn: rank " -n 1 "$tool" $common : -n 1 "$tool" $operator
evaluation="eval plain --threads 1 --comm-timeout 5"
prediction="--threads 1 --comm-timeout 5 --out refused"
differ other_seed_of_eval "'seed: 9' here" -n 1 "$tool" $evaluation : -n 1 "$tool" $evaluation --seed 9
differ other_split_of_eval "'data: 24 examples" -n 1 "$tool" $evaluation --split valid : -n 1 "$tool" $evaluation --split test
differ other_split_of_against "'data: 24 examples" -n 1 "$tool" $evaluation --against exact --data d --split valid : \
    -n 1 "$tool" $evaluation --against exact --data d --split test
differ other_run_of_eval "'\"name\": \"softmax\",' here" -n 1 "$tool" $evaluation : -n 1 "$tool" eval exact --threads 1 --comm-timeout 5
head -n 9 texts/train.tsv >few.tsv
differ other_texts "'data: 9 examples" -n 1 "$tool" predict words texts/train.tsv $prediction : -n 1 "$tool" predict words few.tsv $prediction
head -n 200 table.csv >short.csv
differ other_table "'data: " -n 1 "$tool" predict nothing1 table.csv $prediction : -n 1 "$tool" predict nothing1 short.csv $prediction
cp -r d e
differ other_data "here" -n 1 "$tool" $common : -n 1 "$tool" train listops --data e --out refused --steps 8 $tiny
ranks 2 train listops --data d --out refused --no-such-option
holds usage_error_is_said test "$code" != 0 -a "$(grep -c 'rank 0: .*no-such-option' err)" = 1

# Faults. begin NAME ARGS...: starts 3 ranks on a long run, and waits until it has saved.
# Without `timeout`, which would pass SIGTERM on twice.
printf '#!/bin/sh\ntrap "" XFSZ\nexec "$@"\n' >deaf.sh # a full disk is an error of write, not a signal; mpirun resets signals
chmod +x deaf.sh
begin() {
    out=$1
    shift
    rm -rf "$out"
    mpirun -n 3 ./deaf.sh "$tool" train listops --data d --out "$out" --steps 100000 --save-every 5 --layers 1 --dim 16 \
        --heads 2 --ffn 16 --batch 9 --threads 1 --eval-every 100000 "$@" >out 2>err &
    launcher=$!
    tries=0
    until grep -q '"step": [1-9]' "$out/trainer.json" 2>/dev/null || [ $tries -gt 1200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
# The process of a rank of this run.
process_of() { # RANK
    for p in /proc/[0-9]*; do
        [ "$p/cwd" -ef "$work" ] && grep -qz "^OMPI_COMM_WORLD_RANK=$1\$\|^PMI_RANK=$1\$" "$p/environ" 2>/dev/null && echo "${p#/proc/}"
    done | head -n 1
}
ends() { # NAME PART LIMIT: the job fails within LIMIT seconds and says PART (MPICH on stdout); its state can be resumed
    begun=$(date +%s)
    wait "$launcher"
    code=$?
    seconds=$(($(date +%s) - begun))
    if [ $code = 0 ] || [ $seconds -gt "$3" ]; then failed "$1" "exit code $code after $seconds s"
    elif ! grep -hE -- "$2" err out >/dev/null; then failed "$1" "stderr lacks '$2': $(head -c 600 err)"
    else passed "$1"; fi
    run train --resume "$out" --max-seconds 0.000001 --threads 1
    [ "$code" = 0 ] && passed "$1_resumes" || failed "$1_resumes" "$(head -c 300 err)"
}
for moment in ${KILL_MOMENTS:-0 0.03 0.1}; do
    begin killed
    sleep $moment
    kill -KILL "$(process_of 1)"
    ends "killed_rank_after_$moment" 'rank 1 .*signal 9|KILLED BY SIGNAL: 9' 60
done
begin stopped --comm-timeout 4 # a rank that saves on a busy machine may need a second
kill -STOP "$(process_of 1)"
ends stopped_rank 'hashattn: rank 1 has not answered rank 0 for [4-9] s' 60
export OMPI_MCA_odls_base_sigkill_timeout=5 # seconds to save after SIGTERM; the default, 1, is little on a busy machine
begin ended
kill -TERM $launcher
wait $launcher
code=$?
holds sigterm_saves test "$code" != 0 -a "$(grep -c 'interrupted at step' err)" = 1
run train --resume ended --max-seconds 0.000001 --threads 1
holds sigterm_saved_state_resumes test "$code" = 0
# A full disk from the middle of the run on: the last state stays, and the reason is said.
begin full
prlimit --fsize=0 --pid "$(process_of 0)"
kill -TERM $launcher
ends full_disk 'File too large' 60
unset OMPI_MCA_odls_base_sigkill_timeout
# Memory of one rank: the address space of rank 1 is too small for its workspace. A sanitizer needs all of it.
if [ -n "${HASHATTN_SANITIZED:-}" ]; then
    echo "SKIPPED: a rank with a limit of addresses (sanitizers need them)"
else
    cat >poor.sh <<'P'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || ulimit -v "$1"
shift
exec "$@"
P
    chmod +x poor.sh
    timeout 60 mpirun -n 2 ./poor.sh 800000 "$tool" train listops --data d --out poor --steps 8 $tiny --dim 2048 --ffn 8192 --batch 64 >out 2>err
    code=$?
    holds memory_of_one_rank test $code != 0 -a "$(grep -c 'rank 1: .*memory' err)" -ge 1
fi
# A library that hangs where MPI could: while ranks join, and when they leave. LD_LIBRARY_PATH, because a sanitizer's dlopen
# does not know the search path of the tool.
mkdir hang && cp "$tool" hang/hashattn && cp -P "$build"/libhashattn.so* hang/
cat >hang.c <<'P'
#include <stdlib.h>
#include <unistd.h>
#include "hashattn/mpi.h"
hashattn_status hashattn_mpi_open(const void *mpi, hashattn_communicator *communicator, char *message, size_t size)
{
    (void)mpi, (void)message, (void)size;
    while (getenv("HANG_JOINING") != NULL)
        pause();
    communicator->size = 1;
    return HASHATTN_OK;
}
void hashattn_mpi_close(hashattn_communicator *communicator)
{
    for (; communicator != NULL;)
        pause();
}
P
holds library_that_hangs cc -shared -fPIC -I "$source_dir/include" -o hang/libhashattn-mpi.so.0 hang.c
for moment in joining leaving; do
    [ $moment = joining ] && HANG_JOINING=1 && export HANG_JOINING || unset HANG_JOINING
    LD_LIBRARY_PATH=$work/hang OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 timeout -k 1 120 hang/hashattn train listops --data d --out "hang_$moment" \
        --steps 8 $tiny --comm-timeout 2 >out 2>err
    code=$?
    part='rank 3 of 4 has not joined the others for 2 s'
    [ $moment = joining ] || part='has finished and cannot leave the others for 2 s'
    holds "hangs_$moment" test $code != 0 -a $code != 124 -a "$(grep -c "$part" err)" = 1
done
# Without the library for MPI, ranks would train apart.
mkdir apart && cp "$tool" apart/hashattn && cp -P "$build"/libhashattn.so* apart/
LD_LIBRARY_PATH=$work/apart timeout 60 mpirun -n 2 apart/hashattn train listops --data d --out alone --steps 8 $tiny >out 2>err
holds library_is_needed test $? != 0 -a "$(grep -c 'cannot work with 2 ranks' err)" -ge 1 -a ! -e alone
finish
