#!/bin/sh
# What runs, data folders and checkpoints name: only a path that the user typed may be a pipe or a device.
# Planted and caught: a file of a data folder opened as a typed one, for each reader below; recorded data that is a device,
# a pipe or "-"; the name of a picture that leads out of the folder by "..", as an absolute path, or through a link; a typed
# pipe refused; a wait for a typed pipe that SIGTERM does not end; a training that a signal does not end while it reads.
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --steps 2 --eval-every 2 --attention softmax --seed 5 --quiet --threads 1"

bounded() { # bounded ARGS...: runs the tool with 1.5 GiB and 10 s; a read without end and a wait without end fail
    ( [ -n "${HASHATTN_SANITIZED:-}" ] || ulimit -v 1500000
        exec timeout -k 1 "${seconds:-10}" "$tool" "$@" >out 2>err </dev/null )
    code=$?
}
refused() { # refused NAME PART ARGS...: exit code 3 and PART in the message
    name=$1 part=$2
    shift 2
    bounded "$@"
    [ $code = 3 ] && grep -qF -- "$part" err && passed "$name" || failed "$name" "code $code: $(head -c 300 err)"
}
piped() { # piped NAME FILE ARGS...: refuses a pipe in place of FILE, which is put back
    name=$1 file=$2
    shift 2
    mv "$file" kept
    mkfifo "$file"
    refused "$name" "$file: is a pipe, a regular file is needed" "$@"
    rm "$file"
    mv kept "$file"
}

# Data that a run records.
python3 - <<'P'
with open("table.csv", "w") as file:
    file.write("date,a,b\n" + "".join(f"2020-01-{t // 24 + 1:02} {t % 24:02}:00:00,{t % 7},{t % 5}\n" for t in range(480)))
P
run train forecast --data table.csv --seq-len 24 --horizon 4 --patch-len 12 --out forecast $tiny
recorded() { # recorded PATH: the run "moved" records this path
    rm -rf moved
    cp -r forecast moved
    python3 -c 'import json, sys; c = json.load(open("moved/config.json")); c["data"] = sys.argv[1]; json.dump(c, open("moved/config.json", "w"))' "$1"
}
mkfifo pipe.csv
for path in /dev/zero "$work/pipe.csv"; do
    recorded $path
    refused "recorded_$(basename $path)_of_eval" "$path: is a" eval moved
    refused "recorded_$(basename $path)_of_resume" "$path: is a" train --resume moved
    cp -r moved other
    refused "recorded_$(basename $path)_of_a_comparison" "$path: is a" eval moved --against other
    rm -r other
done
recorded -
refused recorded_dash "the data of the run is '-'" eval moved
recorded "$work/table.csv"
bounded eval moved
[ $code = 0 ] && passed recorded_file_is_read || failed recorded_file_is_read "$(cat err)"

# Files of data folders.
mkdir -p text/a text/b words RTE
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "one $i" >text/a/$i.txt; echo "two $i" >text/b/$i.txt; done
mkdir texts pictures tables
mv text texts/train
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf 'a\tone\nb\ttwo\n'; done >tables/train.tsv
printf 'label,text\na,one\nb,two\n' >tables/test.csv
for i in 1 2 3 4 5 6 7 8; do echo "the cat sat on the mat $i"; done >words/train.txt
cp words/train.txt words/test.txt
for split in train dev test; do
    printf 'index\tsentence1\tsentence2\tlabel\n' >RTE/$split.tsv
    for i in 1 2 3 4 5 6 7 8; do printf '%s\ta cat\ta dog\tentailment\n%s\ta cat\ta cat\tnot_entailment\n' $i $i; done >>RTE/$split.tsv
done
run train text --data texts --out documents --max-len 16 $tiny
piped document_of_a_folder texts/train/a/3.txt train text --data texts --out none --max-len 16 $tiny
piped document_of_an_evaluation texts/train/a/3.txt eval documents --split valid
piped table_of_texts tables/train.tsv train text --data tables --out none --max-len 16 $tiny
piped records_of_texts tables/test.csv eval documents --data tables
run train glue --data RTE --out rte --max-len 16 --vocab-size 300 $tiny
piped training_file_of_glue RTE/train.tsv train glue --data RTE --out none --max-len 16 $tiny
piped validation_file_of_glue RTE/dev.tsv eval rte --split valid
for kind in bytes words bpe; do
    piped "training_file_of_$kind" words/train.txt train lm --data words --vocabulary $kind --max-words 300 --out none --seq-len 8 $tiny
    run train lm --data words --vocabulary $kind --max-words 300 --out lm-$kind --seq-len 8 $tiny
    piped "test_file_of_$kind" words/test.txt eval lm-$kind
done
run data needle --train 20 --valid 8 --test 8 --seq-len 16 --marks 4 --out needle
piped training_file_of_needle needle/train.tsv train needle --data needle --out none $tiny
run data listops --train 20 --valid 8 --test 8 --out listops
piped validation_file_of_listops listops/basic_val.tsv train listops --data listops --out none --max-len 64 $tiny
python3 - <<'P'
import os
os.mkdir("digits"), os.mkdir("cifar")
for split in "train", "t10k":
    open(f"digits/{split}-images-idx3-ubyte", "wb").write(bytes([0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 8]) + bytes(20 * 64))
    open(f"digits/{split}-labels-idx1-ubyte", "wb").write(bytes([0, 0, 8, 1, 0, 0, 0, 20]) + bytes(range(10)) * 2)
for batch in range(1, 3):
    open(f"cifar/data_batch_{batch}.bin", "wb").write(bytes(3073 * 10))
P
for file in digits/train-images-idx3-ubyte digits/train-labels-idx1-ubyte; do
    piped "images_$(basename $file)" $file train image --data digits --out none $tiny
