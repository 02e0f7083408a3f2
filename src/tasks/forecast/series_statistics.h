/* Statistics of a series, by which its values are standardised and its errors are scaled.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_STATISTICS_H
#define TASKS_FORECAST_SERIES_STATISTICS_H

#include "tasks/forecast/series.h"
#include "tasks/task.h"

/* The name and the statistics of each column (series->columns) of a piece over its first n rows, n > 0: mean,
   population standard deviation (1 if the column is constant), and the mean size of differences over a season
   of rows, > 0 (Hyndman and Koehler 2006; 0: n has no more rows than a season). The caller frees the names,
   after a failure too. BAD_FILE, with row and column: a value is too large. Cost: three passes. */
hashattn_status series_statistics(struct host *host, const struct series *series, size_t piece, size_t n,
                                  size_t season, struct task_column *columns);

#endif
