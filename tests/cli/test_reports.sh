#!/bin/sh
# Reports: JSON has these keys in this order and echoes the options; the text has the same figures. Options differ from
# their defaults; defaults are those in the help. Times are not checked.
# Planted and caught: a line of a report left out; heads and head_dim exchanged; a default that differs from the help;
# milliseconds of all repeats instead of one; shares of the threads' time; the share of a part relative to the longest part
# instead of the sum; a bar of only '-'; remaining time rounded down; twelve heads for given arrays of three.
# Covers: bench_attention.c bench_layer.c bench_peak.c bench_step.c bench_stream.c bench_suggest.c cmd_train.c cmd_eval.c cmd_data.c
# progress.c sparkline.c profile_out.c
. "$(dirname "$0")/checks.sh"

# report NAME FILE KEYS EXPRESSION: checks the keys of an object d, and an expression of it.
report() { json "$2" "list(d) == '$3'.split()" >why && holds "$1" json "$2" "$4" || failed "$1" "keys: $(cat why)"; }
# words NAME FILE PATTERN: checks that a whole line of the file matches.
words() { grep -qxE -- "$3" "$2" && passed "$1" || failed "$1" "no line '$3' in: $(head -c 600 "$2")"; }
number='[0-9]+(\.[0-9]+)?'
time='(nan|[0-9]+\.[0-9]+)'

# ---- bench ----
run bench attention --heads 3 --head-dim 24 --seq-len 50 --repeats 4 --threads 2 --seed 9 --input matched --backward --hash-bits 5 --num-hashes 7 --isa ref --json
cp out attention.json
report attention attention.json "attention seq_len heads head_dim input causal seed options forward_ms backward_ms repeats saved_bytes scratch_bytes peak_rss_bytes isa projection precision threads mean_cosine pairs_over_uniform error_radians" '(d["attention"], d["seq_len"], d["heads"], d["head_dim"], d["input"], d["causal"], d["seed"], d["repeats"], d["isa"], d["precision"], d["threads"]) == ("yoso", 50, 3, 24, "matched", 0, 9, 4, "ref", "float32", 2) and d["options"]["hash_bits"] == "5" and d["options"]["num_hashes"] == "7" and d["forward_ms"] > 0 and d["backward_ms"] > 0 and d["saved_bytes"] > 0 and d["scratch_bytes"] > 0 and d["peak_rss_bytes"] > 1 << 20'
run bench attention --heads 3 --head-dim 24 --seq-len 50 --repeats 4 --threads 1 --seed 9 --input matched --backward --hash-bits 5 --num-hashes 7 --isa ref
words head_of_attention out "yoso: 3 heads x 50 x 24, matched inputs, ref, 1 thread, median of 4"
words forward_of_attention out "  forward             $number ms"
words backward_of_attention out "  backward            $number ms"
python3 - out <<'P' >told 2>&1
import json, sys
d = json.load(open("attention.json"))
text = open(sys.argv[1]).read()
for line in (f"  saved for backward  {d['saved_bytes']} bytes", f"  angle to yoso-e     {d['error_radians']:.4f} radians",
             f"  colliding pairs     {d['pairs_over_uniform']:.2f} x uniform, mean cosine {d['mean_cosine']:.3f}"):
    assert line + "\n" in text, (line, text)
P
holds words_of_attention sh -c '[ ! -s told ] || { cat told; exit 1; }'
run bench attention --repeats 1 --num-hashes 1 --json
cp out attention.json
holds defaults_of_attention json attention.json '(d["seq_len"], d["heads"], d["head_dim"], d["input"], d["seed"], d["attention"]) == (4096, 12, 64, "iid", 0, "yoso")'

