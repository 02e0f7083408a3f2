/* Replaces the C library's clock_gettime in the tests.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/fake_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

double fake_clock_tick;

int clock_gettime(clockid_t id, struct timespec *now)
{
    static _Thread_local double seconds;
    if (fake_clock_tick == 0)
        return (int)syscall(SYS_clock_gettime, id, now);
    seconds += fake_clock_tick;
    now->tv_sec = (time_t)seconds;
    now->tv_nsec = (long)((seconds - (double)now->tv_sec) * 1e9);
    return 0;
}
