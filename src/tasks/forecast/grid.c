/* Series are handled one after another, each in the order of its dates.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/dates/civil.h"
#include "io/dates/dates.h"

/* Periods of all series together that may have no date, for each row that the file has: more are a date that
   was misread, or a period that is far too short. */
enum { MOST_EMPTY = 1000 };

struct making {
    struct host *host;
    const struct raw_rows *raw;
    const struct series_choice *choice;
    struct series *series;
    struct grid_report *report;
    size_t *bad;
    int64_t *times;   /* (raw rows) */
    size_t *order;    /* (raw rows) the rows of the first series, then of the second, ... by date */
    size_t *begins;   /* (series + 1) in `order` */
    int64_t *unique;  /* (raw rows) different dates of a series */
    size_t capacity;  /* of series->values, in values */
    size_t *gathered; /* (columns) values whose mean is taken */
};

/* The end of a message: `change` says which option reads such a file, `fact` how the run reads its files. */
static const char *advice(const struct making *m, const char *change, const char *fact)
{
    return series_choice_recorded(m->choice) ? fact : change;
}

/* ---- dates --------------------------------------------------------------------------------------------- */

static hashattn_status fail_date(const struct making *m, size_t row)
{
    struct piece text = raw_rows_date(m->raw, row);
    *m->bad = row;
    return host_fail(m->host, HASHATTN_BAD_FILE,
                     "'%.*s' is not a date like 2016-07-01 or 2016-07-01 00:00:00",
                     text.size > 40 ? 40 : (int)text.size, text.bytes);
}

static hashattn_status choose_format(const struct making *m, enum date_format *format)
{
    struct date_choice left = date_choice_begin();
    if (m->choice->format >= 0) {
        *format = (enum date_format)m->choice->format;
        return HASHATTN_OK;
    }
    for (size_t i = 0; i < m->raw->count; i++)
        if (!date_choice_add(&left, raw_rows_date(m->raw, i)))
            return fail_date(m, i);
    struct piece first = raw_rows_date(m->raw, 0);
    *m->bad = 0;
    FAIL_IF(left.reads[DATES_DAY_FIRST] && left.reads[DATES_MONTH_FIRST], m->host, HASHATTN_BAD_FILE,
            "'%.*s' and all other dates can be read with the day or the month first%s",
            first.size > 40 ? 40 : (int)first.size, first.bytes,
            advice(m, "; set `date_format` to day-first or month-first", ""));
    while (!left.reads[*format])
        ++*format;
    return HASHATTN_OK;
}

static hashattn_status read_dates(struct making *m)
{
    struct calendar *calendar = &m->series->calendar;
    enum date_format format = DATES_YEAR_FIRST;
    bool any_utc = false, any_local = false, units = false; /* numbers of several units */
    TRY(choose_format(m, &format));
    for (size_t i = 0; i < m->raw->count; i++) {
        struct date_style style;
        if (!date_read(raw_rows_date(m->raw, i), format, &style, &m->times[i]))
            return fail_date(m, i);
        units = units || (i > 0 && style.unit != calendar->style.unit);
        any_utc = any_utc || style.utc;
        any_local = any_local || !style.utc;
        *m->bad = i;
        FAIL_IF(any_utc && any_local, m->host, HASHATTN_BAD_FILE,
                "some dates have a time zone, others have none");
        calendar->style = i == 0 ? style : date_style_of_both(calendar->style, style);
    }
    for (size_t i = 0; i < m->raw->count && format == DATES_EPOCH && units; i++) {
        struct date_style style;
        date_read(raw_rows_date(m->raw, i), format, &style, &m->times[i]);
        m->times[i] = date_of_unit(&style, calendar->style.unit, m->times[i]);
    }
    m->report->format = format;
    return HASHATTN_OK;
}

