/* A time limit for a call that may never return and knows none itself, such as joining other processes: a
   thread waits beside it, and ends the process with a sentence. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TIME_LIMIT_H
#define CLI_TIME_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

struct time_limit {
    pthread_mutex_t lock;
    pthread_cond_t over;
    pthread_t thread;
    struct timespec until;
    char sentence[200];
    bool started, done;
};

/* After `seconds` the sentence is printed to stderr and the process exits with EXIT_WORK, unless
   time_limit_end was called before. 0: no limit. Without memory for a thread there is no limit either. */
void time_limit_begin(struct time_limit *limit, double seconds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void time_limit_end(struct time_limit *limit);

#endif
