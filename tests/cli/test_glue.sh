#!/bin/sh
# From texts to GLUE through the tool: a tokenizer, pretraining with samples, fine-tuning with the expectation; a stored
# checkpoint; scores; and the script of the paper's grid, which goes on where it stopped.
# Planted and caught: a script that trains a finished point again; the majority of dev taken for that of train; hashes that
# --before does not tune; a tuning that freezes nothing; documents that are scored on validation.
# Covers: bench/glue.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
mkdir -p sets/RTE sets/STS-B
python3 - <<'P'
import random
random.seed(3)
words = "the cat dog sat on mat a is of france paris capital and to red he it".split()
def say(n): return " ".join(random.choice(words) for _ in range(n))
with open("cats.txt", "w") as file:
    for _ in range(60):
        file.write("".join(say(random.randint(4, 9)).capitalize() + ". " for _ in range(4)) + "\n\n")
for split, n in ("train", 60), ("dev", 20):
    with open(f"sets/RTE/{split}.tsv", "w") as file:
        file.write("index\tsentence1\tsentence2\tlabel\n")
        for i in range(n):
            one = say(5)
            same = random.random() < 0.5
            file.write(f"{i}\t{one}\t{one if same else say(5)}\t{'' if same else 'not_'}entailment\n")
    with open(f"sets/STS-B/{split}.tsv", "w") as file:
        file.write("index\tsentence1\tsentence2\tscore\n")
        for i in range(n):
            file.write(f"{i}\t{say(4)}\t{say(4)}\t{random.randint(0, 25) / 5:.3f}\n")
P
run tokenizer train cats.txt --vocab-size 300 --out tokens --quiet
run data mlm cats.txt --tokenizer tokens --seq-len 32 --out packed --quiet
run train mlm --data packed --attention yoso --num-hashes 8 --hash-bits 5 --layers 1 --dim 16 --heads 2 --ffn 16 --steps 4 --batch 8 --out pretrained --quiet
run train glue --data sets/RTE --from pretrained --attention yoso-e --epochs 2 --batch 10 --max-len 48 --out tuned --json
cp out tuned.json
cp err tuned.err
holds pretrained_tensors_are_taken grep -q "^starts from .*/pretrained: .* tensors taken, 32 positions repeated to 48, " tuned.err
holds expectation_has_the_bits json tuned/config.json 'd["attention"]["name"] == "yoso-e" and d["attention"]["options"]["hash_bits"] == 5'
holds facts_of_the_pretrained json tuned/config.json 'd["task"]["facts"]["segments"] == 2 and d["task"]["facts"]["vocab_size"] == 300 and d["task"]["facts"]["objectives"][0]["selects"] == "accuracy"'
head -n 1 tuned/log.jsonl >start.json
holds new_head json start.json 'd["tensors_new"] == ["classifier.out_proj.weight", "classifier.out_proj.bias"] and "classifier.out_proj.bias" in d["tensors_dropped"]'
holds epochs_are_evaluated json tuned.json 'd["steps"] == 12 and "valid_f1" in d and "valid_matthews" in d'
run eval tuned --split valid --json
holds metrics_at_the_top json out 'set(d) >= {"accuracy", "loss", "f1", "matthews", "majority"} and 0 <= d["f1"] <= 1'
run train glue --data sets/STS-B --from "$source_dir/tests/models/checkpoints/bert" --attention lsh --num-buckets 2 --freeze embeddings --epochs 1 --batch 10 --out scored --json
cp out scored.json
holds pooler_is_taken grep -q "tensors taken, 10 positions repeated to 128, 2 new" err
holds scores_of_training json scored.json 'd["steps"] == 6 and "valid_spearman" in d and "spearman" not in d and "best_pearson" in d'
run eval scored --split valid --json
holds rank_correlation json out '-1 <= d["spearman"] <= 1 and d["spearman"] != 0 and d["loss"] > 0 and "accuracy" not in d'
expect labels_of_the_test 3 "has no test.tsv" eval scored --split test
expect other_set 2 "'sets' is not the name of a set, so --name is needed" train glue --data sets --out no
printf 'index\tsentence1\tsentence2\n0\tthe cat\ta dog sat\n1\ta mat\ta mat\n' >sets/RTE/test.tsv
run predict tuned sets/RTE/test.tsv
cp out test.jsonl
cp err predict.err
holds predictions_have_the_labels python3 -c '
import json
lines = [json.loads(line) for line in open("test.jsonl")]
assert len(lines) == 2 and all(line["label"] in line["probabilities"] for line in lines)
assert all(set(line["probabilities"]) == {"entailment", "not_entailment"} for line in lines)'
holds predictions_are_counted grep -q "^2 documents, 0 of them cut to 48 tokens$" predict.err
run predict tuned sets/RTE/dev.tsv
cp out dev.jsonl
run eval tuned --split valid --json
holds predictions_are_those_of_eval python3 -c '
import json
labels = [line.rstrip("\n").split("\t")[3] for line in open("sets/RTE/dev.tsv")][1:]
found = [json.loads(line)["label"] for line in open("dev.jsonl")]
assert abs(sum(a == b for a, b in zip(labels, found)) / len(labels) - json.load(open("out"))["accuracy"]) < 1e-9'
says scores_are_predicted '{"score": ' predict scored sets/STS-B/dev.tsv
holds a_score_per_pair test "$(wc -l <out)" = 20
expect columns_of_another_set 3 "cats.txt: line 1: no column is called 'sentence1'" predict scored cats.txt

