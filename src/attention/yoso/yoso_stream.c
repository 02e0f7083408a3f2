/* YOSO over keys that come in chunks. The state is the tables of all hashes, m 2^tau d_v floats for any
   sequence length, and the head's own planes, which the first call rotates: that takes longer than a token.
   With normalize sum, it also has the tables of 1 / m, one column. Cost: hashing, and
   parts/collisions/table_state.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/yoso/yoso_stream.h"

#include <string.h>

#include "base/memory.h"
#include "parts/collisions/normalize.h"
#include "parts/collisions/table_state.h"
#include "parts/hashing/hasher.h"

struct state {
    struct table_state values, weights; /* of V; of 1 / m, for the divisor of normalize sum */
    float *planes;
    uint32_t *rotated; /* 1: the planes have been rotated */
    size_t bytes;
};

static struct state state_at(const struct yoso_options *options, const struct problem_shape *shape,
                             const void *block)
{
    struct arena arena = arena_on((void *)block);
    struct hashing hashing = hashing_of(options);
    struct state state = {
        .values = {.hashing = hashing, .dim = shape->value_dim},
        .weights = {.hashing = hashing, .dim = options->normalize == YOSO_NORMALIZE_SUM ? 1 : 0}};
    state.values.tables = arena_take(&arena, table_state_floats(&hashing, state.values.dim), sizeof(float));
    state.weights.tables = arena_take(&arena, table_state_floats(&hashing, state.weights.dim), sizeof(float));
    state.planes = arena_take(&arena, hasher_planes(options, shape->head_dim), sizeof *state.planes);
    state.rotated = arena_take(&arena, 1, sizeof *state.rotated);
    state.bytes = arena.used;
    return state;
}

static size_t state_size(const void *options, const struct problem_shape *shape)
{
    return state_at(options, shape, NULL).bytes;
}

/* Scratch of a chunk. */
struct scratch {
    void *query_codes, *key_codes;
    float *row_norms; /* (n_q) of the normalisation */
    float *x;         /* (n_q, ld) */
    size_t ld;
    struct hasher hasher;
};

static size_t lay_out(struct scratch *scratch, const struct yoso_options *options,
                      const struct problem_shape *shape, void *block)
{
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(options);
    size_t n_q = shape->num_queries;
    scratch->ld = unit_padded(shape->value_dim);
    scratch->query_codes = arena_take(&arena, codes_size(&hashing, n_q), 1);
    scratch->key_codes = arena_take(&arena, codes_size(&hashing, shape->num_keys), 1);
    scratch->row_norms = arena_take(&arena, n_q, sizeof *scratch->row_norms);
    hasher_init(&scratch->hasher, &arena, options, shape->head_dim, shape->workers);
    scratch->x = arena_take(&arena, n_q, size_product(scratch->ld, sizeof *scratch->x));
    return arena.used;
}

static size_t scratch_size(const void *options, const struct problem_shape *shape)
{
    struct scratch scratch;
    return lay_out(&scratch, options, shape, NULL);
}

/* One chunk, its rows hashed. */
struct chunk {
    struct state state;
    struct scratch scratch;
    struct codes queries, keys;
    float per_hash; /* 1 / m */
};

static struct chunk chunk_open(const struct problem *problem, void *block)
{
    struct chunk chunk = {.state = state_at(problem->options, &problem->shape, block)};
    struct scratch *scratch = &chunk.scratch;
    struct hasher *hasher = &scratch->hasher;
    lay_out(scratch, problem->options, &problem->shape, problem->scratch);
    hasher->planes = chunk.state.planes;
    if (*chunk.state.rotated == 0)
        hasher_turn(problem->kernels, hasher, problem->shared, problem->random_key);
    *chunk.state.rotated = 1;
    hasher_codes(problem->kernels, problem->pool, hasher, problem->query, problem->key, scratch->query_codes,
                 scratch->key_codes);
    chunk.queries = codes_at(&hasher->hashing, scratch->query_codes, problem->query.rows);
    chunk.keys = codes_at(&hasher->hashing, scratch->key_codes, problem->key.rows);
    chunk.per_hash = 1 / (float)hasher->hashing.num_hashes;
    return chunk;
}

static struct table_rows values_of(const struct problem *problem, const struct chunk *chunk)
{
    return (struct table_rows){
        .codes = &chunk->keys, .values = problem->value.data, .ld_values = problem->value.stride};
}

static struct table_rows weights_of(const struct chunk *chunk)
{
    return (struct table_rows){.codes = &chunk->keys, .values = &chunk->per_hash};
}

static void absorb(const struct problem *problem, void *state, size_t first)
{
    (void)first;
    struct chunk chunk = chunk_open(problem, state);
    const struct table_rows values = values_of(problem, &chunk), weights = weights_of(&chunk);
    table_state_add(problem->kernels, problem->pool, &chunk.state.values, &values);
    table_state_add(problem->kernels, problem->pool, &chunk.state.weights, &weights);
}

static void read(const struct problem *problem, void *state, size_t first, struct view out)
{
    (void)first;
    struct chunk chunk = chunk_open(problem, state);
    const struct scratch *scratch = &chunk.scratch;
    const struct yoso_options *options = problem->options;
    const struct kernels *kernels = problem->kernels;
    size_t n_q = problem->shape.num_queries;
    memset(scratch->x, 0, n_q * scratch->ld * sizeof *scratch->x);
    memset(scratch->row_norms, 0, n_q * sizeof *scratch->row_norms);
    const struct table_rows x = {.codes = &chunk.queries, .out = scratch->x, .ld_out = scratch->ld};
    const struct table_rows sums = {.codes = &chunk.queries, .out = scratch->row_norms, .ld_out = 1};
    if (problem->shape.causal) {
        const struct table_rows values = values_of(problem, &chunk), weights = weights_of(&chunk);
        table_state_scan(kernels, problem->pool, &chunk.state.values, &x, &values, problem->visible);
        table_state_scan(kernels, problem->pool, &chunk.state.weights, &sums, &weights, problem->visible);
    } else {
        table_state_read(kernels, problem->pool, &chunk.state.values, &x);
        table_state_read(kernels, problem->pool, &chunk.state.weights, &sums);
    }
    normalize_rows(kernels, problem->pool, options->normalize, out.data, out.stride, out.dtype, scratch->x,
                   scratch->ld, chunk.per_hash, scratch->row_norms, n_q, out.cols);
}

static void merge(const void *options, const struct problem_shape *shape, void *into, const void *from)
{
    struct state to = state_at(options, shape, into), more = state_at(options, shape, from);
    size_t values = table_state_floats(&to.values.hashing, to.values.dim);
    size_t weights = table_state_floats(&to.weights.hashing, to.weights.dim);
    for (size_t i = 0; i < values; i++)
        to.values.tables[i] += more.values.tables[i];
    for (size_t i = 0; i < weights; i++)
        to.weights.tables[i] += more.weights.tables[i];
}

const struct stream_facet yoso_stream = {state_size, scratch_size, absorb, read, merge};
