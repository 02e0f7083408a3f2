/* The parts of series by time, and the windows of a split (tasks/windows.h). The beginning of a series is
   training, then come validation and test. The windows of a later part reach back into the part before, so
   that their first target is the first row of the part. Values are standardised by the statistics of their
   series.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_WINDOWS_H
#define TASKS_FORECAST_SERIES_WINDOWS_H

#include "tasks/dataset.h"
#include "tasks/forecast/series.h"

/* How a series is cut: by shares of its rows, or as for ETT the first 12, 4 and 4 months of 30 days. */
struct series_cut {
    bool months;
    double train_share, test_share; /* the rest is validation */
    bool recorded;                  /* in a run, so that messages name no option */
};

/* The targets of a split are in rows [first, end) of its piece. */
struct series_part {
    size_t first, end;
};

/* The parts of one piece. like: length and horizon of its windows. BAD_FILE, with the numbers: a part has
   too few rows for one window. */
hashattn_status series_parts(struct host *host, const struct series *series, size_t piece,
                             const struct series_cut *cut, const struct windows *like,
                             struct series_part parts[SPLIT_COUNT]);

/* The data set of a split, of windows like this one, from all pieces. SPLIT_COUNT: one window of each piece,
   at its end, without targets. facts: the names of series and the statistics of their columns. *first: the
   row of the first piece where its first window begins. BAD_FILE: as above, an unknown series, or a value
   too far from the mean. The caller frees the data set, after a failure too. */
hashattn_status series_windows(struct host *host, const struct series *series, const struct series_cut *cut,
                               const struct windows *like, const struct task_facts *facts, enum split split,
                               struct dataset *dataset, size_t *first);

#endif