run bench layer --dim 24 --heads 3 --ffn 40 --seq-len 50 --repeats 4 --threads 2 --backward --isa ref --json
cp out layer.json
report layer layer.json "attention dim heads ffn seq_len forward_ms backward_ms lay_ms repeats products_gflops peak_gflops products_share_of_peak library_gflops products_over_library saved_bytes workspace_bytes peak_rss_bytes profile busy isa precision products threads" '(d["attention"], d["dim"], d["heads"], d["ffn"], d["seq_len"], d["repeats"], d["isa"], d["threads"]) == ("yoso", 24, 3, 40, 50, 4, "ref", 2) and min(d[k] for k in ("forward_ms", "backward_ms", "products_gflops", "peak_gflops", "saved_bytes", "workspace_bytes")) > 0'
# The profile is a mean of the repeats, the times are medians: on a busy machine they may differ, but not every time.
one_repeat() {
    for i in 1 2 3 4 5 6 7 8 9 10; do
        "$tool" bench layer --dim 24 --heads 3 --ffn 40 --seq-len 50 --repeats 4 --threads 2 --backward --isa ref --json >again.json
        json again.json 'sum(p["ms"] for p in d["profile"]) < 2 * (d["forward_ms"] + d["backward_ms"]) and 0 < d["busy"] <= 1.01' && return
    done
    return 1
}
holds times_of_layer_are_of_one one_repeat
run bench layer --dim 24 --heads 3 --ffn 40 --seq-len 50 --repeats 4 --threads 1 --isa ref --attention softmax
cat err >>out
words head_of_layer out "layer with softmax: 24 wide, 3 heads, feed-forward 40, 50 tokens, ref, 1 thread, median of 4"
words forward_of_layer out "  forward   $number ms"
grep -q backward out && failed no_backward_of_layer "$(cat out)" || passed no_backward_of_layer
words weights_of_layer out "  weights packed in $number ms, once in advance, as in an evaluation"
words products_of_layer out "  products  $number GF/s, [0-9]+ % of the peak of $number"
python3 - out <<'P' >told 2>&1
import json, re, sys
text = open(sys.argv[1]).read()
rate, share, peak = map(float, re.search(r"products  ([0-9.]+) GF/s, ([0-9]+) % of the peak of ([0-9.]+)", text).groups())
assert abs(share / 100 - rate / peak) < 0.006 + 0.1 * (rate / peak) * (1 / rate + 1 / peak), text
plain = re.search(r"\n            ([0-9]+) % of the ([0-9.]+) GF/s of plain (.*) on the same products\n", text)
assert (plain is None) == (json.load(open("layer.json"))["products"] == "own"), text
if plain:
    share, library = float(plain[1]), float(plain[2])
    assert abs(share / 100 - rate / library) < 0.006 + 0.1 * (rate / library) * (1 / rate + 1 / library), text
P
holds shares_of_layer sh -c '[ ! -s told ] || { cat told; exit 1; }'
words profile_of_layer out "  forward                      ms     share      busy"
run bench layer --repeats 1 --attention none --seq-len 4 --json
cp out layer.json
holds defaults_of_layer json layer.json '(d["dim"], d["heads"], d["ffn"], d["attention"]) == (768, 12, 3072, "none")'

TMPDIR=$work run bench step needle --seq-len 40 --marks 4 --batch 4 --accumulate 3 --repeats 5 --threads 2 --dim 16 --heads 2 --ffn 16 --layers 1 --attention softmax --json
cp out step.json
report step step.json "task attention step_ms forward_ms tokens_per_second steps sequences_per_step tokens_per_step longest loss saved_bytes workspace_bytes forward_bytes peak_rss_bytes profile busy isa precision products threads" '(d["task"], d["attention"], d["steps"], d["sequences_per_step"], d["tokens_per_step"], d["longest"], d["threads"]) == ("needle", "softmax", 5, 12, 480, 40, 2) and d["step_ms"] > 0 and d["tokens_per_second"] > 0 and d["saved_bytes"] > 0 and d["workspace_bytes"] > d["saved_bytes"] and 0 < d["forward_ms"] < d["step_ms"] and 0 < d["forward_bytes"] < d["workspace_bytes"]'
TMPDIR=$work run bench step needle --seq-len 40 --marks 4 --batch 4 --accumulate 3 --threads 1 --dim 16 --heads 2 --ffn 16 --layers 1 --isa ref
words head_of_step out "step of needle with yoso: 12 sequences, 480 tokens of up to 40, ref, 1 thread, median of 10"
words time_of_step out "  step      $number ms, [0-9]+ tokens/s"
words time_of_forward out "  forward   $number ms, in evaluation"
# The table: most time first; shares of wall time; a single thread is always busy.
python3 - err <<'P' >told 2>&1
import re, sys
head, *rows = open(sys.argv[1]).read().splitlines()
assert head == "  step                         ms     share      busy", head
rows = [re.fullmatch(r"  (.{20}) +([0-9.]+) +([0-9.]+) % +([0-9.]+) %", r).groups() for r in rows]
names, figures = [r[0].strip() for r in rows], [[float(x) for x in r[1:]] for r in rows]
assert names[-1] == "all" and {"attention", "attention backward", "products", "optimiser", "data"} <= set(names), names
assert figures[-1][1] == 100 and "evaluation" not in names
parts = figures[:-1]
assert [p[0] for p in parts] == sorted((p[0] for p in parts), reverse=True), parts
assert abs(sum(p[0] for p in parts) - figures[-1][0]) < 0.001 * len(parts)
for ms, share, busy in figures:
    assert abs(share - 100 * ms / figures[-1][0]) < 0.2 and 90 < busy < 101, (ms, share, busy)
