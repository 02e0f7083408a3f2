/* Small problems that pass through every kernel: run a second and a third time with emulators that
   AddressSanitizer and ThreadSanitizer watch (gpu_memory and gpu_races in ctest). The emulator announces its
   threads to ThreadSanitizer, so a missing barrier is a race in every run, although nothing runs in
   parallel.
   Planted and caught by the numbers: no barrier after planes are loaded, before tables are written out or
   before the sums of counts; a count written before all lanes read it; a bucket too many; warps of pairs
   that overlap; a wrong fragment index; a lost last partner, and of two the second; causal queries that do
   not see themselves, in a dense bucket too; keys after their query; rows of a dense bucket twice; no barrier
   between its rows and the sum of a tile, or after a tile is loaded; of pairs one by one, each counted in
   every hash, and causal ones of a row with itself left out. By ThreadSanitizer alone: += for atomicAdd.
   Covers: yoso_gpu.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/gpu_case.h"

static const struct gpu_case cases[] = {
    {"sum, mask", 2, 1, 70, 45, 40, 33, .mask = GPU_MASK_SOME,
     .options = "num_hashes=5 hash_bits=4 normalize=sum gradient_hashes=3"},
    {"causal, bfloat16", 1, 1, 40, 40, 32, 32, .causal = true, .half = true,
     .options = "num_hashes=3 hash_bits=3 recompute=true"},
    {"dense", 1, 1, 180, 170, 20, 20, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=1 hash_bits=1 normalize=none"},
    {"dense, causal", 1, 1, 270, 270, 20, 20, .causal = true, .inputs = GPU_INPUTS_EQUAL,
     .options = "num_hashes=1 hash_bits=1 normalize=none"},
    {"true", 1, 1, 20, 24, 20, 20, .mask = GPU_MASK_SOME,
     .options = "num_hashes=2 hash_bits=2 gradient=true"},
    {"released, causal", 1, 1, 20, 20, 32, 32, .causal = true,
     .options = "num_hashes=2 hash_bits=2 gradient=released normalize=sum"},
    {"9 bits", 1, 1, 20, 30, 128, 128, .options = "num_hashes=4 hash_bits=9 normalize=none"},
};

static void test_small(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct gpu_result want = gpu_case_run(&cases[c], NULL, 2, true),
                          got = gpu_case_run(&cases[c], "cuda", 2, true);
        for (int r = 0; r < GPU_RESULTS; r++) {
            double error = gpu_error(got.rows[r], want.rows[r], want.count[r]);
            if (!(error <= (cases[c].half ? 8e-3 : 1e-5)))
                fail_msg("%s, result %d: error %g", cases[c].name, r, error);
        }
        gpu_result_free(&want);
        gpu_result_free(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
