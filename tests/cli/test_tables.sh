#!/bin/sh
# The tables of bench/peers.py and bench/torch_models.py from made-up runs: ratios inside rounds, crossover, aims,
# missing contenders, the rows in docs/results with a column for each kind of machine, and bench/peers.py --show. No peer
# is needed. Planted and caught: ratios of medians instead of medians of ratios; ours over theirs; a crossover at the
# length measured instead of between two; upper bounds read as lower ones; figures of one work read from another; memory
# of a step and of the process exchanged; missing contenders left out; the aims of another kind of machine; figures of
# other machines lost, moved or overwritten; AMX behind a hidden model not recognised; a stale figure of this machine
# kept, or lost if only some works ran; the commit of a part put over the whole column; verdicts
# on aims lost to a part that did not measure them; memory in kilobytes; rivals over
# the first mechanism instead of their own; a number whose text changes when it is printed again; a figure of another
# commit under the head of its column; an older column without a word; a page that differs from its data; named columns read as machines.
# Covers: bench/results.py bench/show.py bench/tables.py bench/aims.py
. "$(dirname "$0")/checks.sh"
cat >made.py <<'P'
import copy, math, os, sys
sys.path.insert(0, os.path.join(sys.argv[1], "bench"))
import aims, figures, machine, page, results, show, tables, torch_models

def row(work, key, ms, precision="float32", **facts):
    return dict(work=work, key=key, label=key.upper(), precision=precision, ms=ms, **facts)

here = dict(kind="Zen 5", processor="P", family="26", model="2", cores=2, threads=2, isa="avx512", torch_isa="AVX512", amx=False,
            products="own", projection="f32", versions={"torch": "2", "onnxruntime": None}, date="2026-01-01")
run = dict(machine=here, quick=False, rounds=3, n=400, long=1600, rows=[], missing=[dict(work="bf16", label="ours", reason="not there")],
           peak=dict(projection="int16-dp", hash_gflops=90.0, bf16_gflops=100.0, float32_gflops=50.0),
           stream=dict(seq_len=1000, peak_rss_bytes=2**29, threads_busy=0.5),
           files=dict(tokens=900, peak_rss_bytes=2**31, rate_over_copy=[0.5, 0.25, 0.75]))
for n, yoso, sdpa in ((100, 2.0, 1.0), (400, 2.0, 4.0), (1600, 2.0, 300.0)):
    run["rows"] += [row("length", "yoso", dict(forward=[yoso, 2 * yoso, yoso], both=[1, 1, 1]), n=n, memory=dict(forward=3 * 2**20)),
                    row("length", "sdpa", dict(forward=[sdpa, sdpa, 9 * sdpa], both=[0.5, 0.5, 0.5]), n=n)]
run["rows"] += [row("length", "yoso-11", dict(both=[0.01, 0.01, 0.01]), n=1600),
                row("clustered", "yoso", dict(both=[1.0]), n=400), row("clustered", "sdpa", dict(both=[7.0]), n=400),
                row("approximation", "yoso", dict(forward=[1.0], both=[2.0]), n=400, error=dict(radians=dict(iid=1.25), to="yoso-e")),
                row("approximation", "yoso-quarter", dict(both=[1.0]), n=400), row("approximation", "linear", dict(both=[1.5]), n=400),
                row("approximation", "nystrom", dict(forward=[3.0]), n=400, error=dict(radians=dict(iid=0.5, clustered=0.0001, matched=0.0), to="softmax")),
                row("mechanisms", "linear", dict(forward=[2.0], both=[1.0]), n=400, mechanism="linear", memory=dict(forward=2**20)),
                row("mechanisms", "other", dict(forward=[5.0]), n=400, mechanism="linear", error=dict(radians=dict(iid=0.5), to="softmax")),
                row("mechanisms", "third", dict(forward=[5.0]), n=400, mechanism="alone"),
                row("layer", "yoso", dict(forward=[10.0]), n=400, products_share_of_peak=0.9, products_over_library=1.1),
                row("layer", "yoso", dict(forward=[5.0]), "bf16", n=400, products_share_of_peak=0.7, products_over_library=0.8),
                row("layer", "transformers-yoso", dict(forward=[200.0]), n=400),
                row("lha", "lha", dict(forward=[1.0, 2.0, 1.0], both=[4.0, 4.0, 8.0]), n=400),
                row("lha", "softmax", dict(forward=[9.0, 9.0, 12.0], both=[12.0, 20.0, 24.0]), n=400)]
