/* The options of both forms: defaults, ranges, and that the exact form has none of the options of the
   sampled one.
   Bugs planted and caught: the default gradient `true`, more hashes allowed than possible.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/yoso_options.h"

#include "support/check.h"

static void defaults(void **state)
{
    (void)state;
    struct yoso_options options;
    options_preset(yoso_sampled_rows, &options);
    assert_int_equal(options.num_hashes, 32);
    assert_int_equal(options.hash_bits, 9);
    assert_int_equal(options.planes, PLANES_ORTHOGONAL);
    assert_int_equal(options.plane_pool, 0);
    assert_int_equal(options.normalize, YOSO_NORMALIZE_L2);
    assert_int_equal(options.gradient, YOSO_GRADIENT_LOWER);
    assert_int_equal(options.max_partners, 0);
    assert_int_equal(options.recompute, 0);
    options.num_hashes = -7;
    options_preset(yoso_exact_rows, &options);
    assert_int_equal(options.num_hashes, -7);
    assert_null(option_find(yoso_exact_rows, "planes"));
    assert_null(option_find(yoso_exact_rows, "plane_pool"));
    assert_null(option_find(yoso_exact_rows, "max_partners"));
}

static void texts(void **state)
{
    (void)state;
    struct host host;
    struct yoso_options options;
    host_init(&host);
    options_preset(yoso_sampled_rows, &options);
    static const char *const good[][2] = {{"num_hashes", "4096"},         {"hash_bits", "24"},
                                          {"planes", "gaussian"},         {"normalize", "sum"},
                                          {"max_partners", "2147483647"}, {"gradient", "released"},
                                          {"recompute", "true"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(option_set(&host, yoso_sampled_rows, "yoso", &options, good[i][0], good[i][1]),
                         HASHATTN_OK);
    assert_int_equal(options.num_hashes, 4096);
    assert_int_equal(options.hash_bits, 24);
    assert_int_equal(options.planes, PLANES_GAUSSIAN);
    assert_int_equal(options.normalize, YOSO_NORMALIZE_SUM);
    assert_int_equal(options.gradient, YOSO_GRADIENT_RELEASED);
    assert_int_equal(options.max_partners, INT32_MAX);
    assert_int_equal(options.recompute, 1);
    check_status(&host, option_set(&host, yoso_exact_rows, "yoso-e", &options, "gradient", "released"),
                 HASHATTN_INVALID, "lower, true");
    static const char *const bad[][2] = {{"num_hashes", "4097"}, {"num_hashes", "0"}, {"hash_bits", "25"},
                                         {"hash_bits", "0"},     {"planes", "haar"},  {"gradient", "lowest"},
                                         {"max_partners", "-1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_status(&host, option_set(&host, yoso_sampled_rows, "yoso", &options, bad[i][0], bad[i][1]),
                     HASHATTN_INVALID, bad[i][0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults), cmocka_unit_test(texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
