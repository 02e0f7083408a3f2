/* `bench decode`: attention of one row over a key-value cache, as a decoder computes it for each token.
   The keys are normal numbers about a common one, as in language models, and the queries are twice as long,
   so that few keys matter. The error is against exact attention over the same rows in float32, mean over
   heads and queries.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

enum { QUERIES = 8, CHUNK = 1024 };

struct bench {
    const char *mechanism;
    size_t seq_len, heads, kv_heads, head_dim, bits, repeats;
    double budget, tolerance;
    uint64_t seed;
    hashattn_context *context;
    hashattn_cache *cache, *exact;
    float *query, *out, *want; /* (QUERIES, heads, head_dim) */
    size_t asked;              /* queries so far */
};

static hashattn_cache_options options_of(const struct bench *b, const char *mechanism,
                                         hashattn_element element)
{
    hashattn_cache_options options;
    hashattn_cache_options_default(&options);
    options.mechanism = mechanism;
    options.num_heads = b->heads;
    options.kv_heads = b->kv_heads;
    options.head_dim = b->head_dim;
    options.element = element;
    options.budget = b->budget;
    options.tolerance = b->tolerance;
    options.bits = b->bits;
    options.seed = b->seed;
    return options;
}

/* Appends normal keys about a common one, and normal values, to both caches. */
static hashattn_status fill(struct bench *b)
{
    size_t width = b->kv_heads * b->head_dim, count = CHUNK * width;
    float *key = bench_block(count * sizeof *key), *value = bench_block(count * sizeof *value);
    float *common = bench_block(width * sizeof *common);
    hashattn_status status =
        key == NULL || value == NULL || common == NULL ? HASHATTN_NO_MEMORY : HASHATTN_OK;
    if (status == HASHATTN_OK)
        hashattn_fill_normal(b->seed, 0, common, width);
    for (size_t first = 0; first < b->seq_len && status == HASHATTN_OK; first += CHUNK) {
        size_t rows = b->seq_len - first < CHUNK ? b->seq_len - first : CHUNK;
        hashattn_fill_normal(b->seed, 2 + 2 * first, key, rows * width);
        hashattn_fill_normal(b->seed, 3 + 2 * first, value, rows * width);
        for (size_t i = 0; i < rows * width; i++)
            key[i] += common[i % width];
        hashattn_array keys = hashattn_array_of_rows(key, b->kv_heads, rows, b->head_dim);
        hashattn_array values = hashattn_array_of_rows(value, b->kv_heads, rows, b->head_dim);
        status = hashattn_cache_append(b->cache, rows, HASHATTN_FLOAT32, &keys, &values, NULL);
        if (status == HASHATTN_OK)
            status = hashattn_cache_append(b->exact, rows, HASHATTN_FLOAT32, &keys, &values, NULL);
    }
    free(key);
    free(value);
    free(common);
    return status;
}

static hashattn_status attend(const struct bench *b, hashattn_cache *cache, size_t query, float *out)
{
    size_t at = query * b->heads * b->head_dim;
    hashattn_array queries = hashattn_array_of_heads(b->query + at, b->heads, 1, b->head_dim);
    hashattn_array outs = hashattn_array_of_heads(out + at, b->heads, 1, b->head_dim);
    return hashattn_cache_attend(cache, 1, HASHATTN_FLOAT32, &queries, &outs);
}

static int once(void *user, double *part_ms)
{
    struct bench *b = user;
    double start = bench_seconds();
    hashattn_status status = attend(b, b->cache, b->asked++ % QUERIES, b->out);
    *part_ms = (bench_seconds() - start) * 1e3;
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(b->context, status);
}

/* Mean over queries and heads of |out - exact| / |exact|, and of the rows read. */
static hashattn_status compare(const struct bench *b, double *error, double *rows)
{
    *error = *rows = 0;
    for (size_t i = 0; i < QUERIES; i++) {
        hashattn_cache_report report = {.struct_size = sizeof report};
        hashattn_status status = attend(b, b->cache, i, b->out);
        hashattn_cache_describe(b->cache, &report);
        if (status == HASHATTN_OK)
            status = attend(b, b->exact, i, b->want);
        if (status != HASHATTN_OK)
            return status;
        *rows += report.rows_read / QUERIES;
    }
    for (size_t h = 0; h < QUERIES * b->heads; h++) {
        double wrong = 0, size = 0;
        for (size_t c = h * b->head_dim; c < (h + 1) * b->head_dim; c++) {
            double off = (double)b->out[c] - b->want[c];
            wrong += off * off;
            size += (double)b->want[c] * b->want[c];
        }
        *error += sqrt(wrong / size) / (double)(QUERIES * b->heads);
    }
    return HASHATTN_OK;
}

