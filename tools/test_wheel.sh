#!/bin/sh
# Installs the wheel of a build folder into a clean environment of every Python in PYTHONS, beside NumPy, and runs the
# Python tests there: test_wheel.sh BUILD. An empty environment must already run the tool. TORCH=oldest and TORCH=newest
# install the oldest and the newest torch and transformers too, TORCH="torch==2.13.0 transformers==5.23.0" others; without
# them the tests of hashattn.torch are skipped.
set -eu
build=${1:-build}
case ${TORCH:-} in
    oldest) TORCH="torch==2.4.1 transformers==4.57.1" ;; # of the extras in pyproject.toml
    newest) TORCH="torch transformers" ;;
esac
for python in ${PYTHONS:-python3}; do
    env=$build/test-env wheel=$(ls "$build"/wheel/*"$(uname -m)".whl)
    rm -rf "$env"
    "$python" -m venv "$env"
    echo "$("$env/bin/python" --version), ${wheel##*/}"
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"
    env -u LD_LIBRARY_PATH "$env/bin/hashattn" info --json >/dev/null
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check numpy pytest ml_dtypes tqdm mypy ${TORCH:-}
    tools/run_python_tests.sh "$build" "$env/bin/python"
done
