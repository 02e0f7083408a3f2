#!/bin/sh
# train --from, --freeze and --epochs through the tool: a run of bytes becomes a classifier, a stopped one resumes without the
# stored model, and what does not fit is refused with both values.
# Planted and caught: --freeze not passed on; the epochs of fine-tuning kept beside --steps; its options in place of a preset's;
# its options for runs that come from no checkpoint; the size of a vocabulary in config.json, so that report wrote a command
# that is refused.
# Covers: cmd_train.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16"
mkdir texts mail
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "it was the best of times, it was the worst of times, it was the age of wisdom" >>texts/train.txt
    printf 'good\tthe best of times\nbad\tthe worst of times\n' >>mail/train.tsv
done
run train lm --data texts --out lm --attention softmax --seq-len 32 --steps 3 --quiet $tiny
run train text --data mail --tokens bytes --from lm --no-causal --max-len 40 --attention yoso --epochs 2 --batch 5 --out mailed --json
cp out mailed.json
cp err mailed.err
holds says_what_was_taken grep -q "^starts from .*/lm: 20 tensors taken, 32 positions repeated to 40, 4 new, 1 dropped" mailed.err
holds two_epochs json mailed.json 'd["steps"] == 8'
holds config_has_the_start json mailed/config.json 'd["from"].endswith("/lm") and d["training"]["epochs"] == 2 and d["training"]["steps"] == 8 and d["model"]["dim"] == 16'
head -n 1 mailed/log.jsonl >start.json
holds log_has_the_names json start.json 'd["tensors_new"][0] == "classifier.dense.weight" and d["tensors_dropped"] == ["lm_head.bias"] and d["positions"] == 40'
run train text --data mail --tokens bytes --from lm --no-causal --max-len 40 --attention yoso --epochs 2 --batch 5 --out part --max-seconds 0.000001 --freeze trunk --quiet
run train text --data mail --tokens bytes --from lm --no-causal --max-len 40 --attention yoso --epochs 2 --batch 5 --out whole --freeze trunk --quiet
mv lm moved
sed -i 's/"tokens": "bytes"/"tokens": "bytes", "vocab_size": 500/' part/config.json # as it was once written
holds an_old_config json part/config.json 'd["task"]["options"]["vocab_size"] == 500'
run train --resume part --quiet
holds resumes_without_the_stored_model cmp part/last.safetensors whole/last.safetensors
mv moved lm
cmp -s whole/last.safetensors mailed/last.safetensors && failed freeze_matters "the same bits" || passed freeze_matters

expect another_width 2 "model: --dim is 16 in $work/lm, where training starts; it cannot be 32" train text --data mail --from lm --dim 32 --out no
expect another_size 2 "--size is tiny, which sets --layers to 2; it is 1 in $work/lm, where training starts" train text --data mail --from lm --size tiny --out no
expect other_ids 2 "the sequences of text are words, those of the model in $work/lm bytes" train text --data mail --tokens words --from lm --out no
expect tokens_are_those_of_the_model 2 "tokens is bytes, but the stored model has a tokenizer of its own, which determines its ids" train text --data mail --tokens bytes --from "$source_dir/tests/models/checkpoints/bert" --out no
expect nothing_is_learned 2 "--vocab-size is 500, but nothing is learned: the ids are those of the model in $source_dir/tests/models/checkpoints/bert; leave the option out" train text --data mail --vocab-size 500 --from "$source_dir/tests/models/checkpoints/bert" --out no
run train text --data mail --from "$source_dir/tests/models/checkpoints/bert" --max-len 12 --steps 2 --batch 4 --out tokens
[ "$code" = 0 ] && grep -q '"\[CLS\]"' tokens/tokenizer.json && passed tokens_of_a_checkpoint || failed tokens_of_a_checkpoint "$(cat err)"
run predict tokens mail/train.tsv
[ "$code" = 0 ] && [ "$(wc -l <out)" = "$(wc -l <mail/train.tsv)" ] && passed predicts_with_its_tokens || failed predicts_with_its_tokens "$(cat err)"
run train text --data mail --preset lra-small --from "$source_dir/tests/models/checkpoints/bert" --max-len 12 --steps 2 --batch 4 --out sized --quiet
holds no_size_of_a_vocabulary json sized/config.json '"vocab_size" not in d["task"]["options"] and d["task"]["options"]["max_len"] == 12'
run report sized --out sized.html
[ "$code" = 0 ] && grep -q "hashattn train text.*--from" sized.html && ! grep -q vocab-size sized.html && passed its_command_is_accepted || failed its_command_is_accepted "$(grep "hashattn train" sized.html)"
# The last layer of a checkpoint is taken for the labels that it names, and for no others.
run train text --data mail --from "$source_dir/tests/models/checkpoints/bert" --pooling first --steps 1 --out headed --quiet
run export headed --out headed_files
mkdir renamed && sed 's/^good/worse/' mail/train.tsv >renamed/train.tsv
for data in mail renamed; do
    run train text --data $data --from headed_files --pooling first --steps 1 --out from_$data --quiet
    head -n 1 from_$data/log.jsonl >$data.json
