#!/bin/sh
# `inspect`: table and JSON of a small lha run agree, and have the properties that all results must have; plots are scripts,
# drawn if gnuplot is installed; refusals and usage errors.
# Planted and caught: count and sum of utilities exchanged in a plot; the first membership left out; with rounds, sizes
# against a share of the tokens.
# Covers: cmd_inspect.c findings.c inspect_plots.c
. "$(dirname "$0")/checks.sh"
OLDPATH=$PATH
"$tool" data needle --out needles --train 200 --valid 12 --test 4 --seq-len 48 --marks 4 2>err >/dev/null
"$tool" train needle --data needles --attention lha --num-buckets 4 --layers 2 --steps 6 --eval-every 3 --out run --quiet 2>err
run inspect run --examples 3 --json
cp out found.json
holds every_head json found.json '[(h["layer"], h["head"], h["attention"], h["num_buckets"]) for h in d["heads"]] == [(l, h, "lha", 4) for l in (0, 1) for h in (0, 1)]'
membership="utility bound pairs queries_in keys_in sizes_off ratios_off"
holds keys json found.json 'list(d) == "task attention split sequences tokens all heads".split() and (d["task"], d["attention"]) == ("needle", "lha") and all(list(h) == "layer head attention num_buckets own lsh smyrf".split() and all(list(h[m]) == "'"$membership"' buckets".split() for m in ("own", "lsh", "smyrf")) for h in d["heads"]) and list(d["all"]["own"]) == "'"$membership"'".split()'
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
rates = lambda h: [h["own"]["pairs"], *(h[m]["utility"] for m in ("own", "lsh", "smyrf")), h["own"]["bound"], *h["own"]["queries_in"]]
for name, heads in (("0 all", d["heads"][:2]), ("1 all", d["heads"][2:]), ("all", d["heads"])):
    row, = (r[len(name.split()):] for r in rows if r[:len(name.split())] == name.split())
    want = [sum(column) / len(heads) for column in zip(*map(rates, heads))]
    want += [sum(h[m]["sizes_off"] for h in heads) / len(heads) for m in ("own", "lsh", "smyrf")]
    assert all(abs(100 * w - float(x)) < 0.051 for w, x in zip(want, row)) and len(row) == 16, (name, want, row)
assert rows[-1][0] == "all" and len(rows) == 16, rows
assert open("table").readline() == "lha on needle, valid: 3 sequences of 48 tokens; 4 buckets; all figures in per cent\n"
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
# With rounds, a token counts in each, and the buckets of all are compared with their mean.
run train needle --data needles --attention lha --num-buckets 4 --rounds 3 --layers 1 --steps 2 --eval-every 2 --out rounds --quiet
run inspect rounds --examples 1 --json
holds buckets_of_all_rounds json out 'all(h["num_buckets"] == 12 and sum(b[s] for b in h[m]["buckets"]) == 3 * 48 for h in d["heads"] for m in ("own", "lsh", "smyrf") for s in (0, 1))'
holds sizes_against_their_mean json out 'all(abs(h[m]["sizes_off"] - sum(not 12 <= sum(b) <= 48 for b in h[m]["buckets"]) / 12) < 1e-9 for h in d["heads"] for m in ("own", "lsh", "smyrf"))'
# Clusters of exactly n / B tokens: each query meets a quarter of the keys.
run inspect run --examples 2 --json --partition
holds clusters_are_equal json out 'all(abs(h[m]["pairs"] - 0.25) < 1e-12 and h[m]["queries_in"] == h[m]["keys_in"] == [0, 1, 0, 0, 0] and h[m]["utility"] < h[m]["bound"] for h in d["heads"] for m in ("own", "lsh", "smyrf")) and len({h[m]["bound"] for m in ("own", "lsh", "smyrf") for h in d["heads"][:1]}) == 1'

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
blocks, name, other = {}, None, []
for figure in ("utility", "buckets", "histograms"):
    for line in open(f"bare/{figure}.gp"):
        if line.startswith("$") or not name and not line.startswith("EOD"):
            other.append(line)
        if line.startswith("$"):
            name, rows = figure + line.split()[0], []
        elif line.startswith("EOD"):
            blocks[name], name = rows, None
        elif name and line[0] != "#":
            rows.append([float(x) for x in line.split()])
