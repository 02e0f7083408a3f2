#!/bin/sh
# The command tokenizer: learning, encoding and decoding lines, and bad input.
# Planted and caught: special tokens without the option; the last byte of a line without line feed lost; CR kept; a failed
# decode that leaves its file; special tokens decoded without the option; an error without the line; lines before a bad one
# dropped.
. "$(dirname "$0")/checks.sh"

python3 - <<'P'
import random
random.seed(1)
words = "the cat sat on mat and dog log don't they'll caf\u00e9 \u4e2d\u6587 42".split(" ")
open("text", "w").write("".join(" ".join(random.choice(words) for _ in range(9)) + ".\n" for _ in range(500)))
P
says train_reports '"vocab_size": 300' tokenizer train text --vocab-size 300 --out own --json
holds train_writes_the_format python3 -c '
import json; d = json.load(open("own/tokenizer.json"))
assert d["model"]["type"] == "BPE" and len(d["model"]["vocab"]) == 300, d["model"]["type"]
assert [t["content"] for t in d["added_tokens"]] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]'
expect train_keeps_what_is_there 2 "own/tokenizer.json exists and is not overwritten" tokenizer train text --out own
cat text >again
run tokenizer train - --vocab-size 300 --out piped --quiet <text
holds train_reads_stdin cmp own/tokenizer.json piped/tokenizer.json
run tokenizer train text --vocab-size 5000 --min-frequency 100000 --out bytes
holds train_says_if_there_are_fewer grep -q "bytes/tokenizer.json has 261 tokens; the text has no more pairs" err

printf 'the cat\r\n\n the <mask> dog\ndon\377t' >lines
run tokenizer encode own lines --json
cp out plain
holds encode_writes_a_line_each python3 -c '
import json; rows = [json.loads(l) for l in open("plain")]
assert len(rows) == 4 and rows[1] == {"ids": []} and 4 in rows[2]["ids"] and all(list(r) == ["ids"] for r in rows), rows
assert len(rows[0]["ids"]) < 7 and 0 not in rows[0]["ids"], rows'
run tokenizer encode own lines --special-tokens --offsets --max-tokens 4
holds encode_has_options python3 -c '
import json; rows = [json.loads(l) for l in open("out")]; plain = [json.loads(l) for l in open("plain")]
assert all(r["ids"] == [0] + p["ids"][:2] + [2] for r, p in zip(rows, plain)), rows
assert rows[1]["offsets"] == [[0, 0], [0, 0]] and rows[0]["offsets"][1][0] == 0 and rows[0]["offsets"][-1] == [0, 0], rows'
run tokenizer encode own lines --out ids
holds encode_writes_a_file cmp ids plain
run tokenizer decode own ids
printf 'the cat\n\n the dog\ndon\357\277\275t\n' >want
holds decode_returns_the_text cmp out want
run tokenizer decode own ids --special-tokens
holds decode_keeps_special_tokens grep -q '^ the<mask> dog$' out
echo '[4, 2]' | "$tool" tokenizer decode own - --special-tokens >out
holds decode_reads_plain_lists grep -qx '<mask></s>' out

# Memory does not grow with the file.
python3 -c '
for i in range(200000): print("the cat sat on the mat and they will not stop %d" % i)' >long
[ -z "${HASHATTN_SANITIZED:-}" ] && limit='ulimit -v 300000' || limit=: # sanitizers need all addresses
holds encode_streams sh -c "$limit; '$tool' tokenizer encode own long >/dev/null"

# The help of every kind ends with an example that works.
for kind in train encode decode; do
    mkdir "example-$kind" && cd "example-$kind" || exit 1
    "$tool" tokenizer $kind --help | sed '1,/^example:$/d' >example.sh
    if grep -q "hashattn tokenizer $kind" example.sh && PATH=$build:$PATH sh -e ./example.sh >said 2>&1; then
        passed "example_of_${kind}_works"
    else
        failed "example_of_${kind}_works" "$(cat example.sh said)"
    fi
    cd ..
done

expect no_kind 2 "tokenizer needs one of train, encode, decode" tokenizer
expect wrong_kind 2 "tokenizer has no kind 'encod', there are train, encode, decode" tokenizer encod
expect no_files 2 "tokenizer train needs a text file" tokenizer train --out x
expect no_out 2 "tokenizer train needs --out DIR" tokenizer train text
expect small_vocabulary 2 "vocab-size" tokenizer train text --vocab-size 260 --out x
expect missing_text 3 "none: cannot open" tokenizer train none --out x
: >empty
expect empty_text 2 "no text in 1 file" tokenizer train empty --out x
expect one_operand 2 "needs two operands, the directory and the file; got 1" tokenizer encode own
expect no_tokenizer 3 "no tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt" tokenizer encode . text
expect missing_lines 3 "none: cannot open" tokenizer encode own none
expect no_room_for_special 2 "lines: line 1: at most 1 tokens are allowed" tokenizer encode own lines --special-tokens --max-tokens 1
printf '{"ids": [5]}\n{"ids": [5, x]}\n' >bad
expect bad_ids 3 "bad: line 2, byte 12: an id is needed, a number from 0 to 299" tokenizer decode own bad --out decoded
run tokenizer decode own bad
[ "$code" = 3 ] && [ "$(wc -l <out)" = 1 ] && passed decode_writes_the_lines_before || failed decode_writes_the_lines_before "$(cat out err)"
if [ -z "${HASHATTN_SANITIZED:-}" ]; then # there is no memory for the second line
    { echo 'the cat'; head -c 400000000 /dev/zero; } | (ulimit -v 300000; exec "$tool" tokenizer encode own -) >out 2>err
    grep -q "cannot read" err && [ "$(wc -l <out)" = 1 ] && passed encode_writes_the_lines_before || failed encode_writes_the_lines_before "$(cat out err)"
fi
printf '[5]\n[300]\n' >bad
expect unknown_id 3 "bad: line 2: id 300 at position 0 has no token, ids are 0 to 299" tokenizer decode own bad --out decoded
printf '5\n' >bad
expect no_list 3 'bad: line 1: neither {"ids": [...]} nor a list of ids' tokenizer decode own bad
holds failures_leave_no_file test ! -e decoded
without_room tokenizer encode own long --out full
[ "$code" = 4 ] && [ ! -e full ] && passed full_disk || failed full_disk "code $code, $(cat err)"
finish
