/* Without normalisation, the mean of a device's outputs over seeds is the output of yoso-e: z-scores of each
   number, and of sum <X, X_E> / sum |X_E|^2, which finds small biases that all numbers share. The same for
   dV.
   Covers: yoso_gpu.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/gpu_case.h"

enum { SEEDS = 60, ROWS = 12, DIM = 32, COUNT = ROWS * DIM };

static void *on_device(hashattn_context *context, const float *rows)
{
    void *block;
    assert_int_equal(hashattn_device_allocate(context, COUNT * sizeof(float), &block), HASHATTN_OK);
    assert_int_equal(hashattn_device_write(context, block, rows, COUNT * sizeof(float)), HASHATTN_OK);
    return block;
}

/* Forward and backward; out and dv are those of the host. */
static void run(hashattn_context *context, hashattn_attention *attention, const hashattn_array *a,
                uint64_t seed, void *saved)
{
    hashattn_problem p;
    hashattn_problem_default(&p);
    p.num_queries = p.num_keys = ROWS, p.head_dim = p.value_dim = DIM, p.seed = seed;
    if (hashattn_attention_forward(attention, &p, &a[0], &a[1], &a[2], &a[3], saved, NULL) != HASHATTN_OK ||
        hashattn_attention_backward(attention, &p, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &a[6], &a[7],
                                    saved, NULL) != HASHATTN_OK)
        fail_msg("%s", hashattn_context_message(context));
}

static void check(double (*sum)[2], const double *of_seed, const float *exact)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double average = sum[i][0] / SEEDS, variance = sum[i][1] / SEEDS - average * average;
        double z = (average - (double)exact[i]) / sqrt(fmax(variance, 1e-12) / SEEDS);
        assert_true(fabs(z) < 5.5);
    }
    for (size_t s = 0; s < SEEDS; s++) {
        mean += of_seed[s] / SEEDS;
        square += of_seed[s] * of_seed[s] / SEEDS;
    }
    assert_true(fabs(mean - 1) < 4 * sqrt((square - mean * mean) / SEEDS));
}

static void test_unbiased(void **state)
{
    (void)state;
    static float rows[8][COUNT], got[2][COUNT];
    static double sum[2][COUNT][2], of_seed[2][SEEDS];
    for (uint64_t i = 0; i < 8; i++)
        hashattn_fill_normal(1, i, rows[i], COUNT);
    for (size_t i = 0; i < COUNT; i++) /* keys near their queries */
        rows[1][i] = rows[0][i] + 0.6f * rows[1][i];
    hashattn_context *host = gpu_context(NULL), *context = gpu_context("cuda");
    hashattn_attention *exact,
        *attention = gpu_attention(context, "num_hashes=16 hash_bits=4 normalize=none");
    assert_int_equal(hashattn_attention_new(host, "yoso-e", &exact), HASHATTN_OK);
    assert_int_equal(hashattn_attention_set(exact, "hash_bits", "4"), HASHATTN_OK);
    assert_int_equal(hashattn_attention_set(exact, "normalize", "none"), HASHATTN_OK);
    hashattn_array a[8], on_host[8];
    for (size_t i = 0; i < 8; i++) {
        on_host[i] = hashattn_array_of_rows(rows[i], 1, ROWS, DIM);
        a[i] = hashattn_array_of_rows(on_device(context, rows[i]), 1, ROWS, DIM);
    }
    static _Alignas(64) unsigned char saved[1 << 16];
    run(host, exact, on_host, 0, saved);
    const float *wanted[2] = {rows[3], rows[7]};
    void *device_saved;
    assert_int_equal(hashattn_device_allocate(context, 1 << 16, &device_saved), HASHATTN_OK);
    for (uint64_t s = 0; s < SEEDS; s++) {
        run(context, attention, a, s, device_saved);
        for (size_t r = 0; r < 2; r++) {
            double along = 0, square = 0;
            assert_int_equal(hashattn_device_read(context, got[r], a[r == 0 ? 3 : 7].data, sizeof got[r]),
                             HASHATTN_OK);
            for (size_t i = 0; i < COUNT; i++) {
                sum[r][i][0] += (double)got[r][i];
                sum[r][i][1] += (double)got[r][i] * (double)got[r][i];
                along += (double)got[r][i] * (double)wanted[r][i];
                square += (double)wanted[r][i] * (double)wanted[r][i];
            }
            of_seed[r][s] = along / square;
        }
    }
    for (size_t r = 0; r < 2; r++)
        check(sum[r], of_seed[r], wanted[r]);
    for (size_t i = 0; i < 8; i++)
        hashattn_device_release(context, a[i].data);
    hashattn_device_release(context, device_saved);
    hashattn_attention_free(attention);
    hashattn_attention_free(exact);
    hashattn_context_free(context);
    hashattn_context_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unbiased)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
