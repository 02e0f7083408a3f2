/* The features that cpu_x86.c reads, compared with the compiler's own library, and the needs of each table.
   Covers: isa_avx2.c isa_avx512.c isa_avx512bf16.c
   Bugs planted and caught: one bit beside the right one in three of the words; a table that needs less than
   its flags; the widest set refused; a table that asks for the features that are missing.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu_x86.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/isa.h"
#include "support/check.h"

extern const struct isa isa_avx2, isa_avx512, isa_avx512bf16;

/* The argument of __builtin_cpu_supports must be a literal. */
#define CHECK(bit, name) assert_int_equal((cpu_features() & (bit)) != 0, __builtin_cpu_supports(name) != 0)

static void features_are_those_that_the_compiler_sees(void **state)
{
    (void)state;
    __builtin_cpu_init();
    CHECK(X86_FMA, "fma");
    CHECK(X86_AVX2, "avx2");
    CHECK(X86_AVX512F, "avx512f");
    CHECK(X86_AVX512DQ, "avx512dq");
    CHECK(X86_AVX512BW, "avx512bw");
    CHECK(X86_AVX512VL, "avx512vl");
    CHECK(X86_AVX512VNNI, "avx512vnni");
    CHECK(X86_AVX512BF16, "avx512bf16");
}

/* The flags in cmake/isas.cmake allow the compiler to use every one of these features. */
static void tables_need_what_they_are_compiled_for(void **state)
{
    (void)state;
    const uint64_t avx2 = X86_FMA | X86_AVX2;
    const uint64_t avx512 = avx2 | X86_AVX512F | X86_AVX512DQ | X86_AVX512BW | X86_AVX512VL;
    assert_true(isa_avx2.needs == avx2);
    assert_true(isa_avx512.needs == avx512);
    assert_true(isa_avx512bf16.needs == (avx512 | X86_AVX512VNNI | X86_AVX512BF16));
}

/* Without a cap, a table is available exactly if the processor has the features it needs. */
static void tables_run_where_their_needs_are_met(void **state)
{
    (void)state;
    const struct isa *const isas[] = {&isa_ref, &isa_avx2, &isa_avx512, &isa_avx512bf16};
    const char *old = getenv("HASHATTN_ISA"), *why;
    char *kept = old == NULL ? NULL : strdup(old);
    unsetenv("HASHATTN_ISA");
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        bool met = (isas[i]->needs & ~cpu_features()) == 0;
        assert_ptr_equal(kernels_named(isas[i]->kernels.name, &why), met ? &isas[i]->kernels : NULL);
    }
    if (kept != NULL)
        setenv("HASHATTN_ISA", kept, 1);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_that_the_compiler_sees),
        cmocka_unit_test(tables_need_what_they_are_compiled_for),
        cmocka_unit_test(tables_run_where_their_needs_are_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
