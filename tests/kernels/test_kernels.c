/* The dispatch: no empty slot in any table, names, the cap. What the slots compute is in test_slots_*.c.
   Covers: kernels.c ref.c cpu_none.c
   Bugs planted and caught: an empty slot; the cap ignored by name or by the list of all; names exchanged;
   nonsense in the environment accepted; a message that does not list every name.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/isa.h"
#include "support/check.h"

static void no_table_has_an_empty_slot(void **state)
{
    (void)state;
    size_t tables = 0;
    for (const struct kernels *const *all = kernels_all(); *all != NULL; all++, tables++) {
        /* A struct of pointers only: every pointer-sized piece must be set. */
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

/* The number of names and the sentence that lists them. */
static size_t count_names(char *list, size_t size)
{
    size_t count = 0, at = 0;
    for (const char *const *name = kernels_names(); *name != NULL; name++, count++)
        at += (size_t)snprintf(list + at, size - at, "%s, ", *name);
    snprintf(list + at, size - at, "auto");
    return count;
}

/* Without a cap: each table that this processor runs, or the reason for its refusal. ref runs everywhere. */
static void what_runs_here_is_given(void **state)
{
    (void)state;
    const char *old = getenv("HASHATTN_ISA"), *why = NULL;
    char *kept = old == NULL ? NULL : strdup(old), list[256];
    unsetenv("HASHATTN_ISA");
    const uint64_t features = cpu_features();
    const struct kernels *widest = NULL;
    size_t running = 0, count = count_names(list, sizeof list);
    for (size_t i = 0; i < count; i++) {
        const struct kernels *kernels = kernels_named(kernels_names()[i], &why);
        if (kernels != NULL) {
            const struct isa *isa = (const void *)((const char *)kernels - offsetof(struct isa, kernels));
            assert_true((isa->needs & ~features) == 0 && (isa->granted == NULL || isa->granted()));
            assert_ptr_equal(kernels, kernels_all()[running++]);
            widest = kernels;
        } else {
            assert_non_null(strstr(why, "this processor or its operating system does not run"));
        }
    }
    assert_string_equal(kernels_names()[0], "ref");
    assert_ptr_equal(kernels_named("ref", &why), &isa_ref.kernels);
    assert_ptr_equal(kernels_named("auto", &why), widest);
    assert_null(kernels_all()[running]);
    if (running > 1) {
        setenv("HASHATTN_ISA", "ref", 1);
        assert_null(kernels_named(widest->name, &why));
        assert_non_null(strstr(why, "HASHATTN_ISA forbids"));
    }
    assert_null(kernels_named("sse9", &why));
    assert_non_null(strstr(why, "the instruction set is not one of "));
    assert_non_null(strstr(why, list));
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
        /* The last table is the cap; wider ones are refused. */
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