run["lha_memory"] = [dict(n=100, saved_bytes=2**20, scratch_bytes=2**20, peak_rss_bytes=2**22),
                     dict(n=400, saved_bytes=2**22, scratch_bytes=2**22, peak_rss_bytes=2**24)]
run["lha_utility"] = {name: dict(utility=utility, bound=0.8, pairs=0.25) for name, utility in (("own", 0.6), ("lsh", 0.3), ("smyrf", 0.2))}
run["equal_time"] = [dict(label="NYSTROM", error=dict(radians=dict(iid=0.5), to="softmax"), num_hashes=96, time=0.99,
                          ours=dict(radians=dict(iid=0.75), to="yoso-e"))]

cost = lambda seconds, mib: {"seconds": seconds, "bytes": mib * 2**20, "process": (mib + 1000) * 2**20}
models = dict(machine=dict(kind="Zen 5", name="P", cores=2, threads=2, memory="8 GiB", versions={"torch": "2"}, commit="c", date="d"),
              rounds=3, quick=False, errors=[dict(n=64, layers=1, contender="hashattn", found=dict(radians=0.25, relative=0.5)),
                                             dict(n=64, layers=1, contender="yoso-e", found="needs about 9 GiB")],
              rows=[dict(kind="forward", n=64, layers=1, missing={"sdpa": "killed | by"},
                         cells={"hashattn": [cost(1.0, 1000), cost(2.0, 1000), cost(1.0, 1000)],
                                "library": [cost(3.0, 5000), cost(4.0, 5000), cost(9.0, 5000)]})])
of_models = torch_models.tables(models)

def lines_of(run):
    """[what is wanted and whether it is reached, what was measured] of a row."""
    found = [(*key, *cells.values()) for table in (aims.summary_table(run), aims.other_table(run)) for key, cells in table.rows]
    wanted = {key: cell for key, cells in aims.aims_table(run).rows for cell in cells.values()}
    return lambda work, against="": next([wanted[cells[:2]], cells[2]] for cells in found
                                         if cells[0] == work and cells[1].startswith(against))

of, made = lines_of(run), tables.tables(run)
on = lambda **facts: lines_of(dict(run, machine=dict(here, **facts)))

def check(name, good):
    print(f"[       OK ] {name}" if good else f"ERROR: {name}\n[  FAILED  ] {name}")
    return good

bare = dict(copy.deepcopy(run), rows=[], peak={}, lha_memory=[], stream={"seq_len": 1}, files={"tokens": 1})
text = tables.document(run)

def put(lines, run, partial=False):
    return results.put(lines, tables.tables(run), run["machine"]["kind"], "c" + run["machine"]["date"][-1], run["machine"]["date"], partial)

about = {"table": "length", "about": "how it was measured"}
first = put([about], run)
other = copy.deepcopy(run)
other["machine"]["kind"] = "Zen 3"
other["rows"] = [dict(r, ms={f: [2 * x for x in v] for f, v in r["ms"].items()}) for r in other["rows"] if r["key"] != "nystrom"]
other["rows"].append(row("approximation", "race", dict(forward=[8.0], both=[8.0]), n=400))
both = put(first, other)
again = copy.deepcopy(run)
again["rows"] = [r for r in again["rows"] if r["key"] != "nystrom"]
again["missing"], again["lha_memory"] = [], []
third = put(both, again)
shown = lambda lines, name: results.table_text(lines, name)
old = [{"table": "t", "row": {"work": w}, "value": v, "machine": m, "commit": "a", "date": "2026-01-01"}
       for w, v, m in (("forward", "1", "Zen 5"), ("forward", "9", "Zen 3"), ("layer", "2", "Zen 5"), ("gone", "3", "Zen 5"))]
new = {"t": page.Table(["work"], [(("forward",), {"Zen 5": "4"}), (("layer",), {"Zen 5": "-"})])}
some, every = ({(line["row"]["work"], line["machine"]): line["value"] for line in results.put(old, new, "Zen 5", "b", "2026-02-01", partial)}
               for partial in (True, False))
