/* Reads record by record; a value is converted once.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series.h"

#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/memory.h"
#include "base/tables/index_table.h"
#include "io/csv.h"
#include "io/decimal.h"
#include "io/utf8.h"
#include "tasks/dataset.h"

/* A file that is being read. */
struct reading {
    struct csv csv;
    struct series *series;
    size_t width;             /* fields of a record */
    size_t date;              /* field of the date */
    size_t *fields;           /* (columns) field of each column */
    size_t capacity;          /* values that fit into series->values */
    struct index_table names; /* the first field of each name */
    uint32_t *copies;         /* (width) fields of that name, at the first of them */
};

static hashattn_status fail_missing(struct host *host, const struct csv *csv, const char *name,
                                    const char *option)
{
    char list[200] = "", shown[SHOWN_SIZE];
    size_t used = 0;
    for (size_t i = 0; i < csv->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                 piece_shown(csv->fields[i], shown));
    return host_fail(host, HASHATTN_BAD_FILE, "no column '%.60s'%s; there are: %s%s", name, option, list,
                     used < sizeof list ? "" : "...");
}

/* Sets *field to the first field of this name; false, and *field stays as it is: there is
   none. */
static bool find_name(const struct reading *reading, struct piece name, uint32_t *field)
{
    uint64_t hash = hash_bytes(&reading->names.key, name.bytes, name.size);
    uint32_t index;
    for (size_t probes = 0; index_table_next(&reading->names, hash, &probes, &index);) {
        struct piece known = reading->csv.fields[index];
        if (known.size == name.size && memcmp(known.bytes, name.bytes, name.size) == 0) {
            *field = index;
            return true;
        }
    }
    return false;
}

static hashattn_status index_names(struct host *host, struct reading *reading)
{
    void *block;
    TRY(memory_new_zeroed(host, reading->width, sizeof *reading->copies, "names of columns", &block));
    reading->copies = block;
    for (uint32_t i = 0; i < reading->width; i++) {
        struct piece name = reading->csv.fields[i];
        uint32_t first = i;
        TRY(index_table_grow(host, &reading->names));
        if (!find_name(reading, name, &first))
            index_table_add(&reading->names, hash_bytes(&reading->names.key, name.bytes, name.size), i);
        reading->copies[first]++;
    }
    return HASHATTN_OK;
}

/* The field of the column `name`; BAD_FILE: there is none, or two. */
static hashattn_status find_column(struct host *host, const struct reading *reading, const char *name,
                                   const char *option, size_t *field)
{
    uint32_t found;
    if (!find_name(reading, (struct piece){name, strlen(name)}, &found))
        return fail_missing(host, &reading->csv, name, option);
    FAIL_IF(reading->copies[found] > 1, host, HASHATTN_BAD_FILE, "%u columns are called '%.60s'",
            reading->copies[found], name);
    *field = found;
    return HASHATTN_OK;
}

static hashattn_status add_column(struct host *host, struct reading *reading, size_t field)
{
    struct series *series = reading->series;
    struct piece name = reading->csv.fields[field];
    void *block;
    FAIL_IF(name.size == 0, host, HASHATTN_BAD_FILE, "column %zu has no name", field + 1);
    FAIL_IF(utf8_first_error(name.bytes, name.size) < name.size ||
                memchr(name.bytes, '\0', name.size) != NULL,
            host, HASHATTN_BAD_FILE, "the name of column %zu is not UTF-8", field + 1);
    size_t again;
    char *text;
    TRY(memory_new(host, name.size + 1, 1, "the name of a column", &block));
    text = block;
    memcpy(text, name.bytes, name.size);
    text[name.size] = '\0';
    reading->fields[series->columns] = field;
    series->names[series->columns++] = text;
    return find_column(host, reading, text, "", &again);
}

