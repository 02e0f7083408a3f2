/* The handler calls only what a handler may, so the sentence is made before.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/tool/time_limit.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/shared/tool/tool.h"

static char sentence[240];
static struct sigaction before;

static void end_process(int number)
{
    (void)number;
    ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
    (void)written;
    _exit(EXIT_WORK); /* exit would call what hangs */
}

static void set_alarm(double seconds)
{
    double whole = floor(seconds);
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)whole, .tv_usec = (suseconds_t)((seconds - whole) * 1e6)}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

void time_limit_begin(double seconds, const char *format, ...)
{
    struct sigaction action = {.sa_handler = end_process};
    char words[200];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    snprintf(sentence, sizeof sentence, "hashattn: %s\n", words);
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, &before);
    set_alarm(seconds);
}

void time_limit_end(void)
{
    set_alarm(0);
    sigaction(SIGALRM, &before, NULL);
}
