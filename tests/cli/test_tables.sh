#!/bin/sh
# The tables of bench/peers.py from a made run: ratios inside rounds, crossover, what is reached, what is missing, and the
# page between its marks. No peer is needed. Planted and caught: ratios of medians instead of medians of ratios; ours over
# theirs; a crossover at the length measured instead of between two; bounds from above taken from below; figures of one
# work taken from another; what is missing left out; text outside the marks touched.
. "$(dirname "$0")/checks.sh"
cat >made.py <<'P'
import copy, json, math, os, sys
sys.path.insert(0, os.path.join(sys.argv[1], "bench"))
import tables

def row(work, key, ms, precision="float32", **facts):
    return dict(work=work, key=key, label=key.upper(), precision=precision, ms=ms, **facts)

machine = dict(processor="P", cores=2, threads=2, isa="avx512", torch_isa="AVX512", amx=False, avx512_bf16=True, products="own",
               projection="f32", versions={"torch": "2", "onnxruntime": None}, date="2026-01-01")
run = dict(machine=machine, quick=False, rounds=3, n=400, long=1600, rows=[], missing=[dict(work="bf16", label="ours", reason="not there")],
           peak=dict(projection="int16-dp", hash_gflops=90.0, bf16_gflops=100.0, float32_gflops=50.0),
           stream=dict(seq_len=1000, peak_rss_bytes=2**29, threads_busy=0.5),
           files=dict(tokens=900, peak_rss_bytes=2**31, rate_over_copy=[0.5, 0.25, 0.75]))
for n, yoso, sdpa in ((100, 2.0, 1.0), (400, 2.0, 4.0), (1600, 2.0, 300.0)):
    run["rows"] += [row("length", "yoso", dict(forward=[yoso, 2 * yoso, yoso], both=[1, 1, 1]), n=n),
                    row("length", "sdpa", dict(forward=[sdpa, sdpa, 9 * sdpa], both=[0.5, 0.5, 0.5]), n=n)]
run["rows"] += [row("clustered", "yoso", dict(both=[1.0]), n=400), row("clustered", "sdpa", dict(both=[7.0]), n=400),
                row("approximation", "yoso", dict(forward=[1.0], both=[2.0]), n=400, error=dict(radians=dict(iid=1.25), to="yoso-e")),
                row("approximation", "nystrom", dict(forward=[3.0]), n=400, error=dict(radians=dict(iid=0.5, clustered=0.0001, matched=0.0), to="softmax")),
                row("layer", "yoso", dict(forward=[10.0]), n=400, products_share_of_peak=0.9, products_over_library=1.1),
                row("layer", "yoso", dict(forward=[5.0]), "bf16", n=400, products_share_of_peak=0.7, products_over_library=0.8),
                row("layer", "transformers-yoso", dict(forward=[200.0]), n=400),
                row("lha", "lha", dict(forward=[1.0, 2.0, 1.0], both=[4.0, 4.0, 8.0]), n=400),
                row("lha", "softmax", dict(forward=[9.0, 9.0, 12.0], both=[12.0, 20.0, 24.0]), n=400)]
run["lha_memory"] = [dict(n=100, saved_bytes=2**20, scratch_bytes=2**20, peak_rss_bytes=2**22),
                     dict(n=400, saved_bytes=2**22, scratch_bytes=2**22, peak_rss_bytes=2**24)]
run["lha_utility"] = {name: dict(utility=utility, bound=0.8, pairs=0.25) for name, utility in (("own", 0.6), ("lsh", 0.3), ("smyrf", 0.2))}
cells = {line.split(" | ")[0][2:]: line for line in tables.figures_table(run)[0].split("\n")[2:]}
of = lambda start: next(line for name, line in cells.items() if name.startswith(start))

def check(name, good):
    print(f"[       OK ] {name}" if good else f"ERROR: {name}: {cells}\n[  FAILED  ] {name}")
    return good

bare = copy.deepcopy(run)
bare["rows"] = []
with_amx = copy.deepcopy(run)
with_amx["machine"]["amx"] = True
text = tables.document(run)
with open("page.md", "w") as page:
    page.write("before\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nafter\n")
