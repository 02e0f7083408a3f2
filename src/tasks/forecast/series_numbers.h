/* The numbers of a table: missing values, decimal points and commas, and marks between thousands.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_NUMBERS_H
#define TASKS_FORECAST_SERIES_NUMBERS_H

#include "tasks/forecast/series.h"

/* Zeros at first, with host and choice. */
struct series_numbers {
    struct host *host;
    const struct series_choice *choice;
    char delimiter;      /* of the fields of the current file */
    bool points, commas; /* decimal points or commas were seen */
    bool decimals;       /* a mark was seen that is not between thousands, as in 0.123 or 1.5 */
    size_t num_columns;
    char *const *names; /* (columns) */
    struct number_column {
        bool grouped;   /* a mark was seen that may be between thousands, as in 1.234 */
        bool small;     /* a number of at most three digits without a mark */
        bool large;     /* one of more */
        size_t row;     /* the raw row of the first mark */
        char shown[12]; /* its cell */
    } * columns;
};

/* Makes room for the columns of the series, whose names must outlive the reader; again for a further file. */
hashattn_status series_numbers_begin(struct series_numbers *numbers, const struct series *series);
/* Reads a cell of this column and raw row; *value is NaN if it is missing and the choice allows that.
   BAD_FILE: it is no finite number, or the file has decimal points and decimal commas. */
hashattn_status series_numbers_read(struct series_numbers *numbers, struct piece cell, size_t column,
                                    size_t row, double *value);
/* After all rows. BAD_FILE if marks may be between thousands: a column has numbers like 1.234 and like 987,
   and no number of the files has another mark. *bad is set to the raw row then. A run's files are read as it
   was trained. */
hashattn_status series_numbers_check(const struct series_numbers *numbers, size_t *bad);
void series_numbers_free(struct series_numbers *numbers);

#endif
