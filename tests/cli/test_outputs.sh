#!/bin/sh
# Outputs and messages: a place that cannot be written is found before the work, links planted in folders are not followed, a
# failed attempt leaves nothing in the way, and messages show no control characters of files.
# An output that is an input too, a file of the model that is read, or another output is refused. What precedes an error stays on standard output, and no counts precede the error.
# Planted and caught: a plot, gradient, offsets or SVG written through a link; --out looked at after the work, for each
# command below; an input, a file of a model or another output replaced, for each command below; counts of what could not be written; names of files that are no
# UTF-8 in JSON; a time in trainer.json that disables --max-seconds; a split left by a full disk; an option name or a
# character of several bytes that breaks the quoting of a report's command; control characters of labels and paths in
# tables and in what is told of success.
# Covers: outputs.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --steps 2 --eval-every 2 --seed 5 --quiet --threads 1"
run data needle --train 40 --valid 8 --test 8 --seq-len 16 --marks 4 --out needles
run train needle --data needles --out buckets --attention lha $tiny
python3 "$source_dir/tests/cli/npy.py" make 2
arrays="--q q.npy --k k.npy --v v.npy"
cp -r "$source_dir/tests/models/checkpoints/bert" bert
echo '{"text": "words of a text"}' >text.jsonl
for i in 1 2 3 4 5 6 7 8; do echo "the cat sat on the mat $i"; done >words.txt
run tokenizer train words.txt --vocab-size 300 --out tokens --quiet

# Places that cannot be written. The inputs of most of these are missing or bad, so any work would fail otherwise.
expect embed_to_nowhere 4 "nowhere/v.npy: cannot write: No such file" embed bert text.jsonl --out nowhere/v.npy
expect embed_looks_first 4 "nowhere/v.npy: cannot write: No such file" embed none text.jsonl --out nowhere/v.npy
expect embed_to_a_directory 4 "bert: cannot write: Is a directory" embed none text.jsonl --out bert
expect embed_below_a_file 4 "words.txt/v.npy: cannot write: Not a directory" embed none text.jsonl --out words.txt/v.npy
expect attend_to_nowhere 4 "nowhere/y.npy: cannot write: No such file" attend --q no --k no --v no --out nowhere/y.npy
expect gradients_to_nowhere 4 "nowhere/g: cannot make the directory: No such file" attend --q no --k no --v no --out y.npy --grad-out no --grad-dir nowhere/g
expect export_to_nowhere 4 "nowhere/c: cannot make the directory: No such file" export none --out nowhere/c
expect report_to_nowhere 4 "nowhere/r.html: cannot write: No such file" report buckets --out nowhere/r.html
expect plots_to_nowhere 4 "nowhere/p: cannot make the directory: No such file" inspect none --plots nowhere/p
expect tokenizer_to_nowhere 4 "nowhere/t: cannot make the directory: No such file" tokenizer train none --out nowhere/t
expect tokenizer_to_a_file 4 "words.txt: cannot make the directory: Not a directory" tokenizer train none --out words.txt
expect data_to_nowhere 4 "nowhere/d: cannot make the directory: No such file" data needle --out nowhere/d
expect predict_to_nowhere 4 "nowhere/p: cannot write: No such file" predict none none --out nowhere/p
expect encode_to_nowhere 4 "nowhere/e: cannot write: No such file" tokenizer encode none none --out nowhere/e
"$tool" report buckets --out page.html --json >/dev/full 2>err
[ $? = 4 ] && grep -q "cannot write standard output" err && passed facts_of_a_page_are_lost || failed facts_of_a_page_are_lost "$(cat err)"
expect encode_to_a_full_disk 4 "/dev/full: cannot write: No space left" tokenizer encode tokens words.txt --out /dev/full
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat words.txt words.txt >more && mv more words.txt; done
expect much_encoded_to_a_full_disk 4 "/dev/full: cannot write: No space left" tokenizer encode tokens words.txt --out /dev/full
run embed bert text.jsonl --out - --quiet
[ "$code" = 0 ] && head -c 6 out | grep -q NUMPY && passed embed_to_stdout || failed embed_to_stdout "$(cat err)"
touch linked.npy
ln -s linked.npy link.npy
run embed bert text.jsonl --out link.npy --quiet
[ "$code" = 0 ] && [ -L link.npy ] && [ -s linked.npy ] && passed typed_link_is_followed || failed typed_link_is_followed "$(ls -l)"