# Buckets that are off, by definition: sizes relative to 24 tokens, ratios of buckets with both.
alls = {m: [0, 0, 0, 0] for m in ("own", "lsh", "smyrf")}
for h in d["heads"]:
    for m, sums in alls.items():
        both = [q / k for q, k in h[m]["buckets"] if min(q, k) > 0]
        figures = [sum(not 12 <= q + k <= 48 for q, k in h[m]["buckets"]), 4, sum(not 0.5 <= r <= 2 for r in both), len(both)]
        assert abs(h[m]["sizes_off"] - figures[0] / 4) < 1e-12 and abs(h[m]["ratios_off"] - (figures[2] / figures[3] if both else 0)) < 1e-12
        sums[:] = [a + b for a, b in zip(sums, figures)]
for m, (off, num, uneven, both) in alls.items():
    assert abs(d["all"][m]["sizes_off"] - off / num) < 1e-12 and abs(d["all"][m]["ratios_off"] - uneven / both) < 1e-12, m
of = lambda m, k: [h[m][k] for h in d["heads"]]
want = list(zip(of("own", "bound"), of("own", "utility"), of("lsh", "utility"), of("smyrf", "utility")))
assert all(abs(x - y) < 1e-6 for row, w in zip(blocks["utility$data"], want) for x, y in zip(row, w)) and len(want) == 4
for m in ("own", "lsh", "smyrf"):
    found = [row[1:] for row in blocks["buckets$" + m]]
    assert found == [b for h in d["heads"][:2] for b in h[m]["buckets"]], (m, found)
    assert [row[0] for row in blocks["buckets$" + m]] == [0, 1, 2, 3, 5, 6, 7, 8], m  # a gap between heads
    assert [sum(r) for r in found[:4]] == sorted((sum(r) for r in found[:4]), reverse=True)
    sizes = sorted(r[0] for r in blocks[f"histograms${m}_sizes"])
    assert all(abs(x - y) < 1e-3 for x, y in zip(sizes, sorted(sum(b) / 24 for h in d["heads"] for b in h[m]["buckets"]))) and len(sizes) == 16
    both = [b for h in d["heads"] for b in h[m]["buckets"] if min(b) > 0]
    ratios = sorted(2 ** r[0] for r in blocks[f"histograms${m}_ratios"])
    assert len(ratios) == len(both) and all(abs(x / (b[0] / b[1]) - 1) < 1e-2 for x, b in zip(ratios, sorted(both, key=lambda b: b[0] / b[1])))
open("plots.txt", "w").write("".join(other))
P
holds scripts_hold_the_numbers sh -c '[ ! -s told ] || { cat told; exit 1; }'

[ "${2:-}" = write ] && cp plots.txt "$source_dir/tests/cli/plots.txt"
holds scripts_are_those_of_the_list diff "$source_dir/tests/cli/plots.txt" plots.txt

# A gnuplot that only records how it is called; one that fails, is killed, or cannot be executed.
mkdir fake
gnuplot() { printf '#!/bin/sh\n%s\n' "$1" >fake/gnuplot; chmod "$2" fake/gnuplot; }
gnuplot "echo \"\$(basename \"\$PWD\") \$*\" >>../calls" 755
PATH=$work/fake:$PATH
export PATH
run inspect run --examples 1 --plots drawn
[ "$code" = 0 ] && [ "$(tr '\n' ' ' <calls)" = "drawn utility.gp drawn buckets.gp drawn histograms.gp " ] && [ "$(cat err)" = "plots: drawn/utility.svg, buckets.svg, histograms.svg" ] && passed draws_every_script || failed draws_every_script "code $code: $(cat calls err)"
run inspect run --examples 1 --plots drawn --quiet
[ "$code" = 0 ] && [ ! -s err ] && passed draws_quietly_again || failed draws_quietly_again "code $code: $(cat err)"
gnuplot "exit 1" 755
expect gnuplot_fails 1 "gnuplot drawn/utility.gp: it failed" inspect run --examples 1 --plots drawn
gnuplot 'kill -KILL $$' 755
expect gnuplot_is_killed 1 "gnuplot drawn/utility.gp: it failed" inspect run --examples 1 --plots drawn
rm fake/gnuplot
mkdir fake/gnuplot
PATH=$work/fake
run inspect run --examples 1 --plots drawn
PATH=$OLDPATH
[ "$code" = 1 ] && grep -qx "hashattn: gnuplot drawn/utility.gp: Permission denied" err && passed gnuplot_is_no_program || failed gnuplot_is_no_program "code $code: $(cat err)"
PATH=empty "$tool" inspect run --examples 1 --plots bare --quiet >out 2>err
[ $? = 0 ] && [ ! -s err ] && passed quiet_without_gnuplot || failed quiet_without_gnuplot "$(cat err)"
mkdir full
(trap '' XFSZ; ulimit -f 0; exec "$tool" inspect run --examples 1 --plots full 2>&1 >/dev/null) | cat >err
grep -q "cannot write full/utility.gp: File too large" err && passed no_room_for_plots || failed no_room_for_plots "$(cat err)"
expect no_place_for_plots 4 "nowhere/plots: cannot make the directory: No such file" inspect run --examples 1 --plots nowhere/plots
expect one_run_only 2 "inspect needs one operand, the run; got 2" inspect run run

