/* Forward: a group of queries is held while tiles of keys pass.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "parts/tiles/tile_attention_parts.h"

/* Queries per group: whole blocks, so that tiles hold the same queries for any group size, and at least two
   groups per thread. */
static size_t query_group(const struct tile_attention_sizes *sizes)
{
    size_t parts = sizes->workers == 1 ? 1 : 2 * sizes->workers, block = sizes->block;
    size_t queries = (sizes->num_queries + parts * block - 1) / (parts * block) * block;
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

static struct forward_memory forward_memory(const struct tile_attention_sizes *sizes, void *block)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block);
    size_t group = size_min(sizes->num_queries, query_group(sizes));
    memory.query = arena_take(&arena, size_product(group, sizes->dim), sizeof(float));
    memory.result = arena_take(&arena, size_product(group, sizes->value_dim), sizeof(float));
    memory.row_max = arena_take(&arena, group, sizeof(float));
    memory.row_sum = arena_take(&arena, group, sizeof(float));
    memory.factor = arena_take(&arena, BLOCK, sizeof(float));
    memory.key_columns = arena_take(&arena, size_product(TILE, sizes->dim), sizeof(float));
    memory.value = arena_take(&arena, size_product(TILE, sizes->value_dim), sizeof(float));
    memory.scores = arena_take(&arena, BLOCK * TILE, sizeof(float));
    bool terms = sizes->terms > 0;
    memory.position = arena_take(&arena, terms ? size_product(group, sizes->dim) : 0, sizeof(float));
    memory.strip = arena_take(&arena, terms ? BLOCK * STRIP : 0, sizeof(float));
    memory.products = take_products(sizes, &arena);
    memory.bytes = arena.used;
    return memory;
}

size_t tile_attention_forward_size(const struct tile_attention_sizes *sizes)
{
    return size_max(size_product(sizes->workers, forward_memory(sizes, NULL).bytes),
                    double_attention_size(sizes->dim, sizes->value_dim, sizes->workers));
}

/* result rows *= factor; in most tiles no maximum is new, and all factors are 1. */
static void rescale(const struct kernels *kernels, float *result, size_t cols, const float *factor,
                    size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (factor[i] != 1) {
            kernels->rows.scale(result, cols, factor, rows, cols);
            return;
        }
}

/* At most `cols` keys from `tile` on, and `rows` queries from `at` of the group on. */
static void forward_tile(const struct tile_attention *a, const struct forward_memory *memory, size_t group,
                         size_t at, size_t rows, size_t tile, size_t cols)
{
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim;
    float *result = memory->result + at * d_v;
    struct sight seen = seen_of_tile(a, group + at, rows, tile, cols);
    bool first = tile == sight_of(a, group + at).first / TILE * TILE;
    cols = seen.end - seen.first;
    if (cols == 0)
        return;
    tile_multiply(&memory->products, kernels, memory->scores, TILE, memory->query + at * d, d, 1,
                  memory->key_columns + seen.first, TILE, rows, cols, d, false);
    if (a->terms != NULL)
        relative_terms_add(a->terms, kernels, &memory->products,
                           &(struct relative_tile){.first = group + at,
                                                   .rows = rows,
                                                   .key = tile + seen.first,
                                                   .cols = cols,
                                                   .position = memory->position + at * d,
                                                   .strip = memory->strip},
                           memory->scores, TILE);
    add_pair_bias(a, memory->scores, group + at, rows, tile + seen.first, cols);
    hide_unseen(a, memory->scores, group + at, rows, tile + seen.first, cols);
    kernels->softmax.step(memory->scores, TILE, rows, cols, score_scale(a->sizes.dim), memory->row_max + at,
                          memory->row_sum + at, memory->factor);
    weight_dropout_tile(&a->dropout, kernels, memory->scores, rows, cols, group + at, tile + seen.first);
    if (!first)
        rescale(kernels, result, d_v, memory->factor, rows);
    tile_multiply(&memory->products, kernels, result, d_v, memory->scores, TILE, 1,
                  memory->value + seen.first * d_v, d_v, rows, d_v, cols, !first);
}

/* The result of query i of the group: 0. If no query of its block sees a key, no tile has written it. */
static void see_nothing(const struct forward_memory *memory, size_t i, size_t cols)
{
    memset(memory->result + i * cols, 0, cols * sizeof(float));
    memory->row_sum[i] = 1;
}

struct forward_pass {
    const struct tile_attention *attention;
    struct view out;
    void *scratch;
    struct sight seeing;
    size_t group; /* queries of a group */
    size_t groups;
};

static void forward_group(void *argument, size_t index, int worker)
{
    const struct forward_pass *pass = argument;
    const struct tile_attention *a = pass->attention;
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, bytes = forward_memory(&a->sizes, NULL).bytes;
    struct forward_memory memory =
        forward_memory(&a->sizes, (unsigned char *)pass->scratch + (size_t)worker * bytes);
    /* The last queries of a causal problem see most: most expensive first. */
    size_t group = pass->seeing.first + (pass->groups - 1 - index) * pass->group;
    size_t queries = size_min(pass->group, pass->seeing.end - group);
    size_t keys = sight_of(a, group + queries - 1).end;
    if (a->terms == NULL) {
        copy_rows(memory.query, a->query, d, group, queries);
    } else {
        copy_biased(kernels, memory.query, a->query, d, group, queries, a->terms->content_bias);
        copy_biased(kernels, memory.position, a->query, d, group, queries, a->terms->position_bias);
    }
    for (size_t i = 0; i < queries; i++) {
        memory.row_max[i] = SOFTMAX_ROWS_LEAST;
        memory.row_sum[i] = 0;
    }
    for (size_t tile = sight_of(a, group).first / TILE * TILE; tile < keys; tile += TILE) {
        size_t cols = size_min(TILE, keys - tile);
        kernels->tiles.transpose(memory.key_columns, TILE, view_row(a->key, tile), a->key.stride, cols, d);
        copy_rows(memory.value, a->value, d_v, tile, cols);
        for (size_t at = 0; at < queries; at += a->sizes.block)
            forward_tile(a, &memory, group, at, size_min(a->sizes.block, queries - at), tile, cols);
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

void tile_attention_forward(const struct tile_attention *attention, struct view out, void *scratch)
{
    struct forward_pass pass = {.attention = attention,
                                .out = out,
                                .scratch = scratch,
                                .seeing = seeing(attention),
                                .group = query_group(&attention->sizes)};
    assert(attention->sizes.block >= 1 && attention->sizes.block <= BLOCK);
    assert(attention->terms == NULL ||
           (attention->sizes.span > 0 && attention->terms->count <= attention->sizes.terms));
    assert((attention->bias == NULL && !drops_weights(&attention->dropout)) || !attention->large);
    struct double_attention twin = as_double(attention);
    bool overflows = attention->large && double_is_needed(&twin, NULL);
    softmax_rows_mark(&attention->rows, overflows);
    if (overflows) {
        double_forward(&twin, out, scratch);
        return;
    }
    for (size_t i = 0; i < attention->sizes.num_queries; i++)
        if (i < pass.seeing.first || i >= pass.seeing.end) {
            memset(view_row(out, i), 0, attention->sizes.value_dim * sizeof(float));
            attention->rows.max[i] = SOFTMAX_ROWS_LEAST;
            attention->rows.log_sum[i] = 0;
        }
    pass.groups = (pass.seeing.end - pass.seeing.first + pass.group - 1) / pass.group;
    pool_run(attention->pool, forward_group, &pass, pass.groups);
}
