/* YOSO-E: the exact expectation of YOSO over its hash functions (Zeng et al. 2021), for one head.
     E_ij = p_ij^tau, p = 1 - angle(Q_i, K_j) / pi, tau = hash_bits; X = E V; Y = X normalised.
   Backward, with G the gradient of X: dV = E^T G; dQ_i = sum_j <G_i, V_j> w_ij K_j, dK likewise, then
   through the unit length; w = (tau / 2) E (lower: the paper's bound) or the derivative of p^tau (true).
   No n x n array exists: blocks of 64 queries meet tiles of 64 keys. A tile has one row per key, so only the
   block is transposed, once, instead of every tile. Angles near 0 or pi cannot be computed from dot
   products; the slot counts such pairs, and they are recomputed from differences of the vectors, with the
   gradient along the unit tangent, which is bounded (docs/MATH.md). The true gradient is not.
   Causal: tiles that no query of a block sees are skipped; unseen pairs in other tiles weigh 0.
   Nothing is random. Saved: one float per query. Scratch: 2 n_k d floats and a few tiles. Cost: 2 n_q n_k (d
   + d_v) operations and n_q n_k angles and powers forward, about three times that backward; causal half.
   Threads: blocks of queries forward; backward a grid of blocks of queries and tiles of keys, where dQ is
   summed along a row and dK, dV along a column.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/collisions/near_pair.h"
#include "parts/collisions/normalize.h"
#include "parts/hashing/unit.h"
#include "parts/hashing/unit_map.h"
#include "parts/hashing/yoso_options.h"

enum {
    TILE = KERNELS_TILE,
    KEYS_AT_ONCE = 2 * TILE, /* backward: keys of a grid cell; more would leave threads idle at the corners */
    ROWS_AT_ONCE = 8 * TILE, /* keys per unit of work of normalisation and its backward pass */
};

/* ---- memory -------------------------------------------------------------------------------------------- */

/* A block of queries, all keys, and their tile. "transposed" is (width, TILE). */
struct scratch {
    size_t width, ld, ld_value; /* width of unit rows */
    /* Per thread. */
    float *dot, *power;   /* (TILE keys, TILE queries) */
    float *slope, *score; /* backward only: the same */
    /* Per block of queries in flight. */
    float *query, *query_transposed;     /* (TILE, ld) unit rows, (ld, TILE) */
    float *query_norm, *query_norm2;     /* (TILE) lengths; 1, or 0 for a zero vector */
    float *x;                            /* (TILE, ld_value): X in forward, its gradient in backward */
    float *dquery, *x_transposed, *bias; /* backward only: (TILE, ld), (ld_value, TILE), (TILE) */
    /* Shared. */
    float *key, *key_norm, *key_norm2; /* (n_k, ld), (n_k), (n_k) */
    float *dkey;                       /* backward only: (n_k, ld) */
    float *ones, *zeros;               /* (TILE) */
};

/* Blocks of queries in flight. */
static size_t blocks_at_once(const struct problem_shape *shape)
{
    return shape->workers == 1 ? 1 : 2 * shape->workers;
}

/* Scratch for one block of queries and one thread. */
static size_t lay_out_scratch(struct scratch *scratch, const struct yoso_options *options,
                              const struct problem_shape *shape, bool backward, size_t block_number,
                              size_t worker, void *block)
{
    struct arena arena = arena_on(block);
    size_t workers = shape->workers, blocks = blocks_at_once(shape), n_k = shape->num_keys;
    scratch->width = unit_map_width(options, shape->head_dim);
    size_t ld = scratch->ld = unit_padded(scratch->width),
           ld_value = scratch->ld_value = unit_padded(shape->value_dim);
    size_t tile = (size_t)TILE * TILE, keys = size_product(n_k, ld), back = backward;
    struct {
        float **array;
        size_t count, size, index;
    } arrays[] = {
        {&scratch->dot, workers, tile, worker},
        {&scratch->power, workers, tile, worker},
        {&scratch->slope, workers * back, tile, worker},
        {&scratch->score, workers * back, tile, worker},
        {&scratch->query, blocks, size_product(TILE, ld), block_number},
        {&scratch->query_transposed, blocks, size_product(TILE, ld), block_number},
        {&scratch->query_norm, blocks, TILE, block_number},
        {&scratch->query_norm2, blocks, TILE, block_number},
        {&scratch->x, blocks, size_product(TILE, ld_value), block_number},
        {&scratch->dquery, blocks * back, size_product(TILE, ld), block_number},
        {&scratch->x_transposed, blocks * back, size_product(TILE, ld_value), block_number},
        {&scratch->bias, blocks * back, TILE, block_number},
        {&scratch->key, 1, keys, 0},
        {&scratch->key_norm, 1, n_k, 0},
        {&scratch->key_norm2, 1, n_k, 0},
        {&scratch->dkey, back, keys, 0},
        {&scratch->ones, 1, TILE, 0},
        {&scratch->zeros, 1, TILE, 0},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        float *all = arena_take(&arena, size_product(arrays[i].count, arrays[i].size), sizeof(float));
        *arrays[i].array = all == NULL ? NULL : all + arrays[i].index * arrays[i].size;
    }
    return arena.used;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct scratch scratch;
    size_t forward = lay_out_scratch(&scratch, options, shape, false, 0, 0, NULL);
    size_t backward = lay_out_scratch(&scratch, options, shape, true, 0, 0, NULL);
    return forward > backward ? forward : backward;
}

