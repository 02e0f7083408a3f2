/* Fields of CSV records (RFC 4180).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CSV_OUT_H
#define CLI_CSV_OUT_H

#include <stdio.h>

/* In quotes if it has a comma, a quote or a line break. */
void csv_out_field(FILE *stream, const char *text);
/* Part of a field for which the caller writes the quotes. */
void csv_out_inside(FILE *stream, const char *text);

#endif
