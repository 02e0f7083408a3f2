#!/bin/sh
# The script of the LHA paper's section 4, masked tokens: a row for each mechanism and stage, softmax that stays itself, hashes
# tuned alone, shares of attention, and a second run that computes nothing again.
# Planted and caught: the stage "hashes" without --freeze; "all" started from the softmax run; clusters of smyrf that do not
# depend on the number of buckets; every seed trained as the first.
# Covers: bench/lha_section4.py bench/trainings.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
for i in $(seq 120); do printf 'The cat sat on mat %d.\nThe dog lay on log %d.\nThe fox ran.\n\n' "$i" "$((i * 7 % 50))"; done >cats.txt
run tokenizer train cats.txt --vocab-size 300 --out tokens
run data mlm cats.txt --tokenizer tokens --seq-len 32 --valid-share 0.2 --out d
run train mlm --data d --attention softmax --layers 2 --dim 16 --heads 2 --ffn 16 --batch 8 --steps 20 --learning-rate 3e-3 --out softmax
run eval softmax --split valid --json
cp out softmax.json
script="$source_dir/bench/lha_section4.py masked $build --from softmax --data d --out t --buckets 2,8 --seeds 2 --only lsh,lha,smyrf --hash-steps 3 --steps 4 --batch 8 --rate 1e-3 --inspected 2 --threads 2"
python3 $script >table.md 2>err || cat err
score='[0-9.]* ([0-9.]* %)'
sed -n '/^| heads | trained | B/,/^$/p' table.md | cut -d '|' -f 2-3 | tr -d ' `' >rows.txt
holds rows_of_both_tables sh -c '[ "$(tr "\n" ";" <rows.txt)" = "heads|trained;---|---;lsh|nothing;smyrf|nothing;lha|nothing;lha|hashes;lsh|all;lha|all;;heads|trained;---|---;lsh|nothing;lha|nothing;lha|hashes;lsh|all;lha|all;" ]'
holds a_score_for_each_number grep -qx "| \`lha\` | all | $score | $score |" table.md
holds a_share_for_each_number grep -qx "| \`lha\` | hashes | [0-9.]* / [0-9.]* / [0-9.]* | [0-9.]* / [0-9.]* / [0-9.]* |" table.md
holds softmax_stays_itself json t/softmax/replaced-seed1/scores.json 'abs(d["perplexity"] - json.load(open("softmax.json"))["masked_tokens.perplexity"]) < 1e-9'
holds stages python3 -c '
import json, struct
def tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: data[slice(*facts["data_offsets"])] for name, facts in header.items() if name != "__metadata__"}
start = tensors("softmax/model.safetensors")
untrained, hashes, all_ = (tensors(f"t/lha-8/{stage}-seed2/run/model.safetensors") for stage in ("replaced", "hashes", "all"))
own = [name for name in hashes if ".own." in name]
assert len(own) == 4, own
assert all(hashes[name] == start[name] == untrained[name] for name in start)
assert all(hashes[name] != untrained[name] for name in own)
assert all(all_[name] != start[name] for name in start if name.endswith("query.weight"))
config = json.load(open("t/lha-8/all-seed2/run/config.json"))
assert config["from"].endswith("t/lha-8/hashes-seed2/run") and config["attention"]["options"]["mode"] == "paper", config'
holds seeds_differ python3 -c '
import json
found = [json.load(open(f"t/lsh-8/all-seed{seed}/scores.json"))["perplexity"] for seed in (1, 2)]
assert found[0] != found[1]'
holds clusters_follow_buckets_and_mean_length python3 -c '
import json, math, struct
examples, tokens = struct.unpack("<16x2Q", open("d/valid.tokens", "rb").read(32))
for buckets in 2, 8:
    options = json.load(open(f"t/smyrf-{buckets}/replaced-seed1/run/config.json"))["attention"]["options"]
    assert options["cluster_size"] == math.ceil(math.ceil(tokens / examples) / buckets) and options["rounds"] == 2, options'
find t -name model.safetensors -delete
python3 $script >again.md 2>err || cat err
holds nothing_is_computed_again cmp table.md again.md
run train mlm --data d --attention yoso --layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --steps 1 --out other
holds softmax_is_needed sh -c "! python3 $source_dir/bench/lha_section4.py masked $build --from other --data d --out u 2>err && grep -q 'other is a run of mlm with yoso; one of mlm with softmax is needed' err"
finish
