#!/bin/sh
# Puts the Python package with the library and the tool of a build folder into BUILD/python, without compiling anything.
# PYTHONPATH=BUILD/python runs it; a wheel has the same files.
set -eu
build=${1:-build}
rm -rf "$build/python"
mkdir -p "$build/python"
cp -r python/hashattn "$build/python/"
find "$build/python" -name __pycache__ -prune -exec rm -rf {} +
cmake --install "$build" --component python --prefix "$build/python/hashattn" >/dev/null
