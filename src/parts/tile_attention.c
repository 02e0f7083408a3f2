/* Groups, blocks and tiles. SPDX-License-Identifier: Apache-2.0 */
#include "parts/tile_attention.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Measured on Zen 5 at n 4096, d 64, as a share of the peak: tiles of 64 x 64 in groups half as large reach
   71 % forward and 79 % backward, these 76 % and 83 %. A row of products is six wide on every instruction
   set, so 96 leaves no rest; longer rows of scores halve what the running maximum costs. */
enum {
    BLOCK = TILE_ATTENTION_BLOCK,
    TILE = 128,               /* keys at a time */
    QUERY_GROUP = 10 * BLOCK, /* forward, at most: at d 64, queries and their results are 480 KiB */
    KEY_GROUP = 4 * TILE,     /* backward: at d 64, five arrays of 128 KiB */
    ALIGNED = 16,             /* a product of part of a tile begins at a whole vector */
    STRIP = RELATIVE_STRIP,   /* BLOCK + TILE - 1 and no less */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t whole_tiles(size_t rows)
{
    return size_product(size_sum(rows, TILE - 1) / TILE, TILE);
}

static float scale_of(const struct tile_attention_sizes *sizes)
{
    return (float)(1 / sqrt((double)sizes->dim));
}

/* to (count, cols), adjacent = rows[first .. first + count). */
static void copy_rows(float *to, struct head_rows rows, size_t cols, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * cols, rows.data + (first + i) * rows.ld, cols * sizeof *to);
}

/* to (count, cols) = rows[first .. first + count) + bias. */
static void copy_biased(const struct kernels *kernels, float *to, struct head_rows rows, size_t cols,
                        size_t first, size_t count, const float *bias)
{
    copy_rows(to, rows, cols, first, count);
    kernels->add_bias(to, cols, bias, count, cols);
}

/* rows (count, cols), ld apart, += from, adjacent. */
static void add_rows(const struct kernels *kernels, float *rows, size_t ld, size_t cols, size_t count,
                     const float *from)
{
    for (size_t i = 0; i < count; i++)
        kernels->axpy(rows + i * ld, 1, from + i * cols, cols);
}

/* ---- who sees what ------------------------------------------------------------------------------------- */

static struct sight sight_of(const struct tile_attention *a, size_t query)
{
    return a->sight == NULL ? (struct sight){0, a->sizes.num_keys} : a->sight(a->argument, query);
}

/* Of the tile of at most `cols` keys at `tile`, the stretch that any of the queries first .. first + rows - 1
   sees, counted in the tile, from a whole vector on. */
static struct sight seen_of_tile(const struct tile_attention *a, size_t first, size_t rows, size_t tile,
                                 size_t cols)
{
    size_t begin = sight_of(a, first).first, end = sight_of(a, first + rows - 1).end;
    struct sight seen = {begin > tile ? (begin - tile) / ALIGNED * ALIGNED : 0,
                         end > tile ? smaller(cols, end - tile) : 0};
    return seen.first < seen.end ? seen : (struct sight){0, 0};
}

/* scores (rows, cols) of queries from `first` and keys from `key` on: -inf where unseen. */
static void hide_unseen(const struct tile_attention *a, float *scores, size_t first, size_t rows, size_t key,
                        size_t cols)
{
    if (sight_of(a, first + rows - 1).first <= key && sight_of(a, first).end >= key + cols)
        return;
    for (size_t i = 0; i < rows; i++) {
        struct sight sight = sight_of(a, first + i);
        size_t begin = smaller(sight.first > key ? sight.first - key : 0, cols);
        size_t end = sight.end > key ? smaller(sight.end - key, cols) : 0;
        for (size_t j = 0; j < begin; j++)
            scores[i * TILE + j] = -INFINITY;
        for (size_t j = end; j < cols; j++)
            scores[i * TILE + j] = -INFINITY;
    }
}

/* The queries that see a key; the others have output 0 and no gradient. */
static struct sight seeing(const struct tile_attention *a)
{
    struct sight queries = {0, a->sizes.num_queries}, one;
    for (; queries.first < queries.end; queries.first++)
        if (one = sight_of(a, queries.first), one.first < one.end)
            break;
    for (; queries.first < queries.end; queries.end--)
        if (one = sight_of(a, queries.end - 1), one.first < one.end)
            break;
    return queries;
}

