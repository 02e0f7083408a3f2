/* Forecasts of a trained model, window by window, in the units of the file. All windows are evaluated first:
   memory for their forecasts is 4 bytes per value, 220 MB for the test part of ETTm1 with a horizon of 720.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_FORECAST_VISIT_H
#define TRAIN_FORECAST_VISIT_H

#include "io/dates/calendar.h"
#include "train/trainer.h"

/* One window, valid during the call. Arrays are (times, columns) of the columns that are forecast. */
struct forecast_window {
    size_t index, count; /* this window, and all windows */
    size_t columns, length, horizon;
    size_t series;                         /* among those of the facts; 0 if there is one */
    size_t first_column;                   /* among those of the facts */
    const double *read, *forecast, *truth; /* `length` times, `horizon` times; truth NULL: unknown */
    /* (horizon, columns, num_quantiles), in ascending order; the forecast is that nearest to 0.5 */
    const double *quantiles;
    size_t num_quantiles; /* 0: the forecast is a mean */
    const struct calendar *calendar;
    size_t row; /* of the calendar: the first time that is read */
};
/* Returns true to stop. result: of the split, or of windows whose truth is not known. */
typedef bool forecast_visitor(void *user, const struct forecast_window *window,
                              const struct evaluation *result);

/* Visits the windows of a split in order, with an open session; SPLIT_COUNT: the one that ends with each
   series of `data`. REFUSED: the task does not forecast. INTERRUPTED: a callback asked to stop. */
hashattn_status forecast_visit(struct host *host, const struct train_setup *setup,
                               const struct run_config *config, struct session *session, const char *data,
                               enum split split, uint64_t seed, forecast_visitor *visit, void *user);

#endif
