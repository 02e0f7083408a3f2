/* Peak rates of the machine, and random inputs. Tests only that rates exist and are at least those of one
   thread. Planted and caught: the stream not part of the key; NaN not returned for what is not measured.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "support/api_context.h"

static void peaks_are_positive_and_add_up(void **state)
{
    (void)state;
    hashattn_peak one = {.struct_size = sizeof one}, two = {.struct_size = sizeof two};
    hashattn_context *context = context_with(1, NULL);
    check_ok(context, hashattn_measure_peak(context, 0.05, &one));
    hashattn_context_free(context);
    context = context_with(4, NULL);
    check_ok(context, hashattn_measure_peak(context, 0.05, &two));
    hashattn_context_free(context);
    assert_true(one.float32_gflops > 0.1 && isfinite(one.float32_gflops));
    assert_true(one.memory_gbytes_per_s > 0.01 && isfinite(one.memory_gbytes_per_s));
    assert_true(one.bf16_gflops > 0.1);
    /* hashing consists of products, so it cannot exceed the peak of narrow ones, apart from clock changes */
    assert_true(one.hash_gflops > 0.1 && two.hash_gflops > 0.1);
    assert_true(one.hash_gflops < 8 * one.bf16_gflops + 8 * one.float32_gflops);
    assert_true(two.float32_gflops > 0.1 && two.memory_gbytes_per_s > 0.01);
    assert_int_equal(one.struct_size, sizeof one);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_peak peak = {.struct_size = sizeof peak};
    check_call(context, hashattn_measure_peak(context, 0, &peak), HASHATTN_INVALID,
               "seconds is 0, allowed are 0.01 to 60");
    check_call(context, hashattn_measure_peak(context, 61, &peak), HASHATTN_INVALID, "seconds is 61");
    check_call(context, hashattn_measure_peak(context, NAN, &peak), HASHATTN_INVALID, "seconds is ");
    check_call(context, hashattn_measure_peak(context, 1, NULL), HASHATTN_INVALID, "peak is NULL");
    assert_int_equal(hashattn_measure_peak(NULL, 1, &peak), HASHATTN_INVALID);
    hashattn_context_free(context);
}

static hashattn_status measure(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_peak peak = {.struct_size = sizeof peak};
    return hashattn_measure_peak(context, 0.01, &peak);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    check_every_failing_allocation(measure, NULL);
}

static void resident_memory_grows_and_never_shrinks(void **state)
{
    (void)state;
    size_t before = hashattn_peak_resident_bytes();
    assert_true(before > 100000);
    assert_true(hashattn_peak_resident_bytes() >= before);
}

static void seed_and_stream_determine_normals(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static float a[COUNT], b[COUNT];
    hashattn_fill_normal(3, 0, a, COUNT);
    hashattn_fill_normal(3, 0, b, 100);
    check_same_bits(a, b, 100 * sizeof *a, "shorter");
    double mean = 0, square = 0, together = 0;
    hashattn_fill_normal(3, 1, b, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        mean += a[i];
        square += (double)a[i] * a[i];
        together += (double)a[i] * b[i];
    }
    /* within five standard deviations */
    check_near(mean / COUNT, 0, 5 / sqrt(COUNT), "mean");
    check_near(square / COUNT, 1, 5 * sqrt(2.0 / COUNT), "variance");
    check_near(together / COUNT, 0, 5 / sqrt(COUNT), "correlation of two streams");
    hashattn_fill_normal(4, 0, b, COUNT);
    together = 0;
    for (size_t i = 0; i < COUNT; i++)
        together += (double)a[i] * b[i];
    check_near(together / COUNT, 0, 5 / sqrt(COUNT), "correlation of two seeds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_positive_and_add_up),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(resident_memory_grows_and_never_shrinks),
        cmocka_unit_test(seed_and_stream_determine_normals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
