/* The clock against a sleep, the resident set against a block that is written. Bugs tried and caught:
   nanoseconds counted as microseconds, seconds left out, kibibytes returned as bytes.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/check.h"

static void the_clock_counts_seconds(void **state)
{
    (void)state;
    double start = clock_seconds(), last = start;
    for (int i = 0; i < 1000; i++) {
        double now = clock_seconds();
        assert_true(now >= last);
        last = now;
    }
    start = clock_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    double slept = clock_seconds() - start;
    assert_true(slept >= 0.030); /* never less; how much more depends on the machine */
    assert_true(slept < 20);
    /* Also across the start of a second. */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(clock_seconds() >= (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    assert_true(clock_seconds() < (double)now.tv_sec + 20);
}

static void the_peak_grows_with_written_memory(void **state)
{
    (void)state;
    size_t before = clock_peak_resident(), size = before + (64u << 20);
    assert_true(before > 100000); /* no process with libc is smaller */
    char *block = malloc(size);
    memset(block, 1, size);
    assert_int_equal(block[size / 2], 1);
    size_t after = clock_peak_resident();
    free(block);
    assert_true(after >= size && after < 4 * size + (256u << 20));
    assert_true(clock_peak_resident() >= after); /* a peak never falls */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_counts_seconds),
        cmocka_unit_test(the_peak_grows_with_written_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
