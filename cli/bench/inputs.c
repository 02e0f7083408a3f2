/* Arrays for benchmarks.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void *bench_block(size_t bytes)
{
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

/* ---- generated --------------------------------------------------------------------------------------- */

static const struct bench_input inputs[] = {
    {"iid", 0, 0}, {"clustered", 0.5, 0}, {"matched", 0, 0.9}, {"same", 1, 0}};

int bench_find_input(const struct options *options, const char *name, struct bench_input *input)
{
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (strcmp(name, inputs[i].name) == 0) {
            *input = inputs[i];
            return EXIT_GOOD;
        }
    return options_fail(options, "--input is '%.60s', allowed are iid, clustered, matched, same", name);
}

void bench_add_input(struct options *options, const char **name)
{
    options_add_text(
        options, "input", name, "NAME",
        "iid: independent normal numbers (default); clustered: mean cosine 0.5; matched: query i "
        "has cosine 0.9 with key i; same: all rows equal, so that all fall into one bucket");
    static const char *const names[] = {"iid", "clustered", "matched", "same", NULL};
    options_offer(options, names);
}

/* rows = own * rows + other * others, scaled to length sqrt(d). `others` advances one row per `each` rows. */
static void mix_rows(float *rows, double own, const float *others, double other, size_t num_rows, size_t each,
                     size_t d)
{
    for (size_t i = 0; i < num_rows; i++) {
        float *row = rows + i * d;
        const float *with = others + i / each * d;
        double squares = 0;
        for (size_t c = 0; c < d; c++) {
            row[c] = (float)(own * row[c] + other * with[c]);
            squares += (double)row[c] * row[c];
        }
        float scale = squares > 0 ? (float)sqrt((double)d / squares) : 0;
        for (size_t c = 0; c < d; c++)
            row[c] *= scale;
    }
}

/* SIZE_MAX if the product overflows or is larger than any block can be. */
static size_t count_of(size_t heads, size_t rows, size_t width)
{
    size_t count;
    if (__builtin_mul_overflow(heads, rows, &count) || __builtin_mul_overflow(count, width, &count))
        return SIZE_MAX;
    return count > SIZE_MAX / 64 ? SIZE_MAX : count;
}

int bench_make_arrays(struct bench_arrays *arrays, const struct bench_input *input, size_t heads,
                      size_t seq_len, size_t head_dim, uint64_t seed)
{
    size_t count = count_of(heads, seq_len, head_dim), rows = heads * seq_len;
    if (count == SIZE_MAX)
        return tool_fail(EXIT_USAGE, "%zu heads x %zu x %zu is too large", heads, seq_len, head_dim);
    *arrays = (struct bench_arrays){.heads = heads,
                                    .queries = seq_len,
                                    .keys = seq_len,
                                    .head_dim = head_dim,
                                    .value_dim = head_dim,
                                    .query = bench_block(count * sizeof(float)),
                                    .key = bench_block(count * sizeof(float)),
                                    .value = bench_block(count * sizeof(float))};
    float *const blocks[] = {arrays->query, arrays->key, arrays->value};
    float *centres = bench_block(heads * head_dim * sizeof(float));
    bool good = blocks[0] != NULL && blocks[1] != NULL && blocks[2] != NULL && centres != NULL;
    for (size_t i = 0; i < 3 && good; i++)
        hashattn_fill_normal(seed, i, blocks[i], count);
    if (good && input->cosine > 0) {
        double own = sqrt(1 - input->cosine), shared = sqrt(input->cosine);
        hashattn_fill_normal(seed, 4, centres, heads * head_dim);
        mix_rows(arrays->query, own, centres, shared, rows, seq_len, head_dim);
        mix_rows(arrays->key, own, centres, shared, rows, seq_len, head_dim);
    }
    if (good && input->matched > 0)
        mix_rows(arrays->query, sqrt(1 - input->matched * input->matched), arrays->key, input->matched, rows,
                 1, head_dim);
    free(centres);
    return good ? EXIT_GOOD
                : tool_fail(EXIT_RESOURCE, "no memory for arrays of %zu heads x %zu x %zu", heads, seq_len,
                            head_dim);
}

/* ---- read ---------------------------------------------------------------------------------------------- */

