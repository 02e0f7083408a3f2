/* The handler runs on the main thread, because the library's threads block these signals.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/signals.h"

#include <signal.h>

enum { MOST = 2 }; /* attend has a second one for its files */
static const hashattn_context *volatile watched[MOST];

void signals_remove_unfinished(void)
{
    for (int i = 0; i < MOST; i++)
        hashattn_context_remove_unfinished(watched[i]);
}

void signals_end(int number)
{
    signals_remove_unfinished();
    signal(number, SIG_DFL);
    raise(number); /* delivered when the handler returns */
}

static void install(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction action = {.sa_handler = signals_end}, before;
        sigemptyset(&action.sa_mask);
        for (size_t k = 0; k < sizeof signals / sizeof *signals; k++)
            sigaddset(&action.sa_mask, signals[k]);
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

void signals_watch(const hashattn_context *context)
{
    int i = 0;
    while (i < MOST - 1 && watched[i] != NULL)
        i++;
    watched[i] = context;
    install();
}

void signals_forget(const hashattn_context *context)
{
    for (int i = 0; i < MOST; i++)
        if (watched[i] == context)
            watched[i] = NULL;
}
