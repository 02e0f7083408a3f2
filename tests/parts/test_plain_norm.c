/* The norm of strided rows and its way back against double precision, on every table and three threads.
   Bugs planted and caught: rows taken as adjacent; statistics of the first tile for all.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/plain_norm.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 150, D = 19, LD = 23 };

/* Every number of a row passes two sums of D terms and a dozen roundings; terms of size 4, 1 / sigma below 2.
 */
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
    struct plain_norm norm = {kernels, pool, x, LD, N, D, scratch};
    memset(scratch, 0xff, floats * sizeof *scratch);
    plain_norm_forward(&norm, out);
    memset(scratch, 0xff, floats * sizeof *scratch);
    plain_norm_backward(&norm, dout, dx, LD);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_normed_and_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
