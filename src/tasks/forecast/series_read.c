/* Reads record by record; a value is converted once. The first row of data is read before columns are chosen,
   because a column of dates is known by it.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_read.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/tables/index_table.h"
#include "io/csv.h"
#include "io/utf8.h"
#include "tasks/dataset.h"
#include "tasks/forecast/grid.h"

enum { NO_COLUMN = UINT32_MAX };
enum { LISTED = OPTION_TEXT_SIZE / 2 }; /* names that the text of the option fits, with their commas */

/* Files that are being read. */
struct reading {
    struct host *host;
    const struct series_choice *choice;
    struct series *series;
    struct raw_rows raw;
    struct index_table pieces; /* the piece of each name */
    size_t pieces_capacity;
    bool points, commas; /* decimal points or commas were seen */
    char delimiter;      /* the last one that was found */
    /* The current file. */
    struct csv csv;
    size_t file, row, width; /* row: of data, from 1; width: fields of a record */
    char *header_text;
    struct piece *header;     /* (width) names of columns */
    uint32_t date, by;        /* fields, or NO_COLUMN */
    size_t *fields;           /* (columns) field of each column */
    struct index_table names; /* the first field of each name */
    uint32_t *copies;         /* (width) fields of that name, at the first of them */
};

/* ---- columns ------------------------------------------------------------------------------------------- */

static hashattn_status fail_missing(const struct reading *r, const char *name, const char *option)
{
    char list[200] = "", shown[SHOWN_SIZE];
    size_t used = 0;
    for (size_t i = 0; i < r->width && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                 piece_shown(r->header[i], shown));
    return host_fail(r->host, HASHATTN_BAD_FILE, "no column '%.60s'%s; there are: %s%s", name, option, list,
                     used < sizeof list ? "" : "...");
}

/* Sets *field to the first field of this name; false, and *field stays as it is: there is none. */
static bool find_name(const struct reading *r, struct piece name, uint32_t *field)
{
    uint64_t hash = hash_bytes(&r->names.key, name.bytes, name.size);
    uint32_t index;
    for (size_t probes = 0; index_table_next(&r->names, hash, &probes, &index);) {
        struct piece known = r->header[index];
        if (known.size == name.size && memcmp(known.bytes, name.bytes, name.size) == 0) {
            *field = index;
            return true;
        }
    }
    return false;
}

static hashattn_status index_names(struct reading *r)
{
    void *block;
    TRY(memory_new_zeroed(r->host, r->width, sizeof *r->copies, "names of columns", &block));
    r->copies = block;
    for (uint32_t i = 0; i < r->width; i++) {
        struct piece name = r->header[i];
        uint32_t first = i;
        TRY(index_table_grow(r->host, &r->names));
        if (!find_name(r, name, &first))
            index_table_add(&r->names, hash_bytes(&r->names.key, name.bytes, name.size), i);
        r->copies[first]++;
    }
    return HASHATTN_OK;
}

/* The field of the column `name`; BAD_FILE: there is none, or two. */
static hashattn_status find_column(const struct reading *r, const char *name, const char *option,
                                   uint32_t *field)
{
    uint32_t found;
    if (!find_name(r, (struct piece){name, strlen(name)}, &found))
        return fail_missing(r, name, option);
    FAIL_IF(r->copies[found] > 1, r->host, HASHATTN_BAD_FILE, "%u columns are called '%.60s'",
            r->copies[found], name);
    *field = found;
    return HASHATTN_OK;
}

/* The same for a column that an option names, where a number from 1 is the place of one. */
static hashattn_status find_given(const struct reading *r, struct piece name, const char *option,
                                  uint32_t *field)
{
    char text[OPTION_TEXT_SIZE];
    size_t number = 0, digits = 0;
    uint32_t unused;
    snprintf(text, sizeof text, "%.*s", (int)size_min(name.size, sizeof text - 1), name.bytes);
    for (; digits < 6 && text[digits] >= '0' && text[digits] <= '9'; digits++)
        number = 10 * number + (size_t)(text[digits] - '0');
    if (digits == 0 || text[digits] != '\0' || number == 0 || number > r->width ||
        find_name(r, name, &unused))
        return find_column(r, text, option, field);
    *field = (uint32_t)(number - 1);
    return HASHATTN_OK;
}

static struct piece piece_of_text(const char *text)
{
    return (struct piece){text, strlen(text)};
}

