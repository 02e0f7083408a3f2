/* Balanced scores against the alternation in double precision, on every table, one thread and three, with
   group counts that fill no vector and token counts that fill no tile; and the purpose: each token gives 1
   and the groups receive about equally; zero columns; a group with no demand. Bugs planted and caught:
   weights of the previous round; a tile's sums in another's place; shares that do not add up to those of
   the tokens; a zero column that takes part.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/balance.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST_TOKENS = 300, MOST_GROUPS = 40 };

/* z (groups, n): normals, larger in group 0, minus the largest of each token. Every token whose number is
   a multiple of `absent` takes no part. */
static void fill(float *z, size_t groups, size_t n, size_t absent)
{
    random_normals(7, 0, z, groups * n);
    for (size_t i = 0; i < n; i++) {
        float largest = z[i] += 2;
        for (size_t b = 1; b < groups; b++)
            largest = fmaxf(largest, z[b * n + i]);
        for (size_t b = 0; b < groups; b++)
            z[b * n + i] = absent > 0 && i % absent == 0 ? -INFINITY : z[b * n + i] - largest;
    }
}

static void expect(double *want, const float *z, size_t groups, size_t n, size_t rounds, double scale)
{
    static double p[MOST_GROUPS * MOST_TOKENS];
    double c[MOST_GROUPS], r[MOST_TOKENS];
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t b = 0; b < groups; b++)
            sum += p[b * n + i] = exp(scale * (double)z[b * n + i]);
        r[i] = sum > 0 ? 1 / sum : 0;
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t b = 0; b < groups; b++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += r[i] * p[b * n + i];
            c[b] = sum > 0 ? (double)n / (double)groups / sum : 0;
        }
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t b = 0; b < groups; b++)
                sum += c[b] * p[b * n + i];
            r[i] = sum > 0 ? 1 / sum : 0;
        }
    }
    for (size_t b = 0; b < groups; b++)
        for (size_t i = 0; i < n; i++)
            want[b * n + i] = c[b] * r[i] * p[b * n + i];
}

static void run(const struct kernels *kernels, struct pool *pool, float *p, size_t groups, size_t n,
                size_t rounds, float scale)
{
    size_t floats = balance_size(groups, n) / 4;
    size_t ld = n + 3;
    float *scratch = guard_floats(floats), *apart = guard_floats(groups * ld);
    memset(scratch, 0xff, 4 * floats);
    memset(apart, 0xff, 4 * groups * ld);
    for (size_t b = 0; b < groups; b++)
        memcpy(apart + b * ld, p + b * n, n * sizeof *p);
    balance(&(struct balance){kernels, pool, groups, n, ld, rounds, scale, scratch, NULL, NULL, 0}, apart);
    for (size_t b = 0; b < groups; b++)
        memcpy(p + b * n, apart + b * ld, n * sizeof *p);
    guard_free(scratch, floats);
    guard_free(apart, groups * ld);
}

static void as_in_double_precision(void **state)
{
    (void)state;
    static const struct {
        size_t groups, n, rounds, absent;
        float scale;
    } cases[] = {{16, 256, 3, 0, 1}, {7, 300, 3, 0, 3},   {40, 65, 5, 0, 2}, {1, 130, 3, 0, 1},
                 {5, 1, 2, 0, 1},    {33, 129, 1, 0, 10}, {9, 200, 4, 3, 2}, {2, 64, 64, 0, 0.1f}};
    static float p[MOST_GROUPS * MOST_TOKENS], other[MOST_GROUPS * MOST_TOKENS];
    static double want[MOST_GROUPS * MOST_TOKENS];
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            size_t groups = cases[k].groups, n = cases[k].n, absent = cases[k].absent;
            fill(p, groups, n, absent);
            memcpy(other, p, sizeof p);
            expect(want, p, groups, n, cases[k].rounds, (double)cases[k].scale);
            run(*kernels, NULL, p, groups, n, cases[k].rounds, cases[k].scale);
            run(*kernels, pool, other, groups, n, cases[k].rounds, cases[k].scale);
            assert_memory_equal(p, other, groups * n * sizeof *p);
            for (size_t b = 0; b < groups; b++)
                for (size_t i = 0; i < n; i++) {
                    if (absent > 0 && i % absent == 0)
                        assert_true(isnan(p[b * n + i]));
                    else /* 300 nonnegative numbers added twice per round; rounded exponents */
                        check_near((double)p[b * n + i], want[b * n + i],
                                   2e-6 * ((double)cases[k].rounds + 1 + (double)cases[k].scale) *
                                       want[b * n + i],
                                   "p");
                }
        }
    pool_free(&host, pool);
}

/* Group 0 begins with half of the total. After ten rounds every group has its share and each token still
   gives 1. */
static void groups_get_as_much_as_each_other(void **state)
{
    (void)state;
    enum { GROUPS = 8, N = 256 };
    static float p[GROUPS * N];
    fill(p, GROUPS, N, 0);
    run(kernels_all()[0], NULL, p, GROUPS, N, 10, 1);
    for (size_t b = 0; b < GROUPS; b++) {
        double sum = 0;
        for (size_t i = 0; i < N; i++)
            sum += (double)p[b * N + i];
        check_near(sum, (double)N / GROUPS, 0.01 * N / GROUPS, "a bucket");
    }
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t b = 0; b < GROUPS; b++)
            sum += (double)p[b * N + i];
        check_near(sum, 1, 1e-5, "a token");
    }
}

/* A group that no token wants stays empty, a group whose weights are too small to invert gets no infinity,
   and neither affects the remaining groups. */
static void what_nobody_wants(void **state)
{
    (void)state;
    enum { GROUPS = 4, N = 70 };
    static float p[GROUPS * N];
    fill(p, GROUPS, N, 0);
    for (size_t i = 0; i < N; i++) {
        p[1 * N + i] = i % 2 == 0 ? -INFINITY : -92; /* exp(-92) is below FLT_MIN */
        p[2 * N + i] = -INFINITY;
    }
    run(kernels_all()[0], NULL, p, GROUPS, N, 3, 1);
    for (size_t i = 0; i < GROUPS * N; i++)
        assert_true(isfinite(p[i]) && p[i] >= 0);
    for (size_t i = 0; i < N; i++)
        assert_true(p[2 * N + i] == 0 && p[i] > 0 && p[3 * N + i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_double_precision),
        cmocka_unit_test(groups_get_as_much_as_each_other),
        cmocka_unit_test(what_nobody_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
