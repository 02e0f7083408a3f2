/* The three poolings against double sums, and their gradients, which are known exactly up to one rounding.
   Bugs planted and caught: mean over the block instead of the sequence; padded mean divided by the length;
   first token of the batch instead of the sequence; gradient of first token at every tile's first row; dx
   overwritten instead of added, or added instead of written.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/outputs/pooling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/layers.h"

enum { SEQUENCES = 4, ROWS = 395, PADDED = 396, DIM = 9, MAX_LEN = 350 };
static const size_t offsets[] = {0, 1, 65, 70, ROWS};

static double weight_of(int pooling, size_t sequence, size_t row)
{
    size_t first = offsets[sequence], len = offsets[sequence + 1] - first;
    if (row < first || row >= first + len)
        return 0;
    if (pooling == POOL_FIRST)
        return row == first;
    return 1.0 / (pooling == POOL_MEAN ? (double)len : (double)MAX_LEN);
}

static void pooling_agrees_with_double(void **state)
{
    (void)state;
    struct layer_test test;
    layer_test_open(&test, 2);
    struct rows rows = rows_of(test.kernels, test.pool, SEQUENCES, offsets, NULL);
    float *x = new_normals(1, ROWS * DIM, 1), *dy = new_normals(2, SEQUENCES * DIM, 1);
    float y[SEQUENCES * DIM], partial[SEQUENCES * DIM], dx[PADDED * DIM];
    for (int pooling = 0; pooling_names[pooling] != NULL; pooling++) {
        pooling_forward((enum pooling)pooling, MAX_LEN, &rows, y, partial, x, DIM);
        double want[SEQUENCES * DIM] = {0}, dwant[PADDED * DIM] = {0};
        for (size_t s = 0; s < SEQUENCES; s++)
            for (size_t r = 0; r < ROWS; r++)
                for (size_t c = 0; c < DIM; c++) {
                    want[s * DIM + c] += weight_of(pooling, s, r) * (double)x[r * DIM + c];
                    dwant[r * DIM + c] += weight_of(pooling, s, r) * (double)dy[s * DIM + c];
                }
        /* Sums of 64 and of 6 blocks, terms up to 4 weights, weights summing to 1 at most. */
        check_near_all(y, want, SEQUENCES * DIM, 72 * EPSILON * 4, pooling_names[pooling]);
        memset(dx, 0xff, sizeof dx); /* NaNs */
        pooling_backward((enum pooling)pooling, MAX_LEN, &rows, dx, false, dy, DIM);
        check_near_all(dx, dwant, PADDED * DIM, 2 * EPSILON * 4, "dx");
        for (size_t i = 0; i < PADDED * DIM; i++) {
            dx[i] = i < ROWS * DIM ? x[i] : 0;
            dwant[i] += (double)dx[i];
        }
        pooling_backward((enum pooling)pooling, MAX_LEN, &rows, dx, true, dy, DIM);
        check_near_all(dx, dwant, PADDED * DIM, 3 * EPSILON * 8, "dx, added to");
    }
    free(x), free(dy);
    layer_test_close(&test);
}

static void long_means_stay_sharp(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    struct layer_test test;
    layer_test_open(&test, 1);
    const size_t one[] = {0, LONG};
    struct rows rows = rows_of(test.kernels, test.pool, 1, one, NULL);
    float *x = new_zeros(LONG), y, partial;
    for (size_t i = 0; i < LONG; i++)
        x[i] = 1.1f;
    pooling_forward(POOL_MEAN, LONG, &rows, &y, &partial, x, 1);
    /* 64 roundings inside a block, LONG / 64 = 1563 between blocks; one chain of 100,000 would be off by
       1e-4. */
    check_near((double)y, (double)1.1f, 2e-5, "mean of equal numbers");
    free(x);
    layer_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooling_agrees_with_double),
        cmocka_unit_test(long_means_stay_sharp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