P
holds table_of_step sh -c '[ ! -s told ] || { cat told; exit 1; }'

run bench stream --heads 3 --head-dim 24 --seq-len 50 --chunk 7 --threads 2 --json
cp out stream.json
report stream stream.json "attention seq_len heads head_dim chunk causal absorb_ms read_ms tokens_per_second threads_busy stream_bytes peak_rss_bytes isa threads" '(d["attention"], d["seq_len"], d["heads"], d["head_dim"], d["chunk"], d["causal"], d["threads"]) == ("yoso", 50, 3, 24, 7, 0, 2) and abs(d["tokens_per_second"] * (d["absorb_ms"] + d["read_ms"]) / 50e3 - 1) < 1e-6'
bytes=$(python3 -c 'import json; print(json.load(open("stream.json"))["stream_bytes"])')
run bench stream --heads 3 --head-dim 24 --seq-len 50 --chunk 7 --threads 2 --isa ref
words head_of_stream out "yoso: 3 heads x 50 x 24 in chunks of 7, ref, 2 threads"
words rate_of_stream out "  tokens per second  [0-9]+"
words busy_of_stream out "  threads busy       $number %"
words bytes_of_stream out "  state and chunks   $bytes bytes"
words resident_of_stream out "  peak resident      [0-9]{7,} bytes"
run bench stream --seq-len 10 --causal --json
cp out stream.json
holds defaults_of_stream json stream.json '(d["heads"], d["head_dim"], d["chunk"], d["causal"], d["absorb_ms"]) == (1, 64, 10, 1, 0)'

run bench peak --threads 2 --seconds 0.01 --json
cp out peak.json
report peak peak.json "float32_gflops bf16_gflops memory_gbytes_per_s hash_gflops projection isa products processor threads" 'd["projection"] == "int16-dp" and d["threads"] == 2'
run bench peak --threads 1 --seconds 0.01 --isa ref
words head_of_peak out ".+, ref, 1 thread"
for name in "float32 products  $number GF/s" "bf16 products     $number GF/s" "memory            $number GB/s" "hash codes        $number GF/s, int16-dp"; do
    words "peak_$(echo "$name" | tr -dc 'a-z0-9' | cut -c 1-8)" out "  $name"
done

run bench error --seq-len 40,50 --num-hashes 3 --hash-bits 4 --heads 3 --head-dim 24 --seeds 2 --seed 7 --json
python3 - out <<'P' >told 2>&1
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [list(r) for r in rows] == 2 * ["input seq_len heads head_dim num_hashes hash_bits plane_pool radians query_deviation seed_deviation predicted_radians queries seeds seed".split()]
assert [(r["seq_len"], r["heads"], r["head_dim"], r["num_hashes"], r["hash_bits"], r["queries"], r["seeds"], r["seed"]) for r in rows] == [(n, 3, 24, 3, 4, 3 * n * 2, 2, 7) for n in (40, 50)]
json.dump(rows, open("rows.json", "w"))
P
holds keys_of_error sh -c '[ ! -s told ] || { cat told; exit 1; }'
run bench error --seq-len 40,50 --num-hashes 3 --hash-bits 4 --heads 3 --head-dim 24 --seeds 2 --seed 7
python3 - out <<'P' >told 2>&1
import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert lines[0] == "angle between yoso and yoso-e in radians, iid inputs, 3 heads, d 24, 2 seeds", lines[0]
assert lines[1].split() == "n tau m mean over queries over seeds predicted".split() and len(lines) == 4
for line, r in zip(lines[2:], json.load(open("rows.json"))):
    assert line == f"{r['seq_len']:9d} {4:4d} {3:6d} {r['radians']:8.4f}      +- {r['query_deviation']:.4f} {'+- %.4f' % r['seed_deviation']:>14s} {r['predicted_radians']:10.4f}", (line, r)
