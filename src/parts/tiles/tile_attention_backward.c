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
static size_t key_group(const struct tile_attention *attention)
{
    return size_max(KEY_GROUP, whole_tiles(attention->span, TILE));
}

/* Groups of keys in flight: in a grid, dK and dV of a group pass from thread to thread. */
static size_t groups_at_once(const struct problem_shape *shape, const struct tile_attention *attention)
{
    return shape->workers == 1 || attention->span > 0 ? shape->workers : 2 * shape->workers;
}

/* The memory of group `group` of those in flight, and of this thread. */
static struct backward_memory backward_memory(const struct problem_shape *shape,
                                              const struct tile_attention *attention, void *block,
                                              size_t group, size_t worker)
{
    struct backward_memory memory;
    struct arena arena = arena_on(block);
    size_t rows = size_min(size_max(whole_tiles(shape->num_keys, TILE), TILE), key_group(attention)),
           d = shape->head_dim, d_v = shape->value_dim, groups = groups_at_once(shape, attention),
           workers = shape->workers, terms = attention->num_terms, strips = terms > 0 ? workers : 0;
    memory.delta = arena_take(&arena, shape->num_queries, sizeof(float));
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
        {&memory.position, strips, size_product(BLOCK, d), worker},
        {&memory.dposition, strips, size_product(BLOCK, d), worker},
        {&memory.strip, strips, BLOCK * STRIP, worker},
        {&memory.terms, terms > 0 ? size_sum(shape->num_keys, rows - 1) / rows : 0,
         size_product(size_sum(terms, 2), d), 0},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        float *all = arena_take(&arena, size_product(arrays[i].count, arrays[i].size), sizeof(float));
        *arrays[i].array = all == NULL ? NULL : all + arrays[i].index * arrays[i].size;
    }
    struct arena one = arena_on(NULL);
    take_products(shape, attention, &one);
    unsigned char *products = arena_take(&arena, workers, one.used);
    one = arena_on(products == NULL ? NULL : products + worker * one.used);
    memory.products = take_products(shape, attention, &one);
    memory.bytes = arena.used;
    return memory;
}

size_t tile_attention_backward_size(const struct problem_shape *shape, const struct tile_attention *attention)
{
    return size_max(backward_memory(shape, attention, NULL, 0, 0).bytes, double_attention_size(shape));
}

static struct backward_memory memory_of(const struct tile_pass *pass, size_t group, int worker)
{
    return backward_memory(&pass->problem->shape, pass->attention, pass->scratch, group, (size_t)worker);
}

/* A block of queries: its first query and their number. */
struct block {
    size_t first, rows;
};

static struct block block_of(const struct tile_pass *pass, size_t index)
{
    size_t first = pass->seeing.first + index * pass->attention->block;
    return (struct block){first, size_min(pass->attention->block, pass->seeing.end - first)};
}

/* Floats of the gradients of r, u and v. */
static size_t terms_size(const struct tile_pass *pass)
{
    return (pass->attention->num_terms + 2) * pass->problem->shape.head_dim;
}

/* Those of the group of keys that begins at `group`. */
static float *terms_of(const struct tile_pass *pass, const struct backward_memory *memory, size_t group)
{
    return memory->terms + group / key_group(pass->attention) * terms_size(pass);
}

/* A block of queries and the tile of at most `cols` keys at `tile` of the group; returns whether it sees
   any. fresh: dquery has no sum yet. */
static bool backward_tile(const struct tile_pass *pass, const struct backward_memory *memory,
                          struct block block, size_t group, size_t tile, size_t cols, bool fresh)
{
    const struct tile_attention *a = pass->attention;
    const struct kernels *kernels = pass->problem->kernels;
    const struct weight_dropout *dropout = &pass->problem->dropout;
    size_t d = pass->problem->shape.head_dim, d_v = pass->problem->shape.value_dim, rows = block.rows;
    bool add = block.first > 0; /* else the sums start here, and those of unseen keys start as zeros */
    struct sight seen = seen_of_tile(pass, block.first, rows, group + tile, cols);
    cols = seen.end - seen.first;
    if (cols == 0)
        return false;
    float scale = score_scale(d), *p = memory->scores, *ds = memory->dscores;
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
    add_pair_bias(pass, p, block.first, rows, group + at, cols);
    hide_unseen(pass, p, block.first, rows, group + at, cols);
    kernels->softmax.again(p, TILE, rows, cols, scale, a->rows.max + block.first,
                           a->rows.log_sum + block.first);
    tile_multiply(&memory->products, kernels, ds, TILE, memory->dout, d_v, 1,
                  memory->value_columns + tile * d_v + seen.first, TILE, rows, cols, d_v, false);
    weight_dropout_tile(dropout, kernels, ds, rows, cols, block.first, group + at);
    kernels->softmax.gradient(ds, TILE, p, TILE, rows, cols, scale, memory->delta + block.first);
    weight_dropout_tile(dropout, kernels, p, rows, cols, block.first, group + at);
    tile_multiply(&memory->products, kernels, memory->dvalue + at * d_v, d_v, p, 1, TILE, memory->dout, d_v,
                  cols, d_v, rows, add);
    tile_multiply(&memory->products, kernels, memory->dkey + at * d, d, ds, 1, TILE, memory->query, d, cols,
                  d, rows, add);
    tile_multiply(&memory->products, kernels, memory->dquery, d, ds, TILE, 1, memory->key + at * d, d, rows,
                  d, cols, !fresh);
    if (a->dbias != NULL)
        add_scaled(kernels, a->dbias + block.first * a->ld_bias + group + at, a->ld_bias, 1 / scale, ds, TILE,
                   rows, cols);
    if (a->terms != NULL)
        relative_terms_backward(a->terms, kernels, &memory->products, &pairs, ds, TILE, memory->dposition,
                                !fresh, terms_of(pass, memory, group));
    return true;
}

