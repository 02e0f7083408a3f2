/* tables.add, tables.read and their forms for listed rows on every table of slots: the same bits as plain
   loops. Bugs planted and caught: the code of the first hash taken for all; `first` forgotten; ld_values 0
   taken for dim; wide codes read as narrow; the tail of a row dropped; a row overwritten; reading begun at 0
   instead of out; hashes in falling order; a step of half a block too long. In the forms for listed rows:
   rows not looked up, in each of the two; the tail of a row dropped.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

struct problem {
    size_t n, dim, num_hashes, first, count, ld;
};
enum { BUCKETS = 5, MOST = 40 };

static void check_tables(const struct kernels *kernels, struct problem p, bool wide)
{
    char text[128];
    uint16_t narrow_codes[MOST * MOST];
    uint32_t wide_codes[MOST * MOST];
    struct random random = random_open(p.n * 100 + p.dim);
    for (size_t i = 0; i < p.n * p.num_hashes; i++)
        narrow_codes[i] = (uint16_t)(wide_codes[i] = random_below(&random, BUCKETS));
    const void *codes = wide ? (const void *)wide_codes : narrow_codes;
    size_t size = p.count * BUCKETS * p.dim, rows = p.n == 0 ? 0 : (p.n - 1) * p.ld + p.dim;
    size_t ld_out = p.dim + 2, out_size = p.n == 0 ? 0 : p.n * ld_out - 2;
    float *tables = oddities(1, size), *want = copy_of(tables, size), *values = oddities(2, rows);
    const struct table_hashes hashes = {codes, wide, p.num_hashes, p.first, p.count, BUCKETS};
    kernels->tables.add(tables, &hashes, values, p.ld, p.n, p.dim);
    for (size_t i = 0; i < p.n; i++)
        for (size_t h = 0; h < p.count; h++)
            for (size_t c = 0; c < p.dim; c++)
                want[(h * BUCKETS + wide_codes[i * p.num_hashes + p.first + h]) * p.dim + c] +=
                    values[i * p.ld + c];
    check_same_bits(tables, want, size * sizeof *tables, of(text, "tables.add", kernels, p.n, p.dim));

    float *out = oddities(3, out_size), *sums = copy_of(out, out_size);
    kernels->tables.read(out, ld_out, tables, &hashes, p.n, p.dim);
    for (size_t i = 0; i < p.n; i++)
        for (size_t h = 0; h < p.count; h++)
            for (size_t c = 0; c < p.dim; c++)
                sums[i * ld_out + c] +=
                    tables[(h * BUCKETS + wide_codes[i * p.num_hashes + p.first + h]) * p.dim + c];
    check_same_bits(out, sums, out_size * sizeof *out, of(text, "tables.read", kernels, p.n, p.dim));
    guard_free(tables, size);
    guard_free(want, size);
    guard_free(values, rows);
    guard_free(out, out_size);
    guard_free(sums, out_size);
}

static void tables_are_exact(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 2, 9, 33};
    static const size_t hashes[][3] = {{1, 0, 1}, {8, 0, 8}, {9, 1, 3}, {17, 9, 8}, {6, 5, 0}};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t t = 0; t < 5; t++)
            for (size_t h = 0; h < 5; h++) {
                struct problem p = {tokens[t],    widths[w],    hashes[h][0],
                                    hashes[h][1], hashes[h][2], widths[w] + 3};
                check_tables(kernels, p, (w + t + h) % 2);
                p.ld = 0; /* one row for all tokens */
                check_tables(kernels, p, (w + t + h) % 2 == 0);
            }
}

static void listed_rows_are_exact(void **state)
{
    (void)state;
    enum { N = 9, ROWS = 20 };
    static const uint32_t rows[N] = {3, 0, 19, 7, 8, 1, 12, 13, 4};
    static const uint16_t codes[N] = {2, 4, 4, 0, 2, 1, 0, 4, 2};
    char text[128];
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t n = 0; n <= N; n++)
            for (int one_row = 0; one_row < 2; one_row++) {
                size_t dim = widths[w], ld = one_row ? 0 : dim + 3, size = BUCKETS * dim;
                size_t given = one_row ? dim : (ROWS - 1) * ld + dim, ld_out = dim + 2,
                       out_size = (ROWS - 1) * ld_out + dim;
                float *table = oddities(1, size), *want = copy_of(table, size), *values = oddities(2, given),
                      *out = oddities(3, out_size), *sums = copy_of(out, out_size);
                kernels->tables.add_rows(table, codes, rows, n, values, ld, dim);
                for (size_t k = 0; k < n; k++)
                    for (size_t c = 0; c < dim; c++)
                        want[codes[k] * dim + c] += values[rows[k] * ld + c];
                check_same_bits(table, want, size * sizeof *table,
                                of(text, "tables.add_rows", kernels, n, dim));
                kernels->tables.read_rows(out, ld_out, table, codes, rows, n, dim);
                for (size_t k = 0; k < n; k++)
                    for (size_t c = 0; c < dim; c++)
                        sums[rows[k] * ld_out + c] += table[codes[k] * dim + c];
                check_same_bits(out, sums, out_size * sizeof *out,
                                of(text, "tables.read_rows", kernels, n, dim));
                guard_free(table, size);
                guard_free(want, size);
                guard_free(values, given);
                guard_free(out, out_size);
                guard_free(sums, out_size);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_exact),
        cmocka_unit_test(listed_rows_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
