/* Names are found by their hash; the dates by the first row of data.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_columns.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/dates/dates.h"
#include "io/decimal.h"
#include "io/utf8.h"
#include "tasks/dataset.h"

enum { LISTED = OPTION_TEXT_SIZE / 2 }; /* names that the text of the option fits, with their commas */

/* ---- names -------------------------------------------------------------------------------------------- */

static hashattn_status fail_missing(const struct series_columns *c, const char *name, const char *option)
{
    char list[200] = "", shown[SHOWN_SIZE];
    size_t used = 0;
    for (size_t i = 0; i < c->width && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                 piece_shown(c->header[i], shown));
    return host_fail(c->host, HASHATTN_BAD_FILE, "no column '%.60s'%s; there are: %s%s", name, option, list,
                     used < sizeof list ? "" : "...");
}

/* Sets *field to the first field of this name; false, and *field stays as it is: there is none. */
static bool find_name(const struct series_columns *c, struct piece name, uint32_t *field)
{
    uint64_t hash = hash_bytes(&c->names.key, name.bytes, name.size);
    uint32_t index;
    for (size_t probes = 0; index_table_next(&c->names, hash, &probes, &index);) {
        struct piece known = c->header[index];
        if (known.size == name.size && memcmp(known.bytes, name.bytes, name.size) == 0) {
            *field = index;
            return true;
        }
    }
    return false;
}

static hashattn_status index_names(struct series_columns *c)
{
    void *block;
    TRY(memory_new_zeroed(c->host, c->width, sizeof *c->copies, "names of columns", &block));
    c->copies = block;
    for (uint32_t i = 0; i < c->width; i++) {
        struct piece name = c->header[i];
        uint32_t first = i;
        TRY(index_table_grow(c->host, &c->names));
        if (!find_name(c, name, &first))
            index_table_add(&c->names, hash_bytes(&c->names.key, name.bytes, name.size), i);
        c->copies[first]++;
    }
    return HASHATTN_OK;
}

enum { NUMBER_SIZE = 11 }; /* of a column's number as text with its NUL */

/* Copies the names, because the next record takes their place; without a header they are numbers from 1. */
hashattn_status series_columns_keep(struct series_columns *c, const struct csv *csv)
{
    bool numbered = c->choice->no_header;
    size_t size = 0, most = size_max(csv->count, size_max(c->choice->count, c->series->columns));
    void *block;
    for (size_t i = 0; i < csv->count; i++)
        size += numbered ? NUMBER_SIZE : csv->fields[i].size;
    TRY(memory_new(c->host, size + 1, 1, "names of columns", &block));
    c->text = block;
    TRY(memory_new(c->host, csv->count, sizeof *c->header, "names of columns", &block));
    c->header = block;
    TRY(memory_new(c->host, most, sizeof *c->fields, "places of columns", &block));
    c->fields = block;
    if (!c->later) {
        TRY(memory_new_zeroed(c->host, most, sizeof *c->series->names, "names of columns", &block));
        c->series->names = block;
    }
    char *at = c->text;
    for (size_t i = 0; i < csv->count; at += c->header[i++].size) {
        size_t length = csv->fields[i].size;
        if (numbered)
            length = (size_t)snprintf(at, NUMBER_SIZE, "%u", (unsigned)(i + 1));
        else
            memcpy(at, csv->fields[i].bytes, length);
        c->header[i] = (struct piece){at, length};
    }
    c->width = csv->count;
    return index_names(c);
}

/* The field of the column `name`; BAD_FILE: there is none, or two. */
static hashattn_status find_column(const struct series_columns *c, const char *name, const char *option,
                                   uint32_t *field)
{
    uint32_t found;
    if (!find_name(c, (struct piece){name, strlen(name)}, &found))
        return fail_missing(c, name, option);
    FAIL_IF(c->copies[found] > 1, c->host, HASHATTN_BAD_FILE, "%u columns are called '%.60s'",
            c->copies[found], name);
    *field = found;
    return HASHATTN_OK;
}

