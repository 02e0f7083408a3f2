#!/bin/sh
# Scripts that start again in a private environment: once, with their arguments, and never for ever.
# Planted and caught: the interpreter started by its bare name, which runs outside the environment and starts itself without
# end; arguments lost; a missing environment that is an error of Python's; the number of threads not set.
# Covers: bench/environment.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source_dir/bench"

cat >script.py <<'P'
import os, sys
from environment import enter
enter(sys.argv[1], "that --setup", threads=3)
print(os.path.realpath(sys.prefix), *sys.argv[2:], os.environ["OMP_NUM_THREADS"], os.environ["HF_HUB_OFFLINE"])
P
python3 -m venv --without-pip true
timeout 60 python3 script.py true "two words" >out 2>err || cat err
holds it_runs_inside_with_its_arguments test "$(cat out)" = "$(realpath true) two words 3 1"
timeout 60 python3 script.py absent >out 2>err && failed no_environment "exit code 0" ||
    holds no_environment grep -qx "no absent: run that --setup first" err
mkdir -p false/bin
ln -s "$(python3 -c 'import sys; print(sys.executable)')" false/bin/python
timeout 60 python3 script.py false >out 2>err && code=0 || code=$?
holds not_without_end test "$code" = 1
holds the_folder_is_named grep -q "^false/bin/python runs in .*, not in false: remove that folder and run that --setup$" err
finish
