/* log.jsonl of a run: one JSON object per line, each with its step, appended while training. Resuming drops a
   line cut by a crash, and the lines of steps that were not saved and will be repeated, so every line in the
   log happened once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_LOG_H
#define TRAIN_RUN_LOG_H

#include "base/host.h"
#include "io/json.h"

/* A record under construction. The first error is kept, later calls do nothing, and append reports it. */
struct run_record {
    struct host *host;
    struct json *object;
    hashattn_status status;
};
struct run_record run_record_new(struct host *host, int64_t step);
void run_record_real(struct run_record *record, const char *key, double value); /* NaN is written as null */
void run_record_int(struct run_record *record, const char *key, int64_t value);
void run_record_text(struct run_record *record, const char *key, const char *value);
void run_record_put(struct run_record *record, const char *key, struct json *value); /* takes the value */
/* Appends the line and frees the record, on failure too. */
hashattn_status run_record_append(struct run_record *record, const char *run);

/* Drops broken lines and lines of steps after `step`. A run without a log is fine. */
hashattn_status run_log_trim(struct host *host, const char *run, int64_t step);

#endif
