/* Gradients of yoso on a device beside those of the processor, from pairs in tiles, in dense buckets and
   one by one, up to 1e-5 of the largest number (bfloat16: the rounding of both).
   Found with sums that are cut as in tensor cores: those of many tiles, 3 times as far off as rounded ones.
   Covers: yoso_gpu.c yoso_gpu_memory.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "gpu/gpu_cases.h"

static const struct gpu_case more[] = {
    {"2 of 9 hashes", 2, 2, 60, 70, 64, 64, .options = "num_hashes=9 hash_bits=3 gradient_hashes=2"},
    {"9 of 20 hashes, apart", 2, 1, 40, 50, 32, 32, .apart = true,
     .options = "num_hashes=20 hash_bits=3 gradient_hashes=9"},
    {"dense bucket", 1, 1, 300, 280, 32, 32, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=2 hash_bits=4 normalize=none"},
    {"dense buckets, sum", 1, 1, 600, 500, 32, 20, .options = "num_hashes=2 hash_bits=1 normalize=sum"},
    {"dense beside sparse", 1, 1, 400, 300, 32, 32, .inputs = GPU_INPUTS_CLUSTERED,
     .options = "num_hashes=2 hash_bits=2"},
    {"many partners, causal", 1, 1, 200, 200, 32, 32, .causal = true, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=2 hash_bits=2 normalize=none"},
    {"dense, causal", 2, 1, 300, 300, 32, 32, .causal = true, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=2 hash_bits=4 normalize=none"},
    {"dense, causal, sum, mask", 1, 1, 700, 700, 32, 20, .causal = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=2 hash_bits=1 normalize=sum"},
    {"few partners, causal, sum", 1, 1, 90, 90, 64, 64, .causal = true,
     .options = "num_hashes=8 hash_bits=7 normalize=sum"},
    {"few partners, bfloat16", 1, 1, 90, 90, 64, 64, .half = true, .options = "num_hashes=8 hash_bits=7"},
    {"dense, bfloat16", 1, 1, 200, 190, 32, 32, .half = true, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=2 hash_bits=4 normalize=none"},
    {"sum, recompute", 1, 1, 50, 60, 64, 64,
     .options = "num_hashes=6 hash_bits=4 normalize=sum recompute=true"},
    {"true", 2, 2, 60, 70, 64, 64, .options = "num_hashes=9 hash_bits=4 gradient=true"},
    {"true, sum, mask, causal", 2, 1, 60, 60, 33, 20, .causal = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=9 hash_bits=3 gradient=true normalize=sum"},
    {"true, 3 of 9 hashes", 1, 2, 50, 90, 128, 128, .inputs = GPU_INPUTS_CLUSTERED,
     .options = "num_hashes=9 hash_bits=6 gradient=true gradient_hashes=3"},
    {"true, equal rows", 1, 1, 30, 20, 32, 32, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=4 hash_bits=6 gradient=true normalize=none"},
    {"true, edges", 1, 1, 33, 40, 64, 64, .inputs = GPU_INPUTS_EDGES,
     .options = "num_hashes=13 hash_bits=7 gradient=true"},
    {"true, bfloat16", 2, 1, 50, 60, 64, 64, .half = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=6 hash_bits=3 gradient=true"},
    {"released", 2, 2, 60, 70, 64, 64, .options = "num_hashes=40 hash_bits=4 gradient=released"},
    {"released, sum, mask, causal", 2, 1, 60, 60, 33, 20, .causal = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=9 hash_bits=3 gradient=released normalize=sum recompute=true"},
    {"released, 1 bit", 4, 2, 0, 0, 32, 32, unequal, fewer,
     .options = "num_hashes=7 hash_bits=1 gradient=released"},
    {"bfloat16, mask", 2, 1, 50, 60, 64, 64, .half = true, .mask = GPU_MASK_SOME,
     .options = "num_hashes=6 hash_bits=3"},
};

/* Rows of 0 share one bucket, so the rounding of their common output adds up in its dV. Equal rows have many
   partners of one sign, whose sum is off if each addition is. */
static double bound_of(const struct gpu_case *of, int result)
{
    if (of->half)
        return 8e-3;
    if (of->inputs == GPU_INPUTS_EQUAL)
        return 2.5e-6;
    return of->inputs == GPU_INPUTS_EDGES && result == GPU_DVALUE ? 5e-5 : 1e-5;
}

static int compare_one(const struct gpu_case *of)
{
    struct gpu_result want = gpu_case_run(of, NULL, 11, true), got = gpu_case_run(of, "cuda", 11, true);
    int bad = 0;
    printf("%-24s", of->name);
    for (int r = 0; r < GPU_RESULTS; r++) {
        double error = gpu_error(got.rows[r], want.rows[r], want.count[r]);
        printf(" %.1e", error);
        bad += !(error <= bound_of(of, r));
    }
    printf("%s\n", bad > 0 ? "  FAILED" : "");
    gpu_result_free(&want);
    gpu_result_free(&got);
    return bad;
}

static void compare(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t c = 0; c < GPU_CASES; c++)
        bad += compare_one(&gpu_cases[c]);
    for (size_t c = 0; c < sizeof more / sizeof *more; c++)
        bad += compare_one(&more[c]);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compare)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
