/* Forward: a group of queries is held while tiles of keys pass.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "parts/tiles/tile_attention_parts.h"

/* Queries per group: whole blocks, so that tiles hold the same queries for any group size, and at least two
   groups per thread. */
static size_t query_group(const struct problem_shape *shape, size_t block)
{
    size_t parts = shape->workers == 1 ? 1 : 2 * shape->workers;
    size_t queries = (shape->num_queries + parts * block - 1) / (parts * block) * block;
    return size_min(size_max(queries, block), QUERY_GROUP / block * block);
}

/* Memory of one thread. */
struct forward_memory {
    float *query, *result;             /* (group, d), (group, d_v) */
    float *row_max, *row_sum, *factor; /* (group), (group), (BLOCK) */
    float *key_columns, *value;        /* (d, TILE), (TILE, d_v): the current tile of keys */
    float *scores;                     /* (BLOCK, TILE) */
    float *position, *strip;           /* with terms: (group, d), (BLOCK, STRIP) */
    struct tile_products products;
    size_t bytes;
};

static struct forward_memory forward_memory(const struct problem_shape *shape,
                                            const struct tile_attention *attention, void *block)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block);
    size_t group = size_min(shape->num_queries, query_group(shape, attention->block)), d = shape->head_dim,
           d_v = shape->value_dim;
    memory.query = arena_take(&arena, size_product(group, d), sizeof(float));
    memory.result = arena_take(&arena, size_product(group, d_v), sizeof(float));
    memory.row_max = arena_take(&arena, group, sizeof(float));
    memory.row_sum = arena_take(&arena, group, sizeof(float));
    memory.factor = arena_take(&arena, BLOCK, sizeof(float));
    memory.key_columns = arena_take(&arena, size_product(TILE, d), sizeof(float));
    memory.value = arena_take(&arena, size_product(TILE, d_v), sizeof(float));
    memory.scores = arena_take(&arena, BLOCK * TILE, sizeof(float));
    bool terms = attention->num_terms > 0;
    memory.position = arena_take(&arena, terms ? size_product(group, d) : 0, sizeof(float));
    memory.strip = arena_take(&arena, terms ? BLOCK * STRIP : 0, sizeof(float));
    memory.products = take_products(shape, attention, &arena);
    memory.bytes = arena.used;
    return memory;
}

size_t tile_attention_forward_size(const struct problem_shape *shape, const struct tile_attention *attention)
{
    return size_max(size_product(shape->workers, forward_memory(shape, attention, NULL).bytes),
                    double_attention_size(shape));
}

/* At most `cols` keys from `tile` on, and `rows` queries from `at` of the group on. */
static void forward_tile(const struct tile_pass *pass, const struct forward_memory *memory, size_t group,
                         size_t at, size_t rows, size_t tile, size_t cols)
{
    const struct relative_terms *terms = pass->attention->terms;
    const struct kernels *kernels = pass->problem->kernels;
    size_t d = pass->problem->shape.head_dim, d_v = pass->problem->shape.value_dim;
    float *result = memory->result + at * d_v;
    struct sight seen = seen_of_tile(pass, group + at, rows, tile, cols);
    bool first = tile == sight_of(pass, group + at).first / TILE * TILE;
    cols = seen.end - seen.first;
    if (cols == 0)
        return;
    tile_multiply(&memory->products, kernels, memory->scores, TILE, memory->query + at * d, d, 1,
                  memory->key_columns + seen.first, TILE, rows, cols, d, false);
    if (terms != NULL)
        relative_terms_add(terms, kernels, &memory->products,
                           &(struct relative_tile){.first = group + at,
                                                   .rows = rows,
                                                   .key = tile + seen.first,
                                                   .cols = cols,
                                                   .position = memory->position + at * d,
                                                   .strip = memory->strip},
                           memory->scores, TILE);
    add_pair_bias(pass, memory->scores, group + at, rows, tile + seen.first, cols);
    hide_unseen(pass, memory->scores, group + at, rows, tile + seen.first, cols);
    kernels->softmax.step(memory->scores, TILE, rows, cols, score_scale(d), memory->row_max + at,
                          memory->row_sum + at, memory->factor);
    weight_dropout_tile(&pass->problem->dropout, kernels, memory->scores, rows, cols, group + at,
                        tile + seen.first);
    if (!first)
        tile_rescale(kernels, result, d_v, memory->factor, rows);
    tile_multiply(&memory->products, kernels, result, d_v, memory->scores, TILE, 1,
                  memory->value + seen.first * d_v, d_v, rows, d_v, cols, !first);
}

