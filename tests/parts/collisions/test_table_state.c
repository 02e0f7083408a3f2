/* Persistent tables against sums over pairs: added in pieces, read by blocks of rows, scanned in order;
   slices and passes of every size; the same bits with threads. Bugs planted and caught: the last slice as
   wide as the rest; a pass beyond the last hash; the second block of queries read with the codes of the
   first; keys after the last query's not added.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/table_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

struct setting {
    size_t n_q, n_k, num_hashes, hash_bits, dim;
};

/* out of query i from the first `seen` keys, hash by hash, keys in ascending order: the order of the
   contract. */
static void by_pairs(float *out, const uint16_t *query, const uint16_t *keys, size_t seen,
                     const float *values, const struct setting *s)
{
    for (size_t c = 0; c < s->dim; c++) {
        out[c] = 0;
        for (size_t h = 0; h < s->num_hashes; h++) {
            float sum = 0;
            for (size_t j = 0; j < seen; j++)
                if (query[h] == keys[j * s->num_hashes + h])
                    sum += values[j * s->dim + c];
            out[c] += sum;
        }
    }
}

static void check(const struct setting *s, const struct kernels *kernels, struct pool *pool)
{
    size_t m = s->num_hashes;
    struct table_state state = {.hashing = {.num_hashes = m, .hash_bits = s->hash_bits}, .dim = s->dim};
    size_t floats = table_state_floats(&state.hashing, s->dim);
    assert_int_equal(floats, m * s->dim << s->hash_bits);
    uint16_t *query_codes = malloc(s->n_q * m * 2 + 1), *key_codes = malloc(s->n_k * m * 2 + 1);
    float *values = malloc(s->n_k * s->dim * 4 + 1), *out = calloc(s->n_q * s->dim, 4),
          *want = malloc(s->n_q * s->dim * 4);
    size_t *visible = malloc(s->n_q * sizeof *visible);
    struct random random = random_open(1);
    for (size_t i = 0; i < s->n_q * m; i++)
        query_codes[i] = (uint16_t)random_below(&random, (uint32_t)1 << s->hash_bits);
    for (size_t i = 0; i < s->n_k * m; i++)
        key_codes[i] = (uint16_t)random_below(&random, (uint32_t)1 << s->hash_bits);
    random_normals(2, 0, values, s->n_k * s->dim);
    state.tables = guard_floats(floats);

    /* Pieces of keys, then all queries. */
    memset(state.tables, 0, floats * 4);
    struct codes queries = {query_codes, false, m, s->n_q};
    for (size_t first = 0, n = 1; first < s->n_k; first += n, n *= 3) {
        n = n < s->n_k - first ? n : s->n_k - first;
        struct codes keys = {key_codes + first * m, false, m, n};
        table_state_add(
            kernels, pool, &state,
            &(struct table_rows){.codes = &keys, .values = values + first * s->dim, .ld_values = s->dim});
    }
    float *added = malloc(floats * 4);
    memcpy(added, state.tables, floats * 4);
    struct table_rows to = {.codes = &queries, .out = out, .ld_out = s->dim};
    table_state_read(kernels, pool, &state, &to);
    for (size_t i = 0; i < s->n_q; i++)
        by_pairs(want + i * s->dim, query_codes + i * m, key_codes, s->n_k, values, s);
    check_same_bits(out, want, s->n_q * s->dim * 4, "read");

    /* In order; no query sees the last keys. */
    for (size_t i = 0; i < s->n_q; i++) {
        visible[i] = (i + 1) * s->n_k / (s->n_q + 2);
        by_pairs(want + i * s->dim, query_codes + i * m, key_codes, visible[i], values, s);
    }
    memset(state.tables, 0, floats * 4);
    memset(out, 0, s->n_q * s->dim * 4);
    struct codes keys = {key_codes, false, m, s->n_k};
    struct table_rows from = {.codes = &keys, .values = values, .ld_values = s->dim};
    table_state_scan(kernels, pool, &state, &to, &from, visible);
    check_same_bits(out, want, s->n_q * s->dim * 4, "scan");
    check_same_bits(state.tables, added, floats * 4, "all keys are in");
    guard_free(state.tables, floats);
    free(query_codes), free(key_codes), free(values), free(out), free(want), free(visible), free(added);
}

static void equals_sums_over_pairs(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    static const struct setting settings[] = {
        {1, 1, 1, 1, 1},     {9, 20, 5, 3, 32},   {40, 7, 33, 2, 33},
        {1100, 50, 3, 4, 5}, {30, 40, 9, 12, 70}, {5, 0, 2, 2, 3},
    };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
            check(&settings[s], *kernels, NULL);
            check(&settings[s], *kernels, pool);
        }
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_sums_over_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
