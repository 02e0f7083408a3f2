/* Each chunk is a tile attention of its own on one thread.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/landmarks/few_keys.h"

#include <string.h>

#include "base/memory.h"

static const struct tile_attention all_keys = {.block = TILE_ATTENTION_BLOCK};

static size_t chunks_of(const struct problem_shape *shape)
{
    return shape->num_queries / FEW_KEYS_CHUNK + (shape->num_queries % FEW_KEYS_CHUNK != 0);
}

struct chunk_memory {
    float *sums; /* (chunks, n_k, d + d_v): dK, then dV, of each chunk */
    unsigned char *threads;
    size_t per_thread, bytes;
};

static size_t sums_size(const struct problem_shape *shape)
{
    return size_product(shape->num_keys, size_sum(shape->head_dim, shape->value_dim));
}

static struct chunk_memory memory_on(const struct problem_shape *shape, void *block)
{
    struct chunk_memory m;
    struct arena arena = arena_on(block);
    struct problem_shape chunk =
        shape_of_rows(shape, size_min(shape->num_queries, FEW_KEYS_CHUNK), shape->num_keys);
    chunk.workers = 1;
    m.per_thread = size_aligned(tile_attention_size(&chunk, &all_keys));
    m.sums = arena_take(&arena, size_product(chunks_of(shape), sums_size(shape)), sizeof(float));
    m.threads = arena_take(&arena, size_product(shape->workers, m.per_thread), 1);
    m.bytes = arena.used;
    return m;
}

size_t few_keys_scratch_size(const struct problem_shape *shape)
{
    return memory_on(shape, NULL).bytes;
}

struct chunk_pass {
    const struct problem *problem;
    struct softmax_rows rows;
    struct view out, dout, dquery;
    struct chunk_memory memory;
};

/* One chunk. Its queries are numbered from 0. */
struct chunk {
    struct problem problem;
    struct tile_attention attention;
    size_t first, count;
    void *scratch;
};

static struct view part(struct view rows, const struct chunk *chunk)
{
    rows.data = view_row(rows, chunk->first);
    rows.rows = chunk->count;
    return rows;
}

static struct chunk chunk_of(const struct chunk_pass *pass, size_t index, int worker)
{
    const struct problem *whole = pass->problem;
    struct chunk chunk = {.attention = all_keys, .first = index * FEW_KEYS_CHUNK};
    chunk.count = size_min(FEW_KEYS_CHUNK, whole->shape.num_queries - chunk.first);
    chunk.problem = problem_of_rows(whole, part(whole->query, &chunk), whole->key, whole->value);
    chunk.problem.shape.workers = 1;
    chunk.problem.pool = NULL;
    chunk.problem.dropout.first_query += chunk.first;
    chunk.attention.rows.max = pass->rows.max + chunk.first;
    chunk.attention.rows.log_sum = pass->rows.log_sum + chunk.first;
    chunk.scratch = pass->memory.threads + (size_t)worker * pass->memory.per_thread;
    return chunk;
}

static void forward_chunk(void *argument, size_t index, int worker)
{
    const struct chunk_pass *pass = argument;
    struct chunk chunk = chunk_of(pass, index, worker);
    tile_attention_forward(&chunk.problem, &chunk.attention, part(pass->out, &chunk), chunk.scratch);
}

static void backward_chunk(void *argument, size_t index, int worker)
{
    const struct chunk_pass *pass = argument;
    const struct problem_shape *shape = &pass->problem->shape;
    struct chunk chunk = chunk_of(pass, index, worker);
    float *dkey = pass->memory.sums + index * sums_size(shape),
          *dvalue = dkey + shape->num_keys * shape->head_dim;
    memset(dkey, 0, sums_size(shape) * sizeof *dkey);
    tile_attention_backward(
        &chunk.problem, &chunk.attention, part(pass->out, &chunk), part(pass->dout, &chunk),
        &(struct problem_gradients){.query = part(pass->dquery, &chunk),
                                    .key = view_of(dkey, shape->num_keys, shape->head_dim),
                                    .value = view_of(dvalue, shape->num_keys, shape->value_dim)},
        chunk.scratch);
}

void few_keys_forward(const struct problem *problem, struct softmax_rows rows, struct view out, void *scratch)
{
    struct chunk_pass pass = {
        .problem = problem, .rows = rows, .out = out, .memory = memory_on(&problem->shape, scratch)};
    pool_run(problem->pool, forward_chunk, &pass, chunks_of(&problem->shape));
}

/* rows += from, whose rows are adjacent. */
static void add(const struct kernels *kernels, struct view rows, const float *from)
{
    for (size_t i = 0; i < rows.rows; i++)
        kernels->rows.axpy(view_row(rows, i), 1, from + i * rows.cols, rows.cols);
}

void few_keys_backward(const struct problem *problem, struct softmax_rows rows, struct view out,
                       struct view dout, const struct problem_gradients *gradients, void *scratch)
{
    const struct problem_shape *shape = &problem->shape;
    struct chunk_pass pass = {.problem = problem,
                              .rows = rows,
                              .out = out,
                              .dout = dout,
                              .dquery = gradients->query,
                              .memory = memory_on(shape, scratch)};
    pool_run(problem->pool, backward_chunk, &pass, chunks_of(shape));
    for (size_t i = 0; i < chunks_of(shape); i++) {
        const float *sums = pass.memory.sums + i * sums_size(shape);
        add(problem->kernels, gradients->key, sums);
        add(problem->kernels, gradients->value, sums + shape->num_keys * shape->head_dim);
    }
}
