#!/bin/sh
# Stored checkpoints from the command line: embed and fill-mask, with other mechanisms, and what is refused.
# Vectors as a directory of the sentence-transformers library says; documents of lines and columns; ids.
# Planted and caught: stored poolings ignored; ids of the wrong line; --truncate ignored; --no-special-tokens ignored; offsets
# not written; --attention ignored; options of the mechanism not set; files of a folder left out unnamed.
. "$(dirname "$0")/checks.sh"

bert=$source_dir/tests/models/checkpoints/bert
printf 'The cats sat' >one.txt
printf '{"text": "a dog"}\n{"text": "the cat sat on a mat and it sat"}\n' >two.jsonl
printf '{"text": "a dog"}\n' >two.short.jsonl
shape() { python3 -c "print(open('$1', 'rb').read(128).split(b'shape')[1].split(b'}')[0].decode().strip(\"': ,\"))"; }
shape_is() { [ "$(shape "$1")" = "$2" ]; }

expect too_long_is_refused 3 "two.jsonl: line 2: the document has 11 tokens, the model has positions for 10; --truncate cuts it" \
    embed "$bert" one.txt two.jsonl --out e.npy
holds nothing_is_left test ! -e e.npy
expect too_long_is_cut 0 "3 documents, 1 of them cut to 10 tokens; 3 vectors of 8 in e.npy" \
    embed "$bert" one.txt two.jsonl --truncate --out e.npy
mkdir nest
cp one.txt nest/1.TXT
cp two.short.jsonl nest
echo x >nest/2.pdf
expect unread_files_are_named 0 "1 file or folder is not read: nest/2.pdf (a folder gives its" embed "$bert" nest --out n.jsonl
holds tables_of_folders_are_read sh -c 'grep -q "nest/1.TXT" n.jsonl && grep -q "nest/two.short.jsonl" n.jsonl'
holds one_vector_per_document shape_is e.npy "(3, 8)"
says facts_as_json '{"type": "bert", "attention": "softmax", "documents": 3, "vectors": 15, "dim": 8, "cut": 0, "max_tokens": 10}' \
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

# a directory of the sentence-transformers library
mkdir -p st/1_Pooling && cp "$bert"/* st/
printf '[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}, {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]' >st/modules.json
echo '{"pooling_mode_max_tokens": true}' >st/1_Pooling/config.json
echo '{"max_seq_length": 5}' >st/sentence_bert_config.json
echo '{"prompts": {"query": "the "}}' >st/config_sentence_transformers.json
printf 'id;body\n7;the cat sat\n8;the cat sat on a mat\n' >people.csv
printf 'the cat sat\nthe cat sat on a mat\n' >people.txt
expect cuts_are_told 0 "2 documents, 1 of them cut to 5 tokens (--truncate keeps more); 2 vectors of 8 in s.npy" \
    embed st people.csv --text-column body --out s.npy
expect lines_are_documents 0 "2 documents" embed st people.txt --lines --out l.npy
holds as_records cmp s.npy l.npy
run embed "$bert" people.txt --lines --truncate --pooling max --normalize --out m.npy
run embed st people.txt --lines --truncate --out n.npy
holds stored_is_max_of_unit_length cmp m.npy n.npy
run embed st people.csv --text-column body --out e.jsonl --quiet
holds ids_and_vectors python3 -c "
import json
from struct import unpack
lines = [json.loads(line) for line in open('e.jsonl')]
array = unpack('<16f', open('s.npy', 'rb').read()[-64:])
assert [(line['id'], line['file']) for line in lines] == [('7', 'people.csv'), ('8', 'people.csv')]
assert all(abs(x - y) < 1e-7 for x, y in zip(lines[0]['vector'] + lines[1]['vector'], array))"
run embed st people.txt --lines --prompt-name query --out p.npy
run embed st people.txt --lines --prompt "the " --out q.npy
holds a_prompt_by_its_name cmp p.npy q.npy
holds changes_the_vectors sh -c '! cmp -s p.npy l.npy'
expect no_such_prompt 2 "no prompt 'title'; the prompts of the files are: query" embed st people.txt --prompt-name title --out x.npy
run embed "$bert" one.txt --pooling none --out tokens.jsonl
holds tokens_as_lines grep -q '"vectors": \[\[' tokens.jsonl
"$tool" embed "$bert" - --out piped.npy --quiet <two.short.jsonl
run embed "$bert" two.short.jsonl --out named.npy
holds standard_input cmp piped.npy named.npy
echo '{"pooling_mode_mean_sqrt_len_tokens": true}' >st/1_Pooling/config.json
expect another_pooling 2 "the pooling is mean_sqrt_len_tokens; one of mean, cls and max is computed" embed st people.txt --out x.npy
expect instead_of_it 0 "1 document" embed st one.txt --pooling mean --out x.npy

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
expect no_such_pooling 2 "--pooling is 'sum', allowed are stored, mean, first, max, none" embed "$bert" one.txt --pooling sum --out e.npy
expect no_text 2 "fill-mask needs two operands" fill-mask "$bert"
finish
