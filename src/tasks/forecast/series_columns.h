/* Which columns of a table are read: its dates, the names of its series, and its numbers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_COLUMNS_H
#define TASKS_FORECAST_SERIES_COLUMNS_H

#include "base/tables/index_table.h"
#include "io/csv.h"
#include "tasks/forecast/series.h"

enum { NO_COLUMN = UINT32_MAX };

/* Those of one file; zeros at first, with host, choice and series. */
struct series_columns {
    struct host *host;
    const struct series_choice *choice;
    struct series *series;
    bool later;               /* the numbers are the columns of a file before this one */
    size_t width;             /* fields of a record */
    struct piece *header;     /* (width) names of columns */
    uint32_t date, by;        /* fields, or NO_COLUMN */
    size_t *fields;           /* (columns of the series) the field of each */
    char *text;               /* of the header */
    const struct csv *row;    /* the first row of data */
    struct index_table names; /* the first field of each name */
    uint32_t *copies;         /* (width) fields of that name, at the first of them */
};

/* Copies the names from the record of the header; without one they are numbers from 1. */
hashattn_status series_columns_keep(struct series_columns *columns, const struct csv *csv);
/* Chooses the columns, by the first row of data (count 0: there is none) where the choice leaves it open, and
   sets the names of the series' columns. BAD_FILE, with the line: a column is missing, there twice or without
   a name; a column that is called like dates has none; the first line is a row rather than names. */
hashattn_status series_columns_choose(struct series_columns *columns, const struct csv *row);
void series_columns_free(struct series_columns *columns);

/* A copy with a NUL. */
hashattn_status series_copy_text(struct host *host, struct piece text, const char *what, char **copy);

#endif
