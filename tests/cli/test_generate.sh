#!/bin/sh
# Command generate: a learned text is continued word for word, with bytes, words and tokens; the same seed gives the same
# texts on every run, for any number of threads and of texts; options, stop texts, streaming, Ctrl-C, and what is refused.
# Planted and caught: a stopped text that ends with exit code 0; a text written before its turn; stop texts lost.
# Covers: cmd_generate.c grow_texts.c
. "$(dirname "$0")/checks.sh"
small="--layers 1 --dim 32 --heads 2 --ffn 64 --batch 16 --seq-len 24 --dropout 0 --learning-rate 0.01 --warmup 10 --quiet --seed 3"

# Every byte of one text, and every word of the other, has one successor, so any context has one continuation.
mkdir ring round
python3 -c 'open("ring/train.txt", "w").write("Bär-ist_wo.\n" * 600); open("round/train.txt", "w").write("der Bär sah das Tor.\n" * 400)'
run train lm --data ring --out bytes --attention softmax*1,yoso*1 --hash-bits 4 --num-hashes 16 --positions sinusoidal --steps 100 --eval-every 100 $small
run train lm --data round --out words --vocabulary words --attention softmax --steps 60 --eval-every 60 $small
run train lm --data ring --out tokens --vocabulary bpe --max-words 265 --attention yoso --hash-bits 4 --steps 100 --eval-every 100 --positions none $small
run train lm --data ring --out again --attention lha*1,local*1 --num-buckets 2 --positions sinusoidal --steps 10 --eval-every 10 $small

# follows NAME PROMPT WANT RUN ARGS...: the text on stdout, without the end of line.
follows() {
    name=$1 prompt=$2 want=$3 of=$4
    shift 4
    run generate "$of" "$prompt" --temperature 0 "$@"
    printf '%s\n' "$want" >want
    [ "$code" = 0 ] && cmp -s want out && passed "$name" || failed "$name" "code $code; $(cat out err)"
}
follows bytes_go_on "wo.
B" "är-ist_wo." bytes --max-tokens 11
follows further_than_in_training "B" "$(python3 -c 'print("är-ist_wo.\n" + "Bär-ist_wo.\n" * 9 + "Bär", end="")')" bytes --max-tokens 133
follows words_go_on "der Bär sah" " das Tor.
der Bär" words --max-tokens 5
follows tokens_go_on "" "Bär-ist_wo." tokens --stop "
"
run generate bytes "B" --temperature 0 --max-tokens 1
[ "$(od -An -tx1 out | tr -d ' \n')" = efbfbd0a ] && passed half_a_character_at_the_end || failed half_a_character_at_the_end "$(od -c out)"
follows a_stop_text_ends_it "B" "är-ist" bytes --stop "_wx" --stop "_wo"
printf 'Bär' | "$tool" generate bytes - --temperature 0 --max-tokens 9 >out 2>err
printf -- '-ist_wo.\n\n' | cmp -s - out && passed prompt_from_stdin || failed prompt_from_stdin "$(cat out err)"
run generate bytes --temperature 0 --max-tokens 13
printf 'Bär-ist_wo.\n\n' | cmp -s - out && passed without_a_prompt || failed without_a_prompt "$(cat out err)"

# Records.
run generate bytes "B" --max-tokens 30 --num 10 --temperature 3 --seed 5 --json
cp out ten
holds ten_records python3 -c '
import json
d = [json.loads(line) for line in open("ten", encoding="utf-8")]
assert len(d) == 10 and all(set(r) >= {"text", "tokens", "tokens_per_second"} for r in d), d
assert all(r["tokens"] == 30 and r["tokens_per_second"] > 0 and r["stopped_by"] == "tokens" and r["prompt_tokens"] == 1 for r in d)
assert len({r["text"] for r in d}) == 10, "texts are alike"'
texts() { python3 -c 'import json, sys; print([json.loads(line)["text"] for line in open(sys.argv[1], encoding="utf-8")])' "$1"; }
for way in "--threads 1" "--threads 3" "--num 12 --threads 2"; do
    run generate bytes "B" --max-tokens 30 --num 10 --temperature 3 --seed 5 --json $way
    head -10 out >same
    [ "$(texts same)" = "$(texts ten)" ] && passed "same_texts_with_$way" || failed "same_texts_with_$way" "$(texts same)"