/* Reads one file into a new block; shape (heads, rows, width). */
static int read_array(hashattn_context *context, const char *path, size_t shape[3], float **data)
{
    hashattn_npy array = {.rank = 0};
    hashattn_status status = hashattn_npy_read(context, path, &array);
    if (status != HASHATTN_OK)
        return tool_fail_status(context, status);
    int code = EXIT_GOOD, rank = array.rank;
    if (array.element != HASHATTN_FLOAT32 || rank < 2 || rank > 3)
        code = tool_fail(EXIT_FILE, "%s: %d axes of %s; it must be (n, d) or (heads, n, d) of float32", path,
                         rank, array.element == HASHATTN_FLOAT32 ? "float32" : "bytes");
    for (int i = 0; i < 3 && code == EXIT_GOOD; i++)
        shape[i] = i < 3 - rank ? 1 : array.shape[i - (3 - rank)];
    if (code == EXIT_GOOD && (shape[0] == 0 || shape[1] == 0 || shape[2] == 0))
        code =
            tool_fail(EXIT_FILE, "%s: (%zu, %zu, %zu) has no elements", path, shape[0], shape[1], shape[2]);
    if (code == EXIT_GOOD) {
        size_t bytes = shape[0] * shape[1] * shape[2] * sizeof(float);
        *data = bench_block(bytes);
        if (*data == NULL)
            code = tool_fail(EXIT_RESOURCE, "no memory for %zu bytes of %s", bytes, path);
        else
            memcpy(*data, array.data, bytes);
    }
    hashattn_npy_free(context, &array);
    return code;
}

int bench_read_arrays(hashattn_context *context, const char *query, const char *key, const char *value,
                      struct bench_arrays *arrays)
{
    size_t q[3], k[3], v[3];
    int code = read_array(context, query, q, &arrays->query);
    code = code != EXIT_GOOD ? code : read_array(context, key, k, &arrays->key);
    code = code != EXIT_GOOD ? code : read_array(context, value, v, &arrays->value);
    if (code != EXIT_GOOD)
        return code;
    if (q[0] != k[0] || k[0] != v[0] || q[2] != k[2] || k[1] != v[1])
        return tool_fail(
            EXIT_FILE,
            "queries (%zu, %zu, %zu), keys (%zu, %zu, %zu) and values (%zu, %zu, %zu) do not fit: all need "
            "the same heads, queries and keys the same width, keys and values the same rows",
            q[0], q[1], q[2], k[0], k[1], k[2], v[0], v[1], v[2]);
    arrays->heads = q[0];
    arrays->queries = q[1];
    arrays->keys = k[1];
    arrays->head_dim = q[2];
    arrays->value_dim = v[2];
    return EXIT_GOOD;
}

void bench_add_given(struct options *options, const char **query, const char **key, const char **value)
{
    options_add_text(options, "q", query, "Q.npy",
                     "queries from a file, float32 (n, d) or (heads, n, d), instead of generated ones");
    options_add_text(options, "k", key, "K.npy", "keys, with the same number of axes");
    options_add_text(options, "v", value, "V.npy", "values, one row per key");
}

int bench_check_given(const struct options *options, const char *query, const char *key, const char *value)
{
    if ((query == NULL) == (key == NULL) && (key == NULL) == (value == NULL))
        return EXIT_GOOD;
    return options_fail(options, "--q, --k and --v must be given together");
}

void bench_free_arrays(struct bench_arrays *arrays)
{
    free(arrays->query);
    free(arrays->key);
    free(arrays->value);
    *arrays = (struct bench_arrays){0};
}

/* ---- views --------------------------------------------------------------------------------------------- */

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
    p.problem.max_len = arrays->queries > arrays->keys ? arrays->queries : arrays->keys;
    p.problem.seed = seed;
    p.query = hashattn_array_of_heads(arrays->query, arrays->heads, arrays->queries, arrays->head_dim);
    p.query.row_stride *= queries == 0 ? 1 : arrays->queries / queries;
    p.key = hashattn_array_of_heads(arrays->key, arrays->heads, arrays->keys, arrays->head_dim);
    p.value = hashattn_array_of_heads(arrays->value, arrays->heads, arrays->keys, arrays->value_dim);
    return p;
}

/* sum (width) += the unit vectors of all rows. */
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

/* The mean over pairs is the inner product of the means of the unit vectors. */
int bench_mean_cosine(const struct bench_arrays *arrays, double *mean)
{
    size_t d = arrays->head_dim, pairs = arrays->queries * arrays->keys;
    double total = 0, *sums = malloc(2 * d * sizeof *sums);
    if (sums == NULL)
        return tool_fail(EXIT_RESOURCE, "no memory for means of %zu columns", d);
    for (size_t h = 0; h < arrays->heads && pairs > 0; h++) {
        memset(sums, 0, 2 * d * sizeof *sums);
        add_units(arrays->query + h * arrays->queries * d, arrays->queries, d, sums);
        add_units(arrays->key + h * arrays->keys * d, arrays->keys, d, sums + d);
        for (size_t c = 0; c < d; c++)
            total += sums[c] / (double)arrays->queries * (sums[d + c] / (double)arrays->keys);
    }
    *mean = pairs == 0 ? NAN : total / (double)arrays->heads;
    free(sums);
    return EXIT_GOOD;
}
