/* A state machine over the bytes of blocks; a record may span blocks.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/csv.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/utf8.h"

hashattn_status csv_open(struct host *host, const char *path, enum file_source source, struct csv *csv)
{
    *csv = (struct csv){.from_file = true};
    TRY(line_blocks_open(host, path, source, &csv->blocks));
    csv->blocks.path = NULL; /* messages of csv_next have no path */
    return HASHATTN_OK;
}

struct csv csv_of(const char *bytes, size_t size)
{
    return (struct csv){.at = bytes, .end = bytes + size};
}

void csv_close(struct host *host, struct csv *csv)
{
    if (csv->from_file)
        line_blocks_close(host, &csv->blocks);
    memory_free(host, csv->bytes);
    memory_free(host, csv->fields);
    memory_free(host, csv->ends);
    *csv = (struct csv){.from_file = false};
}

/* Gets the next block if the current one is used up; text in memory has no more. */
static hashattn_status refill(struct host *host, struct csv *csv)
{
    struct piece block;
    if (csv->at < csv->end || !csv->from_file)
        return HASHATTN_OK;
    TRY(line_blocks_next(host, &csv->blocks, &block));
    csv->at = block.bytes;
    csv->end = block.bytes + block.size;
    return HASHATTN_OK;
}

/* Errors name the line that is being read. */
static hashattn_status fail_here(struct host *host, const struct csv *csv, const char *what)
{
    return host_fail(host, HASHATTN_BAD_FILE, "line %zu: %s", csv->lines + 1, what);
}

static hashattn_status add_byte(struct host *host, struct csv *csv, char c)
{
    FAIL_IF(csv->used == CSV_LARGEST, host, HASHATTN_BAD_FILE,
            "line %zu: the record that begins here has more than %d bytes; is a quote not closed?", csv->line,
            CSV_LARGEST);
    if (csv->used == csv->bytes_capacity)
        TRY(memory_grow(host, &csv->bytes, &csv->bytes_capacity, csv->used, 1, 1, "a record"));
    csv->bytes[csv->used++] = c;
    return HASHATTN_OK;
}

static hashattn_status end_field(struct host *host, struct csv *csv)
{
    FAIL_IF(csv->count == CSV_FIELDS, host, HASHATTN_BAD_FILE,
            "line %zu: the record that begins here has more than %d fields", csv->line, CSV_FIELDS);
    TRY(memory_grow(host, &csv->ends, &csv->ends_capacity, csv->count, 1, sizeof *csv->ends, "fields"));
    csv->ends[csv->count++] = csv->used;
    return HASHATTN_OK;
}

/* The bytes no longer move, so fields can point to them. */
static hashattn_status end_record(struct host *host, struct csv *csv)
{
    TRY(end_field(host, csv));
    TRY(memory_grow(host, &csv->fields, &csv->fields_capacity, 0, csv->count, sizeof *csv->fields, "fields"));
    for (size_t i = 0, start = 0; i < csv->count; start = csv->ends[i++])
        csv->fields[i] = (struct piece){csv->used > 0 ? csv->bytes + start : "", csv->ends[i] - start};
    return HASHATTN_OK;
}

enum state {
    AT_START,  /* of a field */
    UNQUOTED,  /* inside a field without quotes */
    QUOTED,    /* inside quotes */
    QUOTE_END, /* after a quote inside quotes: the end of the field, or the first of two */
    RETURNED,  /* after a carriage return outside quotes */
};