/* The order of rows: by series, and in a series as in the file; one that runs backwards is turned round. */
static hashattn_status sort_rows(struct making *m)
{
    const struct raw_rows *raw = m->raw;
    size_t pieces = m->series->num_pieces;
    for (size_t i = 0; i < raw->count; i++)
        m->begins[raw->rows[i].group + 1]++;
    for (size_t p = 0; p < pieces; p++)
        m->begins[p + 1] += m->begins[p];
    for (size_t i = 0; i < raw->count; i++)
        m->order[m->begins[raw->rows[i].group]++] = i;
    for (size_t p = pieces; p > 0; p--)
        m->begins[p] = m->begins[p - 1];
    m->begins[0] = 0;
    for (size_t p = 0; p < pieces && !m->series->calendar.numbered; p++) {
        size_t *first = m->order + m->begins[p], n = m->begins[p + 1] - m->begins[p];
        if (m->times[first[0]] <= m->times[first[n - 1]])
            continue;
        for (size_t i = 1; i < n; i++) /* a break in the order is told as it is in the file */
            if (m->times[first[i]] > m->times[first[i - 1]])
                return HASHATTN_OK;
        for (size_t i = 0; i < n / 2; i++) {
            size_t other = first[i];
            first[i] = first[n - 1 - i];
            first[n - 1 - i] = other;
        }
        m->report->reversed++;
    }
    return HASHATTN_OK;
}

static hashattn_status fail_repeated(const struct making *m, size_t row)
{
    char now[DATE_TEXT];
    date_write(m->series->calendar.style, m->times[row], now);
    *m->bad = row;
    return host_fail(m->host, HASHATTN_BAD_FILE, "the date %s repeats that of the row before; %s", now,
                     advice(m, "set `duplicates` to first, last or mean", "the run reads one row per date"));
}

static hashattn_status check_order(const struct making *m)
{
    char now[DATE_TEXT], before[DATE_TEXT];
    for (size_t p = 0; p < m->series->num_pieces; p++)
        for (size_t i = m->begins[p] + 1; i < m->begins[p + 1]; i++) {
            size_t row = m->order[i], last = m->order[i - 1];
            if (m->times[row] > m->times[last])
                continue;
            if (m->times[row] == m->times[last] && m->choice->repeated == REPEATED_REFUSE)
                return fail_repeated(m, row);
            date_write(m->series->calendar.style, m->times[row], now);
            date_write(m->series->calendar.style, m->times[last], before);
            *m->bad = row;
            FAIL_IF(m->times[row] < m->times[last], m->host, HASHATTN_BAD_FILE,
                    "the date %s is before %s of the row before", now, before);
        }
    return HASHATTN_OK;
}

/* ---- the period ---------------------------------------------------------------------------------------- */

static size_t unique_dates(const struct making *m, size_t piece)
{
    size_t n = 0;
    for (size_t i = m->begins[piece]; i < m->begins[piece + 1]; i++)
        if (n == 0 || m->unique[n - 1] != m->times[m->order[i]])
            m->unique[n++] = m->times[m->order[i]];
    return n;
}

/* The period of the run is that of the file, unless days without a weekend are business days. With a period
   that was given, any rows are put into it. */
static hashattn_status check_period(const struct making *m, const struct calendar *found, size_t n)
{
    struct calendar expected;
    char freq[CALENDAR_FREQ];
    if (m->choice->expected[0] == '\0' || strcmp(m->choice->freq, "auto") != 0 || n < 2)
        return HASHATTN_OK;
    TRY(calendar_of(m->host, m->choice->expected, m->unique, n, &expected));
    bool days = expected.workdays && found->period == DATE_DAY;
    for (size_t i = 0; i < n && days; i++)
        days = date_weekday(date_day(m->unique[i])) < 5;
    calendar_freq(found, freq);
    *m->bad = SIZE_MAX;
    FAIL_IF(!days && !calendar_same_period(found, &expected), m->host, HASHATTN_BAD_FILE,
            "the rows are one period of %s apart, the run was trained on %s", freq, m->choice->expected);
    return HASHATTN_OK;
}

