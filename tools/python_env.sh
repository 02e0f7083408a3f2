#!/bin/sh
# Makes a virtual environment with packages from PyPI: python_env.sh DIRECTORY PYTHON PACKAGE... One that has them is kept.
set -eu
directory=$1 python=$2
shift 2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "$python is older than 3.10" >&2; exit 1; }
[ "$(cat "$directory/packages" 2>/dev/null)" != "$*" ] || exit 0
rm -rf "$directory"
"$python" -m venv "$directory"
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 30 "$@"
echo "$*" >"$directory/packages"