/* Of one thread, for every product here: rows of TILE, BLOCK or STRIP, columns and depth of these or of a
   width. */
static struct tile_products take_products(const struct tile_attention_sizes *sizes, struct arena *arena)
{
    size_t rows = sizes->terms > 0 ? STRIP : TILE, wide = larger(larger(sizes->dim, sizes->value_dim), rows);
    return tile_products_take(arena, sizes->precision, rows, wide, wide);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Queries of a group: whole blocks, so that the same queries meet in a tile whatever the group, and at least
   two groups for each thread. */
static size_t query_group(const struct tile_attention_sizes *sizes)
{
    size_t parts = sizes->workers == 1 ? 1 : 2 * sizes->workers, block = sizes->block;
    size_t queries = (sizes->num_queries + parts * block - 1) / (parts * block) * block;
    return smaller(larger(queries, block), QUERY_GROUP / block * block);
}

/* Of one thread. */
struct forward_memory {
    float *query, *result;             /* (group, d), (group, d_v) */
    float *row_max, *row_sum, *factor; /* (group), (group), (BLOCK) */
    float *key_columns, *value;        /* (d, TILE), (TILE, d_v): the present tile of keys */
    float *scores;                     /* (BLOCK, TILE) */
    float *position, *strip;           /* with terms: (group, d), (BLOCK, STRIP) */
    struct tile_products products;
    size_t bytes;
};

static struct forward_memory forward_memory(const struct tile_attention_sizes *sizes, void *block)
{
    struct forward_memory memory;
    struct arena arena = arena_on(block);
    size_t group = smaller(sizes->num_queries, query_group(sizes));
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
    return size_product(sizes->workers, forward_memory(sizes, NULL).bytes);
}

/* result rows *= factor; most tiles bring no new maximum, and all factors are 1. */
static void rescale(const struct kernels *kernels, float *result, size_t cols, const float *factor,
                    size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (factor[i] != 1) {
            kernels->scale_rows(result, cols, factor, rows, cols);
            return;
        }
}

/* The tile of at most `cols` keys at `tile`, for `rows` queries from `at` of the group on. */
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
    hide_unseen(a, memory->scores, group + at, rows, tile + seen.first, cols);
    kernels->softmax_step(memory->scores, TILE, rows, cols, scale_of(&a->sizes), memory->row_max + at,
                          memory->row_sum + at, memory->factor);
    if (!first)
        rescale(kernels, result, d_v, memory->factor, rows);
    tile_multiply(&memory->products, kernels, result, d_v, memory->scores, TILE, 1,
                  memory->value + seen.first * d_v, d_v, rows, d_v, cols, !first);
}

struct forward_pass {
    const struct tile_attention *attention;
    float *out;
    size_t ld_out;
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
    /* The last queries of a causal problem see most: dearest first. */
    size_t group = pass->seeing.first + (pass->groups - 1 - index) * pass->group;
    size_t queries = smaller(pass->group, pass->seeing.end - group);
    size_t keys = sight_of(a, group + queries - 1).end;
    if (a->terms == NULL) {
        copy_rows(memory.query, a->query, d, group, queries);
    } else {
        copy_biased(kernels, memory.query, a->query, d, group, queries, a->terms->content_bias);
        copy_biased(kernels, memory.position, a->query, d, group, queries, a->terms->position_bias);
    }
    for (size_t i = 0; i < queries; i++) {
        memory.row_max[i] = -FLT_MAX; /* finite: the first tile may be one that a query does not see */
        memory.row_sum[i] = 0;
    }
    for (size_t tile = sight_of(a, group).first / TILE * TILE; tile < keys; tile += TILE) {
        size_t cols = smaller(TILE, keys - tile);
        kernels->tile_transpose(memory.key_columns, TILE, a->key.data + tile * a->key.ld, a->key.ld, cols, d);
        copy_rows(memory.value, a->value, d_v, tile, cols);
        for (size_t at = 0; at < queries; at += a->sizes.block)
            forward_tile(a, &memory, group, at, smaller(a->sizes.block, queries - at), tile, cols);
    }
    for (size_t i = 0; i < queries; i++) {
        a->lse[group + i] = memory.row_max[i] + logf(memory.row_sum[i]);
        memory.row_sum[i] = 1 / memory.row_sum[i];
    }
    kernels->scale_rows(memory.result, d_v, memory.row_sum, queries, d_v);
    for (size_t i = 0; i < queries; i++)
        memcpy(pass->out + (group + i) * pass->ld_out, memory.result + i * d_v, d_v * sizeof(float));
}

