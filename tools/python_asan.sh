#!/bin/sh
# Builds the library and the tool with ASan and UBSan in build-address-undefined, and runs tests/python on them with the
# sanitizer's runtime preloaded into a Python that has NumPy and pytest: python_asan.sh [PYTHON]. Any finding ends the process,
# so the run fails. Leaks are not looked for, because CPython keeps memory to its end. Left out are tests of time, of resident
# memory, which ASan keeps after it is freed, and mypy. Tests of hashattn.torch are skipped unless PYTHON has PyTorch.
set -eu
python=${1:-python3}
build=build-address-undefined
"$python" -c 'import numpy, pytest' || { echo "$python has no NumPy or no pytest" >&2; exit 1; }
tools/build.sh $build tool -DCMAKE_BUILD_TYPE=Release -DHASHATTN_SANITIZE=address,undefined
tools/stage_python.sh $build
# PyTorch throws C++ exceptions, which ASan only intercepts if the C++ library is there from the start.
runtime="$(readlink -f "$(cc -print-file-name=libasan.so)") $(readlink -f "$(cc -print-file-name=libstdc++.so.6)")"
log=$build/Testing/python.txt
mkdir -p $build/Testing
code=0
LD_PRELOAD=$runtime PYTHONPATH=$PWD/$build/python PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 \
    ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    "$python" -m pytest -q -p no:cacheprovider --capture=sys -rs tests/python \
    -k 'not types_agree and not takes and not objects_are_freed' >$log 2>&1 || code=$?
grep -E '^(E  |FAILED|ERROR|SKIPPED|SUMMARY)' $log | head -n 60 || true
tail -n 1 $log
exit $code
