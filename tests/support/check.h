/* What every test includes: cmocka, and the few checks that it lacks. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host.h"

/* |got - want| <= bound, or the test fails with the three numbers and `what`. NaN fails. */
void check_near(double got, double want, double bound, const char *what);
/* The same over arrays; bound is for every element. */
void check_near_all(const float *got, const double *want, size_t n, double bound, const char *what);
/* The same bits. */
void check_same_bits(const void *a, const void *b, size_t bytes, const char *what);
/* status must be as wanted and, when it is a failure, the message must hold `part`. */
void check_status(const struct host *host, hashattn_status got, hashattn_status want, const char *part);

/* A host whose allocations fail from the n-th on (n counts from 0; negative: never), or the n-th alone, and
 * which counts blocks not released, and finds what was written behind one. A status that is lost on the way
 * shows where only one allocation fails.
 */
struct failing_host {
    struct host host;
    long until_failure, outstanding, calls;
    bool once;
    size_t largest; /* bytes of a block that was asked for */
};
void failing_host_init(struct failing_host *failing, long until_failure);

/* `count` floats that end exactly at an unmapped page: one float too far is a crash. guard_free gives them
 * back. */
float *guard_floats(size_t count);
void guard_free(float *floats, size_t count);

#endif
