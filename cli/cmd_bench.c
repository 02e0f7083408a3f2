/* `bench`: what attention costs here, beside what the machine can do. `bench attention` runs one mechanism on
   made inputs and reports medians, memory, how far its output is from the exact expectation, and how crowded
   the inputs are; `bench peak` measures products and memory. All through the public operator, so planes, unit
   length, normalisation and the check for NaN are in every figure. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/arguments.h"
#include "cli/json_out.h"

enum { MOST_REPEATS = 101, SAMPLED_QUERIES = 256 };

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, smaller);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static void *new_block(size_t bytes)
{
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

/* ---- bench attention ----------------------------------------------------------------------------------- */

struct bench {
    const char *mechanism, *input;
    size_t seq_len, heads, head_dim, repeats;
    int backward;
    uint64_t seed;
    hashattn_context *context;
    hashattn_attention *attention;
    size_t count; /* of elements of one array: heads x seq_len x head_dim */
    float *query, *key, *value, *out, *dout, *dquery, *dkey, *dvalue;
    void *saved, *scratch;
    size_t saved_bytes, scratch_bytes, resident_bytes;
    size_t measured;
    double forward_ms, backward_ms, mean_cosine, pairs_over_uniform, error_radians;
};

/* The two kinds of inputs. clustered: each row of Q and K is the mean of its own normal vector and one that
   its head shares, at length sqrt(d), so cosines are about 0.5 instead of 0. */
static void make_rows(struct bench *b, uint64_t stream, float *rows, const float *shared)
{
    hashattn_fill_normal(b->seed, stream, rows, b->count);
    size_t d = b->head_dim;
    for (size_t i = 0; shared != NULL && i < b->heads * b->seq_len; i++) {
        float *row = rows + i * d;
        const float *centre = shared + i / b->seq_len * d;
        double squares = 0;
        for (size_t c = 0; c < d; c++) {
            row[c] = (float)M_SQRT1_2 * (row[c] + centre[c]);
            squares += (double)row[c] * row[c];
        }
        float scale = squares > 0 ? (float)sqrt((double)d / squares) : 0;
        for (size_t c = 0; c < d; c++)
            row[c] *= scale;
    }
}

static int make_inputs(struct bench *b)
{
    size_t size = b->count * sizeof(float), shared_size = b->heads * b->head_dim * sizeof(float);
    float **const arrays[] = {&b->query, &b->key,    &b->value, &b->out,
                              &b->dout,  &b->dquery, &b->dkey,  &b->dvalue};
    for (size_t i = 0; i < (b->backward ? 8u : 4u); i++)
        if ((*arrays[i] = new_block(size)) == NULL)
            return tool_fail(EXIT_ROOM, "no memory for arrays of %zu heads x %zu x %zu", b->heads, b->seq_len,
                             b->head_dim);
    float *shared = NULL;
    if (strcmp(b->input, "clustered") == 0) {
        shared = new_block(shared_size);
        if (shared == NULL)
            return tool_fail(EXIT_ROOM, "no memory for %zu bytes", shared_size);
        hashattn_fill_normal(b->seed, 4, shared, b->heads * b->head_dim);
    }
    make_rows(b, 0, b->query, shared);
    make_rows(b, 1, b->key, shared);
    make_rows(b, 2, b->value, NULL);
    if (b->backward)
        make_rows(b, 3, b->dout, NULL);
    free(shared);
    return EXIT_GOOD;
}

static hashattn_problem problem_of(const struct bench *b)
{
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_heads = b->heads;
    problem.num_queries = problem.num_keys = b->seq_len;
    problem.head_dim = problem.value_dim = b->head_dim;
    problem.seed = b->seed;
    return problem;
}

