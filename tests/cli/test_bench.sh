#!/bin/sh
# `bench`: every documented field is present and correct. Times are not checked.
# Planted and caught: the error compared with queries of another head; pairs without the 2^tau; clustered rows
# without their common part; options of other mechanisms refused; an option with the name of its mechanism ignored; a kind
# not found after options; backward reported without --backward; memory allocated for all rows of --chunk.
# Covers: bench.c bench_attention.c bench_cluster.c bench_decode.c bench_layer.c bench_peak.c bench_step.c bench_stream.c inputs.c
. "$(dirname "$0")/checks.sh"
bench() { run bench attention --seq-len 512 --heads 2 --head-dim 32 --repeats 3 --json "$@"; [ "$code" = 0 ] || cat err; }

bench --attention yoso --hash-bits 6 --threads 2 --seed 4 --backward
cp out yoso.json
holds fields_of_bench json yoso.json 'all(k in d for k in "forward_ms backward_ms saved_bytes scratch_bytes peak_rss_bytes isa projection precision threads mean_cosine pairs_over_uniform error_radians".split())'
run bench attention --attention yoso --seq-len 64 --heads 2 --head-dim 16 --backward --repeats 3 --precision bf16 --json
cp out half.json
holds bench_of_bf16 json half.json 'd["precision"] == "bf16" and d["forward_ms"] > 0 and d["backward_ms"] > 0 and 0 < d["error_radians"] < 2'
holds figures_are_figures json yoso.json 'd["forward_ms"] > 0 and d["backward_ms"] > 0 and d["saved_bytes"] > 0 and d["scratch_bytes"] > 0 and d["peak_rss_bytes"] > 1 << 20 and d["threads"] == 2 and d["repeats"] == 3'
holds what_was_measured json yoso.json '(d["attention"], d["seq_len"], d["heads"], d["head_dim"], d["input"], d["options"]["hash_bits"]) == ("yoso", 512, 2, 32, "iid", "6")'
# For independent vectors E p^tau is computed by a sum over the distribution of the cosine at d = 32.
holds pairs_of_iid json yoso.json 'abs(d["pairs_over_uniform"] / (lambda n, tau: sum((1 - math.acos(-1 + (i + .5) * 2 / n) / math.pi) ** tau * (1 - (-1 + (i + .5) * 2 / n) ** 2) ** 14.5 for i in range(n)) / sum((1 - (-1 + (i + .5) * 2 / n) ** 2) ** 14.5 for i in range(n)) * 2 ** tau)(2000, 6) - 1) < .05'
holds settled_options json yoso.json 'd["options"]["projection"] == "int16-dp" == d["projection"]'
holds cosine_of_iid json yoso.json 'abs(d["mean_cosine"]) < .01'
bench --attention yoso --hash-bits 6 --seed 4 --threads 1
cp out again.json
holds seed_fixes_the_figures json again.json "[d[k] for k in ('mean_cosine', 'pairs_over_uniform', 'error_radians')] == $(python3 -c 'import json; d = json.load(open("yoso.json")); print([d[k] for k in ("mean_cosine", "pairs_over_uniform", "error_radians")])')"
holds no_backward_no_figure json again.json 'd["backward_ms"] is None'

bench --attention yoso --yoso.hash-bits 6 --lsh.num-buckets 3
cp out scoped.json
holds option_of_one_mechanism json scoped.json 'd["options"]["hash_bits"] == "6"'

bench --attention yoso --hash-bits 6 --seed 4 --input clustered
cp out clustered.json
holds cosine_of_clustered json clustered.json 'abs(d["mean_cosine"] - .5) < .1'
holds clustered_is_crowded json clustered.json 'd["pairs_over_uniform"] > 5 and d["input"] == "clustered"'

bench --attention yoso --hash-bits 6 --seed 4 --input same --gradient released --backward
cp out same.json
holds same_fills_one_bucket json same.json 'abs(d["mean_cosine"] - 1) < 1e-5 and abs(d["pairs_over_uniform"] - 64) < 1e-3 and d["backward_ms"] > 0'

# The inputs of a seed are always the same numbers.
for known in "iid -0.0017881300" "clustered 0.4731070208" "matched 0.0083825293" "same 1.0"; do
    run bench attention --attention none --seq-len 100 --heads 3 --head-dim 8 --seed 4 --repeats 1 --input "${known% *}" --json
    holds "inputs_of_a_seed_${known% *}" json out "abs(d['mean_cosine'] - ${known#* }) < 1e-6"
