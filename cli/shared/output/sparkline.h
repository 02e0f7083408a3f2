/* A curve as one line of text, "▇▆▅▃▂▁", of values that keep coming. Memory is fixed: neighbours are averaged
   when it is full.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SPARKLINE_H
#define CLI_SPARKLINE_H

#include <stdbool.h>
#include <stddef.h>

enum { SPARKLINE_VALUES = 256, SPARKLINE_COLUMNS = 64, SPARKLINE_TEXT = 3 * SPARKLINE_COLUMNS + 1 };

struct sparkline {
    double values[SPARKLINE_VALUES]; /* means of `stride` values each */
    size_t count, stride, held;      /* held: values in `sum` */
    double sum, first, last;         /* first and last: values as added */
};

struct sparkline sparkline_begin(void);
/* NaN and infinities are left out. */
void sparkline_add(struct sparkline *line, double value);
/* Draws at most `columns` characters, from the smallest value to the largest. utf8: blocks, otherwise ASCII.
   Returns the number of characters; 0 before the first value. */
size_t sparkline_draw(const struct sparkline *line, size_t columns, bool utf8, char text[SPARKLINE_TEXT]);
/* True if the locale of the environment (LC_ALL, LC_CTYPE, LANG) has UTF-8. */
bool sparkline_locale(void);

#endif
