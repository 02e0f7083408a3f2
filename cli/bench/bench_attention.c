/* `bench attention`: one mechanism on generated inputs: median times, memory, the angle of its output to the
   exact expectation, and the number of colliding pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

struct bench {
    const char *mechanism;
    struct bench_input input;
    size_t seq_len, heads, head_dim, repeats;
    uint64_t seed;
    hashattn_context *context; /* of the comparison with yoso-e, and without --device of all */
    hashattn_context *device;  /* of --device; NULL: none */
    const char *device_name;
    struct bench_arrays arrays;
    struct bench_timed timed;
    size_t resident_bytes;
    double mean_cosine, pairs_over_uniform, error_radians;
};

/* Runs yoso-e for the sampled queries on `value`, (heads, keys, value_dim), with the given options that it
   has.
   --gradient is left out: only forward runs here, and yoso has a gradient that yoso-e lacks. */
static hashattn_status run_exact(const struct bench *b, const struct options *options, const char *normalize,
                                 float *value, size_t value_dim, float *out, long *hash_bits)
{
    hashattn_attention *exact;
    struct options forward = *options;
    forward.num_settings = 0;
    for (size_t i = 0; i < options->num_settings; i++)
        if (strcmp(options->settings[i].name, "gradient") != 0)
            forward.settings[forward.num_settings++] = options->settings[i];
    hashattn_status status = bench_new_mechanism(b->context, "yoso-e", &forward, &exact);
    char text[64];
    if (status == HASHATTN_OK && normalize != NULL)
        status = hashattn_attention_set(exact, "normalize", normalize);
    if (status == HASHATTN_OK)
        status = hashattn_attention_get(exact, "hash_bits", text, sizeof text);
    if (status == HASHATTN_OK) {
        *hash_bits = strtol(text, NULL, 10);
        struct bench_arrays arrays = b->arrays;
        arrays.value = value;
        arrays.value_dim = value_dim;
        struct bench_problem p = bench_problem_of(&arrays, bench_sampled(b->seq_len), b->seed);
        hashattn_array outs = hashattn_array_of_heads(out, b->heads, p.problem.num_queries, value_dim);
        status = hashattn_attention_forward(exact, &p.problem, &p.query, &p.key, &p.value, &outs, NULL, NULL);
    }
    hashattn_attention_free(exact);
    return status;
}

static int compare_exact(struct bench *b, const struct options *options)
{
    size_t n = b->seq_len, d = b->head_dim, queries = bench_sampled(n);
    int code = bench_mean_cosine(&b->arrays, &b->mean_cosine);
    if (code != EXIT_GOOD)
        return code;
    if (n == 0 || b->timed.causal) { /* sampled queries see all keys, which causal ones do not */
        b->pairs_over_uniform = b->error_radians = NAN;
        return EXIT_GOOD;
    }
    float *exact = bench_block(b->heads * queries * d * sizeof(float)),
          *ones = bench_block(b->heads * n * sizeof(float));
    if (exact == NULL || ones == NULL) {
        free(exact);
        free(ones);
        return tool_fail(EXIT_RESOURCE, "no memory for the comparison with yoso-e");
    }
    for (size_t i = 0; i < b->heads * n; i++)
        ones[i] = 1;
    long hash_bits = 0;
    hashattn_status status = run_exact(b, options, NULL, b->arrays.value, d, exact, &hash_bits);
    double angles = 0, pairs = 0;
    for (size_t i = 0; i < b->heads * queries && status == HASHATTN_OK; i++) {
        size_t row = i / queries * n + i % queries * (n / queries);
        angles += bench_angle(b->timed.out + row * d, exact + i * d, d);
    }
    if (status == HASHATTN_OK)
        status = run_exact(b, options, "none", ones, 1, exact, &hash_bits);
    for (size_t i = 0; i < b->heads * queries && status == HASHATTN_OK; i++)
        pairs += exact[i];
    free(exact);
    free(ones);
    if (status != HASHATTN_OK)
        return tool_fail_status(b->context, status);
    b->error_radians = angles / (double)(b->heads * queries);
    b->pairs_over_uniform = pairs / (double)(b->heads * queries) / ldexp((double)n, (int)-hash_bits);
    return EXIT_GOOD;
}

