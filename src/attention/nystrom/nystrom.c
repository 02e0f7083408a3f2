/* Nystromformer (Xiong, Zeng, Chakraborty et al. 2021): softmax attention through m landmarks, the means of
   consecutive segments of queries and of keys (segments.h). With s(X) = softmax of rows of X / sqrt(d):
       F = s(Q K~^T) (n_q, m), A = s(Q~ K~^T) (m, m), G = s(Q~ K^T) (m, n_k), out = F Z (G V),
   where Z approximates the pseudo-inverse of A by six steps (pseudo_inverse.h). At most m queries or keys
   give exact softmax attention, as in the released code. Segments differ in length by at most one, where that
   code needs a multiple of m. Two more of its ways are not followed: the start of the iteration comes from
   this head's A, not from the whole batch, and a masked token is absent, not a row of zeros in the mean of
   its segment. The paper's convolution of values is a layer of the model that works with every mechanism
   (--conv-window, nn/convolution.h). Not causal: a landmark is a mean over its whole segment.
   Cost: 2 m (n_q + n_k) (d + d_v) operations and m (n_q + n_k) exponentials forward, 2.5 times that backward,
   and 48 m^3 operations forward, 144 m^3 backward. Nothing is random. Saved: two floats per query, and
   m (d_v + 2). Landmarks, A and Z are computed again in backward.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "attention/nystrom/pseudo_inverse.h"
#include "attention/nystrom/segments.h"
#include "base/memory.h"
#include "kernels/product.h"
#include "parts/landmarks/few_keys.h"
#include "parts/tiles/double_attention.h"
#include "parts/tiles/tile_attention.h"
#include "parts/tiles/tile_products.h"

struct nystrom_options {
    int64_t num_landmarks;
};

/* Landmarks on each side; 0: exact attention. */
static size_t landmarks_of(const void *options, const struct problem_shape *shape)
{
    size_t m = (size_t)((const struct nystrom_options *)options)->num_landmarks;
    return shape->num_queries > m && shape->num_keys > m ? m : 0;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct saved {
    struct softmax_rows queries;   /* (n_q): of exact attention, or of F */
    struct softmax_rows landmarks; /* (m): of G */
    float *key_values;             /* (m, d_v): G V */
    size_t bytes;
};

static struct saved saved_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct saved saved;
    struct arena arena = arena_on(block);
    size_t m = landmarks_of(options, shape);
    saved.queries = softmax_rows_take(&arena, shape->num_queries);
    saved.landmarks = softmax_rows_take(&arena, m);
    saved.key_values = arena_take(&arena, size_product(m, shape->value_dim), sizeof(float));
    saved.bytes = arena.used;
    return saved;
}

/* Queries of exact attention, or landmarks, that see all keys. Few queries are cut into two blocks of whole
   sixes (the rows that a product computes at once), so that two threads have work. */
static size_t block_of(size_t queries)
{
    return size_max(size_min((queries + 11) / 12 * 6, TILE_ATTENTION_BLOCK), 6);
}

struct scratch {
    float *query, *key, *dquery, *dkey; /* (m, d): landmarks Q~ and K~ */
    float *mixed, *dmixed;              /* (m, d_v): Z G V */
    float *dkey_values;                 /* (m, d_v): of G V */
    float *weights, *dweights;          /* (m, m): A */
    float *dinverse;                    /* (m, m): of Z */
    float *delta;                       /* (m) */
    struct pseudo_inverse inverse;
    void *attention;
    size_t bytes;
};

static size_t tile_bytes(const struct problem_shape *shape, size_t queries)
{
    const struct problem_shape tiled = shape_of_rows(shape, queries, shape->num_keys);
    return tile_attention_size(&tiled, &(struct tile_attention){.block = block_of(queries)});
}

