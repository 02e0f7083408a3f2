/* YOSO-E: the expectation of YOSO over its hash functions, exactly (Zeng et al. 2021), for one head.
     E_ij = p_ij^tau, p = 1 - angle(Q_i, K_j) / pi, tau = hash_bits; X = E V; Y = X normalised.
   Backward, for G the gradient of X: dV = E^T G; dQ_i = sum_j <G_i, V_j> w_ij K_j, dK alike, then through
   the unit length; w = (tau / 2) E (lower: the paper's bound) or the derivative of p^tau (true).
   Never an n x n array: a block of 64 queries meets tiles of 64 keys. A tile stands with a row per key, so
   that what must be transposed is the block, once, and not every tile. Angles near 0 or pi cannot be had
   from dot products; such pairs are counted by the slot and done again from differences of the vectors, with
   the gradient along the unit tangent, which is bounded (docs/MATH.md). The true gradient is not.
   Causal: tiles that no query of a block sees are left out, and unseen pairs of the others weigh 0.
   Nothing is random. Saved: one float per query. Scratch: 2 n_k d floats and a few tiles. Cost: 2 n_q n_k
   (d + d_v) operations and n_q n_k angles and powers forward, about three times that backward; causal half.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/normalize.h"
#include "parts/unit.h"
#include "parts/yoso_options.h"

#define PI 3.14159265358979323846

enum { TILE = KERNELS_TILE };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static float *row_of(struct view view, size_t row)
{
    return (float *)view.data + row * view.stride;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* A block of queries, all keys, and the tile where they meet. "turned" is (width, TILE): a column a row. */
struct scratch {
    size_t ld, ld_value;
    float *query, *query_turned;            /* (TILE, ld) unit rows, (ld, TILE) */
    float *query_norm, *query_norm2;        /* (TILE) lengths; 1, or 0 for a zero vector */
    float *key, *key_norm, *key_norm2;      /* (n_k, ld), (n_k), (n_k) */
    float *dot, *power;                     /* (TILE keys, TILE queries) */
    float *x;                               /* (TILE, ld_value): X in forward, its gradient in backward */
    float *ones;                            /* (TILE) */
    float *dquery, *dkey;                   /* backward only, as the rest: (TILE, ld), (n_k, ld) */
    float *x_turned, *bias, *slope, *score; /* (ld_value, TILE), (TILE), tiles */
    float *zeros;                           /* (TILE) */
};

static size_t lay_out_scratch(struct scratch *scratch, const struct problem_shape *shape, bool backward,
                              void *block)
{
    struct arena arena = arena_on(block);
    size_t float_size = sizeof(float), n_k = shape->num_keys;
    size_t ld = scratch->ld = unit_padded(shape->head_dim),
           ld_value = scratch->ld_value = unit_padded(shape->value_dim);
    float **tiles[] = {&scratch->dot, &scratch->power, &scratch->slope, &scratch->score};
    float **lines[] = {&scratch->query_norm, &scratch->query_norm2, &scratch->ones, &scratch->zeros,
                       &scratch->bias};
    for (size_t i = 0; i < (backward ? 4 : 2); i++)
        *tiles[i] = arena_take(&arena, (size_t)TILE * TILE, float_size);
    for (size_t i = 0; i < (backward ? 5 : 3); i++)
        *lines[i] = arena_take(&arena, TILE, float_size);
    scratch->query = arena_take(&arena, ld, TILE * float_size);
    scratch->query_turned = arena_take(&arena, ld, TILE * float_size);
    scratch->x = arena_take(&arena, ld_value, TILE * float_size);
    scratch->key = arena_take(&arena, n_k, size_product(ld, float_size));
    scratch->key_norm = arena_take(&arena, n_k, float_size);
    scratch->key_norm2 = arena_take(&arena, n_k, float_size);
    if (backward) {
        scratch->dquery = arena_take(&arena, ld, TILE * float_size);
        scratch->dkey = arena_take(&arena, n_k, size_product(ld, float_size));
        scratch->x_turned = arena_take(&arena, ld_value, TILE * float_size);
    }
    return arena.used;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct scratch scratch;
    size_t forward = lay_out_scratch(&scratch, shape, false, NULL);
    size_t backward = lay_out_scratch(&scratch, shape, true, NULL);
    return forward > backward ? forward : backward;
}

