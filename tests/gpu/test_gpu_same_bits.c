/* The same bits from a device: for any order of threads and blocks, with less shared memory (other
   launches), in any batch, alone, packed, padded, and with other strides.
   Covers: yoso_gpu.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/gpu_case.h"

static void assert_same(const struct gpu_result *a, const struct gpu_result *b)
{
    for (int r = 0; r < GPU_RESULTS; r++)
        assert_memory_equal(a->rows[r], b->rows[r], a->count[r] * sizeof(float));
}

static const struct gpu_case usual = {"usual",
                                      2,
                                      1,
                                      70,
                                      45,
                                      64,
                                      40,
                                      .mask = GPU_MASK_SOME,
                                      .options = "num_hashes=7 hash_bits=4 normalize=sum"};
static const struct gpu_case causal = {
    "causal", 1, 1, 60, 60, 32, 32, .causal = true, .options = "num_hashes=9 hash_bits=3"};

static const struct gpu_case few = {
    "few partners", 1, 1, 80, 90, 32, 32, .options = "num_hashes=5 hash_bits=7"};
static const struct gpu_case dense = {"dense, causal",
                                      1,
                                      1,
                                      270,
                                      270,
                                      32,
                                      32,
                                      .causal = true,
                                      .inputs = GPU_INPUTS_EQUAL,
                                      .options = "num_hashes=1 hash_bits=1 normalize=none"};

/* The results with a variable of the emulator set. */
static void compare_with(const char *name, const char *const *values)
{
    const struct gpu_case *const cases[] = {&usual, &causal, &few, &dense};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct gpu_result first = gpu_case_run(cases[c], "cuda", 3, true);
        for (const char *const *value = values; *value != NULL; value++) {
            setenv(name, *value, 1);
            struct gpu_result other = gpu_case_run(cases[c], "cuda", 3, true);
            unsetenv(name);
            assert_same(&first, &other);
            gpu_result_free(&other);
        }
        gpu_result_free(&first);
    }
}

static void test_orders(void **state)
{
    (void)state;
    static const char *const orders[] = {"reverse", "1", "2", "3", NULL};
    compare_with("CUEMU_ORDER", orders);
}

static void test_launches(void **state)
{
    (void)state;
    static const char *const limits[] = {"shared=101376", "shared=166912", NULL};
    compare_with("FAKE_CUDA", limits);
}

/* One head's rows in a batch of others and alone. */
static void test_batches(void **state)
{
    (void)state;
    static const size_t offsets[] = {0, 50, 63, 163};
    const struct gpu_case alone = {"alone", 1, 2, 50, 50, 32, 32, .options = "num_hashes=8 hash_bits=4"};
    struct gpu_case packed = alone, padded = alone;
    packed.sequences = padded.sequences = 3;
    packed.query_offsets = packed.key_offsets = padded.query_offsets = padded.key_offsets = offsets;
    padded.padded = true;
    struct gpu_result one = gpu_case_run(&alone, "cuda", 3, true),
                      many = gpu_case_run(&packed, "cuda", 3, true),
                      apart = gpu_case_run(&padded, "cuda", 3, true);
    /* Rows are drawn in order, so the first 50 are the same. */
    for (int r = 0; r < GPU_RESULTS; r++) {
        assert_memory_equal(one.rows[r], many.rows[r], one.count[r] * sizeof(float));
        assert_memory_equal(one.rows[r], apart.rows[r], one.count[r] * sizeof(float));
    }
    gpu_result_free(&one);
    gpu_result_free(&many);
    gpu_result_free(&apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
