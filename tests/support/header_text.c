/* Reads the header from the source folder.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/header_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/check.h"

enum { TEXT = 40000 };

char *header_text(const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "include/hashattn/%s", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = malloc(TEXT), *to = text;
    for (int c; (c = fgetc(file)) != EOF;) {
        assert_true(to < text + TEXT - 1);
        if (!isspace(c))
            *to++ = (char)c;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    *to = '\0';
    fclose(file);
    return text;
}