done
for file in cifar/data_batch_1.bin cifar/data_batch_2.bin; do
    piped "images_$(basename $file)" $file train image --data cifar --out none $tiny
done

# The published layout of pathfinder names its pictures in a file.
mkdir -p path/metadata path/imgs/1 outside
pictures() { # pictures FOLDER: the metadata name the pictures of this folder
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "$1 $i.pgm $i $((i % 2)) 0 0"; done >path/metadata/1.npy
}
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    { printf 'P5\n16 16\n255\n'; head -c 256 /dev/zero; } >path/imgs/1/$i.pgm
done
cp path/imgs/1/*.pgm outside
pictures imgs/1
train="train pathfinder --data path --out none $tiny"
run train pathfinder --data path --out pathfinder $tiny
[ "$code" = 0 ] && passed pictures_are_read || failed pictures_are_read "$(cat err)"
piped metadata path/metadata/1.npy $train
piped picture path/imgs/1/3.pgm $train
pictures ../outside
refused picture_outside "'../outside/1.pgm', a path inside the directory is needed" $train
pictures imgs/../../outside
refused picture_outside_by_a_detour "a path inside the directory is needed" $train
pictures "$work/outside"
refused absolute_picture "a path inside the directory is needed" $train
ln -s ../../outside path/imgs/2
pictures imgs/2
refused picture_behind_a_link "'imgs/2/1.pgm', a link there leads out of the directory" $train
echo "secret words" >outside/1.pgm
pictures ../outside
bounded $train
grep -q "secret\|0x73" err && failed message_shows_nothing_of_the_other_file "$(cat err)" || passed message_shows_nothing_of_the_other_file
run data pathfinder --train 8 --valid 4 --test 4 --side 32 --out drawn
piped pictures_of_a_split drawn/train.pgm train pathfinder --data drawn --out none $tiny

# Checkpoints and tokenizers.
echo '{"text": "words of a text"}' >text.jsonl
cp -r "$source_dir/tests/models/checkpoints/bert" bert
cp -r "$source_dir/tests/models/checkpoints/roberta" roberta
for file in config.json vocab.txt model.safetensors; do
    piped "checkpoint_$file" bert/$file embed bert text.jsonl --out vectors.npy
done
run tokenizer train words/train.txt --vocab-size 300 --out tokens --quiet
cp tokens/tokenizer.json roberta
for file in config.json model.safetensors.index.json model-00002-of-00003.safetensors tokenizer.json; do
    piped "sharded_$file" roberta/$file embed roberta text.jsonl --out vectors.npy
done
piped tokenizer tokens/tokenizer.json tokenizer encode tokens words/train.txt
for name in ../bert/model.safetensors /etc/passwd ..; do
    sed "s|model-00002-of-00003.safetensors|$name|g" "$source_dir/tests/models/checkpoints/roberta/model.safetensors.index.json" >roberta/model.safetensors.index.json
    refused "shard_named_$name" "a name without / is needed" embed roberta text.jsonl --out vectors.npy
done

# A cache keeps the files of a checkpoint elsewhere, behind links.
mkdir linked
for file in config.json vocab.txt model.safetensors; do ln -s ../bert/$file linked/$file; done
bounded embed linked text.jsonl --out vectors.npy
[ $code = 0 ] && passed links_of_a_cache || failed links_of_a_cache "$(cat err)"

# What the user types may be a pipe, and a signal ends the wait for it.
printf '%s\n' '{"text": "one 1"}' '{"text": "two 2"}' >new.jsonl
run predict documents new.jsonl
cp out predicted
mkfifo typed.jsonl typed.csv typed.txt
cat new.jsonl >typed.jsonl &
run predict documents typed.jsonl
sed 's/typed.jsonl/new.jsonl/' out >renamed # lines have the name of their file
holds typed_pipe_is_read cmp renamed predicted
cp "$work/table.csv" kept.csv
cat kept.csv >typed.csv &
bounded predict forecast typed.csv
[ $code = 0 ] && passed typed_pipe_of_a_table || failed typed_pipe_of_a_table "$(cat err)"
waits() { # waits NAME SIGNAL CODE ARGS...: SIGNAL ends the tool, which waits for a pipe, with CODE
    name=$1 signal=$2 want=$3
    shift 3
    "$tool" "$@" >out 2>err &
    process=$!
    [ $signal = INT ] && until_int_is_handled $process
    sleep 0.3
    kill -$signal $process
    (sleep 5; kill -KILL $process 2>/dev/null) &
    killer=$!
    wait $process 2>/dev/null
    code=$?
    kill $killer 2>/dev/null
    [ $code = "$want" ] && passed "$name" || failed "$name" "code $code: $(cat err)"
}
waits signal_ends_a_wait_to_open TERM 143 predict documents typed.jsonl
sleep 20 >typed.jsonl &
silent=$!
waits signal_ends_a_wait_to_read TERM 143 predict documents typed.jsonl
kill $silent

# A signal ends a training that still reads, as it ends other commands; afterwards the training saves first
# (test_training.sh). The tokenizer of this text is learned for many seconds.
python3 -c '
import os, random
os.mkdir("long")
random.seed(1)
with open("long/train.txt", "w") as file:
    for i in range(100000):
        file.write(" ".join("%x" % random.getrandbits(20) for _ in range(8)) + "\n")'
train="train lm --data long --vocabulary bpe --max-words 60000 --seq-len 8 --out none $tiny"
waits signal_ends_a_training_that_reads TERM 143 $train
waits ctrl_c_ends_a_training_that_reads INT 130 $train
[ ! -e none ] && passed training_that_read_leaves_nothing || failed training_that_read_leaves_nothing "$(ls none)"
finish
