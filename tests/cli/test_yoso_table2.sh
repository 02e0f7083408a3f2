#!/bin/sh
# The script of the YOSO paper's Table 2: a row for each model, a score for each number of hashes and the expectation, and a
# second run that computes nothing again.
# Planted and caught: the expectation evaluated with samples; every number of hashes evaluated with the first; the mean of
# both seeds taken of the first; perplexities in both tables.
# Covers: bench/yoso_table2.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
for i in $(seq 120); do printf 'The cat sat on mat %d.\nThe dog lay on log %d.\nThe fox ran.\n\n' "$i" "$((i * 7 % 50))"; done >cats.txt
run tokenizer train cats.txt --vocab-size 300 --out tokens
run data mlm cats.txt --tokenizer tokens --seq-len 32 --valid-share 0.2 --out d
script="$source_dir/bench/yoso_table2.py $build --data d --out t --steps 3 --seeds 1 --only softmax,yoso-e,yoso-16-true"
options="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8"
python3 $script -- $options >table.md 2>err || cat err
holds rows_of_the_table sh -c '[ "$(cut -d "|" -f 2 table.md | tr "\n" ";")" = "Perplexity of masked tokens:;; learned with ;---; softmax ; yoso-e ; yoso-16-true ;;Accuracy of the order in per cent:;; learned with ;---; softmax ; yoso-e ; yoso-16-true ;" ]'
score='[0-9][0-9.]*'
holds softmax_is_itself test "$(grep -cx "| softmax | $score |  |  |  |  |  |  |" table.md)" = 2
holds all_hashes_and_the_expectation test \
    "$(grep -cx "| yoso-16-true |  | $score | $score | $score | $score | $score | $score |" table.md)" = 2
holds hashes_differ python3 -c '
import json
place = "t/yoso-16-true/seed1/"
found = [json.load(open(place + way + ".json"))["perplexity"] for way in ("8", "16", "32", "64", "128", "E")]
assert len(set(found)) == 6, found'
holds expectation_is_exact json t/yoso-16-true/seed1/with-E/config.json 'd["attention"]["name"] == "yoso-e"'
run eval t/yoso-e/seed1/run --split valid --json
holds expectation_is_that_of_eval json out 'abs(d["masked_tokens.perplexity"] - json.load(open("t/yoso-e/seed1/E.json"))["perplexity"]) < 1e-9'
find t -name model.safetensors -delete
python3 $script -- $options >again.md 2>err || cat err
holds nothing_is_computed_again cmp table.md again.md

# Means and deviations over seeds, of scores that differ.
mkdir -p t/softmax/seed2
cp t/softmax/seed1/done.json t/softmax/seed2/
echo '{"perplexity": 20, "order": 0.5}' >t/softmax/seed1/softmax.json
echo '{"perplexity": 26, "order": 0.6}' >t/softmax/seed2/softmax.json
python3 $script --seeds 2 --only softmax -- $options >two.md 2>err || cat err
holds perplexity_over_seeds grep -qF "| softmax | 23.0 ± 4.2 |" two.md
holds order_over_seeds grep -qF "| softmax | 55.0 ± 7.1 |" two.md
finish
