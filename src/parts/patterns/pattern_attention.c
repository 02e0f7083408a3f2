/* A part reads its queries, and its keys unless it lists them, in the caller's memory as views with a longer
   stride. Listed keys are copied, and their gradients added back in the order of the list.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/patterns/pattern_attention.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "parts/tiles/double_attention.h"
#include "parts/tiles/tile_products.h"

enum {
    ROWS = 64, /* rows copied or merged per unit of work */
    AHEAD = 12 /* listed rows are prefetched this many rows ahead */
};

struct part_memory {
    float *out;                         /* (n_q, d_v): results of a part */
    struct softmax_rows rows;           /* of a part's queries */
    float *key, *value, *dkey, *dvalue; /* (most_listed, d or d_v) */
    void *tiles;
    size_t bytes;
};

static struct part_memory memory_on(const struct problem_shape *shape, const struct pattern_sizes *sizes,
                                    void *block)
{
    struct part_memory memory;
    struct arena arena = arena_on(block);
    size_t listed = sizes->most_listed, d = shape->head_dim, d_v = shape->value_dim;
    const struct problem_shape part =
        shape_of_rows(shape, shape->num_queries, size_max(shape->num_keys, listed));
    const struct tile_attention wide = {.block = sizes->block},
                                band = {.block = sizes->block, .span = sizes->most_span};
    memory.out = arena_take(&arena, size_product(shape->num_queries, d_v), sizeof(float));
    memory.rows = softmax_rows_take(&arena, shape->num_queries);
    memory.key = arena_take(&arena, size_product(listed, d), sizeof(float));
    memory.value = arena_take(&arena, size_product(listed, d_v), sizeof(float));
    memory.dkey = arena_take(&arena, size_product(listed, d), sizeof(float));
    memory.dvalue = arena_take(&arena, size_product(listed, d_v), sizeof(float));
    memory.tiles = arena_take(
        &arena, size_max(tile_attention_size(&part, &wide), tile_attention_backward_size(&part, &band)), 1);
    memory.bytes = arena.used;
    return memory;
}

