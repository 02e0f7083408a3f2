/* Outputs of yoso on a device beside those of the processor, for every layout and option that a device
   computes, up to 1e-5 of the largest number (bfloat16: the rounding of both).
   Covers: yoso_gpu.c yoso_gpu_memory.c driver.c images_none.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "gpu/gpu_cases.h"

static void compare(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t c = 0; c < GPU_CASES; c++) {
        struct gpu_result want = gpu_case_run(&gpu_cases[c], NULL, 7, false);
        struct gpu_result got = gpu_case_run(&gpu_cases[c], "cuda", 7, false);
        double error = gpu_error(got.rows[GPU_OUT], want.rows[GPU_OUT], want.count[GPU_OUT]);
        double bound = gpu_cases[c].half ? 8e-3 : 1e-5;
        printf("%-24s %.1e\n", gpu_cases[c].name, error);
        bad += !(error <= bound);
        gpu_result_free(&want);
        gpu_result_free(&got);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compare)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
