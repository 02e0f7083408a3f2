#!/bin/sh
# The first run on a GPU, in at most SECONDS (420): the tests of tests/gpu on its driver, compute-sanitizer on the smallest
# of them, then forward and backward of yoso by length, width, hashes and precision, beside PyTorch's SDPA if a Python with
# torch and CUDA is there (bench/gpu_sdpa.py), the time of each kernel, and the rates that follow (bench/gpu_rates.py). Each
# result is a line of OUT (build/gpu.jsonl; docs/results keeps the one of a GPU), and so is what was left out, with the reason.
# OUT.log has all that the tests print. Tests and sanitizer leave 200 seconds for the times, of which profiles come first.
# With the emulator as the driver (LD_LIBRARY_PATH=build/tests/gpu/plain) the sizes are small, which shows only that the script
# works. Usage: bench/gpu.sh [BUILD [OUT [SECONDS]]]; BUILD is made with `make tests GPU=1`, or by bench/gpu_pack.sh for a machine
# that has nothing else. Python is needed for SDPA and the rates only.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build} out=${2:-$build/gpu.jsonl} measuring=200 end=$(($(date +%s) + ${3:-420}))
tool=$build/hashattn work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
left() { echo $((end - $(date +%s))); }
least() { [ "$1" -lt "$2" ] && echo "$1" || echo "$2"; }
line() { printf '%s\n' "$1" >>"$out"; }
skipped() { line "{\"kind\": \"$1\", \"skipped\": \"$2\"}"; echo "$1: skipped, $2" >&2; }
if [ -d "$build/libs" ]; then export LD_LIBRARY_PATH="$build/libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; fi

"$tool" info --json >"$work/info.json" || exit 1
device=$(sed -n 's/.*"device": "cuda:0", "name": "\([^"]*\)".*/\1/p' "$work/info.json")
[ -n "$device" ] || { echo "no GPU: $(sed -n 's/.*"no_devices": "\([^"]*\)".*/\1/p' "$work/info.json")" >&2; exit 1; }
: >"$out"
: >"$out.log"
line "{\"kind\": \"machine\", \"device\": \"$device\", \"commit\": \"$(sed -n 's/.*"commit": "\([^"]*\)".*/\1/p' "$work/info.json")\"}"

# The test programs look for the emulator first, unless LD_LIBRARY_PATH names another folder.
if [ "$device" != emulator ]; then
    driver=$( (PATH=$PATH:/sbin:/usr/sbin ldconfig -p) 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .* => //p' | head -n 1)
    [ -z "$driver" ] || export LD_LIBRARY_PATH="$(dirname "$driver")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
# Runs a command for at most so many seconds; a line with its result: kind, name, seconds, status of a finding, command.
check() {
    kind=$1 name=$2 seconds=$(least "$3" $(($(left) - measuring))) began=$(date +%s)
    shift 3
    [ "$seconds" -gt 0 ] || { skipped "$kind" "no time left for $name"; return; }
    timeout -k 5 "$seconds" "$@" >"$work/check.txt" 2>&1
    case $? in
        0) result=passed ;;
        124 | 137) result="stopped after $seconds s" ;;
        *) result="failed: $(tail -n 3 "$work/check.txt" | tr -d '"\\' | tr -c '[:print:]' ' ' | cut -c 1-300)" ;;
    esac
    { echo "---- $kind $name: $result"; cat "$work/check.txt"; } >>"$out.log"
    line "{\"kind\": \"$kind\", \"name\": \"$name\", \"result\": \"$result\", \"seconds\": $(($(date +%s) - began))}"
}
tests=small
[ "$device" = emulator ] || tests="small forward gradients codes same_bits late unbiased"
for test in $tests; do
    if [ -e "$build/tests/test_gpu_$test" ]; then check test "test_gpu_$test" 60 "$build/tests/test_gpu_$test"
    else skipped test "test_gpu_$test is not in $build"; fi
done
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
if [ "$device" = emulator ]; then skipped compute-sanitizer "the device is the emulator"
elif [ -z "$sanitizer" ]; then skipped compute-sanitizer "there is none"
else
    for tool_of in memcheck racecheck; do
        check compute-sanitizer $tool_of 40 "$sanitizer" --tool $tool_of --error-exitcode 9 "$build/tests/test_gpu_small"
    done
fi

# One call of the tool: heads, n, d, m, tau, precision, further options.
measure() {
    [ "$(left)" -gt 20 ] || { skipped yoso "no time left for $1 heads of $2 rows, d $3, m $4, tau $5, $6 $7"; return; }
    row=$(timeout -k 5 "$(left)" "$tool" bench attention --device cuda --heads "$1" --seq-len "$2" --head-dim "$3" --num-hashes "$4" \
        --hash-bits "$5" --precision "$6" --backward --repeats 3 --json $7 2>"$work/error.txt") &&
        line "{\"kind\": \"yoso\", \"options\": \"$7\", \"bench\": $row}" ||
        line "{\"kind\": \"yoso\", \"heads\": $1, \"seq_len\": $2, \"error\": \"$(head -c 200 "$work/error.txt" | tr -d '"\\' | tr -c '[:print:]' ' ')\"}"
}
if [ "$device" != emulator ]; then
    measure 16 16384 64 32 9 bf16 "--gradient-hashes 8 --profile"
    measure 16 65536 64 32 9 bf16 "--profile"
    measure 16 65536 128 32 9 float32 "--profile"
fi
if [ "$device" = emulator ]; then skipped sdpa "the device is the emulator"
elif ! command -v python3 >/dev/null; then skipped sdpa "there is no python3"
elif [ "$(left)" -le 20 ]; then skipped sdpa "no time left"
else
    timeout -k 5 "$(least 90 "$(left)")" python3 bench/gpu_sdpa.py >>"$out" 2>"$work/sdpa.txt" ||
        skipped sdpa "$(tail -n 1 "$work/sdpa.txt" | tr -d '"\\' | cut -c 1-200)"
fi
if [ "$device" = emulator ]; then
    measure 1 64 64 8 4 bf16 "--gradient-hashes 2 --profile"
else
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
fi
if command -v python3 >/dev/null; then python3 bench/gpu_rates.py "$out" >"$work/rates.txt" && cat "$work/rates.txt" >>"$out"
else skipped rates "there is no python3"; fi
echo "$out: $(wc -l <"$out") lines, $(left) seconds left"
