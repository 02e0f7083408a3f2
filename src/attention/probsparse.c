/* ProbSparse attention (Zhou et al. 2021, "Informer: Beyond efficient Transformer for long sequence
   time-series forecasting"). A query whose scores are all alike gives the mean of the values anyway, so only
   the queries that stand out are computed. Each query is scored on a sample of U = factor ceil(ln n_k) keys,
   drawn with replacement, and measured by M_i = max_j q_i k_j - mean_j q_i k_j (equation 7). The u = factor
   ceil(ln n_q) queries with the largest M get exact attention, the others the mean of all values. If U keys
   are all keys, each is scored once; if u queries are all queries, the result is exact attention. The sample:
   the paper's algorithm 1 multiplies all queries with one sample, its released code gathers a sample per
   query, at many times the cost of the products. Here 64 queries share one, which is multiplied. As in the
   paper the mean is that of the sample; the released code divides the sum over the sample by n_k. Causal: a
   query sees earlier keys and its own, and so does its sample, drawn from the keys up to the end of its 64
   queries. Choosing the u best of all queries would let later queries decide about earlier ones. So query i
   is computed if its M is among the u(i + 1) largest so far: about factor ln(n)^2 / 2 queries, n at the
   worst. The others get the mean of the values that they see; the released code gives them the sum. Random:
   the sample, per 64 queries and head. The choice has no gradient. Saved: the list of queries, and two floats
   for each. Cost: 2 n_q U d operations to measure, then 2 u n_k (d + d_v) forward, 2.5 times that backward,
   and n d_v sums: n log n.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "base/random.h"
#include "parts/groups/topk.h"
#include "parts/rows/bounded.h"
#include "parts/tiles/tile_attention.h"

struct probsparse_options {
    int64_t factor;
};

enum {
    TILE = 64,     /* queries that share a sample */
    SAMPLE = 128,  /* rows multiplied at a time: */
    SAMPLED = 124, /* sampled keys, and their sum */
    VALUES = 64    /* rows summed in float32 */
};

/* factor ceil(ln n), from 1 to n. */
static size_t sparse_count(const void *options, size_t n)
{
    double count = (double)((const struct probsparse_options *)options)->factor * ceil(log((double)n));
    return n == 0 ? 0 : count < 1 ? 1 : count < (double)n ? (size_t)count : n;
}

/* Upper bound of the queries that are computed. */
static size_t most_kept(const void *options, const struct problem_shape *shape)
{
    return shape->causal ? shape->num_queries : sparse_count(options, shape->num_queries);
}

static const struct tile_attention sizes = {.block = TILE_ATTENTION_BLOCK};

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    uint32_t *kept;           /* 1: the number of queries that are computed */
    uint32_t *list;           /* these queries, rising */
    struct softmax_rows rows; /* of each */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    size_t most = most_kept(options, shape);
    saved.kept = arena_take(&arena, 1, sizeof *saved.kept);
    saved.list = arena_take(&arena, most, sizeof *saved.list);
    saved.rows = softmax_rows_take(&arena, most);
    saved.bytes = arena.used;
    return saved;
}

/* Memory of the measure. */
struct measuring {
    float *measure;            /* (n_q): M */
    float *best;               /* (u(n_q)) causal: the largest so far, falling */
    float *keys, *columns, *z; /* of one thread: (SAMPLE, d), (d, SAMPLE), (TILE, SAMPLE) */
    size_t bytes;
};

static struct measuring measuring_on(const void *options, const struct problem_shape *shape, void *block,
                                     size_t worker)
{
    struct measuring measuring = {0};
    struct arena arena = arena_on(block), own;
    size_t d = shape->head_dim, bytes = 0;
    measuring.measure = arena_take(&arena, shape->num_queries, sizeof(float));
    if (shape->causal)
        measuring.best = arena_take(&arena, sparse_count(options, shape->num_queries), sizeof(float));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *workers = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
        own = arena_on(workers == NULL ? NULL : workers + worker * bytes);
        measuring.keys = arena_take(&own, size_product(SAMPLE, d), sizeof(float));
        measuring.columns = arena_take(&own, size_product(SAMPLE, d), sizeof(float));
        measuring.z = arena_take(&own, TILE * SAMPLE, sizeof(float));
        bytes = own.used;
    }
    measuring.bytes = arena.used;
    return measuring;
}

/* Rows of the queries that are computed. */
struct attending {
    float *query, *out;   /* (kept, d), (kept, d_v) */
    float *dquery, *dout; /* backward: the same */
    double *sum;          /* (d_v): of struct sums */
    float *part, *row;    /* (d_v) each */
    void *tiles;
    size_t bytes;
};

