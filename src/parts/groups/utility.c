/* Exact and estimated targets. SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/utility.h"

#include <math.h>
#include <string.h>

/* ---- homes --------------------------------------------------------------------------------------------- */

struct homes homes_take(struct arena *arena, size_t n, size_t places)
{
    struct homes homes;
    homes.start = arena_take(arena, size_sum(n, 1), sizeof *homes.start);
    homes.group = arena_take(arena, places, sizeof *homes.group);
    return homes;
}

void homes_by_lists(const struct homes *homes, const struct members *members, size_t n)
{
    homes_find(homes->start, homes->group, members, n);
}

void homes_by_choice(const struct homes *homes, const uint32_t *choice, size_t n, size_t each)
{
    for (size_t i = 0; i <= n; i++)
        homes->start[i] = (uint32_t)(i * each);
    memcpy(homes->group, choice, n * each * sizeof *choice);
}

/* ---- blocks ----------------------------------------------------------------------------------------------
   Rows are cut into blocks by their index only. One block per thread runs at a time, each in its own slot,
   and results are added in block order: the bits are those of one thread. */

struct levels {
    float plain, shrunk;
};

struct pass {
    const struct utility *utility;
    void *scratch;
    enum utility_side side;
    void (*block)(const struct pass *pass, size_t slot, size_t first, size_t end);
    size_t wave; /* its first block */
    /* exact */
    const float *psi;
    /* estimated */
    struct features features;
    enum stabiliser stabiliser;
    float shrink;
    struct levels level;
};

static bool gives_some(const struct pass *pass)
{
    return pass->utility->across != NULL && pass->utility->num_features == 0 && pass->side == UTILITY_QUERIES;
}

static size_t first_row(const struct pass *pass)
{
    return gives_some(pass) ? pass->utility->across->first : 0;
}

static size_t end_row(const struct pass *pass)
{
    if (gives_some(pass))
        return pass->utility->across->end;
    return pass->side == UTILITY_QUERIES ? pass->utility->num_queries : pass->utility->num_keys;
}

static void run_block(void *argument, size_t slot, int worker)
{
    (void)worker;
    const struct pass *pass = argument;
    size_t first = first_row(pass) + (pass->wave + slot) * UTILITY_BLOCK;
    pass->block(pass, slot, first, size_min(first + UTILITY_BLOCK, end_row(pass)));
}

/* add is called for each block, in order, on this thread. */
static void run_blocks(struct pass *pass, enum utility_side side,
                       void (*block)(const struct pass *pass, size_t slot, size_t first, size_t end),
                       void (*add)(struct pass *pass, size_t slot))
{
    pass->side = side;
    pass->block = block;
    size_t blocks = (end_row(pass) - first_row(pass) + UTILITY_BLOCK - 1) / UTILITY_BLOCK,
           slots = pass->utility->workers;
    for (pass->wave = 0; pass->wave < blocks; pass->wave += slots) {
        size_t count = size_min(slots, blocks - pass->wave);
        pool_run(pass->utility->pool, run_block, pass, count);
        for (size_t slot = 0; slot < count; slot++)
            add(pass, slot);
    }
}

static void close_block(struct pass *pass, size_t slot)
{
    pass->utility->close(pass->utility->argument, slot);
}

/* ---- exact --------------------------------------------------------------------------------------------- */

static struct group_sizes whole_sizes(const struct utility *u)
{
    return (struct group_sizes){.num_queries = u->num_queries,
                                .num_keys = u->num_keys,
                                .dim = u->dim,
                                .value_dim = u->num_groups,
                                .query_places = u->num_queries,
                                .key_places = u->num_keys,
                                .longest_query = u->num_queries,
                                .longest_key = u->num_keys,
                                .precision = PRECISION_FLOAT32,
                                .workers = 1};
}