done
holds same_labels_same_layer json mail.json 'd["tensors_new"] == []'
holds other_labels_other_layer json renamed.json 'd["tensors_new"] == ["classifier.out_proj.weight", "classifier.out_proj.bias"]'
# Fine-tuning a checkpoint has defaults of its own, and documents are cut at its positions.
run train text --data mail --from "$source_dir/tests/models/checkpoints/bert" --out tuned --train-last 1 --quiet
holds defaults_of_fine_tuning json tuned/config.json '(d["training"]["epochs"], d["training"]["batch"], d["training"]["learning_rate"], d["training"]["schedule"], d["training"]["weight_decay"], d["training"]["beta2"], d["model"]["dropout"], d["task"]["facts"]["max_len"], d["training"]["train_last"]) == (3, 16, 5e-5, "linear", 0.01, 0.999, 0.1, 10, 1)'
run train text --data mail --from tuned --out further --quiet
holds a_run_from_a_checkpoint_is_tuned_alike json further/config.json 'd["pretrained"] and (d["training"]["epochs"], d["training"]["batch"], d["training"]["learning_rate"], d["training"]["schedule"], d["training"]["weight_decay"], d["model"]["dropout"]) == (3, 16, 5e-5, "linear", 0.01, 0.1)'
run train text --data mail --tokens bytes --from lm --no-causal --steps 1 --out own --quiet
holds a_run_of_its_own_is_not json own/config.json '"pretrained" not in d and (d["training"]["batch"], d["training"]["learning_rate"]) == (32, 0.003)'
run train text --data mail --from "$source_dir/tests/models/checkpoints/bert" --out longer --max-len 19 --steps 3 --extend-positions interpolate
holds tells_the_extension grep -q "10 positions interpolated to 19" err
holds steps_instead_of_epochs json longer/config.json '(d["training"]["epochs"], d["training"]["steps"], d["training"]["batch"]) == (0, 3, 16)'
run train text --data mail --preset lra-small --max-len 12 --from "$source_dir/tests/models/checkpoints/bert" --steps 2 --out preset --quiet
holds an_explicit_preset_stays json preset/config.json '(d["training"]["batch"], d["training"]["learning_rate"]) == (32, 0.002)'
expect nothing_to_extend 2 "--extend-positions is interpolate, which needs the positions of a stored model" train text --data mail --extend-positions interpolate --out no
expect too_many_layers 2 "--train-last is 3, the model has 2 layers" train text --data mail --from "$source_dir/tests/models/checkpoints/bert" --train-last 3 --out no
expect no_tokenizer 3 "no tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, or vocab.txt" train text --data mail --from "$source_dir/tests/models/checkpoints/yoso" --out no
expect no_model 3 "$work/mail has no config.json: it is neither a run nor a stored checkpoint" train text --data mail --from mail --out no
expect no_part 2 "freeze: no parameter is called 'head'; the model has the parts trunk, all-but-own, embeddings, encoder.layer.0, layernorm, classifier" train text --data mail --tokens bytes --from lm --freeze head --out no
expect steps_and_epochs 2 "training: --steps is 5 and --epochs 2; one of them determines the other" train text --data mail --steps 5 --epochs 2 --out no
expect resume_takes_no_start 2 "--resume continues with the options of the run, to --steps N in all and with the data at --data if these are given; it takes no task, --out, --preset, --size, --from," train --resume part --from lm
[ -e no ] && failed nothing_was_made "no is there" || passed nothing_was_made
finish