/* One forward, and one backward where that is wanted; their milliseconds. */
static hashattn_status run_once(struct bench *b, double *forward_ms, double *backward_ms)
{
    hashattn_problem problem = problem_of(b);
    float *const data[] = {b->query, b->key, b->value, b->out, b->dout, b->dquery, b->dkey, b->dvalue};
    hashattn_array a[8];
    for (size_t i = 0; i < 8; i++)
        a[i] = hashattn_array_of_heads(data[i], b->heads, b->seq_len, b->head_dim);
    double start = seconds_now();
    hashattn_status status =
        hashattn_attention_forward(b->attention, &problem, &a[0], &a[1], &a[2], &a[3], b->saved, b->scratch);
    *forward_ms = (seconds_now() - start) * 1e3;
    if (status != HASHATTN_OK || !b->backward)
        return status;
    start = seconds_now();
    status = hashattn_attention_backward(b->attention, &problem, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
                                         &a[6], &a[7], b->saved, b->scratch);
    *backward_ms = (seconds_now() - start) * 1e3;
    return status;
}

/* Medians over the repeats asked for, or over as many as fit two seconds: 3 to 25. The first run warms up. */
static int measure(struct bench *b)
{
    hashattn_problem problem = problem_of(b);
    hashattn_status status =
        hashattn_attention_sizes(b->attention, &problem, &b->saved_bytes, &b->scratch_bytes);
    if (status != HASHATTN_OK)
        return tool_fail_status(b->context, status);
    b->saved = new_block(b->saved_bytes);
    b->scratch = new_block(b->scratch_bytes);
    if (b->saved == NULL || b->scratch == NULL)
        return tool_fail(EXIT_ROOM, "no memory for %zu bytes saved and %zu scratch", b->saved_bytes,
                         b->scratch_bytes);
    double forward[MOST_REPEATS], backward[MOST_REPEATS] = {0}, begun = seconds_now();
    status = run_once(b, &forward[0], &backward[0]);
    size_t repeats = b->repeats;
    if (repeats == 0) {
        double fit = 2 / (seconds_now() - begun);
        repeats = fit < 3 ? 3 : fit > 25 ? 25 : (size_t)fit;
    }
    for (size_t i = 0; i < repeats && status == HASHATTN_OK; i++)
        status = run_once(b, &forward[i], &backward[i]);
    if (status != HASHATTN_OK)
        return tool_fail_status(b->context, status);
    b->measured = repeats;
    b->forward_ms = median(forward, repeats);
    b->backward_ms = b->backward ? median(backward, repeats) : NAN;
    b->resident_bytes = hashattn_peak_resident_bytes();
    return EXIT_GOOD;
}

/* The mean of <q, k> / |q| |k| over all pairs of each head: the product of the mean unit vectors. */
static double mean_cosine(const struct bench *b)
{
    size_t d = b->head_dim, n = b->seq_len;
    double total = 0, *sums = calloc(2 * d, sizeof *sums);
    for (size_t h = 0; h < b->heads && sums != NULL; h++) {
        memset(sums, 0, 2 * d * sizeof *sums);
        for (size_t i = 0; i < 2 * n; i++) {
            const float *row = (i < n ? b->query : b->key) + (h * n + i % n) * d;
            double squares = 0;
            for (size_t c = 0; c < d; c++)
                squares += (double)row[c] * row[c];
            for (size_t c = 0; c < d && squares > 0; c++)
                sums[i / n * d + c] += row[c] / sqrt(squares);
        }
        for (size_t c = 0; c < d; c++)
            total += sums[c] / (double)n * (sums[d + c] / (double)n);
    }
    double mean = sums == NULL || n == 0 ? NAN : total / (double)b->heads;
    free(sums);
    return mean;
}

/* yoso-e with the options given that it has, its output for up to 256 queries of every head, evenly spaced.
 */