/* The result of query i of the group: 0. If no query of its block sees a key, no tile has written it. */
static void see_nothing(const struct forward_memory *memory, size_t i, size_t cols)
{
    memset(memory->result + i * cols, 0, cols * sizeof(float));
    memory->row_sum[i] = 1;
}

static void forward_group(void *argument, size_t index, int worker)
{
    const struct tile_pass *pass = argument;
    const struct problem *p = pass->problem;
    const struct tile_attention *a = pass->attention;
    const struct kernels *kernels = p->kernels;
    size_t d = p->shape.head_dim, d_v = p->shape.value_dim, bytes = forward_memory(&p->shape, a, NULL).bytes;
    struct forward_memory memory =
        forward_memory(&p->shape, a, (unsigned char *)pass->scratch + (size_t)worker * bytes);
    /* The last queries of a causal problem see most: most expensive first. */
    size_t group = pass->seeing.first + (pass->groups - 1 - index) * pass->group;
    size_t queries = size_min(pass->group, pass->seeing.end - group);
    size_t keys = sight_of(pass, group + queries - 1).end;
    if (a->terms == NULL) {
        copy_rows(memory.query, p->query, d, group, queries);
    } else {
        copy_biased(kernels, memory.query, p->query, d, group, queries, a->terms->content_bias);
        copy_biased(kernels, memory.position, p->query, d, group, queries, a->terms->position_bias);
    }
    for (size_t i = 0; i < queries; i++) {
        memory.row_max[i] = SOFTMAX_ROWS_LEAST;
        memory.row_sum[i] = 0;
    }
    for (size_t tile = sight_of(pass, group).first / TILE * TILE; tile < keys; tile += TILE) {
        size_t cols = size_min(TILE, keys - tile);
        kernels->tiles.transpose(memory.key_columns, TILE, view_row(p->key, tile), p->key.stride, cols, d);
        copy_rows(memory.value, p->value, d_v, tile, cols);
        for (size_t at = 0; at < queries; at += a->block)
            forward_tile(pass, &memory, group, at, size_min(a->block, queries - at), tile, cols);
    }
    for (size_t i = 0; i < queries; i++) {
        if (memory.row_sum[i] == 0) /* sees nothing */
            see_nothing(&memory, i, d_v);
        a->rows.max[group + i] = memory.row_max[i];
        a->rows.log_sum[group + i] = logf(memory.row_sum[i]);
        memory.row_sum[i] = 1 / memory.row_sum[i];
    }
    kernels->rows.scale(memory.result, d_v, memory.row_sum, queries, d_v);
    for (size_t i = 0; i < queries; i++)
        memcpy(view_row(pass->out, group + i), memory.result + i * d_v, d_v * sizeof(float));
}

void tile_attention_forward(const struct problem *problem, const struct tile_attention *attention,
                            struct view out, void *scratch)
{
    struct tile_pass pass = tile_pass_open(problem, attention, out, scratch);
    assert(attention->block >= 1 && attention->block <= BLOCK);
    assert(attention->terms == NULL ||
           (attention->span > 0 && attention->terms->count <= attention->num_terms));
    assert((attention->bias == NULL && !drops_weights(&problem->dropout)) || !problem->large);
    struct double_attention twin = as_double(&pass);
    bool overflows = problem->large && double_is_needed(problem, &twin, NULL);
    softmax_rows_mark(&attention->rows, overflows);
    if (overflows) {
        double_forward(problem, &twin, out, scratch);
        return;
    }
    for (size_t i = 0; i < problem->shape.num_queries; i++)
        if (i < pass.seeing.first || i >= pass.seeing.end) {
            memset(view_row(out, i), 0, problem->shape.value_dim * sizeof(float));
            attention->rows.max[i] = SOFTMAX_ROWS_LEAST;
            attention->rows.log_sum[i] = 0;
        }
    pass.group = query_group(&problem->shape, attention->block);
    pass.groups = (pass.seeing.end - pass.seeing.first + pass.group - 1) / pass.group;
    pool_run(problem->pool, forward_group, &pass, pass.groups);
}
