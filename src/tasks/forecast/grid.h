/* From the rows of tables to series with one row per period: dates are read, rows are put in order, repeated
   ones become one, and missing ones are filled in. Cost: one pass over the rows, and one over the result.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_GRID_H
#define TASKS_FORECAST_GRID_H

#include "tasks/forecast/raw_rows.h"
#include "tasks/forecast/series.h"

/* What was found and repaired. */
struct grid_report {
    size_t cells, rows;     /* values filled in, of rows that are there and that are not */
    size_t repeated, moved; /* rows that shared a period with another; that were inside a period */
    size_t reversed;        /* series that ran backwards */
    enum date_format format;
};

/* Fills calendar, values and pieces of *series, whose names of columns and of pieces are there. Failures are
   those of series_read; where they are about a row, *bad is its index, otherwise SIZE_MAX. */
hashattn_status grid_make(struct host *host, const struct raw_rows *raw, const struct series_choice *choice,
                          struct series *series, struct grid_report *report, size_t *bad);

#endif
