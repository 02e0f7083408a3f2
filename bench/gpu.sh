#!/bin/sh
# The first run on a GPU, in at most SECONDS (420): the tests of tests/gpu on its driver, compute-sanitizer on the smallest
# of them, then forward and backward of yoso by length, width, hashes and precision, beside PyTorch's SDPA if a Python with
# torch and CUDA is there (bench/gpu_sdpa.py), the time of each kernel, and the rates that follow (bench/gpu_rates.py). Each
# result is a line of OUT (build/gpu.jsonl; docs/results keeps the one of a GPU). With the emulator as the driver
# (LD_LIBRARY_PATH=build/tests/gpu/plain) the sizes are small, which shows only that the script works.
# Usage: bench/gpu.sh [BUILD [OUT [SECONDS]]]; BUILD is made with `make tests GPU=1`.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build} out=${2:-$build/gpu.jsonl} end=$(($(date +%s) + ${3:-420}))
tool=$build/hashattn
left() { echo $((end - $(date +%s))); }
line() { printf '%s\n' "$1" >>"$out"; }

"$tool" info --json >"$build/gpu_info.json" || exit 1
device=$(python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d["devices"][0]["name"] if d["devices"] else "")' "$build/gpu_info.json")
[ -n "$device" ] || { echo "no GPU: $(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["no_devices"])' "$build/gpu_info.json")" >&2; exit 1; }
: >"$out"
line "{\"kind\": \"machine\", \"device\": \"$device\", \"commit\": \"$(git rev-parse --short HEAD 2>/dev/null)\"}"

# The test programs look for the emulator first, unless LD_LIBRARY_PATH names another folder.
if [ "$device" != emulator ]; then
    driver=$(dirname "$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .* => //p' | head -n 1)")
    export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
tests="codes small"
[ "$device" = emulator ] || tests="codes small forward gradients same_bits unbiased"
for test in $tests; do
    timeout 60 "$build/tests/test_gpu_$test" >"$build/gpu_test.txt" 2>&1 && result=passed || result=failed
    line "{\"kind\": \"test\", \"name\": \"test_gpu_$test\", \"result\": \"$result\"}"
done
if [ "$device" != emulator ] && command -v compute-sanitizer >/dev/null; then
    for check in memcheck racecheck; do
        timeout 40 compute-sanitizer --tool $check --error-exitcode 9 "$build/tests/test_gpu_small" >"$build/gpu_$check.txt" 2>&1 &&
            result=clean || result=failed
        line "{\"kind\": \"compute-sanitizer\", \"name\": \"$check\", \"result\": \"$result\"}"
    done
fi

# One call of the tool: heads, n, d, m, tau, precision, further options.
measure() {
    [ "$(left)" -gt 20 ] || return
    row=$(timeout "$(left)" "$tool" bench attention --device cuda --heads "$1" --seq-len "$2" --head-dim "$3" --num-hashes "$4" \
        --hash-bits "$5" --precision "$6" --backward --repeats 3 --json $7 2>"$build/gpu_error.txt") &&
        line "{\"kind\": \"yoso\", \"options\": \"$7\", \"bench\": $row}" ||
        line "{\"kind\": \"yoso\", \"heads\": $1, \"seq_len\": $2, \"error\": \"$(head -c 200 "$build/gpu_error.txt" | tr -d '"\n')\"}"
}
if [ "$device" = emulator ]; then
    measure 1 64 64 8 4 bf16 "--gradient-hashes 2 --profile"
else
    command -v python3 >/dev/null && timeout 90 python3 bench/gpu_sdpa.py >>"$out" 2>"$build/gpu_sdpa.txt"
    for n in 4096 16384 65536 262144 1048576; do
        heads=16
        [ $n -lt 262144 ] || heads=1
        measure $heads $n 64 32 9 bf16 "--gradient-hashes 8"
        measure $heads $n 64 32 9 float32 "--gradient-hashes 8"
        measure $heads $n 128 32 9 bf16 "--gradient-hashes 8"
        measure $heads $n 64 32 11 bf16 "--gradient-hashes 8"
        measure $heads $n 64 16 9 bf16 "--gradient-hashes 8"
    done
    measure 16 16384 64 32 9 bf16 ""
    measure 16 16384 64 32 9 bf16 "--causal"
    measure 16 65536 64 32 9 bf16 "--profile"
    measure 16 65536 128 32 9 float32 "--profile"
fi
python3 bench/gpu_rates.py "$out" >"$build/gpu_rates.txt" && cat "$build/gpu_rates.txt" >>"$out"
echo "$out: $(wc -l <"$out") lines, $(left) seconds left"
