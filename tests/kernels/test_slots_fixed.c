/* Tables of 16-bit integers on every table of slots: rounding, adding and reading give exact integer sums;
   conversion to and from floats. Bugs planted and caught: the last of an odd number of hashes left out, or
   counted twice; halves not put back in order; a step of half a block too long; `first` forgotten; wide codes
   read as narrow; reading begun at 0 instead of out; columns beyond dim not 0; a tail of floats finished
   beyond dim; the largest of the last row for all, or of numbers with a sign.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/slots.h"

enum { BUCKETS = 5, MOST = 40 };

struct problem {
    size_t n, dim, num_hashes, first, count;
};

static size_t width_of(size_t dim)
{
    return (dim + FIXED_BLOCK - 1) / FIXED_BLOCK * FIXED_BLOCK;
}

/* Integer sums in double: exact. */
static void check_sums(const struct kernels *kernels, struct problem p, bool wide)
{
    char text[128];
    const float factor = 100;
    uint16_t narrow_codes[MOST * MOST];
    uint32_t wide_codes[MOST * MOST];
    struct random random = random_open(p.n * 100 + p.dim);
    for (size_t i = 0; i < p.n * p.num_hashes; i++)
        narrow_codes[i] = (uint16_t)(wide_codes[i] = random_below(&random, BUCKETS));
    const void *codes = wide ? (const void *)wide_codes : narrow_codes;
    size_t width = width_of(p.dim), ld_x = p.dim + 3, ld_out = p.dim + 2, tables = p.count * BUCKETS * width,
           ends = p.n == 0 ? 0 : p.n * ld_x - 3, out_ends = p.n == 0 ? 0 : p.n * ld_out - 2;
    float *x = normals(p.dim, ends), *out = guard_floats(out_ends);
    int16_t *values = (int16_t *)(void *)guard_floats(p.n * width / 2),
            *sums = (int16_t *)(void *)guard_floats(tables / 2);
    int32_t *start = malloc((out_ends + 1) * sizeof *start);
    memset(values, 0x55, p.n * width * sizeof *values);
    memset(sums, 0, tables * sizeof *sums);
    for (size_t i = 0; i < out_ends; i++)
        start[i] = (int32_t)random_below(&random, 1000000) - 500000;
    memcpy(out, start, out_ends * sizeof *out);

    kernels->tables.fixed_round(values, width, x, ld_x, p.n, p.dim, factor);
    const struct table_hashes hashes = {codes, wide, p.num_hashes, p.first, p.count, BUCKETS};
    kernels->tables.fixed_add(sums, width, &hashes, values, width, p.n);
    kernels->tables.fixed_read((int32_t *)(void *)out, ld_out, sums, width, &hashes, p.n, p.dim);
    int32_t got;
    for (size_t i = 0; i < p.n; i++)
        for (size_t c = 0; c < p.dim; c++) {
            double want = start[i * ld_out + c];
            for (size_t h = p.first; h < p.first + p.count; h++)
                for (size_t j = 0; j < p.n; j++)
                    if (wide_codes[i * p.num_hashes + h] == wide_codes[j * p.num_hashes + h])
                        want += (double)lrintf(x[j * ld_x + c] * factor);
            memcpy(&got, out + i * ld_out + c, sizeof got);
            check_near(got, want, 0, of(text, "tables.fixed_read", kernels, p.n, p.dim));
        }
    for (size_t i = 0; i + 1 < p.n; i++) /* the gaps between rows are unchanged */
        check_same_bits(out + i * ld_out + p.dim, start + i * ld_out + p.dim, 2 * sizeof *out, text);
    for (size_t t = 0; t < p.count * BUCKETS && p.dim < width; t++) {
        double total = 0; /* columns past dim are 0, wherever this table of slots stores them */
        for (size_t c = 0; c < width; c++)
            total += sums[t * width + c] != 0;
        assert_true(total <= (double)p.dim);
    }

    kernels->tables.fixed_finish(out, ld_out, p.n, p.dim, 0.3f);
    for (size_t i = 0; i < p.n; i++)
        for (size_t c = 0; c < p.dim && p.count == 0; c++)
            assert_true(out[i * ld_out + c] == (float)start[i * ld_out + c] * 0.3f);
    for (size_t i = 0; i + 1 < p.n; i++)
        check_same_bits(out + i * ld_out + p.dim, start + i * ld_out + p.dim, 2 * sizeof *out, text);
    guard_free(x, ends);
    guard_free(out, out_ends);
    guard_free((float *)(void *)values, p.n * width / 2);
    guard_free((float *)(void *)sums, tables / 2);
    free(start);
}

static void sums_are_exact(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 2, 9, 33};
    static const size_t hashes[][3] = {{1, 0, 1}, {8, 0, 8}, {9, 1, 3}, {17, 9, 8}, {6, 5, 0}};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t t = 0; t < 5; t++)
            for (size_t h = 0; h < 5; h++)
                check_sums(kernels,
                           (struct problem){tokens[t], widths[w], hashes[h][0], hashes[h][1], hashes[h][2]},
                           (w + t + h) % 2);
}

static void sizes_are_exact(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t rows = 1; rows < 6; rows++) {
            size_t ld = widths[w] + 3, size = rows * ld - 3, place = (rows - 1) / 2 * ld + widths[w] - 1;
            float *x = normals(rows, size);
            x[place] = -20;
            for (size_t i = 0; i + 1 < rows; i++)
                x[i * ld + widths[w]] = 100; /* in the gap between rows */
            assert_true(kernels->rows.largest_size(x, ld, rows, widths[w]) == 20);
            if (rows > 2)
                x[size - 1] = NAN;
            assert_true(kernels->rows.largest_size(x, ld, rows, widths[w]) == 20);
            guard_free(x, size);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact), cmocka_unit_test(sizes_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