static size_t saved_size(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    return options->normalize == YOSO_NORMALIZE_NONE ? 0 : size_product(shape->num_queries, sizeof(float));
}

static const char *refuse(const void *of, const struct problem_shape *shape)
{
    const struct yoso_options *options = of;
    if (!unit_map_is_l2(options) && options->max_norm <= 0 && (shape->causal || shape->streamed))
        return "`map` neyshabur needs `max_norm` if later rows are unknown: causal and in chunks";
    if (scratch_size(options, shape) > (size_t)1 << 40)
        return "yoso-e would need more than 1099511627776 bytes for one head";
    return NULL;
}

/* ---- blocks and tiles ---------------------------------------------------------------------------------- */

/* Read by all threads of a pass. */
struct pass {
    const struct problem *problem;
    struct view out, dout; /* dout and the fields below: backward only */
    const struct problem_gradients *gradients;
    size_t first_block; /* first block of queries in flight */
    double max_norm;    /* of map neyshabur */
};

static double longest_of(struct view rows)
{
    return unit_map_longest(rows.data, rows.stride, rows.rows, rows.cols);
}

static double max_norm_of(const struct problem *problem)
{
    const struct yoso_options *options = problem->options;
    return unit_map_is_l2(options) || options->max_norm > 0
               ? options->max_norm
               : fmax(longest_of(problem->query), longest_of(problem->key));
}

/* Unit rows, padded with zeros; norm: divisors of their gradients; norm2: 1, or 0 for a zero vector. */
static void take_unit(const struct pass *pass, bool of_keys, size_t first, size_t rows, float *unit,
                      size_t ld, float *norm, float *norm2)
{
    struct view view = of_keys ? pass->problem->key : pass->problem->query;
    bool is_l2 = unit_map_is_l2(pass->problem->options);
    if (is_l2)
        unit_take(pass->problem->kernels, unit, ld, norm, view_row(view, first), view.stride, rows,
                  view.cols);
    else
        unit_map_take(unit, ld, norm, view_row(view, first), view.stride, rows, view.cols, pass->max_norm,
                      of_keys);
    for (size_t i = 0; i < rows; i++)
        norm2[i] = is_l2 && norm[i] < UNIT_SHORTEST ? 0 : 1;
}

/* The backward pass of take_unit, added to rows first .. of `to`. */
static void give_unit(const struct problem *problem, struct view to, size_t first, size_t rows,
                      const float *gradient, const float *unit, size_t ld, const float *norm)
{
    if (unit_map_is_l2(problem->options))
        unit_give(problem->kernels, view_row(to, first), to.stride, gradient, unit, ld, norm, rows, to.cols);
    else
        unit_map_backward(problem->kernels, view_row(to, first), to.stride, gradient, ld, norm, rows,
                          to.cols);
}

/* The unit rows of queries first .. first + rows - 1, and their transpose. */
static void take_queries(const struct pass *pass, const struct scratch *scratch, size_t first, size_t rows)
{
    take_unit(pass, false, first, rows, scratch->query, scratch->ld, scratch->query_norm,
              scratch->query_norm2);
    pass->problem->kernels->tiles.transpose(scratch->query_transposed, TILE, scratch->query, scratch->ld,
                                            rows, scratch->width);
}

