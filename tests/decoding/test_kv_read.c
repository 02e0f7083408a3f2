/* Attention over a choice of rows, against its definition in double precision: outputs and the error that the
   sample shows, for choices of several parts, groups of 1 to 5 queries, both element types, every instruction
   set, weights that depend on the query, and scores far apart.
   Planted and caught: a_i with 1 / p in place of 1 / p - 1; sums of a_i merged with the factor of w_i; the
   first uncertain row taken for certain; rows half as far apart; the first query's largest score for all.
   Covers: kv_read.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "decoding/kv_read.h"
#include "support/check.h"

enum { D = 40, ROWS = 1500, QUERIES = 5, ROWS_AT = 128, HEADS = 2, HEAD = 1 };

struct reading {
    struct failing_host host;
    struct kv_cache cache;
    double key[ROWS][D], value[ROWS][D];
    float query[QUERIES * D];
    uint32_t row[ROWS];
    float weight[ROWS];
    struct kv_choice choice;
    struct kv_read read;
};

static double stored(unsigned char *to, float number, enum dtype dtype)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint16_t upper = (uint16_t)(bits >> 16);
    if (dtype == DTYPE_FLOAT32) {
        memcpy(to, &number, sizeof number);
        return (double)number;
    }
    memcpy(to, &upper, sizeof upper);
    bits = (uint32_t)upper << 16;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

static void begin(struct reading *t, const struct kernels *kernels, enum dtype dtype, size_t queries,
                  float scale, size_t chosen)
{
    size_t size = dtype == DTYPE_FLOAT32 ? 4 : 2;
    failing_host_init(&t->host, -1);
    t->cache = (struct kv_cache){.host = &t->host.host,
                                 .kernels = kernels,
                                 .options = {.head_dim = D, .dtype = dtype, .scale = scale},
                                 .head_bytes = ROWS_AT + 2 * KV_PAGE_ROWS * D * size};
    check_status(&t->host.host, kv_pages_new(&t->host.host, 1, HEADS * t->cache.head_bytes, &t->cache.pages),
                 HASHATTN_OK, NULL);
    check_status(&t->host.host, kv_pages_reserve(&t->cache.pages, 0, ROWS), HASHATTN_OK, NULL);
    struct random random = random_open(random_key(chosen, RANDOM_BENCH, 1));
    float numbers[2 * D];
    random_normals(random_key(4, RANDOM_BENCH, 0), 0, t->query, QUERIES * D);
    for (size_t r = 0; r < ROWS; r++) {
        unsigned char *at =
            kv_head_page(&t->cache, 0, HEAD, r / KV_PAGE_ROWS) + ROWS_AT + r % KV_PAGE_ROWS * 2 * D * size;
        random_normals(random_key(r, RANDOM_BENCH, 2), 0, numbers, 2 * D);
        for (size_t c = 0; c < D; c++) {
            t->key[r][c] = stored(at + c * size, numbers[c], dtype);
            t->value[r][c] = stored(at + (D + c) * size, numbers[D + c], dtype);
        }
    }
    t->choice = (struct kv_choice){.row = t->row, .weight = t->weight};
    for (size_t i = 0; i < chosen; i++) {
        t->row[i] = (uint32_t)(i < 3 ? i : random_below(&random, ROWS));
        t->weight[i] = i % 3 == 0 ? 1 : 1 + (float)random_below(&random, 1000) / 100;
        t->choice.count++;
    }
    t->read = (struct kv_read){.cache = &t->cache,
                               .kv_head = HEAD,
                               .rows_at = ROWS_AT,
                               .choice = &t->choice,
                               .queries = queries,
                               .query = t->query};
}

static float half_of_odd_rows(const struct kv_read *read, size_t query, size_t row)
{
    assert_ptr_equal(read->of_chance, read->query);
    return (row + query) % 2 ? 0.5f : 1;
}

static void check(struct reading *t)
{
    size_t parts = kv_read_parts(t->choice.count), queries = t->read.queries;
    struct arena arena = arena_on(NULL);
    kv_read_scratch_lay_out(&arena, queries);
    for (size_t p = 0; p < parts; p++)
        kv_read_sums_lay_out(&arena, queries, D);
    void *block = aligned_alloc(MEMORY_ALIGNMENT,
                                (arena.used + MEMORY_ALIGNMENT) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT);
    struct kv_read_sums sums[(ROWS + KV_READ_ROWS - 1) / KV_READ_ROWS];
    arena = arena_on(block);
    const struct kv_read_scratch scratch = kv_read_scratch_lay_out(&arena, queries);
    for (size_t p = 0; p < parts; p++)
        sums[p] = kv_read_sums_lay_out(&arena, queries, D);
    for (size_t p = parts; p-- > 0;) /* in any order */
        kv_read_part(&t->read, p, &scratch, &sums[p]);
    for (size_t q = 0; q < queries; q++) {
        static double w[ROWS], inverse[ROWS];
        double most = -INFINITY, sum = 0, want[D] = {0}, length = 0, variance = 0;
        float out[D];
        for (size_t i = 0; i < t->choice.count; i++) {
            double dot = 0;
            for (size_t c = 0; c < D; c++)
                dot += (double)t->query[q * D + c] * t->key[t->row[i]][c];
            w[i] = dot * (double)t->cache.options.scale;
            most = fmax(most, w[i]);
            inverse[i] = (double)t->weight[i];
            if (t->read.chance != NULL && i >= t->read.certain)
                inverse[i] /= (t->row[i] + q) % 2 ? 0.5 : 1;
        }
        for (size_t i = 0; i < t->choice.count; i++) {
            w[i] = exp(w[i] - most);
            sum += w[i] * inverse[i];
            for (size_t c = 0; c < D; c++)
                want[c] += w[i] * inverse[i] * t->value[t->row[i]][c];
        }
        for (size_t c = 0; c < D; c++) {
            want[c] /= sum;
            length += want[c] * want[c];
        }
        for (size_t i = 0; i < t->choice.count; i++)
            for (size_t c = 0; c < D; c++) {
                double off = t->value[t->row[i]][c] - want[c];
                variance += w[i] * w[i] * inverse[i] * (inverse[i] - 1) * off * off;
            }
        double error = kv_read_merge(&t->read, q, sums, parts, out);
        for (size_t c = 0; c < D; c++)
            check_near((double)out[c], want[c], 3e-5, "an output");
        check_near(error, sqrt(variance / length) / sum, 1e-4 * error + 5e-4, "the error shown");
    }
    free(block);
    kv_pages_free(&t->cache.pages);
}

static void attention_over_a_choice(void **state)
{
    (void)state;
    static struct reading t;
    static const size_t chosen[] = {1, 4, 255, 256, 257, 900};
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t n = 0; n < sizeof chosen / sizeof chosen[0]; n++)
            for (size_t queries = 1; queries <= QUERIES; queries++) {
                begin(&t, *table, n % 2 ? DTYPE_FLOAT32 : DTYPE_BFLOAT16, queries,
                      queries == 2 ? 3.0f : 0.15f, chosen[n]);
                check(&t);
            }
}

static void chances_of_a_query(void **state)
{
    (void)state;
    static struct reading t;
    begin(&t, kernels_all()[0], DTYPE_FLOAT32, 3, 0.15f, 700);
    t.read.chance = half_of_odd_rows;
    t.read.of_chance = t.query;
    t.read.certain = 300;
    check(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_over_a_choice),
        cmocka_unit_test(chances_of_a_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