P
holds table_of_error sh -c '[ ! -s told ] || { cat told; exit 1; }'
run bench error --seq-len 30 --seeds 1 --heads 1
words one_seed_of_error out "angle between yoso and yoso-e in radians, iid inputs, 1 head, d 64, 1 seed"
[ "$(awk 'NR > 2 { print $1, $2, $3, $7 }' out | tr '\n' ';')" = "30 9 8 -;30 9 16 -;30 9 32 -;30 9 64 -;30 9 128 -;" ] && passed defaults_of_error || failed defaults_of_error "$(cat out)"
run bench error --num-hashes 1 --hash-bits 2 --json
[ "$(python3 -c 'import json; print([(d["seq_len"], d["heads"], d["head_dim"], d["seeds"], d["seed"]) for d in map(json.loads, open("out"))])')" = "[(64, 2, 64, 3, 0), (256, 2, 64, 3, 0), (1024, 2, 64, 3, 0), (4096, 2, 64, 3, 0)]" ] && passed lengths_of_error || failed lengths_of_error "$(cat out)"

run bench suggest --seq-len 300 --error 0.9 --cosine 0.3 --heads 64 --head-dim 512 --max-hashes 100 --threads 2 --json
cp out suggest.json
report suggest suggest.json "seq_len error_radians num_hashes hash_bits plane_pool predicted_radians mean_cosine heads head_dim forward_ms backward_ms timed_seq_len saved_bytes scratch_bytes isa threads choices" '(d["seq_len"], d["error_radians"], d["heads"], d["head_dim"], d["timed_seq_len"], d["threads"]) == (300, .9, 64, 512, 128, 2) and abs(d["mean_cosine"] - .3) < .05 and d["num_hashes"] <= 100 and d["scratch_bytes"] > 0 and [c["hash_bits"] for c in d["choices"]] == list(range(1, 9)) and d["num_hashes"] == [c["num_hashes"] for c in d["choices"] if c["hash_bits"] == d["hash_bits"]][0]'
run bench suggest --seq-len 300 --error 0.9 --cosine 0.3 --heads 64 --head-dim 512 --max-hashes 100 --threads 2
python3 - out <<'P' >told 2>&1
import json, re, sys
d = json.load(open("suggest.json"))
lines = open(sys.argv[1]).read().splitlines()
assert lines[0] == f"--num-hashes {d['num_hashes']} --hash-bits {d['hash_bits']}", lines[0]
assert lines[1] == f"  predicted error     {d['predicted_radians']:.3f} radians, at most 0.900 requested (bench error measures it)", lines[1]
assert re.fullmatch(r"  forward             [0-9.]+ ms", lines[2]), lines[2]
assert re.fullmatch(r"  backward            [0-9.]+ ms, 64 heads x 300 x 512, extrapolated from 128 tokens", lines[3]), lines[3]
assert lines[4] == f"  saved for backward  {d['saved_bytes']} bytes", lines[4]
assert lines[5] == "  smallest m for each tau: " + ", ".join(f"{c['hash_bits']}: {c['num_hashes'] or 'over 4096'}" for c in d["choices"]), lines[5]
assert len(lines) == 6
P
holds words_of_suggest sh -c '[ ! -s told ] || { cat told; exit 1; }'
# Both times are those of the timed length, multiplied: for this length by 156,250, which no measured time reaches.
run bench suggest --seq-len 10000000 --error 1.2 --hash-bits 1 --heads 64 --head-dim 1024 --json
cp out suggest.json
holds times_of_suggest_are_scaled json suggest.json 'd["timed_seq_len"] == 64 and all(1e3 < d[k] < 1e10 and d[k] != 156250 for k in ("forward_ms", "backward_ms"))'
run bench suggest --seq-len 64 --error 1.2 --json
cp out suggest.json
holds defaults_of_suggest json suggest.json '(d["heads"], d["head_dim"], d["timed_seq_len"]) == (12, 64, 64) and abs(d["mean_cosine"]) < .05 and d["num_hashes"] <= 128'
python3 -c 'import struct; head = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (3, 40, 16), }".encode(); head += b" " * (117 - len(head)) + b"\n"; open("three.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<1920f", *((7919 * i % 97) / 48 - 1 for i in range(1920))))'
run bench suggest --q three.npy --k three.npy --v three.npy --error 1.2 --json
cp out suggest.json
holds heads_of_given_arrays json suggest.json '(d["heads"], d["head_dim"], d["seq_len"]) == (3, 16, 40)'
run bench suggest --q three.npy --k three.npy --v three.npy --heads 5 --error 1.2 --json
cp out suggest.json
holds heads_that_are_asked_for json suggest.json 'd["heads"] == 5'
run bench suggest --seq-len 64 --error 1.2
words few_tokens_of_suggest out "  backward            $number ms, 12 heads x 64 x 64"

