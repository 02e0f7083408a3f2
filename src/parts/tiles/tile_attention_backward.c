/* Backward: a group of keys is held while blocks of queries pass. With P the probabilities, G = dout and
   delta_i = <G_i, out_i> = sum_j P_ij <G_i, V_j>, without dropout of weights (weight_dropout.h has it):
   dV = P^T G; dS_ij = P_ij (<G_i, V_j> - delta_i) / sqrt(d); dQ = dS K; dK = dS^T Q. With terms, Q there is
   Q + u, and dS also goes to Q + v and r (relative_terms.h); du and dv are sums over queries.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/tiles/tile_attention_parts.h"

/* Memory of a group of keys in flight, and of one thread. */
struct backward_memory {
    float *key, *dkey, *dvalue;         /* (group, d), (group, d), (group, d_v) */
    float *key_columns, *value_columns; /* (group / TILE, d or d_v, TILE) */
    float *query, *dout, *dquery; /* (BLOCK, d), (BLOCK, d_v), (BLOCK, d): the current block of queries */
    float *scores, *dscores;      /* (BLOCK, TILE) */
    float *position, *dposition, *strip; /* with terms: (BLOCK, d), (BLOCK, d), (BLOCK, STRIP) */
    struct tile_products products;
    float *delta; /* (n_q), shared */
    float *terms; /* (all groups, terms + 2, d): the gradients of r, u and v of each group of keys */
    size_t bytes;
};

/* Keys per group. In a band, no block of queries sees keys of both a group and the next but one. */
static size_t key_group(const struct tile_attention_sizes *sizes)
{
    return size_max(KEY_GROUP, whole_tiles(sizes->span, TILE));
}

/* Groups of keys in flight: in a grid, dK and dV of a group pass from thread to thread. */
static size_t groups_at_once(const struct tile_attention_sizes *sizes)
{
    return sizes->workers == 1 || sizes->span > 0 ? sizes->workers : 2 * sizes->workers;
}

/* The memory of group `group` of those in flight, and of this thread. */
static struct backward_memory backward_memory(const struct tile_attention_sizes *sizes, void *block,
                                              size_t group, size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block);
    size_t rows = size_min(size_max(whole_tiles(sizes->num_keys, TILE), TILE), key_group(sizes)),
           d = sizes->dim, d_v = sizes->value_dim, groups = groups_at_once(sizes), workers = sizes->workers;
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
    return size_max(backward_memory(sizes, NULL, 0, 0).bytes,
                    double_attention_size(sizes->dim, sizes->value_dim, sizes->workers));
}

struct backward_pass {
    const struct tile_attention *attention;
    struct view out, dout;
    const struct attention_gradients *gradients;
    void *scratch;
    struct sight seeing;
    size_t first_group; /* first key of the groups in flight (grid) or of the even or odd groups (band) */
    size_t num_blocks;  /* blocks of queries */
};

/* A block of queries: its first query and their number. */
struct block {
    size_t first, rows;
};

static struct block block_of(const struct backward_pass *pass, size_t index)
{
    size_t first = pass->seeing.first + index * pass->attention->sizes.block;
    return (struct block){first, size_min(pass->attention->sizes.block, pass->seeing.end - first)};
}

/* Floats of the gradients of r, u and v. */
static size_t terms_size(const struct tile_attention_sizes *sizes)
{
    return (sizes->terms + 2) * sizes->dim;
}

/* A block of queries and the tile of at most `cols` keys at `tile` of the group; returns whether it sees
   any. fresh: dquery has no sum yet. */