static void group_begin(const struct tile_pass *pass, const struct backward_memory *memory, size_t group,
                        size_t keys)
{
    const struct problem *p = pass->problem;
    const struct kernels *kernels = p->kernels;
    size_t d = p->shape.head_dim, d_v = p->shape.value_dim;
    copy_rows(memory->key, p->key, d, group, keys);
    for (size_t tile = 0; tile < keys; tile += TILE) {
        size_t cols = size_min(TILE, keys - tile);
        kernels->tiles.transpose(memory->key_columns + tile * d, TILE, memory->key + tile * d, d, cols, d);
        kernels->tiles.transpose(memory->value_columns + tile * d_v, TILE, view_row(p->value, group + tile),
                                 p->value.stride, cols, d_v);
    }
    if (pass->attention->terms != NULL)
        memset(terms_of(pass, memory, group), 0, terms_size(pass) * sizeof(float));
    if (pass->attention->sight != NULL) {
        memset(memory->dkey, 0, keys * d * sizeof(float));
        memset(memory->dvalue, 0, keys * d_v * sizeof(float));
    }
}

static void group_end(const struct tile_pass *pass, const struct backward_memory *memory, size_t group,
                      size_t keys)
{
    const struct kernels *kernels = pass->problem->kernels;
    add_rows(kernels, pass->gradients->key, group, keys, memory->dkey);
    add_rows(kernels, pass->gradients->value, group, keys, memory->dvalue);
}

/* A group of keys and a block of queries. */
static void group_and_block(const struct tile_pass *pass, const struct backward_memory *memory, size_t group,
                            size_t keys, struct block block)
{
    const struct relative_terms *terms = pass->attention->terms;
    const struct kernels *kernels = pass->problem->kernels;
    struct view query = pass->problem->query, dquery = pass->gradients->query;
    size_t d = pass->problem->shape.head_dim;
    bool fresh = true;
    if (sight_of(pass, block.first + block.rows - 1).end <= group ||
        sight_of(pass, block.first).first >= group + keys)
        return;
    if (terms == NULL) {
        copy_rows(memory->query, query, d, block.first, block.rows);
    } else {
        copy_biased(kernels, memory->query, query, d, block.first, block.rows, terms->content_bias);
        copy_biased(kernels, memory->position, query, d, block.first, block.rows, terms->position_bias);
    }
    copy_rows(memory->dout, pass->dout, pass->problem->shape.value_dim, block.first, block.rows);
    for (size_t tile = 0; tile < keys; tile += TILE)
        fresh &= !backward_tile(pass, memory, block, group, tile, size_min(TILE, keys - tile), fresh);
    if (fresh) /* the block's range is empty, in the midst of the group */
        return;
    add_rows(kernels, dquery, block.first, block.rows, memory->dquery);
    if (terms == NULL)
        return;
    add_rows(kernels, dquery, block.first, block.rows, memory->dposition);
    float *du = terms_of(pass, memory, group) + pass->attention->num_terms * d;
    kernels->layers.add_bias_backward(du, memory->dquery, block.rows, d);
    kernels->layers.add_bias_backward(du + d, memory->dposition, block.rows, d);
}

/* Blocks in order for dK and dV, groups in order for dQ. */
static void grid_cell(void *argument, size_t row, size_t col, int worker)
{
    const struct tile_pass *pass = argument;
    struct backward_memory memory = memory_of(pass, row, worker);
    size_t group = pass->first_group + row * KEY_GROUP,
           keys = size_min(KEY_GROUP, pass->problem->shape.num_keys - group);
    if (col == 0)
        group_begin(pass, &memory, group, keys);
    group_and_block(pass, &memory, group, keys, block_of(pass, col));
    if (col + 1 == pass->num_blocks)
        group_end(pass, &memory, group, keys);
}

