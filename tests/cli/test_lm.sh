#!/bin/sh
# Task lm: a text of known entropy is learned to near its entropy, with bytes and with words; reports of a run; resuming;
# refusals. A perplexity below the entropy of the text would mean that attention sees the future.
# Covers: metrics_out.c
. "$(dirname "$0")/checks.sh"
small="--layers 1 --dim 32 --heads 2 --ffn 128 --batch 64 --seq-len 16 --dropout 0 --learning-rate 0.01 --warmup 20"

# A text of order 2: each pair of letters is followed by one of two letters, with probabilities 3/4 and 1/4, which is 0.811
# bits or 0.562 nats per letter.
mkdir letters words broken
python3 - <<'P'
import random
random.seed(4)
names = "abcdefgh"
after = {(x, y): random.sample(names, 2) for x in names for y in names}
def draw(n):
    text = ["a", "b"]
    while len(text) < n:
        text.append(random.choices(after[text[-2], text[-1]], (3, 1))[0])
    return text
for split, n in (("train", 60000), ("valid", 4000), ("test", 8000)):
    open(f"letters/{split}.txt", "w").write("".join(draw(n)))
    t = draw(n // 4)
    open(f"words/wiki.{split}.tokens", "w").write("".join(" " + " ".join(w * 3 for w in t[i:i + 500]) + " \n" for i in range(0, len(t), 500)))
P
run train lm --data letters --out run --attention softmax --steps 400 --eval-every 100 --seed 3 --json $small
cp out train.json
holds reports_perplexity json train.json 'd["stopped_by"] == "steps" and abs(d["valid_perplexity"] - math.exp(d["valid_loss"])) < 1e-9 and d["best_loss"] <= d["valid_loss"] and d["best_perplexity"] <= d["valid_perplexity"] + 1e-9'
grep -q "valid perplexity" err && grep -q "best perplexity" err && passed says_perplexity || failed says_perplexity "$(cat err)"
grep -q '"valid_perplexity"' run/log.jsonl && passed logs_perplexity || failed logs_perplexity "$(tail -2 run/log.jsonl)"
run eval run --split test --json
cp out eval.json
# The optimum, with one letter of context for the first of 16, is 1.885; one letter of context gives 5.38.
holds learns_to_near_the_entropy json eval.json '1.86 < d["perplexity"] < 2.08 and abs(d["bits_per_byte"] - d["loss"] / math.log(2)) < 1e-9'
holds counts_tokens json eval.json 'd["tokens"] == 7999 and d["examples"] == 500 and d["num_unknown"] == 0 and .6 < d["accuracy"] < .8 and d["majority"] < .4'
# majority: share of the most common target; targets are all tokens but the first of the text.
holds majority_is_that_of_the_text python3 -c 'import collections, json, sys; t = open("letters/test.txt").read()[1:]; d = json.load(open("eval.json")); want = max(collections.Counter(t).values()) / len(t); sys.exit(0 if abs(d["majority"] - want) < 1e-12 else str((d["majority"], want)))'
says words_of_eval "test: perplexity" eval run
python3 - out <<'P' >told 2>&1
import json, re, sys
d = json.load(open("eval.json"))
line = open(sys.argv[1]).read()
assert re.sub(r"[0-9]+ tokens/s\n$", "", line) == f"test: perplexity {d['perplexity']:.4f}, loss {d['loss']:.4f}, bits per byte {d['bits_per_byte']:.4f}, accuracy {d['accuracy']:.4f}, majority {d['majority']:.4f}, 500 examples, 0 cut, 7999 tokens, ", line
P
holds every_word_of_eval sh -c '[ ! -s told ] || { cat told; exit 1; }'
says bits_per_byte_are_said "bits per byte" eval run
# A file of any name: the training text is split, another text is evaluated as a whole.
run train lm --data letters/test.txt --out lone --attention softmax --steps 20 --eval-every 20 --seed 3 --quiet $small
run eval lone --split test --json
holds last_tenth_is_the_test json out 'd["examples"] == 50'
run eval lone --data letters/valid.txt --json
holds another_text_is_evaluated json out 'd["examples"] == 250 and d["tokens"] == 3999'
expect prediction_is_refused 2 "lm has no files of documents to predict; eval reports its metrics" predict run letters/test.txt

# The sampled mechanism, causal; the best model is the one with the smallest loss.
run train lm --data letters --out yoso --attention yoso --hash-bits 4 --num-hashes 16 --positions sinusoidal --steps 300 --eval-every 100 --seed 3 --quiet --json $small
run eval yoso --split test --json
holds yoso_looks_further_than_one_letter json out '1.86 < d["perplexity"] < 4.6'

# Words, the published file names, a vocabulary next to config.json.
run train lm --data words --out spoken --vocabulary words --attention softmax --steps 200 --eval-every 100 --seed 3 --quiet --json $small
[ "$(head -2 spoken/vocab.txt | tr '\n' ' ')" = "<unk> <eos> " ] && [ "$(wc -l <spoken/vocab.txt)" = 10 ] && passed vocabulary_is_kept || failed vocabulary_is_kept "$(cat spoken/vocab.txt)"
run eval spoken --split test --json
holds words_are_learned json out '1.8 < d["perplexity"] < 3.5 and "bits_per_byte" not in d and d["tokens"] == 2003'
printf 'aaa bbb other words\n' >broken/wiki.test.tokens
printf 'aaa\n' >broken/wiki.train.tokens
run eval spoken --data broken --json
holds unknown_words_are_counted json out 'd["num_unknown"] == 2 and d["tokens"] == 4'
says unknown_words_are_said "2 targets are <unk>" eval spoken --data broken
sed -i 3d spoken/vocab.txt
expect a_cut_vocabulary_is_refused 3 "vocab.txt: 9 words, the model has 10" eval spoken
rm spoken/vocab.txt
expect a_missing_vocabulary_is_refused 3 "vocab.txt" train --resume spoken

# The released model of LHA, small: half of the heads local with positions of their own, the others with projected ones.
run train lm --data words --out lha --preset lha-lm --layers 2 --dim 32 --heads 4 --ffn 64 --batch 8 --seq-len 32 --steps 300 --warmup 20 --learning-rate 0.01 --initial-std 0 --eval-every 100 --dropout 0.05 --attention-dropout 0.05 --seed 3 --quiet --json
run eval lha --split test --json
holds the_model_of_lha_learns json out '1.8 < d["perplexity"] < 5'
holds its_heads_and_layers json lha/config.json '"local,lha" in str(d) and d["model"]["norm"] == "post" and d["model"]["positions"] == "layered" and d["model"]["attention_dropout"] == 0.05'
holds its_own_plan python3 -c 'import sys; b = open("lha/model.safetensors", "rb").read(100000); sys.exit(0 if all(n in b for n in (b"attention.query_position.weight", b"own.local.position", b"own.lha.shared")) and b"attention.query.bias" not in b else "parameters")'
expect no_weights_to_drop 2 "yoso has no attention weights to drop one by one: --attention-dropout is 0.1" train lm --data words --attention yoso --attention-dropout 0.1 --out no

# More words than 16 bits count: every one has an id, an output and a gradient. ln 70,002 = 11.156.
mkdir many
python3 -c 'open("many/train.txt", "w").write("\n".join(" ".join(f"w{i}" for i in range(k, k + 50)) for k in range(0, 70000, 50)) + "\n"); open("many/valid.txt", "w").write("w69998 w69999\n" * 40); open("many/test.txt", "w").write("w69999 w0 w65535 w9999\n")'
run train lm --data many --out many-run --vocabulary words --max-words 300000 --attention softmax --layers 1 --dim 8 --heads 1 --ffn 8 --batch 4 --seq-len 100 --steps 2 --warmup 1 --eval-every 2 --quiet
[ "$(wc -l <many-run/vocab.txt)" = 70002 ] && passed many_words || failed many_words "$(wc -l <many-run/vocab.txt)"
run eval many-run --split test --json
holds many_words_are_known json out 'd["num_unknown"] == 0 and d["tokens"] == 4 and 10 < d["loss"] < 12.5'
run train lm --data many --out few-run --vocabulary words --max-words 65535 --attention softmax --layers 1 --dim 8 --heads 1 --ffn 8 --batch 4 --seq-len 100 --steps 2 --warmup 1 --eval-every 2 --quiet
run eval few-run --split test --json
holds fewer_words_leave_some_unknown json out 'd["num_unknown"] >= 1'

# Adaptive softmax: words with tails are learned as well, saved, resumed bit for bit, and the same for any number of threads.
tails="--vocabulary words --attention softmax --cutoffs 5,7 --div-value 2 --seed 3"
run train lm --data words --out adaptive --steps 200 --eval-every 100 --quiet --json $tails $small
run eval adaptive --split test --json
holds tails_are_learned json out '1.8 < d["perplexity"] < 3.5 and d["tokens"] == 2003'
holds tails_are_saved python3 -c 'import sys; b = open("adaptive/model.safetensors", "rb").read(20000); sys.exit(0 if all(n in b for n in (b"embeddings.word_embeddings.1.weight", b"embeddings.word_embeddings.2.projection", b"lm_head.2.bias")) else "parameters")'
holds tails_are_in_the_config json adaptive/config.json 'd["model"]["cutoffs"] == "5,7" and d["model"]["div_value"] == 2'
run train lm --data words --out adaptive-part --steps 200 --eval-every 100 --quiet --max-seconds 0.000001 $tails $small
run train --resume adaptive-part --quiet --threads 3
holds tails_resume_bit_for_bit cmp adaptive/last.safetensors adaptive-part/last.safetensors
run train lm --data many --out many-tails --vocabulary words --max-words 300000 --cutoffs 1000,60000 --div-value 2 --attention softmax --layers 1 --dim 8 --heads 1 --ffn 8 --batch 4 --seq-len 100 --steps 2 --warmup 1 --eval-every 2 --quiet
run eval many-tails --split test --json
holds tails_of_many_words json out 'd["num_unknown"] == 0 and d["tokens"] == 4 and 9 < d["loss"] < 13.5'
run train lm --data words --from adaptive --out adaptive-on --vocabulary words --steps 2 --eval-every 2 --batch 4 --seq-len 16 --warmup 1 --quiet
holds a_run_with_tails_goes_on json adaptive-on/config.json 'd["model"]["cutoffs"] == "5,7"'
expect cutoffs_must_rise 2 "--cutoffs is '7,5', and 5 is not above 7" train lm --data words --out no --vocabulary words --cutoffs 7,5
expect cutoffs_within_the_words 2 "--cutoffs is '5,11', and 11 is not below the 11 ids of the vocabulary" train lm --data words --out no --vocabulary words --cutoffs 5,11
expect cutoffs_are_numbers 2 "--cutoffs is '5;7', it must be numbers of ids such as 20000,60000" train lm --data words --out no --vocabulary words --cutoffs "5;7"
expect the_head_has_a_word 2 "the first of the --cutoffs is 1, and the first id that can be predicted is 1" train lm --data words --out no --vocabulary words --cutoffs 1
expect tails_have_a_width 2 "--div-value 64: words of tail 1 would have 32 / 64 = 0 columns" train lm --data words --out no --vocabulary words --cutoffs 5 --div-value 64 --dim 32 --heads 2

# Stopped and resumed, with accumulated batches of unequal length: the same bits.
head -c 1000 letters/train.txt >broken/train.txt
rm broken/wiki.*
more="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 3 --accumulate 2 --seq-len 64 --steps 12 --eval-every 4 --seed 5"
run train lm --data broken --out whole --attention yoso --quiet $more
run train lm --data broken --out part --attention yoso --quiet --max-seconds 0.000001 $more
run train --resume part --quiet
holds resumes_bit_for_bit cmp whole/last.safetensors part/last.safetensors
holds the_best_too cmp whole/model.safetensors part/model.safetensors
run train lm --data broken --out threads --attention yoso --quiet --threads 3 $more
holds threads_change_no_bit cmp whole/last.safetensors threads/last.safetensors
# Heads with several mechanisms: options of one or of all, evaluation, resuming, the same bits for any number of threads.
mixed="--attention local/local*1,lha --block-size 16 --relative --lha.num-buckets 4 --lha.no-joint $more --layers 2 --positions sinusoidal"
run train lm --data broken --out mixed_whole --quiet $mixed
run train lm --data broken --out mixed --quiet --max-seconds 0.000001 $mixed
run train --resume mixed --quiet
holds mixed_resumes_bit_for_bit cmp mixed_whole/last.safetensors mixed/last.safetensors
run train lm --data broken --out mixed_threads --quiet --threads 3 $mixed
holds mixed_threads_change_no_bit cmp mixed_whole/last.safetensors mixed_threads/last.safetensors
holds config_has_every_mechanism json mixed/config.json 'd["attention"]["name"] == "local/local*1,lha" and d["attention"]["options"]["lha"]["num_buckets"] == 4 and d["attention"]["options"]["local"]["block_size"] == 16'
run eval mixed --split valid --json
cp out eval.json
holds mixed_is_evaluated json eval.json 'd["attention"] == "local/local*1,lha" and d["perplexity"] < 257'
run eval mixed --split valid --json --local.block-size 4
holds options_of_one_may_differ python3 -c 'import json; a, b = (json.load(open(f)) for f in ("eval.json", "out")); assert a["loss"] != b["loss"]'
run eval mixed --split valid --json --block-size 16
holds and_come_back python3 -c 'import json; a, b = (json.load(open(f)) for f in ("eval.json", "out")); assert a["loss"] == b["loss"]'
expect too_few_heads 2 "'local*1,lha*2' does not fit 2 heads in layer 0" train lm --data broken --out none $more --attention "local*1,lha*2"
expect no_such_mechanism 2 "no mechanism 'lah'" train lm --data broken --out none $more --attention local,lah
expect no_option_of_that_one 2 "has no option 'local.num_buckets'" train lm --data broken --out none $more --attention local,lha --local.num-buckets 4
expect no_mechanism_of_that_name 2 "no option --lah.num-buckets" train lm --data broken --out none $more --attention local,lha --lah.num-buckets 4
expect only_of_mechanisms 2 "no option --lha.steps" train lm --data broken --out none $more --attention local,lha --lha.steps 4
# Overfitting: validation loss falls, then rises, while accuracy fluctuates. The model with the smallest loss is kept.
run train lm --data broken --out heart --attention softmax --quiet --json --layers 1 --dim 32 --heads 2 --ffn 64 --batch 16 --seq-len 32 --steps 120 --eval-every 10 --seed 5 --learning-rate 0.02
cp out heart.json
python3 -c 'import json; r = [json.loads(l) for l in open("heart/log.jsonl")]; json.dump([x["valid_loss"] for x in r if "valid_loss" in x], open("losses.json", "w"))'
holds the_least_loss_is_kept python3 -c 'import json, sys; d, l = json.load(open("heart.json")), json.load(open("losses.json")); sys.exit(0 if d["best_loss"] == min(l) < l[-1] else str((d, l)))'
run eval heart --split valid --json
holds what_is_kept_has_that_loss python3 -c 'import json, sys; d, e = json.load(open("heart.json")), json.load(open("out")); sys.exit(0 if abs(d["best_loss"] - e["loss"]) < 1e-12 else str((d, e)))'
expect convolution_is_refused 2 "--conv-window is 3, and half of its taps would see" train lm --data letters --out none --conv-window 3
expect empty_text_is_refused 3 "has no train.txt" train lm --data . --out none
# Tokens of a BPE that is learned from the training file.
run train lm --data letters --out tokens --attention softmax --vocabulary bpe --max-words 300 --steps 20 --eval-every 20 $small
[ "$code" = 0 ] && [ -s tokens/tokenizer.json ] && passed bpe_is_kept || failed bpe_is_kept "$(cat err)"
run eval tokens --split test --json
cp out eval.json
holds bpe_has_no_bits_per_byte json eval.json 'd["tokens"] < 7999 and "bits_per_byte" not in d and d["perplexity"] > 1'
finish
