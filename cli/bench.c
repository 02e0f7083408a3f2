/* The parts that the kinds of bench share. SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- time ---------------------------------------------------------------------------------------------- */

double bench_seconds(void)
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

double bench_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, smaller);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

int bench_measure(bench_run *once, void *user, size_t repeats, size_t parts, double *median_ms,
                  size_t *measured)
{
    double times[BENCH_MOST_PARTS][BENCH_MOST_REPEATS], part_ms[BENCH_MOST_PARTS] = {0},
                                                        begun = bench_seconds();
    int code = once(user, part_ms);
    if (repeats == 0) {
        double fit = 2 / (bench_seconds() - begun);
        repeats = fit < 3 ? 3 : fit > 25 ? 25 : (size_t)fit;
    }
    for (size_t i = 0; i < repeats && code == EXIT_GOOD; i++) {
        code = once(user, part_ms);
        for (size_t part = 0; part < parts; part++)
            times[part][i] = part_ms[part];
    }
    if (code != EXIT_GOOD)
        return code;
    for (size_t part = 0; part < parts; part++)
        median_ms[part] = bench_median(times[part], repeats);
    *measured = repeats;
    return EXIT_GOOD;
}

void bench_add_repeats(struct options *options, size_t *repeats)
{
    options_add(options,
                (struct option){"repeats", OPTION_COUNT, repeats, "N",
                                "runs whose median is told (default: as many as fit 2 seconds, 3 to 25)", 1,
                                BENCH_MOST_REPEATS});
}

/* ---- inputs -------------------------------------------------------------------------------------------- */

