/* Passes over blocks of rows: levels, sums over keys, queries, keys.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/estimated_shares.h"

#include <math.h>
#include <string.h>

#include "parts/features/random_features.h"
#include "parts/targets/utility_blocks.h"

struct levels {
    float plain, shrunk;
};

struct pass {
    const struct problem *problem;
    const struct utility *utility;
    void *scratch;
    enum utility_side side;
    struct features features;
    enum stabiliser stabiliser;
    float shrink;
    struct levels level;
};

struct memory {
    float *sums, *transposed; /* (B, R): S or T; (R, B) */
    float *all;               /* (R): the sum of phi over all keys */
    /* of one slot */
    float *own_sums, *own_all; /* of its block */
    struct levels *level;
    struct feature_rows rows; /* UTILITY_ROWS at most */
    float *phi;               /* (UTILITY_ROWS, R) */
    float *psi;               /* (UTILITY_ROWS, B) */
    float *divisor;           /* (UTILITY_ROWS) */
    size_t bytes;
};

static struct memory memory_on(const struct problem_shape *shape, const struct utility *u, void *block,
                               size_t slot)
{
    struct memory m;
    struct arena arena = arena_on(block), own;
    size_t features = u->num_features, table = size_product(u->num_groups, features), bytes = 0;
    m.sums = arena_take(&arena, table, sizeof(float));
    m.transposed = arena_take(&arena, table, sizeof(float));
    m.all = arena_take(&arena, features, sizeof(float));
    for (int pass = 0; pass < 2; pass++) { /* the first pass measures */
        unsigned char *slots = pass == 0 ? NULL : arena_take(&arena, shape->workers, bytes);
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

static struct memory memory_of(const struct pass *pass, size_t slot)
{
    return memory_on(&pass->problem->shape, pass->utility, pass->scratch, slot);
}

/* Projects at most a tile of rows from `first` on; returns their number. */
static size_t project(const struct pass *pass, const struct memory *m, size_t first, size_t end)
{
    struct view rows = pass->side == UTILITY_QUERIES ? pass->problem->query : pass->problem->key;
    size_t count = size_min(UTILITY_ROWS, end - first);
    features_project(&pass->features, view_row(rows, first), rows.stride, count, &m->rows);
    return count;
}

/* The largest exponents of all rows, and of all rows times `shrink`. */
static void level_block(const void *argument, size_t slot, size_t first, size_t end)
{
    const struct pass *pass = argument;
    struct memory m = memory_of(pass, slot);
    *m.level = (struct levels){-INFINITY, -INFINITY};
    for (size_t i = first; i < end; i += UTILITY_ROWS) {
        size_t count = project(pass, &m, i, end);
        m.level->plain = fmaxf(m.level->plain, features_level(&m.rows, count, 1));
        m.level->shrunk = fmaxf(m.level->shrunk, features_level(&m.rows, count, pass->shrink));
    }
}

static void level_add(void *argument, size_t slot)
{
    struct pass *pass = argument;
    struct memory m = memory_of(pass, slot);
    pass->level.plain = fmaxf(pass->level.plain, m.level->plain);
    pass->level.shrunk = fmaxf(pass->level.shrunk, m.level->shrunk);
}

/* own_sums[b] += phi_i / divisor_i for the groups b of token first + i; divisor NULL: 1. */
static void add_to_groups(const struct pass *pass, const struct memory *m, const struct token_groups *groups,
                          size_t first, size_t count, const float *divisor)
{
    const struct kernels *kernels = pass->problem->kernels;
    size_t features = pass->utility->num_features;
    for (size_t i = 0; i < count; i++)
        for (size_t p = groups->start[first + i]; p < groups->start[first + i + 1]; p++)
            kernels->rows.axpy(m->own_sums + groups->group[p] * features,
                               divisor == NULL ? 1 : 1 / divisor[i], m->phi + i * features, features);
}

static void clear_sums(const struct utility *u, float *sums, float *all)
{
    memset(sums, 0, u->num_groups * u->num_features * sizeof *sums);
    memset(all, 0, u->num_features * sizeof *all);
}

/* Passes psi = phi sums^T to `take`; transposed: the sums so. */
static void give_products(const struct pass *pass, const struct memory *m, size_t slot, size_t first,
                          size_t count)
{
    const struct utility *u = pass->utility;
    size_t features = u->num_features, groups = u->num_groups;
    pass->problem->kernels->tiles.product(m->psi, groups, m->phi, features, 1, m->transposed, groups, count,
                                          groups, features, false);
    u->take(u->argument, pass->side, first, count, m->psi, slot);
}

static void sum_keys(const void *argument, size_t slot, size_t first, size_t end)
{
    const struct pass *pass = argument;
    const struct utility *u = pass->utility;
    struct memory m = memory_of(pass, slot);
    clear_sums(u, m.own_sums, m.own_all);
    for (size_t j = first; j < end; j += UTILITY_ROWS) {
        size_t count = project(pass, &m, j, end);
        features_of(&pass->features, &m.rows, count, 1, pass->stabiliser, pass->level.plain, m.phi);
        pass->problem->kernels->layers.add_bias_backward(m.own_all, m.phi, count, u->num_features);
        add_to_groups(pass, &m, &u->key_groups, j, count, NULL);
    }
}

static void add_keys(void *argument, size_t slot)
{
    const struct pass *pass = argument;
    const struct utility *u = pass->utility;
    struct memory m = memory_of(pass, slot);
    pass->problem->kernels->rows.axpy(m.sums, 1, m.own_sums, u->num_groups * u->num_features);
    pass->problem->kernels->rows.axpy(m.all, 1, m.own_all, u->num_features);
}

/* psi of queries from S, and their contribution to T. */
static void give_queries(const void *argument, size_t slot, size_t first, size_t end)
{
    const struct pass *pass = argument;
    const struct utility *u = pass->utility;
    struct memory m = memory_of(pass, slot);
    size_t features = u->num_features;
    clear_sums(u, m.own_sums, m.own_all);
    for (size_t i = first; i < end; i += UTILITY_ROWS) {
        size_t count = project(pass, &m, i, end);
        features_of(&pass->features, &m.rows, count, 1, pass->stabiliser, pass->level.plain, m.phi);
        give_products(pass, &m, slot, i, count);
        if (u->twice_scaled)
            features_of(&pass->features, &m.rows, count, pass->shrink, pass->stabiliser, pass->level.shrunk,
                        m.phi);
        pass->problem->kernels->rows.dots(m.divisor, m.phi, features, m.all, 0, count, features);
        add_to_groups(pass, &m, &u->query_groups, i, count, m.divisor);
    }
}

static void add_queries(void *argument, size_t slot)
{
    const struct pass *pass = argument;
    const struct utility *u = pass->utility;
    struct memory m = memory_of(pass, slot);
    pass->problem->kernels->rows.axpy(m.sums, 1, m.own_sums, u->num_groups * u->num_features);
    u->close(u->argument, slot);
}

/* psi of keys from T. */
static void give_keys(const void *argument, size_t slot, size_t first, size_t end)
{
    const struct pass *pass = argument;
    struct memory m = memory_of(pass, slot);
    for (size_t j = first; j < end; j += UTILITY_ROWS) {
        size_t count = project(pass, &m, j, end);
        features_of(&pass->features, &m.rows, count, 1, pass->stabiliser, pass->level.plain, m.phi);
        give_products(pass, &m, slot, j, count);
    }
}

static void close_block(void *argument, size_t slot)
{
    const struct pass *pass = argument;
    pass->utility->close(pass->utility->argument, slot);
}

/* All rows of a side. */
static void run_side(struct pass *pass, enum utility_side side,
                     void (*block)(const void *argument, size_t slot, size_t first, size_t end),
                     void (*add)(void *argument, size_t slot))
{
    pass->side = side;
    utility_run_blocks(pass->problem, 0,
                       side == UTILITY_QUERIES ? pass->problem->shape.num_queries
                                               : pass->problem->shape.num_keys,
                       &(struct utility_work){block, add, pass});
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

void estimated_shares(const struct problem *problem, const struct utility *u, void *scratch)
{
    const struct kernels *kernels = problem->kernels;
    size_t d = problem->shape.head_dim;
    struct memory m = memory_on(&problem->shape, u, scratch, 0);
    size_t features = u->num_features, groups = u->num_groups;
    enum stabiliser of_queries = u->swapped ? STABILISE_ALL : STABILISE_ROW,
                    of_keys = u->swapped ? STABILISE_ROW : STABILISE_ALL;
    struct pass pass = {.problem = problem,
                        .utility = u,
                        .scratch = scratch,
                        .features = {kernels, u->directions, u->num_features, d, u->both_signs},
                        .shrink = u->twice_scaled ? 1 / sqrtf((float)d) : 1,
                        .level = {-INFINITY, -INFINITY}};
    run_side(&pass, u->swapped ? UTILITY_QUERIES : UTILITY_KEYS, level_block, level_add);
    level_spans(u, &pass.level);
    clear_sums(u, m.sums, m.all);
    pass.stabiliser = of_keys;
    run_side(&pass, UTILITY_KEYS, sum_keys, add_keys);
    sum_spans(u, m.sums, groups * features);
    sum_spans(u, m.all, features);
    kernels->tiles.transpose(m.transposed, groups, m.sums, features, groups, features);
    memset(m.sums, 0, groups * features * sizeof(float));
    pass.stabiliser = of_queries;
    run_side(&pass, UTILITY_QUERIES, give_queries, add_queries);
    sum_spans(u, m.sums, groups * features);
    kernels->tiles.transpose(m.transposed, groups, m.sums, features, groups, features);
    pass.stabiliser = of_keys;
    run_side(&pass, UTILITY_KEYS, give_keys, close_block);
}

size_t estimated_shares_size(const struct problem_shape *shape, const struct utility *utility)
{
    return memory_on(shape, utility, NULL, 0).bytes;
}
