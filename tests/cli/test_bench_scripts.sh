#!/bin/sh
# Every script of bench/ answers --help and refuses an option that it does not have, without PyTorch, NumPy or any other
# package; a script that cannot says which package it needs.
# Planted and caught: PyTorch imported at the top of a script; a script that takes --help for a file.
# Covers: bench/*.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
cat >ask.py <<'P'
import contextlib, glob, io, runpy, sys

bench, option = sys.argv[1] + "/bench", sys.argv[2]
sys.path.insert(0, bench)
for name in ("torch", "numpy", "transformers", "hashattn", "sklearn", "tokenizers", "datasets"):
    sys.modules[name] = None  # not installed
count = 0
for path in sorted(glob.glob(bench + "/*.py")):
    with open(path) as file:
        text = file.read()
    if "__main__" not in text and not text.startswith("#!"):
        continue
    count += 1
    out, sys.argv = io.StringIO(), [path, option]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            runpy.run_path(path, run_name="__main__")
        ended = "did not end"
    except SystemExit as error:
        ended = error.code
    except Exception as error:
        ended = repr(error)
    answered = out.getvalue().startswith("usage: ") and ended == (0 if option == "--help" else 2)
    if not (answered or str(ended).startswith(("no torch: ", "no numpy: "))):
        print(path, ended, out.getvalue()[:200])
print(f"{count} scripts", file=sys.stderr)
P
python3 ask.py "$source_dir" --help >unanswered 2>count
holds scripts_are_found grep -qE '^[2-9][0-9] scripts$' count
holds each_answers_help test ! -s unanswered
python3 ask.py "$source_dir" --no-such-option >taken 2>count
holds each_refuses_a_wrong_option test ! -s taken
cat unanswered taken
finish