struct exact_memory {
    float *in_query, *in_key;   /* (n, B): 1, or the query's weight, if the token is in the group; else 0 */
    float *psi_query, *psi_key; /* (n, B) */
    float *dquery, *dkey;       /* (n, d), unused results */
    struct softmax_rows rows;   /* (n_q) */
    float *largest, *weight;    /* (n_q): with spans, the maximum of all, and this one's weight */
    uint32_t *start, *query, *key; /* one group with all tokens */
    void *attention;
    size_t bytes;
};

static struct exact_memory exact_memory(const struct utility *u, void *block)
{
    struct exact_memory m;
    struct arena arena = arena_on(block);
    struct group_sizes sizes = whole_sizes(u);
    size_t n_q = u->num_queries, n_k = u->num_keys, groups = u->num_groups;
    size_t forward = group_forward_size(&sizes), backward = group_backward_size(&sizes);
    m.in_query = arena_take(&arena, size_product(n_q, groups), sizeof(float));
    m.in_key = arena_take(&arena, size_product(n_k, groups), sizeof(float));
    m.psi_query = arena_take(&arena, size_product(n_q, groups), sizeof(float));
    m.psi_key = arena_take(&arena, size_product(n_k, groups), sizeof(float));
    m.rows = softmax_rows_take(&arena, n_q);
    m.dquery = arena_take(&arena, size_product(n_q, u->dim), sizeof(float));
    m.dkey = arena_take(&arena, size_product(n_k, u->dim), sizeof(float));
    m.largest = arena_take(&arena, u->across == NULL ? 0 : n_q, sizeof(float));
    m.weight = arena_take(&arena, u->across == NULL ? 0 : n_q, sizeof(float));
    m.start = arena_take(&arena, 4, sizeof *m.start);
    m.query = arena_take(&arena, n_q, sizeof *m.query);
    m.key = arena_take(&arena, n_k, sizeof *m.key);
    m.attention = arena_take(&arena, forward > backward ? forward : backward, 1);
    m.bytes = arena.used;
    return m;
}

static void fill_in(float *in, const struct homes *homes, size_t n, size_t groups, const float *weights)
{
    memset(in, 0, n * groups * sizeof *in);
    for (size_t i = 0; i < n; i++)
        for (size_t p = homes->start[i]; p < homes->start[i + 1]; p++)
            in[i * groups + homes->group[p]] = weights == NULL ? 1 : weights[i];
}

static struct members all_in_one(uint32_t *start, uint32_t *list, size_t n)
{
    start[0] = 0;
    start[1] = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        list[i] = (uint32_t)i;
    return (struct members){1, start, list};
}

static void give_exact(const struct pass *pass, size_t slot, size_t first, size_t end)
{
    const struct utility *u = pass->utility;
    for (size_t i = first; i < end; i += UTILITY_ROWS)
        u->take(u->argument, pass->side, i, size_min(UTILITY_ROWS, end - i), pass->psi + i * u->num_groups,
                slot);
}

/* The softmax over the keys of all spans: psi of queries, and the maxima and sums from which backward makes
   the probabilities again. */
static void merge_spans(const struct utility *u, const struct exact_memory *m)
{
    size_t n = u->num_queries, groups = u->num_groups;
    float scale = 1 / sqrtf((float)u->dim);
    memcpy(m->largest, m->rows.max, n * sizeof(float));
    u->across->largest(u->across->argument, m->largest, n);
    for (size_t i = 0; i < n; i++)
        m->weight[i] = expf(m->rows.log_sum[i] + scale * (m->rows.max[i] - m->largest[i]));
    u->kernels->rows.scale(m->psi_query, groups, m->weight, n, groups);
    u->across->sum(u->across->argument, m->weight, n);
    u->across->sum(u->across->argument, m->psi_query, n * groups);
    for (size_t i = 0; i < n; i++) {
        m->rows.max[i] = m->largest[i];
        m->rows.log_sum[i] = logf(m->weight[i]);
        m->weight[i] = 1 / m->weight[i];
    }
    u->kernels->rows.scale(m->psi_query, groups, m->weight, n, groups);
}

