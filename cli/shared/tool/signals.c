/* The handler runs on the main thread, because the library's threads block SIGHUP, SIGINT and SIGTERM.
   SIGPIPE comes to the thread that writes, SIGBUS to the one that reads.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/signals.h"

#include <signal.h>
#include <unistd.h>

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

/* Files that are mapped, such as .tokens and .safetensors, have no other way to say it. */
static void end_of_mapped(int number)
{
    static const char words[] =
        "hashattn: bus error: a file was cut short while it was in use, or its disk cannot be read\n";
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) {
        /* nobody to tell */
    }
    signals_end(number);
}

void signals_set(int number, const struct sigaction *action)
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

static void install(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
    struct sigaction action = {.sa_handler = signals_end};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signals_set(signals[i], &action);
    action.sa_handler = end_of_mapped;
    signals_set(SIGBUS, &action);
    signal(SIGXFSZ, SIG_IGN);
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
