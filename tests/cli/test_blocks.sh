#!/bin/sh
# Memory of the tool: every command frees all its blocks and those it got from the library, after success and after any
# allocation of its own that fails; such a failure is reported with exit code 4. allocations.c counts and fails them. It fills
# them with NaN, so no command may read what it has not written.
# Planted and caught: a model or a context that is not freed; a context that is not opened; num_hashes set for the exact mechanism; a
# block of bfloat16 numbers that is 64 bytes too short; rounded inputs left unset; labels that are kept, or left out of a table,
# when memory runs out.
# Covers: bench.c bench_attention.c bench_error.c bench_layer.c bench_peak.c bench_step.c bench_stream.c bench_suggest.c inputs.c noise.c
# cmd_attend.c attend_chunks.c halves.c cmd_inspect.c findings.c data_out.c forecast_out.c forecast_picture.c cmd_predict.c cmd_train.c cmd_eval.c cmd_data.c cmd_info.c main.c
. "$(dirname "$0")/checks.sh"
if [ -n "${HASHATTN_SANITIZED:-}" ] || ! cc -shared -fPIC -O1 -D_GNU_SOURCE -o allocations.so "$source_dir/tests/cli/allocations.c" -ldl 2>err; then
    echo "SKIPPED: blocks of the tool (sanitizers count them, or there is no compiler: $(head -c 200 err 2>/dev/null))"
    finish