static void exact_targets(const struct utility *u, void *scratch)
{
    struct exact_memory m = exact_memory(u, scratch);
    size_t n_q = u->num_queries, n_k = u->num_keys, groups = u->num_groups;
    fill_in(m.in_query, &u->query_homes, n_q, groups, u->query_weights);
    fill_in(m.in_key, &u->key_homes, n_k, groups, NULL);
    struct group_attention attention = {.kernels = u->kernels,
                                        .sizes = whole_sizes(u),
                                        .query = u->query,
                                        .key = u->key,
                                        .value = view_of(m.in_key, n_k, groups),
                                        .queries = all_in_one(m.start, m.query, n_q),
                                        .keys = all_in_one(m.start + 2, m.key, n_k),
                                        .rows = m.rows};
    group_forward(&attention, view_of(m.psi_query, n_q, groups), m.attention);
    if (u->across != NULL)
        merge_spans(u, &m);
    memset(m.psi_key, 0, n_k * groups * sizeof(float));
    memset(m.dquery, 0, n_q * u->dim * sizeof(float));
    memset(m.dkey, 0, n_k * u->dim * sizeof(float));
    group_backward(&attention, view_of(m.psi_query, n_q, groups), view_of(m.in_query, n_q, groups),
                   &(struct attention_gradients){.query = view_of(m.dquery, n_q, u->dim),
                                                 .key = view_of(m.dkey, n_k, u->dim),
                                                 .value = view_of(m.psi_key, n_k, groups)},
                   m.attention);
    struct pass pass = {.utility = u, .psi = m.psi_query};
    run_blocks(&pass, UTILITY_QUERIES, give_exact, close_block);
    pass.psi = m.psi_key;
    run_blocks(&pass, UTILITY_KEYS, give_exact, close_block);
}

/* ---- estimated ----------------------------------------------------------------------------------------- */

struct memory {
    float *sums, *turned; /* (B, R): S or T; (R, B) */
    float *all;           /* (R): the sum of phi over all keys */
    /* of one slot */
    float *own_sums, *own_all; /* of its block */
    struct levels *level;
    struct feature_rows rows; /* UTILITY_ROWS at most */
    float *phi;               /* (UTILITY_ROWS, R) */
    float *psi;               /* (UTILITY_ROWS, B) */
    float *divisor;           /* (UTILITY_ROWS) */
    size_t bytes;
};

static struct memory memory_on(const struct utility *u, void *block, size_t slot)
{
    struct memory m;
    struct arena arena = arena_on(block), own;
    size_t features = u->num_features, table = size_product(u->num_groups, features), bytes = 0;
    m.sums = arena_take(&arena, table, sizeof(float));
    m.turned = arena_take(&arena, table, sizeof(float));
    m.all = arena_take(&arena, features, sizeof(float));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *slots = pass == 0 ? NULL : arena_take(&arena, u->workers, bytes);
        own = arena_on(slots == NULL ? NULL : slots + slot * bytes);
        m.own_sums = arena_take(&own, table, sizeof(float));
        m.own_all = arena_take(&own, features, sizeof(float));
        m.level = arena_take(&own, 1, sizeof *m.level);
        m.phi = arena_take(&own, size_product(UTILITY_ROWS, features), sizeof(float));
        m.rows.products = arena_take(&own, size_product(UTILITY_ROWS, features), sizeof(float));
        m.rows.half = arena_take(&own, UTILITY_ROWS, sizeof(float));
        m.rows.largest = arena_take(&own, UTILITY_ROWS, sizeof(float));
        m.rows.shift = arena_take(&own, UTILITY_ROWS, sizeof(float));
        m.psi = arena_take(&own, size_product(UTILITY_ROWS, u->num_groups), sizeof(float));
        m.divisor = arena_take(&own, UTILITY_ROWS, sizeof(float));
        bytes = own.used;
    }
    m.bytes = arena.used;
    return m;
}

