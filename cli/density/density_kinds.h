/* The kinds of `density`, each a command of its own: one file with one exported row, and one line in the
   table of cmd_density.c. And what they share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DENSITY_KINDS_H
#define CLI_DENSITY_KINDS_H

#include "cli/shared/options/arguments.h"

extern const struct command density_fit, density_score, density_merge, density_remove, density_modes;

/* Calls take(user, rows, count) with each block of rows of a file, until it returns another code than
   EXIT_GOOD. density: whose columns the rows must have; NULL: it is made by make(user, dim) once the columns
   are known. Returns EXIT_GOOD or the exit code of the reported error. */
struct density_reader {
    hashattn_context *context;
    const hashattn_density *density;
    hashattn_status (*make)(void *user, size_t dim);
    int (*take)(void *user, const float *rows, size_t count);
    void *user;
};
int density_read(const struct density_reader *reader, const char *path);
/* The exit code of a status, whose message is printed. */
int density_code(const hashattn_context *context, hashattn_status status);

/* The options of a new sketch: --num-hashes, --hash-bits and --map, and the seed. Fields are 0 or NULL until
   they are given; density_model_take then makes the options. */
struct density_model {
    size_t hashes, bits;
    const char *map;
    hashattn_density_options options;
};
void density_model_options(struct options *options, struct density_model *model);
void density_model_take(const struct options *options, struct density_model *model);

/* Saves a sketch and reports what is in it. */
int density_finish(const struct options *options, hashattn_context *context, const hashattn_density *density,
                   const char *out);

/* The examples of the help begin with this file of points. */
#define DENSITY_POINTS "  seq 1000 | awk '{ print sin($1), cos($1), sin(2 * $1) }' OFS=, > points.csv\n"

#endif
