#!/bin/sh
# The record of bench/decode.py: the picture of guide page 11 is what the script draws from docs/results/decode.jsonl, the
# lines are printed by part, and a time is the median of calls in turn, without the first. No model and no PyTorch is needed.
# Planted and caught: curves of another model in the picture; errors from above to below; a point out of the order of
# budgets; the first call in the median; the mechanisms before the exact one; bits left out beside a sharpness;
# parts in another order; a traceback when `head` has seen enough.
# Covers: bench/decode.py bench/page.py
. "$(dirname "$0")/checks.sh"
export PYTHONDONTWRITEBYTECODE=1
python3 "$source_dir/bench/decode.py" figure "$source_dir/docs/results/decode.jsonl" >decode.svg
holds the_picture_is_of_the_record cmp decode.svg "$source_dir/docs/guide/decode.svg"
cat >made.jsonl <<'J'
{"part": "token", "model": "one", "token_ms": 3, "commit": "c", "machine": "m"}
{"part": "errors", "model": "one", "mechanism": "top", "budget": 0.1, "error": 0.25}
{"part": "errors", "model": "one", "mechanism": "top", "budget": 0.01, "error": 1}
{"part": "errors", "model": "two", "mechanism": "lsh", "budget": 0.01, "error": 0.5}
J
python3 "$source_dir/bench/decode.py" figure made.jsonl --name one >made.svg
# From (60, 20), the error 1 at a hundredth of the rows, to (460, y): 0.25 of 1 to 0.2 on a logarithmic axis of 260.
holds a_curve_falls_from_left_to_right grep -q '<path d="M60.0 20.0L460.0 244.0"' made.svg
holds other_models_are_left_out sh -c '[ "$(grep -c "fill=\"none\"" made.svg)" = 1 ]'
python3 "$source_dir/bench/decode.py" show made.jsonl >shown
holds lines_by_part sh -c '[ "$(cut -d" " -f2 shown | tr "\n" " ")" = "errors errors errors token " ] && ! grep -q commit shown'
python3 - "$source_dir" <<'P' >settings 2>&1
import sys, time, types
sys.path.insert(0, sys.argv[1] + "/bench")
import decode

clock, cost = [0.0], iter([9, 1, 5, 2])
time.thread_time = lambda: clock[0]


def call():
    clock[0] += next(cost)


assert decode.in_turn({"a": call}, 3) == {"a": 2000}, "the median of 1, 5 and 2 s"
given = types.SimpleNamespace(budgets=[0.1, 0.2], mechanisms=["top", "lsh"], bits=[], sharpness=None)
assert list(decode.settings(given)) == [("softmax", 0), ("top", 0.1), ("lsh", 0.1), ("top", 0.2), ("lsh", 0.2)]
assert decode.codes_of(given) == [{}]
given.bits = [64, 128]
assert decode.codes_of(given) == [{"bits": 64}, {"bits": 128}]
given.sharpness = 2.0
assert decode.codes_of(given) == [{"bits": 64, "sharpness": 2.0}, {"bits": 128, "sharpness": 2.0}]
P
holds points_and_medians test ! -s settings

# cut_short SCRIPT ARGS...: the reader of its output is gone before it writes.
cut_short() {
    python3 - "$source_dir/bench/$1" "$@" <<'P'
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
done = subprocess.run([sys.executable, sys.argv[1], *sys.argv[3:]], stdout=writer, stderr=subprocess.PIPE, text=True)
sys.exit(done.stderr[-300:] or 0)
P
}
records=$source_dir/docs/results
holds a_reader_that_leaves_is_no_error cut_short decode.py show "$records/decode.jsonl"
holds nor_of_learned_planes cut_short decode_learned.py --show "$records/decode.jsonl"
holds nor_of_densities cut_short density.py --show "$records/density.jsonl"
holds nor_of_all_tables cut_short peers.py --show
finish