static hashattn_status copy_text(struct host *host, struct piece text, const char *what, char **copy)
{
    void *block;
    TRY(memory_new(host, text.size + 1, 1, what, &block));
    *copy = block;
    memcpy(*copy, text.bytes, text.size);
    (*copy)[text.size] = '\0';
    return HASHATTN_OK;
}

static hashattn_status add_column(struct reading *r, uint32_t field)
{
    struct series *series = r->series;
    struct piece name = r->header[field];
    FAIL_IF(name.size == 0, r->host, HASHATTN_BAD_FILE, "column %u has no name", field + 1);
    FAIL_IF(utf8_first_error(name.bytes, name.size) < name.size ||
                memchr(name.bytes, '\0', name.size) != NULL,
            r->host, HASHATTN_BAD_FILE, "the name of column %u is not UTF-8", field + 1);
    FAIL_IF(field == r->by, r->host, HASHATTN_BAD_FILE, "column '%.60s' names the series, it is no number",
            r->choice->by);
    r->fields[series->columns] = field;
    TRY(copy_text(r->host, name, "the name of a column", &series->names[series->columns]));
    uint32_t again;
    return find_column(r, series->names[series->columns++], "", &again);
}

/* A column that dates usually have the name of, in any case of letters. */
static bool names_dates(struct piece name, const char *usual)
{
    size_t i = 0;
    while (i < name.size && usual[i] != '\0' && tolower((unsigned char)name.bytes[i]) == usual[i])
        i++;
    return i == name.size && usual[i] == '\0';
}

static bool shows_date(const struct reading *r, size_t field)
{
    struct date_choice choice = date_choice_begin();
    return field < r->csv.count && date_choice_add(&choice, r->csv.fields[field]);
}

/* The field of the dates. */
static hashattn_status find_dates(const struct reading *r, uint32_t *field)
{
    static const char *const usual[] = {"date",   "datetime", "date_time", "timestamp", "time",
                                        "ds",     "day",      "month",     "year",      "quarter",
                                        "period", "ts",       "dt",        "epoch",     NULL};
    const char *name = r->choice->date;
    *field = NO_COLUMN;
    if (strcmp(name, "none") == 0)
        return HASHATTN_OK;
    if (name[0] != '\0')
        return find_given(r, piece_of_text(name),
                          series_choice_recorded(r->choice) ? ", which has the dates of the run"
                                                            : " (`date_column`)",
                          field);
    for (size_t i = 0; usual[i] != NULL; i++)
        for (uint32_t f = 0; f < r->width; f++)
            if (f != r->by && names_dates(r->header[f], usual[i]) && shows_date(r, f)) {
                *field = f;
                return HASHATTN_OK;
            }
    double number;
    for (uint32_t f = 0; f < r->width; f++)
        if (f != r->by && shows_date(r, f) && !decimal_read(r->csv.fields[f], &number)) {
            *field = f;
            return HASHATTN_OK;
        }
    return HASHATTN_OK;
}

/* The fields of the choice's list, without the dates and each once. A column is there twice under its name,
   or under that and its number. */
static hashattn_status read_list(const struct reading *r, uint32_t fields[LISTED], size_t *count)
{
    char shown[SHOWN_SIZE];
    *count = 0;
    for (const char *at = r->choice->columns; *at != '\0'; at += *at == ',') {
        struct piece name = {at, strcspn(at, ",")};
        uint32_t field;
        at += name.size;
        TRY(find_given(r, name, " (`columns`)", &field));
        FAIL_IF(field == r->date, r->host, HASHATTN_BAD_FILE, "'%.*s' of the columns is the column of dates",
                (int)size_min(name.size, 60), name.bytes);
        for (size_t i = 0; i < *count; i++)
            FAIL_IF(fields[i] == field, r->host, HASHATTN_BAD_FILE,
                    "`columns` has column '%s' twice, as number %zu and %zu; once is allowed",
                    piece_shown(r->header[field], shown), i + 1, *count + 1);
        assert(*count < LISTED);
        fields[(*count)++] = field;
    }
    return HASHATTN_OK;
}

