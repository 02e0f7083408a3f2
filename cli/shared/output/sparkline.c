/* The tool sets no locale, so the environment says which one the terminal has: the first of three variables
   that is not empty.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/sparkline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sparkline sparkline_begin(void)
{
    return (struct sparkline){.stride = 1};
}

void sparkline_add(struct sparkline *line, double value)
{
    if (!isfinite(value))
        return;
    if (line->count == 0 && line->held == 0)
        line->first = value;
    line->last = value;
    line->sum += value;
    if (++line->held < line->stride)
        return;
    if (line->count == SPARKLINE_VALUES) {
        for (size_t i = 0; i < SPARKLINE_VALUES / 2; i++)
            line->values[i] = (line->values[2 * i] + line->values[2 * i + 1]) / 2;
        line->count /= 2;
        line->stride *= 2;
        return; /* `sum` is half a mean now */
    }
    line->values[line->count++] = line->sum / (double)line->held;
    line->sum = 0;
    line->held = 0;
}

/* The mean of the values of column i of `columns`; the last column ends with the values that are still
   held. */
static double column(const struct sparkline *line, size_t i, size_t columns)
{
    size_t count = line->count + (line->held > 0), begin = i * count / columns,
           end = (i + 1) * count / columns;
    double sum = 0;
    for (size_t k = begin; k < end; k++)
        sum += k < line->count ? line->values[k] : line->sum / (double)line->held;
    return sum / (double)(end - begin);
}

size_t sparkline_draw(const struct sparkline *line, size_t columns, bool utf8, char text[SPARKLINE_TEXT])
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
    enum { LEVELS = sizeof blocks / sizeof *blocks };
    size_t count = line->count + (line->held > 0);
    double low = INFINITY, high = -INFINITY;
    columns = columns > SPARKLINE_COLUMNS ? SPARKLINE_COLUMNS : columns;
    columns = columns > count ? count : columns;
    text[0] = '\0';
    for (size_t i = 0; i < columns; i++) {
        low = fmin(low, column(line, i, columns));
        high = fmax(high, column(line, i, columns));
    }
    for (size_t i = 0; i < columns; i++) {
        double share = high > low ? (column(line, i, columns) - low) / (high - low) : 0;
        size_t level = (size_t)(share * LEVELS);
        strcat(text, (utf8 ? blocks : ascii)[level < LEVELS ? level : LEVELS - 1]);
    }
    return columns;
}

bool sparkline_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && (locale == NULL || *locale == '\0'); i++)
        locale = getenv(names[i]);
    const char *dot = locale == NULL ? NULL : strchr(locale, '.');
    return dot != NULL && (strncasecmp(dot, ".utf-8", 6) == 0 || strncasecmp(dot, ".utf8", 5) == 0);
}
