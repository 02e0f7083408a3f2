/* A quote inside quotes is doubled.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/csv_out.h"

#include <string.h>

void csv_out_inside(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
}

void csv_out_field(FILE *stream, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    csv_out_inside(stream, text);
    fputc('"', stream);
}
