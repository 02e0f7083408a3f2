/* The bar is redrawn in place: carriage return, text, "erase to the end of the line" (ECMA-48).
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 16, BAR_LEAST = 6 }; /* columns of the bar */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct progress progress_begin(bool quiet)
{
    const char *terminal = getenv("TERM"), *plain = getenv("NO_COLOR");
    struct progress progress = {.quiet = quiet, .first = -1};
    progress.shows = !quiet && isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
    progress.colour = progress.shows && (plain == NULL || plain[0] == '\0');
    return progress;
}

static void write_time(char *text, size_t size, double seconds)
{
    long whole = (long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
}

static int columns(void)
{
    struct winsize window;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
}

void progress_show(struct progress *progress, int64_t done, int64_t total, const char *words)
{
    if (!progress->shows || total < 1)
        return;
    double time = now();
    if (progress->first < 0) {
        progress->first = done;
        progress->begun = time;
    } else if (done < total && time - progress->drawn < 0.1) {
        return;
    }
    progress->drawn = time;
    char left[32] = "?", line[300];
    if (done > progress->first)
        write_time(left, sizeof left,
                   (time - progress->begun) / (double)(done - progress->first) * (double)(total - done));
    snprintf(line, sizeof line, " %3d %%  %lld/%lld  %s left  %s", (int)(done * 100 / total), (long long)done,
             (long long)total, left, words);
    /* The bar shrinks to make room for the words; words are cut only if the shortest bar does not suffice. */
    int width = columns(), bar = width - 1 - (int)strlen(line);
    bar = bar > BAR ? BAR : bar < BAR_LEAST ? BAR_LEAST : bar;
    int room = width - 1 - bar;
    fprintf(stderr, "\r%s", progress->colour ? "\033[32m" : "");
    for (int i = 0; i < bar; i++)
        fputc(i < done * bar / total ? '#' : '-', stderr);
    fprintf(stderr, "%s%.*s\033[K", progress->colour ? "\033[0m" : "", room < 0 ? 0 : room, line);
    fflush(stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->shows && progress->first >= 0)
        fputs("\r\033[K", stderr);
}

void progress_words(struct progress *progress, const char *format, ...)
{
    if (progress->quiet)
        return;
    progress_end(progress);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
