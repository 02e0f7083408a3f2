/* Keys added and queries read in order, against sums over pairs, with uneven steps, gaps between rows,
   several passes of hashes and a table that does not start empty. Bugs planted and caught: the codes of
   the previous row; the first hash of a pass used as the first of all; keys added again for the next
   query; queries added in ascending order; a run of equal steps continued past a step of another size; the
   extra keys of a step added after it.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/causal_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { QUERIES = 23, KEYS = 17, HASHES = 5, BUCKETS = 4, DIM = 19, LD = 21 };

struct both {
    uint16_t narrow[QUERIES * HASHES];
    uint32_t wide[QUERIES * HASHES];
};

static void draw(struct both *codes, uint64_t key)
{
    struct random random = random_open(key);
    for (size_t i = 0; i < QUERIES * HASHES; i++)
        codes->wide[i] = codes->narrow[i] = (uint16_t)random_below(&random, BUCKETS);
}

/* In the order of the contract, so the bits are equal. */
static void by_pairs(float *out, const float *values, const struct both *queries, const struct both *keys,
                     const size_t *visible, size_t first, size_t count, bool to_queries, const float *start)
{
    size_t n_to = to_queries ? QUERIES : KEYS, n_from = to_queries ? KEYS : QUERIES;
    const uint32_t *to = to_queries ? queries->wide : keys->wide,
                   *from = to_queries ? keys->wide : queries->wide;
    for (size_t i = 0; i < n_to; i++)
        for (size_t c = 0; c < DIM; c++)
            for (size_t h = first; h < first + count; h++) {
                float sum = start[((h - first) * BUCKETS + to[i * HASHES + h]) * DIM + c];
                for (size_t step = 0; step < n_from; step++) {
                    size_t j = to_queries ? step : n_from - 1 - step;
                    bool seen = to_queries ? j < visible[i] : i < visible[j];
                    if (seen && to[i * HASHES + h] == from[j * HASHES + h])
                        sum += values[j * LD + c];
                }
                out[i * LD + c] += sum;
            }
}

/* Number of keys that each query sees. Form 0: one more each, until all are seen. Form 1: steps of 0, 1
   and 2, ending with 16 of the 17 keys. Other forms: random runs of any length, starting at the first key
   or later. */
static void draw_visible(size_t visible[QUERIES], int form)
{
    struct random random = random_open((uint64_t)form);
    size_t seen = form > 2 ? random_below(&random, 3) : 0;
    for (size_t i = 0; i < QUERIES; i++) {
        if (form == 0)
            seen++;
        else if (form == 1)
            seen += i % 4 == 1 ? 1 : i % 4 == 2 ? 2 : 0;
        else
            seen += (size_t[]){0, 1, 1, 1, 1, 2, 4}[random_below(&random, 7)];
        visible[i] = seen < KEYS ? seen : KEYS;
    }
}

static void check(const struct kernels *kernels, bool wide, bool to_queries, int form, size_t first,
                  size_t count)
{
    struct both queries, keys;
    size_t visible[QUERIES];
    float values[QUERIES * LD], out[QUERIES * LD], want[QUERIES * LD], start[HASHES * BUCKETS * DIM],
        table[HASHES * BUCKETS * DIM];
    draw(&queries, 1);
    draw(&keys, 2);
    random_normals(3, 0, values, QUERIES * LD);
    random_normals(4, 0, out, QUERIES * LD);
    random_normals(5, 0, start, HASHES * BUCKETS * DIM);
    draw_visible(visible, form);
    memcpy(want, out, sizeof want);
    memcpy(table, start, sizeof table);
    by_pairs(want, values, &queries, &keys, visible, first, count, to_queries, start);
    struct codes query_codes = {wide ? (void *)queries.wide : queries.narrow, wide, HASHES, QUERIES};
    struct codes key_codes = {wide ? (void *)keys.wide : keys.narrow, wide, HASHES, KEYS};
    const struct causal_pass pass = {
        .queries = &query_codes,
        .keys = &key_codes,
        .visible = visible,
        .table = table,
        .buckets = BUCKETS,
        .first = first,
        .count = count,
        .dim = DIM,
        .values = values,
        .out = out,
        .ld_values = LD,
        .ld_out = LD,
    };
    if (to_queries)
        causal_keys_to_queries(kernels, &pass);
    else
        causal_queries_to_keys(kernels, &pass);
    check_same_bits(out, want, sizeof out, kernels->name);
}

static void equals_sums_over_pairs(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int form = 0; form < 80; form++) {
            check(*kernels, form & 1, form & 2, form / 4, 0, HASHES);
            check(*kernels, form & 1, form & 2, form / 4, 2, 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_sums_over_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
