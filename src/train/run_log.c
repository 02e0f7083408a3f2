/* A record is a small JSON tree while it is built: a few microseconds, every tenth step.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_log.h"

#include <string.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"

enum { LOG_LIMIT = 1 << 30 }; /* bytes of a log that can be trimmed: years of training */

/* ---- writing ---- */

struct run_record run_record_new(struct host *host, int64_t step)
{
    struct run_record record = {.host = host};
    record.status = json_new_object(host, &record.object);
    run_record_int(&record, "step", step);
    return record;
}

void run_record_real(struct run_record *record, const char *key, double value)
{
    if (record->status == HASHATTN_OK)
        record->status = json_put_real(record->host, record->object, key, value);
}

void run_record_int(struct run_record *record, const char *key, int64_t value)
{
    if (record->status == HASHATTN_OK)
        record->status = json_put_int(record->host, record->object, key, value);
}

void run_record_text(struct run_record *record, const char *key, const char *value)
{
    if (record->status == HASHATTN_OK)
        record->status = json_put_string(record->host, record->object, key, value);
}

void run_record_put(struct run_record *record, const char *key, struct json *value)
{
    if (record->status == HASHATTN_OK)
        record->status = json_put(record->host, record->object, key, value);
    else
        json_free(value);
}

hashattn_status run_record_append(struct run_record *record, const char *run)
{
    struct host *host = record->host;
    char path[FILE_PATH], *text = NULL;
    size_t size;
    hashattn_status status;
    TRY_DONE(record->status);
    TRY_DONE(file_join(host, run, "log.jsonl", path, sizeof path));
    TRY_DONE(json_to_text(host, record->object, JSON_LINE, &text, &size));
    TRY_DONE(file_append_line(host, path, text));
done:
    memory_free(host, text);
    json_free(record->object);
    record->object = NULL;
    return status;
}

/* ---- trimming ---- */

static bool line_stays(struct host *host, const char *line, size_t size, int64_t last)
{
    struct json *record;
    int64_t step;
    if (json_parse(host, line, size, &record) != HASHATTN_OK)
        return false;
    bool stays = json_get_int(host, record, "step", 0, last, &step) == HASHATTN_OK;
    json_free(record);
    return stays;
}

hashattn_status run_log_trim(struct host *host, const char *run, int64_t step)
{
    char path[FILE_PATH], *bytes;
    size_t size;
    struct file_writer writer;
    TRY(file_join(host, run, "log.jsonl", path, sizeof path));
    if (!file_exists(path))
        return HASHATTN_OK;
    TRY(file_read_regular(host, path, LOG_LIMIT, &bytes, &size));
    hashattn_status status = file_open_replacement(host, path, &writer);
    if (status == HASHATTN_OK) {
        size_t length;
        for (size_t at = 0; at < size; at += length) {
            const char *newline = memchr(bytes + at, '\n', size - at);
            length = newline != NULL ? (size_t)(newline - (bytes + at)) + 1 : size - at;
            if (newline != NULL && line_stays(host, bytes + at, length - 1, step))
                file_write(&writer, bytes + at, length);
        }
        status = file_commit(host, &writer);
    }
    memory_free(host, bytes);
    return status;
}