tables.fill("page.md", run)
page = open("page.md").read()
with open("bad.md", "w") as bad:
    bad.write("no marks\n")
try:
    refused = tables.fill("bad.md", run) and False
except ValueError as error:
    refused = "must stand there once" in str(error)
good = [
    check("median_of_ratios", "| 2.0x (1.0x to 18.0x) | no |" in of("forward, n 400")),
    check("reached", "| 150.0x (75.0x to 1350.0x) | yes |" in of("the same, n 1600")),
    check("rate_over_copy", of("the same, 900 tokens from files (at 0.50 (0.25 to 0.75) of the rate").split(" | ")[-3:] == ["<= 1.00 GiB", "2.00 GiB", "no |"]),
    # ratios 1/2 and 2 at 100 and 400: equal half-way in the logarithm
    check("crossover_between", abs(tables.crossover(run, "forward") - 200) < 1e-6 and "forward n 200" in of("crossover")),
    check("crossover_never", tables.crossover(run, "both") == math.inf and "in part" in of("crossover")),
    check("crossover_from_the_start", tables.crossover(dict(run, rows=[r for r in run["rows"] if r.get("n") != 100]), "forward") == 400),
    check("in_part", "iid 0.5x (0.5x to 0.5x); clustered 7.0x | in part |" in of("forward + backward")),
    check("not_measured", of("the same, n 400, bf16").endswith("| not measured | not measured |")),
    check("both_precisions", "float32 20.0x; bf16 40.0x | yes |" in of("layer of BERT")),
    check("hash_share", "int16-dp 90% | yes |" in of("hash projection") and tables.hash_share(dict(run["peak"], projection="f32")) == 1.8),
    check("share", "float32 110%; bf16 80%; of the peak: float32 90%; bf16 70% | in part |" in of("products of the layer")),
    check("bound_from_above", "<= 1.00 GiB | 0.50 GiB | yes |" in of("1000 tokens") and "50% | no |" in of("the same: share")),
    check("column_of_the_machine", "| 2.0x (1.0x to 18.0x) | >= 30x | not measured here |" in tables.figures_table(with_amx)[0]),
    check("lha_over_softmax", "forward 9.0x (4.5x to 12.0x); forward + backward with its loss 3.0x (3.0x to 5.0x) | in part |" in of("`lha` with 64")),
    check("lha_memory_is_linear", "<= 1.05 | 1.00 | yes |" in of("the same: memory of a token") and "| 400 | 4.0 | 4.0 | 16.0 |" in text),
    check("lha_memory_grows", tables.memory_growth(dict(run, lha_memory=[run["lha_memory"][0], dict(run["lha_memory"][1], n=200)])) == 2),
    check("lha_utility_beside_time", "of 25.0% of all pairs: learned 60.0%, LSH 30.0%, asymmetric LSH (SMYRF) 20.0%; upper bound 80.0%." in text),
    check("over_lha", "forward, ms | over lha |" in text and "| 400 | SOFTMAX | float32 | 9 | 9x | 20 | 3x |  |" in text),
    check("short_rows_are_named", len(tables.figures_table(run)[1]) == len(cells) - 5),
    check("nothing_measured", all(line.endswith("| not measured |") for line in tables.figures_table(dict(bare, peak={}, lha_memory=[], stream={"seq_len": 1}, files={"tokens": 1}))[0].split("\n")[2:])),
    check("short_rows_are_listed", "Short of the aim, or not measured: forward, n 400, float32, against SDPA float32; " in text),
    check("error_beside_time", "| 400 | NYSTROM | float32 | 3 | 3x | - | - | 0.50 / 1e-04 / 0 to softmax |" in text),
    check("missing_is_named", "- ours (bf16): not there" in text and "onnxruntime absent" in text),
    check("page", page.startswith("before\n<!-- peers: begin -->\n") and page.endswith("<!-- peers: end -->\nafter\n") and "old" not in page and text in page),
    check("page_without_marks", refused),
]
sys.exit(0 if all(good) else 1)
P
python3 made.py "$source_dir" || failures=1
finish
