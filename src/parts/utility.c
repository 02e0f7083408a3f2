/* Both ways to the targets. SPDX-License-Identifier: Apache-2.0 */
#include "parts/utility.h"

#include <math.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- homes -----------------------------------------------------------------------------------------------
 */

struct homes homes_take(struct arena *arena, size_t n, size_t places)
{
    struct homes homes;
    homes.start = arena_take(arena, size_sum(n, 1), sizeof *homes.start);
    homes.bucket = arena_take(arena, places, sizeof *homes.bucket);
    return homes;
}

void homes_by_lists(const struct homes *homes, const struct members *members, size_t n)
{
    homes_find(homes->start, homes->bucket, members, n);
}

void homes_by_choice(const struct homes *homes, const uint32_t *choice, size_t n)
{
    for (size_t i = 0; i <= n; i++)
        homes->start[i] = (uint32_t)i;
    memcpy(homes->bucket, choice, n * sizeof *choice);
}

/* ---- exact -----------------------------------------------------------------------------------------------
 */

static struct bucket_sizes whole_sizes(const struct utility *u)
{
    return (struct bucket_sizes){.num_queries = u->num_queries,
                                 .num_keys = u->num_keys,
                                 .dim = u->dim,
                                 .value_dim = u->num_buckets,
                                 .query_places = u->num_queries,
                                 .key_places = u->num_keys,
                                 .longest_query = u->num_queries,
                                 .longest_key = u->num_keys,
                                 .precision = PRECISION_FLOAT32,
                                 .workers = 1};
}

struct exact_memory {
    float *in_query, *in_key;      /* (n, B): 1 where the token is in the bucket */
    float *psi_query, *psi_key;    /* (n, B) */
    float *lse, *dquery, *dkey;    /* (n_q); (n, d), which nobody reads */
    uint32_t *start, *query, *key; /* one bucket of all */
    void *attention;
    size_t bytes;
};

static struct exact_memory exact_memory(const struct utility *u, void *block)
{
    struct exact_memory m;
    struct arena arena = arena_on(block);
    struct bucket_sizes sizes = whole_sizes(u);
    size_t n_q = u->num_queries, n_k = u->num_keys, buckets = u->num_buckets;
    size_t forward = bucket_forward_size(&sizes), backward = bucket_backward_size(&sizes);
    m.in_query = arena_take(&arena, size_product(n_q, buckets), sizeof(float));
    m.in_key = arena_take(&arena, size_product(n_k, buckets), sizeof(float));
    m.psi_query = arena_take(&arena, size_product(n_q, buckets), sizeof(float));
    m.psi_key = arena_take(&arena, size_product(n_k, buckets), sizeof(float));
    m.lse = arena_take(&arena, n_q, sizeof(float));
    m.dquery = arena_take(&arena, size_product(n_q, u->dim), sizeof(float));
    m.dkey = arena_take(&arena, size_product(n_k, u->dim), sizeof(float));
    m.start = arena_take(&arena, 4, sizeof *m.start);
    m.query = arena_take(&arena, n_q, sizeof *m.query);
    m.key = arena_take(&arena, n_k, sizeof *m.key);
    m.attention = arena_take(&arena, forward > backward ? forward : backward, 1);
    m.bytes = arena.used;
    return m;
}

static void fill_in(float *in, const struct homes *homes, size_t n, size_t buckets)
{
    memset(in, 0, n * buckets * sizeof *in);
    for (size_t i = 0; i < n; i++)
        for (size_t p = homes->start[i]; p < homes->start[i + 1]; p++)
            in[i * buckets + homes->bucket[p]] = 1;
}

static struct members all_in_one(uint32_t *start, uint32_t *list, size_t n)
{
    start[0] = 0;
    start[1] = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        list[i] = (uint32_t)i;
    return (struct members){1, start, list};
}

