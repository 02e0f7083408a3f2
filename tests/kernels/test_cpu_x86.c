/* The features that cpu_x86.c reads, compared with the compiler's own library or with Linux's list, and the
   needs of each table. Covers: isa_avx2.c isa_avx512.c isa_avx512bf16.c
   Bugs planted and caught: one bit beside the right one in four of the words; a table that needs less than
   its flags; the widest set refused; a table that asks for the features that are missing.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu_x86.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/isa.h"
#include "support/check.h"

extern const struct isa isa_avx2, isa_avx512, isa_avx512bf16, isa_amx;

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
    CHECK(X86_AVX512VBMI2, "avx512vbmi2");
}

/* Whether Linux lists a flag for the first processor; -1 without such a list. */
static int listed(const char *flag)
{
    char line[8192], word[64];
    int found = -1;
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(word, sizeof word, " %s ", flag);
    while (file != NULL && found < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "flags", 5) == 0) {
            line[strcspn(line, "\n")] = ' ';
            found = strstr(line, word) != NULL;
        }
    if (file != NULL)
        fclose(file);
    return found;
}

/* Compilers of 2022 do not know these names. */
static void tiles_are_those_that_linux_lists(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        uint64_t bit;
    } rows[] = {{"amx_tile", X86_AMX_TILE}, {"amx_int8", X86_AMX_INT8}, {"amx_bf16", X86_AMX_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (listed(rows[i].flag) >= 0)
            assert_int_equal((cpu_features() & rows[i].bit) != 0, listed(rows[i].flag));
        else
            print_message("SKIPPED: %s: no list of flags\n", rows[i].flag);
}

/* The flags in cmake/isas.cmake allow the compiler to use every one of these features. */
static void tables_need_what_they_are_compiled_for(void **state)
{
    (void)state;
    const uint64_t avx2 = X86_FMA | X86_AVX2;
    const uint64_t avx512 = avx2 | X86_AVX512F | X86_AVX512DQ | X86_AVX512BW | X86_AVX512VL;
    assert_true(isa_avx2.needs == avx2);
    assert_true(isa_avx512.needs == avx512);
    const uint64_t avx512bf16 = avx512 | X86_AVX512VNNI | X86_AVX512BF16;
    assert_true(isa_avx512bf16.needs == avx512bf16);
    assert_true(isa_amx.needs == (avx512bf16 | X86_AVX512VBMI2 | X86_AMX_TILE | X86_AMX_INT8 | X86_AMX_BF16));
}

/* Without a cap, a table is available exactly if the processor has the features it needs and the system
   grants what it asks for. */
static void tables_run_where_their_needs_are_met(void **state)
{
    (void)state;
    const struct isa *const isas[] = {&isa_ref, &isa_avx2, &isa_avx512, &isa_avx512bf16, &isa_amx};
    const char *old = getenv("HASHATTN_ISA"), *why;
    char *kept = old == NULL ? NULL : strdup(old);
    unsetenv("HASHATTN_ISA");
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        bool met = (isas[i]->needs & ~cpu_features()) == 0;
        met = met && (isas[i]->granted == NULL || isas[i]->granted());
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
        cmocka_unit_test(tiles_are_those_that_linux_lists),
        cmocka_unit_test(tables_need_what_they_are_compiled_for),
        cmocka_unit_test(tables_run_where_their_needs_are_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
