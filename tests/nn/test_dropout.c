/* Dropout: rate, scale, independence, and that only (key, sample, row in the sequence, column) determine the
   mask. Bugs planted and caught: draws of a row starting at the packed row instead of the row in its
   sequence; the tail of 8 columns re-using the block before or the next row's first; scale 1 / rate;
   threshold from 32 bits; sample id replaced by its index; rows after the last token left unchanged; GELU's
   slope without the zeros at the end, or with the draws of another row.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/dropout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "support/layers.h"

static void what_stays_is_scaled_and_the_rate_is_right(void **state)
{
    (void)state;
    enum { ROWS = 2000, DIM = 50 };
    const double rates[] = {0, 0.1, 0.25, 0.5, 0.9};
    const size_t offsets[] = {0, 700, ROWS};
    const uint64_t samples[] = {3, 9};
    const char *why;
    struct rows rows = rows_of(kernels_named("ref", &why), NULL, 2, offsets, samples);
    float *x = new_zeros(ROWS * DIM), *y = new_zeros(ROWS * DIM);
    for (size_t i = 0; i < ROWS * DIM; i++)
        x[i] = 1;
    for (size_t r = 0; r < 5; r++) {
        struct dropout dropout = dropout_of(rates[r]);
        dropout_rows(&dropout, 77, &rows, y, x, 0, ROWS, DIM);
        double kept = 0, n = ROWS * DIM, p = 1 - rates[r];
        for (size_t i = 0; i < ROWS * DIM; i++) {
            assert_true(y[i] == 0 || y[i] == dropout.scale);
            kept += y[i] != 0;
        }
        check_near((double)dropout.scale, 1 / p, 2e-4 / p, "scale"); /* rates are multiples of 2^-16 */
        check_near(kept / n, p, 5 * sqrt(p * (1 - p) / n) + 1e-5, "share that stays");
    }
    free(x);
    free(y);
}

/* At rate one half, any two elements agree half of the time, however far apart in the row or in the next. */
static void no_draw_is_used_twice(void **state)
{
    (void)state;
    enum { ROWS = 3000, DIM = 50, N = ROWS * DIM };
    const size_t offsets[] = {0, ROWS};
    const uint64_t sample = 3;
    const char *why;
    struct rows rows = rows_of(kernels_named("ref", &why), NULL, 1, offsets, &sample);
    float *x = new_zeros(N), *y = new_zeros(N);
    for (size_t i = 0; i < N; i++)
        x[i] = 1;
    struct dropout dropout = dropout_of(0.5);
    dropout_rows(&dropout, 4, &rows, y, x, 0, ROWS, DIM);
    for (size_t apart = 1; apart <= 2 * DIM; apart++) {
        double agree = 0, n = N - 2 * DIM;
        for (size_t i = 0; i < N - 2 * DIM; i++)
            agree += y[i] == y[i + apart];
        check_near(agree / n, 0.5, 6 * 0.5 / sqrt(n), "share of pairs that agree");
    }
    free(x);
    free(y);
}

/* The mean of the output is exactly the input for every rate that 16 bits can represent. */
static void scale_fits_the_threshold(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        struct dropout dropout = dropout_of(i / 1001.0);
        check_near((double)dropout.scale * (65536 - dropout.threshold) / 65536, 1, EPSILON, "expectation");
    }
    assert_int_equal(dropout_of(0.9999999).threshold, 65535);
}

static void mask_does_not_depend_on_packing(void **state)
{
    (void)state;
    enum { DIM = 19, ROWS = 410 };
    const size_t packed[] = {0, 5, 300, ROWS}, alone[] = {0, 295};
    const uint64_t samples[] = {40, 7, 41};
    struct dropout dropout = dropout_of(0.3);
    const char *why;
    struct rows together = rows_of(kernels_named("ref", &why), NULL, 3, packed, samples);
    struct rows single = rows_of(kernels_named("ref", &why), NULL, 1, alone, samples + 1);
    float *x = new_normals(1, ROWS * DIM, 1), *y = new_zeros(ROWS * DIM), *z = new_zeros(ROWS * DIM);
    dropout_rows(&dropout, 5, &together, y, x, 0, ROWS, DIM);
    for (size_t first = 0; first < 295; first += 59) /* tiles of any size */
        dropout_rows(&dropout, 5, &single, z + first * DIM, x + (5 + first) * DIM, first, 59, DIM);
    check_same_bits(y + 5 * DIM, z, 295 * DIM * sizeof *y, "rows of one sequence");
    dropout_rows(&dropout, 6, &single, z, x + 5 * DIM, 0, 295, DIM);
    assert_true(memcmp(y + 5 * DIM, z, 295 * DIM * sizeof *y) != 0);
    free(x), free(y), free(z);
}

