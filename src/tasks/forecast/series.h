/* A table of numbers with dates, from a CSV file (io/csv.h): a header, then one row per date. Blank lines are
   skipped; columns that are not read may hold anything.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_H
#define TASKS_FORECAST_SERIES_H

#include "base/file.h"
#include "io/calendar.h"

struct series {
    struct calendar calendar;
    size_t columns, times;
    char **names;   /* (columns) */
    double *values; /* (times, columns) */
};

/* Which columns are read, in which order. */
struct series_choice {
    const char *date; /* the column of dates */
    /* NULL: the numbers are all other columns in the order of the file, except that the target is the last.
       Otherwise these. */
    char *const *names;
    size_t count;
    const char *target; /* "": the last column of the file */
    bool only_target;
};

/* BAD_FILE, with the path, and where there are such the line, the row (from 1) and the column: a column is
   missing, there twice or without a name; a date is not as io/calendar.h wants it; a cell is not a finite
   number. On failure *series is empty. */
hashattn_status series_read(struct host *host, const char *path, enum file_source source,
                            const struct series_choice *choice, struct series *series);
void series_free(struct host *host, struct series *series);

#endif
