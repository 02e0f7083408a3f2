#!/bin/sh
# Outputs and messages: a place that cannot be written is found before the work, links planted in folders are not followed, a
# failed attempt leaves nothing in the way, and messages show no control characters of files.
# Planted and caught: a plot, gradient, offsets or SVG written through a link; --out looked at after the work, for each
# command below; a time in trainer.json that disables --max-seconds; a split left by a full disk; an option name or a
# character of several bytes that breaks the quoting of a report's command.
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
expect encode_to_a_full_disk 4 "/dev/full: cannot write: No space left" tokenizer encode tokens words.txt --out /dev/full
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat words.txt words.txt >more && mv more words.txt; done
expect much_encoded_to_a_full_disk 4 "/dev/full: cannot write: No space left" tokenizer encode tokens words.txt --out /dev/full
run embed bert text.jsonl --out - --quiet
[ "$code" = 0 ] && head -c 6 out | grep -q NUMPY && passed embed_to_stdout || failed embed_to_stdout "$(cat err)"
touch linked.npy
ln -s linked.npy link.npy
run embed bert text.jsonl --out link.npy --quiet
[ "$code" = 0 ] && [ -L link.npy ] && [ -s linked.npy ] && passed typed_link_is_followed || failed typed_link_is_followed "$(ls -l)"

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