# ---- data, train, eval ----
run data needle --out d --train 20 --valid 7 --test 5 --seq-len 16 --marks 4 --seed 3
words words_of_data err "d: 20 train, 7 valid, 5 test"
run data needle --out dj --train 20 --valid 7 --test 5 --seq-len 16 --marks 4 --seed 3 --json
report data out "task directory train valid test seed" '(d["directory"], d["train"], d["valid"], d["test"]) == ("dj", 20, 7, 5)'
[ -s err ] && failed json_has_no_words "$(cat err)" || passed json_has_no_words
run data needle --out many --seq-len 2 --marks 1 --json
report defaults_of_data out "task directory train valid test seed" '(d["train"], d["valid"], d["test"], d["seed"]) == (10000, 1000, 1000, 0)'

tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 4"
run train needle --data d --out r --steps 6 --eval-every 3 --json --threads 1 $tiny
cp out train.json
cp err steps
report train train.json "run task steps seconds tokens_per_second accuracy loss valid_accuracy valid_loss valid_macro_f1 best_accuracy best_loss best_macro_f1 saved_bytes peak_rss_bytes stopped_by" '(d["run"], d["task"], d["steps"], d["stopped_by"]) == ("r", "needle", 6, "steps")'
python3 - steps <<'P' >told 2>&1
import json, re, sys
d = json.load(open("train.json"))
log = [r for r in map(json.loads, open("r/log.jsonl")) if "valid_loss" in r]
lines = [line for line in open(sys.argv[1]).read().splitlines() if line.startswith(("step ", "done: "))]
best = 0
assert len(lines) == 3 and len(log) == 2, (lines, log)
for line, r in zip(lines, log):
    best = max(best, r["valid_accuracy"])
    assert re.sub(r"[0-9]+ tokens/s$", "", line) == f"step {r['step']}/6  accuracy {r['mean_accuracy']:.4f}  loss {r['mean_loss']:.4f}  valid accuracy {r['valid_accuracy']:.4f}  valid loss {r['valid_loss']:.4f}  best accuracy {best:.4f}  ", (line, r)
assert (d["loss"], d["valid_loss"], d["valid_accuracy"], d["best_accuracy"]) == (log[1]["mean_loss"], log[1]["valid_loss"], log[1]["valid_accuracy"], best), d
assert lines[2] == f"done: 6 steps in {d['seconds']:.1f} s, best accuracy {best:.4f}, in r", lines[2]
P
python3 - <<'P' >told_log 2>&1
import json
rows = [json.loads(line) for line in open("r/log.jsonl")]
keys = {"start": "step event isa product precision ranks threads parameters",
        "step": "step accuracy loss learning_rate gradient_norm tokens_per_second seconds saved_bytes rss_bytes",
        "valid": "step mean_accuracy mean_loss valid_accuracy valid_loss valid_macro_f1 valid_majority best_accuracy best_loss best_macro_f1 confusion valid_seconds seconds rss_bytes"}
kinds = ["start" if "event" in r else "valid" if "valid_loss" in r else "step" for r in rows]
assert kinds[0] == "start" and kinds.count("start") == 1 and kinds.count("valid") == 2, kinds
for row, kind in zip(rows, kinds):
    assert list(row) == keys[kind].split(), (kind, list(row))
    assert row.get("rss_bytes", 1 << 21) > 1 << 20 and row.get("seconds", 1) > 0
