#!/bin/sh
# `report`: one page without network, with the values of the logs and results in tables behind named axes; runs that are
# broken, in training or of another version are rows of the summary; text of runs is escaped; its commands repeat the runs.
# Planted and caught: labels written unescaped; an axis without a unit; the last line of a cut log ends the report; a null
# value ends its curve; the columns of a comparison exchanged; runs of other tasks in a figure; a seed that makes a model of
# its own; a usual option in a name, and none for a run that lacks it; an option that all runs of an attention have in a
# name; one that only some of them have left out; a run that is not finished in a mean; models in the order of the runs, and of
# the letters of their numbers; runs of two data sets, or of two metrics, in one cell; a seed counted twice; eval-every in a
# name; a flag with a value; the options of a stored model compared with those of the task.
# Covers: cmd_report.c heat.c draw_yoso.c read_run.c read_results.c run_command.c group_runs.c write_summary.c write_models.c
# write_curves.c write_confusion.c draw_buckets.c html.c plot.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 4 --threads 1"

cat >page.py <<'P'
"""A page as figures and tables. Void and implied end tags are those that the page uses."""
import html.parser
class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.open, self.words, self.tags, self.figures, self.rows = [], "", [], [], []
        text = open(path, encoding="utf-8").read()
        self.size = len(text.encode())
        self.feed(text)
        self.close()
    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "figure":
            self.figures.append({"axes": [], "caption": "", "label": None, "class": attributes.get("class")})
        if tag == "svg" and attributes.get("role") == "img":
            self.figures[-1]["label"] = attributes.get("aria-label")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.open.append((tag, attributes))
        if tag in ("meta", "path", "circle", "br"):
            self.open.pop()
    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass
    def handle_data(self, data):
        self.words += data if not self.open or self.open[-1][0] not in ("style", "script") else ""
        if self.open and self.open[-1][0] == "text" and self.open[-1][1].get("class") == "axis":
            self.figures[-1]["axes"].append(data)
        elif self.open and self.open[-1][0] == "figcaption":
            self.figures[-1]["caption"] += data
        elif self.open and self.open[-1][0] in ("td", "th"):
            self.rows[-1][-1] += data
    def summary(self):
        head = next(r for r in self.rows if r and r[0] == "run")
        return {r[0].strip(): dict(zip(head, [c.strip() for c in r])) for r in self.rows if len(r) == len(head) and r != head}
P

# page NAME FILE CODE: python code about the page p, as checks.
page() { name=$1 file=$2; shift 2; python3 - "$file" >told 2>&1 <<P
import json, re, sys
sys.path.insert(0, ".")
from page import Page
p = Page(sys.argv[1])
raw = open(sys.argv[1], encoding="utf-8").read()
def table(caption):
    part = raw[raw.index("<figcaption>" + caption + "</figcaption>"):]
    part = part[:part.index("</figure>")]
    return {re.split(r"\n", b)[0]: [tuple(x.split("<td>")) for x in re.findall(r"<tr><td>(.*)", b)]
            for b in part.split('scope="rowgroup">')[1:]}
def stopped(name):
    return p.summary()[name]["state"]
$*
P
if [ $? = 0 ]; then passed "$name"; else failed "$name" "$(tail -n 3 told)"; fi; }

# ---- runs and results ----
"$tool" data needle --out d --train 40 --valid 12 --test 5 --seq-len 16 --marks 4 --seed 3 --quiet
"$tool" train needle --data d --out r1 --steps 30 --eval-every 10 --seed 4 --hash-bits 5 $tiny --quiet
mkdir tsv
for i in 1 2 3 4 5 6 7 8; do printf '<script>alert(1)</script>\tone & two\n"b"\tthree\n'; done >tsv/train.tsv
cp tsv/train.tsv tsv/valid.tsv
"$tool" train text --data tsv --out 'r<2>' --epochs 3 --eval-every 2 --attention softmax $tiny --quiet
"$tool" train needle --data d --out mixed --steps 10 --eval-every 5 --attention local,lha --lha.num-buckets 4 --no-causal --precision float32 $tiny --quiet
for n in 64 128; do
    "$tool" bench attention --seq-len $n --heads 2 --backward --repeats 1 --num-hashes 8 --threads 1 --json
    "$tool" bench layer --dim 16 --heads 2 --ffn 16 --seq-len $n --repeats 1 --threads 1 --json
