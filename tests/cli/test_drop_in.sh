#!/bin/sh
# bench/drop_in.py on a tiny run: the figures from made vectors, a document embedded once, rows and seeds that are kept, and
# hashes tuned first. Nothing is trained but them.
# Planted and caught: ties that share the rank of the first; the area of the other class; the score of another column; the
# names line taken for a pair; the table of the last seed only; stored attention in each row; hashes left as they were;
# weights tuned with them; a negative pair taken for a positive one.
# Covers: bench/drop_in.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
python3 - "$source_dir" <<'P' >figures 2>&1
import math, sys
sys.path.insert(0, sys.argv[1] + "/bench")
import drop_in
assert drop_in.ranks([3, 1, 3, 7]) == [2.5, 1, 2.5, 4]
assert drop_in.area([0.9, 0.1, 0.5, 0.5], [True, False, True, False]) == 0.875, "3 of 4 pairs, and half of an equal one"
assert drop_in.area([1, 2], [True, False]) == 0
assert math.isclose(drop_in.spearman([1, 10, 100], [2, 3, 4]), 1) and math.isclose(drop_in.spearman([1, 2, 3, 4], [2, 1, 4, 3]), 0.6)
assert drop_in.cosine([3, 0], [-5, 0]) == -1
with open("two.tsv", "w") as file:
    file.write("0\t1\t2\t3\t4\t5\t6\tsentence1\tsentence2\tscore\n0\t1\t2\t3\t4\t5\t6\ta cat\ta dog\t2.5\n")
assert drop_in.sentence_pairs("two.tsv") == [("a cat", "a dog", 2.5)]
with open("three.tsv", "w") as file:
    file.write("0.0\tA\tB\tfirst\tsecond\n1.0\tA\tC\tfirst\tthird\n")
assert drop_in.document_pairs(["three.tsv"]) == ({"A": "first", "B": "second", "C": "third"}, [("A", "B", False), ("A", "C", True)])
assert drop_in.cell([0.5], 3) == "0.500" and drop_in.cell([1, 3], 1) == "2.0 ± 1.4"
P
holds figures test ! -s figures

# Two kinds of papers: a positive pair is of one kind.
mkdir papers
python3 - <<'P'
import random
draw = random.Random(1)
kinds = ["parse tree grammar rule head".split(), "speech sound voice noise tone".split()]
paper = lambda i: " ".join(draw.choices(kinds[i % 2], k=30))
texts = [paper(i) for i in range(12)]
for split, count in ("train", 40), ("eval", 10), ("test", 10):
    with open(f"papers/new_aan_pairs.{split}.tsv", "w") as file:
        for _ in range(count):
            i, j = draw.sample(range(12), 2)
            file.write(f"{float(i % 2 == j % 2)}\tP{i}\tP{j}\t{texts[i]}\t{texts[j]}\n")
with open("sts.tsv", "w") as file:
    file.write("index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n")
    for i in range(8):
        file.write(f"{i}\tg\tf\ty\to\ts\ts\t{paper(0)}\t{paper(i)}\t{5 * (i % 2 == 0)}.{i}\n")
P
run train retrieval --data papers --tokens bpe --vocab-size 300 --layers 1 --dim 16 --heads 2 --ffn 16 --max-len 32 --attention softmax --steps 4 --eval-every 4 --batch 4 --out model --quiet
drop_in() { python3 "$source_dir/bench/drop_in.py" "$build" model --out kept --sts sts.tsv --pairs papers/new_aan_pairs.test.tsv papers/new_aan_pairs.eval.tsv \
    --tune papers --steps 6 --threads 1 --row same=softmax --row none=none --row "lha 2=lha --mode paper --num-buckets 2" --row "yoso=yoso --num-hashes 4" "$@"; }
drop_in >table.md 2>err || cat err
cell() { awk -F ' *\\| *' -v row="$1" -v column="$2" '$2 == row { print $column }' "${3:-table.md}"; }
holds stored_attention_keeps_all sh -c "[ '$(cell same 3)' = 1.000 ] && [ '$(cell same 4)' = '$(cell stored 4)' ] && [ '$(cell same 5)' = '$(cell stored 5)' ]"
holds others_do_not sh -c "for near in '$(cell none 3)' '$(cell yoso 3)' '$(cell 'lha 2' 3)'; do expr \"\$near\" : '-*0\.' >/dev/null || exit 1; done"
holds a_document_once sh -c '[ "$(wc -l <kept/texts.jsonl)" = 16 ]' # 8 pairs of sentences come last
holds every_document python3 -c '
import json
names = {name for split in ("test", "eval") for line in open(f"papers/new_aan_pairs.{split}.tsv") for name in line.split("\t")[1:3]}
assert set(json.load(open("kept/stored/seed0.json"))["documents"]) == names'
holds only_hashes_are_tuned python3 -c '
import json, struct
def tensors(run):
    data = open(run + "/model.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: data[8 + size:][slice(*row["data_offsets"])] for name, row in head.items() if name != "__metadata__"}
stored, tuned = tensors("model"), tensors("kept/lha 2/tuned-seed1")
own = set(tuned) - set(stored)
assert own and all(stored[name] == tuned[name] for name in stored)'
cp table.md before.md
drop_in >again.md 2>err || cat err
holds nothing_is_done_twice sh -c 'cmp again.md before.md && [ "$(find kept -newer before.md -type f | wc -l)" = 0 ]'
drop_in --seed 2 >two.md 2>err || cat err
holds seeds_are_averaged sh -c "echo '$(cell yoso 3 two.md)' | grep -q ' ± ' && [ '$(cell stored 4 two.md)' = '$(cell stored 4)' ] && [ -d 'kept/lha 2/tuned-seed2' ]"
expect_words() { python3 "$source_dir/bench/drop_in.py" "$build" model --out kept --sts sts.tsv --pairs papers/new_aan_pairs.test.tsv --row local 2>err; grep -q "'local' is not NAME=MECHANISM" err; }
holds rows_are_checked expect_words
finish