static struct attending attending_on(const void *options, const struct problem_shape *shape, bool backward,
                                     size_t tiles, void *block)
{
    struct attending attending = {0};
    struct arena arena = arena_on(block);
    size_t most = most_kept(options, shape), row = size_product(most, shape->head_dim),
           value_row = size_product(most, shape->value_dim);
    attending.query = arena_take(&arena, row, sizeof(float));
    attending.out = arena_take(&arena, value_row, sizeof(float));
    if (backward) {
        attending.dquery = arena_take(&arena, row, sizeof(float));
        attending.dout = arena_take(&arena, value_row, sizeof(float));
    }
    attending.sum = arena_take(&arena, shape->value_dim, sizeof(double));
    attending.part = arena_take(&arena, shape->value_dim, sizeof(float));
    attending.row = arena_take(&arena, shape->value_dim, sizeof(float));
    attending.tiles = arena_take(&arena, tiles, 1);
    attending.bytes = arena.used;
    return attending;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    const struct problem_shape kept = shape_of_rows(shape, most_kept(options, shape), shape->num_keys);
    size_t forward =
               attending_on(options, shape, false, tile_attention_forward_size(&kept, &sizes), NULL).bytes,
           backward =
               attending_on(options, shape, true, tile_attention_backward_size(&kept, &sizes), NULL).bytes;
    return size_max(size_max(forward, backward), measuring_on(options, shape, NULL, 0).bytes);
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    (void)options;
    if (size_max(shape->num_queries, shape->num_keys) > UINT32_MAX)
        return "it takes sequences of less than 2^32 tokens";
    return NULL;
}

/* ---- the queries that stand out ------------------------------------------------------------------------ */

/* The sample of the queries of a tile: `count` keys of 0 .. range - 1. */
struct sample {
    uint64_t key;
    size_t range, count;
};

static struct sample sample_of(const struct problem *problem, size_t tile)
{
    size_t range = problem->shape.causal ? (tile + 1) * TILE : problem->shape.num_keys;
    return (struct sample){random_key(problem->random_key, RANDOM_GROUPS, tile), range,
                           sparse_count(problem->options, range)};
}

/* drawn[0 .. count): the keys numbered first and up in the sample; first is a multiple of 4. */
static void draw(const struct sample *sample, size_t first, size_t count, uint32_t *drawn)
{
    uint32_t words[4] = {0};
    for (size_t s = 0; s < count; s++) {
        if (s % 4 == 0)
            random_words(sample->key, (first + s) / 4, words);
        drawn[s] = sample->count == sample->range ? (uint32_t)(first + s)
                                                  : (uint32_t)((uint64_t)words[s % 4] * sample->range >> 32);
    }
}

/* m.columns = the sampled keys and, last, their sum, transposed. Keys beyond the last are seen by no
   query. */
static void take_keys(const struct problem *problem, const struct measuring *m, const uint32_t *drawn,
                      size_t count)
{
    size_t d = problem->shape.head_dim;
    float *sum = m->keys + count * d;
    memset(sum, 0, d * sizeof *sum);
    for (size_t s = 0; s < count; s++) {
        float *row = m->keys + s * d;
        memcpy(row, view_row(problem->key, size_min(drawn[s], problem->shape.num_keys - 1)), d * sizeof *row);
        problem->kernels->rows.axpy(sum, 1, row, d);
    }
    problem->kernels->tiles.transpose(m->columns, SAMPLE, m->keys, d, count + 1, d);
}

/* Largest and sum of the scores that a query has seen, and their number. */
struct seen {
    float most, sum;
    size_t count;
};

/* Scores of one causal query, which sees some of the keys. */
static void see(struct seen *seen, const float *z, const uint32_t *drawn, size_t count, size_t visible)
{
    for (size_t s = 0; s < count; s++) {
        if (drawn[s] >= visible)
            continue;
        seen->most = z[s] > seen->most ? z[s] : seen->most;
        seen->sum += z[s];
        seen->count++;
    }
}

/* Scores z (rows, count + 1) of queries that see all keys; the last is the sum. */
static void see_all(const struct kernels *kernels, struct seen *seen, const float *z, size_t rows,
                    size_t count)
{
    float most[TILE];
    kernels->softmax.largest(most, z, SAMPLE, rows, count);
    for (size_t i = 0; i < rows; i++) {
        seen[i].most = most[i] > seen[i].most ? most[i] : seen[i].most;
        seen[i].sum += z[i * SAMPLE + count];
        seen[i].count += count;
    }
}