done >bench.json
"$tool" bench error --seq-len 64 --num-hashes 8,16,32 --heads 1 --seeds 1 --json >error.json
"$tool" bench peak --seconds 0.01 --threads 1 --json >peak.json
"$tool" inspect mixed --examples 1 --json >inspect.json
"$tool" eval r1 --split valid --json >eval.json
cat >peers.json <<'P'
{
  "machine": {"kind": "Zen 9", "processor": "<b>chip</b>", "threads": 2, "versions": {"torch": "2"}},
  "n": 4096,
  "rows": [{"work": "length", "n": 128, "input": "iid", "label": "PyTorch SDPA", "precision": "float32",
            "ms": {"forward": [4.0, 2.0, 3.0], "both": [9.0]}, "memory": {"forward": 1048576, "both": 3145728}},
           {"work": "mechanisms", "label": "Nystromformer", "precision": "bf16", "ms": {"forward": [7.0]}}]
}
P
"$tool" train needle --data d --out plain --steps 4 --causal --no-attention-biases $tiny --quiet
"$tool" train needle --data d --out onwards --from plain --no-causal --steps 4 --batch 4 --threads 1 --quiet
run report plain onwards --out flags.html
cp -r onwards longer && "$tool" train --resume longer --steps 6 --quiet
run report longer --out longer.html
holds a_plan_that_changed_is_told grep -q "# planned for fewer steps, and changed at step 4" longer.html
run report r1 'r<2>' mixed --bench bench.json error.json --bench peak.json --bench inspect.json --bench eval.json --bench peers.json --out report.html
[ "$code" = 0 ] && [ "$(cat err)" = "report.html: 3 runs, 6 results" ] && [ ! -s out ] && passed writes_a_page || failed writes_a_page "$code: $(cat err)"