static hashattn_status run_exact(const struct bench *b, const struct options *options, const char *normalize,
                                 float *value, size_t value_dim, float *out, size_t queries, long *hash_bits)
{
    hashattn_attention *exact;
    hashattn_status status = hashattn_attention_new(b->context, "yoso-e", &exact);
    if (status != HASHATTN_OK)
        return status;
    char text[64];
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++) {
        const struct setting *setting = &options->settings[i];
        if (hashattn_attention_get(exact, setting->name, text, sizeof text) == HASHATTN_OK)
            status = hashattn_attention_set(exact, setting->name, setting->text);
    }
    if (status == HASHATTN_OK && normalize != NULL)
        status = hashattn_attention_set(exact, "normalize", normalize);
    if (status == HASHATTN_OK)
        status = hashattn_attention_get(exact, "hash_bits", text, sizeof text);
    if (status == HASHATTN_OK) {
        *hash_bits = strtol(text, NULL, 10);
        hashattn_problem problem = problem_of(b);
        problem.num_queries = queries;
        problem.value_dim = value_dim;
        hashattn_array query = hashattn_array_of_heads(b->query, b->heads, b->seq_len, b->head_dim),
                       key = hashattn_array_of_heads(b->key, b->heads, b->seq_len, b->head_dim),
                       values = hashattn_array_of_heads(value, b->heads, b->seq_len, value_dim),
                       outs = hashattn_array_of_heads(out, b->heads, queries, value_dim);
        query.row_stride *= b->seq_len / queries;
        status = hashattn_attention_forward(exact, &problem, &query, &key, &values, &outs, NULL, NULL);
    }
    hashattn_attention_free(exact);
    return status;
}

/* The angle between two rows; a right angle where one is zero. */
static double angle_between(const float *a, const float *b, size_t d)
{
    double aa = 0, bb = 0, near = 0, far = 0;
    for (size_t c = 0; c < d; c++) {
        aa += (double)a[c] * a[c];
        bb += (double)b[c] * b[c];
    }
    if (!(aa > 0 && bb > 0))
        return M_PI_2;
    for (size_t c = 0; c < d; c++) { /* from the chord of the unit vectors: exact for small angles too */
        double u = a[c] / sqrt(aa), v = b[c] / sqrt(bb);
        near += (u - v) * (u - v);
        far += (u + v) * (u + v);
    }
    return 2 * atan2(sqrt(near), sqrt(far));
}

