#!/bin/sh
# `inspect`: table and JSON of a small lha run agree, and have the properties that all results must have; plots are scripts,
# drawn if gnuplot is installed; refusals and usage errors.
# Covers: cmd_inspect.c findings.c inspect_plots.c
. "$(dirname "$0")/checks.sh"
"$tool" data needle --out needles --train 200 --valid 12 --test 4 --seq-len 48 --marks 4 2>err >/dev/null
"$tool" train needle --data needles --attention lha --num-buckets 4 --layers 2 --steps 6 --eval-every 3 --out run --quiet 2>err
run inspect run --examples 3 --json
cp out found.json
holds every_head json found.json '[(h["layer"], h["head"], h["attention"], h["num_buckets"]) for h in d["heads"]] == [(l, h, "lha", 4) for l in (0, 1) for h in (0, 1)]'
holds counts json found.json 'd["sequences"] == 3 and d["tokens"] == 144 and d["split"] == "valid" and all(sum(b[s] for b in h[m]["buckets"]) == 48 for h in d["heads"] for m in ("own", "lsh", "smyrf") for s in (0, 1))'
holds shares json found.json 'all(abs(sum(h[m][s]) - 1) < 1e-9 for h in d["heads"] for m in ("own", "lsh", "smyrf") for s in ("queries_in", "keys_in"))'
holds utilities json found.json 'all(0 < h[m]["utility"] < h[m]["bound"] < 1 for h in d["heads"] for m in ("own", "lsh", "smyrf"))'
holds means json found.json 'all(abs(sum(h[m][k] for h in d["heads"]) / 4 - d["all"][m][k]) < 1e-12 for m in ("own", "lsh", "smyrf") for k in ("utility", "bound", "pairs", "sizes_off"))'
run inspect run --examples 3
cp out table
python3 - <<'P' >told 2>&1
import json
d, rows = json.load(open("found.json")), [line.split() for line in open("table")]
for h in d["heads"]:
    row = next(r for r in rows if r[:2] == [str(h["layer"]), str(h["head"])])
    want = [h["own"]["pairs"], *(h[m]["utility"] for m in ("own", "lsh", "smyrf")), h["own"]["bound"], *h["own"]["queries_in"],
            *(h[m]["sizes_off"] for m in ("own", "lsh", "smyrf")), *(h[m]["ratios_off"] for m in ("own", "lsh", "smyrf"))]
    assert [f"{100 * w:.1f}" for w in want] == row[2:-1] and row[-1] == "lha", (want, row)
assert sum(r[1:2] == ["all"] for r in rows) == 2 and rows[-1][0] == "all"
P
holds table_says_the_same sh -c '[ ! -s told ] || { cat told; exit 1; }'
run inspect run --examples 3 --json --threads 1
holds any_threads cmp out found.json
run inspect run --examples 3 --json --split test
holds other_split json out 'd["split"] == "test" and d["all"]["own"]["utility"] != json.load(open("found.json"))["all"]["own"]["utility"]'
run inspect run --examples 0 --json
holds all_examples json out 'd["sequences"] == 12'
run inspect run --json
holds eight_examples_by_default json out 'd["sequences"] == 8'
run inspect run --examples 1 --json --enlargement 4
holds options_may_differ json out 'd["all"]["own"]["pairs"] == 1 and abs(d["all"]["own"]["utility"] - 1) < 1e-6'

# Plots. Without gnuplot in PATH there are only scripts.
mkdir empty
PATH=empty "$tool" inspect run --examples 1 --plots bare >out 2>err
code=$?
holds scripts_alone [ "$code$(ls bare | tr '\n' ' ')" = "0buckets.gp histograms.gp utility.gp " ]
grep -q "gnuplot is not installed" err && passed says_why || failed says_why "$(cat err)"
if command -v gnuplot >/dev/null; then
    run inspect run --examples 2 --plots plots --layer 1
    holds pictures [ "$code$(ls plots | tr '\n' ' ')" = "0buckets.gp buckets.svg histograms.gp histograms.svg utility.gp utility.svg " ]
    holds pictures_are_svg python3 -c 'import xml.dom.minidom, sys; [xml.dom.minidom.parse(f"plots/{n}.svg") for n in ("buckets", "histograms", "utility")]'
else
    echo "SKIPPED: pictures (gnuplot is not installed)"
fi
run inspect run --examples 1 --json
cp out one.json
python3 - <<'P' >told 2>&1
import json
d = json.load(open("one.json"))
blocks, name = {}, None
for figure in ("utility", "buckets", "histograms"):
    for line in open(f"bare/{figure}.gp"):
        if line.startswith("$"):
            name, rows = figure + line.split()[0], []
        elif line.startswith("EOD"):
            blocks[name], name = rows, None
        elif name and line[0] != "#":
            rows.append([float(x) for x in line.split()])
of = lambda m, k: [h[m][k] for h in d["heads"]]
want = list(zip(of("own", "bound"), of("own", "utility"), of("lsh", "utility"), of("smyrf", "utility")))
assert all(abs(x - y) < 1e-6 for row, w in zip(blocks["utility$data"], want) for x, y in zip(row, w)) and len(want) == 4
for m in ("own", "lsh", "smyrf"):
    found = [row[1:] for row in blocks["buckets$" + m]]
    assert found == [b for h in d["heads"][:2] for b in h[m]["buckets"]], (m, found)
    assert [sum(r) for r in found[:4]] == sorted((sum(r) for r in found[:4]), reverse=True)
    sizes = sorted(r[0] for r in blocks[f"histograms${m}_sizes"])
    assert all(abs(x - y) < 1e-3 for x, y in zip(sizes, sorted(sum(b) / 24 for h in d["heads"] for b in h[m]["buckets"]))) and len(sizes) == 16
    both = [b for h in d["heads"] for b in h[m]["buckets"] if min(b) > 0]
    ratios = sorted(2 ** r[0] for r in blocks[f"histograms${m}_ratios"])
    assert len(ratios) == len(both) and all(abs(x / (b[0] / b[1]) - 1) < 1e-2 for x, b in zip(ratios, sorted(both, key=lambda b: b[0] / b[1])))
P
holds scripts_hold_the_numbers sh -c '[ ! -s told ] || { cat told; exit 1; }'

# Heads of other mechanisms are left out.
"$tool" train needle --data needles --attention 'local/local,lha' --num-buckets 4 --steps 4 --eval-every 2 --out mixed --quiet 2>err
run inspect mixed --examples 1 --json --plots mixed_plots
holds mixed_heads json out '[(h["layer"], h["head"], h["attention"]) for h in d["heads"]] == [(1, 1, "lha")]'
grep -q "layer 1" mixed_plots/buckets.gp && passed first_layer_with_buckets || failed first_layer_with_buckets "$(grep title mixed_plots/buckets.gp)"
"$tool" train needle --data needles --steps 4 --eval-every 2 --out sampled --quiet 2>err
expect others_are_refused 2 "has attention yoso, which has no buckets of tokens; those that can be inspected: lha, lsh, random" inspect sampled
expect no_run 2 "inspect needs one operand, the run" inspect
expect no_split 2 "split is 'tset'" inspect run --split tset
expect no_layer 2 "layer 2 has no heads with buckets" inspect run --examples 1 --plots plots2 --layer 2
: >file
expect no_directory 4 "cannot write file/utility.gp: Not a directory" inspect run --examples 1 --plots file
finish
