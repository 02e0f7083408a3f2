/* The bar is redrawn in place: carriage return, text, "erase to the end of the line" (ECMA-48).
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "hashattn/status.h"

/* Columns of the bar and of the curve. A terminal narrower than CURVED has no curve. */
enum { BAR = 16, BAR_LEAST = 6, CURVE = 24, CURVE_LEAST = 10, CURVED = 48 };

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

static int between(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
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
    /* The curve shrinks first, then the bar; words are cut only if the shortest of both do not suffice. */
    char curve[SPARKLINE_TEXT] = "";
    int width = columns(), most = progress->curve != NULL && width >= CURVED ? CURVE : 0,
        bar = between(width - 1 - (int)strlen(line) - (most > 0 ? CURVE_LEAST + 1 : 0), BAR_LEAST, BAR),
        drawn = 0;
    if (most > 0)
        drawn = (int)sparkline_draw(progress->curve,
                                    (size_t)between(width - 2 - (int)strlen(line) - bar, CURVE_LEAST, most),
                                    sparkline_locale(), curve);
    int columns = width - 1 - bar - (drawn > 0 ? drawn + 1 : 0);
    fprintf(stderr, "\r%s", progress->colour ? "\033[32m" : "");
    for (int i = 0; i < bar; i++)
        fputc(i < done * bar / total ? '#' : '-', stderr);
    fprintf(stderr, "%s%s%s%.*s\033[K", progress->colour ? "\033[0m" : "", drawn > 0 ? " " : "", curve,
            columns < 0 ? 0 : columns, line);
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
    char words[1200]; /* names of tensors and metrics among them come from files */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    hashattn_message_clean(words);
    fprintf(stderr, "%s\n", words);
}
