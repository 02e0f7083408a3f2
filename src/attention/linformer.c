/* Linformer (Wang, Li, Khabsa, Fang and Ma 2020): keys and values are projected along the sequence to `rank`
   rows before softmax attention, out = softmax(Q (E K)^T / sqrt(d)) (E V). E (rank, max_len) is learned per
   head and shared by K and V: the paper's key-value sharing, and the form in the YOSO paper's comparison.
   (The paper also has two projections, and one for all heads or layers.) A sequence of n keys uses the first
   n columns of E. Column j belongs to the j-th key that takes part: masked keys are skipped, so padding,
   before or behind, equals absence, where the released code keeps a column for a row of zeros. E starts
   normal with deviation 0.02, as in that comparison. Not causal: a projected row is a sum over all keys.
   Cost: 2 n_k rank (d + d_v) operations for the projections, and 2 n_q rank (d + d_v) and n_q rank
   exponentials for the attention forward; 2 and 2.5 times that backward. Nothing is random.
   Saved: two floats per query, and E K and E V, rank (d + d_v).
   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "kernels/product.h"
#include "parts/landmarks/few_keys.h"

enum {
    ROWS = 64,  /* of E that forward multiplies at a time: a unit of work */
    KEYS = 256, /* whose columns of E are multiplied at a time; in backward a unit of work */
};

struct linformer_options {
    int64_t rank;
};

static size_t rank_of(const void *options)
{
    return (size_t)((const struct linformer_options *)options)->rank;
}

static void projection_shape(const void *options, const struct parameter_sizes *sizes, size_t *rows,
                             size_t *cols)
{
    *rows = sizes->max_len > 0 ? rank_of(options) : 0;
    *cols = sizes->max_len;
}

static const struct parameter_row params[] = {
    {"projection", projection_shape, START_NORMAL, 0.02f, .decays = true},
    {.name = NULL},
};

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct softmax_rows rows;
    float *key, *value; /* (rank, d), (rank, d_v): E K, E V */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    saved.rows = softmax_rows_take(&arena, shape->num_queries);
    saved.key = arena_take(&arena, size_product(rank_of(options), shape->head_dim), sizeof(float));
    saved.value = arena_take(&arena, size_product(rank_of(options), shape->value_dim), sizeof(float));
    saved.bytes = arena.used;
    return saved;
}

struct scratch {
    float *dkey, *dvalue; /* as in saved */
    float *columns;       /* (workers, KEYS, rank): columns of E as rows */
    void *attention;
    size_t bytes;
};

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block);
    const struct problem_shape few = shape_of_rows(shape, shape->num_queries, rank_of(options));
    s.dkey = arena_take(&arena, size_product(rank_of(options), shape->head_dim), sizeof(float));
    s.dvalue = arena_take(&arena, size_product(rank_of(options), shape->value_dim), sizeof(float));
    s.columns =
        arena_take(&arena, size_product(shape->workers, size_product(KEYS, rank_of(options))), sizeof(float));
    s.attention = arena_take(&arena, few_keys_scratch_size(&few), 1);
    s.bytes = arena.used;
    return s;
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    return saved_on(options, shape, NULL).bytes;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    return scratch_on(options, shape, NULL).bytes;
}

/* ---- forward and backward ------------------------------------------------------------------------------ */

struct pass {
    const struct problem *problem;
    const struct problem_gradients *gradients;
    struct saved saved;
    struct scratch scratch;
};

/* Rows of E K and E V. Both use a part of E while it is in cache. */
static void project(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    const struct problem *p = pass->problem;
    size_t d = p->shape.head_dim, d_v = p->shape.value_dim, ld = p->shape.max_len, row = index * ROWS,
           rows = size_min(ROWS, rank_of(p->options) - row), keys = p->shape.num_keys;
    const float *e = p->params + row * ld;
    for (size_t first = 0; first < keys; first += KEYS) {
        size_t count = size_min(KEYS, keys - first);
        product(p->kernels, pass->saved.key + row * d, d, e + first, ld, false, view_row(p->key, first),
                p->key.stride, false, rows, d, count, first > 0);
        product(p->kernels, pass->saved.value + row * d_v, d_v, e + first, ld, false,
                view_row(p->value, first), p->value.stride, false, rows, d_v, count, first > 0);
    }
}

