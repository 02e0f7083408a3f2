#!/bin/sh
# Runs tests/python on the package of a build folder (run_python_tests.sh BUILD), or on the one that a Python has installed
# (run_python_tests.sh BUILD PYTHON). The last line is "N passed, N failed". Without a Python that has NumPy and pytest,
# and without a network to install them from, it says so and runs nothing.
set -u
build=$1 python=${2:-}
log=$build/Testing/python.txt
mkdir -p "$build/Testing"

has_packages() { "$1" -c 'import sys, numpy, pytest; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }
find_python() { # sets python
    for python in python3 /usr/bin/python3; do
        has_packages $python && return
    done
    python=$build/python-env/bin/python
    tools/python_env.sh "$build/python-env" python3 'numpy<3' 'pytest<10' ml_dtypes tqdm >"$log" 2>&1 && return
    python=/usr/bin/python3
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-numpy python3-pytest >>"$log" 2>&1 &&
        has_packages $python
}

if [ -z "$python" ]; then
    find_python || {
        echo "SKIPPED: Python tests (no Python >= 3.10 with numpy and pytest, and none can be installed: $(tail -n 1 "$log"))"
        echo "0 passed, 0 failed"
        exit 0
    }
    tools/stage_python.sh "$build"
    PYTHONPATH=$(cd "$build/python" && pwd)
    export PYTHONPATH
fi
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider -rs tests/python >"$log" 2>&1
code=$?
summary=$(grep -E '[0-9]+ (passed|failed|errors?).* in [0-9.]+s' "$log" | tail -n 1)
count() { echo "$summary" | grep -oE "[0-9]+ $1" | grep -oE '^[0-9]+' || echo 0; }
passed=$(count passed) failed=$(($(count failed) + $(count error)))
if [ $code != 0 ]; then
    grep -E '^(E  |FAILED|ERROR)' "$log" | head -n 60 >&2
    [ "$failed" -gt 0 ] || { tail -n 20 "$log" >&2; failed=1; }
fi
grep -oE '^SKIPPED .*' "$log" || true
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
