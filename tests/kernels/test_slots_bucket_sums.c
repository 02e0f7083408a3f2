/* pairs.bucket_sums on every table, compared bit for bit with plain loops over the pairs of each bucket, in
   both directions, with and without visible. Bugs planted and caught: givers in falling order; a limit that
   is one too high, either way; no limit if the keys receive; the tail of a row dropped.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

enum { ROWS = 60, BUCKETS = 6 };

static const struct bucket list[BUCKETS] = {{0, 1, 0, 1},   {1, 3, 1, 2},    {4, 1, 3, 9},
                                            {5, 12, 12, 1}, {17, 20, 13, 0}, {17, 30, 13, 40}};

/* Row numbers that ascend within each bucket, all distinct. */
static void draw_rows(uint32_t *rows, bool of_keys, uint64_t seed)
{
    random_permutation(seed, rows, ROWS);
    for (size_t b = 0; b < BUCKETS; b++) {
        uint32_t *own = rows + (of_keys ? list[b].first_key : list[b].first_query);
        size_t count = of_keys ? list[b].num_keys : list[b].num_queries;
        for (size_t i = 0; i < count; i++)
            for (size_t j = i + 1; j < count; j++)
                if (own[j] < own[i]) {
                    uint32_t row = own[i];
                    own[i] = own[j];
                    own[j] = row;
                }
    }
}

static void check_carry(const struct kernels *kernels, size_t dim, size_t ld_values, bool to_queries,
                        bool limited)
{
    uint32_t queries[ROWS], keys[ROWS];
    size_t visible[ROWS], ld_out = dim + 2, size = (ROWS - 1) * ld_values + dim,
                          out_size = (ROWS - 1) * ld_out + dim;
    char text[128];
    draw_rows(queries, false, 3);
    draw_rows(keys, true, 4);
    for (size_t i = 0; i < ROWS; i++) /* constant runs, and steps of several */
        visible[i] = i / 7 * 7 + (i % 3 == 0 && i % 7 > 3 ? 2 : 0);
    for (size_t i = 1; i < ROWS; i++)
        visible[i] = visible[i] < visible[i - 1] ? visible[i - 1] : visible[i];
    float *values = oddities(1, size), *out = oddities(2, out_size), *want = copy_of(out, out_size);
    kernels->pairs.bucket_sums(&(struct bucket_sums){.buckets = list,
                                                     .count = BUCKETS,
                                                     .queries = queries,
                                                     .keys = keys,
                                                     .visible = limited ? visible : NULL,
                                                     .to_queries = to_queries,
                                                     .values = values,
                                                     .out = out,
                                                     .ld_values = ld_values,
                                                     .ld_out = ld_out,
                                                     .dim = dim});
    for (size_t b = 0; b < BUCKETS; b++) {
        const uint32_t *q = queries + list[b].first_query, *k = keys + list[b].first_key;
        const uint32_t *to = to_queries ? q : k, *from = to_queries ? k : q;
        size_t takers = to_queries ? list[b].num_queries : list[b].num_keys,
               givers = to_queries ? list[b].num_keys : list[b].num_queries;
        for (size_t t = 0; t < takers; t++)
            for (size_t c = 0; c < dim; c++) {
                float sum = 0;
                for (size_t g = 0; g < givers; g++) {
                    uint32_t row = from[limited && !to_queries ? givers - 1 - g : g];
                    bool meets = to_queries ? row < visible[to[t]] : to[t] < visible[row];
                    if (!limited || meets)
                        sum += values[row * ld_values + c];
                }
                want[to[t] * ld_out + c] += sum;
            }
    }
    of(text, limited ? "pairs.bucket_sums, limited," : "pairs.bucket_sums", kernels, dim, to_queries);
    check_same_bits(out, want, out_size * sizeof *out, text);
    guard_free(values, size);
    guard_free(out, out_size);
    guard_free(want, out_size);
}

static void sums_are_exact(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (int form = 0; form < 4; form++) {
        for (size_t w = 0; w < NUM_WIDTHS; w++)
            check_carry(kernels, widths[w], widths[w] + w % 3, form & 1, form & 2);
        check_carry(kernels, 32, 32, form & 1, form & 2);
        check_carry(kernels, 1, 0, form & 1, form & 2); /* one row for all */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