# Inputs are not replaced, by whatever name they are called. The other inputs are missing or bad, so any work would fail otherwise.
refused() { # refused NAME OPTION FILE ARGS...: the tool refuses to replace FILE, which stays
    name=$1 option=$2 file=$3
    shift 3
    cp "$file" before
    run "$@"
    [ "$code" = 2 ] && grep -qF -- "--$option $file is also an input; give another name" err && cmp -s "$file" before && passed "$name" || failed "$name" "$code $(cat err)"
}
mkdir -p letters/short one
echo words >letters/short/1.txt
cp words.txt one/tokenizer.json
echo 1,2 >points.csv
ln text.jsonl hard.jsonl
ln -s text.jsonl soft.jsonl
cp q.npy dv.npy
refused embed_input out text.jsonl embed none text.jsonl --out text.jsonl
refused predict_input out text.jsonl predict none words.txt text.jsonl --out text.jsonl
refused input_by_a_hard_link out hard.jsonl predict none text.jsonl --out hard.jsonl
refused input_by_a_link out soft.jsonl predict none ./text.jsonl --out soft.jsonl
refused input_of_a_folder out letters/short/1.txt embed none letters --out letters/short/1.txt
cp text.jsonl letters
refused lines_of_a_folder out letters/text.jsonl predict none letters/ --out letters/text.jsonl
rm letters/text.jsonl
refused piped_input out text.jsonl predict none - --out text.jsonl <text.jsonl
for array in q k v; do refused attend_$array out $array.npy attend --q q.npy --k k.npy --v v.npy --out $array.npy; done
refused attend_mask out text.jsonl attend $arrays --mask text.jsonl --out text.jsonl
refused gradient_over_an_input grad-dir ./dv.npy attend --q q.npy --k k.npy --v dv.npy --out y.npy --grad-out no --grad-dir .
refused encode_input out words.txt tokenizer encode none words.txt --out words.txt
refused decode_input out words.txt tokenizer decode none words.txt --out words.txt
refused vocabulary_over_its_text out one/tokenizer.json tokenizer train one/tokenizer.json --out one
refused report_operand out text.jsonl report none text.jsonl --out text.jsonl
refused report_results out text.jsonl report none --bench text.jsonl --out text.jsonl
refused fit_input out points.csv density fit points.csv --out points.csv
refused fit_like out text.jsonl density fit none --like text.jsonl --out text.jsonl
refused modes_input out points.csv density modes points.csv --out points.csv
refused modes_labels labels points.csv density modes points.csv --out m.npy --labels points.csv
refused score_input out points.csv density score none points.csv --out points.csv
refused score_sketch errors text.jsonl density score text.jsonl none --errors text.jsonl
refused removed_rows out points.csv density remove none points.csv --out points.csv

# Nor are the files of a stored model, and no file gets the name of one.
whole() { # whole NAME OPTION FILE MODEL ARGS...: the tool refuses to write FILE, a name of MODEL, which stays
    name=$1 option=$2 file=$3 model=$4
    shift 4
    rm -rf before
    cp -r "$model" before
    run "$@"
    [ "$code" = 2 ] && grep -qF -- "--$option $file is a file of $model; give another name" err && diff -r "$model" before && passed "$name" || failed "$name" "$code $(cat err)"
}
ln -s buckets/config.json soft.json
ln -s buckets same
mkdir empty
for file in config.json model.safetensors last.safetensors trainer.json log.jsonl lock; do
    whole predict_over_$file out buckets/$file buckets predict buckets none.jsonl --out buckets/$file
done
whole predict_through_a_link out soft.json buckets predict buckets none.jsonl --out soft.json
whole predict_by_another_path out same/config.json ./buckets predict ./buckets none.jsonl --out same/config.json
whole best_model_to_come out empty/model.safetensors empty predict empty none.jsonl --out empty/model.safetensors
whole embed_over_weights out bert/model.safetensors bert embed bert none.jsonl --out bert/model.safetensors
for file in model.safetensors.index.json sentence_bert_config.json config_sentence_transformers.json added_tokens.json vocab.bpe; do
    whole embed_over_$file out bert/$file bert embed bert none.jsonl --out bert/$file
done
whole encode_over_a_tokenizer out tokens/tokenizer.json tokens tokenizer encode tokens none.txt --out tokens/tokenizer.json
rm -r before
refused encode_over_a_file out tokens/tokenizer.json tokenizer encode tokens/tokenizer.json none.txt --out tokens/tokenizer.json
whole report_over_a_state out buckets/trainer.json buckets report none buckets --out buckets/trainer.json
whole picture_of_predictions draw buckets/config.json buckets predict buckets none.csv --draw buckets/config.json
whole picture_of_an_evaluation draw buckets/trainer.json buckets eval buckets --draw buckets/trainer.json
whole picture_of_a_resumed_run draw buckets/lock buckets train --resume buckets --draw buckets/lock
whole picture_over_the_start draw bert/vocab.txt bert train forecast --data none.csv --from bert --out new --draw bert/vocab.txt

