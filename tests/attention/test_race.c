/* RACE attention against its kernel in double precision over all pairs and corners, with the planes of its
   key; and what the kernel is at both ends of its sharpness. Bugs planted and caught: a factor of 2 left out
   of the exponent; p and 1 - p exchanged; the last bit folded twice; the mass of all corners not times p; the
   slope of tanh left out; one plane for all bits; no number added to the denominator; products that overflow
   not bounded.
   SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "support/group_case.h"
#include "support/kernel_case.h"

enum { MOST_BITS = 4, MOST_DIM = 64, MOST_TABLES = 8 };

struct cube {
    size_t tables, bits;
    double sharpness;
    float planes[MOST_BITS * MOST_TABLES * MOST_DIM]; /* (bits, tables, d) */
};

/* The weights of a row at the corners of a table by their definition, and their gradients (2^bits, d). */
static void weights(const struct cube *cube, size_t table, const double *x, size_t d, double *phi,
                    double *dphi)
{
    double turned[MOST_BITS], sum = 0;
    size_t corners = (size_t)1 << cube->bits;
    for (size_t b = 0; b < cube->bits; b++) {
        turned[b] = 0;
        for (size_t c = 0; c < d; c++)
            turned[b] += x[c] * (double)cube->planes[(b * cube->tables + table) * d + c];
        turned[b] = tanh(turned[b]);
    }
    for (size_t corner = 0; corner < corners; corner++) {
        phi[corner] = 0;
        for (size_t b = 0; b < cube->bits; b++)
            phi[corner] += cube->sharpness * turned[b] * (corner >> b & 1 ? 1 : -1);
        sum += phi[corner] = exp(phi[corner]);
    }
    memset(dphi, 0, corners * d * sizeof *dphi);
    for (size_t corner = 0; corner < corners; corner++)
        phi[corner] /= sum;
    for (size_t b = 0; b < cube->bits; b++) {
        double mean = 0; /* of the sign of bit b */
        for (size_t corner = 0; corner < corners; corner++)
            mean += phi[corner] * (corner >> b & 1 ? 1 : -1);
        for (size_t corner = 0; corner < corners; corner++)
            for (size_t c = 0; c < d; c++)
                dphi[corner * d + c] += phi[corner] * ((corner >> b & 1 ? 1 : -1) - mean) * cube->sharpness *
                                        (1 - turned[b] * turned[b]) *
                                        (double)cube->planes[(b * cube->tables + table) * d + c];
    }
}

static double kernel(const void *self, const double *query, const double *key, size_t d, double *dquery,
                     double *dkey)
{
    enum { CORNERS = 1 << MOST_BITS };
    const struct cube *cube = self;
    double f[CORNERS], g[CORNERS], df[CORNERS * MOST_DIM], dg[CORNERS * MOST_DIM], sum = 0;
    memset(dquery, 0, d * sizeof *dquery);
    memset(dkey, 0, d * sizeof *dkey);
    for (size_t table = 0; table < cube->tables; table++) {
        weights(cube, table, query, d, f, df);
        weights(cube, table, key, d, g, dg);
        for (size_t corner = 0; corner < (size_t)1 << cube->bits; corner++) {
            sum += f[corner] * g[corner];
            for (size_t c = 0; c < d; c++) {
                dquery[c] += df[corner * d + c] * g[corner];
                dkey[c] += dg[corner * d + c] * f[corner];
            }
        }
    }
    return sum;
}

static void check_shape(const char *text, struct cube cube, size_t n_q, size_t n_k, size_t d, size_t d_v,
                        bool causal)
{
    void *options = group_case_options("race", text);
    struct attention_case data = kernel_case_new("race", options, n_q, n_k, d, d_v, causal);
    random_normals(random_key(data.call_key, RANDOM_FEATURES, 0), 0, cube.planes,
                   cube.tables * cube.bits * d);
    for (size_t i = 0; i < n_q * d; i++)
        data.query[i] *= 0.3f;
    for (size_t i = 0; i < n_k * d; i++)
        data.key[i] *= 0.3f;
    /* Sums of up to 1,000 terms of float32, with weights of products of four factors. */
    kernel_case_check(&data, &(struct case_kernel){kernel, &cube, 0, 2e-5});
    free(options);
    attention_case_free(&data);
}

static void race_is_its_kernel(void **state)
{
    (void)state;
    check_shape("num_tables=1 hash_bits=1", (struct cube){1, 1, 1, {0}}, 1, 1, 1, 1, false);
    check_shape("num_tables=3 hash_bits=2 sharpness=2.5", (struct cube){3, 2, 2.5, {0}}, 70, 130, 5, 7,
                false);
    check_shape("num_tables=1 hash_bits=1", (struct cube){1, 1, 1, {0}}, 1100, 65, 3, 2, false);
    check_shape("", (struct cube){8, 4, 1, {0}}, 64, 66, 16, 8, false);
    check_shape("num_tables=2 hash_bits=3", (struct cube){2, 3, 1, {0}}, 20, 30, 64, 3, false);
}

static void causal_race_is_its_kernel(void **state)
{
    (void)state;
    check_shape("num_tables=3 hash_bits=3 sharpness=0.7", (struct cube){3, 3, 0.7, {0}}, 63, 63, 5, 7, true);
    check_shape("num_tables=2 hash_bits=2", (struct cube){2, 2, 1, {0}}, 200, 200, 16, 8, true);
    check_shape("num_tables=1 hash_bits=1", (struct cube){1, 1, 1, {0}}, 1100, 1100, 2, 2, true);
}

