/* Forecasts of trained models of the task forecast, in the units of the file.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_FORECAST_H
#define HASHATTN_FORECAST_H

#include "hashattn/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HASHATTN_DATE_TEXT = 40 }; /* bytes of a date with its NUL */

/* One window of a file: what the model read, and its forecast of the rows that follow. Valid during the
   call. */
typedef struct hashattn_forecast {
    size_t struct_size;
    size_t window, num_windows; /* this window, and all windows */
    size_t num_columns, num_read, horizon;
    const char *const *columns; /* (num_columns) names of the columns that are forecast */
    const double *read;         /* (num_read, num_columns) the rows that were read */
    const double *values;       /* (horizon, num_columns) the forecast */
    const double *truth;        /* (horizon, num_columns) what the file has; NULL after its end */
    const void *dates;          /* for hashattn_forecast_date */
    const char *date_column;    /* its name in the file; "none": rows are numbered, dates are their numbers */
    /* (num_columns) standard deviations of the training part, 1 for a constant column; values are computed to
       about seven digits of these */
    const double *deviations;
    /* (num_columns) of MASE: the mean size of the differences over a season in the training part; 0: not
       known (a run of an earlier version, or a constant column) */
    const double *scales;
    const double *quantiles;       /* (num_quantiles) levels that were trained for, ascending */
    const double *quantile_values; /* (horizon, num_columns, num_quantiles), ascending */
    size_t num_quantiles; /* 0: `values` are means; otherwise they are the quantiles nearest to 0.5 */
    const hashattn_evaluation *evaluation; /* of the split; NULL for the rows after the end */
    const char *series; /* the name of the series, if the data are several; otherwise NULL */
} hashattn_forecast;
/* Return non-zero to stop with INTERRUPTED. */
typedef int hashattn_forecast_callback(void *user, const hashattn_forecast *forecast);

/* Writes the date of a row in the style of the file: `step` 0 is the first row that was read, num_read the
   first of the forecast. text: (HASHATTN_DATE_TEXT). Returns 0, with an empty text, after year 9999. */
HASHATTN_API int hashattn_forecast_date(const hashattn_forecast *forecast, size_t step, char *text);

/* What the last call that read tables found: rows, period, first and last date, and what was repaired, in one
   sentence; or that a .tsv file to predict has no header and none of the run's labels, or which files of
   folders to predict or embed are not read; "" if there is nothing to say. *repaired, which may be NULL, is 1
   if something was repaired, not read or may be misread. Valid until the next call of the context. */
HASHATTN_API const char *hashattn_context_note(const hashattn_context *context, int *repaired);

/* Forecasts every window of a split, in order; split NULL: the rows that follow the end of each series, from
   its last rows. data: the CSV file, or a directory of them; NULL: the recorded one. seed: of the hashing.
   All windows are computed before the first call. REFUSED: the task does not forecast. */
HASHATTN_API hashattn_status hashattn_model_forecast(hashattn_model *model, const char *data,
                                                     const char *split, uint64_t seed,
                                                     hashattn_forecast_callback *callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