static void residual_is_added_and_the_end_is_zero(void **state)
{
    (void)state;
    enum { DIM = 11, ROWS = 20, TOKENS = 13 };
    const size_t offsets[] = {0, TOKENS};
    const uint64_t sample = 2;
    const char *why;
    struct rows rows = rows_of(kernels_named("ref", &why), NULL, 1, offsets, &sample);
    float *x = new_normals(1, ROWS * DIM, 1), *r = new_normals(2, ROWS * DIM, 1);
    float *y = new_normals(3, ROWS * DIM, 1), *z = new_normals(4, ROWS * DIM, 1);
    for (int on = 0; on < 2; on++) {
        struct dropout dropout = dropout_of(on ? 0.4 : 0);
        dropout_rows(&dropout, 1, &rows, y, x, 0, ROWS, DIM);
        dropout_add_rows(&dropout, 1, &rows, z, r, x, 0, ROWS, DIM);
        for (size_t i = 0; i < TOKENS * DIM; i++)
            check_near((double)z[i], (double)(r[i] + y[i]), 0, "residual + what stays");
        for (size_t i = TOKENS * DIM; on && i < ROWS * DIM; i++)
            assert_true(y[i] == 0 && z[i] == 0);
        memcpy(y, r, ROWS * DIM * sizeof *y);
        dropout_add_rows(&dropout, 1, &rows, y, y, x, 0, ROWS, DIM);
        check_same_bits(y, z, ROWS * DIM * sizeof *y, "in place");
    }
    free(x), free(r), free(y), free(z);
}

/* GELU and its slope get the mask that dropout applies to the rows after it. */
static void gelu_again_has_the_same_mask(void **state)
{
    (void)state;
    enum { ROWS = 40, TOKENS = 33, WIDEST = 16 };
    const size_t offsets[] = {0, 20, TOKENS};
    const uint64_t samples[] = {2, 8};
    const char *why;
    struct rows rows = rows_of(kernels_named("auto", &why), NULL, 2, offsets, samples);
    const struct kernels *kernels = rows.kernels;
    float x[ROWS * WIDEST], want[ROWS * WIDEST], slopes[ROWS * WIDEST], y[ROWS * WIDEST],
        slope[ROWS * WIDEST];
    random_normals(1, 0, x, ROWS * WIDEST);
    for (int on = 0; on < 2; on++)
        for (size_t dim = 11; dim <= WIDEST; dim += 5) { /* with and without a partial block of draws */
            struct dropout dropout = dropout_of(on ? 0.4 : 0);
            size_t first = 3, n = ROWS - first, size = n * dim;
            kernels->layers.gelu_again(want, slopes, x, size, 0, 0, 0, 1);
            dropout_rows(&dropout, 7, &rows, want, want, first, n, dim);
            dropout_rows(&dropout, 7, &rows, slopes, slopes, first, n, dim);
            dropout_gelu_again(&dropout, 7, &rows, y, slope, x, first, n, dim);
            check_same_bits(y, want, size * sizeof *y, "value");
            check_same_bits(slope, slopes, size * sizeof *y, "slope");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stays_is_scaled_and_the_rate_is_right),
        cmocka_unit_test(no_draw_is_used_twice),
        cmocka_unit_test(scale_fits_the_threshold),
        cmocka_unit_test(mask_does_not_depend_on_packing),
        cmocka_unit_test(residual_is_added_and_the_end_is_zero),
        cmocka_unit_test(gelu_again_has_the_same_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
