/* Rows summed between partners against the sum over pairs, in both directions: the same bits for any number
   of threads, slices of columns and groups of hashes. Bugs planted and caught: the table not cleared, codes
   of the second group of hashes not transposed, the sides exchanged, threads that share a table, a slice of
   columns beyond the capacity of the table, the last slice too narrow.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/partner_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

struct setting {
    size_t n_q, n_k, num_hashes, hash_bits, dim;
};

static uint16_t *draw_codes(size_t n, const struct setting *s, uint64_t key)
{
    uint16_t *codes = malloc(n * s->num_hashes * sizeof *codes);
    struct random random = random_open(key);
    for (size_t i = 0; i < n * s->num_hashes; i++)
        codes[i] = (uint16_t)random_below(&random, (uint32_t)1 << s->hash_bits);
    return codes;
}

/* In the order of the contract of tables_sum, so the bits are equal. */
static void carry_by_pairs(float *out, const uint16_t *to, size_t n_to, const uint16_t *from, size_t n_from,
                           const float *values, const struct setting *s)
{
    size_t m = s->num_hashes;
    float *sum = malloc(s->dim * sizeof *sum);
    for (size_t i = 0; i < n_to; i++)
        for (size_t h = 0; h < m; h++) {
            memset(sum, 0, s->dim * sizeof *sum);
            for (size_t j = 0; j < n_from; j++)
                for (size_t c = 0; c < s->dim && to[i * m + h] == from[j * m + h]; c++)
                    sum[c] += values[j * s->dim + c];
            for (size_t c = 0; c < s->dim; c++)
                out[i * s->dim + c] += sum[c];
        }
    free(sum);
}

static void check_setting(const struct setting *s, struct pool *pool)
{
    const struct hashing hashing = {.num_hashes = s->num_hashes, .hash_bits = s->hash_bits};
    size_t most = s->n_q > s->n_k ? s->n_q : s->n_k, size = most * s->dim,
           workers = (size_t)pool_threads(pool);
    struct partner_tables tables;
    struct arena arena = arena_on(NULL);
    partner_tables_init(&tables, &arena, &hashing, s->n_q, s->n_k, s->dim, workers);
    size_t bytes = arena.used;
    unsigned char *block = aligned_alloc(64, bytes + 64);
    memset(block, 0xA5, bytes + 64);
    arena = arena_on(block);
    partner_tables_init(&tables, &arena, &hashing, s->n_q, s->n_k, s->dim, workers);
    uint16_t *query_codes = draw_codes(s->n_q, s, 1), *key_codes = draw_codes(s->n_k, s, 2);
    struct codes queries = codes_at(&hashing, query_codes, s->n_q),
                 keys = codes_at(&hashing, key_codes, s->n_k);
    float *values = malloc(size * sizeof *values), *got = malloc(size * sizeof *got),
          *want = malloc(size * sizeof *want);
    random_normals(3, 0, values, size);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int to_queries = 0; to_queries < 2; to_queries++) {
            for (size_t k = 0; k < size; k++)
                got[k] = want[k] = (float)k;
            partner_tables_sum(*kernels, pool, &tables,
                               &(struct table_sums){.queries = &queries,
                                                    .keys = &keys,
                                                    .to_queries = to_queries,
                                                    .values = values,
                                                    .ld_values = s->dim,
                                                    .out = got,
                                                    .ld_out = s->dim,
                                                    .dim = s->dim});
            if (to_queries)
                carry_by_pairs(want, query_codes, s->n_q, key_codes, s->n_k, values, s);
            else
                carry_by_pairs(want, key_codes, s->n_k, query_codes, s->n_q, values, s);
            check_same_bits(got, want, size * sizeof *got, "summed rows");
        }
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(block[bytes + i], 0xA5);
    free(block), free(query_codes), free(key_codes), free(values), free(got), free(want);
}

static void values_are_summed(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {1, 1, 1, 1, 1},    {7, 9, 3, 2, 5},     {50, 40, 70, 6, 33},
        {3, 200, 4, 8, 20}, {200, 3, 4, 12, 64}, {600, 700, 20, 7, 600}, /* slices of columns */
    };
    static const int threads[] = {1, 2, 3, 16};
    struct host host;
    host_init(&host);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads[t], &pool), HASHATTN_OK, NULL);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            check_setting(&settings[i], pool);
        pool_free(&host, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_summed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
