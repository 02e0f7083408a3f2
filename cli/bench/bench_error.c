/* `bench error`: the angle between sampled and exact attention for all given lengths, numbers of hashes and
   bits, next to the prediction of the model in docs/MATH.md. At most 256 evenly spaced queries attend to all
   keys, so the exact side costs n and not n^2. A seed determines inputs and hashing; with given arrays only
   hashing.
   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/bench/noise.h"

enum { MOST_LISTED = 16, MOST_SEEDS = 1000 };

struct list {
    size_t count, values[MOST_LISTED];
    bool log2; /* instead of values: log2 of the length, rounded */
};

/* Statistics of one (tau, m) at one length. */
struct cell {
    double sum, squares;           /* over the angles of all queries */
    double means, squares_of_mean; /* over the mean angles of the seeds */
    double predicted;              /* sum over seeds */
    size_t angles;
};

struct errors {
    const char *q, *k, *v;
    struct bench_input input;
    size_t heads, head_dim, seeds;
    uint64_t seed;
    struct list lengths, hashes, bits;
    size_t plane_pool;
    hashattn_context *context;
    struct bench_arrays arrays;
    struct cell cells[MOST_LISTED][MOST_LISTED]; /* [bits][hashes] */
};

/* ---- lists --------------------------------------------------------------------------------------------- */

/* Parses "64,256": at most MOST_LISTED whole numbers from least to most; or "log2" if allowed. */
static int parse_list(const struct options *options, const char *name, const char *text, size_t least,
                      size_t most, bool may_be_log2, struct list *list)
{
    *list = (struct list){.log2 = may_be_log2 && strcmp(text, "log2") == 0, .count = 1};
    if (list->log2)
        return EXIT_GOOD;
    list->count = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        unsigned long long value = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || errno != 0 || value < least || value > most ||
            (*end != ',' && *end != '\0'))
            return options_fail(
                options,
                "--%s is '%.60s'; it must be a comma-separated list of whole numbers from %zu to %zu%s", name,
                text, least, most, may_be_log2 ? ", or log2" : "");
        if (list->count == MOST_LISTED)
            return options_fail(options, "--%s lists more than %d numbers", name, MOST_LISTED);
        list->values[list->count++] = (size_t)value;
        at = end;
        if (*at == '\0')
            return EXIT_GOOD;
    }
}

static long bits_of(const struct errors *e, size_t index)
{
    if (!e->bits.log2)
        return (long)e->bits.values[index];
    long bits = lround(log2((double)e->arrays.keys));
    return bits < 1 ? 1 : bits > NOISE_MOST_BITS ? NOISE_MOST_BITS : bits;
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

/* Output of the sampled queries, (heads, queries, d_v). hashes 0: the exact expectation. */
static hashattn_status output(const struct errors *e, const struct options *options, size_t hashes, long bits,
                              uint64_t seed, float *out)
{
    struct bench_problem p = bench_problem_of(&e->arrays, bench_sampled(e->arrays.queries), seed);
    hashattn_array outs =
        hashattn_array_of_heads(out, e->arrays.heads, p.problem.num_queries, e->arrays.value_dim);
    hashattn_attention *attention;
    char text[32];
    hashattn_status status =
        bench_new_mechanism(e->context, hashes == 0 ? "yoso-e" : "yoso", options, &attention);
    snprintf(text, sizeof text, "%ld", bits);
    if (status == HASHATTN_OK)
        status = hashattn_attention_set(attention, "hash_bits", text);
    snprintf(text, sizeof text, "%zu", hashes);
    if (status == HASHATTN_OK && hashes > 0)
        status = hashattn_attention_set(attention, "num_hashes", text);
    if (status == HASHATTN_OK)
        status =
            hashattn_attention_forward(attention, &p.problem, &p.query, &p.key, &p.value, &outs, NULL, NULL);
    hashattn_attention_free(attention);
    return status;
}

static void add_angles(struct cell *cell, const float *sampled, const float *exact, size_t rows, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++) {
        double angle = bench_angle(sampled + i * width, exact + i * width, width);
        sum += angle;
        cell->squares += angle * angle;
    }
    cell->sum += sum;
    cell->angles += rows;
    cell->means += sum / (double)rows;
    cell->squares_of_mean += sum / (double)rows * (sum / (double)rows);
}