/* What a byte means in a state. *done: it ends the record. */
static hashattn_status step(struct host *host, struct csv *csv, char c, enum state *state, bool *done)
{
    if (*state == QUOTED) {
        if (c != '"')
            return add_byte(host, csv, c);
        *state = QUOTE_END;
        return HASHATTN_OK;
    }
    if (*state == QUOTE_END && c == '"') {
        *state = QUOTED;
        return add_byte(host, csv, c);
    }
    if (*state == RETURNED && c != '\n')
        return fail_here(host, csv, "a carriage return without a line feed, outside quotes");
    if (c == '\n') {
        *done = true;
        return end_record(host, csv);
    }
    if (c == (csv->delimiter == 0 ? ',' : csv->delimiter)) {
        *state = AT_START;
        return end_field(host, csv);
    }
    if (c == '\r') {
        *state = RETURNED;
        return HASHATTN_OK;
    }
    if (*state == QUOTE_END)
        return fail_here(host, csv,
                         csv->delimiter == 0 || csv->delimiter == ','
                             ? "after the closing quote of a field, a comma or the end of the line is needed"
                             : "after the closing quote of a field, the delimiter or the end of the line is "
                               "needed");
    if (c == '"') {
        if (*state == UNQUOTED)
            return fail_here(host, csv, "a quote inside a field without quotes");
        *state = QUOTED;
        return HASHATTN_OK;
    }
    *state = UNQUOTED;
    return add_byte(host, csv, c);
}

/* Skips a byte order mark; a part of one is text. */
static hashattn_status skip_mark(struct host *host, struct csv *csv)
{
    static const char mark[] = "\xef\xbb\xbf";
    TRY(utf8_check_start(host, csv->at, (size_t)(csv->end - csv->at))); /* of text in memory too */
    if (csv->end - csv->at >= 3 && memcmp(csv->at, mark, 3) == 0)
        csv->at += 3;
    return HASHATTN_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

hashattn_status csv_delimit(struct host *host, struct csv *csv, char delimiter, char *found)
{
    static const char known[] = ",;\t|";
    size_t counts[sizeof known] = {0}, best = 0, decimal = 0; /* commas between digits */
    bool quoted = false;
    TRY(refill(host, csv));
    for (const char *at = csv->at; at < csv->end && (*at != '\n' || quoted); at++) {
        const char *is = *at == '\0' ? NULL : strchr(known, *at);
        quoted = quoted != (*at == '"');
        if (is == NULL || quoted)
            continue;
        counts[is - known]++;
        decimal += *at == ',' && at > csv->at && is_digit(at[-1]) && at + 1 < csv->end && is_digit(at[1]);
    }
    if (counts[1] + counts[2] > 0) /* a row whose decimal commas stand beside semicolons or tabs */
        counts[0] -= decimal;
    for (size_t i = 1; i < sizeof known; i++)
        best = counts[i] > counts[best] ? i : best;
    *found = csv->delimiter = delimiter == 0 ? known[best] : delimiter;
    return HASHATTN_OK;
}

hashattn_status csv_next(struct host *host, struct csv *csv)
{
    enum state state = AT_START;
    bool done = false, any = false;
    size_t quote_line = 0;
    csv->used = csv->count = 0;
    csv->empty = false;
    csv->line = csv->lines + 1;
    TRY(refill(host, csv));
    if (!csv->begun)
        TRY(skip_mark(host, csv));
    csv->begun = true;
    while (!done) {
        TRY(refill(host, csv));
        if (csv->at == csv->end)
            break;
        enum state before = state;
        char c = *csv->at++;
        any = true;
        csv->lines += c == '\n';
        TRY(step(host, csv, c, &state, &done));
        if (before == AT_START && state == QUOTED)
            quote_line = csv->lines + 1;
    }
    csv->empty = done && csv->count == 1 && csv->used == 0 && quote_line == 0;
    if (done || !any)
        return HASHATTN_OK;
    FAIL_IF(state == QUOTED, host, HASHATTN_BAD_FILE, "line %zu: the quote that opens here is not closed",
            quote_line);
    if (state == RETURNED)
        return fail_here(host, csv, "a carriage return without a line feed, outside quotes");
    return end_record(host, csv);
}

hashattn_status csv_skip_line(struct host *host, struct csv *csv)
{
    for (bool ended = false; !ended;) {
        TRY(refill(host, csv));
        if (csv->at == csv->end)
            break;
        ended = *csv->at++ == '\n';
        csv->lines += ended;
    }
    return HASHATTN_OK;
}
