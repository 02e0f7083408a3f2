/* The loops in registers on every table. Bugs planted and caught: a bfloat16 loop of half its operations, or
   of one product of each pair, or of two tiles in three.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static void the_float32_loop_ends(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    {
        /* x <- x / 2 + 1 converges to 2 in each chain; the number of chains is an integer. */
        float sum = kernels->peak.fused_loop(64);
        assert_true(sum >= 2 && fmodf(sum, 2) == 0);
    }
}

/* Every multiply-add adds 1/4 to its chain, and chain c of the lanes begins at c < 12. */
static void the_bf16_loop_does_its_operations(void **state)
{
    (void)state;
    FOR_EACH_TABLE(kernels)
    {
        enum { ROUNDS = 4 };
        float starts = kernels->peak.bf16_loop(ROUNDS) - ROUNDS * FUSED_LOOP_OPERATIONS / 8.0f;
        assert_true(starts >= 0 && starts <= 16 * 66 && fmodf(starts, 66) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_float32_loop_ends),
        cmocka_unit_test(the_bf16_loop_does_its_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