/* BAD_FILE if years of two digits make rows years apart, but as days of a month would make them days apart:
   24/07/01 and 24/07/02 are July 2024 rather than July 24 of 2001 and 2002. Numbers with the month first have
   a day above 12, which is no month. */
static hashattn_status check_years(const struct making *m, const struct calendar *found, size_t n)
{
    const struct date_style *style = &m->series->calendar.style;
    struct piece text = raw_rows_date(m->raw, 0);
    bool told = m->choice->format >= 0 || strcmp(m->choice->freq, "auto") != 0,
         either = style->letters == 0 ? style->format == DATES_DAY_FIRST : style->fields == 2,
         days = style->short_year && !told && either && found->months > 0 && found->months % 12 == 0;
    for (size_t i = 0; i < n && days; i++) {
        int64_t day = civil_of(date_day(m->unique[i])).year % 100;
        days = day >= 1 && day <= 31;
    }
    *m->bad = 0;
    FAIL_IF(
        days, m->host, HASHATTN_BAD_FILE,
        "'%.*s' and all other dates end in a year or in a day; if it is the year, set `date_format` to %s, "
        "otherwise write years in four digits",
        text.size > 40 ? 40 : (int)text.size, text.bytes, date_formats[style->format]);
    return HASHATTN_OK;
}

/* Begins the calendar no later than a raw row. */
static hashattn_status begin_calendar(const struct making *m, size_t row)
{
    struct calendar *calendar = &m->series->calendar;
    char freq[CALENDAR_FREQ], first[DATE_TEXT], date[DATE_TEXT];
    if (calendar_begin(calendar, m->times[row]))
        return HASHATTN_OK;
    calendar_freq(calendar, freq);
    date_write(calendar->style, calendar->first, first);
    date_write(calendar->style, m->times[row], date);
    *m->bad = row;
    return host_fail(m->host, HASHATTN_BAD_FILE,
                     "whole periods of %s back from %s to %s lead before year 1, dates are of years 1 to "
                     "9999: is it a date%s?",
                     freq, first, date, advice(m, ", and `freq` right", ""));
}

/* The calendar of the longest series, begun with the first date of all. */
static hashattn_status find_calendar(const struct making *m)
{
    struct calendar *calendar = &m->series->calendar, found;
    const char *freq = strcmp(m->choice->freq, "auto") != 0 ? m->choice->freq : m->choice->expected;
    size_t longest = 0;
    for (size_t p = 1; p < m->series->num_pieces; p++)
        if (m->begins[p + 1] - m->begins[p] > m->begins[longest + 1] - m->begins[longest])
            longest = p;
    size_t n = unique_dates(m, longest);
    found = calendar_find(m->unique, n);
    TRY(check_years(m, &found, n));
    TRY(check_period(m, &found, n));
    if (freq[0] != '\0')
        TRY(calendar_of(m->host, freq, m->unique, n, &found));
    found.style = date_style_of_period(calendar->style, found.months > 0 ? DATE_DAY : found.period);
    *calendar = found;
    *m->bad = SIZE_MAX;
    FAIL_IF(found.period == 0 && found.months == 0, m->host, HASHATTN_BAD_FILE,
            "the file has 1 %s, at least 2 rows are needed", m->raw->count > 1 ? "date" : "row");
    for (size_t p = 0; p < m->series->num_pieces; p++)
        TRY(begin_calendar(m, m->order[m->begins[p]]));
    return HASHATTN_OK;
}

/* ---- rows of periods ----------------------------------------------------------------------------------- */

/* Appends `count` rows without values. */
static hashattn_status add_rows(struct making *m, size_t count)
{
    struct series *series = m->series;
    size_t used = series->times * series->columns, more = size_product(count, series->columns);
    TRY(memory_grow(m->host, &series->values, &m->capacity, used, more, sizeof *series->values,
                    "values of the series"));
    for (size_t i = used; i < used + more; i++)
        series->values[i] = NAN;
    series->times += count;
    return HASHATTN_OK;
}

