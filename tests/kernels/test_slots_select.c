/* Counting and listing above a bound on every table, against a plain loop, exactly. Bugs planted and caught:
   the missing lanes of a tail counted; a vector of a block left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

static size_t counted(const float *x, size_t n, float bound)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += x[i] > bound;
    return count;
}

static void check(const struct kernels *kernels, const float *x, size_t n, float bound)
{
    uint32_t list[400];
    char text[128];
    size_t count = counted(x, n, bound);
    check_near((double)kernels->rows.count_above(x, n, bound), (double)count, 0,
               of(text, "rows.count_above", kernels, n, count));
    list[count] = 77;
    kernels->rows.list_above(list, x, n, bound);
    assert_int_equal(list[count], 77);
    for (size_t i = 0, at = 0; i < n; i++)
        if (x[i] > bound)
            assert_int_equal(list[at++], i);
}

static void counts_are_exact(void **state)
{
    (void)state;
    static const float bounds[] = {-INFINITY, -1.0f, -0.0f, 0.0f, 1e-40f, 0.3f, FLT_MAX, INFINITY};
    FOR_EACH_TABLE(kernels)
    for (size_t n = 0; n < 300; n += n < 70 ? 1 : 23) {
        float *x = oddities(n, n);
        for (size_t i = 0; i < n; i++)
            x[i] = i % 7 == 3 ? NAN : i % 11 == 5 ? -INFINITY : i % 13 == 6 ? INFINITY : x[i];
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
            check(kernels, x, n, bounds[b]);
        for (size_t i = 0; i < n; i++) /* each number as the bound for the rest */
            if (!isnan(x[i]))
                check(kernels, x, n, x[i]);
        guard_free(x, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