void tile_attention_forward(const struct tile_attention *attention, float *out, size_t ld_out, void *scratch)
{
    struct forward_pass pass = {.attention = attention,
                                .out = out,
                                .ld_out = ld_out,
                                .scratch = scratch,
                                .seeing = seeing(attention),
                                .group = query_group(&attention->sizes)};
    assert(attention->sizes.block >= 1 && attention->sizes.block <= BLOCK);
    assert(attention->terms == NULL ||
           (attention->sizes.span > 0 && attention->terms->count <= attention->sizes.terms));
    for (size_t i = 0; i < attention->sizes.num_queries; i++)
        if (i < pass.seeing.first || i >= pass.seeing.end)
            memset(out + i * ld_out, 0, attention->sizes.value_dim * sizeof *out);
    pass.groups = (pass.seeing.end - pass.seeing.first + pass.group - 1) / pass.group;
    pool_run(attention->pool, forward_group, &pass, pass.groups);
}

/* ---- backward ------------------------------------------------------------------------------------------
   With P the probabilities, G = dout and delta_i = <G_i, out_i> = sum_j P_ij <G_i, V_j>:
   dV = P^T G;  dS_ij = P_ij (<G_i, V_j> - delta_i) / sqrt(d);  dQ = dS K;  dK = dS^T Q. With terms Q stands
   for Q + u there, and dS goes to Q + v and r too (relative_terms.h); du and dv are sums over queries. */

/* Of one group of keys that is under way, and of one thread. */
struct backward_memory {
    float *key, *dkey, *dvalue;         /* (group, d), (group, d), (group, d_v) */
    float *key_columns, *value_columns; /* (group / TILE, d or d_v, TILE) */
    float *query, *dout, *dquery; /* (BLOCK, d), (BLOCK, d_v), (BLOCK, d): the present block of queries */
    float *scores, *dscores;      /* (BLOCK, TILE) */
    float *position, *dposition, *strip; /* with terms: (BLOCK, d), (BLOCK, d), (BLOCK, STRIP) */
    struct tile_products products;
    float *delta; /* (n_q), of all */
    float *terms; /* (groups of all, terms + 2, d): the gradients of r, u and v of each group of keys */
    size_t bytes;
};

/* Keys of a group. In a band no block of queries sees a key of a group and one of the next but one. */
static size_t key_group(const struct tile_attention_sizes *sizes)
{
    return larger(KEY_GROUP, whole_tiles(sizes->span));
}

/* Groups of keys under way at once: in a grid dK and dV of a group pass from thread to thread. */
static size_t groups_at_once(const struct tile_attention_sizes *sizes)
{
    return sizes->workers == 1 || sizes->span > 0 ? sizes->workers : 2 * sizes->workers;
}

/* What the group of this number among those under way, and this thread, work in. */
static struct backward_memory backward_memory(const struct tile_attention_sizes *sizes, void *block,
                                              size_t group, size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block);
    size_t rows = smaller(larger(whole_tiles(sizes->num_keys), TILE), key_group(sizes)), d = sizes->dim,
           d_v = sizes->value_dim, groups = groups_at_once(sizes), workers = sizes->workers;
    memory.delta = arena_take(&arena, sizes->num_queries, sizeof(float));
    struct {
        float **array;
        size_t count, size, index;
    } arrays[] = {
        {&memory.key, groups, size_product(rows, d), group},
        {&memory.dkey, groups, size_product(rows, d), group},
        {&memory.dvalue, groups, size_product(rows, d_v), group},
        {&memory.key_columns, groups, size_product(rows, d), group},
        {&memory.value_columns, groups, size_product(rows, d_v), group},
        {&memory.query, workers, size_product(BLOCK, d), worker},
        {&memory.dout, workers, size_product(BLOCK, d_v), worker},
        {&memory.dquery, workers, size_product(BLOCK, d), worker},
        {&memory.scores, workers, BLOCK * TILE, worker},
        {&memory.dscores, workers, BLOCK * TILE, worker},
        {&memory.position, sizes->terms > 0 ? workers : 0, size_product(BLOCK, d), worker},
        {&memory.dposition, sizes->terms > 0 ? workers : 0, size_product(BLOCK, d), worker},
        {&memory.strip, sizes->terms > 0 ? workers : 0, BLOCK * STRIP, worker},
        {&memory.terms, sizes->terms > 0 ? size_sum(sizes->num_keys, rows - 1) / rows : 0,
         size_product(size_sum(sizes->terms, 2), d), 0},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        float *all = arena_take(&arena, size_product(arrays[i].count, arrays[i].size), sizeof(float));
        *arrays[i].array = all == NULL ? NULL : all + arrays[i].index * arrays[i].size;
    }
    struct arena one = arena_on(NULL);
    take_products(sizes, &one);
    unsigned char *products = arena_take(&arena, workers, one.used);
    one = arena_on(products == NULL ? NULL : products + worker * one.used);
    memory.products = take_products(sizes, &one);
    memory.bytes = arena.used;
    return memory;
}

