/* A progress bar on stderr with rate and remaining time, and beside it a curve if there is one. It is shown
   only on a terminal, without colour if NO_COLOR is set; messages of progress_words are printed in any case.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/shared/output/sparkline.h"

struct progress {
    bool shows, colour, quiet;
    double begun, drawn;           /* seconds; begun: when the first step was shown */
    int64_t first;                 /* that step */
    const struct sparkline *curve; /* or NULL */
};

struct progress progress_begin(bool quiet);
/* Shows `done` of `total` steps, followed by `words` (loss, accuracy, rate); at most ten times a second. */
void progress_show(struct progress *progress, int64_t done, int64_t total, const char *words);
/* Prints a line that stays above the bar; nothing if `quiet`. */
void progress_words(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Erases the bar. */
void progress_end(struct progress *progress);

#endif
