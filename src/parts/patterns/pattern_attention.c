/* A part reads its queries, and its keys unless it lists them, in the caller's memory as views with a longer
   stride. Listed keys are copied, and their gradients added back in the order of the list.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/patterns/pattern_attention.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    ROWS = 64, /* rows copied or merged per unit of work */
    AHEAD = 12 /* listed rows are prefetched this many rows ahead */
};

struct memory {
    float *out;                         /* (num_queries, d_v): results of a part */
    struct softmax_rows rows;           /* of a part's queries */
    float *key, *value, *dkey, *dvalue; /* (most_listed, d or d_v) */
    void *tiles;
    size_t bytes;
};

static struct tile_attention_sizes tile_sizes(const struct pattern_sizes *sizes, size_t queries, size_t keys,
                                              size_t span)
{
    return (struct tile_attention_sizes){
        .num_queries = queries,
        .num_keys = keys,
        .dim = sizes->dim,
        .value_dim = sizes->value_dim,
        .block = sizes->block,
        .span = span,
        .precision = sizes->precision,
        .workers = sizes->workers,
    };
}

static struct memory memory_on(const struct pattern_sizes *sizes, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    size_t listed = sizes->most_listed, keys = size_max(sizes->num_keys, listed);
    struct tile_attention_sizes wide = tile_sizes(sizes, sizes->num_queries, keys, 0),
                                band = tile_sizes(sizes, sizes->num_queries, keys, sizes->most_span);
    memory.out = arena_take(&arena, size_product(sizes->num_queries, sizes->value_dim), sizeof(float));
    memory.rows = softmax_rows_take(&arena, sizes->num_queries);
    memory.key = arena_take(&arena, size_product(listed, sizes->dim), sizeof(float));
    memory.value = arena_take(&arena, size_product(listed, sizes->value_dim), sizeof(float));
    memory.dkey = arena_take(&arena, size_product(listed, sizes->dim), sizeof(float));
    memory.dvalue = arena_take(&arena, size_product(listed, sizes->value_dim), sizeof(float));
    memory.tiles = arena_take(
        &arena,
        size_max(tile_attention_forward_size(&wide),
                 size_max(tile_attention_backward_size(&wide), tile_attention_backward_size(&band))),
        1);
    memory.bytes = arena.used;
    return memory;
}

size_t pattern_attention_size(const struct pattern_sizes *sizes)
{
    return memory_on(sizes, NULL).bytes;
}

static struct view rows_of(struct view all, struct pattern_rows rows)
{
    return (struct view){.data = view_row(all, rows.first),
                         .rows = rows.count,
                         .cols = all.cols,
                         .stride = rows.step * all.stride,
                         .dtype = all.dtype};
}

/* ---- copies of listed rows ----------------------------------------------------------------------------- */

struct copying {
    float *to; /* (count, cols), adjacent */
    struct view rows;
    const uint32_t *list;
    size_t count;
};

static void copy_some(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct copying *c = argument;
    size_t cols = c->rows.cols, end = size_min((index + 1) * ROWS, c->count);
    for (size_t i = index * ROWS; i < end; i++) {
        if (i + AHEAD < c->count)
            view_prefetch(c->rows, c->list[i + AHEAD]);
        memcpy(c->to + i * cols, view_row(c->rows, c->list[i]), cols * sizeof *c->to);
    }
}

static void copy_listed(struct pool *pool, float *to, struct view rows, const struct pattern_part *part)
{
    struct copying copying = {to, rows, part->list, part->keys.count};
    pool_run(pool, copy_some, &copying, (part->keys.count + ROWS - 1) / ROWS);
}

/* rows[list[i]] += from[i]: in order, because a row may be listed more than once. */
static void add_listed(const struct kernels *kernels, struct view rows, const float *from,
                       const struct pattern_part *part)
{
    for (size_t i = 0; i < part->keys.count; i++) {
        if (i + AHEAD < part->keys.count)
            view_prefetch(rows, part->list[i + AHEAD]);
        kernels->rows.axpy(view_row(rows, part->list[i]), 1, from + i * rows.cols, rows.cols);
    }
}

static bool is_empty(const struct pattern_part *part)
{
    return part->queries.count == 0 || part->keys.count == 0;
}

static struct tile_attention open_part(const struct pattern_attention *a, const struct pattern_part *part,
                                       const struct memory *memory)
{
    struct tile_attention tiles = {
        .kernels = a->kernels,
        .pool = a->pool,
        .sizes = tile_sizes(&a->sizes, part->queries.count, part->keys.count, part->span),
        .sight = part->sight,
        .argument = part->argument,
        .dropout = weight_dropout_of_list(&a->dropout, (size_t)(part - a->parts)),
        .query = rows_of(a->query, part->queries),
        .rows = memory->rows,
    };
    if (part->list == NULL) {
        tiles.key = rows_of(a->key, part->keys);
        tiles.value = rows_of(a->value, part->keys);
        return tiles;
    }
    copy_listed(a->pool, memory->key, a->key, part);
    copy_listed(a->pool, memory->value, a->value, part);
    tiles.key = view_of(memory->key, part->keys.count, a->sizes.dim);
    tiles.value = view_of(memory->value, part->keys.count, a->sizes.value_dim);
    return tiles;
}

/* ---- inputs that could overflow float32 ---------------------------------------------------------------- */

