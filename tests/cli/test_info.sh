#!/bin/sh
# `info`: what it says is JSON, complete, and agrees with itself.
# Planted and caught: a comma missing between objects; choices left out; numbers as text; a mechanism that is
# not there answered with the last one.
. "$(dirname "$0")/checks.sh"

run info --json --threads 3
cp out info.json
holds object_of_info json info.json 'd["threads"] == 3 and d["version"] == "0.1.0" and d["projection"] == "int16-dp" and d["precision"] == "float32" and d["bf16"] in ("by instruction", "by widening")'
holds mechanisms_are_there json info.json '{"softmax", "none", "yoso", "yoso-e"} <= {m["name"] for m in d["mechanisms"]}'
holds exactness_is_told json info.json '[m["exact"] for m in d["mechanisms"] if m["name"] == "yoso"] == [False]'
holds tasks_are_there json info.json '{"needle", "listops", "text"} <= {t["name"] for t in d["tasks"]}'
holds text_predicts json info.json '[(t["predicts"], t["generates"]) for t in d["tasks"] if t["name"] == "text"] == [(True, False)]'
holds instruction_sets_say_why json info.json 'all(i["runs"] == (i["why_not"] is None) for i in d["instruction_sets"]) and d["isa"] in [i["name"] for i in d["instruction_sets"] if i["runs"]]'
says words_of_info "instruction set" info

run info --attention yoso --json
cp out yoso.json
holds options_of_yoso json yoso.json '{"num_hashes", "hash_bits", "planes", "projection", "normalize", "gradient"} <= {o["name"] for o in d["options"]}'
holds defaults_are_typed json yoso.json '[o["default"] for o in d["options"] if o["name"] in ("num_hashes", "hash_bits", "planes")] == [32, 9, "orthogonal"]'
holds ranges_are_told json yoso.json '[(o["minimum"], o["maximum"]) for o in d["options"] if o["name"] == "hash_bits"] == [(1, 24)]'
holds choices_are_told json yoso.json '[o["choices"] for o in d["options"] if o["name"] == "normalize"] == [["l2", "sum", "none"]]'
holds tensors_are_told json yoso.json 'd["tensors"] == []'
says words_of_yoso "num_hashes" info --attention yoso
expect unknown_mechanism 2 "no mechanism 'yosso', there are: " info --attention yosso
finish
