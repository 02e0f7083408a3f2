/* Products with weights, in both precisions, against double precision of the rounded operands: odd sizes,
   several slabs and panels, leading dimensions, adding, a bias, packed left operands, no write outside C's
   columns; a row, or a column, has the same bits alone as among others; the gradient of weights.
   Bugs planted and caught: add lost after the first slab; the third panel read from the second; the odd end
   of a slab, of a left operand, of a block of A^T not cleared; a bias for every slab, or the first panel's
   for all; columns that begin at the first panel; weights transposed without request; the last columns of a
   block of A^T left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/product_weights.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

static const size_t shapes[][3] = {
    {0, 5, 5},     {5, 0, 5},    {5, 5, 0},     {1, 1, 1},     {3, 17, 5},   {64, 64, 64},
    {65, 63, 66},  {7, 130, 65}, {130, 1, 300}, {200, 65, 64}, {9, 70, 515}, {6, 64, 257},
    {193, 66, 31}, {400, 3, 7},  {3, 70, 769},  {2, 65, 1539}, /* deeper than a slab */
};

static float *normals(uint64_t seed, size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    random_normals(seed, 0, x, count);
    return x;
}

/* Operands rounded as the precision rounds them; the slot has a test of its own. */
static float *operands(const struct kernels *kernels, enum precision precision, const float *x, size_t n)
{
    float *rounded = calloc(n + 1, sizeof *rounded);
    bf16 *half = calloc(n + 1, sizeof *half);
    memcpy(rounded, x, n * sizeof *x);
    if (precision == PRECISION_BF16) {
        kernels->bf16.round(half, n, x, n, 1, n);
        kernels->bf16.widen(rounded, n, half, n, 1, n);
    }
    free(half);
    return rounded;
}

/* One rounding per term and for C, and one more per pair, whatever the order. */
static double bound(size_t k, double size)
{
    return (1.5 * (double)k + 2) * 0.5 * (double)FLT_EPSILON * size;
}

/* Fills the stack that the products use for rounded operands with NaN, so that a read of an unwritten number
   shows. */
static void poison(const struct kernels *kernels)
{
    enum { M = 400, N = 64, K = 256 };
    float *a = normals(1, M * K), *c = normals(2, M * N), *weights = calloc(K * N, sizeof *weights);
    for (size_t i = 0; i < M * K; i++)
        a[i] = NAN;
    product_weights(kernels, PRECISION_BF16, c, N, a, K, weights, M, N, K, false);
    product_transposed_bf16(kernels, c, N, a, M, a, N, M, N, K);
    free(a), free(c), free(weights);
}

enum start { ZERO, ADDED, BIAS };

/* The arguments of a product: A with rows ld_a apart, or a packed left operand and a bias. */
struct weighing {
    const struct kernels *kernels;
    enum precision precision;
    size_t n, k, ld_a, ld_c;
    const float *a, *weights, *bias;
    const void *left; /* NULL: A unpacked */
    bool add;
};

/* Rows [row, row + m) of c, columns from `column` on, a multiple of WEIGHTS_PANEL. */
static void multiply(const struct weighing *w, float *c, size_t row, size_t m, size_t column)
{
    const float *weights = w->weights + weights_from(w->precision, w->k, column);
    float *to = c + row * w->ld_c + column;
    size_t each =
        w->precision == PRECISION_BF16 ? weights_left_width(w->k) * sizeof(bf16) : w->k * sizeof(float);
    if (w->left == NULL)
        product_weights(w->kernels, w->precision, to, w->ld_c, w->a + row * w->ld_a, w->ld_a, weights, m,
                        w->n - column, w->k, w->add);
    else
        product_left(w->kernels, w->precision, to, w->ld_c, (const char *)w->left + row * each, weights, m,
                     w->n - column, w->k, w->bias == NULL ? NULL : w->bias + column);
}

