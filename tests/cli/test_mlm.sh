#!/bin/sh
# Task mlm: texts become token files, a model learns masked tokens and the order of two texts, a stopped run goes on with the
# same masks, and refusals.
# Planted and caught: masks keyed by something that a resumed process does not have; data that depend on the threads;
# --long without --order refused; memory that grows with a file of short documents or with its longest documents.
. "$(dirname "$0")/checks.sh"
small="--layers 1 --dim 32 --heads 2 --ffn 64 --batch 32 --dropout 0 --attention softmax --seed 3"

# Each document has one noun and one colour; its lines are numbered, so that the order can be seen.
python3 - >text.txt <<'P'
import random
random.seed(5)
for i in range(600):
    noun, colour = random.choice("cat dog owl fox hen cow".split()), random.choice("red blue green black white".split())
    for word in "one two three four".split()[:random.randint(2, 4)]:
        print(f"{word} {noun} sat on the {colour} mat, and the {noun} saw {colour}.")
    print()
P
run tokenizer train text.txt --vocab-size 400 --out tokens
run data mlm text.txt --tokenizer tokens --seq-len 64 --valid-share 0.2 --out d --threads 1 --seed 1 --json
cp out data.json
holds report_of_data json data.json 'd["task"] == "mlm" and d["documents"] == 600 and d["train"] > 400 and d["valid"] > 100 and d["test"] == 0 and d["dropped_tokens"] == 0 and d["tokens"] > 10000'
holds files_of_data sh -c '[ "$(ls d | tr "\n" " ")" = "tokenizer.json train.tokens valid.tokens " ]'
run data mlm text.txt --tokenizer tokens --seq-len 64 --valid-share 0.2 --out d3 --threads 3 --seed 1
grep -q "^d3: [0-9]* train, [0-9]* valid, 0 test$" err && passed words_of_data || failed words_of_data "$(cat err)"
holds threads_change_no_byte sh -c 'cmp d/train.tokens d3/train.tokens && cmp d/valid.tokens d3/valid.tokens && cmp tokens/tokenizer.json d3/tokenizer.json'

run train mlm --data d --out run --steps 600 --eval-every 300 --learning-rate 0.003 --json $small
cp out train.json
# Both are seen from the other words: chance is about 30 and 0.5.
holds learns_masked_tokens json train.json '1 <= d["valid_masked_tokens.perplexity"] < 5'
holds learns_the_order json train.json 'd["valid_classify.accuracy"] > 0.9'
grep -q "valid masked tokens.perplexity" err && grep -q "valid classify.accuracy" err && passed says_both || failed says_both "$(cat err)"
run eval run --split valid --json
holds eval_has_the_metrics_of_the_run json out 'abs(d["masked_tokens.perplexity"] - json.load(open("train.json"))["valid_masked_tokens.perplexity"]) < 1e-9 and "classify.majority" in d'
run fill-mask run "two cat sat on <mask> red mat, and the cat <mask> red." --top 1
[ "$(tr -s ' \n' ' ' <out | cut -d ' ' -f 3,5)" = "the saw" ] && passed masks_are_filled || failed masks_are_filled "$(cat out)"
printf '{"text": "one cat sat on the red mat."}\n{"text": "two dog"}\n' >documents.jsonl
run embed run documents.jsonl --out e.npy --json
holds documents_have_vectors json out '(d["type"], d["documents"], d["vectors"], d["dim"]) == ("mlm", 2, 2, 32)'
cmp -s run/tokenizer.json tokens/tokenizer.json && passed run_keeps_the_tokenizer || failed run_keeps_the_tokenizer "another one"

run train mlm --data d --out whole --steps 8 --eval-every 4 $small --threads 1
run train mlm --data d --out part --steps 8 --eval-every 4 --max-seconds 0.000001 $small --threads 2
run train --resume part --threads 3 --quiet
holds resuming_draws_the_same_masks cmp whole/last.safetensors part/last.safetensors
run train mlm --data d --out sized --size mini --steps 1 --batch 2 --eval-examples 4 --seed 3 --quiet
holds size_is_that_of_the_model json sized/config.json '(d["model"]["layers"], d["model"]["dim"], d["model"]["heads"], d["model"]["ffn"]) == (4, 256, 4, 1024)'
run train mlm --data d --out berts --preset bert --size tiny --steps 200 --max-seconds 0.000001 --batch 2 --eval-examples 4 --quiet
holds preset_is_that_of_bert json berts/config.json '(d["training"]["warmup"], d["training"]["schedule"], d["training"]["weight_decay"], d["training"]["learning_rate"]) == (2, "linear", 0.01, 1e-4) and d["model"]["classifier"] == "tanh" and d["model"]["norm"] == "post" and d["model"]["dim"] == 128'

