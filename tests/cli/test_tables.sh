#!/bin/sh
# The tables of bench/peers.py from a made-up run: ratios inside rounds, crossover, aims, missing contenders, and the page
# between its marks. No peer is needed. Planted and caught: ratios of medians instead of medians of ratios; ours over
# theirs; a crossover at the length measured instead of between two; upper bounds read as lower ones; figures of one
# work read from another; missing contenders left out; text outside the marks touched; the aim with AMX judged without it;
# lines that are not wrapped.
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
lines = [line[2:-2].split(" | ") for line in tables.aims_table(run).split("\n")[2:]]
of = lambda work, against="": next(cells[2:] for cells in lines if cells[0] == work and cells[1].startswith(against))

def check(name, good):
    print(f"[       OK ] {name}" if good else f"ERROR: {name}: {lines}\n[  FAILED  ] {name}")
    return good

bare = copy.deepcopy(run)
bare["rows"] = []
with_amx = copy.deepcopy(run)
with_amx["machine"]["amx"] = True
text = tables.document(run)
names = tables.sections(run)
marks = "".join(f"text of {name}\n<!-- peers: {name} -->\nold\n<!-- peers: end of {name} -->\n" for name in names)
with open("page.md", "w") as page:
    page.write("before\n" + marks + "after\n")
tables.fill("page.md", run)
page = open("page.md").read()
with open("bad.md", "w") as bad:
    bad.write(marks.replace("<!-- peers: lha -->", ""))
try:
    refused = tables.fill("bad.md", run) and False
except ValueError as error:
    refused = "'<!-- peers: lha -->'" in str(error) and open("bad.md").read().count("old") == len(names)
layer = "BERT-base layer, forward"
real = open(os.path.join(sys.argv[1], "docs", "PERFORMANCE.md")).read()
long = copy.deepcopy(run)
long["missing"] = [dict(work="approximation", label="L" * 60, reason="R " * 99)]
long["rows"] += [row("approximation", "yoso", dict(forward=[123.4], both=[1234.5]), n=400),
                 dict(row("approximation", "", dict(forward=[123.4], both=[1234.5]), n=400, error=dict(
                     radians=dict(a=1.23, b=1e-6, c=1.23), to="yoso-e")), label="RACE, 64 x 512 buckets, beta 4: nearest, compiled")]