assert rows[0]["threads"] == 1 and rows[0]["event"] == "start" and rows[0]["parameters"] > 1000
P
holds log_of_train sh -c '[ ! -s told_log ] || { cat told_log; exit 1; }'
holds words_of_train sh -c '[ ! -s told ] || { cat told; exit 1; }'
run train --resume r
words nothing_is_left err "nothing left to do in r; to go on: hashattn train --resume r --steps N, the new total"
run train needle --data d --out reached --steps 1000 --eval-every 2 --until accuracy=0.01 $tiny
grep -qxE "stopped by accuracy at step [0-9]+ of 1000, saved in reached; continue with: hashattn train --resume reached" err && passed words_of_accuracy || failed words_of_accuracy "$(cat err)"
run train needle --data d --out late --steps 100000 --max-seconds 0.01 $tiny
words words_of_time err "stopped by time at step [0-9]+ of 100000, saved in late; continue with: hashattn train --resume late"
LC_ALL=C "$tool" train needle --data d --out piped --steps 12 --live $tiny >out 2>err
words live_without_a_terminal err "loss [_.~=+*#-]{12} [0-9.]+ to [0-9.]+"
"$tool" train needle --data d --out stopped --steps 100000 $tiny >out 2>err &
process=$!
while [ ! -s stopped/log.jsonl ]; do kill -0 $process 2>/dev/null || break; done
kill -INT $process
wait $process
words words_of_interrupt err "interrupted at step [0-9]+ of 100000, saved in stopped; continue with: hashattn train --resume stopped"
run train needle --data d --out profiled --steps 5 --profile --threads 1 $tiny
words profile_of_train err "  ms per step                  ms     share      busy"

run eval r --json --split valid
cp out eval.json
report eval eval.json "task attention precision parameters split accuracy loss macro_f1 majority tokens num_unknown examples num_cut num_params seconds tokens_per_second peak_rss_bytes per_class labels confusion" '(d["task"], d["attention"], d["precision"], d["split"], d["examples"]) == ("needle", "yoso", "float32", "valid", 7) and d["num_params"] > 1000 and abs(d["tokens_per_second"] * d["seconds"] / (7 * 16) - 1) < 1e-6'
run eval r --split valid
python3 - out <<'P' >told 2>&1
import json, re, sys
d = json.load(open("eval.json"))
line = open(sys.argv[1]).readline()
assert re.sub(r"[0-9]+ tokens/s\n$", "", line) == f"valid: accuracy {d['accuracy']:.4f}, loss {d['loss']:.4f}, macro f1 {d['macro_f1']:.4f}, majority {d['majority']:.4f}, 7 examples, 0 cut, {d['tokens']} tokens, ", line
P
holds words_of_eval sh -c '[ ! -s told ] || { cat told; exit 1; }'

# ---- the bar on a terminal of 100 columns: share done, remaining time, words ----
python3 - "$tool" $tiny <<'P' >told 2>&1
import fcntl, os, pty, re, struct, sys, termios, time
def terminal(columns, environment, arguments):
    child, fd = pty.fork()
    if child == 0:
        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        for name, value in environment.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        os.execv(sys.argv[1], [sys.argv[1], "train", "needle", "--data", "d", *arguments, *sys.argv[2:]])
    text = b""
    try:
        while piece := os.read(fd, 65536):
            text += piece
    except OSError:
        pass
    return text.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
text, code = terminal(100, {"TERM": "xterm", "NO_COLOR": ""}, ["--out", "bar", "--steps", "8", "--eval-every", "4"])
assert code == 0 and "\033[32m" in text, (code, text)
text, code = terminal(100, {"TERM": "xterm", "NO_COLOR": "1"}, ["--out", "bar2", "--steps", "8", "--eval-every", "4"])
bars = re.findall(r"\r([#-]+) +([0-9]+) %  ([0-9]+)/8  (\S+) left  accuracy [0-9.]+  loss ([0-9.]+)  [0-9]+ tokens/s\033\[K", text)
assert code == 0 and bars and "\033[32m" not in text, (code, text)
assert bars[0][2:4] == ("1", "?") and bars[-1][1:4] == ("100", "8", "0:00"), bars
for bar, percent, step, left, loss in bars:
    done = 16 * int(step) // 8
    assert bar == "#" * done + "-" * (16 - done) and int(percent) == 100 * int(step) // 8, (bar, percent, step)
