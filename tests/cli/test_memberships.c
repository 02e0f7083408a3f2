/* The tool's names of memberships are those that the library reports. Bugs planted and caught: a name that
   differs; one too few. Covers: memberships.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/memberships.c"
#include "parts/inspect/inspected.h"
#include "support/check.h"

static void the_names_are_those_of_the_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < MEMBERSHIPS; i++) {
        assert_non_null(inspected_names[i]);
        assert_string_equal(compared_memberships[i], inspected_names[i]);
    }
    assert_null(inspected_names[MEMBERSHIPS]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_names_are_those_of_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
