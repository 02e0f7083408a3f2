/* JSON records for the public header: a file in memory, parsed record by record. A log of 10^5 lines takes
   about a second.
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/record.h"

#include <stdbool.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "base/file.h"
#include "base/memory.h"
#include "io/jsonl.h"

enum { RECORDS_LIMIT = 256 << 20 };

struct hashattn_records {
    hashattn_context *context;
    const char *path; /* a copy, after the struct */
    char *bytes;
    size_t size;
    struct lines lines;
    bool by_line, done;
    struct json *current;
};

/* True if one of the first two lines is an object, or if there is nothing but blank lines: a record per line.
   Two, because the first line may be broken; no line of an indented object is an object. */
static bool is_by_line(const char *bytes, size_t size)
{
    struct host host;
    struct lines lines = lines_open(bytes, size);
    host_init(&host);
    for (int i = 0; i < 2; i++) {
        struct json *object;
        bool good = jsonl_next(&host, &lines, &object) == HASHATTN_OK, found = object != NULL;
        json_free(object);
        if (good)
            return found || i == 0;
    }
    return false;
}

hashattn_status hashattn_records_open(hashattn_context *context, const char *path, int regular,
                                      hashattn_records **records)
{
    FLOATING_DEFAULT;
    if (records != NULL)
        *records = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(path == NULL || records == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "records");
    void *block;
    size_t length = strlen(path) + 1;
    TRY(memory_new(host, sizeof **records + length, 1, "records", &block));
    hashattn_records *made = block;
    char *copy = (char *)block + sizeof *made;
    memcpy(copy, path, length);
    *made = (hashattn_records){.context = context, .path = copy};
    hashattn_status status =
        (regular ? file_read_regular : file_read)(host, path, RECORDS_LIMIT, &made->bytes, &made->size);
    if (status != HASHATTN_OK) {
        memory_free(host, made);
        return status;
    }
    made->lines = lines_open(made->bytes, made->size);
    made->by_line = is_by_line(made->bytes, made->size);
    *records = made;
    return HASHATTN_OK;
}

/* The whole file as one object. */
static hashattn_status parse_whole(struct host *host, hashattn_records *records)
{
    const struct json *found;
    if (records->done)
        return HASHATTN_OK;
    records->done = true;
    TRY(json_parse(host, records->bytes, records->size, &records->current));
    hashattn_status status = json_get_object(host, records->current, "", &found);
    if (status != HASHATTN_OK) {
        json_free(records->current);
        records->current = NULL;
    }
    return status;
}

hashattn_status hashattn_records_next(hashattn_records *records, const hashattn_value **record)
{
    FLOATING_DEFAULT;
    if (records == NULL)
        return HASHATTN_INVALID;
    struct host *host = &records->context->host;
    FAIL_IF(record == NULL, host, HASHATTN_INVALID, "record is NULL");
    json_free(records->current);
    records->current = NULL;
    hashattn_status status =
        records->by_line ? jsonl_next(host, &records->lines, &records->current) : parse_whole(host, records);
    if (status != HASHATTN_OK)
        host_prefix(host, records->path);
    *record = (const hashattn_value *)records->current;
    return status;
}

void hashattn_records_close(hashattn_records *records)
{
    if (records == NULL)
        return;
    struct host *host = &records->context->host;
    json_free(records->current);
    memory_free(host, records->bytes);
    memory_free(host, records);
}

const hashattn_value *hashattn_value_find(const hashattn_value *value, const char *path)
{
    return path == NULL ? NULL : (const hashattn_value *)json_find((const struct json *)value, path);
}

double hashattn_value_number(const hashattn_value *value)
{
    return json_number((const struct json *)value);
}

_Static_assert((int)HASHATTN_NUMBER_TEXT == (int)JSON_MAX_NUMBER, "a number as text has one size");

const char *hashattn_value_text(const hashattn_value *value, char number[HASHATTN_NUMBER_TEXT])
{
    FLOATING_DEFAULT;
    struct host unused;
    const char *text;
    host_init(&unused);
    bool found = value != NULL && number != NULL &&
                 json_get_text(&unused, (const struct json *)value, "", number, &text) == HASHATTN_OK;
    return found ? text : NULL;
}

size_t hashattn_value_count(const hashattn_value *value)
{
    return json_count((const struct json *)value);
}

void hashattn_value_each(const hashattn_value *value, hashattn_value_callback *callback, void *user)
{
    const struct json *own = (const struct json *)value, *element;
    if (callback == NULL)
        return;
    for (struct json_member m = json_first(own); m.key != NULL; m = json_next(m))
        if (callback(user, m.key, (const hashattn_value *)m.value) != 0)
            return;
    for (size_t i = 0; (element = json_element(own, i)) != NULL; i++)
        if (callback(user, NULL, (const hashattn_value *)element) != 0)
            return;
}