/* The same for a column that an option names, where a number from 1 is the place of one. */
static hashattn_status find_given(const struct series_columns *c, struct piece name, const char *option,
                                  uint32_t *field)
{
    char text[OPTION_TEXT_SIZE];
    size_t number = 0, digits = 0;
    uint32_t unused;
    snprintf(text, sizeof text, "%.*s", (int)size_min(name.size, sizeof text - 1), name.bytes);
    for (; digits < 6 && text[digits] >= '0' && text[digits] <= '9'; digits++)
        number = 10 * number + (size_t)(text[digits] - '0');
    if (digits == 0 || text[digits] != '\0' || number == 0 || number > c->width ||
        find_name(c, name, &unused))
        return find_column(c, text, option, field);
    *field = (uint32_t)(number - 1);
    return HASHATTN_OK;
}

static struct piece piece_of_text(const char *text)
{
    return (struct piece){text, strlen(text)};
}

hashattn_status series_copy_text(struct host *host, struct piece text, const char *what, char **copy)
{
    void *block;
    TRY(memory_new(host, text.size + 1, 1, what, &block));
    *copy = block;
    memcpy(*copy, text.bytes, text.size);
    (*copy)[text.size] = '\0';
    return HASHATTN_OK;
}

static hashattn_status add_column(struct series_columns *c, uint32_t field)
{
    struct series *series = c->series;
    struct piece name = c->header[field];
    FAIL_IF(name.size == 0, c->host, HASHATTN_BAD_FILE,
            "column %u has no name; set `columns` to read only others", field + 1);
    FAIL_IF(utf8_first_error(name.bytes, name.size) < name.size ||
                memchr(name.bytes, '\0', name.size) != NULL,
            c->host, HASHATTN_BAD_FILE, "the name of column %u is not UTF-8", field + 1);
    FAIL_IF(field == c->by, c->host, HASHATTN_BAD_FILE, "column '%.60s' names the series, it is no number",
            c->choice->by);
    c->fields[series->columns] = field;
    TRY(series_copy_text(c->host, name, "the name of a column", &series->names[series->columns]));
    uint32_t again;
    return find_column(c, series->names[series->columns++], "", &again);
}

/* ---- the column of dates ------------------------------------------------------------------------------- */

/* Names that columns of dates have, in lower case: dates and nothing else, and others. */
static const char *const dated[] = {"date", "datetime", "date_time", "timestamp", "ds", NULL};
static const char *const maybe[] = {"time",   "day", "month", "year",  "quarter",
                                    "period", "ts",  "dt",    "epoch", NULL};

/* True if this is the name, in any case of letters. */
static bool is_called(struct piece text, const char *name)
{
    size_t i = 0;
    while (i < text.size && name[i] != '\0' && tolower((unsigned char)text.bytes[i]) == name[i])
        i++;
    return i == text.size && name[i] == '\0';
}

static bool is_among(struct piece text, const char *const *names)
{
    while (*names != NULL && !is_called(text, *names))
        names++;
    return *names != NULL;
}

static bool is_read(const struct series_columns *c, size_t field)
{
    size_t i = 0;
    while (i < c->series->columns && c->fields[i] != field)
        i++;
    return i < c->series->columns;
}

static bool shows_date(const struct series_columns *c, size_t field)
{
    struct date_choice choice = date_choice_begin();
    struct date_style style;
    int64_t time;
    if (field >= c->row->count)
        return false;
    struct piece text = piece_trimmed(c->row->fields[field]);
    return c->choice->format >= 0 ? date_read(text, (enum date_format)c->choice->format, &style, &time)
                                  : date_choice_add(&choice, text);
}

/* The first field with one of these names and a date in the first row; NO_COLUMN: there is none. */
static uint32_t find_dated(const struct series_columns *c, const char *const *names)
{
    for (; *names != NULL; names++)
        for (uint32_t f = 0; f < c->width; f++)
            if (f != c->by && is_called(c->header[f], *names) && shows_date(c, f))
                return f;
    return NO_COLUMN;
}

/* No column has dates that can be read. BAD_FILE if one is called like them: if nothing but dates can have
   its name, or if it would be forecast and its first cell is no number either. */
static hashattn_status check_undated(const struct series_columns *c)
{
    char place[80], cell[SHOWN_SIZE], name[SHOWN_SIZE];
    double number;
    for (size_t f = 0; f < c->width && f < c->row->count; f++) {
        struct piece text = c->row->fields[f];
        bool sure = is_among(c->header[f], dated),
             other = is_read(c, f) && !decimal_read(text, &number) && !decimal_is_missing(text);
        if (f == c->by || (!sure && !(other && is_among(c->header[f], maybe))))
            continue;
        host_fail(
            c->host, HASHATTN_BAD_FILE,
            "column '%s' is '%s', which is not read as a date like 2016-07-01 or 2016-07-01 00:00:00; set "
            "`date_column` to another column, or to none if rows have no dates%s",
            piece_shown(c->header[f], name), piece_shown(text, cell),
            decimal_read(text, &number) ? ", or `date_format` to epoch" : "");
        snprintf(place, sizeof place, "line %zu, row 1", c->row->line);
        host_prefix(c->host, place);
        return HASHATTN_BAD_FILE;
    }
    return HASHATTN_OK;
}