/* Lists the columns that are read. */
static hashattn_status choose_columns(struct host *host, struct reading *reading,
                                      const struct series_choice *choice)
{
    const struct csv *csv = &reading->csv;
    size_t target = 0, field;
    TRY(find_column(host, reading, choice->date, " (--date-column)", &reading->date));
    if (choice->names != NULL) {
        for (size_t i = 0; i < choice->count; i++) {
            TRY(find_column(host, reading, choice->names[i], ", which the model reads", &field));
            TRY(add_column(host, reading, field));
        }
        return HASHATTN_OK;
    }
    FAIL_IF(csv->count < 2, host, HASHATTN_BAD_FILE, "no column of numbers beside '%.60s'", choice->date);
    target = csv->count - 1 - (reading->date == csv->count - 1);
    if (choice->target[0] != '\0')
        TRY(find_column(host, reading, choice->target, " (--target)", &target));
    FAIL_IF(target == reading->date, host, HASHATTN_BAD_FILE, "the target '%.60s' is the column of dates",
            choice->target);
    for (size_t i = 0; i < csv->count && !choice->only_target; i++)
        if (i != reading->date && i != target)
            TRY(add_column(host, reading, i));
    return add_column(host, reading, target);
}

static hashattn_status read_header(struct host *host, struct reading *reading,
                                   const struct series_choice *choice)
{
    struct series *series = reading->series;
    void *block;
    TRY(csv_next(host, &reading->csv));
    reading->width = reading->csv.count;
    FAIL_IF(reading->width == 0, host, HASHATTN_BAD_FILE, "the file is empty");
    size_t most = size_max(reading->width, choice->count);
    TRY(memory_new_zeroed(host, most, sizeof *series->names, "names of columns", &block));
    series->names = block;
    TRY(memory_new(host, most, sizeof *reading->fields, "places of columns", &block));
    reading->fields = block;
    TRY(index_names(host, reading));
    hashattn_status status = choose_columns(host, reading, choice);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, "line 1");
    return status;
}

static hashattn_status read_row(struct host *host, struct reading *reading)
{
    struct series *series = reading->series;
    const struct csv *csv = &reading->csv;
    char shown[SHOWN_SIZE];
    FAIL_IF(csv->count != reading->width, host, HASHATTN_BAD_FILE, "%zu fields, the header has %zu",
            csv->count, reading->width);
    TRY(calendar_add(host, &series->calendar, csv->fields[reading->date]));
    TRY(memory_grow(host, &series->values, &reading->capacity, series->times * series->columns,
                    series->columns, sizeof *series->values, "values of the series"));
    double *row = series->values + series->times * series->columns;
    for (size_t c = 0; c < series->columns; c++) {
        struct piece cell = csv->fields[reading->fields[c]];
        FAIL_IF(!decimal_read(cell, &row[c]), host, HASHATTN_BAD_FILE,
                "column '%.60s' is '%s', a finite number is needed", series->names[c],
                piece_shown(cell, shown));
    }
    series->times++;
    return HASHATTN_OK;
}

static hashattn_status read_rows(struct host *host, struct reading *reading)
{
    const struct csv *csv = &reading->csv;
    for (;;) {
        TRY(csv_next(host, &reading->csv));
        if (csv->count == 0)
            return HASHATTN_OK;
        if (csv->count == 1 && csv->fields[0].size == 0)
            continue; /* a blank line */
        hashattn_status status = read_row(host, reading);
        if (status == HASHATTN_BAD_FILE) {
            char place[80];
            snprintf(place, sizeof place, "line %zu, row %zu", csv->line, reading->series->times + 1);
            host_prefix(host, place);
        }
        TRY(status);
    }
}

hashattn_status series_read(struct host *host, const char *path, enum file_source source,
                            const struct series_choice *choice, struct series *series)
{
    struct reading reading = {.series = series};
    *series = (struct series){.columns = 0};
    TRY(csv_open(host, path, source, &reading.csv));
    struct c_locale locale = c_locale_begin();
    hashattn_status status = read_header(host, &reading, choice);
    if (status == HASHATTN_OK)
        status = read_rows(host, &reading);
    c_locale_end(locale);
    if (status == HASHATTN_OK && series->times < 2)
        status = host_fail(host, HASHATTN_BAD_FILE, "the file has %s, at least 2 rows are needed",
                           series->times == 0 ? "no row" : "1 row");
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    csv_close(host, &reading.csv);
    memory_free(host, reading.fields);
    memory_free(host, reading.copies);
    index_table_free(host, &reading.names);
    if (status != HASHATTN_OK)
        series_free(host, series);
    return status;
}

void series_free(struct host *host, struct series *series)
{
    for (size_t i = 0; i < series->columns; i++)
        memory_free(host, series->names[i]);
    memory_free(host, series->names);
    memory_free(host, series->values);
    *series = (struct series){.columns = 0};
}
