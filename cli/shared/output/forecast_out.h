/* Forecasts as tables, and their errors.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FORECAST_OUT_H
#define CLI_FORECAST_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/shared/output/json_out.h"
#include "hashattn/hashattn.h"

/* CSV: with the first window a header with the names of the columns of the file, then the date and the values
   of every row of the forecast, with the series in front if there are several. */
void forecast_csv(FILE *to, const hashattn_forecast *forecast);

/* One line of JSON per row, with the names of the CSV. */
void forecast_json(FILE *to, const hashattn_forecast *forecast);

/* Errors per column in the units of the file, over windows and horizon: mean squared and mean absolute error;
   sMAPE, the mean of 200 |forecast - truth| / (|forecast| + |truth|) per cent, 0 where both are 0; MASE, the
   mean absolute error divided by the mean size of differences over a season in the training part (Hyndman and
   Koehler 2006); and the share of values between the lowest and the highest quantile, if there are several.
 */
struct forecast_errors {
    size_t count; /* columns; 0: no window so far */
    struct column_errors {
        char *name;
        double squares, sizes, shares, scaled, covered, values; /* sums, and their number */
    } * columns;
    bool quantiles; /* there are several */
    bool no_memory; /* memory ran out */
};
/* A hashattn_forecast_callback; user: the errors, zeros at first. Windows without truth add nothing. */
int forecast_errors_add(void *errors, const hashattn_forecast *forecast);
void forecast_errors_words(const struct forecast_errors *errors);
/* "columns": an object with "mse", "mae", "smape", "mase" and, of quantiles, "coverage" for each column; a
   MASE that is not known is null. */
void forecast_errors_json(const struct forecast_errors *errors, struct json_out *json);
void forecast_errors_free(struct forecast_errors *errors);

#endif
