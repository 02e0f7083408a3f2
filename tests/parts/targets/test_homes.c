/* The groups of tokens, from lists of groups and from the choices of tokens. Bugs planted and caught: homes
   of a token shifted by one; choices of one token for those of the next.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/homes.h"

#include "support/check.h"

static void homes_are_found(void **state)
{
    (void)state;
    uint32_t start[] = {0, 3, 3, 5}, list[] = {0, 2, 3, 1, 2}, home_start[5], home[5];
    struct members members = {3, start, list};
    struct homes homes = {home_start, home};
    homes_by_lists(&homes, &members, 4);
    static const uint32_t starts_wanted[] = {0, 1, 2, 4, 5}, wanted[] = {0, 2, 0, 2, 0};
    assert_memory_equal(home_start, starts_wanted, sizeof starts_wanted);
    assert_memory_equal(home, wanted, sizeof wanted);
    static const uint32_t choice[] = {2, 0, 1, 3};
    homes_by_choice(&homes, choice, 2, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(home_start[i] == 2 * i && home_start[i + 1] == 2 * i + 2);
    assert_memory_equal(home, choice, sizeof choice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(homes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
