/* Sinkhorn balancing against plain division of rows and columns in double, its gradient against finite
   differences of that, on every instruction set. Bugs planted and caught: the gradient
   through sums of rows left out; sums of columns of the round before; no maximum subtracted; a round too few.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/patterns/sinkhorn_balance.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

/* R by its definition. */
static void divide(const double *scores, size_t n, size_t rounds, double *r)
{
    for (size_t i = 0; i < n * n; i++)
        r[i] = exp(scores[i]);
    for (size_t round = 0; round < rounds; round++)
        for (size_t side = 0; side < 2; side++)
            for (size_t a = 0; a < n; a++) {
                size_t first = side == 0 ? a * n : a, step = side == 0 ? 1 : n;
                double sum = 0;
                for (size_t k = 0; k < n; k++)
                    sum += r[first + k * step];
                for (size_t k = 0; k < n; k++)
                    r[first + k * step] /= sum;
            }
}

static double loss(const double *scores, const float *weights, size_t n, size_t rounds, double *r)
{
    double sum = 0;
    divide(scores, n, rounds, r);
    for (size_t i = 0; i < n * n; i++)
        sum += (double)weights[i] * r[i];
    return sum;
}

static void check(size_t n, size_t rounds, float size, const struct kernels *kernels)
{
    float *scores = guard_floats(n * n), *balanced = guard_floats(n * n), *again = guard_floats(n * n),
          *gradient = guard_floats(n * n), *weights = guard_floats(n * n),
          *potentials = guard_floats(2 * rounds * n), *scratch = guard_floats(sinkhorn_balance_scratch(n));
    double *exact = malloc(n * n * sizeof *exact), *r = malloc(n * n * sizeof *r);
    random_normals(random_key(n, 1, rounds), 0, scores, n * n);
    random_normals(random_key(n, 2, rounds), 0, weights, n * n);
    for (size_t i = 0; i < n * n; i++)
        exact[i] = (double)(scores[i] *= size);
    struct sinkhorn_balance balance = {kernels, n, rounds, scores, potentials};
    sinkhorn_balance_forward(&balance, balanced, scratch);
    sinkhorn_balance_again(&balance, again);
    check_same_bits(balanced, again, n * n * sizeof(float), "again");
    divide(exact, n, rounds, r);
    double room = (double)(40 + 8 * size) * (double)(2 * rounds + 2) * FLT_EPSILON;
    for (size_t i = 0; i < n * n; i++)
        check_near((double)balanced[i], r[i], room * r[i] + FLT_MIN, "R");
    memcpy(gradient, weights, n * n * sizeof(float));
    sinkhorn_balance_backward(&balance, gradient, scratch);
    for (size_t i = 0; i < n * n; i++) {
        double at = exact[i], step = 1e-5, up, down;
        exact[i] = at + step;
        up = loss(exact, weights, n, rounds, r);
        exact[i] = at - step;
        down = loss(exact, weights, n, rounds, r);
        exact[i] = at;
        check_near((double)gradient[i], (up - down) / (2 * step), 20 * room + 1e-8, "gradient");
    }
    free(exact);
    free(r);
    guard_free(scores, n * n);
    guard_free(balanced, n * n);
    guard_free(again, n * n);
    guard_free(gradient, n * n);
    guard_free(weights, n * n);
    guard_free(potentials, 2 * rounds * n);
    guard_free(scratch, sinkhorn_balance_scratch(n));
}

static void every_size_is_the_definition(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 7, 16, 21};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t rounds = 1; rounds <= 7; rounds += 3) {
                check(sizes[i], rounds, 1, *kernels);
                check(sizes[i], rounds, 8, *kernels);
            }
}

/* Scores whose exponentials overflow, and whose best match is a permutation: R is that permutation. */
static void large_scores_give_a_permutation(void **state)
{
    (void)state;
    enum { N = 9, ROUNDS = 7 };
    float scores[N * N], balanced[N * N], potentials[2 * ROUNDS * N], scratch[3 * N];
    for (size_t i = 0; i < N * N; i++)
        scores[i] = i % N == i / N * 4 % N ? 4000 : -300;
    struct sinkhorn_balance balance = {kernels_all()[0], N, ROUNDS, scores, potentials};
    sinkhorn_balance_forward(&balance, balanced, scratch);
    for (size_t i = 0; i < N * N; i++)
        check_near((double)balanced[i], i % N == i / N * 4 % N, 1e-6, "R");
}

/* A column far below the others, whose exponentials are 0 in float32, gets its share. */
static void a_low_column_is_raised(void **state)
{
    (void)state;
    enum { N = 4, ROUNDS = 7 };
    float scores[N * N], balanced[N * N], potentials[2 * ROUNDS * N], scratch[3 * N];
    double exact[N * N], r[N * N];
    for (size_t i = 0; i < N * N; i++)
        exact[i] = (double)(scores[i] = (i % N == 2 ? -300.0f : 0.0f) + 0.25f * (float)(i * 7 % 5));
    struct sinkhorn_balance balance = {kernels_all()[0], N, ROUNDS, scores, potentials};
    sinkhorn_balance_forward(&balance, balanced, scratch);
    divide(exact, N, ROUNDS, r);
    for (size_t i = 0; i < N * N; i++)
        check_near((double)balanced[i], r[i], 1e-3 * r[i], "R");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_the_definition),
        cmocka_unit_test(large_scores_give_a_permutation),
        cmocka_unit_test(a_low_column_is_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