/* Projects at most a tile of rows from `first` on; returns their number. */
static size_t project(const struct pass *pass, const struct memory *m, size_t first, size_t end)
{
    const struct utility *u = pass->utility;
    struct view rows = pass->side == UTILITY_QUERIES ? u->query : u->key;
    size_t count = size_min(UTILITY_ROWS, end - first);
    features_project(&pass->features, view_row(rows, first), rows.stride, count, &m->rows);
    return count;
}

/* The largest exponents of all rows, and of all rows times `shrink`. */
static void level_block(const struct pass *pass, size_t slot, size_t first, size_t end)
{
    struct memory m = memory_on(pass->utility, pass->scratch, slot);
    *m.level = (struct levels){-INFINITY, -INFINITY};
    for (size_t i = first; i < end; i += UTILITY_ROWS) {
        size_t count = project(pass, &m, i, end);
        m.level->plain = fmaxf(m.level->plain, features_level(&m.rows, count, 1));
        m.level->shrunk = fmaxf(m.level->shrunk, features_level(&m.rows, count, pass->shrink));
    }
}

static void level_add(struct pass *pass, size_t slot)
{
    struct memory m = memory_on(pass->utility, pass->scratch, slot);
    pass->level.plain = fmaxf(pass->level.plain, m.level->plain);
    pass->level.shrunk = fmaxf(pass->level.shrunk, m.level->shrunk);
}

/* own_sums[b] += phi_i / divisor_i for the groups b of token first + i; divisor NULL: 1. */
static void add_to_homes(const struct utility *u, const struct memory *m, const struct homes *homes,
                         size_t first, size_t count, const float *divisor)
{
    size_t features = u->num_features;
    for (size_t i = 0; i < count; i++)
        for (size_t p = homes->start[first + i]; p < homes->start[first + i + 1]; p++)
            u->kernels->rows.axpy(m->own_sums + homes->group[p] * features,
                                  divisor == NULL ? 1 : 1 / divisor[i], m->phi + i * features, features);
}

static void clear_sums(const struct utility *u, float *sums, float *all)
{
    memset(sums, 0, u->num_groups * u->num_features * sizeof *sums);
    memset(all, 0, u->num_features * sizeof *all);
}

/* Passes psi = phi sums^T to `take`; turned: the sums transposed. */
static void give_products(const struct pass *pass, const struct memory *m, size_t slot, size_t first,
                          size_t count)
{
    const struct utility *u = pass->utility;
    size_t features = u->num_features, groups = u->num_groups;
    u->kernels->tiles.product(m->psi, groups, m->phi, features, 1, m->turned, groups, count, groups, features,
                              false);
    u->take(u->argument, pass->side, first, count, m->psi, slot);
}

static void sum_keys(const struct pass *pass, size_t slot, size_t first, size_t end)
{
    const struct utility *u = pass->utility;
    struct memory m = memory_on(u, pass->scratch, slot);
    clear_sums(u, m.own_sums, m.own_all);
    for (size_t j = first; j < end; j += UTILITY_ROWS) {
        size_t count = project(pass, &m, j, end);
        features_of(&pass->features, &m.rows, count, 1, pass->stabiliser, pass->level.plain, m.phi);
        u->kernels->layers.add_bias_backward(m.own_all, m.phi, count, u->num_features);
        add_to_homes(u, &m, &u->key_homes, j, count, NULL);
    }
}

static void add_keys(struct pass *pass, size_t slot)
{
    const struct utility *u = pass->utility;
    struct memory m = memory_on(u, pass->scratch, slot);
    u->kernels->rows.axpy(m.sums, 1, m.own_sums, u->num_groups * u->num_features);
    u->kernels->rows.axpy(m.all, 1, m.own_all, u->num_features);
}