/* The keys of query `query` in the part of that number among those that hold the query. */
static bool keys_of_query(const void *argument, size_t query, size_t number, struct key_run *run)
{
    const struct pattern_attention *a = argument;
    for (const struct pattern_part *part = a->parts; part < a->parts + a->num_parts; part++) {
        const struct pattern_rows *queries = &part->queries;
        size_t place = (query - queries->first) / queries->step;
        if (is_empty(part) || query < queries->first || place >= queries->count ||
            queries->first + place * queries->step != query || number-- > 0)
            continue;
        struct sight seen =
            part->sight == NULL ? (struct sight){0, part->keys.count} : part->sight(part->argument, place);
        run->count = seen.end - seen.first;
        run->list = part->list == NULL ? NULL : part->list + seen.first;
        run->first = part->keys.first + seen.first * part->keys.step;
        run->step = part->keys.step;
        return true;
    }
    return false;
}

static struct double_attention as_double(const struct pattern_attention *a)
{
    return (struct double_attention){.kernels = a->kernels,
                                     .pool = a->pool,
                                     .workers = a->sizes.workers,
                                     .num_queries = a->sizes.num_queries,
                                     .num_keys = a->sizes.num_keys,
                                     .dim = a->sizes.dim,
                                     .value_dim = a->sizes.value_dim,
                                     .most = size_sum(a->sizes.num_queries, a->sizes.num_keys),
                                     .query = a->query,
                                     .key = a->key,
                                     .value = a->value,
                                     .run = keys_of_query,
                                     .argument = a};
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct merge {
    const struct pattern_attention *attention;
    const struct memory *memory;
    struct pattern_rows queries;
    struct view out;
};

/* out and its maximum and sum, merged with row `place` of the part's results. */
static void merge_row(const struct merge *merge, size_t place)
{
    const struct pattern_attention *a = merge->attention;
    const struct memory *memory = merge->memory;
    size_t i = merge->queries.first + place * merge->queries.step, d_v = a->sizes.value_dim;
    float scale = score_scale(a->sizes.dim), *max = &a->rows.max[i], *log_sum = &a->rows.log_sum[i],
          most = fmaxf(*max, memory->rows.max[place]), before = expf(scale * (*max - most) + *log_sum),
          more = expf(scale * (memory->rows.max[place] - most) + memory->rows.log_sum[place]),
          total = before + more, share = before / total;
    *max = most;
    *log_sum = logf(total);
    a->kernels->rows.scale(view_row(merge->out, i), d_v, &share, 1, d_v);
    a->kernels->rows.axpy(view_row(merge->out, i), more / total, memory->out + place * d_v, d_v);
}

static void merge_some(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct merge *merge = argument;
    for (size_t i = index * ROWS; i < size_min((index + 1) * ROWS, merge->queries.count); i++)
        merge_row(merge, i);
}

void pattern_attention_forward(const struct pattern_attention *a, struct view out, void *scratch)
{
    struct memory memory = memory_on(&a->sizes, scratch);
    struct double_attention twin = as_double(a);
    assert(!drops_weights(&a->dropout) || !a->large);
    bool overflows = a->large && double_is_needed(&twin, NULL);
    softmax_rows_mark(&a->rows, overflows);
    if (overflows) {
        double_forward(&twin, out, memory.tiles);
        return;
    }
    for (size_t i = 0; i < a->sizes.num_queries; i++) {
        memset(view_row(out, i), 0, a->sizes.value_dim * sizeof(float));
        a->rows.max[i] = SOFTMAX_ROWS_LEAST;
        a->rows.log_sum[i] = 0;
    }
    for (const struct pattern_part *part = a->parts; part < a->parts + a->num_parts; part++) {
        if (is_empty(part))
            continue;
        struct tile_attention tiles = open_part(a, part, &memory);
        tile_attention_forward(&tiles, view_of(memory.out, part->queries.count, a->sizes.value_dim),
                               memory.tiles);
        struct merge merge = {a, &memory, part->queries, out};
        pool_run(a->pool, merge_some, &merge, (part->queries.count + ROWS - 1) / ROWS);
    }
}

/* ---- backward ------------------------------------------------------------------------------------------ */

static void part_backward(const struct pattern_attention *a, const struct pattern_part *part,
                          const struct memory *memory, struct view out, struct view dout,
                          const struct attention_gradients *gradients)
{
    struct tile_attention tiles = open_part(a, part, memory);
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, keys = part->keys.count;
    for (size_t i = 0; i < part->queries.count; i++) {
        memory->rows.max[i] = a->rows.max[part->queries.first + i * part->queries.step];
        memory->rows.log_sum[i] = a->rows.log_sum[part->queries.first + i * part->queries.step];
    }
    struct attention_gradients own = {.query = rows_of(gradients->query, part->queries)};
    if (part->list == NULL) {
        own.key = rows_of(gradients->key, part->keys);
        own.value = rows_of(gradients->value, part->keys);
    } else {
        memset(memory->dkey, 0, keys * d * sizeof(float));
        memset(memory->dvalue, 0, keys * d_v * sizeof(float));
        own.key = view_of(memory->dkey, keys, d);
        own.value = view_of(memory->dvalue, keys, d_v);
    }
    tile_attention_backward(&tiles, rows_of(out, part->queries), rows_of(dout, part->queries), &own,
                            memory->tiles);
    if (part->list != NULL) {
        add_listed(a->kernels, gradients->key, memory->dkey, part);
        add_listed(a->kernels, gradients->value, memory->dvalue, part);
    }
}

void pattern_attention_backward(const struct pattern_attention *a, struct view out, struct view dout,
                                const struct attention_gradients *gradients, void *scratch)
{
    struct memory memory = memory_on(&a->sizes, scratch);
    struct double_attention twin = as_double(a);
    if (softmax_rows_in_double(&a->rows) || (a->large && double_is_needed(&twin, &dout))) {
        double_backward(&twin, dout, gradients, memory.tiles);
        return;
    }
    for (const struct pattern_part *part = a->parts; part < a->parts + a->num_parts; part++)
        if (!is_empty(part))
            part_backward(a, part, &memory, out, dout, gradients);
}