/* The columns of the choice's list in its order, but the target last, which is its last one or is named. */
static hashattn_status choose_listed(struct reading *r)
{
    const struct series_choice *choice = r->choice;
    uint32_t target = NO_COLUMN, fields[LISTED];
    size_t count, target_at = 0;
    if (choice->target[0] != '\0')
        TRY(find_given(r, piece_of_text(choice->target), " (`target`)", &target));
    TRY(read_list(r, fields, &count));
    if (target == NO_COLUMN)
        target = fields[count - 1];
    while (target_at < count && fields[target_at] != target)
        target_at++;
    FAIL_IF(target_at == count, r->host, HASHATTN_BAD_FILE,
            "the target '%.60s' is none of the columns '%.60s'", choice->target, choice->columns);
    for (size_t i = 0; i < count && !choice->only_target; i++)
        if (i != target_at)
            TRY(add_column(r, fields[i]));
    return add_column(r, target);
}

/* BAD_FILE if the first line is a row rather than names: a date is where dates are, or there are none and
   numbers with a decimal mark are among nothing but numbers. */
static hashattn_status check_header(const struct reading *r)
{
    struct date_choice dates = date_choice_begin();
    bool numbers = true, marks = false;
    char shown[SHOWN_SIZE];
    double number;
    if (r->choice->no_header)
        return HASHATTN_OK;
    for (size_t i = 0; i < r->width; i++) {
        numbers &= decimal_read(r->header[i], &number);
        marks |= memchr(r->header[i].bytes, '.', r->header[i].size) != NULL;
    }
    bool row = r->date == NO_COLUMN ? numbers && marks : date_choice_add(&dates, r->header[r->date]);
    FAIL_IF(row, r->host, HASHATTN_BAD_FILE, "'%s' is no name of a column; %s",
            piece_shown(r->header[r->date == NO_COLUMN ? 0 : r->date], shown),
            series_choice_recorded(r->choice) ? "the first line must have the names, as in the run's file"
                                              : "if the first line is a row, `header=false` reads it");
    return HASHATTN_OK;
}

/* Lists the columns that are read. */
static hashattn_status choose_columns(struct reading *r)
{
    const struct series_choice *choice = r->choice;
    struct series *series = r->series;
    uint32_t target = 0, field;
    r->by = NO_COLUMN;
    if (choice->by[0] != '\0')
        TRY(find_given(r, piece_of_text(choice->by),
                       series_choice_recorded(choice) ? ", which names the series of the run"
                                                      : " (`series_column`)",
                       &r->by));
    TRY(find_dates(r, &r->date));
    TRY(check_header(r));
    bool later = r->file > 0; /* the columns are those of the first file */
    for (size_t i = 0; later && i < series->columns; i++) {
        TRY(find_column(r, series->names[i], ", which the first file has", &field));
        r->fields[i] = field;
    }
    if (later)
        return HASHATTN_OK;
    for (size_t i = 0; choice->names != NULL && i < choice->count; i++) {
        TRY(find_column(r, choice->names[i], ", which the model reads", &field));
        TRY(add_column(r, field));
    }
    if (choice->names != NULL)
        return HASHATTN_OK;
    if (choice->columns != NULL && choice->columns[0] != '\0')
        return choose_listed(r);
    uint32_t last = (uint32_t)r->width;
    while (last > 0 && (last - 1 == r->date || last - 1 == r->by))
        last--;
    FAIL_IF(last == 0, r->host, HASHATTN_BAD_FILE, "no column of numbers beside '%.60s'",
            r->date == NO_COLUMN ? choice->by : choice->date);
    target = last - 1;
    if (choice->target[0] != '\0')
        TRY(find_given(r, piece_of_text(choice->target), " (`target`)", &target));
    FAIL_IF(target == r->date, r->host, HASHATTN_BAD_FILE, "the target '%.60s' is the column of dates",
            choice->target);
    for (uint32_t i = 0; i < r->width && !choice->only_target; i++)
        if (i != r->date && i != target && i != r->by)
            TRY(add_column(r, i));
    return add_column(r, target);
}

static hashattn_status record_dates(struct reading *r)
{
    struct piece name = r->date == NO_COLUMN ? (struct piece){"none", 4} : r->header[r->date];
    bool fits = name.size < OPTION_TEXT_SIZE && utf8_first_error(name.bytes, name.size) == name.size &&
                memchr(name.bytes, '\0', name.size) == NULL;
    FAIL_IF(!fits, r->host, HASHATTN_BAD_FILE,
            "the name of the column of dates is not UTF-8 of up to %d bytes", OPTION_TEXT_SIZE - 1);
    if (r->file == 0)
        snprintf(r->series->date_column, sizeof r->series->date_column, "%.*s", (int)name.size, name.bytes);
    FAIL_IF((strcmp(r->series->date_column, "none") == 0) != (r->date == NO_COLUMN), r->host,
            HASHATTN_BAD_FILE, "the first file has %s dates, this one has %s",
            r->date == NO_COLUMN ? "" : "no", r->date == NO_COLUMN ? "none" : "some");
    return HASHATTN_OK;
}

