/* The files of a forecast's data: one that was named, or those of a directory, which are a series each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_FILES_H
#define TASKS_FORECAST_SERIES_FILES_H

#include "tasks/forecast/series_read.h"

struct series_files {
    char (*paths)[FILE_PATH]; /* (count) */
    struct series_file *list;
    char *names; /* of the series, one after another */
    size_t count;
    enum file_source source;
};

/* `data` is a file, or a directory with .csv files. several: a single file is a series with a name, too.
   series_files_free also after a failure. */
hashattn_status series_files_find(struct host *host, const char *data, bool several,
                                  struct series_files *files);
void series_files_free(struct host *host, struct series_files *files);

#endif
