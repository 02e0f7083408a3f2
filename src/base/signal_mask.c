/* Masks of the calling thread: one system call each.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/signal_mask.h"

#include <stddef.h>

void signal_mask_all(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void signal_mask_ending(sigset_t *before)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigset_t ending;
    sigemptyset(&ending);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&ending, signals[i]);
    pthread_sigmask(SIG_BLOCK, &ending, before);
}

void signal_mask_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