size_t tile_attention_backward_size(const struct tile_attention_sizes *sizes)
{
    return backward_memory(sizes, NULL, 0, 0).bytes;
}

struct backward_pass {
    const struct tile_attention *attention;
    struct head_rows out, dout;
    const struct tile_gradients *gradients;
    void *scratch;
    struct sight seeing;
    size_t first_group; /* in keys: of those under way in a grid; of all of a band */
    size_t num_blocks;  /* of queries */
};

/* Query block `index`: its first query and how many there are. */
struct block {
    size_t first, rows;
};

static struct block block_of(const struct backward_pass *pass, size_t index)
{
    size_t first = pass->seeing.first + index * pass->attention->sizes.block;
    return (struct block){first, smaller(pass->attention->sizes.block, pass->seeing.end - first)};
}

/* Floats of the gradients of r, u and v. */
static size_t terms_size(const struct tile_attention_sizes *sizes)
{
    return (sizes->terms + 2) * sizes->dim;
}

/* The block of queries against the tile of at most `cols` keys at `tile` of the group; whether it sees any.
   fresh: dquery has no sum yet. */
static bool backward_tile(const struct backward_pass *pass, const struct backward_memory *memory,
                          struct block block, size_t group, size_t tile, size_t cols, bool fresh)
{
    const struct tile_attention *a = pass->attention;
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, rows = block.rows;
    bool add = block.first > 0; /* else the sums begin here; of what it does not see they begin as zeros */
    struct sight seen = seen_of_tile(a, block.first, rows, group + tile, cols);
    cols = seen.end - seen.first;
    if (cols == 0)
        return false;
    float scale = scale_of(&a->sizes), *p = memory->scores, *ds = memory->dscores;
    size_t at = tile + seen.first;
    struct relative_tile pairs = {.first = block.first,
                                  .rows = rows,
                                  .key = group + at,
                                  .cols = cols,
                                  .position = memory->position,
                                  .strip = memory->strip};
    tile_multiply(&memory->products, kernels, p, TILE, memory->query, d, 1,
                  memory->key_columns + tile * d + seen.first, TILE, rows, cols, d, false);
    if (a->terms != NULL)
        relative_terms_add(a->terms, kernels, &memory->products, &pairs, p, TILE);
    hide_unseen(a, p, block.first, rows, group + at, cols);
    kernels->softmax_again(p, TILE, rows, cols, scale, a->lse + block.first);
    tile_multiply(&memory->products, kernels, ds, TILE, memory->dout, d_v, 1,
                  memory->value_columns + tile * d_v + seen.first, TILE, rows, cols, d_v, false);
    kernels->softmax_gradient(ds, TILE, p, TILE, rows, cols, scale, memory->delta + block.first);
    tile_multiply(&memory->products, kernels, memory->dvalue + at * d_v, d_v, p, 1, TILE, memory->dout, d_v,
                  cols, d_v, rows, add);
    tile_multiply(&memory->products, kernels, memory->dkey + at * d, d, ds, 1, TILE, memory->query, d, cols,
                  d, rows, add);
    tile_multiply(&memory->products, kernels, memory->dquery, d, ds, TILE, 1, memory->key + at * d, d, rows,
                  d, cols, !fresh);
    if (a->terms != NULL)
        relative_terms_backward(a->terms, kernels, &memory->products, &pairs, ds, TILE, memory->dposition,
                                !fresh, memory->terms + group / key_group(&a->sizes) * terms_size(&a->sizes));
    return true;
}