# Two outputs are two files. What else the command needs is missing, or its first output would be the whole work.
twice() { # twice NAME OPTION FILE ARGS...: the tool refuses to write FILE for OPTION too
    name=$1 option=$2 file=$3
    shift 3
    run "$@"
    [ "$code" = 2 ] && grep -qF -- "--$option $file is also the output of --out; give another name" err && [ ! -e both ] && passed "$name" || failed "$name" "$code $(cat err)"
    rm -rf both
}
mkdir two
touch two/there.npy
ln -s two near
ln -s there.npy two/linked.npy
twice modes_of_one_name labels both density modes points.csv --out both --labels both
twice modes_by_another_path labels near/m.npy density modes points.csv --out two/m.npy --labels near/m.npy
twice errors_of_one_name errors ./both density score none points.csv --out both --errors ./both
twice errors_by_a_link errors two/linked.npy density score none points.csv --out two/there.npy --errors two/linked.npy
twice gradient_over_the_output grad-dir ./dq.npy attend $arrays --out dq.npy --grad-out no --grad-dir .
twice picture_over_a_forecast draw both predict none none.csv --out both --draw both
twice picture_over_a_run draw both/ train forecast --data none.csv --out both --draw both/
twice two_of_standard_output draw - predict none none.csv --draw -
twice standard_output_by_its_path labels /dev/stdout density modes points.csv --out - --labels /dev/stdout
run density modes points.csv --map euclidean --out /dev/null --labels /dev/null
[ "$code" = 0 ] && passed a_device_is_named_twice || failed a_device_is_named_twice "$code $(cat err)"
for i in 1 2; do run embed bert letters --out letters/v.npy --quiet; done
[ "$code" = 0 ] && [ -s letters/v.npy ] && passed others_of_a_folder_are_replaced || failed others_of_a_folder_are_replaced "$(cat err)"

# Links that somebody planted under names that the tool chose.
echo victim >victim
cp victim kept
untouched() { # untouched NAME FILE...: the run succeeded, the files are no links, and the victim is whole
    name=$1
    shift
    bad=
    for file in "$@"; do [ -f "$file" ] && [ ! -L "$file" ] || bad="$bad $file"; done
    [ "$code" = 0 ] && [ -z "$bad" ] && cmp -s victim kept && passed "$name" || failed "$name" "code $code, links:$bad; $(cat err)"
    cp kept victim
}
mkdir plots grads bin
printf '#!/bin/sh\necho drawn >"${1%%.gp}.svg"\n' >bin/gnuplot
chmod +x bin/gnuplot
for file in utility.gp buckets.gp histograms.gp utility.svg buckets.svg; do ln -s ../victim plots/$file; done
mkfifo plots/histograms.svg
PATH=$work/bin:$PATH timeout -k 1 20 "$tool" inspect buckets --examples 1 --plots plots >out 2>err
code=$?
untouched plots_follow_no_link plots/utility.gp plots/buckets.gp plots/histograms.gp plots/utility.svg plots/buckets.svg plots/histograms.svg
for file in dq dk; do ln -s ../victim grads/$file.npy; done
mkfifo grads/dv.npy
timeout -k 1 20 "$tool" attend --attention softmax $arrays --out y.npy --grad-out g.npy --grad-dir grads >out 2>err
code=$?
untouched gradients_follow_no_link grads/dq.npy grads/dk.npy grads/dv.npy
ln -s victim vectors.offsets.npy
run embed bert text.jsonl --pooling none --out vectors.npy
untouched offsets_follow_no_link vectors.offsets.npy

# A full disk leaves nothing in the way of the next attempt.
limited() { # limited BLOCKS ARGS...: runs the tool with a limit of the size of files, as on a full disk
    blocks=$1
    shift
    (trap '' XFSZ; ulimit -f $blocks; exec "$tool" "$@") >out 2>err
    code=$?
}
mkdir old
for folder in new old; do
    limited 8 data needle --train 2000 --valid 8 --test 8 --seq-len 64 --marks 4 --out $folder
    [ $code = 4 ] && [ -z "$(ls $folder 2>/dev/null)" ] && passed "full_disk_leaves_no_split_in_a_${folder}_folder" || failed "full_disk_leaves_no_split_in_a_${folder}_folder" "code $code: $(ls $folder; cat err)"
