#!/bin/sh
# Task text on files of the user: training, prediction in order, and every kind of bad file.
# Planted and caught: predictions out of order; the first label reported for every document;
# --out that shows half a file; a line number one too low; the probabilities of one class left out.
# Covers: cmd_predict.c json_out.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --max-len 32 --learning-rate 0.02 --quiet"

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
holds standard_input cmp streamed lines
run predict filter new.jsonl --out lines.jsonl --quiet --threads 3
[ "$code" = 0 ] && [ ! -s out ] && [ ! -s err ] && cmp -s lines.jsonl lines && passed lines_in_a_file || failed lines_in_a_file "$(cat err)"
cut -d'"' -f4 <new.jsonl >new.txt
run predict filter new.txt
cp out plain
holds plain_lines cmp plain lines
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
printf '{"text": "ab"}\n{"text": "a\\u0000b"}\n' >nul.jsonl; wrong text_with_nul 'nul.jsonl: line 2: byte 11 of 20: \u0000 is not allowed' nul.jsonl
: >empty.jsonl; wrong empty_file "empty.jsonl" empty.jsonl
printf '{"text": "ab"}\n{"text": "a\n' >cut.jsonl; wrong cut_json "cut.jsonl: line 2" cut.jsonl
printf '{"text": "ab"}\n{"txet": "ab"}\n' >key.jsonl; wrong key_that_is_missing "key.jsonl: line 2" key.jsonl
printf '{"text": 5}\n' >number.jsonl; wrong text_that_is_a_number "number.jsonl: line 1" number.jsonl
printf '{"text": "a\377b"}\n' >bytes.jsonl; wrong invalid_utf8 "bytes.jsonl: line 1" bytes.jsonl
python3 -c 'print("[" * 100000)' >deep.jsonl; wrong hostile_depth "deep.jsonl: line 1" deep.jsonl
[ -n "$(ls | grep never)" ] && failed nothing_was_written "never is there" || passed nothing_was_written
expect two_operands 2 "predict needs two operands, the run and the file; got 1" predict filter
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
printf 'ham\taa\nspam\tzz\n' >bad/train.tsv; printf '{"text": "a", "label": "x"}\n' >bad/train.jsonl; bad two_training_files "bad"
[ -e never ] && failed no_run_was_begun "never is there" || passed no_run_was_begun
finish