/* Finds the field of the dates. */
static hashattn_status find_dates(struct series_columns *c)
{
    const char *name = c->choice->date;
    double number;
    c->date = NO_COLUMN;
    if (strcmp(name, "none") == 0)
        return HASHATTN_OK;
    if (name[0] != '\0')
        return find_given(c, piece_of_text(name),
                          series_choice_recorded(c->choice) ? ", which has the dates of the run"
                                                            : " (`date_column`)",
                          &c->date);
    c->date = find_dated(c, dated);
    if (c->date == NO_COLUMN)
        c->date = find_dated(c, maybe);
    for (uint32_t f = 0; f < c->width && c->date == NO_COLUMN; f++)
        if (f != c->by && shows_date(c, f) && !decimal_read(c->row->fields[f], &number))
            c->date = f;
    FAIL_IF(c->date == NO_COLUMN && c->choice->format >= 0 && c->row->count > 0, c->host, HASHATTN_BAD_FILE,
            "no column of dates was found for `date_format` %s; set `date_column`",
            date_formats[c->choice->format]);
    return HASHATTN_OK;
}

/* ---- the columns of numbers ---------------------------------------------------------------------------- */

/* The fields of the choice's list, without the dates and each once. A column is there twice under its name,
   or under that and its number. */
static hashattn_status read_list(const struct series_columns *c, uint32_t fields[LISTED], size_t *count)
{
    char shown[SHOWN_SIZE];
    *count = 0;
    for (const char *at = c->choice->columns; *at != '\0'; at += *at == ',') {
        struct piece name = {at, strcspn(at, ",")};
        uint32_t field;
        at += name.size;
        TRY(find_given(c, name, " (`columns`)", &field));
        FAIL_IF(field == c->date, c->host, HASHATTN_BAD_FILE, "'%.*s' of the columns is the column of dates",
                (int)size_min(name.size, 60), name.bytes);
        for (size_t i = 0; i < *count; i++)
            FAIL_IF(fields[i] == field, c->host, HASHATTN_BAD_FILE,
                    "`columns` has column '%s' twice, as number %zu and %zu; once is allowed",
                    piece_shown(c->header[field], shown), i + 1, *count + 1);
        assert(*count < LISTED);
        fields[(*count)++] = field;
    }
    return HASHATTN_OK;
}

/* The columns of the choice's list in its order, but the target last, which is its last one or is named. */
static hashattn_status choose_listed(struct series_columns *c)
{
    const struct series_choice *choice = c->choice;
    uint32_t target = NO_COLUMN, fields[LISTED];
    size_t count, target_at = 0;
    if (choice->target[0] != '\0')
        TRY(find_given(c, piece_of_text(choice->target), " (`target`)", &target));
    TRY(read_list(c, fields, &count));
    if (target == NO_COLUMN)
        target = fields[count - 1];
    while (target_at < count && fields[target_at] != target)
        target_at++;
    FAIL_IF(target_at == count, c->host, HASHATTN_BAD_FILE,
            "the target '%.60s' is none of the columns '%.60s'", choice->target, choice->columns);
    for (size_t i = 0; i < count && !choice->only_target; i++)
        if (i != target_at)
            TRY(add_column(c, fields[i]));
    return add_column(c, target);
}

/* BAD_FILE if the first line is a row rather than names: a date is where dates are, or there are none and
   numbers with a decimal mark are among nothing but numbers. */
