#!/bin/sh
# A pretrained run as a directory of the transformers library: its files, the same answers when it is read back, and what is
# refused. tests/python/test_export.py opens it with that library.
# Planted and caught: --attention ignored; a refusal that leaves the directory; the padding's id not from the tokenizer;
# bytes for which no remark is made before training; pairs for which none is made.
. "$(dirname "$0")/checks.sh"
small="--layers 2 --dim 16 --heads 2 --ffn 24 --batch 8 --steps 4 --seed 3 --quiet"
for i in $(seq 60); do printf 'The cat sat on mat %d. The dog lay on log %d.\n\n' "$i" "$i"; done >cats.txt
run tokenizer train cats.txt --vocab-size 300 --out tokens
run data mlm cats.txt --tokenizer tokens --seq-len 32 --valid-share 0.2 --out ordered
run data mlm cats.txt --tokenizer tokens --seq-len 32 --valid-share 0.2 --long --out long
run train mlm --data ordered --attention softmax --out soft $small
run train mlm --data long --attention yoso --num-hashes 8 --hash-bits 5 --conv-window 3 --out sampled $small

expect softmax_becomes_bert 0 "bert: an encoder of type bert, 2 layers of width 16, with the output for masked tokens" export soft --out bert
holds dropout_of_attention json bert/config.json 'd["attention_probs_dropout_prob"] == 0'
holds files_of_bert sh -c '[ "$(ls bert | tr "\n" " ")" = "config.json model.safetensors tokenizer.json tokenizer_config.json " ]'
holds config_of_bert json bert/config.json '(d["model_type"], d["architectures"], d["type_vocab_size"], d["pad_token_id"], d["vocab_size"], d["max_position_embeddings"]) == ("bert", ["BertForMaskedLM"], 2, 1, 300, 32)'
holds roles_of_tokens json bert/tokenizer_config.json '(d["mask_token"], d["cls_token"], d["sep_token"], d["pad_token"], d["model_max_length"]) == ("<mask>", "<s>", "</s>", "<pad>", 32)'
run fill-mask soft "The <mask> sat on <mask>" --json
cp out soft.json
run fill-mask bert "The <mask> sat on <mask>" --json
holds the_same_answers cmp out soft.json
says expectation_as_json '{"type": "yoso", "attention": "yoso-e", "layers": 2, "dim": 16, "masked_tokens": true, "labels": 0}' export sampled --attention yoso-e --out exact --json
holds config_of_yoso json exact/config.json '(d["model_type"], d["use_expectation"], d["hash_code_len"], d["conv_window"], d["type_vocab_size"]) == ("yoso", True, 5, 3, 1)'
run export sampled --out hashed --quiet
holds config_of_sampled json hashed/config.json '(d["use_expectation"], d["num_hash"], d["use_fast_hash"]) == (False, 8, False)'
printf '{"text": "The cat sat on mat 5."}\n' >text.jsonl
run embed sampled text.jsonl --attention yoso-e --out a.npy
run embed exact text.jsonl --out b.npy
holds the_same_vectors cmp a.npy b.npy
expect checkpoint_again 0 "again: an encoder of type yoso" export exact --out again
holds tokenizer_again cmp exact/tokenizer.json again/tokenizer.json

expect not_overwritten 2 "bert: cannot make the directory: File exists" export soft --out bert
mkdir half
: >half/model.safetensors
expect killed_export_is_told 2 "half exists already and has no config.json: it is not a checkpoint, or one that was killed while it was written; remove it" export soft --out half
expect other_attention 2 "--attention is lha (yoso or yoso-e is needed)" export soft --attention lha --out no
run train mlm --data long --attention softmax --norm pre --conv-window 3 --out pre $small
expect every_setting_is_named 2 "a file of type bert cannot describe the model: --norm is pre (post is needed), --conv-window is 3 (0 is needed)" export pre --out no
run data needle --out needles --train 8 --valid 4 --test 4 --seq-len 16 --marks 4
run train needle --data needles --out letters --norm post --positions learned --steps 1 --batch 2 --layers 1 --dim 16 --heads 2 --ffn 16 --quiet
expect no_tokens 2 "the ids of this run are no tokens of text" export letters --out no

