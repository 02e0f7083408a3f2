/* Edit distance with transpositions (Damerau 1964; optimal string alignment) to every name. There are a
   hundred short names, so the quadratic cost does not matter.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 48, MOST = 3 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), rows[3][LONGEST + 1];
    if (na > LONGEST || nb > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

void suggest(const char *word, const char *const *names, size_t num_names, const char *prefix, char *text,
             size_t size)
{
    size_t length = strlen(word), limit = length < 6 ? 1 : length / 3, said = 0, nearest = LONGEST;
    text[0] = '\0';
    for (size_t i = 0; i < num_names; i++)
        nearest = least(nearest, distance(word, names[i]));
    /* First the nearest names, then, as far as there is room, those that begin with the word. */
    for (int longer = 0; longer < 2 && length > 1; longer++)
        for (size_t i = 0; i < num_names && said < MOST; i++) {
            bool begins = strncmp(word, names[i], length) == 0,
                 near = nearest <= limit && nearest < strlen(names[i]) && distance(word, names[i]) == nearest;
            if (longer ? near || !begins : !near)
                continue;
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s%s%s", said == 0 ? "; did you mean " : ", ", prefix,
                     names[i]);
            said++;
        }
    if (said > 0) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "?");
    }
}