done
bench --attention yoso-e --hash-bits 6
cp out exact.json
holds exact_has_no_error json exact.json 'd["error_radians"] < 1e-3'
bench --attention yoso --hash-bits 6 --num-hashes 2000
cp out many.json
holds error_falls_with_hashes json many.json 'd["error_radians"] < .35'
bench --attention softmax --num-hashes 64 --planes gaussian --hash-bits 6
cp out softmax.json
holds foreign_options_are_ignored json softmax.json 'd["attention"] == "softmax" and d["options"] == {} and 0 < d["error_radians"] < math.pi'
holds projection_of_the_context json softmax.json 'd["projection"] == "int16-dp"'
bench --projection f32
holds projection_of_the_mechanism json out 'd["projection"] == "f32"'
# Short runs are repeated 25 times, unless the machine stands still for the two seconds that are their limit.
for attempt in 1 2 3; do
    run bench attention --seq-len 4 --heads 1 --head-dim 4 --json
    grep -q '"repeats": 25,' out && break
done
holds most_repeats json out 'd["repeats"] == 25'
bench --attention none
cp out none.json
holds none_is_measured json none.json 'd["forward_ms"] >= 0'
run bench attention --seq-len 0 --heads 1 --json
cp out empty.json
holds nothing_is_no_error json empty.json 'd["error_radians"] is None and d["pairs_over_uniform"] is None'
says words_of_bench "angle to yoso-e" bench attention --seq-len 64 --heads 1

run bench peak --threads 2 --seconds 0.02 --json
cp out peak.json
holds fields_of_peak json peak.json 'd["float32_gflops"] > .1 and d["memory_gbytes_per_s"] > .01 and d["hash_gflops"] > .1 and d["projection"] and d["threads"] == 2 and d["bf16_gflops"] > .1'
says words_of_peak "float32 products" bench peak --seconds 0.01

# The model itself is tested by test_cluster_model.c.
run bench cluster --ranks 2..9 --bandwidth 1 --latency 1 --step-ms 100 --memory 10 --params 1000000 --batch 16 --layers 2 --dim 32 \
    --heads 2 --num-hashes 8 --hash-bits 4 --seq-len 256 --gradient-precision bf16 --json
cp out cluster.json
holds ranks_of_cluster json cluster.json '[r["ranks"] for r in d["data_parallel"]] == [r["ranks"] for r in d["sequence_parallel"]] == [2, 4, 8]'
holds data_of_cluster json cluster.json 'd["data_parallel"][0]["bytes_sent"] == 2e6 and abs(d["data_parallel"][0]["network_ms"] - (2e6 / 125e6 * 1e3 + 5)) < 1e-9 and abs(d["data_parallel"][1]["compute_ms"] - 25) < 1e-9'
holds sequences_of_cluster json cluster.json '(d["num_hashes"], d["hash_bits"]) == (8, 4) and all(r["ring_attention_bytes"] == 2 * 2 * 16 * 8 * (3 * r["ranks"] - 2) * 256 / r["ranks"] * 16 and r["speedup"] > 0 for r in d["sequence_parallel"])'
run bench cluster --ranks 3 --layers 2 --dim 32 --heads 2 --ffn 64 --seq-len 300 --batch 4 --json
cp out cluster.json
holds cluster_measures json cluster.json 'd["compute_ms"] > 0 and d["memory_gbytes_per_s"] > 0 and d["params"] == 2 * (4 * 32 * 32 + 2 * 32 * 64 + 9 * 32 + 64) and d["data_parallel"][0]["exchanges"] == 5'
says words_of_cluster "ring attention" bench cluster --ranks 2..8 --step-ms 1 --memory 1
for wrong in "--ranks 8..2" "--ranks 0" "--ranks 2-8" "--ranks 99999" "--gradient-precision f16" "--dim 31 --heads 2"; do
    run bench cluster $wrong --step-ms 1 --memory 1
    holds "cluster_refuses_${wrong##* }" test "$code" = 2
done

