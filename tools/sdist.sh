#!/bin/sh
# Makes the source distribution of the Python package, BUILD/sdist/hashattn-*.tar.gz, and builds a package from it alone, with the
# libraries of this system, whose tool runs.
set -eu
build=${1:-build}
mkdir -p "$build"
tools/python_env.sh "$build/sdist-env" "${PYTHON:-python3}" build twine
rm -rf "$build/sdist" "$build/sdist-try"
"$build/sdist-env/bin/python" -m build --sdist --outdir "$build/sdist" . >"$build/sdist.log" 2>&1 || { cat "$build/sdist.log" >&2; exit 1; }
"$build/sdist-env/bin/python" -m twine check --strict "$build"/sdist/*.tar.gz >"$build/sdist.log" || { cat "$build/sdist.log" >&2; exit 1; }
"$build/sdist-env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$build/sdist-try" \
    "$build"/sdist/*.tar.gz
"$build/sdist-try/hashattn/bin/hashattn" info >/dev/null
rm -rf "$build/sdist-try"
ls "$build"/sdist/*.tar.gz