done
[ ! -e new ] && [ -d old ] && passed full_disk_leaves_no_new_folder || failed full_disk_leaves_no_new_folder "$(ls -d new old)"
run data needle --train 2000 --valid 8 --test 8 --seq-len 64 --marks 4 --out old
[ "$code" = 0 ] && passed next_attempt_succeeds || failed next_attempt_succeeds "$(cat err)"

# A time that disables --max-seconds.
for seconds in null 1e300 -1 '"long"'; do
    rm -rf timed
    cp -r buckets timed
    python3 - "$seconds" <<'P'
import json, sys
state = json.load(open("timed/trainer.json"))
state["seconds"] = json.loads(sys.argv[1])
json.dump(state, open("timed/trainer.json", "w"))
P
    run train --resume timed --max-seconds 1 --quiet
    [ "$code" = 3 ] && grep -q "timed/trainer.json: .*seconds" err && passed "time_$seconds" || failed "time_$seconds" "code $code: $(cat err)"
done

# Messages quote files, and stay one line without control characters.
clean() { # clean NAME PART ARGS...: the tool fails with one line that has PART and only printable characters
    name=$1 part=$2
    shift 2
    run "$@"
    python3 - "$part" <<'P' && [ "$code" != 0 ] && passed "$name" || failed "$name" "code $code: $(od -c err | head -n 20)"
import sys
text = open("err", "rb").read().decode()  # fails if a character is cut
sys.exit(0 if text.endswith("\n") and text[:-1].isprintable() and sys.argv[1] in text else 1)
P
}
escape=$(printf '\033[2J')
cp -r buckets sly
python3 - <<'P'
import json
config = json.load(open("sly/config.json"))
config["task"]["name"] = "\x1b[2J\nhashattn: all is well\u202e\u009b" + "\u20ac" * 40
json.dump(config, open("sly/config.json", "w"))
P
clean escapes_of_a_config "task.name is '?[2J?hashattn: all is well??€" eval sly
mkdir texts
for i in 1 2 3 4 5 6 7 8; do printf 'a\tone\nb\ttwo\n'; done >texts/train.tsv
printf '\033]0;x\007\302\233\tone\n' >texts/valid.tsv
clean escapes_of_a_label "?]0;x??" train text --data texts --out none $tiny
clean escapes_of_a_name "no?[2J" embed "no$escape" text.jsonl --out v.npy
clean escapes_of_a_word "'€€" "$(printf '€%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)"

# So do tables and what is told of success; data are left as they are.
show() { # show NAME PART ARGS...: the tool succeeds, and what it prints has PART and only printable characters
    name=$1 part=$2
    shift 2
    run "$@"
    python3 - "$part" <<'P' && [ "$code" = 0 ] && passed "$name" || failed "$name" "code $code: $(od -c out | head -n 20; od -c err | head -n 20)"
import sys
text = "".join(open(name, "rb").read().decode() for name in ("out", "err"))
sys.exit(0 if all(line.isprintable() for line in text.split("\n")) and sys.argv[1] in text else 1)
P
}
mkdir odd "odd$escape"
for i in $(seq 10); do printf 'a\033[2Jb\tone\nc\302\233d\ttwo\n'; done >odd/train.tsv
loud="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --steps 2 --eval-every 2 --tokens bytes --max-len 16 --threads 1"
show labels_that_are_described "a?[2Jb" data describe text odd
show labels_in_training "c?d" train text --data odd --out "odd$escape/run" $loud
show labels_of_an_evaluation "a?[2Jb" eval "odd$escape/run"
show positive_label "f1 is that of 'c?d'" eval "odd$escape/run" --positive "$(printf 'c\302\233d')"
show runs_that_are_compared "valid: odd?[2J/run against odd?[2J/run" eval "odd$escape/run" --against "odd$escape/run" --split valid
show place_of_vectors " in odd?[2J/v.npy" embed bert text.jsonl --out "odd$escape/v.npy"
show place_of_a_page "odd?[2J/page.html: 1 run" report "odd$escape/run" --out "odd$escape/page.html"
show place_of_data "odd?[2J/data: 9 train" data needle --out "odd$escape/data" --train 9 --valid 3 --test 3 --seq-len 16 --marks 4
show place_of_a_tokenizer "odd?[2J/tokenizer.json has" tokenizer train text.jsonl --vocab-size 300 --out "odd$escape"
show place_of_a_sketch "odd?[2J/s: " density fit points.csv --map euclidean --out "odd$escape/s"

