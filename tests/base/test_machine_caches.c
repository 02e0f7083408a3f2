/* The list of caches: of made-up folders, and of this machine. Planted and caught: instruction caches
   listed; KiB written as MiB; an entry without a size ends the list; a short buffer overrun.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/folder.h"

static void put_cache(const struct folder *folder, const char *index, const char *level, const char *type,
                      const char *size)
{
    const char *const files[][2] = {{"level", level}, {"type", type}, {"size", size}};
    char name[100];
    snprintf(name, sizeof name, "%s/%s", folder->path, index);
    assert_int_equal(mkdir(name, 0700), 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s", index, files[i][0]);
        folder_put_text(folder, name, files[i][1]);
    }
}

static void data_caches_are_listed(void **state)
{
    const struct folder *folder = *state;
    char text[64];
    machine_caches(folder->path, text, sizeof text);
    assert_string_equal(text, "");
    put_cache(folder, "index0", "1\n", "Data\n", "48K\n");
    put_cache(folder, "index1", "1\n", "Instruction\n", "32K\n");
    put_cache(folder, "index2", "2\n", "Unified\n", "\n");
    put_cache(folder, "index3", "2\n", "Unified\n", "2048K\n");
    put_cache(folder, "index4", "3\n", "Unified\n", "33792K");
    machine_caches(folder->path, text, sizeof text);
    assert_string_equal(text, "L1 48 KiB, L2 2 MiB, L3 33 MiB");
    memset(text, 'x', sizeof text);
    machine_caches(folder->path, text, 8);
    assert_string_equal(text, "L1 48 K");
    assert_int_equal(text[8], 'x');
    for (int i = 0; i < 5; i++) {
        static const char *const files[] = {"/level", "/type", "/size", ""};
        for (size_t j = 0; j < 4; j++) {
            char name[20];
            snprintf(name, sizeof name, "index%d%s", i, files[j]);
            folder_remove(folder, name);
        }
    }
}

static void this_machine_is_no_error(void **state)
{
    (void)state;
    char text[64] = "old";
    machine_caches(MACHINE_CACHES, text, sizeof text);
    assert_true(text[0] == '\0' || strncmp(text, "L1 ", 3) == 0);
    machine_caches("/nowhere", text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_caches_are_listed, folder_enter, folder_leave),
        cmocka_unit_test(this_machine_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