long["machine"]["versions"].update((f"package-{i}", "1.2.3") for i in range(20))
good = [
    check("median_of_ratios", of("forward, n 400") == ["2.0x (1.0x to 18.0x)", ">= 30x", ">= 25x", "no"]),
    check("reached", of("forward, n 1600") == ["150.0x (75.0x to 1350.0x)", ">= 120x", ">= 100x", "yes"]),
    check("rate_over_copy", of("900 tokens from files") == ["2.00 GiB", "<= 1.00 GiB", "<= 1.00 GiB", "no"]
          and of("the same: bytes per second") == ["0.50 (0.25 to 0.75)", "-", "-", "-"]),
    # ratios 1/2 and 2 at 100 and 400: equal half-way in the logarithm
    check("crossover_between", abs(tables.crossover(run, "forward") - 200) < 1e-6
          and of("least n at which forward is faster")[0] == "n 200"),
    check("crossover_never", tables.crossover(run, "both") == math.inf
          and of("least n at which forward + backward is faster") == ["n inf", "<= n 256", "<= n 384", "no"]),
    check("crossover_from_the_start", tables.crossover(dict(run, rows=[r for r in run["rows"] if r.get("n") != 100]), "forward") == 400),
    check("inputs_apart", of("forward + backward, n 400")[0] == "0.5x (0.5x to 0.5x)"
          and of("forward + backward, n 400, clustered") == ["7.0x", ">= 6x", ">= 5x", "yes"]),
    check("not_measured", of("forward, n 400, bf16 in and out")[0] == of("forward, n 400, bf16 in and out")[3] == "not measured"),
    check("both_precisions", of(layer, "transf") == ["20.0x", ">= 18x", ">= 18x", "yes"]
          and of(layer + ", bf16", "transf") == ["40.0x", ">= 30x", ">= 40x", "yes"]),
    check("hash_share", of("hash projection, int16-dp") == ["90%", ">= 80%", ">= 80%", "yes"]
          and tables.hash_share(dict(run["peak"], projection="f32")) == 1.8),
    check("share", [of("products of the layer" + p, against)[i] for p in ("", ", bf16") for against in ("the product lib", "product peak")
                    for i in (0, 3)] == ["110%", "yes", "90%", "-", "80%", "no", "70%", "-"]),
    check("bound_from_above", of("1000 tokens from a callback") == ["0.50 GiB", "<= 1.00 GiB", "<= 1.00 GiB", "yes"]
          and of("the same: share of time with all threads busy")[::3] == ["50%", "no"]),
    check("aim_of_the_machine", of("forward + backward, n 400, clustered")[3] == "yes" and "| >= 6x | yes |" in tables.summary_table(run)
          and "| 7.0x | >= 5x | yes |" in tables.summary_table(with_amx)),
    check("verdict_of_the_machine", "| 40.0x | >= 30x | >= 40x | yes |" in tables.aims_table(with_amx)
          and [a.reached(amx) for a in [tables.Aim("", "", 5.0, 6, 4)] for amx in (False, True)] == ["no", "yes"]),
    check("ten_rows", len(tables.summary_table(run).split("\n")) == 12),
    check("lha_over_softmax", of("`lha`, 64 buckets, n 400, forward") == ["9.0x (4.5x to 12.0x)", ">= 8x", ">= 8x", "yes"]
          and of("`lha`, 64 buckets, n 400, forward + backward, loss")[0::3] == ["3.0x (3.0x to 5.0x)", "no"]),
    check("lha_memory_is_linear", of("`lha`, memory of a token, longest n") == ["1.00", "<= 1.05", "<= 1.05", "yes"]
          and "| 400 | 4.0 | 4.0 | 16.0 |" in text),
    check("lha_memory_grows", tables.memory_growth(dict(run, lha_memory=[run["lha_memory"][0], dict(run["lha_memory"][1], n=200)])) == 2),
    check("lha_utility_beside_time", "with 25.0% of all pairs: learned 60.0%, LSH 30.0%, asymmetric LSH (SMYRF) 20.0%; upper bound 80.0%."
          in " ".join(text.split())),
    check("over_lha", "| contender | forward, ms | over lha |" in text and "| SOFTMAX | 9 | 9x | 20 | 3x |" in text),
    check("a_row_a_length", "| 400 | 2 | - | 4 | - | 2x |" in names["length"] and "| 100 | 1 | - | 0.5 | - | 0.5x |" in names["length"]),
    check("nothing_measured", all(cells.endswith("| not measured |") for cells in tables.aims_table(
        dict(bare, peak={}, lha_memory=[], stream={"seq_len": 1}, files={"tokens": 1})).split("\n")[2:])),
    check("not_measured_sections", tables.sections(bare)["layer"] == "Not measured in this run."),
    check("error_beside_time", "| NYSTROM | 3 | 3x | - | - | 0.50 / 1e-04 / 0 to softmax |" in text),
    check("missing_is_named", "- ours (bf16): not there" in text and "onnxruntime absent" in " ".join(text.split())),
    check("page", all(f"text of {name}\n<!-- peers: {name} -->\n{part}\n<!-- peers: end of {name} -->\n" in page for name, part in names.items())
          and page.startswith("before\n") and page.endswith("\nafter\n") and "old" not in page),
    check("page_without_a_mark", refused),
    check("marks_of_the_real_page", all(real.count(f"<!-- peers: {mark}{name} -->") == 1 for name in names for mark in ("", "end of "))),
    check("short_lines", max(len(line) for each in (long, dict(bare, n=4096)) for line in tables.document(each).split("\n")) <= 120),
]
sys.exit(0 if all(good) else 1)
P
python3 made.py "$source_dir" || failures=1
finish