static size_t saved_size(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    return options->normalize == YOSO_NORMALIZE_NONE ? 0 : size_product(shape->num_queries, sizeof(float));
}

static const char *refuse(const void *options, const struct problem_shape *shape)
{
    if (shape->dtype != DTYPE_FLOAT32)
        return "yoso-e takes float32 alone so far";
    if (scratch_size(options, shape) > (size_t)1 << 40)
        return "yoso-e would need more than 1099511627776 bytes for one head";
    return NULL;
}

/* ---- blocks and tiles ---------------------------------------------------------------------------------- */

static void take_unit(const struct kernels *kernels, float *unit, size_t ld, float *norm, float *norm2,
                      struct view view, size_t first, size_t rows)
{
    unit_take(kernels, unit, ld, norm, row_of(view, first), view.stride, rows, view.cols);
    for (size_t i = 0; i < rows; i++)
        norm2[i] = norm[i] < UNIT_SHORTEST ? 0 : 1;
}

/* The unit rows of queries first .. first + rows - 1, both ways round. */
static void take_queries(const struct problem *problem, const struct scratch *scratch, size_t first,
                         size_t rows)
{
    take_unit(problem->kernels, scratch->query, scratch->ld, scratch->query_norm, scratch->query_norm2,
              problem->query, first, rows);
    problem->kernels->tile_transpose(scratch->query_turned, TILE, scratch->query, scratch->ld, rows,
                                     problem->shape.head_dim);
}

static void take_keys(const struct problem *problem, const struct scratch *scratch)
{
    take_unit(problem->kernels, scratch->key, scratch->ld, scratch->key_norm, scratch->key_norm2,
              problem->key, 0, problem->shape.num_keys);
    for (size_t i = 0; i < TILE; i++)
        scratch->ones[i] = 1;
}

/* Where a block of queries meets a tile of keys. */
struct meeting {
    size_t first_query, queries, first_key, keys;
};

/* Weights of keys that a query does not see. */
static void hide_unseen(const struct problem *problem, const struct meeting *meeting, float *tile)
{
    for (size_t i = 0; i < meeting->queries; i++) {
        size_t seen = problem_seen(problem, meeting->first_query + i);
        for (size_t j = seen > meeting->first_key ? seen - meeting->first_key : 0; j < meeting->keys; j++)
            tile[j * TILE + i] = 0;
    }
}

/* A little more than the slot counts, so that no pair is left out by a rounding. */
static bool is_near(float dot, float norms)
{
    return norms - 2 * dot < 1.01f * COLLISION_NEAR || norms + 2 * dot < 1.01f * COLLISION_NEAR;
}

/* p^tau of a pair from the differences of its vectors; two zero vectors always meet. */
static float power_of_pair(const float *query, const float *key, size_t dim, int64_t hash_bits)
{
    double u2 = 0, v2 = 0;
    for (size_t c = 0; c < dim; c++) {
        double difference = (double)query[c] - (double)key[c], sum = (double)query[c] + (double)key[c];
        u2 += difference * difference;
        v2 += sum * sum;
    }
    double p = 1 - 2 / PI * atan2(sqrt(u2), sqrt(v2));
    return (float)pow(p > 0 ? p : 0, (double)hash_bits);
}

/* Calls `pair` on the near pairs of a tile, counted by the slot. */
static void each_near(const struct problem *problem, const struct scratch *scratch,
                      const struct meeting *meeting, size_t near,
                      void (*pair)(const struct problem *, const struct scratch *, const struct meeting *,
                                   size_t query, size_t key))
{
    for (size_t j = 0; near > 0 && j < meeting->keys; j++)
        for (size_t i = 0; i < meeting->queries; i++) {
            float norms = scratch->query_norm2[i] + scratch->key_norm2[meeting->first_key + j];
            if (is_near(scratch->dot[j * TILE + i], norms))
                pair(problem, scratch, meeting, i, j);
        }
}

static void redo_power(const struct problem *problem, const struct scratch *scratch,
                       const struct meeting *meeting, size_t query, size_t key)
{
    const struct yoso_options *options = problem->options;
    scratch->power[key * TILE + query] = power_of_pair(
        scratch->query + query * scratch->ld, scratch->key + (meeting->first_key + key) * scratch->ld,
        problem->shape.head_dim, options->hash_bits);
}