static struct scratch scratch_of(const struct pass *pass, size_t block, int worker)
{
    struct scratch scratch;
    lay_out_scratch(&scratch, pass->problem->options, &pass->problem->shape, pass->gradients != NULL, block,
                    (size_t)worker, pass->problem->scratch);
    return scratch;
}

static size_t count_blocks(size_t rows, size_t block)
{
    return (rows + block - 1) / block;
}

static void take_keys(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    struct scratch scratch = scratch_of(pass, 0, worker);
    size_t first = index * ROWS_AT_ONCE, n_k = pass->problem->shape.num_keys, ld = scratch.ld;
    size_t rows = size_min(ROWS_AT_ONCE, n_k - first);
    take_unit(pass, true, first, rows, scratch.key + first * ld, ld, scratch.key_norm + first,
              scratch.key_norm2 + first);
    if (pass->gradients != NULL)
        memset(scratch.dkey + first * ld, 0, rows * ld * sizeof *scratch.dkey);
    for (size_t i = 0; index == 0 && i < TILE; i++) {
        scratch.ones[i] = 1;
        scratch.zeros[i] = 0;
    }
}

/* A block of queries and a tile of keys. */
struct block {
    size_t first_query, queries, first_key, keys;
};

/* Clears the weights of keys that a query does not see. */
static void hide_unseen(const struct problem *problem, const struct block *block, float *tile)
{
    for (size_t i = 0; i < block->queries; i++) {
        size_t seen = problem_seen(problem, block->first_query + i);
        for (size_t j = seen > block->first_key ? seen - block->first_key : 0; j < block->keys; j++)
            tile[j * TILE + i] = 0;
    }
}

/* Calls `pair` on the near pairs of a tile, until all that the slot counted are found. */
static void each_near(const struct problem *problem, const struct scratch *scratch, const struct block *block,
                      size_t near,
                      void (*pair)(const struct problem *, const struct scratch *, const struct block *,
                                   size_t query, size_t key))
{
    for (size_t j = 0; near > 0 && j < block->keys; j++)
        for (size_t i = 0; i < block->queries; i++) {
            float norms = scratch->query_norm2[i] + scratch->key_norm2[block->first_key + j];
            if (near_pair(scratch->dot[j * TILE + i], norms))
                pair(problem, scratch, block, i, j);
        }
}

static void redo_power(const struct problem *problem, const struct scratch *scratch,
                       const struct block *block, size_t query, size_t key)
{
    const struct yoso_options *options = problem->options;
    scratch->power[key * TILE + query] = near_pair_chance(
        scratch->query + query * scratch->ld, scratch->key + (block->first_key + key) * scratch->ld,
        scratch->width, (size_t)options->hash_bits);
}

