#!/bin/sh
# Task text on files of the user: training, prediction in order, and every kind of bad file.
# Planted and caught: predictions out of order; the first label reported for every document;
# --out that shows half a file; a line number one too low; the probabilities of one class left out; tokens of runs without
# that option taken for BPE; memory of predict that grows with the file; predict that cuts at the end whatever the run does.
# Covers: cmd_predict.c json_out.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --max-len 32 --learning-rate 0.02 --quiet"
bpe=$tiny tiny="$tiny --tokens bytes"

mkdir tsv jsonl
python3 - <<'P'
import json
pairs = [("ham", "aaaa" + "ab" * (i % 5)) if i % 2 else ("späm", "zzzz" + "yz" * (i % 5)) for i in range(60)]
open("tsv/train.tsv", "w").write("".join(f"{label}\t{text}\n" for label, text in pairs))
open("jsonl/train.jsonl", "w").write("".join(json.dumps({"text": t, "label": l}) + "\n" for l, t in pairs))
open("new.jsonl", "w").write("".join(json.dumps({"text": t, "label": "ham"}) + "\n" for t in ["aaaaab", "zzzzyz", "zzzz", "aaaa"]) + json.dumps({"text": "z" * 40}) + "\n")
P
run train text --data tsv --out filter --steps 60 --eval-every 20 --json $tiny
cp out train.json
holds text_is_learned json train.json 'd["best_accuracy"] > .9'
run train text --data jsonl --out filter2 --steps 60 --eval-every 20 $tiny
holds both_formats_are_one_data_set cmp filter/model.safetensors filter2/model.safetensors

run predict filter new.jsonl
cp out lines
python3 - <<'P' && passed predictions_in_order || failed predictions_in_order "$(cat lines)"
import json
lines = [json.loads(line) for line in open("lines")]
assert [d["label"] for d in lines] == ["ham", "späm", "späm", "ham", "späm"], lines
for d in lines:
    assert set(d["probabilities"]) == {"ham", "späm"} and abs(sum(d["probabilities"].values()) - 1) < 1e-5
    assert d["label"] == max(d["probabilities"], key=d["probabilities"].get)
P
grep -q "5 documents, 1 of them cut to 32 tokens" err && passed cuts_are_counted || failed cuts_are_counted "$(cat err)"
"$tool" predict filter - <new.jsonl >streamed 2>err
sed 's/"file": "new.jsonl", //' lines >unnamed
holds standard_input cmp streamed unnamed
run predict filter new.jsonl --out lines.jsonl --quiet --threads 3
[ "$code" = 0 ] && [ ! -s out ] && [ ! -s err ] && cmp -s lines.jsonl lines && passed lines_in_a_file || failed lines_in_a_file "$(cat err)"
cut -d'"' -f4 <new.jsonl >new.txt
run predict filter new.txt --lines
sed 's/new.txt/new.jsonl/' out >plain
holds plain_lines cmp plain lines
run predict filter new.txt
[ "$(wc -l <out)" = 1 ] && passed a_text_is_one_document || failed a_text_is_one_document "$(cat out)"
run predict filter new.jsonl --num-hashes 64
cmp -s out lines && failed hashes_may_differ "the same probabilities" || passed hashes_may_differ
run predict filter new.jsonl --seed 0
holds seed_of_the_run_by_default cmp out lines
run predict filter new.jsonl --seed 5
cmp -s out lines && failed seed_of_predict "the same probabilities" || passed seed_of_predict
# Labels of any bytes: quotes, backslashes and control characters are escaped, all else is written as it is.
python3 - <<'P'
labels = 'a b"c', 'd\\e\x01\x1f\x7f é'
import os
os.mkdir("odd")
open("odd/train.tsv", "w").write("".join(f"{label}\taa\n" for label in labels * 10))
P
run train text --data odd --out odd_labels --steps 2 --eval-every 2 $tiny
printf 'aa\n' >one.txt
run predict odd_labels one.txt
sed 's/.*"probabilities": //; s/: [0-9.e-]*/: P/g' out >escaped
printf '%s\n' '{"a b\"c": P, "d\\e\u0001\u001f\u007f é": P}}' >want
holds labels_are_escaped diff want escaped
says eval_of_text '"split": "test"' eval filter --json

# A run of an earlier version has no option `tokens`, and its ids are bytes.
cp -r filter old
python3 - <<'P'
import json
config = json.load(open("old/config.json"))
config["task"]["options"] = {"max_len": 32}
json.dump(config, open("old/config.json", "w"))
P
run predict old new.jsonl
holds runs_without_the_option_are_bytes cmp out lines