static void check_weights(const struct kernels *kernels, enum precision precision, const size_t shape[3],
                          bool transpose_b, enum start start, bool with_left)
{
    size_t m = shape[0], n = shape[1], k = shape[2], halves_size = m * weights_left_width(k);
    size_t ld_a = with_left ? k : k + 3, ld_b = (transpose_b ? k : n) + 1, ld_c = n + 2, size_c = m * ld_c;
    float *a = normals(1, m * ld_a), *b = normals(2, (transpose_b ? n : k) * ld_b), *c = normals(3, size_c);
    float *before = normals(3, size_c), *again = normals(3, size_c), *bias = normals(4, n);
    float *ra = operands(kernels, precision, a, m * ld_a);
    float *rb = operands(kernels, precision, b, (transpose_b ? n : k) * ld_b);
    float *weights = calloc(weights_size(precision, k, n) + 1, sizeof *weights);
    bf16 *halves = malloc((halves_size + 1) * sizeof *halves);
    memset(halves, 0xff, halves_size * sizeof *halves); /* NaN */
    if (precision == PRECISION_BF16 && k % 2 == 1)
        poison(kernels);
    weights_pack(kernels, precision, weights, b, ld_b, transpose_b, k, n);
    const struct weighing w = {
        .kernels = kernels,
        .precision = precision,
        .n = n,
        .k = k,
        .ld_a = ld_a,
        .ld_c = ld_c,
        .a = a,
        .weights = weights,
        .bias = start == BIAS ? bias : NULL,
        .left = with_left ? weights_left(kernels, precision, halves, a, m, k) : NULL,
        .add = start == ADDED,
    };
    multiply(&w, c, 0, m, 0);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = start == ADDED ? (double)before[i * ld_c + j] : 0;
            sum = start == BIAS ? (double)bias[j] : sum;
            double size = fabs(sum);
            for (size_t l = 0; l < k; l++) {
                double term =
                    (double)ra[i * ld_a + l] * (double)(transpose_b ? rb[j * ld_b + l] : rb[l * ld_b + j]);
                sum += term;
                size += fabs(term);
            }
            check_near((double)c[i * ld_c + j], sum, bound(k, size), precision_names[precision]);
        }
        check_same_bits(c + i * ld_c + n, before + i * ld_c + n, 2 * sizeof *c, "beside C");
        multiply(&w, again, i, 1, 0);
    }
    check_same_bits(again, c, size_c * sizeof *c, "the rows one by one");
    if (n > WEIGHTS_PANEL) {
        for (size_t i = 0; i < m; i++)
            memcpy(again + i * ld_c + WEIGHTS_PANEL, before + i * ld_c + WEIGHTS_PANEL,
                   (n - WEIGHTS_PANEL) * sizeof *c);
        multiply(&w, again, 0, m, WEIGHTS_PANEL);
        check_same_bits(again, c, size_c * sizeof *c, "the columns from the second panel on");
    }
    free(a), free(b), free(c), free(before), free(again), free(bias), free(ra), free(rb), free(weights);
    free(halves);
}

static void a_product_with_weights_is_the_product(void **state)
{
    (void)state;
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
                for (int turned = 0; turned < 2; turned++) {
                    check_weights(*all, (enum precision)precision, shapes[s], turned, ZERO, false);
                    check_weights(*all, (enum precision)precision, shapes[s], turned, ADDED, false);
                    check_weights(*all, (enum precision)precision, shapes[s], turned, ZERO, true);
                    check_weights(*all, (enum precision)precision, shapes[s], turned, BIAS, true);
                }
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
            float *ra = operands(*all, PRECISION_BF16, a, k * ld_a),
                  *rb = operands(*all, PRECISION_BF16, b, k * ld_b);
            product_transposed_bf16(*all, c, ld_c, a, ld_a, b, ld_b, m, n, k);
            for (size_t i = 0; i < m; i++) {
                for (size_t j = 0; j < n; j++) {
                    double sum = (double)before[i * ld_c + j], size = fabs(sum);
                    for (size_t l = 0; l < k; l++) {
                        double term = (double)ra[l * ld_a + i] * (double)rb[l * ld_b + j];
                        sum += term;
                        size += fabs(term);
                    }
                    check_near((double)c[i * ld_c + j], sum, bound(k, size), "turned product");
                }
                check_same_bits(c + i * ld_c + n, before + i * ld_c + n, 3 * sizeof *c, "beside C");
            }
            free(a), free(b), free(c), free(before), free(ra), free(rb);
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
