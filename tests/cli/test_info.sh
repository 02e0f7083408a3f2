#!/bin/sh
# `info`: its JSON is valid, complete and consistent with the text.
# Planted and caught: a comma missing between objects; choices left out; numbers as text; an unknown mechanism answered with
# the last one; tensors of the default options instead of the given ones; only the first option used; the width of a head
# left out of shapes; the commit of an earlier build; the system's name without its release; a departure that the table
# of docs/results does not have, or has in other words, or in another row; departures left out of the text.
# Covers: cmd_info.c json_out.c facts_out.c
. "$(dirname "$0")/checks.sh"

run info --json --threads 3
cp out info.json
holds object_of_info json info.json 'd["threads"] == 3 and d["version"] == "0.1.0" and d["projection"] == "int16-dp" and d["precision"] == "float32" and d["bf16"] in ("by instruction", "by widening")'
holds mechanisms_are_there json info.json '{"softmax", "none", "yoso", "yoso-e"} <= {m["name"] for m in d["mechanisms"]}'
holds exactness_is_told json info.json '[m["exact"] for m in d["mechanisms"] if m["name"] == "yoso"] == [False]'
holds tasks_are_there json info.json '{"needle", "listops", "text"} <= {t["name"] for t in d["tasks"]}'
holds text_predicts json info.json '[(t["predicts"], t["generates"]) for t in d["tasks"] if t["name"] == "text"] == [(True, False)]'
holds instruction_sets_say_why json info.json 'all(i["runs"] == (i["why_not"] is None) for i in d["instruction_sets"]) and d["isa"] in [i["name"] for i in d["instruction_sets"] if i["runs"]]'
# The facts are those of the build and of this machine.
if commit=$(git -C "$source_dir" rev-parse --short=12 HEAD 2>/dev/null) && [ "$(git -C "$source_dir" rev-parse --show-toplevel)" = "$source_dir" ]; then
    holds commit_is_that_of_the_source json info.json "d['commit'].removesuffix('-modified') == '$commit'"
else
    holds no_commit_outside_git json info.json 'd["commit"] == ""'
fi
holds compiler_and_flags json info.json '" -O" in d["compiler"] or "Debug" in d["compiler"]'
holds libraries_have_versions json info.json '__import__("re").fullmatch(r"jansson [0-9.]+, utf8proc [0-9.]+", d["libraries"])'
holds system_is_that_of_uname json info.json "d['system'].startswith('$(uname -s) $(uname -r) $(uname -m)')"
# The text says the same as the JSON: every line is compared, and there are no others.
"$tool" info --threads 3 >words
cat >want.py <<'P'
import json
d = json.load(open("info.json"))
print(f"hashattn {d['version']}\n")
for name in ("commit", "compiler", "libraries", "system"):
    print(f"{name:<18}{d[name] or 'unknown'}")
print(f"processor         {d['processor'] or 'unknown'}, 3 threads\ncaches            {d['caches'] or 'unknown'}")
print(f"products          {d['products']}, {d['precision']}; bf16 {d['bf16']}; hash projection {d['projection']}")
print(f"instruction set   {d['isa']}")
for i in d["instruction_sets"]:
    print(f"  {i['name']:<14}  {i['why_not'] or 'runs here'}")
print("\ndevices")
for i in d["devices"]:
    print(f"  {i['device']:<14}  {i['name']}, compute capability {i['compute_capability']}, {i['memory_bytes'] / 2 ** 30:.1f} GiB")
if not d["devices"]:
    print(f"  none            {d.get('no_devices', 'the NVIDIA driver finds no GPU')}")
for kind in ("mechanisms", "tasks"):
    print("\n" + kind)
    for m in d[kind]:
        print(f"  {m['name']:<14}  {m['summary']}")
print("\nhashattn info --attention NAME   options, departures and tensors of a mechanism")
P
python3 want.py >want
holds words_are_those_of_the_json diff want words
"$tool" info --threads 1 >words
holds one_thread_is_one grep -q ", 1 thread$" words
"$tool" info --isa ref >words
holds the_set_that_was_asked_for grep -qx "instruction set   ref" words

run info --attention yoso --json
cp out yoso.json
holds options_of_yoso json yoso.json '{"num_hashes", "hash_bits", "planes", "projection", "normalize", "gradient"} <= {o["name"] for o in d["options"]}'
holds defaults_are_typed json yoso.json '[o["default"] for o in d["options"] if o["name"] in ("num_hashes", "hash_bits", "planes")] == [32, 9, "orthogonal"]'
holds ranges_are_told json yoso.json '[(o["minimum"], o["maximum"]) for o in d["options"] if o["name"] == "hash_bits"] == [(1, 24)]'
holds choices_are_told json yoso.json '[o["choices"] for o in d["options"] if o["name"] == "normalize"] == [["l2", "sum", "none"]]'
holds tensors_are_told json yoso.json 'd["tensors"] == []'
holds kinds_of_mechanisms json info.json '{"yoso", "lha", "lsh"} <= {m["name"] for m in d["mechanisms"] if not m["exact"]} and {"softmax", "yoso-e"} <= {m["name"] for m in d["mechanisms"] if m["exact"]}'
holds kinds_of_tasks json info.json '[(t["name"], t["generates"], t["predicts"], t["preset_lra"]) for t in d["tasks"]] == [("needle", True, False, False), ("listops", True, True, True), ("text", False, True, True), ("retrieval", False, True, True), ("lm", False, False, False), ("mlm", False, False, False), ("glue", False, True, False), ("image", False, True, True), ("pathfinder", True, True, True), ("forecast", False, True, False)]'
"$tool" info --attention yoso >words
python3 - words <<'P' >told 2>&1
import json, sys
d = json.load(open("yoso.json"))
text = lambda o: str(o["default"]).lower() if o["type"] in ("flag", "choice") else f"{o['default']:.12g}"
want = [f"{d['name']}: {d['summary']}"] + [f"  {o['name']:<16}  {o['help']} (default {text(o)})" for o in d["options"]]
want += [f"  departure: {each}" for each in d["departures"]]
assert d["departures"]
assert open(sys.argv[1]).read().splitlines() == want, want
assert (d["exact"], d["name"]) == (False, "yoso")
P
holds words_of_yoso_are_those_of_the_json sh -c '[ ! -s told ] || { cat told; exit 1; }'
says words_of_yoso "num_hashes" info --attention yoso
# Departures from papers: `info` and the column "here" of the table `departures` have the same sentences in the same order.
for mechanism in $(python3 -c 'import json; print(*(m["name"] for m in json.load(open("info.json"))["mechanisms"]))'); do
    "$tool" info --attention "$mechanism" --json