size_t pattern_attention_size(const struct problem_shape *shape, const struct pattern_sizes *sizes)
{
    return memory_on(shape, sizes, NULL).bytes;
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

/* A call of either direction. */
struct pattern_pass {
    const struct problem *problem;
    const struct pattern_attention *attention;
    struct part_memory memory;
};

static struct pattern_pass open(const struct problem *problem, const struct pattern_attention *attention,
                                void *scratch)
{
    return (struct pattern_pass){problem, attention, memory_on(&problem->shape, &attention->sizes, scratch)};
}

/* The problem of a part; copies the rows that it lists. */
static struct problem part_problem(const struct pattern_pass *pass, const struct pattern_part *part)
{
    const struct problem *p = pass->problem;
    struct view query = rows_of(p->query, part->queries), key, value;
    if (part->list == NULL) {
        key = rows_of(p->key, part->keys);
        value = rows_of(p->value, part->keys);
    } else {
        copy_listed(p->pool, pass->memory.key, p->key, part);
        copy_listed(p->pool, pass->memory.value, p->value, part);
        key = view_of(pass->memory.key, part->keys.count, p->shape.head_dim);
        value = view_of(pass->memory.value, part->keys.count, p->shape.value_dim);
    }
    struct problem own = problem_of_rows(p, query, key, value);
    own.large = false; /* all parts run in double, or none */
    own.dropout = weight_dropout_of_list(&p->dropout, (size_t)(part - pass->attention->parts));
    return own;
}

static struct tile_attention part_attention(const struct pattern_pass *pass, const struct pattern_part *part)
{
    return (struct tile_attention){
        .block = pass->attention->sizes.block,
        .span = part->span,
        .sight = part->sight,
        .argument = part->argument,
        .rows = pass->memory.rows,
    };
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

static struct double_attention as_double(const struct problem *problem, const struct pattern_attention *a)
{
    return (struct double_attention){.most = size_sum(problem->shape.num_queries, problem->shape.num_keys),
                                     .run = keys_of_query,
                                     .argument = a};
}

/* ---- forward ------------------------------------------------------------------------------------------- */

struct merge {
    const struct pattern_pass *pass;
    struct pattern_rows queries;
    struct view out;
};

/* out and its maximum and sum, merged with row `place` of the part's results. */
static void merge_row(const struct merge *merge, size_t place)
{
    const struct problem *p = merge->pass->problem;
    const struct softmax_rows *rows = &merge->pass->attention->rows, *more_rows = &merge->pass->memory.rows;
    size_t i = merge->queries.first + place * merge->queries.step, d_v = p->shape.value_dim;
    float scale = score_scale(p->shape.head_dim), *max = &rows->max[i], *log_sum = &rows->log_sum[i],
          most = fmaxf(*max, more_rows->max[place]), before = expf(scale * (*max - most) + *log_sum),
          more = expf(scale * (more_rows->max[place] - most) + more_rows->log_sum[place]),
          total = before + more, share = before / total;
    *max = most;
    *log_sum = logf(total);
    p->kernels->rows.scale(view_row(merge->out, i), d_v, &share, 1, d_v);
    p->kernels->rows.axpy(view_row(merge->out, i), more / total, merge->pass->memory.out + place * d_v, d_v);
}

static void merge_some(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct merge *merge = argument;
    for (size_t i = index * ROWS; i < size_min((index + 1) * ROWS, merge->queries.count); i++)
        merge_row(merge, i);
}

void pattern_attention_forward(const struct problem *problem, const struct pattern_attention *a,
                               struct view out, void *scratch)
{
    struct pattern_pass pass = open(problem, a, scratch);
    struct double_attention twin = as_double(problem, a);
    size_t d_v = problem->shape.value_dim;
    assert(!drops_weights(&problem->dropout) || !problem->large);
    bool overflows = problem->large && double_is_needed(problem, &twin, NULL);
    softmax_rows_mark(&a->rows, overflows);
    if (overflows) {
        double_forward(problem, &twin, out, pass.memory.tiles);
        return;
    }
    for (size_t i = 0; i < problem->shape.num_queries; i++) {
        memset(view_row(out, i), 0, d_v * sizeof(float));
        a->rows.max[i] = SOFTMAX_ROWS_LEAST;
        a->rows.log_sum[i] = 0;
    }
    for (const struct pattern_part *part = a->parts; part < a->parts + a->num_parts; part++) {
        if (is_empty(part))
            continue;
        struct problem own = part_problem(&pass, part);
        struct tile_attention tiles = part_attention(&pass, part);
        tile_attention_forward(&own, &tiles, view_of(pass.memory.out, part->queries.count, d_v),
                               pass.memory.tiles);
        struct merge merge = {&pass, part->queries, out};
        pool_run(problem->pool, merge_some, &merge, (part->queries.count + ROWS - 1) / ROWS);
    }
}

/* ---- backward ------------------------------------------------------------------------------------------ */

static void part_backward(const struct pattern_pass *pass, const struct pattern_part *part, struct view out,
                          struct view dout, const struct problem_gradients *gradients)
{
    const struct kernels *kernels = pass->problem->kernels;
    const struct softmax_rows *rows = &pass->attention->rows;
    const struct part_memory *memory = &pass->memory;
    struct problem own = part_problem(pass, part);
    struct tile_attention tiles = part_attention(pass, part);
    size_t d = own.shape.head_dim, d_v = own.shape.value_dim, keys = part->keys.count;
    for (size_t i = 0; i < part->queries.count; i++) {
        memory->rows.max[i] = rows->max[part->queries.first + i * part->queries.step];
        memory->rows.log_sum[i] = rows->log_sum[part->queries.first + i * part->queries.step];
    }
    struct problem_gradients to = {.query = rows_of(gradients->query, part->queries)};
    if (part->list == NULL) {
        to.key = rows_of(gradients->key, part->keys);
        to.value = rows_of(gradients->value, part->keys);
    } else {
        memset(memory->dkey, 0, keys * d * sizeof(float));
        memset(memory->dvalue, 0, keys * d_v * sizeof(float));
        to.key = view_of(memory->dkey, keys, d);
        to.value = view_of(memory->dvalue, keys, d_v);
    }
    tile_attention_backward(&own, &tiles, rows_of(out, part->queries), rows_of(dout, part->queries), &to,
                            memory->tiles);
    if (part->list != NULL) {
        add_listed(kernels, gradients->key, memory->dkey, part);
        add_listed(kernels, gradients->value, memory->dvalue, part);
    }
}

void pattern_attention_backward(const struct problem *problem, const struct pattern_attention *a,
                                struct view out, struct view dout, const struct problem_gradients *gradients,
                                void *scratch)
{
    struct pattern_pass pass = open(problem, a, scratch);
    struct double_attention twin = as_double(problem, a);
    if (softmax_rows_in_double(&a->rows) || (problem->large && double_is_needed(problem, &twin, &dout))) {
        double_backward(problem, &twin, dout, gradients, pass.memory.tiles);
        return;
    }
    for (const struct pattern_part *part = a->parts; part < a->parts + a->num_parts; part++)
        if (!is_empty(part))
            part_backward(&pass, part, out, dout, gradients);
}
