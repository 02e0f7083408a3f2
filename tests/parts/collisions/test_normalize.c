/* The three kinds of output row against the formulas in double, with rows of zero, tiny and huge length.
   Bugs planted and caught: <Y, G> with the wrong row, bias without 1 / S, lengths stored with less range
   than float; a sum of weights divided by, however small.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/normalize.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 6, D = 5, LD = 7 };
static const double scale[N] = {1, 1e-20, 1e20, 0, 3, 1e-6};

static void check_kind(const struct kernels *kernels, int kind)
{
    float x[N][LD], copy[N][LD], out[N][LD], dout[N][LD], dx[N][LD], kept[N], bias[N] = {0};
    random_normals(1, 0, x[0], N * LD);
    random_normals(2, 0, dout[0], N * LD);
    for (size_t i = 0; i < N; i++)
        for (size_t c = 0; c < D; c++)
            x[i][c] *= (float)scale[i];
    memcpy(copy, x, sizeof x);
    for (size_t i = 0; i < N; i++)
        kept[i] = i == 4 ? 0 : 2.5f; /* sums of weights */
    for (size_t i = 0; i < N; i++)
        for (size_t c = 0; c < D; c++)
            x[i][c] *= 4;
    float again[N][LD], kept_again[N];
    bf16 halves[N][LD], rounded[N][LD];
    memcpy(again, x, sizeof again);
    memcpy(kept_again, kept, sizeof kept);
    memset(halves, 0xff, sizeof halves);
    memset(rounded, 0xff, sizeof rounded);
    normalize_rows(kernels, NULL, kind, out[0], LD, DTYPE_FLOAT32, x[0], LD, 0.25f, kept, N, D);
    normalize_rows(kernels, NULL, kind, halves[0], LD, DTYPE_BFLOAT16, again[0], LD, 0.25f, kept_again, N, D);
    kernels->bf16.round(rounded[0], LD, out[0], LD, N, D);
    check_same_bits(halves, rounded, sizeof halves, "rounded rows");
    normalize_rows_backward(kernels, kind, dx[0], LD, bias, out[0], LD, dout[0], LD, kept, N, D);
    for (size_t i = 0; i < N; i++) {
        double length = 0, along = 0, divisor = 1, want;
        for (size_t c = 0; c < D; c++)
            length += (double)copy[i][c] * (double)copy[i][c];
        length = sqrt(length);
        if (kind == YOSO_NORMALIZE_L2)
            divisor = fmax(length, 1e-12);
        else if (kind == YOSO_NORMALIZE_SUM)
            divisor = i == 4 ? 0 : 2.5;
        bool dead = divisor == 0 || (kind == YOSO_NORMALIZE_L2 && length < 1e-12);
        for (size_t c = 0; c < D; c++) {
            want = divisor > 0 ? (double)copy[i][c] / divisor : 0;
            check_near((double)out[i][c], want, 4e-7 * fabs(want) + 1e-37, "y");
            along += want * (double)dout[i][c];
        }
        for (size_t c = 0; c < D; c++) {
            double g = (double)dout[i][c], y = divisor > 0 ? (double)copy[i][c] / divisor : 0;
            want = dead ? 0 : (g - (kind == YOSO_NORMALIZE_L2 ? y * along : 0)) / divisor;
            /* g, y and <y, g>, each to a few eps of |g| */
            check_near((double)dx[i][c], want, dead ? 0 : 2e-6 * 5 / divisor, "dx");
        }
        if (kind == YOSO_NORMALIZE_SUM)
            check_near((double)bias[i], dead ? 0 : -along / divisor, 1e-6 * fabs(along), "bias");
    }
}

static void kinds(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int kind = YOSO_NORMALIZE_L2; kind <= YOSO_NORMALIZE_NONE; kind++)
            check_kind(*kernels, kind);
}

/* Below 1e-30 a sum of weights counts as 0; 1 / S of a smaller one would be infinite. */
static void small_sums_are_zero(void **state)
{
    (void)state;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        float sum[3] = {2e-30f, 5e-31f, 1e-42f}, x[3] = {4e-30f, 5e-31f, 1e-42f}, out[3], dx[3], bias[3];
        const float dout[3] = {3, 3, 3};
        normalize_rows(*kernels, NULL, YOSO_NORMALIZE_SUM, out, 1, DTYPE_FLOAT32, x, 1, 1, sum, 3, 1);
        check_near((double)out[0], 2, 1e-6, "a mean");
        assert_true(out[1] == 0 && out[2] == 0);
        normalize_rows_backward(*kernels, YOSO_NORMALIZE_SUM, dx, 1, bias, out, 1, dout, 1, sum, 3, 1);
        check_near((double)dx[0], 1.5e30, 1e24, "dx");
        assert_true(dx[1] == 0 && dx[2] == 0 && bias[1] == 0 && bias[2] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(small_sums_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