static void exact_targets(const struct utility *u, void *scratch)
{
    struct exact_memory m = exact_memory(u, scratch);
    size_t n_q = u->num_queries, n_k = u->num_keys, buckets = u->num_buckets;
    fill_in(m.in_query, &u->query_homes, n_q, buckets);
    fill_in(m.in_key, &u->key_homes, n_k, buckets);
    struct bucket_attention attention = {.kernels = u->kernels,
                                         .sizes = whole_sizes(u),
                                         .query = u->query,
                                         .key = u->key,
                                         .value = {m.in_key, buckets},
                                         .queries = all_in_one(m.start, m.query, n_q),
                                         .keys = all_in_one(m.start + 2, m.key, n_k),
                                         .lse = m.lse};
    bucket_forward(&attention, m.psi_query, buckets, m.attention);
    memset(m.psi_key, 0, n_k * buckets * sizeof(float));
    memset(m.dquery, 0, n_q * u->dim * sizeof(float));
    memset(m.dkey, 0, n_k * u->dim * sizeof(float));
    bucket_backward(
        &attention, (struct head_rows){m.psi_query, buckets}, (struct head_rows){m.in_query, buckets},
        &(struct bucket_gradients){m.dquery, m.dkey, m.psi_key, u->dim, u->dim, buckets}, m.attention);
    for (size_t i = 0; i < n_q; i += UTILITY_ROWS)
        u->take(u->argument, UTILITY_QUERIES, i, smaller(UTILITY_ROWS, n_q - i), m.psi_query + i * buckets);
    for (size_t j = 0; j < n_k; j += UTILITY_ROWS)
        u->take(u->argument, UTILITY_KEYS, j, smaller(UTILITY_ROWS, n_k - j), m.psi_key + j * buckets);
}

/* ---- estimated -------------------------------------------------------------------------------------------
 */

struct memory {
    float *sums, *turned;     /* (B, R): S or T; (R, B) */
    float *all;               /* (R): the sum of phi over all keys */
    struct feature_rows rows; /* UTILITY_ROWS at most */
    float *phi;               /* (UTILITY_ROWS, R) */
    float *psi;               /* (UTILITY_ROWS, B) */
    float *divisor;           /* (UTILITY_ROWS) */
    float *totals;            /* (B, R): T */
    size_t bytes;
};

static struct memory memory_on(const struct utility *u, void *block)
{
    struct memory m;
    struct arena arena = arena_on(block);
    size_t features = u->num_features, table = size_product(u->num_buckets, features);
    m.sums = arena_take(&arena, table, sizeof(float));
    m.totals = arena_take(&arena, table, sizeof(float));
    m.turned = arena_take(&arena, table, sizeof(float));
    m.all = arena_take(&arena, features, sizeof(float));
    m.phi = arena_take(&arena, size_product(UTILITY_ROWS, features), sizeof(float));
    m.rows.products = arena_take(&arena, size_product(UTILITY_ROWS, features), sizeof(float));
    m.rows.half = arena_take(&arena, UTILITY_ROWS, sizeof(float));
    m.rows.largest = arena_take(&arena, UTILITY_ROWS, sizeof(float));
    m.rows.shift = arena_take(&arena, UTILITY_ROWS, sizeof(float));
    m.psi = arena_take(&arena, size_product(UTILITY_ROWS, u->num_buckets), sizeof(float));
    m.divisor = arena_take(&arena, UTILITY_ROWS, sizeof(float));
    m.bytes = arena.used;
    return m;
}

/* The largest exponents of all rows, and of all rows times `shrink`. */
struct levels {
    float plain, shrunk;
};

static struct levels levels_of(const struct memory *m, const struct features *features, struct head_rows rows,
                               size_t n, float shrink)
{
    struct levels levels = {-INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i += UTILITY_ROWS) {
        size_t count = smaller(UTILITY_ROWS, n - i);
        features_project(features, rows.data + i * rows.ld, rows.ld, count, &m->rows);
        levels.plain = fmaxf(levels.plain, features_level(&m->rows, count, 1));
        levels.shrunk = fmaxf(levels.shrunk, features_level(&m->rows, count, shrink));
    }
    return levels;
}

