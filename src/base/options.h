/* Options as typed rows: a name, a type, a default, a range, one sentence. The command line, config.json,
   --help and every range check are made from the same rows. A row points into a plain struct by offset, so
   the code that uses an option reads a field. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stddef.h>

#include "base/host.h"

enum option_type {
    OPTION_INT,    /* field: int64_t; minimum and maximum are inclusive */
    OPTION_REAL,   /* field: double */
    OPTION_CHOICE, /* field: int, an index into choices */
    OPTION_FLAG,   /* field: int, 0 or 1; the text is "true" or "false" */
};

struct option_row {
    const char *name; /* "num_hashes"; the command line writes it with dashes */
    enum option_type type;
    size_t offset;
    double preset, minimum, maximum; /* the default, in any type's own terms (index of the choice) */
    const char *const *choices;      /* ended by NULL */
    const char *help;                /* one sentence, no full stop */
};

const struct option_row *option_find(const struct option_row *rows,
                                     const char *name); /* NULL: no such option */
/* Fills every field with its default. */
void options_preset(const struct option_row *rows, void *values);
/* Sets one field from text, whole and in range, or says what is allowed. `of` names the owner in the message.
 */
hashattn_status option_set(struct host *host, const struct option_row *rows, const char *of, void *values,
                           const char *name, const char *text);
/* The value as text that option_set takes back, at most `size` bytes with NUL. */
void option_text(const struct option_row *row, const void *values, char *text, size_t size);

#endif
