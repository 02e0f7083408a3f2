/* The clock is one that nobody sets. SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/time_limit.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/shared/tool/tool.h"

static void *wait_beside(void *argument)
{
    struct time_limit *limit = argument;
    int code = 0;
    sigset_t all;
    sigfillset(&all); /* handlers run on the threads that they know */
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_mutex_lock(&limit->lock);
    while (!limit->done && code == 0)
        code = pthread_cond_timedwait(&limit->over, &limit->lock, &limit->until);
    if (!limit->done) {
        fprintf(stderr, "hashattn: %s\n", limit->sentence);
        fflush(stderr);
        _exit(EXIT_WORK); /* exit would call what hangs */
    }
    pthread_mutex_unlock(&limit->lock);
    return NULL;
}

void time_limit_begin(struct time_limit *limit, double seconds, const char *format, ...)
{
    pthread_condattr_t attributes;
    *limit = (struct time_limit){.done = false};
    if (!(seconds > 0))
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(limit->sentence, sizeof limit->sentence, format, list);
    va_end(list);
    clock_gettime(CLOCK_MONOTONIC, &limit->until);
    double whole = floor(seconds);
    limit->until.tv_sec += (time_t)whole;
    limit->until.tv_nsec += (long)((seconds - whole) * 1e9);
    if (limit->until.tv_nsec >= 1000000000) {
        limit->until.tv_nsec -= 1000000000;
        limit->until.tv_sec++;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&limit->lock, NULL);
    pthread_cond_init(&limit->over, &attributes);
    pthread_condattr_destroy(&attributes);
    limit->started = pthread_create(&limit->thread, NULL, wait_beside, limit) == 0;
}

void time_limit_end(struct time_limit *limit)
{
    if (!limit->started)
        return;
    pthread_mutex_lock(&limit->lock);
    limit->done = true;
    pthread_cond_signal(&limit->over);
    pthread_mutex_unlock(&limit->lock);
    pthread_join(limit->thread, NULL);
    pthread_cond_destroy(&limit->over);
    pthread_mutex_destroy(&limit->lock);
}