enum { NUMBER_SIZE = 11 }; /* of a column's number as text with its NUL */

/* Copies the names, because the next record takes their place; without a header they are numbers from 1. */
static hashattn_status keep_header(struct reading *r)
{
    const struct csv *csv = &r->csv;
    bool numbered = r->choice->no_header;
    size_t size = 0, most = size_max(csv->count, size_max(r->choice->count, r->series->columns));
    void *block;
    for (size_t i = 0; i < csv->count; i++)
        size += numbered ? NUMBER_SIZE : csv->fields[i].size;
    TRY(memory_new(r->host, size + 1, 1, "names of columns", &block));
    r->header_text = block;
    TRY(memory_new(r->host, csv->count, sizeof *r->header, "names of columns", &block));
    r->header = block;
    TRY(memory_new(r->host, most, sizeof *r->fields, "places of columns", &block));
    r->fields = block;
    if (r->file == 0) {
        TRY(memory_new_zeroed(r->host, most, sizeof *r->series->names, "names of columns", &block));
        r->series->names = block;
    }
    char *at = r->header_text;
    for (size_t i = 0; i < csv->count; at += r->header[i++].size) {
        size_t length = csv->fields[i].size;
        if (numbered)
            length = (size_t)snprintf(at, NUMBER_SIZE, "%u", (unsigned)(i + 1));
        else
            memcpy(at, csv->fields[i].bytes, length);
        r->header[i] = (struct piece){at, length};
    }
    r->width = csv->count;
    return index_names(r);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* The piece of this name, made if it is new. */
static hashattn_status find_piece(struct reading *r, struct piece name, uint32_t *piece)
{
    struct series *series = r->series;
    TRY(index_table_grow(r->host, &r->pieces));
    uint64_t hash = hash_bytes(&r->pieces.key, name.bytes, name.size);
    for (size_t probes = 0; index_table_next(&r->pieces, hash, &probes, piece);)
        if (piece_is(name, series->pieces[*piece].name))
            return HASHATTN_OK;
    FAIL_IF(utf8_first_error(name.bytes, name.size) < name.size ||
                memchr(name.bytes, '\0', name.size) != NULL || name.size == 0,
            r->host, HASHATTN_BAD_FILE, "the name of the series is %s",
            name.size == 0 ? "empty" : "not UTF-8");
    TRY(memory_grow(r->host, &series->pieces, &r->pieces_capacity, series->num_pieces, 1,
                    sizeof *series->pieces, "series"));
    series->pieces[series->num_pieces] = (struct series_piece){.name = NULL};
    TRY(copy_text(r->host, name, "the name of a series", &series->pieces[series->num_pieces++].name));
    *piece = (uint32_t)(series->num_pieces - 1);
    index_table_add(&r->pieces, hash, *piece);
    return HASHATTN_OK;
}

static hashattn_status add_nameless_piece(struct reading *r)
{
    TRY(memory_grow(r->host, &r->series->pieces, &r->pieces_capacity, 0, 1, sizeof *r->series->pieces,
                    "series"));
    r->series->pieces[0] = (struct series_piece){.name = NULL};
    r->series->num_pieces = 1;
    return HASHATTN_OK;
}

/* The end of a message about a cell that is no number. comma: it may be one with a decimal comma. */
static const char *number_advice(const struct reading *r, bool missing, bool comma)
{
    if (series_choice_recorded(r->choice))
        return missing ? "; the run reads files without missing values: fill it in"
               : comma ? "; the run reads decimal points here"
                       : "";
    return missing       ? "; set `missing` to interpolate or last"
           : comma       ? "; set `decimal` to comma, or to point if commas are between thousands"
           : r->row == 1 ? "; set `columns` to read only some, or `series_column` if it names series"
                         : "";
}

/* Points, unless the delimiter is no comma and the cell shows a decimal comma. */
static hashattn_status read_number(struct reading *r, struct piece cell, const char *name, double *value)
{
    char shown[SHOWN_SIZE];
    enum decimal_mark mark = r->choice->decimal;
    bool told = mark != DECIMAL_AUTO;
    if (!told && r->delimiter != ',')
        mark = decimal_mark_of(cell);
    bool good =
        told || mark == DECIMAL_COMMA ? decimal_read_marked(cell, mark, value) : decimal_read(cell, value);
    r->commas = r->commas || (good && mark == DECIMAL_COMMA);
    r->points = r->points || (good && mark == DECIMAL_POINT);
    bool missing = !good && decimal_is_missing(cell);
    if (missing && r->choice->missing != MISSING_REFUSE) {
        *value = NAN;
        return HASHATTN_OK;
    }
    FAIL_IF(!good, r->host, HASHATTN_BAD_FILE, "column '%.60s' is '%s', a finite number is needed%s", name,
            piece_shown(cell, shown),
            number_advice(r, missing, !told && decimal_mark_of(cell) == DECIMAL_COMMA));
    FAIL_IF(!told && r->commas && r->points, r->host, HASHATTN_BAD_FILE,
            "column '%.60s' is '%s': the file has decimal points and decimal commas%s", name,
            piece_shown(cell, shown), series_choice_recorded(r->choice) ? "" : "; set `decimal`");
    return HASHATTN_OK;
}

static hashattn_status read_row(struct reading *r)
{
    const struct csv *csv = &r->csv;
    struct raw_row row = {.line = csv->line, .row = r->row, .file = (uint32_t)r->file};
    struct piece date = {"", 0};
    double *values;
    FAIL_IF(csv->count != r->width, r->host, HASHATTN_BAD_FILE, "%zu field%s, %s has %zu", csv->count,
            csv->count == 1 ? "" : "s", r->choice->no_header ? "the first row" : "the header", r->width);
    if (r->by != NO_COLUMN)
        TRY(find_piece(r, csv->fields[r->by], &row.group));
    else
        row.group = (uint32_t)(r->series->num_pieces - 1);
    if (r->date != NO_COLUMN)
        date = csv->fields[r->date];
    TRY(raw_rows_add(r->host, &r->raw, date, row, &values));
    for (size_t c = 0; c < r->series->columns; c++)
        TRY(read_number(r, csv->fields[r->fields[c]], r->series->names[c], &values[c]));
    return HASHATTN_OK;
}

static hashattn_status at_row(struct host *host, hashattn_status status, size_t line, size_t row)
{
    char place[80];
    snprintf(place, sizeof place, "line %zu, row %zu", line, row);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, place);
    return status;
}