page needs_no_network report.html '
assert not re.search(r"(?:src|href|action|data)=\"?(?!#)[a-z]+:|@import|url\(", raw) and "http" not in raw.replace("http-equiv", ""), "reference"
policy = [a["content"] for t, a in p.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
assert len(policy) == 1 and policy[0].startswith("default-src '"'none'"'")'
page text_is_escaped report.html '
assert raw.count("<script") == 1 and "&lt;script&gt;alert(1)&lt;/script&gt;" in raw and "<b>chip" not in raw and "Zen 9" in raw
assert "&quot;b&quot;" in raw and "r&lt;2&gt;" in raw'
page pictures_have_axes_and_tables report.html '
plots = [f for f in p.figures if f["class"] == "plot"]
assert len(plots) >= 12, len(plots)
for f in plots:
    assert len(f["axes"]) == 2 and all(re.fullmatch(r".+ \(.+\)", a) for a in f["axes"]), f
    assert f["label"] and f["label"].startswith(f["caption"]), f
assert raw.count("<details><summary>Table</summary>") == len(plots)
for t, a in p.tags:
    assert t != "svg" or a.get("role") == "img" or a.get("aria-hidden") == "true"'
page values_of_the_log report.html '
log = [json.loads(l) for l in open("r1/log.jsonl")]
curve = {k.split(" (")[0]: v for k, v in table("needle: validation loss over steps").items()}
assert curve["r1"] == [(str(r["step"]), "%.6g" % r["valid_loss"]) for r in log if "valid_loss" in r], curve
times = {k.split(",")[0]: v for k, v in table("needle: validation accuracy over training time").items()}
assert times["r1 (yoso"] == [("%.9g" % r["seconds"], "%.6g" % r["valid_accuracy"]) for r in log if "valid_loss" in r], times
assert set(curve) == {"r1", "mixed"}, curve
assert any(k.startswith("mixed (local,lha") for k in table("needle: training lha.own loss over steps"))'
page summary_of_runs report.html '
log = [json.loads(l) for l in open("r1/log.jsonl")]
row, last = p.summary()["r1"], [r for r in log if "best_loss" in r][-1]
assert (row["task"], row["data"], row["model"].split(",")[0], row["state"], row["step"], row["seed"]) == ("needle", "d", "yoso", "finished", "30", "4"), row
assert row["best (valid)"] == "%.4f accuracy" % last["best_accuracy"] and row["loss (valid)"] == "%.4f" % last["valid_loss"], row
assert row["parameters"] == str(log[0]["parameters"]) and float(row["peak (MiB)"]) == round(last["rss_bytes"] / 2**20)'
page values_of_bench report.html '
rows = [json.loads(l) for l in open("bench.json")]
heads = [r for r in rows if "head_dim" in r]
forward, both, memory = (table("Attention: " + c) for c in
    ("forward time over length", "time of both passes over length", "memory over length"))
name = "yoso, num_hashes 8, iid"
assert forward[name] == [(str(r["seq_len"]), "%.6g" % r["forward_ms"]) for r in heads], forward
assert both[name] == [(str(r["seq_len"]), "%.6g" % (r["forward_ms"] + r["backward_ms"])) for r in heads], both
assert memory[name] == [(str(r["seq_len"]), "%.6g" % ((r["saved_bytes"] + r["scratch_bytes"]) / 2**20)) for r in heads], memory
assert forward["PyTorch SDPA, iid"] == [("128", "3")] and forward["Nystromformer, bf16"] == [("4096", "7")], forward
assert both["PyTorch SDPA, iid"] == [("128", "9")] and memory["PyTorch SDPA, iid"] == [("128", "3")]
assert [x for x, _ in table("One layer: time over length")["yoso"]] == ["64", "128"]
errors = [json.loads(l) for l in open("error.json")]
assert table("Error of yoso over the number of hashes")["n 64, tau 9, iid"] == [(str(r["num_hashes"]), "%.6g" % r["radians"]) for r in errors]
assert "float32_gflops" in raw'
page values_of_inspect report.html '
d = json.load(open("inspect.json"))
found = table(re.search(r"<figcaption>([^<]*share of full attention[^<]*)<", raw)[1])
for key, of in (("own", "own"), ("lsh", "lsh"), ("bound: the best keys", None)):
    want = [h["own"]["bound"] if of is None else h[of]["utility"] for h in d["heads"]]
    assert [y for _, y in found[key]] == ["%.6g" % (100 * w) for w in want], (key, found[key], want)
sizes = table(re.search(r"<figcaption>(Tokens by their best bucket[^<]*own[^<]*)<", raw)[1])
assert [y for _, y in sizes["queries"]] == [str(b[0]) for b in d["heads"][0]["own"]["buckets"]]'
page confusion_of_eval report.html '
d = json.load(open("eval.json"))
want = [[str(c) for c in row] for row in d["confusion"]]
cells = re.findall(r"<tr><th scope=\"row\">[^<]*((?:<td(?: class=\"z\")? style=\"--v:[0-9.]+\">\d+)+)", raw[raw.index("needle with yoso, valid"):])
assert [re.findall(r">(\d+)", c) for c in cells][:len(want)] == want, (cells, want)
assert sum(map(sum, d["confusion"])) == d["examples"] == 12
assert abs(sum(d["confusion"][i][i] for i in range(len(want))) / 12 - d["accuracy"]) < 1e-9'

# The commands repeat the runs: the same config.json and the same losses.
mkdir again
cat >commands.py <<'P'
import html, re
raw = open("report.html", encoding="utf-8").read()
lines = html.unescape(re.search(r"<pre>(.*?)</pre>", raw, re.S)[1]).strip().split("\n")
assert len(lines) == 3 and all(l.startswith("hashattn train ") for l in lines), lines
assert "--dropout" not in lines[0] and "--steps 30" in lines[0] and "--hash-bits 5" in lines[0], lines[0]
assert "--epochs 3" in lines[1] and "--steps" not in lines[1] and "--out 'r<2>'" in lines[1], lines[1]
assert "--lha.num-buckets 4" in lines[2], lines[2]
open("again/commands.sh", "w").write("set -e\n" + "\n".join(l.replace("hashattn", '"$1"', 1) + " --threads 1 --quiet" for l in lines) + "\n")
P
holds commands_are_there python3 commands.py
(cd again && sh commands.sh "$tool") >told 2>&1 && passed commands_run || failed commands_run "$(tail -n 3 told)"
for name in r1 'r<2>' mixed; do
    holds "repeats_$name" cmp "$name/config.json" "again/$name/config.json"
    holds "repeats_losses_of_$name" sh -c 'for d in . again; do grep -o "\"valid_loss\": [^,]*" "$d/$1/log.jsonl" >"losses_$(echo $d | tr -d .)"; done; cmp losses_ losses_again' sh "$name"
done

cat >flags.py <<'P'
import html, re
raw = open("flags.html", encoding="utf-8").read()
lines = html.unescape(re.search(r"<pre>(.*?)</pre>", raw, re.S)[1]).strip().split("\n")
assert " --causal --" in lines[0] and " --no-attention-biases " in lines[0], lines[0]
assert " --from " in lines[1] and " --no-causal " in lines[1] and "--layers" not in lines[1] and "biases" not in lines[1], lines[1]
open("again/flags.sh", "w").write("set -e\n" + "\n".join(l.replace("hashattn", '"$1"', 1) + " --threads 1 --quiet" for l in lines) + "\n")
P
holds flags_are_written_as_flags python3 flags.py
(cd again && sh flags.sh "$tool") >told 2>&1 && passed commands_with_flags_run || failed commands_with_flags_run "$(tail -n 3 told)"
for name in plain onwards; do holds "repeats_$name" cmp "$name/config.json" "again/$name/config.json"; done

# ---- runs that are broken ----
for name in cut old spoilt nulls missing_log pipe_log unfinished other empty; do cp -r r1 $name; done
head -c -20 r1/log.jsonl >cut/log.jsonl
sed -i 's/"version": 2/"version": 7/' old/config.json
echo '{"format": ' >spoilt/config.json
sed -i '2s/"loss": [0-9.e-]*/"loss": null/' nulls/log.jsonl
rm missing_log/log.jsonl pipe_log/log.jsonl
mkfifo pipe_log/log.jsonl
sed -i 's/"steps": 30/"steps": 90/' unfinished/config.json
sed -i 's/hashattn run/somebody else/' other/config.json
: >empty/log.jsonl
"$tool" train needle --data d --out running --steps 10000000 $tiny --quiet &
process=$!
while [ "$(cat running/log.jsonl 2>/dev/null | wc -l)" -lt 3 ]; do kill -0 $process 2>/dev/null || break; done
run report cut old spoilt nulls missing_log pipe_log unfinished other empty running nowhere r1 r1/ again/r1 --out broken.html
kill -INT $process
wait $process
[ "$code" = 0 ] && passed broken_runs_end_no_report || failed broken_runs_end_no_report "$code: $(cat err)"
grep -qF "spoilt: not readable: spoilt/config.json: " err && passed broken_runs_are_named || failed broken_runs_are_named "$(cat err)"
page states_of_runs broken.html '
want = {"cut": "finished; 1 broken line in the log: cut/log.jsonl: line ", "old": "config.json has version 7; this version of hashattn reads 1 and 2",
        "spoilt": "not readable: spoilt/config.json: ", "nulls": "finished; 1 value is not finite", "missing_log": "no steps logged; 1 broken line in the log: missing_log/log.jsonl: cannot ",
        "pipe_log": "no steps logged; 1 broken line in the log: pipe_log/log.jsonl: is a pipe", "unfinished": "stopped at step 30 of 90",
        "other": "config.json has the format '"'somebody else'"'", "empty": "no steps logged", "running": "in training, step ", "nowhere": "not readable: there is no directory '"'nowhere'"'",
        "again/r1": "finished"}
for name, state in want.items():
    assert stopped(name).startswith(state), (name, stopped(name))
assert [x for x, y in table("Validation loss over steps")["old (yoso)"]] == ["10", "20", "30"]
assert ("10", "-") in table("Training loss over steps")["nulls (yoso)"]
assert [x for x, y in table("Training loss over steps")["nulls (yoso)"]] == ["10", "20", "30"]'

# ---- long logs, many runs ----
python3 - <<'P'
import json, math, os, shutil
for i in range(40):
    shutil.copytree("r1", f"many/n{i}")
    with open(f"many/n{i}/log.jsonl", "w") as log:
        for step in range(10, 15000, 10):
            value = {"step": step, "accuracy": 0.5, "loss": 2 + math.sin(step / 100 + i), "learning_rate": 1e-3, "gradient_norm": 1.0 + step % 7, "tokens_per_second": 1e4, "seconds": step / 7}
            if step == 7770:
                value["loss"] = 9.0
            log.write(json.dumps(value) + "\n")
            if step % 50 == 0:
                log.write(json.dumps({"step": step, "valid_accuracy": 1 - 1 / step, "valid_loss": 1 / step, "best_accuracy": .5, "seconds": step / 7}) + "\n")
P
run report many/n* --out many.html --quiet
page many_runs_fit many.html '
assert p.size < 2e6, p.size
losses = table("Training loss over steps")
assert len(losses) == 40 and all(any(y == "9" for _, y in c) for c in losses.values()), "the peak is lost"
assert all(c[0][0] == "10" and c[-1][0] == "14990" for c in losses.values())'
[ ! -s err ] && passed quiet || failed quiet "$(cat err)"

# ---- models over tasks and seeds ----
# Two tasks, a usual option, one of an attention that differs by task only, one that tells two models of one attention
# apart, and a run that lacks the usual one.
python3 - <<'P'
import json, os, shutil
def run(path, task, attention, seed, best, window=3, last=30, options={}, data=None, eval_every=10, metric="accuracy"):
    shutil.copytree("r1", path)
    config = json.load(open(f"{path}/config.json"))
    config["task"]["name"], config["training"]["seed"], config["model"]["conv_window"] = task, seed, window
    config["attention"] = {"name": attention, "options": options}
    config["data"], config["training"]["eval_every"] = data or config["data"], eval_every
    json.dump(config, open(f"{path}/config.json", "w"))
    log = [json.loads(line) for line in open("r1/log.jsonl")]
    log = [line for line in log if line.get("step", 0) <= last]
    log = [{k.replace("best_accuracy", "best_" + metric): best if k == "best_accuracy" else v for k, v in line.items()} for line in log]
    if metric != "accuracy":
        config["task"]["facts"]["objectives"][0].pop("selects", None)
        json.dump(config, open(f"{path}/config.json", "w"))
    open(f"{path}/log.jsonl", "w").writelines(json.dumps(line) + "\n" for line in log)
for task in ("needle", "listops"):
    for seed in (1, 2, 3, 4, 5):
        run(f"grid/{task}/lha/seed{seed}", task, "lha", seed, 0.5 + seed / 100, options={"num_buckets": len(task)})
        run(f"grid/{task}/exact/seed{seed}", task, "softmax", seed, 0.25)
    run(f"grid/{task}/plain/seed1", task, "softmax", 1, 0.75, window=0)
run("grid/needle/exact/seed6", "needle", "softmax", 6, 0.99, last=20)
run("grid/needle/exact/repeated", "needle", "softmax", 1, 0.35, eval_every=5)
run("sets/one", "needle", "softmax", 1, 0.25, data="/sets/one/rows")
run("sets/other", "needle", "softmax", 2, 0.75, data="/sets/other/rows")
run("sets/measure", "needle", "softmax", 3, 0.5, data="/sets/one/rows", metric="score")
run("grid/needle/more/seed1", "needle", "local", 1, 0.125)
run("grid/needle/many/seed1", "needle", "local", 1, 0.625, options={"block_size": 16})
run("grid/needle/most/seed1", "needle", "local", 1, 0.5, options={"block_size": 7})
P
run report grid/*/*/* --out grid.html
page models_by_tasks grid.html '
rows = {r[0].strip(): [c.strip() for c in r[1:]] for r in p.rows[:7]}
assert rows["model"] == ["listopsaccuracy", "needleaccuracy"], rows
mean = "0.5300 ± 0.0158 (5)"
assert rows["lha"] == [mean, mean] and rows["softmax"] == ["0.2500 ± 0.0000 (5)", "0.2600 ± 0.0224 (5)"], rows
assert rows["softmax, default conv-window"] == ["0.7500"] * 2 and rows["local"] == ["-", "0.1250"], rows
assert rows["local, block-size 7"] == ["-", "0.5000"], rows
assert [r[0].strip() for r in p.rows[1:7]] == ["lha", "local", "local, block-size 7", "local, block-size 16", "softmax", "softmax, default conv-window"], p.rows[:7]'
page figures_by_tasks grid.html '
captions = [f["caption"] for f in p.figures if f["class"] == "plot"]
assert "needle: training loss over steps" in captions and "listops: training gradient norm over steps" in captions, captions
assert "needle: training gradient norm over steps" not in captions, "15 runs have few figures"
losses = table("needle: validation loss over steps")
assert len(losses) == 16 and all(n.startswith("needle/") for n in losses), list(losses)
legends = re.findall("<ul class=.legend marks.>.*?</ul>", raw)
assert len(legends) == 1 and legends[0].count("<li") == 6, legends
lines = re.findall(r"<g class=\"[^\"]*\" data-k=\"(\d+)\">", raw[raw.index("needle: validation loss over steps"):])[:16]
assert set(lines) == set(re.findall("data-k=.(\d+)", legends[0])), (lines, legends)'
run report sets/* --out sets.html
page data_and_metrics_are_kept_apart sets.html '
rows = {r[0].strip(): [c.strip() for c in r[1:]] for r in p.rows[:2]}
assert dict(zip(rows["model"], rows["softmax"])) == {"needle, one/rowsaccuracy": "0.2500", "needle, one/rowsscore": "0.5000", "needle, other/rowsaccuracy": "0.7500"}, rows
assert [p.summary()[n]["data"] for n in ("one", "other")] == ["one/rows", "other/rows"], p.summary()
assert "needle, other/rows: validation loss over steps" in raw'
page matrices_are_folded grid.html 'assert raw.count("<details class=\"folded\"><summary>27 matrices</summary>") == 1'
page few_matrices_are_not report.html 'assert "folded\"><summary>" not in raw'

run report sets/one r1 --out json.html --json
cp out made.json
holds json_names_runs_and_page json made.json '(d["page"], [r["run"] for r in d["runs"]], d["runs"][0]["state"], d["results"]) == ("json.html", ["sets/one", "r1"], "finished", 0)'
[ ! -s err ] && passed json_alone || failed json_alone "$(cat err)"
expect json_and_page_on_stdout 2 "--json writes to stdout, so --out must name a file" report r1 --out - --json

# ---- a comparison of two runs ----
"$tool" eval r1 --split valid --against mixed --json >against.json
run report against.json --out against.html
page a_comparison_is_a_table against.html '
rows = {r[0]: [c.strip() for c in r[1:]] for r in p.rows if len(r) == 7}
found = json.load(open("against.json"))["metrics"]["loss"]
assert rows["metric"] == ["run", "against", "difference", "standard_error", "z", "p"] and set(rows) == {"metric", "accuracy", "loss"}, rows
assert all(abs(float(cell) - found[name]) < 1e-5 * abs(found[name]) for cell, name in zip(rows["loss"], rows["metric"])), rows
'

# ---- figures of the YOSO paper ----
run report --figures --out yoso.html
[ "$code$(cat err)" = "0yoso.html: figures of the YOSO paper" ] && passed figures || failed figures "$code: $(cat err)"
holds header_names_the_figures grep -q '>figures of the YOSO paper; 20' yoso.html
cat >figures.py <<'P'
import math, re
raw = open("yoso.html", encoding="utf-8").read()
def cells(caption):
    part = raw[raw.index("<figcaption>" + caption + "</figcaption>"):]
    part = part[:part.index("</figure>")]
    names = re.findall(r'class="axis"[^>]*>([^<]*)<', part)
    assert len(names) == 2 and all(re.fullmatch(r".+ \(.+\)", n) for n in names), names
    return [[float(x) for x in row.split("<td>")[1:]] for row in re.findall(r"<tr>((?:<td>[^<]*)+)", part)]
def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for r, s in zip(a, b) for x, y in zip(r, s)))
for what, rows, columns in (("Output on the sphere", 30, 60), ("Attention matrix", 64, 64)):
    found = {n: cells(f"{what}: {n}") for n in ("softmax", "yoso-e", "yoso, m 8", "yoso, m 64")}
    assert all(len(f) == rows and all(len(r) == columns for r in f) for f in found.values()), what
    assert distance(found["yoso, m 64"], found["yoso-e"]) < 0.6 * distance(found["yoso, m 8"], found["yoso-e"]), what
    if what == "Attention matrix":
        assert all(abs(sum(r) - 1) < 0.1 for f in ("softmax", "yoso-e") for r in found[f]), "rows sum to 1"
curve = dict(re.findall(r'scope="rowgroup">([^\n]*)((?:\n<tr>[^\n]*)+)', raw))
points = lambda name: {float(a): b for a, b in re.findall(r"<tr><td>([^<]*)<td>([^\n]*)", curve[name])}
weight, slope = points("(1 - acos(x) / pi)^tau"), points("derivative of the collision probability")
for x in (-0.5, 0.0, 0.7):
    want = (1 - math.acos(x) / math.pi) ** 8
    assert abs(float(weight[x]) / want - 1) < 1e-5, (x, weight[x], want)
    h = 1e-5
    want = ((1 - math.acos(x + h) / math.pi) ** 8 - (1 - math.acos(x - h) / math.pi) ** 8) / (2 * h)
    assert abs(float(slope[x]) / want - 1) < 1e-4, (x, slope[x], want)
P
holds figures_of_the_paper python3 figures.py

# ---- errors ----
expect no_runs 2 "report needs at least one run, --bench FILE.json or --figures" report --out x.html
expect no_out 2 "report needs --out FILE" report r1
expect bench_of_nothing 3 "nothing.json: cannot open" report r1 --bench nothing.json --out x.html
echo '{"hello": 1}' >hello.json
expect bench_of_something_else 3 "hello.json: record 1 is no result of hashattn bench, eval or inspect" report --bench hello.json --out x.html
: >nought.json
expect bench_without_results 3 "nought.json: there are no results" report --bench nought.json --out x.html
printf '%s\n{"attention": "yo' "$(head -n 1 bench.json)" >half.json
i=0
while [ $i -le 1000 ]; do
    echo "{\"attention\": \"m$i\", \"head_dim\": 8, \"seq_len\": 16, \"forward_ms\": 1, \"backward_ms\": 1}"
    i=$((i + 1))
done >labels.json
expect bench_of_many_labels 3 "labels.json: record 1001: a figure has more than 1000 different labels" report --bench labels.json --out x.html
expect bench_cut 3 "half.json: line 2: byte " report --bench half.json --out x.html
expect bench_is_no_json 3 "d/train.tsv" report --bench d/train.tsv --out x.html
[ ! -e x.html ] && passed failures_leave_no_page || failed failures_leave_no_page "x.html"
expect full_disk 4 "No space left" report r1 --out /dev/full
run report --bench - --out - <bench.json
[ "$code" = 0 ] && head -c 15 out | grep -q '<!doctype html>' && passed standard_streams || failed standard_streams "$code: $(cat err)"
finish
