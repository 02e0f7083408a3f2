/* Edit distance (Levenshtein 1966) to every name. There are a hundred short names, so the quadratic cost does
   not matter.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/options/suggest.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 48, MOST = 3 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), row[LONGEST + 1];
    if (na > LONGEST || nb > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t replaced = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[nb];
}

void suggest(const char *word, const char *const *names, size_t num_names, const char *prefix, char *text,
             size_t size)
{
    size_t length = strlen(word), limit = length / 3 > 2 ? length / 3 : 2, said = 0;
    text[0] = '\0';
    for (size_t wanted = 0; wanted <= limit && length > 1; wanted++)
        for (size_t i = 0; i < num_names && said < MOST; i++) {
            /* A name that begins with the word has the largest distance that is still accepted. */
            size_t away = least(distance(word, names[i]), LONGEST);
            if (away > limit && strncmp(word, names[i], length) == 0)
                away = limit;
            if (away != wanted || away >= strlen(names[i]))
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
