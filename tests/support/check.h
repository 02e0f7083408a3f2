/* Included by every test: cmocka, and the checks that it lacks.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host.h"
#include "support/tables.h"

/* Fails unless |got - want| <= bound, with the three numbers and `what`. NaN fails. */
void check_near(double got, double want, double bound, const char *what);
/* The same for arrays; bound applies to each element. */
void check_near_all(const float *got, const double *want, size_t n, double bound, const char *what);
/* Fails unless the bytes are equal. */
void check_same_bits(const void *a, const void *b, size_t bytes, const char *what);
/* Fails unless the status is as wanted and, for a failure, the message contains `part`. */
void check_status(const struct host *host, hashattn_status got, hashattn_status want, const char *part);

/* A host whose allocations fail from the n-th on (n counts from 0; negative: never), or only the n-th. It
   counts blocks not released and detects writes past a block. Failing only one allocation reveals a status
   that is lost. */
struct failing_host {
    struct host host;
    long until_failure, outstanding, calls;
    bool once;
    size_t largest; /* bytes of the largest block requested */
};
void failing_host_init(struct failing_host *failing, long until_failure);

/* `count` floats that end at an unmapped page, so that an access past them crashes. Free with guard_free. */
float *guard_floats(size_t count);
void guard_free(float *floats, size_t count);

#endif
