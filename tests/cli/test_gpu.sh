#!/bin/sh
# --device: without a driver the tool exits with 1 and names it; with the emulator of tests/gpu, `attend` and `bench attention`
# compute what the processor computes, `info` lists the device, and a profile has the kernels.
# Covers: on_device.c cmd_attend.c bench_attention.c cmd_info.c
. "$(dirname "$0")/checks.sh"
npy=$source_dir/tests/cli/npy.py
arrays="--q q.npy --k k.npy --v v.npy"
attend() { "$tool" attend "$@" >out 2>err; code=$?; }
options="--num-hashes 6 --hash-bits 3 --projection int16-dp"

# Without a driver, unless the machine has one.
if ! python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; then
    expect no_driver_for_bench 1 "no NVIDIA driver: libcuda.so.1" bench attention --device cuda --seq-len 8
    python3 "$npy" make 3
    expect no_driver_for_attend 1 "no NVIDIA driver: libcuda.so.1" attend $arrays --out y.npy --device cuda:0
    "$tool" info >words
    holds info_says_why grep -q "none  *no NVIDIA driver: libcuda.so.1" words
    "$tool" info --json >info.json
    holds info_json_says_why json info.json 'd["devices"] == [] and "no NVIDIA driver" in d["no_devices"]'
fi

emulator=$build/tests/gpu/plain
[ -e "$emulator/libcuda.so.1" ] || { echo "SKIPPED: the emulator is not built"; finish; }
export LD_LIBRARY_PATH=$emulator
"$tool" info >words
holds info_lists grep -q "cuda:0  *emulator, compute capability 9.0, 1.0 GiB" words
"$tool" info --json >info.json
holds info_json_lists json info.json 'd["devices"] == [{"device": "cuda:0", "name": "emulator", "compute_capability": "9.0", "memory_bytes": 1 << 30}]'

python3 - "$source_dir/tests/cli" <<'P'
import random, struct, sys
sys.path.insert(0, sys.argv[1])
random.seed(1)
for name in "qkvg":
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 20, 24), }"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    data = struct.pack("<960f", *(random.gauss(0, 1) for _ in range(960)))
    open(name + ".npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
P
for form in "" "--causal" "--precision bf16"; do
    name=$(echo "as_the_processor$form" | tr -c 'a-z0-9\n' _)
    attend $arrays $options $form --grad-out g.npy --grad-dir here --out y.npy
    attend $arrays $options $form --grad-out g.npy --grad-dir there --out z.npy --device cuda --json
    cp out report.json
    holds $name python3 - "$source_dir/tests/cli" "$form" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
for a, b in (("y.npy", "z.npy"), ("here/dq.npy", "there/dq.npy"), ("here/dk.npy", "there/dk.npy"), ("here/dv.npy", "there/dv.npy")):
    a, b = npy.flat(npy.read(a)), npy.flat(npy.read(b))
    assert max(abs(x - y) for x, y in zip(a, b)) <= (8e-3 if "bf16" in sys.argv[2] else 1e-5) * max(map(abs, a)), b
P
done
holds device_is_said json report.json 'd["device"] == "cuda" and d["saved_bytes"] > 0'
expect only_yoso 2 "softmax is not computed on a device, only: yoso" attend --attention softmax $arrays --out y.npy --device cuda
expect no_chunks 2 "--chunk computes on the processor, but --device is cuda" attend $arrays --out y.npy --device cuda --chunk 4
expect no_such_device 2 "device is 'gpu', allowed are cpu, cuda and cuda:N" bench attention --device gpu --seq-len 8
"$tool" bench attention --device cuda --seq-len 40 --heads 1 --head-dim 32 $options --backward --repeats 1 --json >there.json
"$tool" bench attention --device cpu --seq-len 40 --heads 1 --head-dim 32 $options --backward --repeats 1 --json >here.json
holds bench_on_device json there.json 'd["device"] == "cuda" and d["backward_ms"] > 0 and d["scratch_bytes"] > 0'
python3 -c 'import json; a, b = (json.load(open(f))["error_radians"] for f in ("here.json", "there.json")); assert abs(a - b) < 1e-4 and a > 0.1, (a, b)' && passed same_error || failed same_error
# A call with a profile: each kernel that ran has a time, and their rates follow.
"$tool" bench attention --device cuda --seq-len 40 --heads 1 --head-dim 32 $options --backward --repeats 1 --profile --json >profile.json
holds kernels_have_times json profile.json 'set("take hash build_32_3 read pairs_f32 sort give_output".split()) <= {k["kernel"] for k in d["kernels"]} and all(k["ms"] > 0 for k in d["kernels"])'
python3 -c 'import json; print(json.dumps({"kind": "yoso", "bench": json.load(open("profile.json"))}))' >rows.jsonl
python3 "$source_dir/bench/gpu_rates.py" rows.jsonl >rates.jsonl
holds rates_follow json rates.jsonl 'd["kind"] == "rates" and d["shared_additions_g"] > 0 and d["gathered_gb"] > 0 and d["byte_products_t"] > 0'
# The first run on a GPU, from what it packs for a bare machine: a line for each result and for what is left out.
if [ -e "$build/tests/test_gpu_small" ]; then
    sh "$source_dir/bench/gpu_pack.sh" "$build" pack >/dev/null
    sh "$source_dir/bench/gpu.sh" "$PWD/pack" "$PWD/gpu.jsonl" 300 >/dev/null 2>&1
    holds gpu_script python3 - <<'P'
import json
rows = [json.loads(line) for line in open("gpu.jsonl")]
assert [row["kind"] for row in rows] == ["machine", "test", "compute-sanitizer", "sdpa", "yoso", "rates"], rows
assert rows[0]["device"] == "emulator" and rows[0]["commit"] and rows[1]["result"] == "passed", rows
assert rows[2]["skipped"] and rows[3]["skipped"] and rows[4]["bench"]["backward_ms"] > 0 and rows[5]["gathered_gb"] > 0, rows
P
    holds gpu_script_keeps_what_tests_print grep -q "OK \] test_small" gpu.jsonl.log
    # A test that fails, whose output is no text of JSON, leaves the rest.
    printf '#!/bin/sh\nprintf "bad\\tnumbers\\n"; exit 3\n' >pack/tests/test_gpu_small
    sh "$source_dir/bench/gpu.sh" "$PWD/pack" "$PWD/gpu.jsonl" 300 >/dev/null 2>&1
    holds gpu_script_goes_on python3 - <<'P'
import json
rows = [json.loads(line) for line in open("gpu.jsonl")]
assert rows[1]["result"] == "failed: bad numbers " and rows[4]["bench"]["backward_ms"] > 0, rows
P
    "$tool" info --json >info.json
    (unset LD_LIBRARY_PATH; sh "$source_dir/bench/gpu.sh" "$PWD/pack" "$PWD/none.jsonl" 300 >/dev/null 2>words) && code=0 || code=$?
    holds gpu_script_without_a_driver sh -c '[ "$1" = 1 ] && grep -q "^no GPU: no NVIDIA driver" words' sh $code
fi
expect profile_needs_a_device 2 "--profile needs --device cuda" bench attention --seq-len 8 --profile
finish