static struct scratch scratch_on(const void *options, const struct problem_shape *shape, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block);
    size_t m = landmarks_of(options, shape), rows = size_product(m, shape->head_dim),
           values = size_product(m, shape->value_dim), squares = size_product(m, m);
    const struct problem_shape few = shape_of_rows(shape, shape->num_queries, m);
    s.query = arena_take(&arena, rows, sizeof(float));
    s.key = arena_take(&arena, rows, sizeof(float));
    s.dquery = arena_take(&arena, rows, sizeof(float));
    s.dkey = arena_take(&arena, rows, sizeof(float));
    s.mixed = arena_take(&arena, values, sizeof(float));
    s.dmixed = arena_take(&arena, values, sizeof(float));
    s.dkey_values = arena_take(&arena, values, sizeof(float));
    s.weights = arena_take(&arena, squares, sizeof(float));
    s.dweights = arena_take(&arena, squares, sizeof(float));
    s.dinverse = arena_take(&arena, squares, sizeof(float));
    s.delta = arena_take(&arena, m, sizeof(float));
    s.inverse = pseudo_inverse_take(&arena, m);
    /* Fewer keys may arrive than the size was requested for, and make the attention exact. */
    s.attention =
        arena_take(&arena, size_max(tile_bytes(shape, shape->num_queries), few_keys_scratch_size(&few)), 1);
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

/* ---- parts of both directions -------------------------------------------------------------------------- */

/* Attention of `queries` (all, or landmarks) to every key. */
static struct problem to_keys(const struct problem *problem, struct view query)
{
    return problem_of_rows(problem, query, problem->key, problem->value);
}

static struct tile_attention tiles_of(size_t queries, struct softmax_rows rows)
{
    return (struct tile_attention){.block = block_of(queries), .rows = rows};
}

/* Attention of all queries to the landmarks of keys, whose values are Z G V. */
static struct problem to_landmarks(const struct problem *problem, const struct scratch *s, size_t m)
{
    return problem_of_rows(problem, problem->query, view_of(s->key, m, problem->shape.head_dim),
                           view_of(s->mixed, m, problem->shape.value_dim));
}

/* Scores of landmarks: in double if float32 could overflow. */
static void score(const struct problem *problem, const struct scratch *s, size_t m)
{
    const struct kernels *kernels = problem->kernels;
    size_t d = problem->shape.head_dim;
    if (kernels->rows.sum_squares(s->query, m * d) < DOUBLE_SQUARES &&
        kernels->rows.sum_squares(s->key, m * d) < DOUBLE_SQUARES) {
        product(kernels, s->weights, m, s->query, d, false, s->key, d, true, m, m, d, false);
        return;
    }
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++) {
            double sum = 0;
            for (size_t c = 0; c < d; c++)
                sum += (double)s->query[i * d + c] * (double)s->key[j * d + c];
            s->weights[i * m + j] = double_bounded(sum);
        }
}

/* Landmarks, A and the steps to Z. */
static void make_landmarks(const struct problem *problem, const struct scratch *s, size_t m)
{
    const struct kernels *kernels = problem->kernels;
    float scale = score_scale(problem->shape.head_dim);
    segment_means(kernels, problem->query, m, s->query);
    segment_means(kernels, problem->key, m, s->key);
    score(problem, s, m);
    for (size_t i = 0; i < m; i++) {
        float largest = -INFINITY, sum = 0, factor, *row = s->weights + i * m;
        kernels->softmax.step(row, m, 1, m, scale, &largest, &sum, &factor);
        sum = 1 / sum;
        kernels->rows.scale(row, m, &sum, 1, m);
    }
    pseudo_inverse_forward(kernels, &s->inverse, s->weights, m);
}

/* mixed = Z G V. */
static void mix(const struct problem *problem, const struct saved *saved, const struct scratch *s, size_t m)
{
    size_t d_v = problem->shape.value_dim;
    product(problem->kernels, s->mixed, d_v, s->inverse.result, m, false, saved->key_values, d_v, false, m,
            d_v, m, false);
}

/* ---- the mechanism ------------------------------------------------------------------------------------- */

static void forward(const struct problem *problem, struct view out)
{
    size_t m = landmarks_of(problem->options, &problem->shape);
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch s = scratch_on(problem->options, &problem->shape, problem->scratch);
    if (m == 0) {
        struct tile_attention exact = tiles_of(problem->shape.num_queries, saved.queries);
        tile_attention_forward(problem, &exact, out, s.attention);
        return;
    }
    make_landmarks(problem, &s, m);
    struct tile_attention tiles = tiles_of(m, saved.landmarks);
    struct problem of_landmarks = to_keys(problem, view_of(s.query, m, problem->shape.head_dim));
    tile_attention_forward(&of_landmarks, &tiles, view_of(saved.key_values, m, problem->shape.value_dim),
                           s.attention);
    mix(problem, &saved, &s, m);
    struct problem few = to_landmarks(problem, &s, m);
    few_keys_forward(&few, saved.queries, out, s.attention);
}