/* One seed at one length: all bits, all hashes. */
static int measure(struct errors *e, const struct options *options, uint64_t seed)
{
    size_t width = e->arrays.value_dim, rows = e->arrays.heads * bench_sampled(e->arrays.queries),
           looked_at = e->arrays.heads * noise_queries(&e->arrays);
    float *exact = bench_block(rows * width * sizeof(float)),
          *sampled = bench_block(rows * width * sizeof(float));
    struct noise *noise = malloc(looked_at * sizeof *noise);
    int code = EXIT_GOOD;
    if (exact == NULL || sampled == NULL || noise == NULL)
        code = tool_fail(EXIT_RESOURCE, "no memory for outputs of %zu rows of %zu", rows, width);
    for (size_t b = 0; b < e->bits.count && code == EXIT_GOOD; b++) {
        long bits = bits_of(e, b);
        code = noise_of_one_hash(&e->arrays, bits, bits, noise);
        hashattn_status status = output(e, options, 0, bits, seed, exact);
        for (size_t h = 0; h < e->hashes.count && status == HASHATTN_OK && code == EXIT_GOOD; h++) {
            struct cell *cell = &e->cells[b][h];
            status = output(e, options, e->hashes.values[h], bits, seed, sampled);
            if (status == HASHATTN_OK)
                add_angles(cell, sampled, exact, rows, width);
            cell->predicted += noise_angle(noise, looked_at, e->hashes.values[h], bits, e->plane_pool);
        }
        if (status != HASHATTN_OK)
            code = tool_fail_status(e->context, status);
    }
    free(exact);
    free(sampled);
    free(noise);
    return code;
}

/* ---- reporting ----------------------------------------------------------------------------------------- */

static double deviation(double sum, double squares, size_t count)
{
    double mean = sum / (double)count;
    return count < 2 ? NAN : sqrt(fmax(0, (squares - sum * mean) / (double)(count - 1)));
}

static void report_json(const struct errors *e, const struct cell *cell, size_t hashes, long bits,
                        size_t seeds)
{
    struct json_out json = json_out_to(stdout);
    json_out_object(&json, NULL);
    json_out_text(&json, "input", e->q != NULL ? e->q : e->input.name);
    json_out_count(&json, "seq_len", e->arrays.keys);
    json_out_count(&json, "heads", e->arrays.heads);
    json_out_count(&json, "head_dim", e->arrays.head_dim);
    json_out_count(&json, "num_hashes", hashes);
    json_out_count(&json, "hash_bits", (uint64_t)bits);
    json_out_count(&json, "plane_pool", e->plane_pool);
    json_out_number(&json, "radians", cell->sum / (double)cell->angles);
    json_out_number(&json, "query_deviation", deviation(cell->sum, cell->squares, cell->angles));
    json_out_number(&json, "seed_deviation", deviation(cell->means, cell->squares_of_mean, seeds));
    json_out_number(&json, "predicted_radians", cell->predicted / (double)seeds);
    json_out_count(&json, "queries", cell->angles);
    json_out_count(&json, "seeds", seeds);
    json_out_count(&json, "seed", e->seed);
    json_out_end_object(&json);
}

static void report(const struct errors *e, bool as_json, bool first)
{
    if (!as_json && first)
        printf("angle between yoso and yoso-e in radians, %s inputs, %zu head%s, d %zu, %zu seed%s\n"
               "%9s %4s %6s %8s %14s %14s %10s\n",
               e->q != NULL ? "given" : e->input.name, e->arrays.heads, e->arrays.heads == 1 ? "" : "s",
               e->arrays.head_dim, e->seeds, e->seeds == 1 ? "" : "s", "n", "tau", "m", "mean",
               "over queries", "over seeds", "predicted");
    for (size_t b = 0; b < e->bits.count; b++)
        for (size_t h = 0; h < e->hashes.count; h++) {
            const struct cell *cell = &e->cells[b][h];
            if (as_json) {
                report_json(e, cell, e->hashes.values[h], bits_of(e, b), e->seeds);
                continue;
            }
            char over_seeds[24];
            snprintf(over_seeds, sizeof over_seeds, "+- %.4f",
                     deviation(cell->means, cell->squares_of_mean, e->seeds));
            printf("%9zu %4ld %6zu %8.4f      +- %.4f %14s %10.4f\n", e->arrays.keys, bits_of(e, b),
                   e->hashes.values[h], cell->sum / (double)cell->angles,
                   deviation(cell->sum, cell->squares, cell->angles), e->seeds < 2 ? "-" : over_seeds,
                   cell->predicted / (double)e->seeds);
        }
    fflush(stdout);
}