# Heads of other mechanisms are left out.
"$tool" train needle --data needles --attention 'local/local,lha' --num-buckets 4 --steps 4 --eval-every 2 --out mixed --quiet 2>err
run inspect mixed --examples 1 --json --plots mixed_plots
holds mixed_heads json out '[(h["layer"], h["head"], h["attention"]) for h in d["heads"]] == [(1, 1, "lha")]'
grep -q "layer 1" mixed_plots/buckets.gp && passed first_layer_with_buckets || failed first_layer_with_buckets "$(grep title mixed_plots/buckets.gp)"
"$tool" train needle --data needles --steps 4 --eval-every 2 --out sampled --quiet 2>err
# Heads without buckets: those that lha, fitted to their rows, or another mechanism would form.
run inspect sampled --examples 2 --num-buckets 4 --fit 5 --json
cp out probed.json
holds probed_heads json probed.json '(d["attention"], d["sequences"]) == ("yoso", 2) and [(h["attention"], h["probe"], h["num_buckets"]) for h in d["heads"]] == 4 * [("yoso", "lha", 4)] and all(0 < h[m]["utility"] <= 1 for h in d["heads"] for m in ("own", "lsh", "smyrf"))'
run inspect sampled --examples 2 --num-buckets 4 --fit 0 --json
holds fitting_changes_own_only json out 'all((h["own"]["utility"] != g["own"]["utility"]) and h["lsh"] == g["lsh"] for h, g in zip(d["heads"], json.load(open("probed.json"))["heads"]))'
run inspect sampled --examples 2 --probe lsh --num-buckets 4
grep -qE "^ +0 +0 .* yoso, own: lsh$" out && passed words_of_a_probe || failed words_of_a_probe "$(cat out err)"
run inspect sampled --examples 1 --num-buckets 4 --fit 2 --plots probe_plots --quiet
grep -q "'lha' 2" probe_plots/utility.gp && passed plots_name_the_probe || failed plots_name_the_probe "$(cat err; grep xtics probe_plots/utility.gp)"
run inspect mixed --examples 1 --probe lsh --num-buckets 2 --json
holds mixed_heads_with_a_probe json out '[(h["layer"], h["head"], h["attention"], h.get("probe"), h["num_buckets"]) for h in d["heads"]] == [(0, 0, "local", "lsh", 2), (0, 1, "local", "lsh", 2), (1, 0, "local", "lsh", 2), (1, 1, "lha", None, 4)]'
expect probe_without_buckets 2 "local has no buckets of tokens; mechanisms that have: lha, lsh, random" inspect sampled --probe local
expect option_of_no_probe 2 "num_hashes" inspect sampled --num-hashes 3
expect no_run 2 "inspect needs one operand, the run" inspect
expect no_split 2 "--split is 'tset'" inspect run --split tset
expect no_layer 2 "layer 2 has no heads with buckets" inspect run --examples 1 --plots plots2 --layer 2
: >file
expect no_directory 4 "file: cannot make the directory: Not a directory" inspect run --examples 1 --plots file
finish