done
run generate bytes "B" --max-tokens 30 --temperature 3 --seed 6 --json
[ "$(texts out)" != "$(head -1 ten >one; texts one)" ] && passed another_seed || failed another_seed "$(texts out)"
run generate bytes "B" --max-tokens 30 --temperature 3 --top-k 1 --json
holds the_likeliest_of_one json out 'd["text"] == "är-ist_wo.\nBär-ist_wo.\nBär-ist_wo."[:len(d["text"])]'
run generate bytes "B" --max-tokens 30 --temperature 3 --top-p 0.0001 --json
holds the_likeliest_share json out 'd["text"] == "är-ist_wo.\nBär-ist_wo.\nBär-ist_wo."[:len(d["text"])]'
run generate bytes "B" --num 3 --temperature 0 --stop "." --json
holds stopped_by_a_text python3 -c '
import json
d = [json.loads(line) for line in open("out", encoding="utf-8")]
assert len(d) == 3 and all(r["text"] == "är-ist_wo" and r["stopped_by"] == "stop" and r["tokens"] == 11 for r in d), d'
run generate bytes "B" --num 3 --temperature 0 --stop "."
printf 'är-ist_wo\n\när-ist_wo\n\när-ist_wo\n' | cmp -s - out && passed texts_one_after_another || failed texts_one_after_another "$(cat out)"

# A mechanism that keeps nothing says so, and gives the text of its passes; other options of a mechanism are taken.
run generate again "B" --max-tokens 20 --temperature 0
[ "$code" = 0 ] && grep -q "lha keeps nothing of earlier tokens: every token is a pass over the whole text" err && passed says_that_it_recomputes || failed says_that_it_recomputes "$(cat err)"
says options_of_mechanisms "" generate bytes "B" --num-hashes 64 --max-tokens 4
run generate words "der Hund sah" --max-tokens 3
grep -q "1 word of the prompt is <unk>" err && passed says_unknown_words || failed says_unknown_words "$(cat err)"

# Ctrl-C: what there is, an end of line, and exit code 130.
"$tool" generate bytes "B" --max-tokens 10000000 --temperature 0 >out 2>err &
writer=$!
tries=0
while [ "$(wc -c <out)" -lt 2000 ] && [ $tries -lt 6000 ]; do sleep 0.05; tries=$((tries + 1)); done
kill -INT $writer
wait $writer
code=$?
holds streams_and_stops python3 -c '
import sys
text = open("out", "rb").read()
text.decode("utf-8")
want = ("är-ist_wo.\n" + "Bär-ist_wo.\n" * 30).encode()
assert sys.argv[1] == "130" and text.endswith(b"\n") and text[:300] == want[:300], (sys.argv[1], text[:400])' "$code"
"$tool" generate bytes "B" --max-tokens 10000000 --temperature 0 --json >out 2>err &
writer=$!
until_int_is_handled $writer
sleep 1
kill -INT $writer
wait $writer
[ $? = 130 ] && [ "$(wc -l <out)" -le 1 ] && passed json_of_a_stopped_text || failed json_of_a_stopped_text "$(cat out err)"

# Refused.
run data needle --out marks --train 40 --valid 10 --test 10 --seq-len 16 --quiet
run train needle --data marks --out finder --steps 2 --eval-every 2 --layers 1 --dim 8 --heads 1 --ffn 8 --quiet
expect not_a_language_model 2 "a run of needle does not generate text: only lm predicts the next token" generate finder x
expect no_run 3 "config.json" generate nothing x
expect beyond_learned_positions 2 "a prompt of 2 tokens and 30 more need 31 positions, the model has learned 24" generate words "der Bär" --max-tokens 30
expect a_long_prompt 2 "positions, the model has learned 24" generate words "$(head -6 round/train.txt)"
says as_many_as_positions "" generate words "der Bär"
expect top_p_of_nothing 2 "--top-p is 0, allowed are numbers above 0 up to 1" generate bytes x --top-p 0
expect an_empty_stop_text 2 "stop text 1 is empty" generate bytes x --stop ""
expect two_prompts 2 "generate needs the run and at most one prompt" generate bytes der Bär
expect no_operands 2 "generate needs the run" generate
expect a_prompt_that_is_not_text 2 "byte 2 (0xff) is not UTF-8" generate words "$(printf 'ab\377')"
"$tool" generate bytes - <. >out 2>err
code=$?
[ $code = 3 ] && grep -q "the prompt cannot be read from standard input" err && passed unreadable_prompt || failed unreadable_prompt "$code $(cat err)"
finish
