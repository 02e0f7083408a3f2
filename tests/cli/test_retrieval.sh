#!/bin/sh
# Task retrieval on pairs of the user: a model that must look at both documents, prediction in order, resuming.
# Planted and caught: the head given only the first document; a joined pair that loses the second.
. "$(dirname "$0")/checks.sh"
small="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 16 --max-len 32 --learning-rate 0.01 --tokens bytes --quiet"

mkdir pairs
python3 - <<'P'
import json, random
random.seed(1)
def pair(i):
    a, b = random.choice("xy"), random.choice("xy")
    return ("same" if a == b else "other", a * random.randint(5, 20), b * random.randint(5, 20))
rows = [pair(i) for i in range(400)]
open("pairs/train.tsv", "w").write("".join("\t".join(r) + "\n" for r in rows))
open("new.jsonl", "w").write("".join(json.dumps({"text1": a, "text2": b}) + "\n" for a, b in [("xxxxxxx", "xxxxxxxx"), ("xxxxxxx", "yyyyyyyy"), ("yyyyyy", "xxxxxx"), ("yyyyyyy", "yyyyyyy")]))
P
run train retrieval --data pairs --out match --steps 300 --eval-every 50 --until accuracy=1 --seed 3 --json $small
cp out train.json
holds pairs_are_learned json train.json 'd["best_accuracy"] > .95'
grep -q '"pairs": true' match/config.json && passed pairs_are_recorded || failed pairs_are_recorded "$(cat match/config.json err)"
run predict match new.jsonl
holds pairs_are_predicted_in_order python3 -c 'import json, sys; got = [json.loads(l)["label"] for l in open("out")]; sys.exit(0 if got == ["same", "other", "other", "same"] else str(got))'
run eval match --split test --json
cp out eval.json
holds pairs_are_evaluated json eval.json 'd["accuracy"] > .9 and d["examples"] == 40'

run train retrieval --data pairs --out whole --steps 12 --eval-every 4 --seed 5 --accumulate 2 $small
run train retrieval --data pairs --out part --steps 12 --eval-every 4 --seed 5 --accumulate 2 --max-seconds 0.000001 $small
run train --resume part --quiet
holds pairs_resume_bit_for_bit cmp whole/last.safetensors part/last.safetensors
run train retrieval --data pairs --out tokens --steps 2 --eval-every 2 $small --tokens bpe
run predict tokens new.jsonl
[ "$code" = 0 ] && [ "$(wc -l <out)" = 4 ] && [ -s tokens/tokenizer.json ] && passed pairs_of_tokens || failed pairs_of_tokens "$(cat err)"
printf 'text1,text2,label\n"x,x",y,same\n' >new.csv
run predict tokens new.csv
[ "$code" = 0 ] && [ "$(wc -l <out)" = 1 ] && passed pairs_of_csv || failed pairs_of_csv "$(cat err)"
run train retrieval --data pairs --out joined --join --attention softmax --steps 400 --eval-every 50 --until accuracy=1 --seed 3 --layers 2 --dim 32 --heads 4 --ffn 32 --batch 32 --max-len 48 --learning-rate 0.005 --json --quiet
holds joined_pairs_are_learned json out 'd["best_accuracy"] > .9'
grep -q '"pairs": false' joined/config.json && passed joined_pairs_are_recorded || failed joined_pairs_are_recorded "$(cat joined/config.json err)"
run predict joined new.jsonl
holds joined_pairs_are_predicted python3 -c 'import json, sys; got = [json.loads(l)["label"] for l in open("out")]; sys.exit(0 if got == ["same", "other", "other", "same"] else str(got))'
expect joined_bytes 2 "--join needs --tokens bpe" train retrieval --data pairs --out no --join $small
printf 'a\tx\nb\ty\n' >single.tsv
expect texts_are_no_pairs 3 "2 fields between tabs; a pair has 3 (label, text, text) or 5" predict match single.tsv
expect plain_text_is_no_pair 3 "a .txt file has no pairs; they are read from .jsonl, .tsv and .csv" predict match nothing.txt
finish