/* The tile of p^tau, and of its slope if wanted. Returns the number of near pairs. */
static size_t take_power(const struct problem *problem, const struct scratch *scratch,
                         const struct block *block, float *slope)
{
    const struct yoso_options *options = problem->options;
    const float *key = scratch->key + block->first_key * scratch->ld;
    problem->kernels->tiles.product(scratch->dot, TILE, key, scratch->ld, 1, scratch->query_transposed, TILE,
                                    block->keys, block->queries, scratch->width, false);
    size_t near = problem->kernels->tiles.collisions(scratch->power, slope, scratch->dot, TILE, block->keys,
                                                     block->queries, scratch->key_norm2 + block->first_key,
                                                     scratch->query_norm2, (unsigned)options->hash_bits);
    each_near(problem, scratch, block, near, redo_power);
    hide_unseen(problem, block, scratch->power);
    if (slope != NULL)
        hide_unseen(problem, block, slope);
    return near;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void forward_block(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    const struct problem *problem = pass->problem;
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    struct scratch scratch = scratch_of(pass, (size_t)worker, worker);
    /* The last queries of a causal problem see most: most expensive first. */
    size_t n_q = problem->shape.num_queries, first = (count_blocks(n_q, TILE) - 1 - index) * TILE;
    struct block block = {.first_query = first, .queries = size_min(TILE, n_q - first)};
    float *row_norms = options->normalize == YOSO_NORMALIZE_NONE ? NULL : (float *)problem->saved + first;
    size_t seen = problem_seen(problem, first + block.queries - 1), dim = problem->shape.value_dim;
    take_queries(pass, &scratch, first, block.queries);
    memset(scratch.x, 0, block.queries * scratch.ld_value * sizeof *scratch.x);
    if (options->normalize == YOSO_NORMALIZE_SUM)
        memset(row_norms, 0, block.queries * sizeof *row_norms);
    for (size_t key = 0; key < seen; key += TILE) {
        block.first_key = key;
        block.keys = size_min(TILE, seen - key);
        take_power(problem, &scratch, &block, NULL);
        kernels->tiles.product(scratch.x, scratch.ld_value, scratch.power, 1, TILE,
                               view_row(problem->value, key), problem->value.stride, block.queries, dim,
                               block.keys, true);
        if (options->normalize == YOSO_NORMALIZE_SUM)
            kernels->tiles.product(row_norms, 1, scratch.power, 1, TILE, scratch.ones, 1, block.queries, 1,
                                   block.keys, true);
    }
    normalize_rows(kernels, NULL, options->normalize, view_row(pass->out, first), pass->out.stride,
                   DTYPE_FLOAT32, scratch.x, scratch.ld_value, 1, row_norms, block.queries, dim);
}

static void forward(const struct problem *problem, struct view out)
{
    struct pass pass = {.problem = problem, .max_norm = max_norm_of(problem), .out = out};
    pool_run(problem->pool, take_keys, &pass, count_blocks(problem->shape.num_keys, ROWS_AT_ONCE));
    pool_run(problem->pool, forward_block, &pass, count_blocks(problem->shape.num_queries, TILE));
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* A near pair of the true gradient: cleared in the tile and added from the vectors. */
static void redo_slope(const struct problem *problem, const struct scratch *scratch,
                       const struct block *block, size_t query, size_t key)
{
    const struct yoso_options *options = problem->options;
    size_t row = block->first_key + key, at = key * TILE + query;
    const uint32_t zero = 0;
    scratch->slope[at] = 0;
    problem->kernels->pairs.bucket(&(struct bucket_pairs){
        .queries = &zero,
        .keys = &zero,
        .num_queries = 1,
        .num_keys = 1,
        .query = scratch->query + query * scratch->ld,
        .key = scratch->key + row * scratch->ld,
        .value = view_row(problem->value, row),
        .dout = scratch->x + query * scratch->ld_value,
        .dim = scratch->width,
        .value_dim = problem->shape.value_dim,
        .bias = options->normalize == YOSO_NORMALIZE_SUM ? scratch->bias + query : NULL,
        .dquery = scratch->dquery + query * scratch->ld,
        .dkey = scratch->dkey + row * scratch->ld,
        .scale = scratch->power[at],
        .weight = unit_map_is_l2(options) ? PAIR_TANGENT : PAIR_FLOORED,
        .hash_bits = (unsigned)options->hash_bits,
    });
}

/* score <- d weight, the gradient of E: <dX_i, V_j> + bias_i. */
static void take_score(const struct problem *problem, const struct scratch *scratch,
                       const struct block *block)
{
    const struct yoso_options *options = problem->options;
    bool biased = options->normalize == YOSO_NORMALIZE_SUM;
    for (size_t j = 0; biased && j < block->keys; j++)
        memcpy(scratch->score + j * TILE, scratch->bias, block->queries * sizeof *scratch->bias);
    problem->kernels->tiles.product(scratch->score, TILE, view_row(problem->value, block->first_key),
                                    problem->value.stride, 1, scratch->x_transposed, TILE, block->keys,
                                    block->queries, problem->shape.value_dim, biased);
}

static void tile_backward(const struct problem *problem, const struct scratch *scratch,
                          const struct block *block, struct view dvalue)
{
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t width = scratch->width, value_dim = problem->shape.value_dim, ld = scratch->ld;
    size_t queries = block->queries, keys = block->keys, first_key = block->first_key;
    bool derivative = options->gradient == YOSO_GRADIENT_TRUE;
    size_t near = take_power(problem, scratch, block, derivative ? scratch->slope : NULL);
    kernels->tiles.product(view_row(dvalue, first_key), dvalue.stride, scratch->power, TILE, 1, scratch->x,
                           scratch->ld_value, keys, value_dim, queries, true);
    take_score(problem, scratch, block);
    if (derivative)
        each_near(problem, scratch, block, near, redo_slope);
    /* The slot of softmax's gradient is scale * p * (score - delta): a product of tiles. */
    kernels->softmax.gradient(scratch->score, TILE, derivative ? scratch->slope : scratch->power, TILE, keys,
                              queries, derivative ? 1 : 0.5f * (float)options->hash_bits, scratch->zeros);
    kernels->tiles.product(scratch->dquery, ld, scratch->score, 1, TILE, scratch->key + first_key * ld, ld,
                           queries, width, keys, true);
    kernels->tiles.product(scratch->dkey + first_key * ld, ld, scratch->score, TILE, 1, scratch->query, ld,
                           keys, width, queries, true);
}

/* Unit rows of a block of queries, and their gradient of X. */
static void begin_queries(const struct pass *pass, const struct scratch *scratch, const struct block *block)
{
    const struct problem *problem = pass->problem;
    const struct yoso_options *options = problem->options;
    size_t first = block->first_query, dim = problem->shape.value_dim;
    const float *row_norms =
        options->normalize == YOSO_NORMALIZE_NONE ? NULL : (float *)problem->saved + first;
    take_queries(pass, scratch, first, block->queries);
    normalize_rows_backward(problem->kernels, options->normalize, scratch->x, scratch->ld_value,
                            scratch->bias, view_row(pass->out, first), pass->out.stride,
                            view_row(pass->dout, first), pass->dout.stride, row_norms, block->queries, dim);
    problem->kernels->tiles.transpose(scratch->x_transposed, TILE, scratch->x, scratch->ld_value,
                                      block->queries, dim);
    memset(scratch->dquery, 0, block->queries * scratch->ld * sizeof *scratch->dquery);
}

/* One block of queries and KEYS_AT_ONCE keys: keys in order for dQ, blocks in order for dK and dV. */
static void backward_cell(void *argument, size_t row, size_t col, int worker)
{
    const struct pass *pass = argument;
    const struct problem *problem = pass->problem;
    struct scratch scratch = scratch_of(pass, row, worker);
    size_t n_q = problem->shape.num_queries, n_k = problem->shape.num_keys;
    size_t first = (pass->first_block + row) * TILE;
    struct block block = {.first_query = first, .queries = size_min(TILE, n_q - first)};
    size_t seen = problem_seen(problem, first + block.queries - 1);
    size_t end = size_min(seen, (col + 1) * KEYS_AT_ONCE);
    if (col == 0)
        begin_queries(pass, &scratch, &block);
    for (size_t key = col * KEYS_AT_ONCE; key < end; key += TILE) {
        block.first_key = key;
        block.keys = size_min(TILE, end - key);
        tile_backward(problem, &scratch, &block, pass->gradients->value);
    }
    if (col + 1 == count_blocks(n_k, KEYS_AT_ONCE))
        give_unit(problem, pass->gradients->query, first, block.queries, scratch.dquery, scratch.query,
                  scratch.ld, scratch.query_norm);
}

static void finish_keys(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    struct scratch scratch = scratch_of(pass, 0, worker);
    size_t first = index * ROWS_AT_ONCE, rows = size_min(ROWS_AT_ONCE, pass->problem->shape.num_keys - first);
    give_unit(pass->problem, pass->gradients->key, first, rows, scratch.dkey + first * scratch.ld,
              scratch.key + first * scratch.ld, scratch.ld, scratch.key_norm + first);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    const struct problem_shape *shape = &problem->shape;
    struct pass pass = {.problem = problem,
                        .max_norm = max_norm_of(problem),
                        .out = out,
                        .dout = dout,
                        .gradients = gradients};
    size_t blocks = count_blocks(shape->num_queries, TILE), at_once = blocks_at_once(shape);
    size_t key_blocks = count_blocks(shape->num_keys, ROWS_AT_ONCE);
    pool_run(problem->pool, take_keys, &pass, key_blocks);
    for (; pass.first_block < blocks; pass.first_block += at_once)
        pool_run_grid(problem->pool, backward_cell, &pass, size_min(at_once, blocks - pass.first_block),
                      count_blocks(shape->num_keys, KEYS_AT_ONCE));
    pool_run(problem->pool, finish_keys, &pass, key_blocks);
}

static const char *const departures[] = {
    "The kernel is exact at all angles, without a clamp of the cosine.",
    "A key mask hides keys only: a query always has an output.",
    NULL,
};

const struct mechanism mechanism_yoso_e = {
    .name = "yoso-e",
    .summary = "the exact expectation of yoso, in tiles, quadratic in the length",
    .departures = departures,
    .options = yoso_exact_rows,
    .options_size = sizeof(struct yoso_options),
    .exact = true,
    .quadratic = true,
    .mixes = true,
    .range = {.bounded = true, .power = 0},
    .norm_limit = unit_map_limit,
    .host = {refuse, saved_size, scratch_size, forward, backward},
};
