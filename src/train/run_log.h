/* log.jsonl of a run: one JSON object per line, each with its step, appended while training. A line that a
   crash has cut is left out when the run goes on, and so are lines of steps that were not saved and will be
   done again: what stands in the log happened once. SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RUN_LOG_H
#define TRAIN_RUN_LOG_H

#include "base/host.h"
#include "io/json.h"

/* A record being made. Errors stick: fill it on, and append reports the first. */
struct run_record {
    struct host *host;
    struct json *object;
    hashattn_status status;
};
struct run_record run_record_new(struct host *host, int64_t step);
void run_record_real(struct run_record *record, const char *key, double value); /* NaN is written as null */
void run_record_int(struct run_record *record, const char *key, int64_t value);
void run_record_text(struct run_record *record, const char *key, const char *value);
/* Appends the line and frees the record, whatever comes of it. */
hashattn_status run_record_append(struct run_record *record, const char *run);

/* Drops broken lines and lines of steps after `step`. A run without a log is fine. */
hashattn_status run_log_trim(struct host *host, const char *run, int64_t step);

#endif