static int open_all(struct bench *b)
{
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(b->context, &is);
    hashattn_element element = strcmp(is.precision, "bf16") == 0 ? HASHATTN_BF16 : HASHATTN_FLOAT32;
    const hashattn_cache_options options = options_of(b, b->mechanism, element);
    const hashattn_cache_options exact = options_of(b, "softmax", HASHATTN_FLOAT32);
    size_t numbers = QUERIES * b->heads * b->head_dim;
    b->query = bench_block(numbers * sizeof(float));
    b->out = bench_block(numbers * sizeof(float));
    b->want = bench_block(numbers * sizeof(float));
    if (b->query == NULL || b->out == NULL || b->want == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for queries of %zu heads x %zu", b->heads, b->head_dim);
    hashattn_fill_normal(b->seed, 1, b->query, numbers);
    for (size_t i = 0; i < numbers; i++)
        b->query[i] *= 2;
    hashattn_status status = hashattn_cache_new(b->context, &options, &b->cache);
    if (status == HASHATTN_OK)
        status = hashattn_cache_new(b->context, &exact, &b->exact);
    if (status == HASHATTN_OK)
        status = fill(b);
    return status == HASHATTN_OK ? EXIT_GOOD : tool_fail_status(b->context, status);
}

static int report(const struct bench *b, double ms, size_t measured, bool as_json)
{
    hashattn_description is = {.struct_size = sizeof is};
    double error, rows;
    hashattn_context_describe(b->context, &is);
    hashattn_status status = compare(b, &error, &rows);
    if (status != HASHATTN_OK)
        return tool_fail_status(b->context, status);
    if (!as_json) {
        printf("%s: a row of %zu heads over %zu x %zu x %zu, %s, %s, %d thread%s\n", b->mechanism, b->heads,
               b->kv_heads, b->seq_len, b->head_dim, is.precision, is.isa, is.threads,
               is.threads == 1 ? "" : "s");
        printf("  attention       %.3f ms (median of %zu)\n  rows read       %.1f of %zu\n", ms, measured,
               rows, b->seq_len);
        printf("  relative error  %.4f\n  cache           %zu bytes\n", error,
               hashattn_cache_nbytes(b->cache));
        return tool_finish();
    }
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "mechanism", b->mechanism);
    json_out_count(&json, "seq_len", b->seq_len);
    json_out_count(&json, "heads", b->heads);
    json_out_count(&json, "kv_heads", b->kv_heads);
    json_out_count(&json, "head_dim", b->head_dim);
    json_out_number(&json, "attend_ms", ms);
    json_out_number(&json, "rows_read", rows);
    json_out_number(&json, "relative_error", error);
    json_out_count(&json, "cache_bytes", hashattn_cache_nbytes(b->cache));
    json_out_text(&json, "precision", is.precision);
    json_out_text(&json, "isa", is.isa);
    json_out_count(&json, "threads", (uint64_t)is.threads);
    json_out_end_object(&json);
    return tool_finish();
}

static int run(const struct command *self, int argc, char **argv)
{
    struct bench b = {
        .mechanism = "softmax", .seq_len = 32768, .heads = 32, .kv_heads = 8, .head_dim = 64, .budget = 0.02};
    struct options options;
    options_begin(&options, self);
    options_add_text(&options, "mechanism", &b.mechanism, "NAME",
                     "softmax, hashed, top, top-uniform, hamming, lsh or window (default softmax)");
    options_add_count(&options, "seq-len", &b.seq_len, "N", "rows of the cache (default 32768)", 1, 1e9);
    options_add_count(&options, "heads", &b.heads, "H", "query heads (default 32)", 1, 1e6);
    options_add_count(&options, "kv-heads", &b.kv_heads, "G", "key-value heads (default 8)", 1, 1e6);
    options_add_count(&options, "head-dim", &b.head_dim, "D", "width of a head (default 64)", 1, 256);
    options_add_number(&options, "budget", &b.budget, "X",
                       "rows read, a share if below 1; softmax reads all (default 0.02)", 1e-9, 1e12);
    options_add_number(&options, "tolerance", &b.tolerance, "X",
                       "hashed: relative error to aim at, in place of a budget (default 0: none)", 0, 0.99);
    options_add_count(&options, "bits", &b.bits, "B",
                      "bits of a key's code (default: twice head-dim, at least 128)", 16, 1 << 20);
    bench_add_repeats(&options, &b.repeats);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 0)
        return options_fail(&options, "bench decode takes no operand, got '%.60s'", options.operands[0]);
    b.seed = options.common.seed;
    code = tool_open(&options.common, &b.context);
    if (code == EXIT_GOOD)
        code = open_all(&b);
    if (code == EXIT_GOOD) {
        double ms;
        size_t measured;
        code = bench_measure(once, &b, b.repeats, 1, &ms, &measured);
        if (code == EXIT_GOOD)
            code = report(&b, ms, measured, options.common.json);
    }
    free(b.query);
    free(b.out);
    free(b.want);
    hashattn_cache_free(b.cache);
    hashattn_cache_free(b.exact);
    tool_close(b.context);
    return code;
}

const struct command bench_decode = {
    .name = "bench decode",
    .operands = "",
    .summary = "Measures attention of one row over a key-value cache: time, rows read, error, memory",
    .example = "  hashattn bench decode --mechanism hashed --seq-len 8192 --budget 0.05 --json\n",
    .run = run,
};
