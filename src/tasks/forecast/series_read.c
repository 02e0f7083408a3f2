/* Reads record by record. The first row of data is read before columns are chosen, because a column of dates
   is known by it.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series_read.h"

#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/memory.h"
#include "io/csv.h"
#include "io/dates/dates.h"
#include "io/utf8.h"
#include "tasks/forecast/grid.h"
#include "tasks/forecast/series_columns.h"
#include "tasks/forecast/series_numbers.h"

/* Files that are being read. */
struct reading {
    struct host *host;
    const struct series_choice *choice;
    struct series *series;
    struct raw_rows raw;
    struct series_numbers numbers;
    struct index_table pieces; /* the piece of each name */
    size_t pieces_capacity;
    /* The current file. */
    struct csv csv;
    struct series_columns columns;
    size_t file, row; /* row: of data, from 1 */
};

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
    TRY(series_copy_text(r->host, name, "the name of a series", &series->pieces[series->num_pieces++].name));
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

static hashattn_status read_row(struct reading *r)
{
    const struct csv *csv = &r->csv;
    struct raw_row row = {.line = csv->line, .row = r->row, .file = (uint32_t)r->file};
    struct piece date = {"", 0};
    double *values;
    FAIL_IF(csv->count != r->columns.width, r->host, HASHATTN_BAD_FILE, "%zu field%s, %s has %zu", csv->count,
            csv->count == 1 ? "" : "s", r->choice->no_header ? "the first row" : "the header",
            r->columns.width);
    if (r->columns.by != NO_COLUMN)
        TRY(find_piece(r, csv->fields[r->columns.by], &row.group));
    else
        row.group = (uint32_t)(r->series->num_pieces - 1);
    if (r->columns.date != NO_COLUMN)
        date = piece_trimmed(csv->fields[r->columns.date]);
    TRY(raw_rows_add(r->host, &r->raw, date, row, &values));
    for (size_t c = 0; c < r->series->columns; c++)
        TRY(series_numbers_read(&r->numbers, csv->fields[r->columns.fields[c]], c, r->raw.count - 1,
                                &values[c]));
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
    while (r->csv.count == 1 && r->csv.fields[0].size == 0 && r->columns.width > 0);
    return HASHATTN_OK;
}

static hashattn_status read_records(struct reading *r, const struct series_file *file)
{
    r->columns = (struct series_columns){
        .host = r->host, .choice = r->choice, .series = r->series, .later = r->file > 0};
    TRY(csv_delimit(r->host, &r->csv, r->choice->delimiter, &r->numbers.delimiter));
    TRY(next_record(r));
    FAIL_IF(r->csv.count == 0, r->host, HASHATTN_BAD_FILE, "the file is empty");
    TRY(series_columns_keep(&r->columns, &r->csv));
    if (!r->choice->no_header)
        TRY(next_record(r));
    TRY(series_columns_choose(&r->columns, &r->csv));
    TRY(series_numbers_begin(&r->numbers, r->series));
    r->raw.columns = r->series->columns;
    uint32_t piece;
    if (r->columns.by == NO_COLUMN && file->name != NULL)
        TRY(find_piece(r, (struct piece){file->name, strlen(file->name)}, &piece));
    else if (r->columns.by == NO_COLUMN)
        TRY(add_nameless_piece(r));
    for (r->row = 1; r->csv.count > 0; r->row++) {
        TRY(at_row(r->host, read_row(r), r->csv.line, r->row));
        TRY(next_record(r));
    }
    FAIL_IF(r->row < 3, r->host, HASHATTN_BAD_FILE, "the file has %s, at least 2 rows are needed",
            r->row == 1 ? "no row" : "1 row");
    return HASHATTN_OK;
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
    csv_close(r->host, &r->csv);
    series_columns_free(&r->columns);
    r->columns = (struct series_columns){.width = 0};
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
             r->numbers.commas ? ", decimal commas" : "", repairs);
    hashattn_message_clean(series->found);
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static hashattn_status read_all(struct reading *r, const struct series_file *files, size_t num_files,
                                enum file_source source)
{
    struct grid_report report;
    size_t bad = SIZE_MAX;
    for (r->file = 0; r->file < num_files; r->file++)
        TRY(read_file(r, &files[r->file], source));
    hashattn_status status = series_numbers_check(&r->numbers, &bad);
    if (status == HASHATTN_OK)
        status = grid_make(r->host, &r->raw, r->choice, r->series, &report, &bad);
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
    reading.numbers = (struct series_numbers){.host = host, .choice = choice};
    *series = (struct series){.columns = 0};
    struct c_locale locale = c_locale_begin();
    hashattn_status status = read_all(&reading, files, num_files, source);
    c_locale_end(locale);
    raw_rows_free(host, &reading.raw);
    index_table_free(host, &reading.pieces);
    series_numbers_free(&reading.numbers);
    if (status != HASHATTN_OK)
        series_free(host, series);
    return status;
}