aim = lambda text, commit: {"table": "aims", "row": {"work": "forward"}, "value": text, "machine": "Zen 5", "commit": commit, "date": "x"}
judge = lambda before, text: results.put([aim(before, "a")], {"aims": page.Table(["work"], [(("forward",), {"Zen 5": text})])}, "Zen 5", "b", "x", True)
mixed = shown(results.put(old, new, "Zen 5", "b", "2026-02-01", True), "t")
cells = ("3.7 ms, 1e-05x", "1.447e+04 ms, 8.5x", "12 ms", "35.05 MiB", "0.003906 MiB", "0.20 ms, 1x", "1.50x", "needs about 9 GiB", "-4 to 2 %")
real = results.read()
performance = open(results.SHORT).read()
answers = {"arena": "lra", "forecast": "forecast", "lha": "lha table 1"}
summary = lambda name: show.TRAININGS[name].summary(show.trainings(name))
columns = results.put([], {"t": page.Table(["what"], [(("x",), {"one": "1", "two": "2"})], named=True)}, "Zen 4", "a", "2026-01-01")
layer = "BERT-base layer, forward"
later = dict(copy.deepcopy(again), machine=dict(here, date="2026-02-02"))
later["machine"]["versions"]["numpy"] = "3"
part, whole = shown(put(both, later, True), 'machines'), shown(put(both, later), 'machines')
zen4 = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "model name": "AMD EPYC"}
hidden = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "167", "model name": "X"}
good = [
    check("part_of_the_works", some == {("forward", "Zen 5"): "4", ("forward", "Zen 3"): "9", ("layer", "Zen 5"): "2", ("gone", "Zen 5"): "3"}
          and every == {("forward", "Zen 5"): "4", ("forward", "Zen 3"): "9"}),
    check("part_leaves_the_verdicts_that_it_has_not", judge(">= 2x, missed", ">= 2x") == [aim(">= 2x, missed", "a")]
          and judge(">= 2x, missed", ">= 2x, reached") == [aim(">= 2x, reached", "b")] and judge(">= 2x", ">= 2x, missed") == [aim(">= 2x, missed", "b")]
          and judge(">= 2x, missed", ">= 3x") == [aim(">= 3x", "b")]),
    check("part_leaves_what_the_column_ran_on", "2026-01-01 |" in part and "2026-02-02 |" not in part and "| numpy | 3 (c2) |" in part
          and "2026-02-02 |" in whole),
    check("commits_in_heads_and_figures", "| work | Zen 5, a of 2026-01-01 | Zen 3, a of 2026-01-01 |" in mixed and "| forward | 4 (b) | 9 |" in mixed
          and "| work | Zen 5, b of 2026-02-01 | Zen 3, a of 2026-01-01, older |" in shown(results.put(old, new, "Zen 5", "b", "2026-02-01"), "t")),
    check("numbers_give_their_text", all(results.figures(results.packed(cell)) == cell for cell in cells)
          and [sorted(results.packed(cell)) for cell in cells[:6]] == [["ms", "ratio"], ["ms", "ratio"], ["ms"], ["mib"], ["mib"], ["value"]]),
    check("median_of_ratios", of("forward, n 400") == [">= 32x, missed", "2.0x (1.0x to 18.0x)"]),
    check("reached", of("forward, n 1600") == [">= 110x, reached", "150.0x (75.0x to 1350.0x)"]),
    check("rate_over_copy", of("900 tokens from files") == ["<= 1.00 GiB, missed", "2.00 GiB"]
          and of("the same: bytes per second") == ["-", "0.50 (0.25 to 0.75)"]),
    # ratios 1/2 and 2 at 100 and 400: equal half-way in the logarithm
    check("crossover_between", abs(aims.crossover(run, "forward") - 200) < 1e-6
          and of("least n at which forward is faster") == ["<= n 150, missed", "n 200"]
          and on(kind="Zen 3")("least n at which forward is faster")[0] == "<= n 256, reached"),
    check("crossover_never", aims.crossover(run, "both") == math.inf
          and of("least n at which forward + backward is faster") == ["<= n 128, missed", "n inf"]),
    check("crossover_from_the_start", aims.crossover(dict(run, rows=[r for r in run["rows"] if r.get("n") != 100]), "forward") == 400),
    check("inputs_apart", of("forward + backward, n 400")[1] == "0.5x (0.5x to 0.5x)"
          and of("forward + backward, n 400, clustered") == [">= 8x, missed", "7.0x"]),
    check("bits_apart", of("forward + backward, n 1600, tau 11") == [">= 50x, reached", "50.0x (50.0x to 50.0x)"]),
    check("quarter", of("forward + backward, dQ and dK of a quarter of the hashes", "linear") == [">= 1.60x, missed", "1.50x"]
          and of("forward + backward, n 400", "linear")[1] == "0.75x"),
    check("not_measured", of("forward, n 400, bf16 in and out") == [">= 30x", "-"]),
    check("both_precisions", of(layer, "transf") == [">= 18x, reached", "20.0x"]
          and of(layer + ", bf16", "transf") == [">= 30x, reached", "40.0x"]),
    check("hash_share", of("hash projection") == [">= 80%, reached", "90%"]
          and aims.hash_share(dict(run["peak"], projection="f32")) == 1.8),
    check("share", [of("products of the layer" + p, against)[1] for p in ("", ", bf16") for against in ("the product lib", "product peak")]
          == ["110%", "90%", "80%", "70%"]),
    check("bound_from_above", of("1000 tokens from a callback") == ["<= 1.00 GiB, reached", "0.50 GiB"]
          and of("the same: share of time with all threads busy")[1] == "50%"),
    check("aim_of_the_machine", on(kind="Zen 3")("forward + backward, n 400, clustered")[0] == ">= 4.5x, reached"
          and on(kind="Sapphire Rapids", amx=True)("forward + backward, n 400, clustered")[0] == ">= 5x, reached"
          and on(kind="Zen 4")("forward, n 1600") == ["-", "150.0x (75.0x to 1350.0x)"]),
    check("lha_over_softmax", of("`lha`, 64 buckets, n 400, forward") == [">= 12x, missed", "9.0x (4.5x to 12.0x)"]
          and of("`lha`, 64 buckets, n 400, forward + backward, loss")[1] == "3.0x (3.0x to 5.0x)"),
    check("lha_memory_is_linear", of("`lha`, memory of a token, longest n") == ["<= 1.05, reached", "1.00"]
          and "| 400 | 4.0 / 4.0 / 16.0 |" in text),
    check("lha_memory_grows", aims.memory_growth(dict(run, lha_memory=[run["lha_memory"][0], dict(run["lha_memory"][1], n=200)])) == 2),
    check("lha_utility", all(line in text for line in (
        "| pairs in buckets, of all | 25.0% |", "| learned buckets | 60.0% |", "| LSH | 30.0% |", "| asymmetric LSH (SMYRF) | 20.0% |",
        "| upper bound | 80.0% |"))),
    check("over_lha", "| SOFTMAX | 9 ms, 9x |" in made["lha forward"].text() and "| SOFTMAX | 20 ms, 3x |" in made["lha both"].text()),
    check("a_row_a_length", "| 400 | SDPA | 4 ms, 2x |" in made["length forward"].text()
          and "| 1600 | `yoso`, tau 11 | 0.01 ms, 0.01x |" in made["length both"].text()),
    check("beside_the_own_mechanism", "| linear | OTHER | 5 ms, 2.5x |" in made["mechanisms forward"].text()
          and "| alone | THIRD | 5 ms |" in made["mechanisms forward"].text() and "OTHER" not in made["mechanisms both"].text()
          and "| linear | LINEAR | 1 MiB / - |" in made["mechanisms memory"].text()
          and "| linear | OTHER | 0.50 to softmax |" in made["mechanisms error"].text()),
    check("nothing_measured", all(line.endswith("| - |") for table in (aims.summary_table(bare), aims.other_table(bare))
                                  for line in table.text().split("\n")[2:])),
    check("only_what_was_measured", not {"layer forward", "lha memory"} & set(tables.tables(bare)) and "layer forward" in made),
    check("error_beside_time", "| NYSTROM | 3 ms, 3x |" in text and "| NYSTROM | 0.50 / 1e-04 / 0 to softmax |" in text),
    check("error_at_equal_time", "| NYSTROM | 0.50 to softmax | m 96, 0.99 of its time: 0.75 to yoso-e |" in text),
    check("memory_in_mebibytes", "| 400 | YOSO | 3 MiB |" in made["length forward memory"].text()),
    check("missing_is_named", "| ours | bf16 | not there |" in text and "| onnxruntime | absent |" in text),
    check("rows", first[0] == about and all(shown(first, name).split("\n")[2:] == table.text().split("\n")[2:]
                                            for name, table in made.items() if name not in ("aims", "summary", "more ratios"))),
    check("two_machines", "| contender | Zen 5, c1 of 2026-01-01 | Zen 3, c1 of 2026-01-01 |" in shown(both, "approximation forward")
          and "| YOSO | 1 ms, 1x | 2 ms, 1x |" in shown(both, "approximation forward")
          and "| NYSTROM | 3 ms, 3x | - |" in shown(both, "approximation forward") and "| RACE | - | 8 ms, 4x |" in shown(both, "approximation forward")
          and [line for line in both if line.get("machine") == "Zen 5"] == first[1:]),
    check("own_column_is_replaced", "NYSTROM" not in shown(third, "approximation forward") and "| RACE | - | 8 ms, 4x |" in shown(third, "approximation forward")
          and "| ours | bf16 | not there |" in shown(third, "missing")),
    check("unmeasured_table_stays", "| 400 | 4.0 / 4.0 / 16.0 | 4.0 / 4.0 / 16.0 |" in shown(third, "lha memory")),
    check("same_rows_twice", put(third, again) == third),
    check("shown_by_the_beginning_of_the_name", results.document(first, "length").startswith("how it was measured\n\nlength forward\n\n| n |")
          and "length both" in results.document(first, "length") and "lha" not in results.document(first, "length")
          and results.document(first, "length both").startswith("how it was measured") and not results.document(first, "leng")),
    check("models", "| 64 | 1 | YosoModel of the library | 4 s, 3x |" in of_models["torch forward"].text()
          and "| 64 | 1 | YosoModel of the library | 5000 MiB, 5x; 6000 MiB, 3x |" in of_models["torch forward memory"].text()
          and "| 64 | 1 | BertModel with SDPA | killed / by |" in of_models["torch forward"].text()
          and "| 64 | 1 | `yoso-e` to the library | needs about 9 GiB |" in of_models["torch error"].text()
          and "to `yoso-e` | 0.25 radians, 0.5 of the length |" in of_models["torch error"].text()),
    check("names_of_the_real_rows", {*made, *of_models, "bf16 both", "step step", "step memory", "approximation error", "pretraining"} - {"missing"}
          <= set(results.names(real))),
    check("page_has_its_rows", all(f"<!-- {name}: begin -->\n\n{shown(real, name)}\n\n<!-- {name}: end -->" in performance for name in results.BLOCKS)),
    check("pages_of_answers_have_their_rows", all(f"<!-- {name}: begin -->\n\n{summary(name)}\n\n<!-- {name}: end -->" in
                                                  open(os.path.join(results.DOCS, "answers", file + ".md")).read() for file, name in answers.items())),
    check("columns_with_names", shown(columns, "t") == "Zen 4, a of 2026-01-01:\n\n| what | one | two |\n|---|---|---|\n| x | 1 | 2 |"
          and results.put(columns, {"t": page.Table(["what"], [], named=True)}, "Zen 4", "b", "2026-02-01") == []),
    check("generations", machine.kind_of(zen4) == "Zen 4" and machine.kind_of(dict(zen4, model="1")) == "Zen 3"
          and machine.kind_of({**zen4, "cpu family": "26"}) == "Zen 5" and machine.kind_of(dict(zen4, model="200")) == "AMD EPYC, family 25 model 200"
          and machine.kind_of({"vendor_id": "GenuineIntel", "cpu family": "6", "model": "143"}) == "Sapphire Rapids"
          and machine.kind_of(dict(hidden, flags="sse2 amx_tile")) == "Intel AMX" and machine.kind_of(hidden) == "X, family 6 model 167"
          and machine.kind_of(dict(hidden, model="143", flags="amx_tile")) == "Sapphire Rapids" and machine.kind_of({}) != ""),
    check("median_of_even", figures.spread([1.0, 3.0]) == "2.0x (1.0x to 3.0x)"),
]
sys.exit(0 if all(good) else 1)
P
python3 made.py "$source_dir" || failures=1
peers=$source_dir/bench/peers.py
python3 "$peers" --show >all || cat all
holds lists_all_tables sh -c 'grep -q "^length forward: Zen 5, Zen 4, Intel AMX, Zen 3$" all && grep -q "^models by length: Zen 5$" all && grep -q "^lra: trainings$" all'
holds every_name_prints_tables sh -c 'sed "s/: .*//" all | while read -r name; do python3 "$1" --show "$name" >one || exit 1; grep -q "^|---" one || exit 1; done' sh "$peers"
python3 "$peers" --show nothing >out 2>err && failed unknown_table "exit code 0" || holds unknown_table grep -q "no table begins with 'nothing'; there are" err
finish