static void group_begin(const struct backward_pass *pass, const struct backward_memory *memory, size_t group,
                        size_t keys)
{
    const struct tile_attention *a = pass->attention;
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim;
    copy_rows(memory->key, a->key, d, group, keys);
    for (size_t tile = 0; tile < keys; tile += TILE) {
        size_t cols = smaller(TILE, keys - tile);
        kernels->tile_transpose(memory->key_columns + tile * d, TILE, memory->key + tile * d, d, cols, d);
        kernels->tile_transpose(memory->value_columns + tile * d_v, TILE,
                                a->value.data + (group + tile) * a->value.ld, a->value.ld, cols, d_v);
    }
    if (a->terms != NULL)
        memset(memory->terms + group / key_group(&a->sizes) * terms_size(&a->sizes), 0,
               terms_size(&a->sizes) * sizeof(float));
    if (a->sight != NULL) {
        memset(memory->dkey, 0, keys * d * sizeof(float));
        memset(memory->dvalue, 0, keys * d_v * sizeof(float));
    }
}

static void group_end(const struct backward_pass *pass, const struct backward_memory *memory, size_t group,
                      size_t keys)
{
    const struct tile_gradients *g = pass->gradients;
    const struct tile_attention *a = pass->attention;
    add_rows(a->kernels, g->key + group * g->ld_key, g->ld_key, a->sizes.dim, keys, memory->dkey);
    add_rows(a->kernels, g->value + group * g->ld_value, g->ld_value, a->sizes.value_dim, keys,
             memory->dvalue);
}

/* A group of keys meets a block of queries. */
static void meet(const struct backward_pass *pass, const struct backward_memory *memory, size_t group,
                 size_t keys, struct block block)
{
    const struct tile_attention *a = pass->attention;
    const struct tile_gradients *g = pass->gradients;
    bool fresh = true;
    if (sight_of(a, block.first + block.rows - 1).end <= group ||
        sight_of(a, block.first).first >= group + keys)
        return;
    size_t d = a->sizes.dim;
    if (a->terms == NULL) {
        copy_rows(memory->query, a->query, d, block.first, block.rows);
    } else {
        copy_biased(a->kernels, memory->query, a->query, d, block.first, block.rows, a->terms->content_bias);
        copy_biased(a->kernels, memory->position, a->query, d, block.first, block.rows,
                    a->terms->position_bias);
    }
    copy_rows(memory->dout, pass->dout, a->sizes.value_dim, block.first, block.rows);
    for (size_t tile = 0; tile < keys; tile += TILE)
        fresh &= !backward_tile(pass, memory, block, group, tile, smaller(TILE, keys - tile), fresh);
    add_rows(a->kernels, g->query + block.first * g->ld_query, g->ld_query, d, block.rows, memory->dquery);
    if (a->terms == NULL)
        return;
    add_rows(a->kernels, g->query + block.first * g->ld_query, g->ld_query, d, block.rows, memory->dposition);
    float *du = memory->terms + group / key_group(&a->sizes) * terms_size(&a->sizes) + a->sizes.terms * d;
    a->kernels->add_bias_backward(du, memory->dquery, block.rows, d);
    a->kernels->add_bias_backward(du + d, memory->dposition, block.rows, d);
}

/* Blocks in order for dK and dV, groups in order for dQ. */
static void grid_cell(void *argument, size_t row, size_t col, int worker)
{
    const struct backward_pass *pass = argument;
    const struct tile_attention_sizes *sizes = &pass->attention->sizes;
    struct backward_memory memory = backward_memory(sizes, pass->scratch, row, (size_t)worker);
    size_t group = pass->first_group + row * KEY_GROUP, keys = smaller(KEY_GROUP, sizes->num_keys - group);
    if (col == 0)
        group_begin(pass, &memory, group, keys);
    meet(pass, &memory, group, keys, block_of(pass, col));
    if (col + 1 == pass->num_blocks)
        group_end(pass, &memory, group, keys);
}

/* The first block whose last query sees key `key` or a later one, or, `after`, whose first query sees none
   before it; by halves. */