run bench layer --attention yoso --dim 32 --heads 2 --ffn 64 --seq-len 300 --backward --repeats 3 --threads 2 --json
cp out layer.json
holds fields_of_layer json layer.json 'd["forward_ms"] > 0 and d["backward_ms"] > 0 and d["repeats"] == 3 and d["threads"] == 2 and (d["dim"], d["heads"], d["ffn"], d["seq_len"]) == (32, 2, 64, 300)'
holds layer_against_library json layer.json 'd["products"] == "own" and d["library_gflops"] == 0 and d["products_over_library"] is None or abs(d["products_over_library"] - d["products_gflops"] / d["library_gflops"]) < 1e-9'
holds layer_against_peak json layer.json '0 < d["products_gflops"] and abs(d["products_share_of_peak"] - d["products_gflops"] / d["peak_gflops"]) < 1e-9'
holds profile_of_layer json layer.json 'abs(sum(p["share"] for p in d["profile"]) - 1) < 1e-9 and all(0 <= p["busy"] <= 1.01 for p in d["profile"]) and {p["part"] for p in d["profile"] if p["ms"] > 0} >= {"layer norm", "products", "attention", "attention backward", "gelu", "dropout"}'
# 2 n (4 d^2 + 2 d ffn) operations forward, twice as many backward; the profile has the time of one pass.
products() { json "$1" "abs(d['products_gflops'] * 1e6 * sum(p['ms'] for p in d['profile'] if p['part'] == 'products') / (2 * 300 * (4 * 32 ** 2 + 2 * 32 * 64)) - $2) < 1e-9"; }
holds rate_of_products products layer.json 3
holds parts_without_time json layer.json 'all((p["share"], p["busy"]) == (0, 0) for p in d["profile"] if p["ms"] == 0)'
# A busy machine may stretch any part, so only signs are checked.
holds profile_has_times json layer.json 'sum(p["ms"] for p in d["profile"]) > 0 and all(p["ms"] >= 0 for p in d["profile"])'
run bench layer --attention softmax --dim 32 --heads 2 --ffn 64 --seq-len 300 --repeats 3 --num-hashes 8 --json
cp out layer.json
holds forward_alone json layer.json 'd["backward_ms"] is None and all(p["ms"] == 0 for p in d["profile"] if p["part"] in ("attention backward", "sums"))'
holds rate_of_products_of_forward products layer.json 1
holds parts_of_forward_without_time json layer.json 'all((p["share"], p["busy"]) == (0, 0) for p in d["profile"] if p["ms"] == 0) and any(p["ms"] == 0 for p in d["profile"])'
# The tool caps the library of products to the instruction set. oneDNN names its own; it knows caps only on x86.
if [ "$(uname -m)" = x86_64 ] && run --version && grep -q "^products: oneDNN" out; then
    ONEDNN_VERBOSE=1 DNNL_VERBOSE=1 run bench layer --isa ref --dim 32 --heads 2 --ffn 64 --seq-len 30 --repeats 1
    grep -q "isa:Intel SSE4.1" out && passed library_is_capped || failed library_is_capped "$(head -n 5 out)"
fi
says layer_with_options "layer with local,none: 8 wide" bench layer --attention local,none --norm post --conv-window 3 --dropout 0.5 --dim 8 --heads 2 --ffn 8 --seq-len 4 --repeats 1
expect layer_has_one_layer 2 "bench layer has no option --layers" bench layer --layers 2
expect layer_takes_no_operand 2 "bench layer takes no operand, got 'x'" bench layer x
expect step_takes_one_task 2 "bench step needs one operand, the task; got 2" bench step needle text
expect stream_takes_no_operand 2 "bench stream takes no operand, got 'x'" bench stream x
expect peak_takes_no_operand 2 "bench peak takes no operand, got 'x'" bench peak x
expect error_takes_no_operand 2 "bench error takes no operand, got 'x'" bench error x
expect suggest_takes_no_operand 2 "bench suggest takes no operand, got 'x'" bench suggest x
expect layer_of_odd_heads 2 "--dim is 30, which is not a multiple of --heads, 4" bench layer --dim 30 --heads 4 --ffn 8 --seq-len 10

