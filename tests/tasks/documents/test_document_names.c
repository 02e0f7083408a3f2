/* Names in order, with ids or without, until they are dropped. Planted and caught: the id beside its NUL of
   the name before; the names dropped from the end.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/documents/document_names.h"

#include <stdio.h>
#include <string.h>

#include "support/check.h"

static void names_wait_in_order(void **state)
{
    (void)state;
    struct host host;
    struct document_names names = {.count = 0};
    char file[20], id[20];
    host_init(&host);
    for (int i = 0; i < 50; i++) {
        snprintf(file, sizeof file, "file%d", i);
        snprintf(id, sizeof id, "%dX", i);
        const struct document_name name = {.file = i == 9 ? "-" : file,
                                           .id = i % 2 == 0 ? id : NULL,
                                           .id_size = i % 2 == 0 ? strlen(id) - 1 : 0,
                                           .id_is_number = i == 4};
        check_status(&host, document_names_keep(&host, &names, &name), HASHATTN_OK, NULL);
    }
    document_names_drop(&host, &names, 4);
    assert_int_equal(names.count, 46);
    assert_string_equal(names.list[0].file, "file4");
    assert_string_equal(names.list[0].id, "4");
    assert_true(names.list[0].id_is_number && !names.list[2].id_is_number && names.list[1].id == NULL);
    assert_null(document_names_file(&names.list[5]));
    assert_string_equal(document_names_file(&names.list[45]), "file49");
    document_names_free(&host, &names);
    assert_int_equal(names.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_wait_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