static size_t find_block(const struct backward_pass *pass, size_t key, bool after)
{
    size_t low = 0, high = pass->num_blocks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct block block = block_of(pass, middle);
        bool found = after ? sight_of(pass->attention, block.first).first >= key
                           : sight_of(pass->attention, block.first + block.rows - 1).end > key;
        if (found)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Every other group of a band, with the blocks that see any of it. */
static void band_group(void *argument, size_t index, int worker)
{
    const struct backward_pass *pass = argument;
    const struct tile_attention_sizes *sizes = &pass->attention->sizes;
    struct backward_memory memory = backward_memory(sizes, pass->scratch, (size_t)worker, (size_t)worker);
    size_t group = pass->first_group + 2 * index * key_group(sizes);
    size_t keys = smaller(key_group(sizes), sizes->num_keys - group);
    group_begin(pass, &memory, group, keys);
    for (size_t i = find_block(pass, group, false), end = find_block(pass, group + keys, true); i < end; i++)
        meet(pass, &memory, group, keys, block_of(pass, i));
    group_end(pass, &memory, group, keys);
}

/* The gradients of r, u and v: those of all groups of keys, in order. */
static void add_terms(const struct backward_pass *pass, size_t groups)
{
    const struct tile_attention *a = pass->attention;
    const float *from = backward_memory(&a->sizes, pass->scratch, 0, 0).terms;
    size_t d = a->sizes.dim;
    for (size_t g = 0; g < groups; g++, from += terms_size(&a->sizes)) {
        a->kernels->axpy(pass->gradients->terms, 1, from, a->terms->count * d);
        a->kernels->axpy(pass->gradients->content_bias, 1, from + a->sizes.terms * d, d);
        a->kernels->axpy(pass->gradients->position_bias, 1, from + (a->sizes.terms + 1) * d, d);
    }
}

static void delta_block(void *argument, size_t index, int worker)
{
    const struct backward_pass *pass = argument;
    const struct tile_attention_sizes *sizes = &pass->attention->sizes;
    float *delta = backward_memory(sizes, pass->scratch, 0, (size_t)worker).delta;
    struct block block = block_of(pass, index);
    pass->attention->kernels->row_dots(delta + block.first, pass->dout.data + block.first * pass->dout.ld,
                                       pass->dout.ld, pass->out.data + block.first * pass->out.ld,
                                       pass->out.ld, block.rows, sizes->value_dim);
}

/* Whether no block sees more keys than was promised: else groups that run side by side would add to the same
   queries. */
static bool keeps_span(const struct backward_pass *pass)
{
    const struct tile_attention *a = pass->attention;
    for (size_t i = 0; i < pass->num_blocks; i++) {
        struct block block = block_of(pass, i);
        size_t first = sight_of(a, block.first).first, end = sight_of(a, block.first + block.rows - 1).end;
        if (end > first + a->sizes.span)
            return false;
    }
    return true;
}

void tile_attention_backward(const struct tile_attention *attention, struct head_rows out,
                             struct head_rows dout, const struct tile_gradients *gradients, void *scratch)
{
    const struct tile_attention_sizes *sizes = &attention->sizes;
    struct backward_pass pass = {.attention = attention,
                                 .out = out,
                                 .dout = dout,
                                 .gradients = gradients,
                                 .scratch = scratch,
                                 .seeing = seeing(attention)};
    pass.num_blocks = (pass.seeing.end - pass.seeing.first + sizes->block - 1) / sizes->block;
    pool_run(attention->pool, delta_block, &pass, pass.num_blocks);
    if (sizes->span > 0) {
        size_t groups = (sizes->num_keys + key_group(sizes) - 1) / key_group(sizes);
        struct pool *pool = keeps_span(&pass) ? attention->pool : NULL;
        for (size_t odd = 0; odd < 2 && odd < groups; odd++) {
            pass.first_group = odd * key_group(sizes);
            pool_run(pool, band_group, &pass, (groups - odd + 1) / 2);
        }
        if (attention->terms != NULL && gradients->terms != NULL)
            add_terms(&pass, groups);
        return;
    }
    size_t keys_at_once = groups_at_once(sizes) * KEY_GROUP;
    for (; pass.first_group < sizes->num_keys; pass.first_group += keys_at_once) {
        size_t keys = smaller(keys_at_once, sizes->num_keys - pass.first_group);
        pool_run_grid(attention->pool, grid_cell, &pass, (keys + KEY_GROUP - 1) / KEY_GROUP, pass.num_blocks);
    }
}