/* The settled projection of this mechanism; that of the context if it does not hash. */
static const char *projection_of(const struct bench *b, const hashattn_description *is, char *text,
                                 size_t size)
{
    bool said = hashattn_attention_get(b->timed.attention, "projection", text, size) == HASHATTN_OK;
    return said ? text : is->projection;
}

/* The time of each kernel that ran, as lines if json is NULL. */
static void report_kernels(const struct bench *b, struct json_out *json)
{
    hashattn_profile_part part = {.struct_size = sizeof part};
    if (json != NULL)
        json_out_array(json, "kernels");
    for (size_t i = 0; hashattn_profile_get(b->device, i, &part); i++)
        if (part.wall_seconds > 0 && json == NULL) {
            printf("  %-18s  %.3f ms\n", part.name, part.wall_seconds * 1e3);
        } else if (part.wall_seconds > 0) {
            json_out_object(json, NULL);
            json_out_text(json, "kernel", part.name);
            json_out_number(json, "ms", part.wall_seconds * 1e3);
            json_out_end_object(json);
        }
    if (json != NULL)
        json_out_end_array(json);
}

static void report_text(const struct bench *b, const hashattn_description *is)
{
    printf("%s%s: %zu heads x %zu x %zu, %s inputs, ", b->mechanism, b->timed.causal ? ", causal" : "",
           b->heads, b->seq_len, b->head_dim, b->input.name);
    if (b->device != NULL)
        printf("%s, median of %zu\n", b->device_name, b->timed.measured);
    else
        printf("%s, %d thread%s, median of %zu\n", is->isa, is->threads, is->threads == 1 ? "" : "s",
               b->timed.measured);
    printf("  forward             %.3f ms\n", b->timed.forward_ms);
    if (b->timed.backward)
        printf("  backward            %.3f ms\n", b->timed.backward_ms);
    printf("  saved for backward  %zu bytes\n  scratch             %zu bytes\n", b->timed.saved_bytes,
           b->timed.scratch_bytes);
    if (!b->timed.causal && b->seq_len > 0)
        printf("  angle to yoso-e     %.4f radians\n  colliding pairs     %.2f x uniform, mean cosine %.3f\n",
               b->error_radians, b->pairs_over_uniform, b->mean_cosine);
    if (b->timed.profiled)
        report_kernels(b, NULL);
}

static void report_json(const struct bench *b, const hashattn_description *is)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "attention", b->mechanism);
    json_out_count(&json, "seq_len", b->seq_len);
    json_out_count(&json, "heads", b->heads);
    json_out_count(&json, "head_dim", b->head_dim);
    json_out_text(&json, "input", b->input.name);
    json_out_count(&json, "causal", (uint64_t)b->timed.causal);
    json_out_count(&json, "seed", b->seed);
    json_out_object(&json, "options");
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    hashattn_option row = {.struct_size = sizeof row};
    char text[64];
    for (size_t i = 0; hashattn_mechanism_get(i, &info); i++)
        for (size_t j = 0; strcmp(info.name, b->mechanism) == 0 && hashattn_mechanism_option(i, j, &row); j++)
            if (hashattn_attention_get(b->timed.attention, row.name, text, sizeof text) == HASHATTN_OK)
                json_out_text(&json, row.name, text);
    json_out_end_object(&json);
    json_out_number(&json, "forward_ms", b->timed.forward_ms);
    json_out_number(&json, "backward_ms", b->timed.backward_ms);
    json_out_count(&json, "repeats", b->timed.measured);
    json_out_count(&json, "saved_bytes", b->timed.saved_bytes);
    json_out_count(&json, "scratch_bytes", b->timed.scratch_bytes);
    json_out_count(&json, "peak_rss_bytes", b->resident_bytes);
    json_out_text(&json, "isa", is->isa);
    json_out_text(&json, "projection", projection_of(b, is, text, sizeof text));
    json_out_text(&json, "precision", is->precision);
    json_out_count(&json, "threads", (uint64_t)is->threads);
    if (b->device != NULL)
        json_out_text(&json, "device", b->device_name);
    json_out_number(&json, "mean_cosine", b->mean_cosine);
    json_out_number(&json, "pairs_over_uniform", b->pairs_over_uniform);
    json_out_number(&json, "error_radians", b->error_radians);
    if (b->timed.profiled)
        report_kernels(b, &json);
    json_out_end_object(&json);
}