assert text.count("\r\033[K") >= 3 and text.rstrip().splitlines()[-1].endswith("in bar2"), text  # before each message
text, code = terminal(40, {"TERM": "xterm", "NO_COLOR": "1"}, ["--out", "bar3", "--steps", "8", "--eval-every", "8"])
for bar, rest in re.findall(r"\r([#-]+)([^\r\033]*)\033\[K", text):
    assert len(bar) == 6 and len(bar + rest) == 39, (bar, rest)
# --live: the losses as a curve between bar and words, at the cost of words; none on a narrow terminal; one line at the end.
utf8, ascii_only = {"TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}, {"TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C"}
for name, columns, environment, levels in (("live", 100, utf8, "▁▂▃▄▅▆▇█"), ("live2", 100, ascii_only, "_.~=+*#-"), ("live3", 56, utf8, "▁▂▃▄▅▆▇█")):
    text, code = terminal(columns, environment, ["--out", name, "--steps", "30", "--eval-every", "30", "--live"])
    bars = re.findall(f"\\r([#-]+) ([{levels}]+)( [^\\r\\033]*)\\033\\[K", text)
    assert code == 0 and bars and all(len(bar + curve + rest) + 1 <= columns - 1 for bar, curve, rest in bars), (name, text)
    assert 10 <= len(bars[-1][1]) <= 24, (name, bars[-1])
    last = re.search(f"loss ([{levels}]{{30}}) [0-9.]+ to [0-9.]+\\r\\n", text)
    assert last and len(set(last[1])) >= 4, (name, text)
text, code = terminal(40, utf8, ["--out", "live4", "--steps", "8", "--eval-every", "8", "--live"])
assert code == 0 and not re.search("\\r[#-]+ [▁▂▃▄▅▆▇█]", text), text
text, code = terminal(100, utf8, ["--out", "live5", "--steps", "8", "--eval-every", "8", "--live", "--quiet"])
assert code == 0 and text == "", text
text, code = terminal(100, {"TERM": "dumb"}, ["--out", "bar4", "--steps", "8", "--eval-every", "8"])
assert code == 0 and " left " not in text, text
text, code = terminal(100, {"TERM": "xterm"}, ["--out", "bar5", "--steps", "8", "--eval-every", "8", "--quiet"])
assert code == 0 and text == "", text
text, code = terminal(100, {"TERM": None}, ["--out", "bar6", "--steps", "8", "--eval-every", "8"])
assert code == 0 and " left " not in text, text
text, code = terminal(0, {"TERM": "xterm", "NO_COLOR": "1"}, ["--out", "bar7", "--steps", "8", "--eval-every", "8"])
bars = re.findall(r"\r([#-]+)( [^\r\033]*)\033\[K", text)  # of 80 columns if the terminal does not say
assert bars and all(len(bar + rest) == 79 for bar, rest in bars if 6 < len(bar) < 16), bars
# At most ten bars a second, but for those of the last step; hours that are left.
begun = time.time()
text, code = terminal(100, {"TERM": "xterm", "NO_COLOR": "1"}, ["--out", "bar8", "--steps", "200", "--eval-every", "200"])
assert code == 0 and 2 <= len(re.findall(r" left ", text)) <= 12 + (time.time() - begun) / 0.1, text
begun = time.time()
text, code = terminal(100, {"TERM": "xterm", "NO_COLOR": "1"}, ["--out", "bar9", "--steps", "1000000000", "--max-seconds", "0.6"])
bars = re.findall(r"  ([0-9]+)/1000000000  ([0-9]+):([0-9]{2}):([0-9]{2}) left ", text)
step, hours, minutes, seconds = map(int, bars[-1])
elapsed = (3600 * hours + 60 * minutes + seconds) * (step - 1) / (1000000000 - step)
assert code == 0 and 0.09 < elapsed < time.time() - begun and minutes < 60 and seconds < 60, (bars, elapsed)
P
holds bar_on_a_terminal sh -c '[ ! -s told ] || { cat told; exit 1; }'
finish
