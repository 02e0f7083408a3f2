#!/bin/sh
# The command density: sketches of files, scores against the kernel in plain Python, shards, windows that slide, outliers,
# and bad input, which must leave no file.
# Planted and caught: rows of the second block lost; merge that takes unequal seeds; --outliers one row short; rows
# counted from 1; a sketch written although a row was bad.
. "$(dirname "$0")/checks.sh"
export PYTHONPATH="$source_dir/tests/cli" PYTHONDONTWRITEBYTECODE=1

python3 - <<'P'
import random
from npy import write
random.seed(3)
rows = [[random.gauss(1 if c == 0 else 0, 1) for c in range(4)] for _ in range(6000)]
rows[4321] = [-9.0, 0.5, 0.5, 0.5]
write("x.npy", rows)
for name, part in (("all", rows), ("old", rows[:5000]), ("new", rows[5000:]), ("few", rows[:50])):
    open(name + ".csv", "w").write("a,b,c,d\n" + "".join(",".join("%.9g" % v for v in row) + "\n" for row in part))
P
says fit_reports '"rows": 6000, "columns": 4, "num_hashes": 32, "hash_bits": 9, "map": "none", "seed": 1' \
    density fit x.npy --out all.sketch --seed 1 --json
run density fit all.csv --out csv.sketch --seed 1 --quiet
holds csv_and_npy_give_one_sketch cmp all.sketch csv.sketch
run density fit - --out csv.sketch --seed 1 --quiet <all.csv
holds stdin_too cmp all.sketch csv.sketch
for part in old new; do run density fit $part.csv --out $part.sketch --seed 1 --quiet; done
expect merge_reports 0 "sum.sketch: 6000 rows of 4 columns" density merge old.sketch new.sketch --out sum.sketch
holds merged_is_one_pass cmp sum.sketch all.sketch
run density remove all.sketch old.csv --out window.sketch
holds removed_is_as_never_added cmp window.sketch new.sketch
run density remove sum.sketch old.csv --out sum.sketch
holds a_sketch_replaces_itself cmp sum.sketch new.sketch

# 400 hashes: every density is near the kernel's, by its standard error.
run density fit few.csv --out few.sketch --num-hashes 400 --hash-bits 3 --seed 2
run density score few.sketch few.csv --out d.npy --errors e.npy --json
holds scores_are_near_the_kernel python3 - <<'P'
import json, math
from npy import read
rows = [[float(v) for v in line.split(",")] for line in open("few.csv").read().split()[1:]]
def p(a, b):
    norm = math.sqrt(sum(v * v for v in a) * sum(v * v for v in b))
    return 1 - math.acos(max(-1, min(1, sum(x * y for x, y in zip(a, b)) / norm))) / math.pi
d, e = read("d.npy"), read("e.npy")
z = [(got - sum(p(q, x) ** 3 for x in rows) / len(rows)) / error for q, got, error in zip(rows, d, e)]
assert len(d) == 50 and max(map(abs, z)) < 4 and math.sqrt(sum(v * v for v in z) / 50) < 2, z
said = json.load(open("out"))
assert said["rows"] == 50 and abs(said["mean_density"] - sum(d) / 50) < 1e-6 and "outliers" not in said, said
P
run density score all.sketch x.npy --outliers 0.001 --out d.npy
holds outliers_are_the_lowest python3 - <<'P'
from npy import read
d = read("d.npy")
lines = [line.split("\t") for line in open("out").read().splitlines()]
assert lines[0] == ["row", "density", "standard error"] and len(lines) == 7, lines
rows = [int(line[0]) for line in lines[1:]]
assert rows == sorted(range(6000), key=lambda i: (d[i], i))[:6] and 4321 in rows, rows
P
says outliers_in_json '"outliers": [{"row": ' density score all.sketch x.npy --outliers 0.001 --json
run density score sum.sketch x.npy --out s.npy --threads 1
run density score new.sketch x.npy --out t.npy --threads 2
holds a_merged_sketch_scores_bit_for_bit cmp s.npy t.npy

# Euclidean: the map of the first sketch serves the second.
run density fit old.csv --out a.sketch --map euclidean --num-hashes 16 --seed 5 --quiet
run density fit new.csv --out b.sketch --like a.sketch --quiet
run density fit x.npy --out c.sketch --like a.sketch --quiet
run density merge a.sketch b.sketch --out ab.sketch --quiet
holds like_makes_them_alike cmp ab.sketch c.sketch
run density fit new.csv --out b.sketch --map euclidean --num-hashes 16 --seed 5 --quiet
expect other_maps_are_refused 2 "centre and scale of their Euclidean maps" density merge a.sketch b.sketch --out no
expect like_determines 2 "--like determines --num-hashes" density fit new.csv --out no --like a.sketch --seed 5