static int compare_exact(struct bench *b, const struct options *options)
{
    size_t n = b->seq_len, d = b->head_dim, queries = n < SAMPLED_QUERIES ? n : SAMPLED_QUERIES;
    b->mean_cosine = mean_cosine(b);
    if (n == 0) {
        b->pairs_over_uniform = b->error_radians = NAN;
        return EXIT_GOOD;
    }
    float *exact = new_block(b->heads * queries * d * sizeof(float)),
          *ones = new_block(b->heads * n * sizeof(float));
    if (exact == NULL || ones == NULL) {
        free(exact);
        free(ones);
        return tool_fail(EXIT_ROOM, "no memory for the comparison with yoso-e");
    }
    for (size_t i = 0; i < b->heads * n; i++)
        ones[i] = 1;
    long hash_bits = 0;
    hashattn_status status = run_exact(b, options, NULL, b->value, d, exact, queries, &hash_bits);
    double angles = 0, pairs = 0;
    for (size_t i = 0; i < b->heads * queries && status == HASHATTN_OK; i++) {
        size_t row = i / queries * n + i % queries * (n / queries);
        angles += angle_between(b->out + row * d, exact + i * d, d);
    }
    if (status == HASHATTN_OK)
        status = run_exact(b, options, "none", ones, 1, exact, queries, &hash_bits);
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

static void report_text(const struct bench *b, const hashattn_description *is)
{
    printf("%s: %zu heads x %zu x %zu, %s inputs, %s, %d thread%s, median of %zu\n", b->mechanism, b->heads,
           b->seq_len, b->head_dim, b->input, is->isa, is->threads, is->threads == 1 ? "" : "s", b->measured);
    printf("  forward             %.3f ms\n", b->forward_ms);
    if (b->backward)
        printf("  backward            %.3f ms\n", b->backward_ms);
    printf("  saved for backward  %zu bytes\n  scratch             %zu bytes\n", b->saved_bytes,
           b->scratch_bytes);
    printf("  angle to yoso-e     %.4f radians\n  colliding pairs     %.2f x uniform, mean cosine %.3f\n",
           b->error_radians, b->pairs_over_uniform, b->mean_cosine);
}

static void report_json(const struct bench *b, const hashattn_description *is)
{
    struct json_out json = json_out_to(stdout);
    json_object(&json, NULL);
    json_text(&json, "attention", b->mechanism);
    json_count(&json, "seq_len", b->seq_len);
    json_count(&json, "heads", b->heads);
    json_count(&json, "head_dim", b->head_dim);
    json_text(&json, "input", b->input);
    json_count(&json, "seed", b->seed);
    json_object(&json, "options");
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    hashattn_option row = {.struct_size = sizeof row};
    char text[64];
    for (size_t i = 0; hashattn_mechanism_get(i, &info); i++)
        for (size_t j = 0; strcmp(info.name, b->mechanism) == 0 && hashattn_mechanism_option(i, j, &row); j++)
            if (hashattn_attention_get(b->attention, row.name, text, sizeof text) == HASHATTN_OK)
                json_text(&json, row.name, text);
    json_end_object(&json);
    json_number(&json, "forward_ms", b->forward_ms);
    json_number(&json, "backward_ms", b->backward_ms);
    json_count(&json, "repeats", b->measured);
    json_count(&json, "saved_bytes", b->saved_bytes);
    json_count(&json, "scratch_bytes", b->scratch_bytes);
    json_count(&json, "peak_rss_bytes", b->resident_bytes);
    json_text(&json, "isa", is->isa);
    json_text(&json, "projection", is->projection);
    json_text(&json, "precision", is->precision);
    json_count(&json, "threads", (uint64_t)is->threads);
    json_number(&json, "mean_cosine", b->mean_cosine);
    json_number(&json, "pairs_over_uniform", b->pairs_over_uniform);
    json_number(&json, "error_radians", b->error_radians);
    json_end_object(&json);
}

/* Options of other mechanisms are ignored: one line of options serves a whole comparison. */
static hashattn_status set_own(struct bench *b, const struct options *options)
{
    char text[64];
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++) {
        const struct setting *setting = &options->settings[i];
        if (hashattn_attention_get(b->attention, setting->name, text, sizeof text) == HASHATTN_OK)
            status = hashattn_attention_set(b->attention, setting->name, setting->text);
    }
    return status;
}