/* The values of another row of the same period. */
static void merge_row(const struct making *m, double *to, const double *from)
{
    for (size_t c = 0; c < m->series->columns; c++) {
        if (isnan(from[c]))
            continue;
        if (m->choice->repeated == REPEATED_MEAN && m->gathered[c] > 0)
            to[c] += (from[c] - to[c]) / (double)(m->gathered[c] + 1);
        else if (m->choice->repeated != REPEATED_FIRST || isnan(to[c]))
            to[c] = from[c];
        m->gathered[c]++;
    }
}

/* Where a row goes that is `moved` if it lies inside a period; `next`: the row after the last one, or that of
   the first one. */
static hashattn_status check_place(const struct making *m, size_t index, size_t row, size_t next, bool first,
                                   bool moved)
{
    const struct calendar *calendar = &m->series->calendar;
    char now[DATE_TEXT], before[DATE_TEXT] = "", expected[DATE_TEXT];
    bool given = strcmp(m->choice->freq, "auto") != 0;
    const char *regular =
        advice(m, "set `freq` to put rows into periods", "the run reads rows that are one period apart");
    date_write(calendar->style, m->times[index], now);
    calendar_date(calendar, next, expected);
    if (!first)
        calendar_date(calendar, next - 1, before);
    *m->bad = index;
    FAIL_IF(moved && !given && first, m->host, HASHATTN_BAD_FILE,
            "the date %s is between two periods of the other rows; %s", now, regular);
    FAIL_IF(moved && !given, m->host, HASHATTN_BAD_FILE,
            "the date %s is not one period after %s, where %s is expected; %s", now, before, expected,
            regular);
    FAIL_IF(row < next && m->choice->repeated == REPEATED_REFUSE, m->host, HASHATTN_BAD_FILE,
            "the date %s is in the period of the row before, which begins with %s; %s", now, before,
            advice(m, "set `duplicates` to first, last or mean", "the run reads one row per period"));
    size_t missing = row > next ? row - next : 0;
    FAIL_IF(
        missing > 0 && m->choice->missing == MISSING_REFUSE, m->host, HASHATTN_BAD_FILE,
        "%zu date%s missing before %s: %s comes after %s; %s", missing, missing == 1 ? " is" : "s are", now,
        expected, before,
        advice(m, "set `missing` to interpolate or last", "the run reads files without gaps: add the rows"));
    size_t all = size_sum(m->report->rows, missing), most = size_product(MOST_EMPTY, m->raw->count);
    FAIL_IF(
        all > most, m->host, HASHATTN_BAD_FILE,
        "%zu date%s missing before %s, %zu up to here, allowed are %zu (%d for each of %zu rows): is it a "
        "date%s?",
        missing, missing == 1 ? " is" : "s are", now, all, most, MOST_EMPTY, m->raw->count,
        advice(m, ", and `freq` right", ""));
    return HASHATTN_OK;
}

static hashattn_status place_piece(struct making *m, size_t p)
{
    struct series *series = m->series;
    struct series_piece *piece = &series->pieces[p];
    size_t columns = series->columns, next = 0;
    piece->time = series->times;
    for (size_t i = m->begins[p]; i < m->begins[p + 1]; i++) {
        size_t index = m->order[i], row = i - m->begins[p];
        bool first = i == m->begins[p], moved = false;
        if (!series->calendar.numbered)
            moved = !calendar_row(&series->calendar, m->times[index], &row);
        if (first)
            piece->row = row;
        next = first ? row : next;
        if (moved || row != next)
            TRY(check_place(m, index, row, next, first, moved));
        m->report->moved += moved;
        if (row >= next) {
            m->report->rows += row - next;
            TRY(add_rows(m, row - next + 1));
            memset(m->gathered, 0, columns * sizeof *m->gathered);
        } else {
            m->report->repeated++;
        }
        merge_row(m, series->values + (series->times - 1) * columns, m->raw->values + index * columns);
        next = size_max(next, row + 1);
    }
    piece->times = series->times - piece->time;
    return HASHATTN_OK;
}