done >every.jsonl
cat >departures.py <<'P'
import json, re, sys
lines = [line for line in map(json.loads, open(sys.argv[1], encoding="utf-8")) if line["table"] == "departures"]
about = next(line["about"] for line in lines if "about" in line)
table = [(line["row"]["mechanism"].strip("`"), line["cells"]["here"]) for line in lines if "about" not in line]
rows = [(d["name"], each) for d in map(json.loads, open("every.jsonl")) for each in d["departures"]]
for one, other, where in ((rows, table, "the table"), (table, rows, "info")):
    for name, each in one:
        assert (name, each) in other, f"{where} does not say of {name}: {each}"
assert rows == table, "info and the table have another order"
without = {d["name"] for d in map(json.loads, open("every.jsonl"))} - {name for name, _ in rows}
named = re.search(r"[^.]* have no row", about).group()
assert without == set(re.findall(r"`([a-z-]+)`", named)), without
P
python3 departures.py "$source_dir/docs/results/tables.jsonl" >told 2>&1
holds departures_are_those_of_the_table sh -c '[ ! -s told ] || { tail -n 1 told; exit 1; }'
says departures_of_reformer "departure: Queries are the keys too: the keys given are not read" info --attention reformer
# Tensors are those for the given options; attend --params accepts their names and shapes.
run info --attention lha --hash mlp --hash-width 24 --num-buckets 8 --head-dim 4 --json
cp out lha.json
holds tensors_of_hash_mlp json lha.json '{t["name"]: t["shape_per_head"] for t in d["tensors"]} == {"query_hidden": [5, 24], "query_out": [25, 8], "key_hidden": [5, 24], "key_out": [25, 8]}'
run info --attention local --relative --head-dim 4 --json
cp out local.json
holds tensors_of_local_relative json local.json 'len(d["tensors"]) > 0 and all(len(t["shape_per_head"]) == 2 and min(t["shape_per_head"]) > 0 for t in d["tensors"])'
run info --attention local --json
cp out plain.json
holds local_has_no_tensors json plain.json 'd["tensors"] == []'
says words_of_tensors "tensor query_hidden (5, 24) per head" info --attention lha --hash mlp --hash-width 24 --head-dim 4
python3 "$source_dir/tests/cli/npy.py" make 3 # (3, n, 4)
tensors() { # tensors JSON FILE: writes a safetensors file of small numbers with the tensors that JSON lists
    python3 - "$1" "$2" <<'P'
import json, struct, sys
header, data = {}, b""
for tensor in json.load(open(sys.argv[1]))["tensors"]:
    shape = [3] + tensor["shape_per_head"]
    count = shape[0] * shape[1] * shape[2]
    numbers = struct.pack(f"<{count}f", *(0.01 * (i % 17 - 8) for i in range(count)))
    header[tensor["name"]] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
    data += numbers
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data)
P
}
tensors lha.json lha.safetensors
tensors local.json local.safetensors
says attend_takes_tensors_of_hash_mlp '"attention": "lha"' attend --json --attention lha --hash mlp --hash-width 24 --num-buckets 8 --q k.npy --k k.npy --v v.npy --params lha.safetensors --out y.npy
says attend_takes_tensors_of_relative '"attention": "local"' attend --json --attention local --relative --q k.npy --k k.npy --v v.npy --params local.safetensors --out y.npy
expect info_takes_no_operand 2 "info takes no operand, got 'yoso'" info yoso
run info --attention lha --json
cp out plain.json
holds width_of_64_by_default json plain.json '[t["shape_per_head"] for t in d["tensors"]] == [[64, 16]] * 3'
expect foreign_option 2 "softmax has no option 'num_hashes'" info --attention softmax --num-hashes 4
expect option_out_of_range 2 "--hash-bits is 40, allowed are 1 to 24" info --attention yoso --hash-bits 40
expect option_without_mechanism 2 "hash is an option of mechanisms; name one with --attention NAME" info --hash mlp
says options_are_in_the_help "--hash-width" info --help
says tensors_of_lha "tensor query (10, 16) per head" info --attention lha --head-dim 10 --max-len 300
expect no_longest 2 "--max-len" info --attention lha --max-len 0
expect unknown_mechanism 2 "no mechanism 'yosso'; did you mean yoso? There are: softmax" info --attention yosso
finish
