/* Reads series from tables in CSV files (io/csv.h): a header, then a row per date. Blank lines are skipped;
   columns that are not read may hold anything. A file is one series, or several that one of its columns
   names; several files are a series each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_READ_H
#define TASKS_FORECAST_SERIES_READ_H

#include "base/file.h"
#include "tasks/forecast/series.h"

/* One file, and what its series is called if it is one of several; NULL: the only file. */
struct series_file {
    const char *path, *name;
};

/* Reads the files as one table. BAD_FILE, with the path, and where there are such the line, the row (from 1)
   and the column: a column is missing, there twice or without a name; dates cannot be read, or in two ways; a
   cell is not a finite number; a date repeats, is missing or between two periods, unless the choice says what
   then. INVALID: `freq` is no period. On failure *series is empty. */
hashattn_status series_read(struct host *host, const struct series_file *files, size_t num_files,
                            enum file_source source, const struct series_choice *choice,
                            struct series *series);

#endif
