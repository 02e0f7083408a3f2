/* Options as typed rows: name, type, default, range and one sentence of help. The command line, config.json,
   --help and all range checks use the same rows. A row holds the offset of a field in a plain struct, so code
   that uses an option reads a field.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/host.h"

enum option_type {
    OPTION_INT,    /* field: int64_t; minimum and maximum are inclusive */
    OPTION_REAL,   /* field: double */
    OPTION_CHOICE, /* field: int, an index into choices */
    OPTION_FLAG,   /* field: int, 0 or 1; the text is "true" or "false" */
    OPTION_TEXT,   /* field: char[OPTION_TEXT_SIZE]; minimum and maximum are of its bytes without the NUL */
};
enum { OPTION_TEXT_SIZE = 64 };

struct option_row {
    const char *name; /* "num_hashes"; the command line writes it with dashes */
    enum option_type type;
    size_t offset;
    double preset, minimum, maximum; /* preset: the default; of a choice, its index */
    const char *const *choices;      /* ended by NULL; of a text, the default */
    const char *help;                /* one sentence, no full stop */
    bool architecture; /* of a model: training that starts from a stored model keeps its value */
    bool learning;     /* of a task: how ids are learned; with those of a stored model it is refused */
};
/* A row in the order of its fields. Behind help may stand fields by name: OPTION_ROW(..., "width",
 * .architecture = true). */
#define OPTION_ROW(name_, type_, offset_, preset_, minimum_, maximum_, choices_, ...)                        \
    {                                                                                                        \
        .name = name_, .type = type_, .offset = offset_, .preset = preset_, .minimum = minimum_,             \
        .maximum = maximum_, .choices = choices_, .help = __VA_ARGS__                                        \
    }

const struct option_row *option_find(const struct option_row *rows,
                                     const char *name); /* NULL: no such option */
/* Fills every field with its default. */
void options_preset(const struct option_row *rows, void *values);
/* Sets fields from "OPTION=VALUE OPTION=VALUE ...", a constant of the program; NULL: none. */
void options_take(const struct option_row *rows, void *values, const char *text);
/* Sets one field from text. INVALID, with the allowed values: the text is not a value in range. `of` names
   the owner in the message. */
hashattn_status option_set(struct host *host, const struct option_row *rows, const char *of, void *values,
                           const char *name, const char *text);
/* Writes the value as text that option_set accepts, at most `size` bytes with NUL. */
void option_text(const struct option_row *row, const void *values, char *text, size_t size);
/* Writes `sentence` with each {name} replaced by the value of that option, at most `size` bytes with NUL.
   Other braces stay. */
void options_fill(const struct option_row *rows, const void *values, const char *sentence, char *text,
                  size_t size);

#endif