TMPDIR=$work run bench step needle --seq-len 64 --batch 8 --accumulate 2 --repeats 4 --threads 2 --json
cp out step.json
holds fields_of_step json step.json 'd["step_ms"] > 0 and d["tokens_per_second"] > 0 and (d["steps"], d["sequences_per_step"], d["tokens_per_step"], d["longest"], d["attention"]) == (4, 16, 1024, 64, "yoso") and 0 < d["loss"] < 10'
holds profile_of_step json step.json '{p["part"] for p in d["profile"] if p["ms"] > 0} >= {"data", "embedding", "head", "sums", "optimiser", "products"} and all(p["ms"] == 0 for p in d["profile"] if p["part"] in ("evaluation", "saving"))'
[ -z "$(ls -d hashattn-step-* 2>/dev/null)" ] && passed examples_are_dropped || failed examples_are_dropped "$(ls)"
"$tool" data needle --out needles --train 20 --valid 5 --seq-len 40 --quiet
run bench step needle --data needles --attention none --batch 4 --repeats 2 --json
cp out step.json
holds step_on_data json step.json 'd["longest"] == 40 and d["tokens_per_step"] == 160 and d["attention"] == "none"'
[ "$(ls needles | wc -l)" = 3 ] && passed step_writes_nothing || failed step_writes_nothing "$(ls needles)"
TMPDIR="" says step_without_a_directory_for_files "step of needle" bench step needle --seq-len 8 --marks 2 --batch 2 --repeats 1
TMPDIR=$work/nowhere expect step_without_a_place 4 "cannot create $work/nowhere/hashattn-step-" bench step needle
expect step_with_a_preset_that_is_not 2 "needle has no preset 'lra', nor any other" bench step needle --preset lra
expect step_of_what 2 "bench step needs one operand, the task; got 0" bench step
expect text_is_not_made 2 "text cannot be generated" bench step text
expect step_without_files 3 "cannot open nowhere" bench step needle --data nowhere

# The help of every kind ends with an example that works.
kinds=$("$tool" bench --help | sed -n 's/^  hashattn bench \([a-z]*\)  .*/\1/p')
[ -n "$kinds" ] && passed kinds_are_listed || failed kinds_are_listed "no kind in bench --help"
PATH=$build:$PATH
for kind in $kinds; do
    says "help_of_bench_$kind" "usage: hashattn bench $kind" bench "$kind" --help
    sed '1,/^example:$/d' out >example.sh
    grep -q "hashattn bench $kind" example.sh && sh -e ./example.sh >out 2>err && passed "example_of_bench_${kind}_works" || failed "example_of_bench_${kind}_works" "$(cat example.sh err)"
done

# Running out of memory is reported. (Not under sanitizers, which need more than the limit themselves.)
if [ -z "${HASHATTN_SANITIZED:-}" ]; then
    for mechanism in softmax yoso; do
        (ulimit -v 400000; exec "$tool" bench attention --attention $mechanism --seq-len 1000000 --threads 1) >out 2>err
        code=$?
        [ "$code" = 4 ] && grep -q "no memory for" err && passed "no_memory_for_$mechanism" || failed "no_memory_for_$mechanism" "code $code: $(cat err)"
    done
fi

# Causal: figures about all pairs are not reported.
run bench attention --causal --seq-len 300 --heads 2 --backward --json
cp out causal.json
holds fields_of_causal json causal.json 'd["causal"] == 1 and d["forward_ms"] > 0 and d["backward_ms"] > 0 and d["error_radians"] is None and d["pairs_over_uniform"] is None and -1 <= d["mean_cosine"] <= 1'
says words_of_causal "yoso, causal: 2 heads x 300" bench attention --causal --seq-len 300 --heads 2

# bench decode: the fields, exact and not, and that a sample errs less than a window.
for mechanism in softmax hashed top window; do
    run bench decode --mechanism $mechanism --seq-len 3000 --heads 4 --kv-heads 2 --head-dim 32 --budget 0.1 --precision bf16 --threads 2 --json
    cp out decode_$mechanism.json
    holds "fields_of_decode_$mechanism" json decode_$mechanism.json 'd["attend_ms"] > 0 and d["cache_bytes"] > 3000 * 2 * 32 * 4 and d["rows_read"] == (3000 if d["mechanism"] == "softmax" else d["rows_read"]) and d["mechanism"] == "'$mechanism'" and d["precision"] == "bf16"'