/* The next record that is no blank line; count 0: none. */
static hashattn_status next_record(struct reading *r)
{
    do
        TRY(csv_next(r->host, &r->csv));
    while (r->csv.count == 1 && r->csv.fields[0].size == 0 && r->width > 0);
    return HASHATTN_OK;
}

static hashattn_status read_records(struct reading *r, const struct series_file *file)
{
    TRY(csv_delimit(r->host, &r->csv, r->choice->delimiter, &r->delimiter));
    TRY(next_record(r));
    FAIL_IF(r->csv.count == 0, r->host, HASHATTN_BAD_FILE, "the file is empty");
    TRY(keep_header(r));
    if (!r->choice->no_header)
        TRY(next_record(r));
    hashattn_status status = choose_columns(r);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(r->host, "line 1");
    TRY(status);
    TRY(record_dates(r));
    r->raw.columns = r->series->columns;
    uint32_t piece;
    if (r->by == NO_COLUMN && file->name != NULL)
        TRY(find_piece(r, (struct piece){file->name, strlen(file->name)}, &piece));
    else if (r->by == NO_COLUMN)
        TRY(add_nameless_piece(r));
    for (r->row = 1; r->csv.count > 0; r->row++) {
        TRY(at_row(r->host, read_row(r), r->csv.line, r->row));
        TRY(next_record(r));
    }
    FAIL_IF(r->row < 3, r->host, HASHATTN_BAD_FILE, "the file has %s, at least 2 rows are needed",
            r->row == 1 ? "no row" : "1 row");
    return HASHATTN_OK;
}

static void close_file(struct reading *r)
{
    csv_close(r->host, &r->csv);
    memory_free(r->host, r->header_text);
    memory_free(r->host, r->header);
    memory_free(r->host, r->fields);
    memory_free(r->host, r->copies);
    index_table_free(r->host, &r->names);
    r->header_text = NULL;
    r->header = NULL;
    r->fields = NULL;
    r->copies = NULL;
    r->names = (struct index_table){.slots = NULL};
    r->width = 0;
}

