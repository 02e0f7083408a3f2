/* The dispatch: no empty slot in any table, names, the cap. What the slots compute is in test_slots_*.c.
   Covers: kernels.c ref.c isa_avx2.c isa_avx512.c isa_avx512bf16.c
   Bugs planted and caught: an empty slot; the cap ignored by name or by the list of all; names exchanged;
   nonsense in the environment accepted; the widest set of this processor refused.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/isa.h"
#include "support/check.h"

static void no_table_has_an_empty_slot(void **state)
{
    (void)state;
    size_t tables = 0;
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++, tables++) {
        /* A struct of pointers alone: every pointer-sized piece of it must be set. */
        void *slots[sizeof(struct kernels) / sizeof(void *)];
        memcpy(slots, *all, sizeof slots);
        for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
            if (slots[i] == NULL)
                fail_msg("table %s: slot %zu is empty", (*all)->name, i);
    }
    assert_true(tables >= 1);
}

static void every_name_gives_its_table_or_a_reason(void **state)
{
    (void)state;
    for (const char *const *name = kernels_names(); *name != NULL; name++) {
        const char *why = NULL;
        const struct kernels *kernels = kernels_named(*name, &why);
        if (kernels != NULL)
            assert_string_equal(kernels->name, *name);
        else
            print_message("SKIPPED: %s: %s\n", *name, why);
    }
    const char *why = NULL;
    assert_non_null(kernels_named(NULL, &why));
    assert_ptr_equal(kernels_named(NULL, &why), kernels_named("auto", &why));
    assert_null(kernels_named("sse9", &why));
    assert_non_null(why);
}

/* Without a cap: what this processor runs, and the reason for the rest. */
static void what_runs_here_is_given(void **state)
{
    (void)state;
    const char *old = getenv("HASHATTN_ISA"), *why = NULL;
    char *kept = old == NULL ? NULL : strdup(old);
    unsetenv("HASHATTN_ISA");
    enum isa isa = ISA_REF;
    for (const char *const *name = kernels_names(); *name != NULL; name++, isa++) {
        const struct kernels *kernels = kernels_named(*name, &why);
        if (isa <= isa_widest())
            assert_ptr_equal(kernels, kernels_all()[isa]);
        else {
            assert_null(kernels);
            assert_non_null(strstr(why, "this processor or its operating system does not run"));
        }
    }
    assert_int_equal(isa, ISA_COUNT);
    assert_ptr_equal(kernels_named("auto", &why), kernels_all()[isa_widest()]);
    assert_null(kernels_all()[isa_widest() + 1]);
    if (isa_widest() > ISA_REF) {
        setenv("HASHATTN_ISA", "ref", 1);
        assert_null(kernels_named(kernels_names()[isa_widest()], &why));
        assert_non_null(strstr(why, "HASHATTN_ISA forbids"));
    }
    assert_null(kernels_named("sse9", &why));
    assert_non_null(strstr(why, "the instruction set is not one of ref, avx2, avx512, avx512bf16, auto"));
    if (kept == NULL)
        unsetenv("HASHATTN_ISA");
    else
        setenv("HASHATTN_ISA", kept, 1);
    free(kept);
}

static void the_environment_caps(void **state)
{
    (void)state;
    const char *old = getenv("HASHATTN_ISA");
    char *kept = old == NULL ? NULL : strdup(old);
    for (const char *const *name = kernels_names(); *name != NULL; name++) {
        unsetenv("HASHATTN_ISA");
        const char *why = NULL;
        if (kernels_named(*name, &why) == NULL)
            continue;
        setenv("HASHATTN_ISA", *name, 1);
        assert_string_equal(kernels_named(NULL, &why)->name, *name);
        /* The last of all is the cap, and what stands above it is refused. */
        const struct kernels *const *all = kernels_all();
        while (all[1] != NULL)
            all++;
        assert_string_equal((*all)->name, *name);
        for (const char *const *wider = name + 1; *wider != NULL; wider++)
            assert_null(kernels_named(*wider, &why));
    }
    setenv("HASHATTN_ISA", "nonsense", 1);
    const char *why = NULL;
    assert_null(kernels_named(NULL, &why));
    assert_non_null(strstr(why, "HASHATTN_ISA"));
    assert_string_equal(kernels_all()[0]->name, "ref");
    assert_null(kernels_all()[1]);
    if (kept == NULL)
        unsetenv("HASHATTN_ISA");
    else
        setenv("HASHATTN_ISA", kept, 1);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_table_has_an_empty_slot),
        cmocka_unit_test(every_name_gives_its_table_or_a_reason),
        cmocka_unit_test(what_runs_here_is_given),
        cmocka_unit_test(the_environment_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