grid="$source_dir/bench/glue.py $build --data sets --out grid --small --sets RTE --batches 20,30 --rates 1e-3 --epochs 1 --seeds 2 --threads 2"
python3 $grid --from small=pretrained:softmax -- --max-len 24 >table.md 2>/dev/null
holds table_of_the_grid grep -q "^| small | [0-9.]* ± [0-9.]* |$" table.md
python3 - >majority.md <<'P'
from collections import Counter
label = lambda line: line.rstrip("\n").split("\t")[3]
train, dev = ([label(line) for line in open(f"sets/RTE/{split}.tsv")][1:] for split in ("train", "dev"))
print(f"| majority | {100 * dev.count(Counter(train).most_common(1)[0][0]) / len(dev):.1f} |")
P
holds majority_of_train grep -qxFf majority.md table.md
holds table_is_kept cmp table.md grid/table.md
holds three_trainings test "$(find grid -name done.json | wc -l)" = 3
find grid -name model.safetensors -delete
python3 $grid --from small=pretrained:softmax -- --max-len 24 >again.md 2>/dev/null
holds nothing_is_trained_again cmp table.md again.md

# --before: another mechanism in the first model's run, where --tune trains its hashes and nothing else.
before() { # before OUT OPTIONS...
    python3 $source_dir/bench/glue.py $build --data sets --out "$@" --sets RTE --batches 20 --rates 1e-3 --epochs 1 --threads 2 \
        --from small=pretrained:softmax --from "hashed=pretrained:lha --mode paper --num-buckets 2" -- --max-len 24 2>/dev/null
}
before tuning --before also --tune 1 >tuning.md
holds rows_before_and_after test "$(grep -cE '^\| (small|hashed, before fine-tuning|hashed) \| [0-9.]+ \|$' tuning.md)" = 3
before untuned --before only >untuned.md
holds no_row_after test "$(grep -cE '^\| (small|hashed, before fine-tuning|hashed) \| [0-9.]+ \|$' untuned.md)" = 2
holds only_hashes_are_tuned python3 - <<'P'
import json
def tensors(place):
    data = open(f"{place}/model.safetensors", "rb").read()
    size = 8 + int.from_bytes(data[:8], "little")
    rows = json.loads(data[8:size])
    return {name: data[size:][slice(*row["data_offsets"])] for name, row in rows.items() if name != "__metadata__"}
point = "RTE/batch20-rate0.001-seed1"
start, tuned, untuned = (tensors(place) for place in (f"tuning/small/{point}/run", f"tuning/hashed/{point}/before",
                                                      f"untuned/hashed/{point}/before"))
hashes = set(tuned) - set(start)
assert hashes and set(tuned) == set(untuned) and set(start) < set(tuned)
assert all(tuned[name] == start[name] == untuned[name] for name in start)
assert all(tuned[name] != untuned[name] for name in hashes)
P

# The set of documents: chosen on a tenth of train, scored on test, whose labels are not balanced here.
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    for part in train/neg train/pos train/unsup test/neg; do
        mkdir -p sets/IMDb/$part
        echo "the cat sat on a mat $i" >sets/IMDb/$part/$i.txt
    done
done
mkdir sets/IMDb/test/pos
for i in 1 2 3 4; do echo "a dog of france $i" >sets/IMDb/test/pos/$i.txt; done
python3 $source_dir/bench/glue.py $build --data sets --out documents --sets IMDb --batches 10 --rates 1e-3 --epochs 1 --threads 2 \
    --before also --from small=pretrained:softmax --from none=pretrained:none -- --max-len 24 >documents.md 2>/dev/null
holds rows_of_documents test "$(grep -cE '^\| (small|none, before fine-tuning|none) \| [0-9.]+ \|$' documents.md)" = 3
holds documents_are_those_of_test grep -qxF "| majority | 75.0 |" documents.md
run eval documents/small/IMDb/batch10-rate0.001-seed1/run --split test --json
holds score_is_that_of_test python3 -c '
import json
assert json.load(open("out"))["accuracy"] == json.load(open("documents/small/IMDb/batch10-rate0.001-seed1/done.json"))["accuracy"]'
finish