# ---- classifiers ----
mkdir mail
for i in $(seq 40); do printf 'spam\tbuy now, offer %d\nham\tsee you at noon, room %d\n' "$i" "$i"; done >mail/train.tsv
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --steps 4 --max-len 32"
expect told_before_training 0 "export will refuse this run: a file of type yoso cannot describe the model: --norm is pre (post is needed), --pooling is mean (first is needed), --classifier is relu (gelu is needed)" train text --data mail --out filter $tiny
[ "$(grep -n 'export will refuse' err | cut -d: -f1)" -lt "$(grep -n '^step ' err | head -n 1 | cut -d: -f1)" ] && passed told_first || failed told_first "$(cat err)"
expect the_same_after_it 2 "--norm is pre (post is needed), --pooling is mean (first is needed), --classifier is relu (gelu is needed)" export filter --out no
expect bytes_are_told 0 "export will refuse this run: --tokens is bytes (bpe is needed)" train text --data mail --out bytes $tiny --tokens bytes --norm post --pooling first --classifier gelu
run train text --data mail --out first $tiny --norm post --pooling first --classifier gelu
[ "$code" = 0 ] && ! grep -q 'export' err && passed nothing_to_tell || failed nothing_to_tell "$(cat err)"
run train needle --data needles --out needle --steps 1 --batch 2 --layers 1 --dim 16 --heads 2 --ffn 16
[ "$code" = 0 ] && ! grep -q 'export' err && passed no_text_is_not_told || failed no_text_is_not_told "$(cat err)"
mkdir pairs
for i in $(seq 40); do printf 'same\tcat %d\tcat on %d\nother\tcat %d\tdog on %d\n' "$i" "$i" "$i" "$i"; done >pairs/train.tsv
expect pairs_are_told 0 "export will refuse this run: a file of type bert cannot describe the model: an example is two sequences (one is needed), --join is false (true is needed)" train retrieval --data pairs --out apart $tiny --attention softmax --norm post --pooling first --classifier tanh
expect pairs_are_refused 2 "an example is two sequences (one is needed)" export apart --out no
run train retrieval --data pairs --out joined $tiny --attention softmax --norm post --pooling first --classifier tanh --join
[ "$code" = 0 ] && ! grep -q 'export' err && passed joined_pairs_are_not_told || failed joined_pairs_are_not_told "$(cat err)"
expect joined_pairs 0 "pairs-hf: an encoder of type bert, 1 layer of width 16, with a classifier of 2 outputs" export joined --out pairs-hf
holds segments_of_pairs json pairs-hf/tokenizer_config.json 'd["model_input_names"] == ["input_ids", "token_type_ids", "attention_mask"]'
holds segments_of_texts json bert/tokenizer_config.json '"token_type_ids" in d["model_input_names"]'
holds one_segment json exact/tokenizer_config.json '"token_type_ids" not in d["model_input_names"]'
run train text --data mail --out silent $tiny --quiet
[ "$code" = 0 ] && [ ! -s err ] && passed quiet || failed quiet "$(cat err)"
expect classifier 0 "sorter: an encoder of type yoso, 1 layer of width 16, with a classifier of 2 outputs" export first --out sorter
grep -q 'computes yoso on NVIDIA GPUs only; for processors, --attention yoso-e' err && passed processors_are_told || failed processors_are_told "$(cat err)"
holds labels_of_the_classifier json sorter/config.json '(d["architectures"], d["problem_type"], d["id2label"], d["label2id"]) == (["YosoForSequenceClassification"], "single_label_classification", {"0": "ham", "1": "spam"}, {"ham": 0, "spam": 1})'
says classifier_as_json '"masked_tokens": false, "labels": 2}' export first --attention yoso-e --out exact2 --json
run train text --data mail --out mean $tiny --norm post --quiet
expect the_encoder_alone 0 "plain: an encoder of type yoso, 1 layer of width 16, without an output" export mean --encoder-only --out plain
expect encoder_of_a_checkpoint 2 "is a checkpoint; the encoder alone is written of runs" export exact --encoder-only --out no
expect a_classifier_goes_on 0 "valid accuracy" train text --data mail --out again2 --from sorter --steps 4 --batch 8 --pooling first --max-len 32
expect no_out 2 "export needs --out" export soft
expect no_run 2 "export needs one operand" export --out no
expect nowhere 3 "cannot open none" export none --out no
[ -e no ] && failed nothing_was_made "no is there" || passed nothing_was_made
finish
