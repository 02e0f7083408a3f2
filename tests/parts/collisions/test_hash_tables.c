/* Rows summed by tables, with partners and by buckets against the sum over pairs, in both directions;
   slices, passes, buckets and threads give the same bits; sizes never shrink with more rows. Bugs planted and
   caught: the table not cleared between slices, the last slice too narrow, the last pass running past the
   hashes, a capacity below one slice, threads sharing memory, tables of a narrow last slice treated as
   adjacent, less memory for more rows at the size where tables begin. With integer tables: table rows that
   are not whole blocks, slices of half a block, only the fullest bucket of the first hashes, codes counted
   on from one group of hashes to the next or only those of the first keys, the largest value of the first
   block, steps of any size, the mean square of too few rows, fewer columns than a block.
   Covers: fixed_values.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/hash_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

struct setting {
    size_t n_q, n_k, num_hashes, hash_bits, dim;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void draw_codes(uint16_t *codes, size_t count, size_t hash_bits, uint64_t key)
{
    struct random random = random_open(key);
    for (size_t i = 0; i < count; i++)
        codes[i] = (uint16_t)random_below(&random, (uint32_t)1 << hash_bits);
}

static void carry_by_pairs(float *out, const uint16_t *to, size_t n_to, const uint16_t *from, size_t n_from,
                           const float *values, const struct setting *s)
{
    memset(out, 0, n_to * s->dim * sizeof *out);
    /* In the order of the contract, each table row by itself, so the bits are equal. */
    float *row = malloc(s->dim * sizeof *row);
    for (size_t i = 0; i < n_to; i++)
        for (size_t h = 0; h < s->num_hashes; h++) {
            memset(row, 0, s->dim * sizeof *row);
            for (size_t j = 0; j < n_from; j++)
                if (to[i * s->num_hashes + h] == from[j * s->num_hashes + h])
                    for (size_t c = 0; c < s->dim; c++)
                        row[c] += values[j * s->dim + c];
            for (size_t c = 0; c < s->dim; c++)
                out[i * s->dim + c] += row[c];
        }
    free(row);
}

/* Measures, then lays out on a block filled with garbage. The caller frees the block. */
static void *lay_out(struct tables *tables, const struct hashing *hashing, const struct setting *s,
                     const struct pool *pool, bool causal)
{
    size_t workers = (size_t)pool_threads(pool);
    struct arena arena = arena_on(NULL);
    tables_init(tables, &arena, hashing, s->n_q, s->n_k, s->dim, workers, causal, true);
    void *block = aligned_alloc(64, arena.used);
    memset(block, 0xA5, arena.used);
    arena = arena_on(block);
    tables_init(tables, &arena, hashing, s->n_q, s->n_k, s->dim, workers, causal, true);
    return block;
}

static void check_setting(const struct setting *s, struct pool *pool, bool causal)
{
    const struct hashing hashing = {.num_hashes = s->num_hashes, .hash_bits = s->hash_bits};
    struct tables tables;
    void *block = lay_out(&tables, &hashing, s, pool, causal);

    size_t m = s->num_hashes, most = s->n_q > s->n_k ? s->n_q : s->n_k;
    uint16_t *query_codes = malloc(s->n_q * m * sizeof *query_codes),
             *key_codes = malloc(s->n_k * m * sizeof *key_codes);
    float *values = malloc(most * s->dim * sizeof *values), *got = malloc(most * s->dim * sizeof *got),
          *want = malloc(most * s->dim * sizeof *want);
    draw_codes(query_codes, s->n_q * m, s->hash_bits, 1);
    draw_codes(key_codes, s->n_k * m, s->hash_bits, 2);
    memcpy(key_codes, query_codes,
           least(s->n_q, s->n_k) / 2 * m * sizeof *key_codes); /* some pairs must collide */
    random_normals(3, 0, values, most * s->dim);
    struct codes queries = codes_at(&hashing, query_codes, s->n_q),
                 keys = codes_at(&hashing, key_codes, s->n_k);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int way = 0; way < 2; way++) {
            bool to_queries = way == 0;
            size_t rows = to_queries ? s->n_q : s->n_k;
            memset(got, 0, rows * s->dim * sizeof *got);
            tables_sum(
                *kernels, pool, &tables,
                &(struct table_sums){&queries, &keys, to_queries, values, s->dim, got, s->dim, s->dim});
            if (to_queries)
                carry_by_pairs(want, query_codes, s->n_q, key_codes, s->n_k, values, s);
            else
                carry_by_pairs(want, key_codes, s->n_k, query_codes, s->n_q, values, s);
            check_same_bits(got, want, rows * s->dim * sizeof *got, "summed rows");
            /* all ones, one row for all, through the same tables */
            float one = 1, counts[1000] = {0};
            assert_true(rows <= 1000);
            tables_sum(*kernels, pool, &tables,
                       &(struct table_sums){&queries, &keys, to_queries, &one, 0, counts, 1, 1});
            for (size_t i = 0; i < rows; i++) {
                size_t meet = 0;
                for (size_t j = 0; j < (to_queries ? s->n_k : s->n_q); j++)
                    for (size_t h = 0; h < m; h++)
                        meet += (to_queries ? query_codes : key_codes)[i * m + h] ==
                                (to_queries ? key_codes : query_codes)[j * m + h];
                check_near((double)counts[i], (double)meet, 0, "count");
            }
        }
    free(block), free(query_codes), free(key_codes), free(values), free(got), free(want);
}

