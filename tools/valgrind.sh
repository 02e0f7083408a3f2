#!/bin/sh
# Runs the tests of a build folder under valgrind's memcheck, one line each; any finding is a failure. Our kernels and
# oneDNN's are limited to AVX2, because valgrind does not support AVX-512. Left out are tests of whole trainings and tests of
# time, threads or killed processes: memcheck runs one thread at a time, about fifty times slower. It ignores the processor
# flag that treats denormals as 0, so codes_are_exact of test_slots_pack (bf16-dp) fails without a finding.
# Tests that exceed VALGRIND_SECONDS (600) of processor time are listed as not finished.
# Usage: tools/valgrind.sh BUILD [PATTERN]
set -u
build=${1:-build} pattern=${2:-.}
slow='test_(learning|trainer|setup|training|peak|pool|step|checkpoint|models|every_mechanism|yoso_mean|simd|file|file_writer|replay)$'
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 1; }
case $(uname -m) in
x86_64) export HASHATTN_ISA=avx2 DNNL_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 ;;
esac
export CMOCKA_MESSAGE_OUTPUT=STDOUT
mkdir -p "$build/Testing"
failed=0 passed=0
for test in "$build"/tests/test_*; do
    name=$(basename "$test")
    echo "$name" | grep -qE "$pattern" || continue
    echo "$name" | grep -qE "$slow" && { echo "left out: $name"; continue; }
    log=$build/Testing/valgrind-$name.txt
    if (ulimit -t "${VALGRIND_SECONDS:-600}" && exec valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$test") >"$log" 2>&1; then
        passed=$((passed + 1))
    else
        code=$?
        [ $code = 137 ] || [ $code = 152 ] && { echo "not finished: $name"; continue; }
        failed=$((failed + 1))
        echo "failed: $name, exit code $code, $log"
        grep -m 12 '^==' "$log"
    fi
done
# The Python package, for invalid reads and writes of the library: CPython uses memory that was not set, and the C library
# compares text by words.
python=$(python3 -c 'import sys, numpy, pytest; print(sys.executable)' 2>/dev/null)
if [ -n "$python" ] && echo python | grep -qE "$pattern"; then
    log=$build/Testing/valgrind-python.txt
    tools/stage_python.sh "$build"
    if PYTHONMALLOC=malloc PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 valgrind --quiet --undef-value-errors=no \
        --fullpath-after= "$python" -m pytest -q -p no:cacheprovider tests/python/test_attention.py \
        tests/python/test_bad_input.py tests/python/test_gradients.py tests/python/test_stream.py >"$log" 2>&1 &&
        ! grep -q "($PWD/src/" "$log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: the Python package, $log"
        grep -m 12 -e '^E ' -e "($PWD/src/" "$log"
    fi
fi
echo "$passed without a finding, $failed failed"
[ "$failed" -eq 0 ]
