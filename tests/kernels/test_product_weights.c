/* Products with weights, in both precisions, against double precision of the operands as they are rounded:
   odd sizes, several slabs and panels, leading dimensions, adding, nothing but C's own columns touched; a row
   alone has the same bits as among others; the gradient of weights.
   Bugs planted and caught: add lost after the first slab; a slab of the second panel read from the first; the
   odd row of a slab not cleared; weights turned that are not to be; the last columns of a block of A^T left
   out.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_weights.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

static const size_t shapes[][3] = {
    {0, 5, 5},    {5, 0, 5},     {5, 5, 0},     {1, 1, 1},    {3, 17, 5},   {64, 64, 64},  {65, 63, 66},
    {7, 130, 65}, {130, 1, 300}, {200, 65, 64}, {9, 70, 515}, {6, 64, 257}, {193, 66, 31}, {400, 3, 7},
};

static float *normals(uint64_t seed, size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    random_normals(seed, 0, x, count);
    return x;
}

/* As the precision rounds it; the slot has a test of its own. */
static double operand(const struct kernels *kernels, enum precision precision, float a)
{
    bf16 half;
    if (precision == PRECISION_BF16) {
        kernels->bf16_round(&half, 1, &a, 1, 1, 1);
        kernels->bf16_widen(&a, 1, &half, 1, 1, 1);
    }
    return (double)a;
}

/* One rounding for each term and for C, and one more for each pair, whatever the order. */
static double bound(size_t k, double size)
{
    return (1.5 * (double)k + 2) * 0.5 * (double)FLT_EPSILON * size;
}

/* Leaves NaN where the products keep what they have rounded: a number that is read without having been
   written shows, whatever it meets. */
static void poison(const struct kernels *kernels)
{
    enum { M = 400, N = 64, K = 256 };
    float *a = normals(1, M * K), *c = normals(2, M * N), *weights = calloc(K * N, sizeof *weights);
    for (size_t i = 0; i < M * K; i++)
        a[i] = NAN;
    product_weights(kernels, PRECISION_BF16, c, N, a, K, weights, M, N, K, false);
    product_turned_bf16(kernels, c, N, a, M, a, N, M, N, K);
    free(a), free(c), free(weights);
}

static void check_weights(const struct kernels *kernels, enum precision precision, const size_t shape[3],
                          int bits)
{
    bool transpose_b = bits & 1, add = bits & 2;
    size_t m = shape[0], n = shape[1], k = shape[2];
    size_t ld_a = k + 3, ld_b = (transpose_b ? k : n) + 1, ld_c = n + 2, size_c = m * ld_c;
    float *a = normals(1, m * ld_a), *b = normals(2, (transpose_b ? n : k) * ld_b), *c = normals(3, size_c);
    float *before = normals(3, size_c), *alone = normals(3, size_c);
    float *weights = calloc(weights_size(precision, k, n) + 1, sizeof *weights);
    poison(kernels);
    weights_lay(kernels, precision, weights, b, ld_b, transpose_b, k, n);
    product_weights(kernels, precision, c, ld_c, a, ld_a, weights, m, n, k, add);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = add ? (double)before[i * ld_c + j] : 0, size = fabs(sum);
            for (size_t l = 0; l < k; l++) {
                double term = operand(kernels, precision, a[i * ld_a + l]) *
                              operand(kernels, precision, transpose_b ? b[j * ld_b + l] : b[l * ld_b + j]);
                sum += term;
                size += fabs(term);
            }
            check_near((double)c[i * ld_c + j], sum, bound(k, size), precision_names[precision]);
        }
        check_same_bits(c + i * ld_c + n, before + i * ld_c + n, 2 * sizeof *c, "beside C");
        product_weights(kernels, precision, alone + i * ld_c, ld_c, a + i * ld_a, ld_a, weights, 1, n, k,
                        add);
    }
    check_same_bits(alone, c, size_c * sizeof *c, "the rows one by one");
    free(a), free(b), free(c), free(before), free(alone), free(weights);
}

static void a_product_with_weights_is_the_product(void **state)
{
    (void)state;
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
                for (int bits = 0; bits < 4; bits++)
                    check_weights(*all, (enum precision)precision, shapes[s], bits);
}

static void the_gradient_of_weights_is_the_turned_product(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{5, 0, 5},    {5, 5, 0},    {1, 1, 1},      {17, 3, 5},
                                      {65, 66, 63}, {390, 65, 7}, {70, 130, 193}, {64, 64, 400}};
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], ld_a = m + 1, ld_b = n + 2,
                   ld_c = n + 3;
            float *a = normals(1, k * ld_a), *b = normals(2, k * ld_b), *c = normals(3, m * ld_c);
            float *before = normals(3, m * ld_c);
            poison(*all);
            product_turned_bf16(*all, c, ld_c, a, ld_a, b, ld_b, m, n, k);
            for (size_t i = 0; i < m; i++) {
                for (size_t j = 0; j < n; j++) {
                    double sum = (double)before[i * ld_c + j], size = fabs(sum);
                    for (size_t l = 0; l < k; l++) {
                        double term = operand(*all, PRECISION_BF16, a[l * ld_a + i]) *
                                      operand(*all, PRECISION_BF16, b[l * ld_b + j]);
                        sum += term;
                        size += fabs(term);
                    }
                    check_near((double)c[i * ld_c + j], sum, bound(k, size), "turned product");
                }
                check_same_bits(c + i * ld_c + n, before + i * ld_c + n, 3 * sizeof *c, "beside C");
            }
            free(a), free(b), free(c), free(before);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_with_weights_is_the_product),
        cmocka_unit_test(the_gradient_of_weights_is_the_turned_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