/* The path in messages. */
static const char *shown(const char *path)
{
    return file_is_standard(path) ? "standard input" : path;
}

/* Messages have the path. */
static hashattn_status read_file(struct reading *r, const struct series_file *file, enum file_source source)
{
    TRY(csv_open(r->host, file->path, source, &r->csv));
    hashattn_status status = read_records(r, file);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(r->host, shown(file->path));
    close_file(r);
    return status;
}

/* ---- the report ---------------------------------------------------------------------------------------- */

static void add_words(char *text, size_t size, const char *words, size_t count, const char *one)
{
    size_t used = strlen(text);
    if (count > 0)
        snprintf(text + used, size - used, "; %zu %s%s %s", count, one, count == 1 ? "" : "s", words);
}

/* What a person would check: the period, the first and the last date, the columns, what was guessed, and what
   was repaired. */
static void report_found(const struct reading *r, const struct series_file *files, size_t num_files,
                         const struct grid_report *report)
{
    struct series *series = r->series;
    const struct calendar *calendar = &series->calendar;
    char first[DATE_TEXT], last[DATE_TEXT], freq[CALENDAR_FREQ], repairs[320] = "", of[60] = "",
                                                                 more[40] = "";
    calendar_freq(calendar, freq);
    calendar_date(calendar, 0, first);
    calendar_date(calendar, calendar->count - 1, last);
    if (series->num_pieces > 1 || series->pieces[0].name != NULL)
        snprintf(of, sizeof of, " of %zu series", series->num_pieces);
    if (num_files > 1)
        snprintf(more, sizeof more, " and %zu more", num_files - 1);
    add_words(repairs, sizeof repairs,
              r->choice->missing == MISSING_LAST ? "filled with the last value" : "interpolated",
              report->cells, "missing value");
    add_words(repairs, sizeof repairs,
              r->choice->missing == MISSING_LAST ? "filled with the last values" : "interpolated",
              report->rows, "missing row");
    add_words(repairs, sizeof repairs,
              r->choice->repeated == REPEATED_MEAN    ? "of the same time averaged"
              : r->choice->repeated == REPEATED_FIRST ? "of the same time dropped for the first"
                                                      : "of the same time replaced by the last",
              report->repeated, "row");
    add_words(repairs, sizeof repairs, "moved to the beginning of their period", report->moved, "row");
    add_words(repairs, sizeof repairs, "read backwards, the oldest row first", report->reversed, "series");
    series->repaired = repairs[0] != '\0';
    snprintf(series->found, sizeof series->found,
             "%.200s%s: %zu rows%s, %s%s, %s to %s, %zu column%s%s%s%s%s", shown(files[0].path), more,
             series->times, of, calendar->numbered ? "numbered" : "every ", freq, first, last,
             series->columns, series->columns == 1 ? "" : "s",
             report->format == DATES_YEAR_FIRST ? "" : ", dates ",
             report->format == DATES_YEAR_FIRST ? "" : date_formats[report->format],
             r->commas ? ", decimal commas" : "", repairs);
    hashattn_message_clean(series->found);
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static hashattn_status read_all(struct reading *r, const struct series_file *files, size_t num_files,
                                enum file_source source)
{
    struct grid_report report;
    size_t bad;
    for (r->file = 0; r->file < num_files; r->file++)
        TRY(read_file(r, &files[r->file], source));
    hashattn_status status = grid_make(r->host, &r->raw, r->choice, r->series, &report, &bad);
    if (status == HASHATTN_OK) {
        report_found(r, files, num_files, &report);
        return HASHATTN_OK;
    }
    size_t file = bad == SIZE_MAX ? 0 : r->raw.rows[bad].file;
    if (bad != SIZE_MAX)
        status = at_row(r->host, status, r->raw.rows[bad].line, r->raw.rows[bad].row);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(r->host, shown(files[file].path));
    return status;
}

hashattn_status series_read(struct host *host, const struct series_file *files, size_t num_files,
                            enum file_source source, const struct series_choice *choice,
                            struct series *series)
{
    struct reading reading = {.host = host, .choice = choice, .series = series};
    *series = (struct series){.columns = 0};
    struct c_locale locale = c_locale_begin();
    hashattn_status status = read_all(&reading, files, num_files, source);
    c_locale_end(locale);
    raw_rows_free(host, &reading.raw);
    index_table_free(host, &reading.pieces);
    if (status != HASHATTN_OK)
        series_free(host, series);
    return status;
}
