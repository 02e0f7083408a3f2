/* The rows of tables as they are read, before dates are understood.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_RAW_ROWS_H
#define TASKS_FORECAST_RAW_ROWS_H

#include <stdint.h>

#include "io/lines.h"

/* Zeros at first. */
struct raw_rows {
    size_t count, columns;
    double *values; /* (count, columns); NaN: missing */
    struct raw_row {
        size_t line, row; /* in its file, both from 1 */
        size_t end;       /* of its date in `texts`, where the next one begins */
        uint32_t file, group;
    } * rows;
    char *texts; /* the dates, one after another */
    size_t values_capacity, rows_capacity, texts_used, texts_capacity;
};

/* Adds a row and its date, whose values are not set yet. */
hashattn_status raw_rows_add(struct host *host, struct raw_rows *raw, struct piece date, struct raw_row row,
                             double **values);
struct piece raw_rows_date(const struct raw_rows *raw, size_t index);
void raw_rows_free(struct host *host, struct raw_rows *raw);

#endif