void *bench_block(size_t bytes)
{
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

int bench_check_input(const struct options *options, const char *input)
{
    if (strcmp(input, "iid") == 0 || strcmp(input, "clustered") == 0)
        return EXIT_GOOD;
    return options_fail(options, "--input is '%.60s', allowed are iid, clustered", input);
}

/* Rows of normal numbers, each drawn to the centre of its head where there is one. */
static void make_rows(float *rows, size_t heads, size_t seq_len, size_t d, uint64_t seed, uint64_t stream,
                      const float *centres)
{
    hashattn_fill_normal(seed, stream, rows, heads * seq_len * d);
    for (size_t i = 0; centres != NULL && i < heads * seq_len; i++) {
        float *row = rows + i * d;
        const float *centre = centres + i / seq_len * d;
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

int bench_make_arrays(struct bench_arrays *arrays, const char *input, size_t heads, size_t seq_len,
                      size_t head_dim, uint64_t seed)
{
    size_t rows, count;
    if (__builtin_mul_overflow(heads, seq_len, &rows) || __builtin_mul_overflow(rows, head_dim, &count) ||
        count > SIZE_MAX / 64)
        return tool_fail(EXIT_USAGE, "%zu heads x %zu x %zu is too large", heads, seq_len, head_dim);
    *arrays = (struct bench_arrays){.heads = heads,
                                    .queries = seq_len,
                                    .keys = seq_len,
                                    .head_dim = head_dim,
                                    .value_dim = head_dim,
                                    .query = bench_block(count * sizeof(float)),
                                    .key = bench_block(count * sizeof(float)),
                                    .value = bench_block(count * sizeof(float))};
    bool clustered = strcmp(input, "clustered") == 0;
    float *centres = clustered ? bench_block(heads * head_dim * sizeof(float)) : NULL;
    bool room = arrays->query != NULL && arrays->key != NULL && arrays->value != NULL &&
                (!clustered || centres != NULL);
    if (room) {
        if (clustered)
            hashattn_fill_normal(seed, 4, centres, heads * head_dim);
        make_rows(arrays->query, heads, seq_len, head_dim, seed, 0, centres);
        make_rows(arrays->key, heads, seq_len, head_dim, seed, 1, centres);
        make_rows(arrays->value, heads, seq_len, head_dim, seed, 2, NULL);
    }
    free(centres);
    return room ? EXIT_GOOD
                : tool_fail(EXIT_ROOM, "no memory for arrays of %zu heads x %zu x %zu", heads, seq_len,
                            head_dim);
}

void bench_free_arrays(struct bench_arrays *arrays)
{
    free(arrays->query);
    free(arrays->key);
    free(arrays->value);
    *arrays = (struct bench_arrays){0};
}

size_t bench_sampled(size_t rows)
{
    return rows < BENCH_SAMPLED_QUERIES ? rows : BENCH_SAMPLED_QUERIES;
}

struct bench_problem bench_problem_of(const struct bench_arrays *arrays, size_t queries, uint64_t seed)
{
    struct bench_problem p;
    hashattn_problem_default(&p.problem);
    p.problem.num_heads = arrays->heads;
    p.problem.num_queries = queries;
    p.problem.num_keys = arrays->keys;
    p.problem.head_dim = arrays->head_dim;
    p.problem.value_dim = arrays->value_dim;
    p.problem.seed = seed;
    p.query = hashattn_array_of_heads(arrays->query, arrays->heads, arrays->queries, arrays->head_dim);
    p.query.row_stride *= queries == 0 ? 1 : arrays->queries / queries;
    p.key = hashattn_array_of_heads(arrays->key, arrays->heads, arrays->keys, arrays->head_dim);
    p.value = hashattn_array_of_heads(arrays->value, arrays->heads, arrays->keys, arrays->value_dim);
    return p;
}

/* Adds the unit vectors of some rows to sum (width). */
static void add_units(const float *rows, size_t num_rows, size_t width, double *sum)
{
    for (size_t i = 0; i < num_rows; i++) {
        const float *row = rows + i * width;
        double squares = 0;
        for (size_t c = 0; c < width; c++)
            squares += (double)row[c] * row[c];
        for (size_t c = 0; c < width && squares > 0; c++)
            sum[c] += row[c] / sqrt(squares);
    }
}

/* The mean over pairs is the product of the means of the unit vectors. */
double bench_mean_cosine(const struct bench_arrays *arrays)
{
    size_t d = arrays->head_dim, pairs = arrays->queries * arrays->keys;
    double total = 0, *sums = calloc(2 * d, sizeof *sums);
    for (size_t h = 0; h < arrays->heads && sums != NULL && pairs > 0; h++) {
        memset(sums, 0, 2 * d * sizeof *sums);
        add_units(arrays->query + h * arrays->queries * d, arrays->queries, d, sums);
        add_units(arrays->key + h * arrays->keys * d, arrays->keys, d, sums + d);
        for (size_t c = 0; c < d; c++)
            total += sums[c] / (double)arrays->queries * (sums[d + c] / (double)arrays->keys);
    }
    double mean = sums == NULL || pairs == 0 ? NAN : total / (double)arrays->heads;
    free(sums);
    return mean;
}

/* ---- mechanisms and their errors --------------------------------------------------------------------- */

hashattn_status bench_new_mechanism(hashattn_context *context, const char *name,
                                    const struct options *options, hashattn_attention **attention)
{
    hashattn_status status = hashattn_attention_new(context, name, attention);
    char text[64];
    for (size_t i = 0; i < options->num_settings && status == HASHATTN_OK; i++) {
        const struct setting *setting = &options->settings[i];
        if (hashattn_attention_get(*attention, setting->name, text, sizeof text) == HASHATTN_OK)
            status = hashattn_attention_set(*attention, setting->name, setting->text);
    }
    return status;
}

double bench_angle(const float *a, const float *b, size_t width)
{
    double aa = 0, bb = 0, near = 0, far = 0;
    for (size_t c = 0; c < width; c++) {
        aa += (double)a[c] * a[c];
        bb += (double)b[c] * b[c];
    }
    if (!(aa > 0 && bb > 0))
        return M_PI_2;
    for (size_t c = 0; c < width; c++) { /* from the chord of the unit vectors: exact for small angles too */
        double u = a[c] / sqrt(aa), v = b[c] / sqrt(bb);
        near += (u - v) * (u - v);
        far += (u + v) * (u + v);
    }
    return 2 * atan2(sqrt(near), sqrt(far));
}