/* The first block whose last query sees key `key` or a later one; or, with `after`, whose first query sees
   no key before it. Binary search. */
static size_t find_block(const struct tile_pass *pass, size_t key, bool after)
{
    size_t low = 0, high = pass->num_blocks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct block block = block_of(pass, middle);
        bool found = after ? sight_of(pass, block.first).first >= key
                           : sight_of(pass, block.first + block.rows - 1).end > key;
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
    const struct tile_pass *pass = argument;
    struct backward_memory memory = memory_of(pass, (size_t)worker, worker);
    size_t most = key_group(pass->attention), group = pass->first_group + 2 * index * most,
           keys = size_min(most, pass->problem->shape.num_keys - group);
    group_begin(pass, &memory, group, keys);
    for (size_t i = find_block(pass, group, false), end = find_block(pass, group + keys, true); i < end; i++)
        group_and_block(pass, &memory, group, keys, block_of(pass, i));
    group_end(pass, &memory, group, keys);
}

/* Adds the gradients of r, u and v of all groups of keys, in order; those of r into the first group's. */
static void add_terms(const struct tile_pass *pass, size_t groups)
{
    const struct kernels *kernels = pass->problem->kernels;
    const struct relative_terms *terms = pass->attention->terms;
    float *sums = memory_of(pass, 0, 0).terms, *from = sums;
    size_t d = terms->dim, most = pass->attention->num_terms;
    for (size_t g = 0; g < groups; g++, from += terms_size(pass)) {
        if (g > 0)
            kernels->rows.axpy(sums, 1, from, terms->count * d);
        kernels->rows.axpy(terms->dcontent_bias, 1, from + most * d, d);
        kernels->rows.axpy(terms->dposition_bias, 1, from + (most + 1) * d, d);
    }
    relative_terms_make_backward(terms, kernels, sums);
}

static void delta_block(void *argument, size_t index, int worker)
{
    const struct tile_pass *pass = argument;
    float *delta = memory_of(pass, 0, worker).delta;
    struct block block = block_of(pass, index);
    pass->problem->kernels->rows.dots(delta + block.first, view_row(pass->dout, block.first),
                                      pass->dout.stride, view_row(pass->out, block.first), pass->out.stride,
                                      block.rows, pass->problem->shape.value_dim);
}

/* true if no block sees more keys than span allows: otherwise groups that run in parallel would add to the
   same queries. */
static bool keeps_span(const struct tile_pass *pass)
{
    for (size_t i = 0; i < pass->num_blocks; i++) {
        struct block block = block_of(pass, i);
        size_t first = sight_of(pass, block.first).first,
               end = sight_of(pass, block.first + block.rows - 1).end;
        if (end > first + pass->attention->span)
            return false;
    }
    return true;
}

void tile_attention_backward(const struct problem *problem, const struct tile_attention *attention,
                             struct view out, struct view dout, const struct problem_gradients *gradients,
                             void *scratch)
{
    struct tile_pass pass = tile_pass_open(problem, attention, out, scratch);
    size_t num_keys = problem->shape.num_keys;
    struct double_attention twin = as_double(&pass);
    pass.dout = dout;
    pass.gradients = gradients;
    if (softmax_rows_in_double(&attention->rows) ||
        (problem->large && double_is_needed(problem, &twin, &dout))) {
        double_backward(problem, &twin, dout, gradients, scratch);
        return;
    }
    pass.num_blocks = (pass.seeing.end - pass.seeing.first + attention->block - 1) / attention->block;
    pool_run(problem->pool, delta_block, &pass, pass.num_blocks);
    if (attention->span > 0) {
        size_t most = key_group(attention), groups = (num_keys + most - 1) / most;
        struct pool *pool = keeps_span(&pass) ? problem->pool : NULL;
        for (size_t odd = 0; odd < 2 && odd < groups; odd++) {
            pass.first_group = odd * most;
            pool_run(pool, band_group, &pass, (groups - odd + 1) / 2);
        }
        if (attention->terms != NULL && attention->terms->dweight != NULL)
            add_terms(&pass, groups);
        return;
    }
    size_t keys_at_once = groups_at_once(&problem->shape, attention) * KEY_GROUP;
    for (; pass.first_group < num_keys; pass.first_group += keys_at_once) {
        size_t keys = size_min(keys_at_once, num_keys - pass.first_group);
        pool_run_grid(problem->pool, grid_cell, &pass, (keys + KEY_GROUP - 1) / KEY_GROUP, pass.num_blocks);
    }
}
