/* What isa.c reads from the processor against the compiler's own library, which asks the same in its own way.
   Bugs planted and caught: one bit beside the right one in three of the words; the two widest exchanged.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include "support/check.h"

static void the_widest_is_what_the_compiler_sees(void **state)
{
    (void)state;
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
    assert_int_equal(isa_widest(), bf16 ? ISA_AVX512BF16 : avx512 ? ISA_AVX512 : avx2 ? ISA_AVX2 : ISA_REF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_widest_is_what_the_compiler_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