# Modes: two clusters of points.
python3 - <<'P'
import random
random.seed(4)
rows = [[random.gauss(3 if i % 3 else 0, 0.2), random.gauss(0 if i % 3 else -2, 0.2)] for i in range(600)]
open("two.csv", "w").write("".join("%f,%f\n" % tuple(row) for row in rows))
P
run density modes two.csv --map euclidean --num-hashes 64 --out m.npy --labels l.npy --json
holds modes_are_the_centres python3 - <<'P'
import json
from npy import read
said, m = json.load(open("out")), read("m.npy")
assert said == {"rows": 600, "modes": [400, 200]}, said
near = lambda a, b: max(abs(x - y) for x, y in zip(a, b)) < 0.3
assert near(m[0], [3, 0]) and near(m[1], [0, -2]), m
labels = open("l.npy", "rb").read()[-600 * 8:]
assert [int.from_bytes(labels[8 * i:8 * i + 8], "little") for i in range(600)] == [0 if i % 3 else 1 for i in range(600)]
P
expect modes_need_out 2 "density modes needs --out M.npy" density modes two.csv
expect modes_of_text 3 "text.csv: cannot open" density modes text.csv --out no

# Bad input: named, and nothing is written.
run density fit old.csv --out other.sketch --seed 2 --quiet
expect seeds 2 "old.sketch and other.sketch: the sketches differ: --seed is 1 in one and 2 in the other" \
    density merge old.sketch other.sketch --out no
run density fit old.csv --out other.sketch --seed 1 --hash-bits 8 --quiet
expect bits 2 "--hash-bits is 9 in one and 8 in the other" density merge old.sketch other.sketch --out no
expect maps 2 "--num-hashes is 32 in one and 16 in the other" density merge old.sketch a.sketch --out no
printf '1,2,3,4\n5,6,nan,8\n' >nan.csv
expect nan 3 "nan.csv: line 2, column 3: 'nan' is not a finite number" density fit nan.csv --out no
printf 'a,b\n1,2\n3,abc\n' >text.csv
expect text 3 "text.csv: line 3, column 2: 'abc' is not a finite number" density fit text.csv --out no
printf '1,2,3\n' >narrow.csv
expect width_of_a_score 3 "narrow.csv: 3 columns, the sketch has 4" density score all.sketch narrow.csv --out no
expect width_of_a_removal 3 "narrow.csv: 3 columns, the sketch has 4" density remove all.sketch narrow.csv --out no
expect nan_in_a_score 3 "nan.csv: line 2" density score all.sketch nan.csv --out no --errors no2
expect never_added 2 "at least one of the 1000 was never added" density remove old.sketch new.csv --out no
head -c 3000 all.sketch >cut.sketch
expect cut 3 "cut.sketch: a damaged sketch: 3000 bytes" density score cut.sketch x.npy --out no
python3 -c 'b = bytearray(open("all.sketch", "rb").read()); b[500] ^= 1; open("bad.sketch", "wb").write(b)'
expect damaged 3 "bad.sketch: a damaged sketch: the checksum is wrong" density merge all.sketch bad.sketch --out no
expect no_sketch 3 "x.npy: not a sketch of a density" density score x.npy x.npy --out no
expect no_file 3 "none.npy: cannot open" density fit none.npy --out no
expect no_folder 4 "no/such" density fit x.npy --out no/such
holds no_file_is_left test ! -e no -a ! -e no2
expect no_kind 2 "density needs one of fit, score, merge, remove, modes" density
expect wrong_kind 2 "density has no kind 'fot', there are fit, score, merge, remove, modes" density fot
expect fit_needs_out 2 "density fit needs --out S" density fit x.npy
expect fit_needs_a_file 2 "density fit needs one FILE of rows" density fit --out no
expect score_needs_out 2 "density score needs --out D.npy or --outliers X" density score all.sketch x.npy
expect merge_needs_two 2 "density merge needs two sketches or more" density merge all.sketch --out no
expect wrong_map 2 "no map 'log', there are: none, euclidean" density fit x.npy --out no --map log

# Memory does not grow with the file.
python3 -c '
for i in range(300000): print("%d,%d,%d,%d" % (i % 7, i % 11, i % 13, i % 17))' >long.csv
[ -z "${HASHATTN_SANITIZED:-}" ] && limit='ulimit -v 300000' || limit=: # sanitizers need all addresses
holds fit_streams sh -c "$limit; '$tool' density fit long.csv --out long.sketch --quiet --threads 1"

# The help of every kind ends with an example that works.
for kind in fit score merge remove modes; do
    mkdir "example-$kind" && cd "example-$kind" || exit 1
    "$tool" density $kind --help | sed '1,/^example:$/d' >example.sh
    if grep -q "hashattn density $kind" example.sh && PATH=$build:$PATH sh -e ./example.sh >said 2>&1; then
        passed "example_of_${kind}_works"
    else
        failed "example_of_${kind}_works" "$(cat example.sh said)"
    fi
    cd ..
done
finish
