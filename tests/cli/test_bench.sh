#!/bin/sh
# `bench`: every promised field is there and means what it says. Times are not judged.
# Planted and caught: the error compared with queries of another head; pairs without the 2^tau; clustered rows
# without their common part; options of other mechanisms refused; a kind
# that is not looked for behind options; backward told although not asked for.
. "$(dirname "$0")/checks.sh"
bench() { run bench attention --seq-len 512 --heads 2 --head-dim 32 --repeats 3 --json "$@"; [ "$code" = 0 ] || cat err; }

bench --attention yoso --hash-bits 6 --threads 2 --seed 4 --backward
cp out yoso.json
holds fields_of_bench json yoso.json 'all(k in d for k in "forward_ms backward_ms saved_bytes scratch_bytes peak_rss_bytes isa projection precision threads mean_cosine pairs_over_uniform error_radians".split())'
holds figures_are_figures json yoso.json 'd["forward_ms"] > 0 and d["backward_ms"] > 0 and d["saved_bytes"] > 0 and d["scratch_bytes"] > 0 and d["peak_rss_bytes"] > 1 << 20 and d["threads"] == 2 and d["repeats"] == 3'
holds what_was_measured json yoso.json '(d["attention"], d["seq_len"], d["heads"], d["head_dim"], d["input"], d["options"]["hash_bits"]) == ("yoso", 512, 2, 32, "iid", "6")'
# For independent vectors E p^tau is computed here by a sum over the law of the cosine, d = 32.
holds pairs_of_iid json yoso.json 'abs(d["pairs_over_uniform"] / (lambda n, tau: sum((1 - math.acos(-1 + (i + .5) * 2 / n) / math.pi) ** tau * (1 - (-1 + (i + .5) * 2 / n) ** 2) ** 14.5 for i in range(n)) / sum((1 - (-1 + (i + .5) * 2 / n) ** 2) ** 14.5 for i in range(n)) * 2 ** tau)(2000, 6) - 1) < .05'
holds cosine_of_iid json yoso.json 'abs(d["mean_cosine"]) < .01'
bench --attention yoso --hash-bits 6 --seed 4 --threads 1
cp out again.json
holds seed_fixes_the_figures json again.json "[d[k] for k in ('mean_cosine', 'pairs_over_uniform', 'error_radians')] == $(python3 -c 'import json; d = json.load(open("yoso.json")); print([d[k] for k in ("mean_cosine", "pairs_over_uniform", "error_radians")])')"
holds no_backward_no_figure json again.json 'd["backward_ms"] is None'

bench --attention yoso --hash-bits 6 --seed 4 --input clustered
cp out clustered.json
holds cosine_of_clustered json clustered.json 'abs(d["mean_cosine"] - .5) < .1'
holds clustered_is_crowded json clustered.json 'd["pairs_over_uniform"] > 5 and d["input"] == "clustered"'

bench --attention yoso-e --hash-bits 6
cp out exact.json
holds exact_has_no_error json exact.json 'd["error_radians"] < 1e-3'
bench --attention yoso --hash-bits 6 --num-hashes 2000
cp out many.json
holds error_falls_with_hashes json many.json 'd["error_radians"] < .35'
bench --attention softmax --num-hashes 64 --planes gaussian --hash-bits 6
cp out softmax.json
holds foreign_options_are_ignored json softmax.json 'd["attention"] == "softmax" and d["options"] == {} and 0 < d["error_radians"] < math.pi'
bench --attention none
cp out none.json
holds none_is_measured json none.json 'd["forward_ms"] >= 0'
run bench attention --seq-len 0 --heads 1 --json
cp out empty.json
holds nothing_is_no_error json empty.json 'd["error_radians"] is None and d["pairs_over_uniform"] is None'
says words_of_bench "angle to yoso-e" bench attention --seq-len 64 --heads 1

run bench peak --threads 2 --seconds 0.02 --json
cp out peak.json
holds fields_of_peak json peak.json 'd["float32_gflops"] > .1 and d["memory_gbytes_per_s"] > .01 and d["threads"] == 2 and d["bf16_gflops"] > .1'
says words_of_peak "float32 products" bench peak --seconds 0.01

# Every kind has its own help, that ends with an example that works.
kinds=$("$tool" bench --help | sed -n 's/^  hashattn bench \([a-z]*\)  .*/\1/p')
[ -n "$kinds" ] && passed kinds_are_listed || failed kinds_are_listed "no kind in bench --help"
PATH=$build:$PATH
for kind in $kinds; do
    says "help_of_bench_$kind" "usage: hashattn bench $kind [options]" bench "$kind" --help
    sed '1,/^example:$/d' out >example.sh
    grep -q "hashattn bench $kind" example.sh && sh -e ./example.sh >out 2>err && passed "example_of_bench_${kind}_works" || failed "example_of_bench_${kind}_works" "$(cat example.sh err)"
done

# Where memory ends, it says so. (Sanitizers need more room than that for themselves.)
if [ -z "${HASHATTN_SANITIZED:-}" ]; then
    for mechanism in softmax yoso; do
        (ulimit -v 400000; exec "$tool" bench attention --attention $mechanism --seq-len 1000000 --threads 1) >out 2>err
        code=$?
        [ "$code" = 4 ] && grep -q "no memory for" err && passed "no_memory_for_$mechanism" || failed "no_memory_for_$mechanism" "code $code: $(cat err)"
    done
fi

expect bench_needs_a_kind 2 "bench needs one of attention, peak" bench --threads 2
expect bench_knows_its_kinds 2 ", not 'peek'; did you mean peak?" bench peek
expect options_of_another_kind 2 "bench peak has no option --seq-len" bench peak --seq-len 8
expect kinds_take_no_operand 2 "bench attention takes no operand, 'peak' is one" bench attention peak
says kind_behind_options "float32 products" bench --threads 1 --seconds 0.01 peak
expect unknown_input 2 "--input is 'odd', allowed are iid, clustered" bench attention --input odd
expect unknown_mechanism 2 "no mechanism 'soft'" bench attention --attention soft
expect absurd_option 2 "hash_bits is 99" bench attention --hash-bits 99
expect absurd_repeats 2 "--repeats is '0'" bench attention --repeats 0
expect too_large 2 "is too large" bench attention --seq-len 1000000000000 --heads 1000000 --head-dim 1000000
expect absurd_seconds 2 "--seconds is '99'" bench peak --seconds 99
finish