done
holds decode_reads_what_the_budget_says json decode_hashed.json '295 < d["rows_read"] < 305'
holds exact_decode_is_exact json decode_softmax.json '0 < d["relative_error"] < 0.01'
holds hashed_decode_errs_less python3 -c 'import json; e = {m: json.load(open(f"decode_{m}.json"))["relative_error"] for m in ("softmax", "hashed", "top", "window")}; assert e["softmax"] < e["hashed"] < e["window"], e'
says words_of_decode "rows read       100" bench decode --seq-len 100 --heads 2 --kv-heads 1
says longer_codes_of_decode "rows read       100.0 of 2000" bench decode --mechanism hashed --seq-len 2000 --heads 2 --kv-heads 1 --budget 100 --bits 1024
expect too_long_codes_of_decode 2 "bits is 1040; a multiple of 16 from 16 to 1024 is needed" bench decode --mechanism hashed --seq-len 2000 --bits 1040
expect decode_takes_no_operand 2 "bench decode takes no operand, got 'x'" bench decode x
expect decode_names_mechanisms 2 'a cache has no mechanism "x"; there are: softmax hashed' bench decode --mechanism x --seq-len 10

# bench stream: causal and not, and memory that does not depend on the length.
for causal in "" --causal; do
    run bench stream $causal --seq-len 5000 --heads 2 --chunk 512 --threads 2 --json
    cp out stream.json
    holds "fields_of_stream$causal" json stream.json 'd["causal"] == ("'"$causal"'" != "") and d["threads_busy"] < 1.6 and (d["absorb_ms"] == 0) == bool(d["causal"]) and d["tokens_per_second"] > 0 and 0 < d["threads_busy"] and d["stream_bytes"] > 8 << 20 and d["peak_rss_bytes"] > 8 << 20 and d["seq_len"] == 5000'
    run bench stream $causal --seq-len 600 --heads 2 --chunk 512 --threads 2 --json
    holds "stream_memory_is_constant$causal" python3 -c 'import json; a, b = json.load(open("stream.json")), json.load(open("out")); assert a["stream_bytes"] == b["stream_bytes"]'
done
run bench stream --seq-len 10 --chunk 1000000000 --json
cp out stream.json
holds huge_chunk_has_no_more_rows_than_the_sequence json stream.json 'd["chunk"] == 10 and d["stream_bytes"] < 8 << 20'
# The two passes take no longer than the whole command, and use no more processor time than there is.
holds passes_within_the_command python3 - "$tool" <<'P'
import json, subprocess, sys, time
begun = time.time()
d = json.loads(subprocess.check_output([sys.argv[1], "bench", "stream", "--seq-len", "200000", "--threads", "1", "--json"]))
spent = time.time() - begun
assert 0 < min(d["absorb_ms"], d["read_ms"]) and d["absorb_ms"] + d["read_ms"] < 1e3 * spent and d["threads_busy"] < 2.2, (d, spent)
P
says words_of_stream "tokens per second" bench stream --seq-len 100
expect stream_needs_a_state 2 "softmax has no state of constant size" bench stream --attention softmax --seq-len 10
expect stream_too_large 4 "this machine has" bench stream --hash-bits 24 --num-hashes 4096 --seq-len 10

expect bench_needs_a_kind 2 "bench needs one of attention, " bench --threads 2
expect bench_knows_its_kinds 2 "bench has no kind 'peek', there are attention, error, suggest, layer, step, stream, peak, decode, cluster; did you mean peak?" bench peek
expect options_of_another_kind 2 "bench peak has no option --seq-len" bench peak --seq-len 8
expect kinds_take_no_operand 2 "bench attention takes no operand, got 'peak'" bench attention peak
says kind_behind_options "float32 products" bench --threads 1 --seconds 0.01 peak
expect unknown_input 2 "--input is 'odd', allowed are iid, clustered, matched, same" bench attention --input odd
expect unknown_mechanism 2 "no mechanism 'soft'" bench attention --attention soft
expect absurd_option 2 "--hash-bits is 99" bench attention --hash-bits 99
expect absurd_repeats 2 "--repeats is '0'" bench attention --repeats 0
expect too_large 2 "is too large" bench attention --seq-len 1000000000000 --heads 1000000 --head-dim 1000000
expect absurd_seconds 2 "--seconds is '99'" bench peak --seconds 99
finish