static int bench_attention_with(struct bench *b, const struct options *options)
{
    hashattn_context *on = b->device != NULL ? b->device : b->context;
    hashattn_status status = bench_new_mechanism(on, b->mechanism, options, &b->timed.attention);
    status = status == HASHATTN_OK ? hashattn_attention_settle(b->timed.attention) : status;
    if (status != HASHATTN_OK)
        return tool_fail_status(on, status);
    b->timed.on_device = b->device != NULL;
    int code = bench_make_arrays(&b->arrays, &b->input, b->heads, b->seq_len, b->head_dim, b->seed);
    code = code != EXIT_GOOD ? code : bench_time(&b->timed, on, &b->arrays, b->seed, b->repeats);
    b->resident_bytes = hashattn_peak_resident_bytes();
    code = code != EXIT_GOOD ? code : compare_exact(b, options);
    if (code != EXIT_GOOD)
        return code;
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(b->context, &is);
    if (options->common.json)
        report_json(b, &is);
    else
        report_text(b, &is);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    const char *input = "iid";
    struct bench b = {.mechanism = "yoso", .seq_len = 4096, .heads = 12, .head_dim = 64};
    struct options options;
    int profile = 0;
    options_begin(&options, self);
    options_add_text(&options, "attention", &b.mechanism, "NAME", "mechanism, see info (default yoso)");
    options_add_count(&options, "seq-len", &b.seq_len, "N", "queries and keys of each head (default 4096)", 0,
                      1e12);
    options_add_count(&options, "heads", &b.heads, "H", "heads (default 12)", 1, 1e6);
    options_add_count(&options, "head-dim", &b.head_dim, "D", "width of a head (default 64)", 1, 1e6);
    options_add_switch(&options, "causal", &b.timed.causal,
                       "query i sees keys 0 to i; error and colliding pairs are not reported");
    options_add_switch(&options, "backward", &b.timed.backward, "also time the backward pass");
    bench_add_input(&options, &input);
    bench_add_repeats(&options, &b.repeats);
    options_add_device(&options);
    options_add_switch(&options, "profile", &profile,
                       "with --device cuda: one more run, and the time of each kernel in it");
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 0)
        return options_fail(&options, "bench attention takes no operand, got '%.60s'", options.operands[0]);
    code = bench_find_input(&options, input, &b.input);
    if (code != EXIT_GOOD)
        return code;
    if (profile && !device_wanted(&options.common))
        return options_fail(&options,
                            "--profile needs --device cuda: `bench layer` and `bench step` have the "
                            "profile of a processor");
    b.timed.profiled = profile;
    b.seed = options.common.seed;
    struct common on_processor = options.common;
    on_processor.device = NULL;
    b.device_name = options.common.device;
    code = tool_open(&on_processor, &b.context);
    if (code == EXIT_GOOD && device_wanted(&options.common))
        code = tool_open(&options.common, &b.device);
    if (code == EXIT_GOOD)
        code = bench_attention_with(&b, &options);
    bench_free_timed(&b.timed);
    bench_free_arrays(&b.arrays);
    tool_close(b.device);
    tool_close(b.context);
    return code;
}

const struct command bench_attention = {
    .name = "bench attention",
    .operands = "",
    .summary = "Measures one mechanism on generated inputs: time, memory, angle to the exact expectation",
    .example = "  hashattn bench attention --attention yoso --seq-len 4096 --backward --json\n",
    .run = run,
};