/* sums[b] += weight_i phi_i for the buckets b of token first + i; weight NULL: 1. */
static void add_to_homes(const struct utility *u, float *sums, const float *phi, const struct homes *homes,
                         size_t first, size_t count, const float *divisor)
{
    size_t features = u->num_features;
    for (size_t i = 0; i < count; i++)
        for (size_t p = homes->start[first + i]; p < homes->start[first + i + 1]; p++)
            u->kernels->axpy(sums + homes->bucket[p] * features, divisor == NULL ? 1 : 1 / divisor[i],
                             phi + i * features, features);
}

/* psi = phi sums^T, the sums turned. */
static void give_products(const struct utility *u, const struct memory *m, enum utility_side side,
                          size_t first, size_t count)
{
    size_t features = u->num_features, buckets = u->num_buckets;
    u->kernels->tile_product(m->psi, buckets, m->phi, features, 1, m->turned, buckets, count, buckets,
                             features, false);
    u->take(u->argument, side, first, count, m->psi);
}

static void estimated_targets(const struct utility *u, void *scratch)
{
    struct memory m = memory_on(u, scratch);
    const struct features f = {u->kernels, u->directions, u->num_features, u->dim};
    size_t features = u->num_features, buckets = u->num_buckets, n_q = u->num_queries, n_k = u->num_keys;
    enum stabiliser of_queries = u->swapped ? STABILISE_ALL : STABILISE_ROW,
                    of_keys = u->swapped ? STABILISE_ROW : STABILISE_ALL;
    float shrink = u->twice_scaled ? 1 / sqrtf((float)u->dim) : 1;
    struct levels level =
        u->swapped ? levels_of(&m, &f, u->query, n_q, shrink) : levels_of(&m, &f, u->key, n_k, 1);
    memset(m.sums, 0, buckets * features * sizeof(float));
    memset(m.totals, 0, buckets * features * sizeof(float));
    memset(m.all, 0, features * sizeof(float));
    for (size_t j = 0; j < n_k; j += UTILITY_ROWS) {
        size_t count = smaller(UTILITY_ROWS, n_k - j);
        features_project(&f, u->key.data + j * u->key.ld, u->key.ld, count, &m.rows);
        features_of(&f, &m.rows, count, 1, of_keys, level.plain, m.phi);
        u->kernels->add_bias_backward(m.all, m.phi, count, features);
        add_to_homes(u, m.sums, m.phi, &u->key_homes, j, count, NULL);
    }
    u->kernels->tile_transpose(m.turned, buckets, m.sums, features, buckets, features);
    for (size_t i = 0; i < n_q; i += UTILITY_ROWS) {
        size_t count = smaller(UTILITY_ROWS, n_q - i);
        features_project(&f, u->query.data + i * u->query.ld, u->query.ld, count, &m.rows);
        features_of(&f, &m.rows, count, 1, of_queries, level.plain, m.phi);
        give_products(u, &m, UTILITY_QUERIES, i, count);
        if (u->twice_scaled)
            features_of(&f, &m.rows, count, shrink, of_queries, level.shrunk, m.phi);
        u->kernels->row_dots(m.divisor, m.phi, features, m.all, 0, count, features);
        add_to_homes(u, m.totals, m.phi, &u->query_homes, i, count, m.divisor);
    }
    u->kernels->tile_transpose(m.turned, buckets, m.totals, features, buckets, features);
    for (size_t j = 0; j < n_k; j += UTILITY_ROWS) {
        size_t count = smaller(UTILITY_ROWS, n_k - j);
        features_project(&f, u->key.data + j * u->key.ld, u->key.ld, count, &m.rows);
        features_of(&f, &m.rows, count, 1, of_keys, level.plain, m.phi);
        give_products(u, &m, UTILITY_KEYS, j, count);
    }
}

/* ---- either ----------------------------------------------------------------------------------------------
 */

size_t utility_size(const struct utility *utility)
{
    return utility->num_features == 0 ? exact_memory(utility, NULL).bytes : memory_on(utility, NULL).bytes;
}

void utility_targets(const struct utility *utility, void *scratch)
{
    if (utility->num_features == 0)
        exact_targets(utility, scratch);
    else
        estimated_targets(utility, scratch);
}