/* ---- the command --------------------------------------------------------------------------------------- */

/* Measures one length, which given arrays determine. */
static int run_length(struct errors *e, const struct options *options, size_t length)
{
    memset(e->cells, 0, sizeof e->cells);
    int code = e->q == NULL ? EXIT_GOOD : bench_read_arrays(e->context, e->q, e->k, e->v, &e->arrays);
    for (uint64_t s = e->seed; s < e->seed + e->seeds && code == EXIT_GOOD; s++) {
        if (e->q == NULL) {
            bench_free_arrays(&e->arrays);
            code = bench_make_arrays(&e->arrays, &e->input, e->heads, length, e->head_dim, s);
        }
        code = code != EXIT_GOOD ? code : measure(e, options, s);
    }
    return code;
}

static int run_all(struct errors *e, const struct options *options)
{
    int code = tool_open(&options->common, &e->context);
    if (code == EXIT_GOOD)
        code = bench_plane_pool(e->context, options, &e->plane_pool);
    size_t lengths = e->q == NULL ? e->lengths.count : 1;
    for (size_t i = 0; i < lengths && code == EXIT_GOOD; i++) {
        code = run_length(e, options, e->lengths.values[i]);
        if (code == EXIT_GOOD)
            report(e, options->common.json, i == 0);
        bench_free_arrays(&e->arrays);
    }
    tool_close(e->context);
    return code == EXIT_GOOD ? tool_finish() : code;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct errors e = {.heads = 2, .head_dim = 64, .seeds = 3};
    const char *input = "iid", *lengths = NULL, *hashes = "8,16,32,64,128", *bits = "9";
    struct options options;
    options_begin(&options, self);
    options_add_text(&options, "seq-len", &lengths, "N,...",
                     "numbers of queries and keys (default 64,256,1024,4096)");
    options_add_text(&options, "num-hashes", &hashes, "M,...",
                     "numbers of hash functions (default 8,16,32,64,128)");
    options_add_text(&options, "hash-bits", &bits, "T,...",
                     "bits per hash, or log2 for log2 of the length (default 9)");
    options_add_count(&options, "heads", &e.heads, "H", "heads (default 2)", 1, 1e6);
    options_add_count(&options, "head-dim", &e.head_dim, "D", "width of a head (default 64)", 1, 1e6);
    options_add_count(&options, "seeds", &e.seeds, "N", "number of seeds, starting at --seed (default 3)", 1,
                      MOST_SEEDS);
    bench_add_input(&options, &input);
    bench_add_given(&options, &e.q, &e.k, &e.v);
    options_add_mechanisms(&options);
    int code;
    if (!options_parse(&options, argc, argv, &code))
        return code;
    if (options.num_operands != 0)
        return options_fail(&options, "bench error takes no operand, got '%.60s'", options.operands[0]);
    code = bench_find_input(&options, input, &e.input);
    code = code != EXIT_GOOD ? code : bench_check_given(&options, e.q, e.k, e.v);
    if (code == EXIT_GOOD && e.q != NULL && lengths != NULL)
        return options_fail(&options,
                            "--seq-len is for generated inputs; given arrays have their own length");
    lengths = lengths == NULL ? "64,256,1024,4096" : lengths;
    if (code == EXIT_GOOD)
        code = parse_list(&options, "seq-len", lengths, 1, (size_t)1e12, false, &e.lengths);
    if (code == EXIT_GOOD)
        code = parse_list(&options, "num-hashes", hashes, 1, 4096, false, &e.hashes);
    if (code == EXIT_GOOD)
        code = parse_list(&options, "hash-bits", bits, 1, NOISE_MOST_BITS, true, &e.bits);
    if (code != EXIT_GOOD)
        return code;
    e.seed = options.common.seed;
    return run_all(&e, &options);
}

const struct command bench_error = {
    .name = "bench error",
    .operands = "",
    .summary =
        "Measures the angle between yoso and its exact expectation for lists of lengths, hashes and bits",
    .example = "  hashattn bench error --seq-len 256,1024 --num-hashes 16,64 --hash-bits log2\n",
    .run = run,
};
