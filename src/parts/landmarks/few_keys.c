/* Each chunk is a tile attention of its own on one thread.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/landmarks/few_keys.h"

#include <string.h>

#include "base/memory.h"

static size_t chunks_of(const struct few_keys_sizes *sizes)
{
    return sizes->num_queries / FEW_KEYS_CHUNK + (sizes->num_queries % FEW_KEYS_CHUNK != 0);
}

static struct tile_attention_sizes chunk_sizes(const struct few_keys_sizes *sizes, size_t queries)
{
    return (struct tile_attention_sizes){
        .num_queries = queries,
        .num_keys = sizes->num_keys,
        .dim = sizes->dim,
        .value_dim = sizes->value_dim,
        .block = TILE_ATTENTION_BLOCK,
        .precision = sizes->precision,
        .workers = 1,
    };
}

struct scratch {
    float *sums; /* (chunks, num_keys, dim + value_dim): dK, then dV, of each chunk */
    unsigned char *threads;
    size_t per_thread, bytes;
};

static size_t sums_size(const struct few_keys_sizes *sizes)
{
    return size_product(sizes->num_keys, size_sum(sizes->dim, sizes->value_dim));
}

static struct scratch scratch_on(const struct few_keys_sizes *sizes, void *block)
{
    struct scratch s;
    struct arena arena = arena_on(block), thread = arena_on(NULL);
    struct tile_attention_sizes chunk = chunk_sizes(sizes, size_min(sizes->num_queries, FEW_KEYS_CHUNK));
    arena_take(&thread, size_max(tile_attention_forward_size(&chunk), tile_attention_backward_size(&chunk)),
               1);
    s.per_thread = whole_tiles(thread.used, MEMORY_ALIGNMENT);
    s.sums = arena_take(&arena, size_product(chunks_of(sizes), sums_size(sizes)), sizeof(float));
    s.threads = arena_take(&arena, size_product(sizes->workers, s.per_thread), 1);
    s.bytes = arena.used;
    return s;
}

size_t few_keys_scratch_size(const struct few_keys_sizes *sizes)
{
    return scratch_on(sizes, NULL).bytes;
}

struct pass {
    const struct few_keys *attention;
    struct view out, dout, dquery;
    struct scratch scratch;
};

static struct view part(struct view rows, size_t first, size_t count)
{
    rows.data = view_row(rows, first);
    rows.rows = count;
    return rows;
}

/* A chunk's queries are numbered from 0. */
static struct weight_dropout of_chunk(const struct weight_dropout *dropout, size_t first)
{
    struct weight_dropout own = *dropout;
    own.first_query += first;
    return own;
}

static struct tile_attention chunk_of(const struct few_keys *a, size_t first, size_t count)
{
    return (struct tile_attention){
        .kernels = a->kernels,
        .sizes = chunk_sizes(&a->sizes, count),
        .large = a->large,
        .dropout = of_chunk(&a->dropout, first),
        .query = part(a->query, first, count),
        .key = a->key,
        .value = a->value,
        .rows = {a->rows.max + first, a->rows.log_sum + first},
    };
}

static void forward_chunk(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    size_t first = index * FEW_KEYS_CHUNK,
           count = size_min(FEW_KEYS_CHUNK, pass->attention->sizes.num_queries - first);
    struct tile_attention chunk = chunk_of(pass->attention, first, count);
    tile_attention_forward(&chunk, part(pass->out, first, count),
                           pass->scratch.threads + (size_t)worker * pass->scratch.per_thread);
}

static void backward_chunk(void *argument, size_t index, int worker)
{
    const struct pass *pass = argument;
    const struct few_keys_sizes *sizes = &pass->attention->sizes;
    size_t first = index * FEW_KEYS_CHUNK, count = size_min(FEW_KEYS_CHUNK, sizes->num_queries - first);
    struct tile_attention chunk = chunk_of(pass->attention, first, count);
    float *dkey = pass->scratch.sums + index * sums_size(sizes),
          *dvalue = dkey + sizes->num_keys * sizes->dim;
    memset(dkey, 0, sums_size(sizes) * sizeof *dkey);
    tile_attention_backward(
        &chunk, part(pass->out, first, count), part(pass->dout, first, count),
        &(struct attention_gradients){.query = part(pass->dquery, first, count),
                                      .key = view_of(dkey, sizes->num_keys, sizes->dim),
                                      .value = view_of(dvalue, sizes->num_keys, sizes->value_dim)},
        pass->scratch.threads + (size_t)worker * pass->scratch.per_thread);
}

void few_keys_forward(const struct few_keys *attention, struct view out, void *scratch)
{
    struct pass pass = {
        .attention = attention, .out = out, .scratch = scratch_on(&attention->sizes, scratch)};
    pool_run(attention->pool, forward_chunk, &pass, chunks_of(&attention->sizes));
}

/* rows += from, whose rows are adjacent. */
static void add(const struct kernels *kernels, struct view rows, const float *from)
{
    for (size_t i = 0; i < rows.rows; i++)
        kernels->rows.axpy(view_row(rows, i), 1, from + i * rows.cols, rows.cols);
}

void few_keys_backward(const struct few_keys *attention, struct view out, struct view dout,
                       struct view dquery, struct view dkey, struct view dvalue, void *scratch)
{
    const struct few_keys_sizes *sizes = &attention->sizes;
    struct pass pass = {.attention = attention,
                        .out = out,
                        .dout = dout,
                        .dquery = dquery,
                        .scratch = scratch_on(sizes, scratch)};
    pool_run(attention->pool, backward_chunk, &pass, chunks_of(sizes));
    for (size_t i = 0; i < chunks_of(sizes); i++) {
        const float *sums = pass.scratch.sums + i * sums_size(sizes);
        add(attention->kernels, dkey, sums);
        add(attention->kernels, dvalue, sums + sizes->num_keys * sizes->dim);
    }
}