static int bench_attention(struct bench *b, const struct options *options)
{
    size_t rows;
    if (__builtin_mul_overflow(b->heads, b->seq_len, &rows) ||
        __builtin_mul_overflow(rows, b->head_dim, &b->count) || b->count > SIZE_MAX / 64)
        return tool_fail(EXIT_USAGE, "%zu heads x %zu x %zu is too large", b->heads, b->seq_len, b->head_dim);
    hashattn_status status = hashattn_attention_new(b->context, b->mechanism, &b->attention);
    if (status == HASHATTN_OK)
        status = set_own(b, options);
    if (status != HASHATTN_OK)
        return tool_fail_status(b->context, status);
    int code = make_inputs(b);
    code = code != EXIT_GOOD ? code : measure(b);
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

static void close_all(struct bench *b)
{
    void *const blocks[] = {b->query,  b->key,  b->value,  b->out,   b->dout,
                            b->dquery, b->dkey, b->dvalue, b->saved, b->scratch};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free(blocks[i]);
    hashattn_attention_free(b->attention);
    hashattn_context_free(b->context);
}

/* ---- bench peak ---------------------------------------------------------------------------------------- */

static int bench_peak(hashattn_context *context, double seconds, bool as_json)
{
    hashattn_peak peak = {.struct_size = sizeof peak};
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    hashattn_status status = hashattn_measure_peak(context, seconds, &peak);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    if (!as_json) {
        printf("%s, %s, %d thread%s\n", is.processor[0] == '\0' ? "unknown processor" : is.processor, is.isa,
               is.threads, is.threads == 1 ? "" : "s");
        printf("  float32 products  %.1f GF/s\n", peak.float32_gflops);
        if (isnan(peak.bf16_gflops))
            printf("  bf16 products     not measured\n");
        else
            printf("  bf16 products     %.1f GF/s\n", peak.bf16_gflops);
        printf("  memory            %.1f GB/s\n", peak.memory_gbytes_per_s);
        return tool_finish();
    }
    struct json_out json = json_out_to(stdout);
    json_object(&json, NULL);
    json_number(&json, "float32_gflops", peak.float32_gflops);
    json_number(&json, "bf16_gflops", peak.bf16_gflops);
    json_number(&json, "memory_gbytes_per_s", peak.memory_gbytes_per_s);
    json_text(&json, "isa", is.isa);
    json_text(&json, "products", is.products);
    json_text(&json, "processor", is.processor);
    json_count(&json, "threads", (uint64_t)is.threads);
    json_end_object(&json);
    return tool_finish();
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int run(const struct command *self, int argc, char **argv)
{
    struct bench b = {.mechanism = "yoso", .input = "iid", .seq_len = 4096, .heads = 12, .head_dim = 64};
    double seconds = 0.5;
    struct options options;
    options_begin(&options, self);
    const struct option rows[] = {
        {"attention", OPTION_TEXT, &b.mechanism, "NAME", "mechanism, one of those of info (default yoso)", 0,
         0},
        {"seq-len", OPTION_COUNT, &b.seq_len, "N", "queries and keys of each head (default 4096)", 0, 1e12},
        {"heads", OPTION_COUNT, &b.heads, "H", "heads (default 12)", 1, 1e6},
        {"head-dim", OPTION_COUNT, &b.head_dim, "D", "width of a head (default 64)", 1, 1e6},
        {"input", OPTION_TEXT, &b.input, "NAME",
         "iid: independent normal numbers (default); clustered: mean cosine 0.5", 0, 0},
        {"backward", OPTION_SWITCH, &b.backward, NULL, "time the gradients too", 0, 0},
        {"repeats", OPTION_COUNT, &b.repeats, "N",
         "runs whose median is told (default: as many as fit 2 seconds, 3 to 25)", 1, MOST_REPEATS},
        {"seconds", OPTION_NUMBER, &seconds, "X", "of every figure of bench peak (default 0.5)", 0.01, 60},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        options_add(&options, rows[i]);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 1)
        return options_fail(&options, "bench needs one operand, attention or peak; there are %zu",
                            options.num_operands);
    bool attention = strcmp(options.operands[0], "attention") == 0;
    if (!attention && strcmp(options.operands[0], "peak") != 0)
        return options_fail(&options, "bench knows attention and peak, not '%.60s'", options.operands[0]);
    if (strcmp(b.input, "iid") != 0 && strcmp(b.input, "clustered") != 0)
        return options_fail(&options, "--input is '%.60s', allowed are iid, clustered", b.input);
    b.seed = options.common.seed;
    code = tool_open(&options.common, &b.context);
    if (code == EXIT_GOOD)
        code =
            attention ? bench_attention(&b, &options) : bench_peak(b.context, seconds, options.common.json);
    close_all(&b);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .operands = "attention|peak",
    .summary = "Measures one mechanism on made inputs, or what the machine can do",
    .example = "  hashattn bench attention --attention yoso --seq-len 4096 --backward --json\n"
               "  hashattn bench peak --json\n",
    .run = run,
};
