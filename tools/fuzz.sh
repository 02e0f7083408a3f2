#!/bin/sh
# Runs all fuzz targets, or the named ones, under libFuzzer with ASan and UBSan: fuzz.sh SECONDS [NAME...].
# New inputs go to build-fuzz/corpus/NAME, crashing ones to build-fuzz/crash-NAME-*; the corpus in the tree is not
# changed.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
tools/setup.sh libcmocka-dev clang libclang-rt-14-dev
build=build-fuzz
tools/build.sh $build fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DHASHATTN_FUZZ=ON \
    -DHASHATTN_ONEDNN=OFF
[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
failed=0
for name; do
    mkdir -p $build/corpus/"$name"
    log=$build/fuzz-$name.log
    code=0
    $build/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix=$build/crash-"$name"- $build/corpus/"$name" tests/fuzz/corpus/"$name" >"$log" 2>&1 || code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ $code -eq 0 ]; then
        echo "$name: $runs runs in $seconds s, no failure"
    else
        echo "$name: FAILED, see $log"
        failed=1
    fi
done
exit $failed