static bool backward_tile(const struct backward_pass *pass, const struct backward_memory *memory,
                          struct block block, size_t group, size_t tile, size_t cols, bool fresh)
{
    const struct tile_attention *a = pass->attention;
    const struct kernels *kernels = a->kernels;
    size_t d = a->sizes.dim, d_v = a->sizes.value_dim, rows = block.rows;
    bool add = block.first > 0; /* else the sums start here, and those of unseen keys start as zeros */
    struct sight seen = seen_of_tile(a, block.first, rows, group + tile, cols);
    cols = seen.end - seen.first;
    if (cols == 0)
        return false;
    float scale = score_scale(a->sizes.dim), *p = memory->scores, *ds = memory->dscores;
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
    add_pair_bias(a, p, block.first, rows, group + at, cols);
    hide_unseen(a, p, block.first, rows, group + at, cols);
    kernels->softmax.again(p, TILE, rows, cols, scale, a->rows.max + block.first,
                           a->rows.log_sum + block.first);
    tile_multiply(&memory->products, kernels, ds, TILE, memory->dout, d_v, 1,
                  memory->value_columns + tile * d_v + seen.first, TILE, rows, cols, d_v, false);
    weight_dropout_tile(&a->dropout, kernels, ds, rows, cols, block.first, group + at);
    kernels->softmax.gradient(ds, TILE, p, TILE, rows, cols, scale, memory->delta + block.first);
    weight_dropout_tile(&a->dropout, kernels, p, rows, cols, block.first, group + at);
    tile_multiply(&memory->products, kernels, memory->dvalue + at * d_v, d_v, p, 1, TILE, memory->dout, d_v,
                  cols, d_v, rows, add);
    tile_multiply(&memory->products, kernels, memory->dkey + at * d, d, ds, 1, TILE, memory->query, d, cols,
                  d, rows, add);
    tile_multiply(&memory->products, kernels, memory->dquery, d, ds, TILE, 1, memory->key + at * d, d, rows,
                  d, cols, !fresh);
    if (a->bias != NULL && pass->gradients->bias != NULL)
        add_scaled(kernels, pass->gradients->bias + block.first * a->ld_bias + group + at, a->ld_bias,
                   1 / scale, ds, TILE, rows, cols);
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
        size_t cols = size_min(TILE, keys - tile);
        kernels->tiles.transpose(memory->key_columns + tile * d, TILE, memory->key + tile * d, d, cols, d);
        kernels->tiles.transpose(memory->value_columns + tile * d_v, TILE, view_row(a->value, group + tile),
                                 a->value.stride, cols, d_v);
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
    const struct attention_gradients *g = pass->gradients;
    const struct tile_attention *a = pass->attention;
    add_rows(a->kernels, g->key, group, keys, memory->dkey);
    add_rows(a->kernels, g->value, group, keys, memory->dvalue);
}

/* A group of keys and a block of queries. */
static void meet(const struct backward_pass *pass, const struct backward_memory *memory, size_t group,
                 size_t keys, struct block block)
{
    const struct tile_attention *a = pass->attention;
    const struct attention_gradients *g = pass->gradients;
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
        fresh &= !backward_tile(pass, memory, block, group, tile, size_min(TILE, keys - tile), fresh);
    if (fresh) /* the block's range is empty, in the midst of the group */
        return;
    add_rows(a->kernels, g->query, block.first, block.rows, memory->dquery);
    if (a->terms == NULL)
        return;
    add_rows(a->kernels, g->query, block.first, block.rows, memory->dposition);
    float *du = memory->terms + group / key_group(&a->sizes) * terms_size(&a->sizes) + a->sizes.terms * d;
    a->kernels->layers.add_bias_backward(du, memory->dquery, block.rows, d);
    a->kernels->layers.add_bias_backward(du + d, memory->dposition, block.rows, d);
}

/* Blocks in order for dK and dV, groups in order for dQ. */
static void grid_cell(void *argument, size_t row, size_t col, int worker)
{
    const struct backward_pass *pass = argument;
    const struct tile_attention_sizes *sizes = &pass->attention->sizes;
    struct backward_memory memory = backward_memory(sizes, pass->scratch, row, (size_t)worker);
    size_t group = pass->first_group + row * KEY_GROUP, keys = size_min(KEY_GROUP, sizes->num_keys - group);
    if (col == 0)
        group_begin(pass, &memory, group, keys);
    meet(pass, &memory, group, keys, block_of(pass, col));
    if (col + 1 == pass->num_blocks)
        group_end(pass, &memory, group, keys);
}

/* The first block whose last query sees key `key` or a later one; or, with `after`, whose first query sees
   no key before it. Binary search. */
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

