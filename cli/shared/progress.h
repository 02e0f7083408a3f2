/* A line on stderr that shows how far the work is, how fast it goes and how long it still takes; on a
   terminal only, without colour where NO_COLOR is set. Elsewhere nothing is shown, and the words that a
   command prints with progress_words stand alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shows, colour, quiet;
    double begun, drawn; /* seconds; `begun` when the first step was told */
    int64_t first;       /* that step */
};

struct progress progress_begin(bool quiet);
/* `done` of `total` steps; `words` (loss, accuracy, rate) stand behind the bar. Draws ten times a second at
   most. */
void progress_show(struct progress *progress, int64_t done, int64_t total, const char *words);
/* A lasting line, above the bar where there is one; nothing where `quiet`. */
void progress_words(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes the bar away. */
void progress_end(struct progress *progress);

#endif