static void measure_tile(void *argument, size_t tile, int worker)
{
    const struct problem *problem = *(const struct problem *const *)argument;
    struct measuring m = measuring_on(problem->options, &problem->shape, problem->scratch, (size_t)worker);
    struct sample sample = sample_of(problem, tile);
    size_t d = problem->shape.head_dim, begin = tile * TILE,
           rows = size_min(TILE, problem->shape.num_queries - begin);
    struct seen seen[TILE];
    for (size_t i = 0; i < rows; i++)
        seen[i] = (struct seen){-INFINITY, 0, 0};
    for (size_t first = 0; first < sample.count; first += SAMPLED) {
        uint32_t drawn[SAMPLED];
        size_t count = size_min(SAMPLED, sample.count - first);
        draw(&sample, first, count, drawn);
        take_keys(problem, &m, drawn, count);
        problem->kernels->tiles.product(m.z, SAMPLE, view_row(problem->query, begin), problem->query.stride,
                                        1, m.columns, SAMPLE, rows, count + 1, d, false);
        if (!problem->shape.causal)
            see_all(problem->kernels, seen, m.z, rows, count);
        for (size_t i = 0; problem->shape.causal && i < rows; i++)
            see(&seen[i], m.z + i * SAMPLE, drawn, count, problem_seen(problem, begin + i));
    }
    for (size_t i = 0; i < rows; i++)
        m.measure[begin + i] = seen[i].most - seen[i].sum / (float)size_max(seen[i].count, 1);
}

/* Lists the queries whose measure is among the largest so far; equal ones rank in their order. */
static size_t list_so_far(const void *options, const struct measuring *m, size_t n, uint32_t *list)
{
    size_t most = sparse_count(options, n), held = 0, kept = 0;
    for (size_t i = 0; i < n; i++) {
        float measure = isnan(m->measure[i]) ? -INFINITY : m->measure[i];
        size_t rank = held;
        while (rank > 0 && m->best[rank - 1] < measure)
            rank--;
        if (rank < sparse_count(options, i + 1))
            list[kept++] = (uint32_t)i;
        if (rank == most)
            continue;
        held = size_min(held + 1, most);
        memmove(m->best + rank + 1, m->best + rank, (held - rank - 1) * sizeof *m->best);
        m->best[rank] = measure;
    }
    return kept;
}

static void find_kept(const struct problem *problem, const struct saved *saved)
{
    struct measuring m = measuring_on(problem->options, &problem->shape, problem->scratch, 0);
    size_t n = problem->shape.num_queries, most = sparse_count(problem->options, n);
    pool_run(problem->pool, measure_tile, &problem, (n + TILE - 1) / TILE);
    *saved->kept = (uint32_t)most;
    if (problem->shape.causal)
        *saved->kept = (uint32_t)list_so_far(problem->options, &m, n, saved->list);
    else
        topk_select(problem->kernels, m.measure, n, most, saved->list);
}

/* ---- attention ----------------------------------------------------------------------------------------- */

struct kept_queries {
    const struct problem *problem;
    const uint32_t *list;
};

/* The keys that the query at `index` of the list sees. */
static struct sight sight(const void *argument, size_t index)
{
    const struct kept_queries *kept = argument;
    return (struct sight){0, problem_seen(kept->problem, kept->list[index])};
}

static struct problem kept_problem(const struct problem *problem, const struct saved *saved,
                                   const float *query)
{
    return problem_of_rows(problem, view_of(query, *saved->kept, problem->shape.head_dim), problem->key,
                           problem->value);
}

static struct tile_attention open(const struct saved *saved, const struct kept_queries *argument)
{
    return (struct tile_attention){
        .block = TILE_ATTENTION_BLOCK,
        .sight = argument->problem->shape.causal ? sight : NULL,
        .argument = argument,
        .rows = saved->rows,
    };
}

/* to = the rows of the list, or the rows of the list = from. */
static void gather(float *to, struct view rows, const struct saved *saved)
{
    for (size_t s = 0; s < *saved->kept; s++)
        memcpy(to + s * rows.cols, view_row(rows, saved->list[s]), rows.cols * sizeof(float));
}

static void scatter(struct view rows, const float *from, const struct saved *saved)
{
    for (size_t s = 0; s < *saved->kept; s++)
        memcpy(view_row(rows, saved->list[s]), from + s * rows.cols, rows.cols * sizeof(float));
}

/* sum += weight * the row, through `part` (cols), which takes up to VALUES rows before it is added. Large
   numbers are added at once. */
struct sums {
    const struct problem *problem;
    double *sum;
    float *part;
    size_t cols, rows; /* rows in `part` */
};

static void flush(struct sums *sums)
{
    for (size_t c = 0; c < sums->cols && sums->rows > 0; c++)
        sums->sum[c] += (double)sums->part[c];
    memset(sums->part, 0, sums->cols * sizeof *sums->part);
    sums->rows = 0;
}

static struct sums open_sums(const struct problem *problem, const struct attending *attending, size_t cols)
{
    struct sums sums = {problem, attending->sum, attending->part, cols, 0};
    memset(sums.sum, 0, cols * sizeof *sums.sum);
    flush(&sums);
    return sums;
}

