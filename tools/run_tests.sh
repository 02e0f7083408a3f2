#!/bin/sh
# Runs the tests of a build folder: through ctest, except those that match the pattern LEAVE_OUT, and those of the Python
# package, unless the build has sanitizers, which Python does not load. FLOORS: only the test programs of these folders of
# tests/, "kernels|parts". The last line is "N passed, N failed", where each test function counts.
set -u
build=${1:-build}
log=$build/Testing/log.txt
mkdir -p "$build/Testing"
python=$build/Testing/python_result.txt
if [ -n "${HASHATTN_SANITIZED:-}${FLOORS:-}" ]; then
    echo "0 passed, 0 failed" >"$python"
else
    tools/run_python_tests.sh "$build" >"$python" & # on one core, so beside the others
fi
ctest --test-dir "$build" ${FLOORS:+-L "^($FLOORS)\$"} -E "${LEAVE_OUT:-^$}" -j "$(nproc)" --output-on-failure -V >"$log" 2>&1
code=$?
wait
# ctest repeats the output of a program that fails, without the number in front.
passed=$(grep -cE '^[0-9]+: \[ +OK +\]' "$log")
failed=$(grep -oE '^[0-9]+: \[ +FAILED +\] [A-Za-z_0-9]+$|^ *[0-9]+/[0-9]+ Test +#.*(\*\*\*Exception|\*\*\*Timeout|\*\*\*Not Run)' "$log" | sort -u | wc -l)
[ $code -eq 0 ] || { grep -E '\*\*\*|\[  ERROR|\[  FAILED|Error:|^[0-9]+: .*(ERROR|error:|got|WARNING)' "$log" | head -60 >&2; [ "$failed" -gt 0 ] || failed=1; }
grep -oE 'SKIPPED: .*' "$log" | sort | uniq -c | sed 's/^ *//' || true
sed '$d' "$python"
count=$(tail -n 1 "$python")
passed=$((passed + ${count%% passed*}))
count=${count#* passed, }
failed=$((failed + ${count%% failed}))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