/* psi of queries from S, and their contribution to T. */
static void give_queries(const struct pass *pass, size_t slot, size_t first, size_t end)
{
    const struct utility *u = pass->utility;
    struct memory m = memory_on(u, pass->scratch, slot);
    size_t features = u->num_features;
    clear_sums(u, m.own_sums, m.own_all);
    for (size_t i = first; i < end; i += UTILITY_ROWS) {
        size_t count = project(pass, &m, i, end);
        features_of(&pass->features, &m.rows, count, 1, pass->stabiliser, pass->level.plain, m.phi);
        give_products(pass, &m, slot, i, count);
        if (u->twice_scaled)
            features_of(&pass->features, &m.rows, count, pass->shrink, pass->stabiliser, pass->level.shrunk,
                        m.phi);
        u->kernels->rows.dots(m.divisor, m.phi, features, m.all, 0, count, features);
        add_to_homes(u, &m, &u->query_homes, i, count, m.divisor);
    }
}

static void add_queries(struct pass *pass, size_t slot)
{
    const struct utility *u = pass->utility;
    struct memory m = memory_on(u, pass->scratch, slot);
    u->kernels->rows.axpy(m.sums, 1, m.own_sums, u->num_groups * u->num_features);
    u->close(u->argument, slot);
}

/* psi of keys from T. */
static void give_keys(const struct pass *pass, size_t slot, size_t first, size_t end)
{
    struct memory m = memory_on(pass->utility, pass->scratch, slot);
    for (size_t j = first; j < end; j += UTILITY_ROWS) {
        size_t count = project(pass, &m, j, end);
        features_of(&pass->features, &m.rows, count, 1, pass->stabiliser, pass->level.plain, m.phi);
        give_products(pass, &m, slot, j, count);
    }
}

static void level_spans(const struct utility *u, struct levels *level)
{
    float both[] = {level->plain, level->shrunk};
    if (u->across != NULL)
        u->across->largest(u->across->argument, both, 2);
    *level = (struct levels){both[0], both[1]};
}

static void sum_spans(const struct utility *u, float *sums, size_t n)
{
    if (u->across != NULL)
        u->across->sum(u->across->argument, sums, n);
}

static void estimated_targets(const struct utility *u, void *scratch)
{
    struct memory m = memory_on(u, scratch, 0);
    size_t features = u->num_features, groups = u->num_groups;
    enum stabiliser of_queries = u->swapped ? STABILISE_ALL : STABILISE_ROW,
                    of_keys = u->swapped ? STABILISE_ROW : STABILISE_ALL;
    struct pass pass = {.utility = u,
                        .scratch = scratch,
                        .features = {u->kernels, u->directions, u->num_features, u->dim, u->both_signs},
                        .shrink = u->twice_scaled ? 1 / sqrtf((float)u->dim) : 1,
                        .level = {-INFINITY, -INFINITY}};
    run_blocks(&pass, u->swapped ? UTILITY_QUERIES : UTILITY_KEYS, level_block, level_add);
    level_spans(u, &pass.level);
    clear_sums(u, m.sums, m.all);
    pass.stabiliser = of_keys;
    run_blocks(&pass, UTILITY_KEYS, sum_keys, add_keys);
    sum_spans(u, m.sums, groups * features);
    sum_spans(u, m.all, features);
    u->kernels->tiles.transpose(m.turned, groups, m.sums, features, groups, features);
    memset(m.sums, 0, groups * features * sizeof(float));
    pass.stabiliser = of_queries;
    run_blocks(&pass, UTILITY_QUERIES, give_queries, add_queries);
    sum_spans(u, m.sums, groups * features);
    u->kernels->tiles.transpose(m.turned, groups, m.sums, features, groups, features);
    pass.stabiliser = of_keys;
    run_blocks(&pass, UTILITY_KEYS, give_keys, close_block);
}

/* ---- either -------------------------------------------------------------------------------------------- */

size_t utility_size(const struct utility *utility)
{
    return utility->num_features == 0 ? exact_memory(utility, NULL).bytes : memory_on(utility, NULL, 0).bytes;
}

void utility_targets(const struct utility *utility, void *scratch)
{
    if (utility->num_features == 0)
        exact_targets(utility, scratch);
    else
        estimated_targets(utility, scratch);
}
