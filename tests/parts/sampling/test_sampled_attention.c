/* The sums behind the ratios of lss and hbe are unbiased: over planes and draws, the mean of Z_i and of N_i =
   Z_i out_i is the sum over all keys of exp(q.k / sqrt(d)) and of that times v, by z-scores; causal sums over
   the visible keys. The outputs themselves are compared with their definition in test_lss.c and test_hbe.c.
   Bugs planted and caught: 1 / m left out; c^(tau - 1); the chance of m - 1 hashes; c instead of the chance
   of any hash; orthogonal planes; a draw that never takes the last key; the level not returned.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/sampling/sampled_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oracle/oracle_samples.h"
#include "support/check.h"
#include "support/sample_case.h"

enum { N_Q = 12, N_K = 12, D = 6, D_V = 3, SUMS = D_V + 1, SEEDS = 6000 };

/* N_i, then Z_i, of all keys that query i sees. */
static void exact_sums(const float *query, const float *key, const float *value, bool causal, double *sums)
{
    memset(sums, 0, N_Q * SUMS * sizeof *sums);
    for (size_t i = 0; i < N_Q; i++)
        for (size_t j = 0; j < (causal ? i + 1 : N_K); j++) {
            double w = oracle_sample_weight(query + i * D, key + j * D, D);
            sums[i * SUMS + D_V] += w;
            for (size_t c = 0; c < D_V; c++)
                sums[i * SUMS + c] += w * (double)value[j * D_V + c];
        }
}

static void check_unbiased(enum sampling sampling, int64_t hashes, int64_t bits, bool causal)
{
    float query[N_Q * D], key[N_K * D], value[N_K * D_V], out[N_Q * D_V], level[N_Q], mass[N_Q];
    static double want[N_Q * SUMS], sum[N_Q * SUMS], squares[N_Q * SUMS];
    size_t visible[N_Q];
    random_normals(1, 0, key, N_K * D);
    random_normals(2, 0, query, N_Q * D);
    random_normals(3, 0, value, N_K * D_V);
    for (size_t i = 0; i < N_Q * D; i++) /* half of the queries are near a key */
        query[i] = i / D % 2 == 0 ? query[i] : 1.5f * key[i] + 0.4f * query[i];
    for (size_t i = 0; i < N_Q; i++)
        visible[i] = i + 1;
    exact_sums(query, key, value, causal, want);
    memset(sum, 0, sizeof sum);
    memset(squares, 0, sizeof squares);
    struct sample_options options = {hashes, bits};
    struct yoso_options hashing = sampled_hashing(&options);
    struct sampled_sums sums = {level, mass};
    struct problem problem = {.kernels = kernels_named(NULL, &(const char *){0}),
                              .shape = {.num_queries = N_Q,
                                        .num_keys = N_K,
                                        .head_dim = D,
                                        .value_dim = D_V,
                                        .causal = causal,
                                        .workers = 1},
                              .options = &options,
                              .query = view_of(query, N_Q, D),
                              .key = view_of(key, N_K, D),
                              .value = view_of(value, N_K, D_V),
                              .visible = causal ? visible : NULL};
    size_t floats = sampled_scratch_size(sampling, &options, &problem.shape) / sizeof(float) + 1;
    float *scratch = guard_floats(floats);
    problem.scratch = scratch;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float *planes = sample_case_planes(&hashing, seed, D);
        problem.shared = planes;
        problem.random_key = seed;
        sampled_forward(sampling, &problem, view_of(out, N_Q, D_V), &sums);
        for (size_t i = 0; i < N_Q; i++)
            for (size_t c = 0; c < SUMS; c++) {
                double z = exp((double)level[i]) * (double)mass[i];
                double x = c == D_V ? z : z * (double)out[i * D_V + c];
                sum[i * SUMS + c] += x;
                squares[i * SUMS + c] += x * x;
            }
        free(planes);
    }
    double z2 = 0;
    for (size_t s = 0; s < N_Q * SUMS; s++) {
        double mean = sum[s] / SEEDS, error = sqrt((squares[s] / SEEDS - mean * mean) / SEEDS);
        double z = (mean - want[s]) / (error + 1e-6 * fabs(want[s]));
        if (fabs(z) > 5)
            fail_msg("sum %zu: mean %g of %d estimates, exact %g, z %.2f", s, mean, SEEDS, want[s], z);
        z2 += z * z / (N_Q * SUMS);
    }
    /* The z-scores of one run are dependent; their mean square is near 1, and grows with a bias. */
    if (z2 > 3)
        fail_msg("mean square of z-scores %.2f", z2);
    /* The test sees a bias of a twentieth. */
    for (size_t i = 0; i < N_Q; i++) {
        size_t s = i * SUMS + D_V;
        double mean = sum[s] / SEEDS;
        assert_true(5 * sqrt((squares[s] / SEEDS - mean * mean) / SEEDS) < 0.1 * want[s]);
    }
    guard_free(scratch, floats);
}

static void sums_over_unions_are_unbiased(void **state)
{
    (void)state;
    check_unbiased(SAMPLE_UNION, 5, 2, false);
    check_unbiased(SAMPLE_UNION, 12, 3, false);
    check_unbiased(SAMPLE_UNION, 5, 2, true);
}

static void sums_over_draws_are_unbiased(void **state)
{
    (void)state;
    check_unbiased(SAMPLE_DRAWS, 8, 2, false);
    check_unbiased(SAMPLE_DRAWS, 17, 3, false);
    check_unbiased(SAMPLE_DRAWS, 8, 2, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_unions_are_unbiased),
        cmocka_unit_test(sums_over_draws_are_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