/* ---- missing values ------------------------------------------------------------------------------------ */

/* Fills the gap of rows [from, to) of one column, which has a value before, after, or both. */
static void fill_gap(const struct making *m, double *x, size_t from, size_t to, size_t times)
{
    size_t apart = m->series->columns;
    for (size_t t = from; t < to; t++) {
        double before = from > 0 ? x[(from - 1) * apart] : x[to * apart];
        double after = to < times ? x[to * apart] : before;
        double share = (double)(t - from + 1) / (double)(to - from + 1);
        x[t * apart] = m->choice->missing == MISSING_LAST ? before : before * (1 - share) + after * share;
    }
}

static hashattn_status fill_piece(const struct making *m, const struct series_piece *piece)
{
    const struct series *series = m->series;
    for (size_t c = 0; c < series->columns; c++) {
        double *x = series->values + piece->time * series->columns + c;
        for (size_t t = 0; t < piece->times; t++) {
            size_t end = t;
            while (end < piece->times && isnan(x[end * series->columns]))
                end++;
            *m->bad = SIZE_MAX;
            FAIL_IF(end - t == piece->times, m->host, HASHATTN_BAD_FILE, "column '%.60s'%s%.60s has no value",
                    series->names[c], piece->name == NULL ? "" : " of series ",
                    piece->name == NULL ? "" : piece->name);
            m->report->cells += end - t;
            fill_gap(m, x, t, end, piece->times);
            t = end;
        }
    }
    return HASHATTN_OK;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static hashattn_status make_all(struct making *m)
{
    struct series *series = m->series;
    bool numbered = strcmp(series->date_column, "none") == 0;
    if (numbered)
        series->calendar = (struct calendar){.numbered = true};
    else
        TRY(read_dates(m));
    TRY(sort_rows(m));
    if (!numbered) {
        TRY(check_order(m));
        TRY(find_calendar(m));
    }
    size_t most = 0;
    for (size_t p = 0; p < series->num_pieces; p++) {
        TRY(place_piece(m, p));
        TRY(fill_piece(m, &series->pieces[p]));
        most = size_max(most, series->pieces[p].row + series->pieces[p].times);
    }
    m->report->cells -= size_product(m->report->rows, series->columns);
    series->calendar.count = most;
    return HASHATTN_OK;
}

hashattn_status grid_make(struct host *host, const struct raw_rows *raw, const struct series_choice *choice,
                          struct series *series, struct grid_report *report, size_t *bad)
{
    struct making m = {
        .host = host, .raw = raw, .choice = choice, .series = series, .report = report, .bad = bad};
    void *block;
    *bad = SIZE_MAX;
    *report = (struct grid_report){.format = DATES_YEAR_FIRST};
    series->columns = raw->columns;
    hashattn_status status = HASHATTN_OK;
    TRY_DONE(memory_new(host, raw->count, sizeof *m.times, "dates", &block));
    m.times = block;
    TRY_DONE(memory_new(host, raw->count, sizeof *m.unique, "dates", &block));
    m.unique = block;
    TRY_DONE(memory_new(host, raw->count, sizeof *m.order, "the order of rows", &block));
    m.order = block;
    TRY_DONE(memory_new_zeroed(host, series->num_pieces + 1, sizeof *m.begins, "series", &block));
    m.begins = block;
    TRY_DONE(memory_new_zeroed(host, raw->columns, sizeof *m.gathered, "counts of columns", &block));
    m.gathered = block;
    status = make_all(&m);
done:
    memory_free(host, m.times);
    memory_free(host, m.unique);
    memory_free(host, m.order);
    memory_free(host, m.begins);
    memory_free(host, m.gathered);
    return status;
}