# What the messages name.
clean token_without_a_name "the value is 4294967296" tokenizer decode "$(
    cp -r tokens large
    python3 - <<'P'
import json
file = json.load(open("large/tokenizer.json"))
file["model"]["vocab"][next(iter(file["model"]["vocab"]))] = 1 << 32
json.dump(file, open("large/tokenizer.json", "w"))
P
    echo large)" words.txt
ln -s /proc/self/mem memory.csv
rm texts/valid.tsv
run train text --data texts --out filter --tokens bytes --max-len 16 $tiny
run predict filter memory.csv
[ "$(grep -o "memory.csv" err | wc -l)" = 1 ] && passed path_is_named_once || failed path_is_named_once "$(cat err)"
# What was predicted before an error stays, without counts; what cannot be written is the only message.
for i in 1 2; do run predict filter text.jsonl --out filter/text.jsonl --quiet; done
[ "$code" = 0 ] && [ -s filter/text.jsonl ] && passed others_of_a_run_are_replaced || failed others_of_a_run_are_replaced "$(cat err)"
for i in $(seq 300); do echo '{"text": "one"}'; done >late.jsonl
for out in - /dev/full; do
    run predict filter late.jsonl --out $out
    [ "$(wc -l <out) $(wc -l <err)" = "$([ $out = - ] && echo 300 || echo 0) 1" ] && passed "written_or_not_${out#/dev/}" || failed "written_or_not_${out#/dev/}" "$(wc -l out; cat err)"
    run predict filter text.jsonl --out $out
    [ "$(wc -l <err)" = 1 ] && passed "one_written_or_not_${out#/dev/}" || failed "one_written_or_not_${out#/dev/}" "$(cat err)"
done
grep -q "/dev/full: cannot write" err && passed full_device_is_told || failed full_device_is_told "$(cat err)"
echo bad >>late.jsonl
run predict filter late.jsonl
[ "$code $(wc -l <out) $(wc -l <err)" = "3 300 1" ] && passed predictions_before_an_error_stay || failed predictions_before_an_error_stay "$code $(wc -l out; cat err)"
run predict filter late.jsonl --out late
[ "$code" = 3 ] && [ ! -e late ] && passed file_is_whole_or_not_there || failed file_is_whole_or_not_there "$code $(cat err)"

# JSON is UTF-8 whatever the names of files are.
odd=$(printf 'b\377d.jsonl')
cp text.jsonl "$odd"
for command in "predict filter" "embed bert"; do
    run $command "$odd" --out odd.jsonl --quiet
    holds "json_of_${command% *}_is_utf8" python3 -c 'import json; assert json.loads(open("odd.jsonl", "rb").read().decode())["file"] == "b\ufffdd.jsonl"'
done
cp -r "$source_dir/tests/models/checkpoints/roberta" roberta
sed 's/model-00003-of/model-00001-of/' "$source_dir/tests/models/checkpoints/roberta/model.safetensors.index.json" >roberta/model.safetensors.index.json
expect tensor_in_another_file 3 "/roberta: tensor '" embed roberta text.jsonl --out v.npy
python3 - <<'P'
bytes_ = bytearray(open("bert/model.safetensors", "rb").read())
begin = int.from_bytes(bytes_[:8], "little") + 8
bytes_[begin:begin + 4] = b"\0\0\xc0\x7f"
open("bert/model.safetensors", "wb").write(bytes_)
P
expect tensor_with_its_file 3 "/bert: the tensor of '" embed bert text.jsonl --out v.npy

# The command of a report is safe to paste: every word that is not plain is quoted, with whole characters.
cp -r buckets pasted
python3 - <<'P'
import json
config = json.load(open("pasted/config.json"))
config["task"]["name"] = "gone"
config["training"]["x; touch pwned #"] = "caf\u00e9 d'\u00e9t\u00e9"
config["data"] = "/\u20ac" * 200 + "'x'"
json.dump(config, open("pasted/config.json", "w"))
P
run report pasted --out page.html
python3 - <<'P' && passed command_is_quoted || failed command_is_quoted "$(grep -o 'hashattn train[^<]*' page.html | head -c 600)"
import html, re, shlex, sys
text = html.unescape(re.search("hashattn train [^<]*", open("page.html", encoding="utf-8").read()).group())
words = shlex.split(text)
assert "\ufffd" not in text
assert "--x; touch pwned #" in words and "caf\u00e9 d'\u00e9t\u00e9" in words and "/\u20ac" * 200 + "'x'" in words, words
P
finish
