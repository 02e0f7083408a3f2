/* The middle of lists of levels, and lists that differ in number or in one level. Bugs planted and caught:
   the upper one of two levels that are as near; the last level not looked at; lists of different lengths
   equal.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/quantiles.h"

#include "support/check.h"

static void the_middle_is_nearest_to_a_half(void **state)
{
    (void)state;
    assert_int_equal(quantiles_middle(&(struct quantiles){0}), 0);
    assert_int_equal(quantiles_middle(&(struct quantiles){1, {0.9}}), 0);
    assert_int_equal(quantiles_middle(&(struct quantiles){3, {0.1, 0.5, 0.9}}), 1);
    assert_int_equal(quantiles_middle(&(struct quantiles){2, {0.25, 0.75}}), 0);
    assert_int_equal(quantiles_middle(&(struct quantiles){3, {0.1, 0.2, 0.7}}), 2);
}

static void lists_are_equal_level_by_level(void **state)
{
    (void)state;
    const struct quantiles two = {2, {0.1, 0.9}}, other = {2, {0.1, 0.8}}, one = {1, {0.1}};
    assert_true(quantiles_equal(&two, &(struct quantiles){2, {0.1, 0.9, 0.95}}));
    assert_false(quantiles_equal(&two, &other) || quantiles_equal(&two, &one) || quantiles_equal(&one, &two));
    assert_true(quantiles_equal(&(struct quantiles){0}, &(struct quantiles){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_middle_is_nearest_to_a_half),
        cmocka_unit_test(lists_are_equal_level_by_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