/* The tile of p^tau, and of its slope where that is asked for. Returns how many pairs are near. */
static size_t meet(const struct problem *problem, const struct scratch *scratch,
                   const struct meeting *meeting, float *slope)
{
    const struct yoso_options *options = problem->options;
    const float *key = scratch->key + meeting->first_key * scratch->ld;
    problem->kernels->tile_product(scratch->dot, TILE, key, scratch->ld, 1, scratch->query_turned, TILE,
                                   meeting->keys, meeting->queries, problem->shape.head_dim, false);
    size_t near = problem->kernels->collision_tile(scratch->power, slope, scratch->dot, TILE, meeting->keys,
                                                   meeting->queries, scratch->key_norm2 + meeting->first_key,
                                                   scratch->query_norm2, (unsigned)options->hash_bits);
    each_near(problem, scratch, meeting, near, redo_power);
    hide_unseen(problem, meeting, scratch->power);
    if (slope != NULL)
        hide_unseen(problem, meeting, slope);
    return near;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void forward(const struct problem *problem, struct view out)
{
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t n_q = problem->shape.num_queries, dim = problem->shape.value_dim;
    float *kept = problem->saved;
    struct scratch scratch;
    lay_out_scratch(&scratch, &problem->shape, false, problem->scratch);
    take_keys(problem, &scratch);
    for (size_t first = 0; first < n_q; first += TILE) {
        struct meeting meeting = {.first_query = first, .queries = smaller(TILE, n_q - first)};
        float *block_kept = kept == NULL ? NULL : kept + first;
        take_queries(problem, &scratch, first, meeting.queries);
        memset(scratch.x, 0, meeting.queries * scratch.ld_value * sizeof *scratch.x);
        if (options->normalize == YOSO_NORMALIZE_SUM)
            memset(block_kept, 0, meeting.queries * sizeof *block_kept);
        size_t seen = problem_seen(problem, first + meeting.queries - 1);
        for (size_t key = 0; key < seen; key += TILE) {
            meeting.first_key = key;
            meeting.keys = smaller(TILE, seen - key);
            meet(problem, &scratch, &meeting, NULL);
            kernels->tile_product(scratch.x, scratch.ld_value, scratch.power, 1, TILE,
                                  row_of(problem->value, key), problem->value.stride, meeting.queries, dim,
                                  meeting.keys, true);
            if (options->normalize == YOSO_NORMALIZE_SUM)
                kernels->tile_product(block_kept, 1, scratch.power, 1, TILE, scratch.ones, 1, meeting.queries,
                                      1, meeting.keys, true);
        }
        normalize_rows(kernels, options->normalize, row_of(out, first), out.stride, scratch.x,
                       scratch.ld_value, 1, block_kept, meeting.queries, dim);
    }
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* A near pair of the true gradient: out of the tile, and added from the vectors. */
static void redo_slope(const struct problem *problem, const struct scratch *scratch,
                       const struct meeting *meeting, size_t query, size_t key)
{
    const struct yoso_options *options = problem->options;
    size_t row = meeting->first_key + key, at = key * TILE + query;
    const uint32_t zero = 0;
    scratch->slope[at] = 0;
    problem->kernels->bucket_pairs(&(struct bucket_pairs){
        .queries = &zero,
        .keys = &zero,
        .num_queries = 1,
        .num_keys = 1,
        .query = scratch->query + query * scratch->ld,
        .key = scratch->key + row * scratch->ld,
        .value = row_of(problem->value, row),
        .dout = scratch->x + query * scratch->ld_value,
        .dim = problem->shape.head_dim,
        .value_dim = problem->shape.value_dim,
        .bias = options->normalize == YOSO_NORMALIZE_SUM ? scratch->bias + query : NULL,
        .dquery = scratch->dquery + query * scratch->ld,
        .dkey = scratch->dkey + row * scratch->ld,
        .scale = scratch->power[at],
        .weight = PAIR_TANGENT,
        .hash_bits = (unsigned)options->hash_bits,
    });
}

/* score <- d weight, the gradient of E: <dX_i, V_j> + bias_i. */
static void take_score(const struct problem *problem, const struct scratch *scratch,
                       const struct meeting *meeting)
{
    const struct yoso_options *options = problem->options;
    bool biased = options->normalize == YOSO_NORMALIZE_SUM;
    for (size_t j = 0; biased && j < meeting->keys; j++)
        memcpy(scratch->score + j * TILE, scratch->bias, meeting->queries * sizeof *scratch->bias);
    problem->kernels->tile_product(scratch->score, TILE, row_of(problem->value, meeting->first_key),
                                   problem->value.stride, 1, scratch->x_turned, TILE, meeting->keys,
                                   meeting->queries, problem->shape.value_dim, biased);
}

static void tile_backward(const struct problem *problem, const struct scratch *scratch,
                          const struct meeting *meeting, struct view dvalue)
{
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t head_dim = problem->shape.head_dim, value_dim = problem->shape.value_dim, ld = scratch->ld;
    size_t queries = meeting->queries, keys = meeting->keys, first_key = meeting->first_key;
    bool derivative = options->gradient == YOSO_GRADIENT_TRUE;
    size_t near = meet(problem, scratch, meeting, derivative ? scratch->slope : NULL);
    kernels->tile_product(row_of(dvalue, first_key), dvalue.stride, scratch->power, TILE, 1, scratch->x,
                          scratch->ld_value, keys, value_dim, queries, true);
    take_score(problem, scratch, meeting);
    if (derivative)
        each_near(problem, scratch, meeting, near, redo_slope);
    /* The slot of softmax's gradient is scale * p * (score - delta): a product of tiles. */
    kernels->softmax_gradient(scratch->score, TILE, derivative ? scratch->slope : scratch->power, TILE, keys,
                              queries, derivative ? 1 : 0.5f * (float)options->hash_bits, scratch->zeros);
    kernels->tile_product(scratch->dquery, ld, scratch->score, 1, TILE, scratch->key + first_key * ld, ld,
                          queries, head_dim, keys, true);
    kernels->tile_product(scratch->dkey + first_key * ld, ld, scratch->score, TILE, 1, scratch->query, ld,
                          keys, head_dim, queries, true);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys;
    size_t head_dim = problem->shape.head_dim, value_dim = problem->shape.value_dim;
    const float *kept = problem->saved;
    struct scratch scratch;
    lay_out_scratch(&scratch, &problem->shape, true, problem->scratch);
    size_t ld = scratch.ld;
    take_keys(problem, &scratch);
    memset(scratch.zeros, 0, TILE * sizeof *scratch.zeros);
    memset(scratch.dkey, 0, n_k * ld * sizeof *scratch.dkey);
    for (size_t first = 0; first < n_q; first += TILE) {
        struct meeting meeting = {.first_query = first, .queries = smaller(TILE, n_q - first)};
        take_queries(problem, &scratch, first, meeting.queries);
        normalize_rows_backward(kernels, options->normalize, scratch.x, scratch.ld_value, scratch.bias,
                                row_of(out, first), out.stride, row_of(dout, first), dout.stride,
                                kept == NULL ? NULL : kept + first, meeting.queries, value_dim);
        kernels->tile_transpose(scratch.x_turned, TILE, scratch.x, scratch.ld_value, meeting.queries,
                                value_dim);
        memset(scratch.dquery, 0, meeting.queries * ld * sizeof *scratch.dquery);
        size_t seen = problem_seen(problem, first + meeting.queries - 1);
        for (size_t key = 0; key < seen; key += TILE) {
            meeting.first_key = key;
            meeting.keys = smaller(TILE, seen - key);
            tile_backward(problem, &scratch, &meeting, gradients->value);
        }
        kernels->unit_rows_backward(row_of(gradients->query, first), gradients->query.stride, scratch.dquery,
                                    scratch.query, ld, scratch.query_norm, meeting.queries, head_dim, NULL,
                                    NULL);
    }
    kernels->unit_rows_backward(gradients->key.data, gradients->key.stride, scratch.dkey, scratch.key, ld,
                                scratch.key_norm, n_k, head_dim, NULL, NULL);
}

const struct mechanism mechanism_yoso_e = {
    .name = "yoso-e",
    .summary = "the exact expectation of yoso, in tiles, quadratic in the length",
    .options = yoso_exact_rows,
    .options_size = sizeof(struct yoso_options),
    .exact = true,
    .mixes = true,
    .refuse = refuse,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
};
