/* The norm of strided rows and its backward pass against double precision, on every table and three
   threads. Bugs planted and caught: rows treated as adjacent; statistics of the first tile for all; rows
   whose squares overflow left unchanged, forward or backward, or with the gradient of another row;
   the list of the first tile for all; a large row taken by its place in the list; a finite gradient that
   bfloat16 rounds to infinity.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/plain_norm.h"

#include "parts/tiles/double_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 150, D = 19, LD = 23 };

/* Every number of a row passes two sums of D terms and about a dozen roundings, with terms of size 4 and 1
   / sigma below 2. */
static const double bound = 2 * (D + 12) * (double)FLT_EPSILON * 4 * 2;

static void check(const struct kernels *kernels, struct pool *pool, size_t workers)
{
    float x[N * LD], dout[N * D], dx[N * LD], out[N * D];
    random_normals(1, 0, x, N * LD);
    random_normals(2, 0, dout, N * D);
    for (size_t i = 0; i < N * LD; i++)
        dx[i] = 0.5f;
    size_t floats = workers * plain_norm_size(D) / sizeof(float);
    float *scratch = guard_floats(floats);
    struct plain_norm norm = {kernels, pool, {(float *)x, N, D, LD, DTYPE_FLOAT32}, scratch};
    memset(scratch, 0xff, floats * sizeof *scratch);
    plain_norm_forward(&norm, out);
    memset(scratch, 0xff, floats * sizeof *scratch);
    plain_norm_backward(&norm, dout, (struct view){dx, N, D, LD, DTYPE_FLOAT32});
    for (size_t i = 0; i < N; i++) {
        double mean = 0, variance = 0, g_mean = 0, along = 0, hat[D];
        for (size_t c = 0; c < D; c++)
            mean += (double)x[i * LD + c] / D;
        for (size_t c = 0; c < D; c++)
            variance += pow((double)x[i * LD + c] - mean, 2) / D;
        for (size_t c = 0; c < D; c++) {
            hat[c] = ((double)x[i * LD + c] - mean) / sqrt(variance + 1e-6);
            g_mean += (double)dout[i * D + c] / D;
            along += (double)dout[i * D + c] * hat[c] / D;
            check_near((double)out[i * D + c], hat[c], bound, "normed row");
        }
        for (size_t c = 0; c < D; c++)
            check_near((double)dx[i * LD + c],
                       0.5 + ((double)dout[i * D + c] - g_mean - hat[c] * along) / sqrt(variance + 1e-6),
                       bound, "gradient of a row");
        for (size_t c = D; c < LD; c++)
            assert_true(dx[i * LD + c] == 0.5f);
    }
    guard_free(scratch, floats);
}

/* Rows scaled by a power of two have the same norms, and gradients divided by it; results that overflow
   are clamped to the largest float. Every third row is large, and every fifth has a large gradient. */
static void large_rows_are_normed_alike(void **state)
{
    (void)state;
    enum { ROW = 100, GRADIENT = 124 };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        static float x[N * D], dout[N * D], out[2][N * D], dx[2][N * D];
        size_t floats = plain_norm_size(D) / sizeof(float);
        float *scratch = guard_floats(floats);
        random_normals(1, 0, x, N * D);
        random_normals(2, 0, dout, N * D);
        for (size_t i = 0; i < N * D; i++)
            x[i] *= 1000; /* so that epsilon is negligible */
        for (int large = 0; large < 2; large++) {
            struct plain_norm norm = {*kernels, NULL, view_of(x, N, D), scratch};
            for (size_t i = 0; i < N * D; i++) {
                x[i] = ldexpf(x[i], large && i / D % 3 == 0 ? ROW : 0);
                dout[i] = ldexpf(dout[i], large && i / D % 5 == 0 ? GRADIENT : 0);
            }
            memset(dx[large], 0, sizeof dx[large]);
            plain_norm_forward(&norm, out[large]);
            plain_norm_backward(&norm, dout, view_of(dx[large], N, D));
        }
        for (size_t i = 0; i < N * D; i++) {
            int exponent = (i / D % 5 == 0 ? GRADIENT : 0) - (i / D % 3 == 0 ? ROW : 0);
            check_near((double)out[1][i], (double)out[0][i], bound, "normed row");
            check_near(ldexp((double)dx[1][i], -exponent), (double)dx[0][i], bound / 1000,
                       "gradient of a row");
        }
        for (size_t i = 0; i < N * D; i++) {
            x[i] = ldexpf(out[0][i], -30);
            dout[i] = copysignf(FLT_MAX, dout[i]);
        }
        plain_norm_backward(&(struct plain_norm){*kernels, NULL, view_of(x, N, D), scratch}, dout,
                            view_of(dx[0], N, D));
        float most = 0;
        for (size_t i = 0; i < N * D; i++)
            most = fmaxf(most, fabsf(dx[0][i])); /* catches infinity too */
        assert_true(most == DOUBLE_MOST);
        guard_free(scratch, floats);
    }
}

/* float32 goes beyond the largest bfloat16, but no gradient does. */
static void gradients_are_finite_in_bfloat16(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        static float x[N * D], dout[N * D], dx[N * D];
        size_t floats = plain_norm_size(D) / sizeof(float);
        float *scratch = guard_floats(floats), most = 0;
        random_normals(1, 0, x, N * D);
        random_normals(2, 0, dout, N * D);
        for (int large = 0; large < 2; large++) {
            for (size_t i = 0; large && i < N * D; i++)
                dout[i] *= 0x1.ff4p126f / most * 2;
            memset(dx, 0, sizeof dx);
            plain_norm_backward(&(struct plain_norm){*kernels, NULL, view_of(x, N, D), scratch}, dout,
                                view_of(dx, N, D));
            most = 0;
            for (size_t i = 0; i < N * D; i++)
                most = fmaxf(most, fabsf(dx[i]));
        }
        assert_true(most == DOUBLE_MOST);
        guard_free(scratch, floats);
    }
}

/* Listed rows, more than a tile, are those of the whole, to the bit; some are large. */
static void listed_rows_are_the_same(void **state)
{
    (void)state;
    enum { LISTED = 90, FIRST = 5 };
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        static float x[N * LD], all[N * D], some[LISTED * D];
        static uint32_t list[FIRST + LISTED];
        size_t floats = plain_norm_size(D) / sizeof(float);
        float *scratch = guard_floats(floats);
        random_normals(1, 0, x, N * LD);
        for (size_t i = 0; i < N * LD; i++)
            x[i] = ldexpf(x[i], i / LD % 4 == 0 ? 100 : 0);
        for (size_t p = 0; p < FIRST + LISTED; p++)
            list[p] = (uint32_t)(p * 11 % N);
        struct view rows = {x, N, D, LD, DTYPE_FLOAT32};
        plain_norm_forward(&(struct plain_norm){*kernels, NULL, rows, scratch}, all);
        plain_norm_rows(*kernels, some, rows, list, FIRST, LISTED, scratch);
        for (size_t p = 0; p < LISTED; p++)
            check_same_bits(some + p * D, all + list[FIRST + p] * D, D * sizeof *some, "listed row");
        guard_free(scratch, floats);
    }
}

static void rows_are_normed_and_back(void **state)
{
    (void)state;
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        check(*kernels, NULL, 1);
        check(*kernels, pool, 3);
    }
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_normed_and_back),
        cmocka_unit_test(large_rows_are_normed_alike),
        cmocka_unit_test(gradients_are_finite_in_bfloat16),
        cmocka_unit_test(listed_rows_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
