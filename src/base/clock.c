/* Wraps clock_gettime and getrusage.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#if defined(__APPLE__)
enum { RESIDENT_UNIT = 1 }; /* bytes of ru_maxrss */
#else
enum { RESIDENT_UNIT = 1024 };
#endif

size_t clock_peak_resident(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * RESIDENT_UNIT : 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double clock_median(double *seconds, size_t count)
{
    qsort(seconds, count, sizeof *seconds, compare);
    return count % 2 == 1 ? seconds[count / 2] : 0.5 * (seconds[count / 2 - 1] + seconds[count / 2]);
}
