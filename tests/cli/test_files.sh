#!/bin/sh
# What happens to files, from outside: what stands beside them, links, signals, pipes, two processes on one run.
# Planted and caught: temporary files of a fixed name; links of a run followed on writing.
. "$(dirname "$0")/checks.sh"
npy=$source_dir/tests/cli/npy.py
arrays="--q q.npy --k k.npy --v v.npy"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --seed 5 --quiet"
python3 "$npy" make 2
run data needle --out d --train 60 --valid 10 --test 10 --seq-len 16 --marks 4 --seed 3

# Names beside an output are the user's, and links of a directory that others write too lead nowhere.
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
finish
