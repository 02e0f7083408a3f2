/* Exact attention, out = softmax(Q K^T / sqrt(d)) V, in tiles (parts/tiles/tile_attention.h): no n x n array
   exists. Cost: 2 n_q n_k (d + d_v) operations and n_q n_k exponentials forward, 2.5 times that backward; a
   causal problem costs half. Nothing is random. Saved: two floats per query (parts/tiles/softmax_rows.h).
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/mechanism.h"
#include "base/memory.h"
#include "parts/tiles/tile_attention.h"

static struct tile_attention_sizes sizes_of(const struct problem_shape *shape)
{
    return (struct tile_attention_sizes){
        .num_queries = shape->num_queries,
        .num_keys = shape->num_keys,
        .dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .block = TILE_ATTENTION_BLOCK,
        .precision = shape->precision,
        .workers = shape->workers,
    };
}

/* The keys that a query of a causal problem sees. */
static struct sight sight(const void *argument, size_t query)
{
    return (struct sight){0, problem_seen(argument, query)};
}

static struct tile_attention open(const struct problem *problem)
{
    struct arena saved = arena_on(problem->saved);
    return (struct tile_attention){
        .kernels = problem->kernels,
        .pool = problem->pool,
        .sizes = sizes_of(&problem->shape),
        .large = problem->large,
        .sight = problem->shape.causal ? sight : NULL,
        .argument = problem,
        .query = problem->query,
        .key = problem->key,
        .value = problem->value,
        .rows = softmax_rows_take(&saved, problem->shape.num_queries),
    };
}

static size_t saved_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    return softmax_rows_size(shape->num_queries);
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    (void)options;
    struct tile_attention_sizes sizes = sizes_of(shape);
    size_t forward_bytes = tile_attention_forward_size(&sizes),
           backward_bytes = tile_attention_backward_size(&sizes);
    return forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
}

static void forward(const struct problem *problem, struct view out)
{
    struct tile_attention attention = open(problem);
    tile_attention_forward(&attention, out, problem->scratch);
}

static void backward(const struct problem *problem, struct view out, struct view dout,
                     const struct problem_gradients *gradients)
{
    struct tile_attention attention = open(problem);
    tile_attention_backward(&attention, out, dout,
                            &(struct attention_gradients){
                                .query = gradients->query, .key = gradients->key, .value = gradients->value},
                            problem->scratch);
}

static const struct option_row options[] = {{.name = NULL}};

const struct mechanism mechanism_softmax = {
    .name = "softmax",
    .summary = "exact attention in tiles, quadratic in the length: the baseline",
    .options = options,
    .options_size = 0,
    .exact = true,
    .quadratic = true,
    .mixes = true,
    .sees_mask = false,
    .saved_size = saved_size,
    .scratch_size = scratch_size,
    .forward = forward,
    .backward = backward,
};