/* dQ~ and dK~ += their gradients through A. Overwrites dweights. */
static void weights_backward(const struct problem *problem, const struct scratch *s, size_t m)
{
    const struct kernels *kernels = problem->kernels;
    size_t d = problem->shape.head_dim;
    kernels->rows.dots(s->delta, s->dweights, m, s->weights, m, m, m);
    kernels->softmax.gradient(s->dweights, m, s->weights, m, m, m, score_scale(d), s->delta);
    product(kernels, s->dquery, d, s->dweights, m, false, s->key, d, false, m, d, m, true);
    product(kernels, s->dkey, d, s->dweights, m, true, s->query, d, false, m, d, m, true);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    const struct kernels *kernels = problem->kernels;
    size_t m = landmarks_of(problem->options, &problem->shape), d = problem->shape.head_dim,
           d_v = problem->shape.value_dim;
    struct saved saved = saved_on(problem->options, &problem->shape, problem->saved);
    struct scratch s = scratch_on(problem->options, &problem->shape, problem->scratch);
    if (m == 0) {
        struct tile_attention exact = tiles_of(problem->shape.num_queries, saved.queries);
        tile_attention_backward(problem, &exact, out, dout, gradients, s.attention);
        return;
    }
    make_landmarks(problem, &s, m);
    mix(problem, &saved, &s, m);
    memset(s.dquery, 0, m * d * sizeof *s.dquery);
    memset(s.dkey, 0, m * d * sizeof *s.dkey);
    memset(s.dmixed, 0, m * d_v * sizeof *s.dmixed);
    memset(s.dweights, 0, m * m * sizeof *s.dweights);

    struct problem few = to_landmarks(problem, &s, m);
    few_keys_backward(&few, saved.queries, out, dout,
                      &(struct problem_gradients){.query = gradients->query,
                                                  .key = view_of(s.dkey, m, d),
                                                  .value = view_of(s.dmixed, m, d_v)},
                      s.attention);
    product(kernels, s.dinverse, m, s.dmixed, d_v, false, saved.key_values, d_v, true, m, m, d_v, false);
    product(kernels, s.dkey_values, d_v, s.inverse.result, m, true, s.dmixed, d_v, false, m, d_v, m, false);

    struct tile_attention tiles = tiles_of(m, saved.landmarks);
    struct problem of_landmarks = to_keys(problem, view_of(s.query, m, d));
    tile_attention_backward(
        &of_landmarks, &tiles, view_of(saved.key_values, m, d_v), view_of(s.dkey_values, m, d_v),
        &(struct problem_gradients){
            .query = view_of(s.dquery, m, d), .key = gradients->key, .value = gradients->value},
        s.attention);
    pseudo_inverse_backward(kernels, &s.inverse, s.weights, m, s.dinverse, s.dweights);
    weights_backward(problem, &s, m);
    segment_means_backward(kernels, gradients->query, m, s.dquery);
    segment_means_backward(kernels, gradients->key, m, s.dkey);
}

static const struct option_row options[] = {
    OPTION_ROW("num_landmarks", OPTION_INT, offsetof(struct nystrom_options, num_landmarks), 64, 1, 4096,
               NULL,
               "landmarks m of queries and of keys, each the mean of a segment of the sequence; with at most "
               "m tokens attention is exact; time grows with m n + m^3"),
    {.name = NULL},
};

static const char *const departures[] = {
    "The iteration for the pseudo-inverse starts from each head's own matrix.",
    "Segments differ in length by at most one, so n need not be a multiple.",
    "The convolution of values is a layer of the model: --conv-window.",
    "Positions count the tokens that take part, so a key mask in the middle or in front shifts the "
    "segments.",
    NULL,
};

const struct mechanism mechanism_nystrom = {
    .name = "nystrom",
    .summary = "Nystromformer: softmax attention through the means of segments (Xiong et al. 2021)",
    .departures = departures,
    .options = options,
    .options_size = sizeof(struct nystrom_options),
    .exact = true,
    .mixes = true,
    .range = {.bounded = true, .power = 2},
    .competes = true,
    .no_causal = "there is no causal form: a landmark is a mean of later tokens too",
    .host = {NULL, saved_size, scratch_size, forward, backward},
};
