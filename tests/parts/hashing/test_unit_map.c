/* Mapped rows: unit length, dot products kept, the longest row and longer ones, and the backward pass.
   Bugs planted and caught: the last coordinates of queries and keys in the same place; M not squared;
   further columns left unchanged; the gradient divided twice; an infinite divisor;
   the gradient of tiny rows infinite or NaN.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/unit_map.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "parts/rows/bounded.h"
#include "support/check.h"

enum { N = 9, DIM = 13, LD = 32 };

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

static void dot_products_are_kept(void **state)
{
    (void)state;
    float q[N * DIM], k[N * DIM], mapped_q[N * LD], mapped_k[N * LD], norm[N];
    random_normals(1, 0, q, N * DIM);
    random_normals(1, 1000, k, N * DIM);
    memset(q, 0, DIM * sizeof *q);
    double longest = fmax(unit_map_longest(q, DIM, N, DIM), unit_map_longest(k, DIM, N, DIM)), want = 0;
    for (size_t i = 0; i < N; i++)
        want = fmax(want,
                    fmax(sqrt(dot(q + i * DIM, q + i * DIM, DIM)), sqrt(dot(k + i * DIM, k + i * DIM, DIM))));
    check_near(longest, want, 1e-12, "the longest");
    const double norms[] = {longest, 2 * longest, 1e6};
    for (size_t m = 0; m < 3; m++) {
        memset(mapped_q, 0xff, sizeof mapped_q);
        memset(mapped_k, 0xff, sizeof mapped_k);
        unit_map_take(mapped_q, LD, norm, q, DIM, N, DIM, norms[m], false);
        unit_map_take(mapped_k, LD, norm, k, DIM, N, DIM, norms[m], true);
        for (size_t i = 0; i < N; i++) {
            assert_true(norm[i] == (float)norms[m]);
            check_near(dot(mapped_q + i * LD, mapped_q + i * LD, LD), 1, 1e-6, "length");
            check_near(dot(mapped_k + i * LD, mapped_k + i * LD, LD), 1, 1e-6, "length");
            for (size_t j = 0; j < N; j++)
                check_near(dot(mapped_q + i * LD, mapped_k + j * LD, LD),
                           dot(q + i * DIM, k + j * DIM, DIM) / norms[m] / norms[m], 3e-7, "dot product");
        }
    }
}

static void a_longer_row_is_taken_at_that_length(void **state)
{
    (void)state;
    const float x[2] = {3, 4};
    float mapped[LD], norm;
    unit_map_take(mapped, LD, &norm, x, 2, 1, 2, 2.5, true);
    assert_true(norm == 5 && mapped[2] == 0 && mapped[3] == 0);
    check_near((double)mapped[0], 0.6, 1e-7, "at M");
    const float large[2] = {3e38f, -3e38f}; /* longer than the largest float */
    unit_map_take(mapped, LD, &norm, large, 2, 1, 2, 1, true);
    assert_true(norm == FLT_MAX && mapped[3] == 0);
    check_near((double)mapped[1], -sqrt(0.5), 1e-7, "a long row");
    const float zero[2] = {0, 0};
    unit_map_take(mapped, LD, &norm, zero, 2, 1, 2, 0, true);
    assert_true(mapped[0] == 0 && mapped[2] == 0 && mapped[3] == 1);
}

static void gradients_come_back_through_the_divisor(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        float dx[2 * 3] = {1, 1, 1, 1, 1, 1}, du[2 * 4] = {4, 8, 7, 7, 2, 4, 7, 7}, norm[2] = {2, 4};
        unit_map_backward(*kernels, dx, 3, du, 4, norm, 2, 2);
        const float want[] = {3, 5, 1, 1.5f, 2, 1};
        check_same_bits(dx, want, sizeof dx, "dx");
        /* the lengths of the smallest floats: their inverse is infinite */
        const float du_tiny[2 * 2] = {0, 1e30f, -1e30f, 0}, tiny[2] = {1e-30f, 1e-42f};
        float dx_tiny[2 * 2] = {0};
        unit_map_backward(*kernels, dx_tiny, 2, du_tiny, 2, tiny, 2, 2);
        const float most[] = {0, DOUBLE_MOST, -DOUBLE_MOST, 0};
        check_same_bits(dx_tiny, most, sizeof most, "dx of tiny rows");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot_products_are_kept),
        cmocka_unit_test(a_longer_row_is_taken_at_that_length),
        cmocka_unit_test(gradients_come_back_through_the_divisor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