/* One of every other group of a band, and the blocks that see any of it. */
static void band_group(void *argument, size_t index, int worker)
{
    const struct backward_pass *pass = argument;
    const struct tile_attention_sizes *sizes = &pass->attention->sizes;
    struct backward_memory memory = backward_memory(sizes, pass->scratch, (size_t)worker, (size_t)worker);
    size_t group = pass->first_group + 2 * index * key_group(sizes);
    size_t keys = size_min(key_group(sizes), sizes->num_keys - group);
    group_begin(pass, &memory, group, keys);
    for (size_t i = find_block(pass, group, false), end = find_block(pass, group + keys, true); i < end; i++)
        meet(pass, &memory, group, keys, block_of(pass, i));
    group_end(pass, &memory, group, keys);
}

/* Adds the gradients of r, u and v of all groups of keys, in order; those of r into the first group's. */
static void add_terms(const struct backward_pass *pass, size_t groups)
{
    const struct tile_attention *a = pass->attention;
    float *sums = backward_memory(&a->sizes, pass->scratch, 0, 0).terms, *from = sums;
    size_t d = a->sizes.dim;
    for (size_t g = 0; g < groups; g++, from += terms_size(&a->sizes)) {
        if (g > 0)
            a->kernels->rows.axpy(sums, 1, from, a->terms->count * d);
        a->kernels->rows.axpy(pass->gradients->content_bias, 1, from + a->sizes.terms * d, d);
        a->kernels->rows.axpy(pass->gradients->position_bias, 1, from + (a->sizes.terms + 1) * d, d);
    }
    relative_terms_make_backward(a->terms, a->kernels, pass->gradients->weight, sums);
}

static void delta_block(void *argument, size_t index, int worker)
{
    const struct backward_pass *pass = argument;
    const struct tile_attention_sizes *sizes = &pass->attention->sizes;
    float *delta = backward_memory(sizes, pass->scratch, 0, (size_t)worker).delta;
    struct block block = block_of(pass, index);
    pass->attention->kernels->rows.dots(delta + block.first, view_row(pass->dout, block.first),
                                        pass->dout.stride, view_row(pass->out, block.first), pass->out.stride,
                                        block.rows, sizes->value_dim);
}

/* true if no block sees more keys than span allows: otherwise groups that run in parallel would add to the
   same queries. */
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

void tile_attention_backward(const struct tile_attention *attention, struct view out, struct view dout,
                             const struct attention_gradients *gradients, void *scratch)
{
    const struct tile_attention_sizes *sizes = &attention->sizes;
    struct backward_pass pass = {.attention = attention,
                                 .out = out,
                                 .dout = dout,
                                 .gradients = gradients,
                                 .scratch = scratch,
                                 .seeing = seeing(attention)};
    struct double_attention twin = as_double(attention);
    if (softmax_rows_in_double(&attention->rows) || (attention->large && double_is_needed(&twin, &dout))) {
        double_backward(&twin, dout, gradients, scratch);
        return;
    }
    pass.num_blocks = (pass.seeing.end - pass.seeing.first + sizes->block - 1) / sizes->block;
    pool_run(attention->pool, delta_block, &pass, pass.num_blocks);
    if (sizes->span > 0) {
        size_t groups = (sizes->num_keys + key_group(sizes) - 1) / key_group(sizes);
        struct pool *pool = keeps_span(&pass) ? attention->pool : NULL;
        for (size_t odd = 0; odd < 2 && odd < groups; odd++) {
            pass.first_group = odd * key_group(sizes);
            pool_run(pool, band_group, &pass, (groups - odd + 1) / 2);
        }
        if (attention->terms != NULL && gradients->weight != NULL)
            add_terms(&pass, groups);
        return;
    }
    size_t keys_at_once = groups_at_once(sizes) * KEY_GROUP;
    for (; pass.first_group < sizes->num_keys; pass.first_group += keys_at_once) {
        size_t keys = size_min(keys_at_once, sizes->num_keys - pass.first_group);
        pool_run_grid(attention->pool, grid_cell, &pass, (keys + KEY_GROUP - 1) / KEY_GROUP, pass.num_blocks);
    }
}
