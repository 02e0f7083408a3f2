#!/bin/sh
# Stored checkpoints from the command line: embed and fill-mask, with other mechanisms, and what is refused.
# Planted and caught: --truncate ignored; --no-special-tokens ignored; offsets not written; --attention ignored; options of the
# mechanism not set.
. "$(dirname "$0")/checks.sh"

bert=$source_dir/tests/models/checkpoints/bert
printf 'The cats sat' >one.txt
printf '{"text": "a dog"}\n{"text": "the cat sat on a mat and it sat"}\n' >two.jsonl
shape() { python3 -c "print(open('$1', 'rb').read(128).split(b'shape')[1].split(b'}')[0].decode().strip(\"': ,\"))"; }
shape_is() { [ "$(shape "$1")" = "$2" ]; }

expect too_long_is_refused 3 "two.jsonl: line 2: the document has 11 tokens, the model has positions for 10" \
    embed "$bert" one.txt two.jsonl --out e.npy
holds nothing_is_left test ! -e e.npy
expect too_long_is_cut 0 "3 documents, 1 of them cut to 10 tokens; 3 vectors of 8 in e.npy" \
    embed "$bert" one.txt two.jsonl --truncate --out e.npy
holds one_vector_per_document shape_is e.npy "(3, 8)"
says facts_as_json '{"type": "bert", "attention": "softmax", "documents": 3, "vectors": 15, "dim": 8, "cut": 0}' \
    embed "$bert" one.txt two.jsonl --no-special-tokens --pooling none --out t.npy --json
holds one_vector_per_token shape_is t.npy "(15, 8)"
holds offsets_are_beside_it python3 -c "
import struct
assert struct.unpack('<4q', open('t.offsets.npy', 'rb').read()[-32:]) == (0, 4, 6, 15)"
says another_mechanism '"attention": "yoso"' embed "$bert" one.txt --attention yoso --num-hashes 8 --out y.npy --json
says more_hashes '"attention": "yoso"' embed "$bert" one.txt --attention yoso --num-hashes 64 --out z.npy --json
holds hashes_change_the_vectors sh -c '! cmp -s y.npy z.npy'
says the_same_seed '"vectors": 1' embed "$bert" one.txt --attention yoso --num-hashes 8 --out w.npy --json --threads 1
holds gives_the_same_bits cmp y.npy w.npy

says guesses_as_json '{"mask": 0, "rank": 2, "id": ' fill-mask "$bert" "the [MASK] sat" --top 3 --json
holds as_many_as_asked test "$(wc -l <out)" = 3
run fill-mask "$bert" "the [MASK] sat" --top 24
holds probabilities_add_up_to_1 awk '{ sum += $1 } END { exit !(sum > 0.99 && sum < 1.01) }' out
expect no_mask 2 "the text has no [MASK] to be filled" fill-mask "$bert" "the cat sat"

expect no_directory 3 "cannot open none: No such file" embed none one.txt --out e.npy
expect no_tokenizer 3 "no tokenizer.json" embed "$source_dir/tests/models/checkpoints/yoso" one.txt --out n.npy
expect no_out 2 "embed needs --out" embed "$bert" one.txt
expect no_files 2 "at least one file; got 1" embed "$bert" --out e.npy
expect no_such_mechanism 2 "no mechanism 'lah'" embed "$bert" one.txt --attention lah --out e.npy
expect no_such_pooling 2 "pooling is 'max', allowed are mean, first, none" embed "$bert" one.txt --pooling max --out e.npy
expect no_text 2 "fill-mask needs two operands" fill-mask "$bert"
finish