# Formats, and a BPE of the training file.
python3 - <<'P'
import csv, json, os
rows = [json.loads(line) for line in open("jsonl/train.jsonl")]
os.mkdir("csv")
with open("csv/train.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["stars", "review"])
    writer.writerows((row["label"], row["text"] + ',"\n') for row in rows)
for i, row in enumerate(rows):
    folder = f"folders/train/{row['label']}"
    os.makedirs(folder, exist_ok=True)
    open(f"{folder}/{i:02}.txt", "w").write(row["text"] + ',"\n')
open("new.csv", "w").write('review\n"aaaaab\n"\nzzzzyz\n')
P
run train text --data csv --text-column review --label-column stars --out records --seed 9 --steps 60 --eval-every 20 $bpe --json
cp out csv.json
holds records_are_learned json csv.json 'd["best_accuracy"] > .9'
grep -q '"tokens": [0-9]' records/config.json && [ -s records/tokenizer.json ] && passed tokens_are_kept || failed tokens_are_kept "$(ls records)"
run predict records new.csv
holds records_are_predicted python3 -c 'import json; assert [json.loads(l)["label"] for l in open("out")] == ["ham", "späm"], open("out").read()'
run embed records new.csv --out columns.jsonl
run embed records new.csv --text-column review --out named.jsonl
holds vectors_are_of_the_runs_column cmp columns.jsonl named.jsonl
run embed records new.csv --attention yoso --num-hashes 2 --seed 9 --out ninth.jsonl
run embed records new.csv --attention yoso --num-hashes 2 --out own.jsonl
run embed records new.csv --attention yoso --num-hashes 2 --seed 0 --out zero.jsonl
holds vectors_have_the_runs_seed sh -c 'cmp own.jsonl ninth.jsonl && ! cmp -s own.jsonl zero.jsonl'
# Two runs: the label of f1 is one for both, and another file is read whole, as by one run.
run eval filter --positive ham --against filter --data jsonl/train.jsonl --json
cp out both.json
holds a_run_equals_itself json both.json 'd["examples"] == 60 and "f1" in d["metrics"] and all(m["difference"] == 0 for m in d["metrics"].values())'
run predict records new.jsonl
[ "$code" = 3 ] && passed keys_are_the_columns || failed keys_are_the_columns "$code $(cat err)"
grep -q "the object has no key 'review', the name in the training file" err && passed the_key_is_named || failed the_key_is_named "$(cat err)"
run train text --data folders --out folders_run --steps 60 --eval-every 20 $bpe
holds folders_have_the_same_vocabulary cmp folders_run/tokenizer.json records/tokenizer.json
run predict folders_run folders/train
[ "$(wc -l <out)" = 60 ] && passed folders_are_predicted || failed folders_are_predicted "$(cat err)"
run train text --data tsv --out words_run --tokens words --steps 20 --eval-every 20 $bpe
head -n 2 words_run/vocab.txt | tr '\n' ' ' | grep -q '^<unk> <eos> $' && passed words_are_kept || failed words_are_kept "$(ls words_run)"
run predict words_run new.txt --lines
[ "$code" = 0 ] && [ "$(wc -l <out)" = 5 ] && passed words_are_predicted || failed words_are_predicted "$(cat err)"
# The label is in the last letters only: --cut middle reads them, in training and in prediction.
mkdir ends
python3 - <<'P'
open("ends/train.tsv", "w").write("".join(f"{'az'[i % 2]}\t{'m' * (40 + i)}{'az'[i % 2] * 9}\n" for i in range(60)))
P
for cut in end middle; do run train text --data ends --out cut_$cut --steps 60 --eval-every 20 --cut $cut $tiny --json; cp out cut_$cut.json; done
holds the_end_decides json cut_middle.json 'd["best_accuracy"] > .9'
holds the_end_is_cut_by_default json cut_end.json 'd["best_accuracy"] < .9'
python3 -c "print('m' * 99 + 'z' * 9, 'm' * 99 + 'a' * 9, sep='\n')" >ends.txt
run predict cut_middle ends.txt --lines
holds predictions_cut_alike python3 -c 'import json; assert [json.loads(l)["label"] for l in open("out")] == ["z", "a"], open("out").read()'
python3 -c "print(*range(99), 'z'); print(*range(99), 'a')" >numbers.txt
for cut in end middle; do
    run train text --data ends --out embed_$cut --steps 1 $bpe --max-len 8 --cut $cut
    run embed embed_$cut numbers.txt --lines --truncate --out embed_$cut.jsonl
done
holds vectors_are_cut_alike python3 -c 'import json
read = lambda cut: [json.loads(line)["vector"] for line in open(f"embed_{cut}.jsonl")]
one, other = read("end")
assert one == other
one, other = read("middle")
assert one != other'
expect unknown_cuts 2 "--cut is 'start', allowed are end, middle" train text --data tsv --out never --cut start
run train text --data tsv --out whole --steps 20 --eval-every 10 --seed 5 $bpe
run train text --data tsv --out part --steps 20 --eval-every 10 --seed 5 --max-seconds 0.000001 $bpe
run train --resume part --quiet
holds a_run_of_tokens_resumes_bit_for_bit cmp whole/last.safetensors part/last.safetensors
expect small_vocabulary 2 "--vocab-size is 260, allowed are 261 to 1048575" train text --data tsv --out never --vocab-size 260
expect unknown_tokens 2 "--tokens is 'letters', allowed are bpe, words, bytes" train text --data tsv --out never --tokens letters

# Memory does not grow with the file. The factor allows for blocks that fill and for other allocators.
if [ -n "${HASHATTN_SANITIZED:-}" ]; then
    echo "SKIPPED: memory of predict (sanitizers keep what is freed)"
elif python3 -c 'import resource' 2>/dev/null; then
    cat >peak.py <<'P'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
P
    for n in 5 100; do
        python3 -c "print(*('some words of document %d' % i for i in range($n * 600)), sep='\n')" >many.txt
        python3 peak.py "$tool" predict records many.txt --threads 1 >peak$n
    done
    [ "$(cat peak100)" -lt $(($(cat peak5) * 13 / 10)) ] && passed predict_streams || failed predict_streams "$(cat peak5 peak100) KiB"
fi

# A full disk leaves the old file unchanged.
without_room predict filter new.jsonl --out lines.jsonl
[ "$code" = 4 ] && passed full_disk || failed full_disk "code $code, $(cat err)"
holds old_file_stays cmp lines.jsonl lines
[ -n "$(ls | grep tmp)" ] && failed nothing_is_left_behind "$(ls)" || passed nothing_is_left_behind
"$tool" predict filter new.jsonl >/dev/full 2>err
[ $? = 4 ] && passed full_stdout || failed full_stdout "$(cat err)"
expect no_such_directory 4 "/nowhere/x: cannot write" predict filter new.jsonl --out /nowhere/x

# Bad files to predict.
wrong() { name=$1 part=$2 file=$3; expect "$name" 3 "$part" predict filter "$file" --out never; }
wrong missing_file "gone.jsonl" gone.jsonl
printf 'text,label\n"ab\nc,ham\n' >open.csv; wrong open_quote 'open.csv: line 2: the quote that opens here is not closed' open.csv
printf 'text,label\nab,ham\nab\n' >short.csv; wrong missing_field 'short.csv: line 3: 1 field, the header has 2' short.csv
printf 'body,label\nab,ham\n' >column.csv; wrong missing_column "column.csv: line 1: no column is named 'text', the name in the training file; there are: body, label" column.csv
printf '{"text": "ab"}\n{"text": "a\\u0000b"}\n' >nul.jsonl; wrong text_with_nul 'nul.jsonl: line 2: byte 11 of 20: \u0000 is not allowed' nul.jsonl
: >empty.jsonl; wrong empty_file "empty.jsonl" empty.jsonl
printf '{"text": "ab"}\n{"text": "a\n' >cut.jsonl; wrong cut_json "cut.jsonl: line 2" cut.jsonl
printf '{"text": "ab"}\n{"txet": "ab"}\n' >key.jsonl; wrong key_that_is_missing "key.jsonl: line 2" key.jsonl
printf '{"text": 5}\n' >number.jsonl; wrong text_that_is_a_number "number.jsonl: line 1" number.jsonl
printf '{"text": "a\377b"}\n' >bytes.jsonl; wrong invalid_utf8 "bytes.jsonl: line 1" bytes.jsonl
python3 -c 'print("[" * 100000)' >deep.jsonl; wrong hostile_depth "deep.jsonl: line 1" deep.jsonl
[ -n "$(ls | grep never)" ] && failed nothing_was_written "never is there" || passed nothing_was_written
expect two_operands 2 "predict needs a run and a file; got 1" predict filter
expect run_that_is_not 3 "nowhere/config.json" predict nowhere new.jsonl

# Bad training data.
bad() { # bad NAME PART: checks that the data set bad/ is refused
    expect "$1" 3 "$2" train text --data bad --out never $tiny
    rm -rf bad
    mkdir bad
}
mkdir bad; bad no_training_file "bad"
: >bad/train.tsv; bad empty_training_file "bad/train.tsv"
printf 'ham\taaaa\nspam\n' >bad/train.tsv; bad line_without_a_tab "bad/train.tsv: line 2"
printf 'ham\taa\nspam\ta\300\200\n' >bad/train.tsv; bad invalid_utf8_in_training "bad/train.tsv: line 2"
printf '{"text": "a", "label": "x"}\n{"text": "a"}\n' >bad/train.jsonl; bad document_without_a_label "bad/train.jsonl: line 2"
printf 'ham\taa\nspam\tzz\n' >bad/train.tsv; printf 'ham\taa\neggs\taa\n' >bad/valid.tsv; bad label_never_seen "bad/valid.tsv: line 2"
printf 'text,label\naa,ham\n"z""z",spam\n"a"b,spam\n' >bad/train.csv; bad text_after_a_quote "bad/train.csv: line 4: after the closing quote"
mkdir -p bad/train/ham bad/train/spam; echo aa >bad/train/ham/1.txt; printf 'a\377' >bad/train/spam/2.txt; bad folder_not_utf8 "bad/train/spam/2.txt: not UTF-8 at byte 1"
printf 'ham\taa\nspam\tzz\n' >bad/train.tsv; printf '{"text": "a", "label": "x"}\n' >bad/train.jsonl; bad two_training_files "bad"
[ -e never ] && failed no_run_was_begun "never is there" || passed no_run_was_begun
finish