/* With some keys: dK += E^T d(E K), dV += E^T d(E V), dE += d(E K) K^T + d(E V) V^T. Columns of E are copied
   first: read in place, they would fall into few sets of the caches if max_len is a power of two. */
static void unproject(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    const struct problem *p = pass->problem;
    const struct scratch *s = &pass->scratch;
    size_t d = p->shape.head_dim, d_v = p->shape.value_dim, rank = rank_of(p->options), ld = p->shape.max_len,
           first = index * KEYS, count = size_min(KEYS, p->shape.num_keys - first);
    struct view key = p->key, value = p->value, dkey = pass->gradients->key, dvalue = pass->gradients->value;
    float *columns = s->columns + (size_t)worker * KEYS * rank, *de = pass->gradients->params;
    p->kernels->tiles.transpose(columns, rank, p->params + first, ld, rank, count);
    product(p->kernels, view_row(dkey, first), dkey.stride, columns, rank, false, s->dkey, d, false, count, d,
            rank, true);
    product(p->kernels, view_row(dvalue, first), dvalue.stride, columns, rank, false, s->dvalue, d_v, false,
            count, d_v, rank, true);
    if (de == NULL)
        return;
    product(p->kernels, de + first, ld, s->dkey, d, false, view_row(key, first), key.stride, true, rank,
            count, d, true);
    product(p->kernels, de + first, ld, s->dvalue, d_v, false, view_row(value, first), value.stride, true,
            rank, count, d_v, true);
}

/* With the projected keys and values. */
static struct problem projected(const struct pass *pass)
{
    const struct problem *p = pass->problem;
    size_t rank = rank_of(p->options);
    return problem_of_rows(p, p->query, view_of(pass->saved.key, rank, p->shape.head_dim),
                           view_of(pass->saved.value, rank, p->shape.value_dim));
}

static struct pass open(const struct problem *problem)
{
    return (struct pass){.problem = problem,
                         .saved = saved_on(problem->options, &problem->shape, problem->saved),
                         .scratch = scratch_on(problem->options, &problem->shape, problem->scratch)};
}

static size_t parts_of(size_t rows, size_t part)
{
    return (rows + part - 1) / part;
}

static void forward(const struct problem *problem, struct view out)
{
    struct pass pass = open(problem);
    pool_run(problem->pool, project, &pass, parts_of(rank_of(problem->options), ROWS));
    struct problem few = projected(&pass);
    few_keys_forward(&few, pass.saved.rows, out, pass.scratch.attention);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct pass pass = open(problem);
    struct problem few = projected(&pass);
    size_t rank = rank_of(problem->options), d = problem->shape.head_dim, d_v = problem->shape.value_dim;
    pass.gradients = gradients;
    memset(pass.scratch.dkey, 0, rank * d * sizeof(float));
    memset(pass.scratch.dvalue, 0, rank * d_v * sizeof(float));
    few_keys_backward(&few, pass.saved.rows, out, dout,
                      &(struct problem_gradients){.query = gradients->query,
                                                  .key = view_of(pass.scratch.dkey, rank, d),
                                                  .value = view_of(pass.scratch.dvalue, rank, d_v)},
                      pass.scratch.attention);
    pool_run(problem->pool, unproject, &pass, parts_of(problem->shape.num_keys, KEYS));
}

static const struct option_row options[] = {
    OPTION_ROW("rank", OPTION_INT, offsetof(struct linformer_options, rank), 256, 1, 65536, NULL,
               "rows that keys and values are projected to; the projection has rank x max_len learned "
               "numbers per head"),
    {.name = NULL},
};

static const char *const departures[] = {
    "One projection per head serves keys and values.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts the "
    "columns of the projection.",
    NULL,
};

const struct mechanism mechanism_linformer = {
    .name = "linformer",
    .summary = "softmax attention to learned projections of keys and values along the sequence (Wang et al. "
               "2020)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct linformer_options),
    .exact = true,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .drops_weights = true,
    .no_causal = "there is no causal form: a projected key is a sum over all keys",
    .by_position = true,
    .host = {NULL, saved_size, scratch_size, forward, backward},
    .params = params,
};