static void values_are_summed(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {1, 1, 1, 1, 1},         {7, 9, 3, 2, 5},     {100, 90, 5, 5, 33},
        {40, 100, 9, 9, 16}, /* without tables, like the next two */
        {3, 200, 4, 16, 20},     {200, 3, 4, 12, 20}, {300, 300, 21, 9, 40}, /* several passes */
        {600, 520, 2, 10, 150},  /* slices, with a narrow last one */
        {1000, 900, 3, 12, 150}, /* several slices of columns */
        {260, 270, 17, 9, 2050}, /* wide rows: passes of more hashes, narrower slices */
    };
    /* One thread, as many as slices, and more. */
    static const int threads[] = {1, 2, 3, 16};
    struct host host;
    host_init(&host);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads[t], &pool), HASHATTN_OK, NULL);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            for (int causal = 0; causal < 2; causal++)
                check_setting(&settings[i], pool, causal);
        pool_free(&host, pool);
    }
}

/* What tables_sum_fixed documents, by plain loops in integers, so the result is exact. False if it
   refuses. */
static bool carry_rounded(float *out, const uint16_t *to, size_t n_to, const uint16_t *from, size_t n_from,
                          const float *values, const struct setting *s)
{
    uint32_t most = 1, *counts = calloc((size_t)1 << s->hash_bits, sizeof *counts);
    float largest = 0;
    for (size_t h = 0; h < s->num_hashes; h++) {
        memset(counts, 0, ((size_t)1 << s->hash_bits) * sizeof *counts);
        for (size_t j = 0; j < n_from; j++) {
            uint32_t *count = &counts[from[j * s->num_hashes + h]];
            most = ++*count > most ? *count : most;
        }
    }
    for (size_t k = 0; k < n_from * s->dim; k++)
        largest = fmaxf(largest, fabsf(values[k]));
    float limit = (float)(32767 / most), factor = limit / largest, step = largest / limit;
    for (size_t i = 0; i < n_to; i++)
        for (size_t c = 0; c < s->dim; c++) {
            long sum = 0;
            for (size_t j = 0; j < n_from; j++)
                for (size_t h = 0; h < s->num_hashes; h++)
                    if (to[i * s->num_hashes + h] == from[j * s->num_hashes + h])
                        sum += lrintf(values[j * s->dim + c] * factor);
            out[i * s->dim + c] = (float)sum * step;
        }
    free(counts);
    return limit > 64 * 5; /* for standard normal values */
}