static hashattn_status check_header(const struct series_columns *c)
{
    struct date_choice dates = date_choice_begin();
    bool numbers = true, marks = false,
         commas = c->choice->decimal == DECIMAL_COMMA || (c->row->delimiter != 0 && c->row->delimiter != ',');
    char shown[SHOWN_SIZE];
    double number;
    if (c->choice->no_header)
        return HASHATTN_OK;
    for (size_t i = 0; i < c->width; i++) {
        numbers &= decimal_read(c->header[i], &number) ||
                   (commas && decimal_read_marked(c->header[i], DECIMAL_COMMA, &number));
        marks |= decimal_mark_of(c->header[i]) != DECIMAL_AUTO;
    }
    bool row =
        c->date == NO_COLUMN ? numbers && marks : date_choice_add(&dates, piece_trimmed(c->header[c->date]));
    FAIL_IF(row, c->host, HASHATTN_BAD_FILE, "'%s' is no name of a column; %s",
            piece_shown(c->header[c->date == NO_COLUMN ? 0 : c->date], shown),
            series_choice_recorded(c->choice) ? "the first line must have the names, as in the run's file"
                                              : "if the first line is a row, `header=false` reads it");
    return HASHATTN_OK;
}

/* Lists the columns that are read. */
static hashattn_status choose(struct series_columns *c)
{
    const struct series_choice *choice = c->choice;
    struct series *series = c->series;
    uint32_t target = 0, field;
    c->by = NO_COLUMN;
    if (choice->by[0] != '\0')
        TRY(find_given(c, piece_of_text(choice->by),
                       series_choice_recorded(choice) ? ", which names the series of the run"
                                                      : " (`series_column`)",
                       &c->by));
    TRY(find_dates(c));
    TRY(check_header(c));
    bool later = c->later; /* the columns are those of the first file */
    for (size_t i = 0; later && i < series->columns; i++) {
        TRY(find_column(c, series->names[i], ", which the first file has", &field));
        c->fields[i] = field;
    }
    if (later)
        return HASHATTN_OK;
    for (size_t i = 0; choice->names != NULL && i < choice->count; i++) {
        TRY(find_column(c, choice->names[i], ", which the model reads", &field));
        TRY(add_column(c, field));
    }
    if (choice->names != NULL)
        return HASHATTN_OK;
    if (choice->columns != NULL && choice->columns[0] != '\0')
        return choose_listed(c);
    uint32_t last = (uint32_t)c->width;
    while (last > 0 && (last - 1 == c->date || last - 1 == c->by))
        last--;
    FAIL_IF(last == 0, c->host, HASHATTN_BAD_FILE, "no column of numbers beside '%.60s'",
            c->date == NO_COLUMN ? choice->by : choice->date);
    target = last - 1;
    if (choice->target[0] != '\0')
        TRY(find_given(c, piece_of_text(choice->target), " (`target`)", &target));
    FAIL_IF(target == c->date, c->host, HASHATTN_BAD_FILE, "the target '%.60s' is the column of dates",
            choice->target);
    for (uint32_t i = 0; i < c->width && !choice->only_target; i++)
        if (i != c->date && i != target && i != c->by)
            TRY(add_column(c, i));
    return add_column(c, target);
}

static hashattn_status record_dates(struct series_columns *c)
{
    struct piece name = c->date == NO_COLUMN ? (struct piece){"none", 4} : c->header[c->date];
    bool fits = name.size < OPTION_TEXT_SIZE && utf8_first_error(name.bytes, name.size) == name.size &&
                memchr(name.bytes, '\0', name.size) == NULL;
    FAIL_IF(!fits, c->host, HASHATTN_BAD_FILE,
            "the name of the column of dates is not UTF-8 of up to %d bytes", OPTION_TEXT_SIZE - 1);
    if (!c->later)
        snprintf(c->series->date_column, sizeof c->series->date_column, "%.*s", (int)name.size, name.bytes);
    FAIL_IF((strcmp(c->series->date_column, "none") == 0) != (c->date == NO_COLUMN), c->host,
            HASHATTN_BAD_FILE, "the first file has %s dates, this one has %s",
            c->date == NO_COLUMN ? "" : "no", c->date == NO_COLUMN ? "none" : "some");
    return HASHATTN_OK;
}

hashattn_status series_columns_choose(struct series_columns *c, const struct csv *row)
{
    c->row = row;
    hashattn_status status = choose(c);
    if (status == HASHATTN_OK && c->date == NO_COLUMN && strcmp(c->choice->date, "none") != 0)
        TRY(check_undated(c));
    if (status == HASHATTN_OK)
        status = record_dates(c);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(c->host, "line 1");
    return status;
}

void series_columns_free(struct series_columns *c)
{
    memory_free(c->host, c->text);
    memory_free(c->host, c->header);
    memory_free(c->host, c->fields);
    memory_free(c->host, c->copies);
    index_table_free(c->host, &c->names);
}