static void add_row(struct sums *sums, float weight, const float *row)
{
    sums->problem->kernels->rows.axpy(sums->part, weight, row, sums->cols);
    if (++sums->rows == VALUES || sums->problem->large)
        flush(sums);
}

/* out = the mean of the values that each query sees. */
static void take_means(const struct problem *problem, const struct attending *attending, struct view out)
{
    struct sums sums = open_sums(problem, attending, out.cols);
    for (size_t i = 0, added = 0; i < out.rows; i++) {
        size_t end = problem_seen(problem, i);
        float *row = view_row(out, i);
        if (i > 0 && end == added) {
            memcpy(row, view_row(out, i - 1), out.cols * sizeof *row);
            continue;
        }
        for (; added < end; added++)
            add_row(&sums, 1, view_row(problem->value, added));
        flush(&sums);
        for (size_t c = 0; c < out.cols; c++)
            row[c] = (float)(sums.sum[c] / (double)end);
    }
}

/* dvalue += the gradient of the means, of the queries that are not in the list: from the last query to the
   first, key j gets the sum over queries that see it. */
static void add_mean_gradient(const struct problem *problem, const struct saved *saved,
                              const struct attending *attending, struct view dout, struct view dvalue)
{
    struct sums sums = open_sums(problem, attending, dout.cols);
    size_t left = *saved->kept, j = dvalue.rows;
    for (size_t i = dout.rows; i > 0; i--) {
        size_t seen = problem_seen(problem, i - 1), below = i == 1 ? 0 : problem_seen(problem, i - 2);
        if (left > 0 && saved->list[left - 1] == i - 1)
            left--;
        else
            add_row(&sums, 1 / (float)seen, view_row(dout, i - 1));
        if (below == j)
            continue;
        flush(&sums);
        for (size_t c = 0; c < dout.cols; c++)
            attending->row[c] = double_bounded(sums.sum[c]);
        for (; j > below; j--) {
            float *each = view_row(dvalue, j - 1);
            if (!problem->large)
                problem->kernels->rows.axpy(each, 1, attending->row, dout.cols);
            for (size_t c = 0; problem->large && c < dout.cols; c++)
                each[c] = double_bounded((double)each[c] + sums.sum[c]);
        }
    }
}

static void forward(const struct problem *problem, struct view out)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct attending a = attending_on(problem->options, &problem->shape, false, 0, problem->scratch);
    find_kept(problem, &saved);
    const struct kept_queries kept = {problem, saved.list};
    struct problem computed = kept_problem(problem, &saved, a.query);
    struct tile_attention attention = open(&saved, &kept);
    gather(a.query, problem->query, &saved);
    tile_attention_forward(&computed, &attention, view_of(a.out, *saved.kept, out.cols), a.tiles);
    take_means(problem, &a, out);
    scatter(out, a.out, &saved);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct attending a = attending_on(problem->options, &problem->shape, true, 0, problem->scratch);
    const struct kept_queries kept = {problem, saved.list};
    struct problem computed = kept_problem(problem, &saved, a.query);
    struct tile_attention attention = open(&saved, &kept);
    size_t count = *saved.kept, d = problem->shape.head_dim;
    gather(a.query, problem->query, &saved);
    gather(a.out, out, &saved);
    gather(a.dout, dout, &saved);
    gather(a.dquery, gradients->query, &saved);
    tile_attention_backward(
        &computed, &attention, view_of(a.out, count, out.cols), view_of(a.dout, count, out.cols),
        &(struct problem_gradients){
            .query = view_of(a.dquery, count, d), .key = gradients->key, .value = gradients->value},
        a.tiles);
    scatter(gradients->query, a.dquery, &saved);
    add_mean_gradient(problem, &saved, &a, dout, gradients->value);
}

static const struct option_row options[] = {
    OPTION_ROW(
        "factor", OPTION_INT, offsetof(struct probsparse_options, factor), 5, 1, 1 << 20, NULL,
        "factor times ceil(ln n) queries get exact attention, and as many keys are sampled to choose them"),
    {.name = NULL},
};

static const char *const departures[] = {
    "64 queries in a row share one sample of keys.",
    "A query is measured by its largest sampled score minus the mean of the sampled ones.",
    "A causal query is computed if it is among the best so far; the others get the mean of the "
    "values that they see.",
    NULL,
};

const struct mechanism mechanism_probsparse = {
    .name = "probsparse",
    .summary = "exact attention for queries that stand out, the mean value for others (Zhou et al. 2021)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct probsparse_options),
    .exact = false,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .competes = true,
    .host = {refuse, saved_size, scratch_size, forward, backward},
};
