/* The highest rate of operations that this thread reaches, in float32 and in bfloat16: the reference of every
   share of a peak. Each candidate runs for the same time; the result is the maximum.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product.h"

#include "base/clock.h"

enum {
    LARGEST = 256,
    ROUNDS = 1024 /* beside them the start of a loop, with tiles 0.1 us, does not count */
};

/* Sizes of the square products. Their operands fit the second-level cache. */
static const size_t sizes[] = {64, 128, LARGEST};
_Static_assert(PRODUCT_PEAK_FLOATS == 3 * LARGEST * LARGEST, "the space has three float32 matrices");

static double loop_rate(float (*loop)(size_t), double seconds)
{
    volatile float sink = 0; /* volatile, so that the compiler keeps the sum */
    double operations = 0, start = clock_seconds(), spent;
    do {
        sink = sink + loop(ROUNDS);
        operations += (double)ROUNDS * FUSED_LOOP_OPERATIONS;
        spent = clock_seconds() - start;
    } while (spent < seconds);
    return operations / spent;
}

static double product_rate(const struct kernels *kernels, size_t n, double seconds, float *space)
{
    float *a = space, *b = a + n * n, *c = b + n * n;
    for (size_t i = 0; i < n * n; i++)
        a[i] = b[i] = 1.0f / (float)(i + 1);
    product(kernels, c, n, a, n, false, b, n, false, n, n, n, false); /* the first call does the setup */
    double operations = 0, start = clock_seconds(), spent;
    do {
        product(kernels, c, n, a, n, false, b, n, false, n, n, n, false);
        operations += 2.0 * (double)(n * n * n);
        spent = clock_seconds() - start;
    } while (spent < seconds);
    return operations / spent;
}

static double bf16_rate(const struct kernels *kernels, size_t n, double seconds, float *space)
{
    float *a = space, *c = a + n * n;
    bf16 *left = (bf16 *)(c + n * n), *right = left + n * n;
    for (size_t i = 0; i < n * n; i++)
        a[i] = 1.0f / (float)(i + 1);
    kernels->bf16.round(left, n, a, n, n, n);
    kernels->bf16.interleave(right, 2 * n, a, n, n, n);
    double operations = 0, start = clock_seconds(), spent;
    do {
        kernels->bf16.product(c, n, left, n, right, 2 * n, n, n, n / 2, false);
        operations += 2.0 * (double)(n * n * n);
        spent = clock_seconds() - start;
    } while (spent < seconds);
    return operations / spent;
}

double product_peak_bf16(const struct kernels *kernels, double seconds, float *space)
{
    double best = loop_rate(kernels->peak.bf16_loop, seconds);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double rate = bf16_rate(kernels, sizes[i], seconds, space);
        best = rate > best ? rate : best;
    }
    return best * 1e-9;
}

double product_peak(const struct kernels *kernels, double seconds, float *space)
{
    double best = loop_rate(kernels->peak.fused_loop, seconds);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double rate = product_rate(kernels, sizes[i], seconds, space);
        best = rate > best ? rate : best;
    }
    return best * 1e-9;
}