static void check_rounded(const struct setting *s, struct pool *pool, bool causal, float outlier,
                          bool crowded)
{
    const struct hashing hashing = {.num_hashes = s->num_hashes, .hash_bits = s->hash_bits};
    struct tables tables;
    void *block = lay_out(&tables, &hashing, s, pool, causal);
    size_t m = s->num_hashes, numbers = s->n_q * s->dim;
    uint16_t *query_codes = malloc(s->n_q * m * sizeof *query_codes),
             *key_codes = malloc(s->n_k * m * sizeof *key_codes);
    float *values = malloc(s->n_k * s->dim * sizeof *values), *got = malloc(numbers * sizeof *got),
          *want = malloc(numbers * sizeof *want);
    draw_codes(query_codes, s->n_q * m, s->hash_bits, 1);
    draw_codes(key_codes, s->n_k * m, s->hash_bits, 2);
    for (size_t j = 0; j < s->n_k && crowded; j++) /* the last hash of all keys: no room for steps */
        key_codes[j * m + m - 1] = 1;
    random_normals(3, 0, values, s->n_k * s->dim);
    values[s->n_k * s->dim - 1] = outlier;
    struct codes queries = codes_at(&hashing, query_codes, s->n_q),
                 keys = codes_at(&hashing, key_codes, s->n_k);
    bool fits = carry_rounded(want, query_codes, s->n_q, key_codes, s->n_k, values, s) &&
                fabsf(outlier) < 6 && tables.means == BY_TABLES && s->dim >= FIXED_BLOCK;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        memset(got, 0, numbers * sizeof *got);
        const struct table_sums rows = {&queries, &keys, true, values, s->dim, got, s->dim, s->dim};
        assert_int_equal(tables_sum_fixed(*kernels, pool, &tables, &rows), fits);
        if (!fits)
            memset(want, 0, numbers * sizeof *want);
        check_same_bits(got, want, numbers * sizeof *got, "rounded rows");
    }
    free(block), free(query_codes), free(key_codes), free(values), free(got), free(want);
}

static void sums_whole_numbers(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {100, 90, 5, 5, 33},     {7, 90, 1, 2, 64},     {300, 301, 21, 9, 40}, {40, 100, 9, 9, 32},
        {600, 520, 2, 10, 150},  {257, 900, 3, 12, 96}, {900, 257, 9, 8, 31},  {260, 270, 17, 9, 2050},
        {300, 1500, 3, 10, 100}, {50, 600, 2, 4, 64}, /* steps nearly too coarse */
    };
    static const int threads[] = {1, 2, 3, 16};
    struct host host;
    host_init(&host);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct pool *pool;
        check_status(&host, pool_new(&host, threads[t], &pool), HASHATTN_OK, NULL);
        for (int causal = 0; causal < 2; causal++) { /* with rows this few, causal decides about tables */
            for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
                check_rounded(&settings[i], pool, causal, -5, false);
            check_rounded(&settings[0], pool, causal, 5e5f, false);
            check_rounded(&settings[4], pool, causal, -5, true);
            check_rounded(&settings[4], pool, causal, 0, false);
        }
        pool_free(&host, pool);
    }
}

static size_t bytes_of(const struct hashing *hashing, size_t n_q, size_t n_k, size_t dim, bool causal)
{
    struct tables tables;
    struct arena arena = arena_on(NULL);
    tables_init(&tables, &arena, hashing, n_q, n_k, dim, 1, causal, true);
    assert_true(tables.means != BY_TABLES || tables.capacity >= tables.buckets * least(dim, 16));
    return arena.used;
}

static void sizes_grow_with_rows(void **state)
{
    (void)state;
    for (size_t bits = 1; bits <= 24; bits++)
        for (size_t dim = 1; dim <= 300; dim = dim * 3 + 1)
            for (int causal = 0; causal < 2; causal++) {
                const struct hashing hashing = {.num_hashes = 1 + bits * 7 % 40, .hash_bits = bits};
                size_t last = 0;
                for (size_t n = 1; n < (size_t)1 << 26; n += n / 3 + 1) {
                    size_t both = bytes_of(&hashing, n, n, dim, causal);
                    assert_true(both >= last);
                    assert_true(both >= bytes_of(&hashing, n, n / 2 + 1, dim, causal));
                    assert_true(both >= bytes_of(&hashing, n / 2 + 1, n, dim, causal));
                    last = both;
                }
            }
    /* Large hash_bits with few rows are cheap. */
    const struct hashing wide = {.num_hashes = 4096, .hash_bits = 24};
    assert_true(bytes_of(&wide, 100, 100, 64, false) < 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_summed),
                                       cmocka_unit_test(sums_whole_numbers),
                                       cmocka_unit_test(sizes_grow_with_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