static void the_oracle_is_its_own_derivative(void **state)
{
    (void)state;
    enum { D = 3 };
    struct cube cube = {2, 3, 1.3, {0}};
    random_normals(1, 0, cube.planes, cube.tables * cube.bits * D);
    kernel_case_check_derivative(&(struct case_kernel){kernel, &cube, 0, 1e-8}, D);
}

/* Queries and keys with numbers of the given size. */
static struct attention_case small_case(const void *options, size_t n_q, size_t n_k, float size)
{
    struct attention_case data = kernel_case_new("race", options, n_q, n_k, 6, 4, false);
    for (size_t i = 0; i < n_q * 6; i++)
        data.query[i] *= size;
    for (size_t i = 0; i < n_k * 6; i++)
        data.key[i] *= size;
    return data;
}

static void without_sharpness_all_keys_weigh_the_same(void **state)
{
    (void)state;
    enum { N = 90 };
    void *options = group_case_options("race", "sharpness=0");
    for (int causal = 0; causal < 2; causal++) {
        struct attention_case data = small_case(options, N, N, 1);
        data.causal = causal;
        struct attention_result result = attention_case_run(&data);
        for (size_t i = 0; i < N; i++)
            for (size_t c = 0; c < 4; c++) {
                size_t seen = causal ? i + 1 : N;
                double mean = 0;
                for (size_t j = 0; j < seen; j++)
                    mean += (double)data.value[j * 4 + c] / (double)seen;
                check_near((double)result.out[i * 4 + c], mean, 64 * FLT_EPSILON, "mean");
            }
        attention_result_free(&result);
        attention_case_free(&data);
    }
    free(options);
}

/* Hard hashing: a table's corners of two rows agree with probability (1 - angle / pi)^bits. With 256 tables
   the bias of the ratio is about 1 / 256 of its spread per table, a fifth of the 5 standard errors
   allowed. */
static void sharp_corners_collide_like_hashes(void **state)
{
    (void)state;
    enum { KEYS = 12, SEEDS = 60, D = 6, D_V = 4, BITS = 3 };
    void *options = group_case_options("race", "num_tables=256 hash_bits=3 sharpness=40");
    struct attention_case data = small_case(options, 1, KEYS, 1e4f);
    double want[D_V] = {0}, mass = 0;
    for (size_t j = 0; j < KEYS; j++) {
        double dot = 0, q = 0, k = 0;
        for (size_t c = 0; c < D; c++) {
            dot += (double)data.query[c] * (double)data.key[j * D + c];
            q += pow((double)data.query[c], 2);
            k += pow((double)data.key[j * D + c], 2);
        }
        double p = pow(1 - acos(dot / sqrt(q * k)) / acos(-1), BITS);
        mass += p;
        for (size_t c = 0; c < D_V; c++)
            want[c] += p * (double)data.value[j * D_V + c];
    }
    for (size_t c = 0; c < D_V; c++)
        want[c] /= mass;
    kernel_case_check_mean(&data, want, SEEDS);
    attention_case_free(&data);
    free(options);
}

/* A key at the opposite of its query weighs nothing in float32. */
static void a_query_without_weight_gives_zero(void **state)
{
    (void)state;
    void *options = group_case_options("race", "hash_bits=10 sharpness=40");
    struct attention_case data = small_case(options, 1, 1, 1e4f);
    for (size_t c = 0; c < 6; c++)
        data.key[c] = -data.query[c];
    struct attention_result result = attention_case_run(&data);
    for (size_t c = 0; c < 4; c++)
        assert_true(result.out[c] == 0);
    attention_result_free(&result);
    attention_case_free(&data);
    free(options);
}

static void rows_of_any_size_have_finite_results(void **state)
{
    (void)state;
    static const float sizes[] = {0, 1e-30f, 1e10f, 1e38f};
    void *options = group_case_options("race", "");
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct attention_case data = small_case(options, 5, 7, sizes[s]);
            for (size_t i = 0; i < 5 * 6; i++) /* 1e38 times a normal number may be infinite */
                data.query[i] = fminf(fmaxf(data.query[i], -FLT_MAX), FLT_MAX);
            for (size_t i = 0; i < 7 * 6; i++)
                data.key[i] = fminf(fmaxf(data.key[i], -FLT_MAX), FLT_MAX);
            data.kernels = *kernels;
            struct attention_result result = attention_case_run(&data);
            for (size_t i = 0; i < 5 * 4; i++)
                assert_true(isfinite(result.out[i]));
            for (size_t i = 0; i < 5 * 6; i++)
                assert_true(isfinite(result.dquery[i]) && isfinite(result.dkey[i]));
            attention_result_free(&result);
            attention_case_free(&data);
        }
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oracle_is_its_own_derivative),
        cmocka_unit_test(race_is_its_kernel),
        cmocka_unit_test(causal_race_is_its_kernel),
        cmocka_unit_test(without_sharpness_all_keys_weigh_the_same),
        cmocka_unit_test(sharp_corners_collide_like_hashes),
        cmocka_unit_test(a_query_without_weight_gives_zero),
        cmocka_unit_test(rows_of_any_size_have_finite_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