run data mlm text.txt --tokenizer tokens --seq-len 64 --long --documents file --valid text.txt --out long --json
holds whole_documents json out 'd["documents"] > 20 and d["train"] > 100'
run train mlm --data long --out longer --steps 2 --eval-examples 4 --json $small
holds one_objective json out '"valid_perplexity" in d and "valid_classify.accuracy" not in d'
run data mlm text.txt --tokenizer tokens --order nsp --valid text.txt --test text.txt --out nsp --json
holds splits_of_files json out 'd["test"] > 500 and d["valid"] > 500'

# Documents of very different sizes: memory is that of a block of 8 MiB, whatever the size of the file.
if [ -n "${HASHATTN_SANITIZED:-}" ]; then
    echo "SKIPPED: memory of data mlm (sanitizers keep what is freed)"
elif python3 -c 'import resource' 2>/dev/null; then
    cat >peak.py <<'P'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
P
    for n in 10 32; do
        python3 - $n >many.txt <<'P'
import random, sys
random.seed(6)
left = int(sys.argv[1]) * 1000000
while left > 0:
    text = "one cat sat on the red mat, and the cat saw red.\n" * int(min(1000, 6 * random.paretovariate(1.1)))
    left -= len(text)
    print(text)
P
        python3 peak.py "$tool" data mlm many.txt --tokenizer tokens --seq-len 512 --out many$n --threads 1 >peak$n
    done
    [ "$(cat peak32)" -lt $(($(cat peak10) * 13 / 10)) ] && passed memory_is_that_of_a_block || failed memory_is_that_of_a_block "$(cat peak10 peak32) KiB"
    rm -r many.txt many10 many32
fi

expect no_text 2 "data mlm needs a file of text" data mlm --tokenizer tokens --out x
expect no_tokenizer 2 "data mlm needs --tokenizer DIR" data mlm text.txt --out x
expect no_directory 2 "data needs --out DIR" data mlm text.txt --tokenizer tokens
expect too_short 2 "--seq-len is 4, allowed are 5 to 65536" data mlm text.txt --tokenizer tokens --seq-len 4 --out x
expect other_ending 3 "text.csv: a name that ends in .txt, .jsonl or .tokens is needed" data mlm text.csv --tokenizer tokens --out x
expect not_overwritten 2 "d/train.tokens exists already and is not overwritten" data mlm text.txt --tokenizer tokens --out d
expect order_of_long 2 "--order is sop, it must be none" data mlm text.txt --tokenizer tokens --long --order sop --out x
expect no_data_yet 3 "tokens has no train.tokens: make it from texts with hashattn data mlm" train mlm --data tokens --out x
head -c 5000 d/train.tokens >d3/train.tokens
expect cut_file 3 "d3/train.tokens: has 5000 bytes, its" train mlm --data d3 --out x
cp d/train.tokens d3/train.tokens
run tokenizer train text.txt --vocab-size 300 --out other
cp other/tokenizer.json d3/tokenizer.json
expect other_tokenizer 3 "d3/train.tokens was made with another tokenizer: it has 316 ids, this one 300" train mlm --data d3 --out x
run data needle --out needles --train 8 --valid 4 --test 4 --seq-len 16 --marks 4
run train needle --data needles --out letters --steps 1 --batch 2 --layers 1 --dim 16 --heads 2 --ffn 16 --quiet
expect no_tokens 2 "the ids of this run are no tokens of text" embed letters documents.jsonl --out x.npy
expect no_masks 2 "the model has no output for masked tokens" fill-mask letters "a <mask>"
expect generated_options 2 "data has no option --train" data mlm text.txt --tokenizer tokens --train 5 --out x
[ -e x ] && failed nothing_was_made "x is there" || passed nothing_was_made
finish