fi
watched() { # watched FAIL ARGS...: runs the tool with its allocation number FAIL failing; leaves $allocations and $left
    fail=$1
    shift
    rm -f blocks
    PATH=empty HASHATTN_FAIL=$fail HASHATTN_BLOCKS=blocks LD_PRELOAD=$work/allocations.so "$tool" "$@" --threads 1 >out 2>err </dev/null
    code=$?
    allocations=none left=none
    [ -s blocks ] && read -r allocations left <blocks
}
# blocks NAME CODE LEAST ARGS...: checks the exit code, that at least LEAST blocks were allocated by the tool, and that none is
# left, now and with each of these allocations failing.
blocks() {
    name=$1 want=$2 least=$3
    shift 3
    clear_output
    watched 0 "$@"
    [ "$code" = "$want" ] && [ "$left" = "0 0" ] && [ "$allocations" -ge "$least" ] && ! grep -qwE "nan|null" out && passed "$name" || failed "$name" "code $code, $allocations allocations, left: $left; $(head -c 300 err)"
    count=$allocations number=1 why=
    [ "$count" = none ] && count=0
    while [ $number -le "$count" ] && [ $number -le 40 ]; do
        clear_output
        watched $number "$@"
        [ $code = 4 ] && [ "$left" = "0 0" ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q "^hashattn: no memory for " err || why="$why $number: code $code, left: $left; $(head -c 200 err)"
        number=$((number + 1))
    done
    [ -z "$why" ] && passed "${name}_without_memory" || failed "${name}_without_memory" "$why"
}
clear_output() { rm -rf made grads new.npy step stopped; }
export TMPDIR="$work"

python3 "$source_dir/tests/cli/npy.py" make 3
for name in q k v; do cp $name.npy ${name}3.npy; done
python3 "$source_dir/tests/cli/npy.py" make 4
python3 "$source_dir/tests/cli/npy.py" raw m.npy '<f4' '(7,)' "$(printf '%056d' 0)"
python3 "$source_dir/tests/cli/npy.py" raw mask.npy '|u1' '(7,)' 01000101010001
python3 "$source_dir/tests/cli/npy.py" raw zeros.npy '<f4' '(3, 60, 16)' "$(printf '%023040d' 0)" # 11,520 bytes
arrays="--q q.npy --k k.npy --v v.npy --out new.npy"
zeros="--q zeros.npy --k zeros.npy --v zeros.npy --grad-out zeros.npy --out new.npy --grad-dir grads"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 4 --quiet"
"$tool" data needle --out d --train 20 --valid 12 --test 5 --seq-len 16 --marks 4 --quiet
"$tool" train needle --data d --out run --attention lha --num-buckets 4 --steps 2 --eval-every 1 $tiny
mkdir texts
for i in 1 2 3 4 5 6 7 8 9; do printf 'ham\taa\nspam\tzz\n'; done >texts/train.tsv
"$tool" train text --data texts --out filter --steps 2 --eval-every 2 --max-len 8 $tiny
printf 'aa\nzz\nab\n' >new.txt
{ echo date,a,b && for i in $(seq 10 28); do echo "2020-01-$i,$i,1$i"; done; } >table.csv
"$tool" train forecast --data table.csv --model last --seq-len 3 --horizon 2 --train-share 0.6 --out table --steps 1 --eval-every 1 --quiet

blocks info 0 0 info
blocks info_of_one 0 0 info --attention lha --json
blocks info_of_none 2 0 info --attention lah
blocks version 0 0 --version
blocks attend 0 3 attend $arrays --attention softmax --mask mask.npy --grad-out g.npy --grad-dir grads --json
blocks attend_in_bf16 0 10 attend $arrays --precision bf16 --grad-out g.npy --grad-dir grads
blocks attend_to_long_blocks 0 3 attend $zeros
blocks attend_to_long_halves 0 10 attend $zeros --precision bf16
blocks attend_in_chunks 0 8 attend $arrays --chunk 3 --mask mask.npy
blocks attend_with_a_bad_mask 3 0 attend $arrays --mask m.npy --chunk 3
blocks attend_to_nowhere 4 0 attend --q q.npy --k k.npy --v v.npy --out nowhere/y.npy --grad-out g.npy --grad-dir grads
blocks data 0 0 data needle --out made --train 3 --valid 1 --test 1 --seq-len 8 --marks 2
blocks describe 0 5 data describe text texts
blocks data_of_nothing 2 0 data text --out made
blocks train 0 0 train needle --data d --out made --steps 2 --eval-every 1 --profile --json $tiny
blocks train_of_nothing 2 0 train needle --data d --out made --steps 2 $tiny --heads 3
blocks resume 0 0 train --resume run --profile
blocks eval 0 0 eval run --split valid
blocks eval_of_nothing 2 0 eval run --split tset
blocks predict 0 0 predict filter new.txt --out made
blocks predict_nothing 3 0 predict filter nowhere --out made
blocks predict_rows 0 0 predict table table.csv --out made
blocks eval_in_units 0 4 eval table --draw made
blocks train_and_draw 0 1 train forecast --data table.csv --model last --seq-len 3 --horizon 2 --train-share 0.6 --out made --steps 1 \
    --eval-every 1 --draw step --quiet
blocks inspect 0 4 inspect run --examples 12 --plots made
blocks inspect_nothing 2 0 inspect run --split tset
blocks bench_attention 0 7 bench attention --seq-len 100 --heads 2 --head-dim 8 --repeats 1 --backward
blocks bench_of_lha 0 8 bench attention --attention lha --seq-len 20 --heads 2 --head-dim 8 --repeats 1 --backward
blocks bench_in_bf16 0 15 bench attention --seq-len 20 --heads 2 --head-dim 8 --repeats 1 --backward --precision bf16
blocks bench_of_nothing 2 0 bench attention --hash-bits 99
blocks bench_error 0 8 bench error --seq-len 20 --num-hashes 2 --hash-bits 2 --heads 2 --head-dim 8 --seeds 2
blocks bench_error_of_arrays 0 7 bench error --q q3.npy --k k3.npy --v v3.npy --num-hashes 2 --hash-bits 2 --seeds 1
blocks bench_suggest 0 8 bench suggest --seq-len 16 --error 1.4 --heads 1 --head-dim 8
blocks bench_suggest_of_arrays 0 8 bench suggest --q q3.npy --k k3.npy --v v3.npy --error 1.4 --heads 1 --json
blocks bench_layer 0 0 bench layer --dim 8 --heads 2 --ffn 8 --seq-len 8 --repeats 1 --backward
blocks bench_layer_of_nothing 2 0 bench layer --dim 30 --heads 4
blocks bench_step 0 0 bench step needle --seq-len 8 --marks 2 --repeats 1 $tiny
blocks bench_stream 0 8 bench stream --seq-len 30 --chunk 7 --head-dim 8 --heads 2
blocks bench_causal_stream 0 8 bench stream --causal --seq-len 30 --chunk 7 --head-dim 8 --heads 2
blocks bench_peak 0 0 bench peak --seconds 0.01
finish
