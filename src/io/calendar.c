/* A date is read to seconds; days are counted in the proleptic Gregorian calendar.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/calendar.h"

#include <assert.h>
#include <stdio.h>

enum { DAY = 86400, LAST_YEAR = 9999 };

/* ---- days ---------------------------------------------------------------------------------------------- */

struct civil {
    int64_t year, month, day; /* month and day from 1 */
};

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t days_in(int64_t year, int64_t month)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days before January 1 of a year, from year 1 on. */
static int64_t days_before(int64_t year)
{
    int64_t y = year - 1;
    return 365 * y + y / 4 - y / 100 + y / 400;
}

static int64_t days_of(struct civil date)
{
    int64_t days = days_before(date.year) - days_before(1970) + date.day - 1;
    for (int64_t month = 1; month < date.month; month++)
        days += days_in(date.year, month);
    return days;
}

static struct civil civil_of(int64_t days)
{
    int64_t all = days + days_before(1970);
    struct civil date = {all / 366 + 1, 1, 1}; /* not after the year, and one or a few before it */
    while (days_before(date.year + 1) <= all)
        date.year++;
    int64_t left = all - days_before(date.year);
    for (; left >= days_in(date.year, date.month); date.month++)
        left -= days_in(date.year, date.month);
    date.day = left + 1;
    return date;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

/* Reads `digits` digits at *at. */
static bool take_number(struct piece text, size_t *at, size_t digits, int64_t *number)
{
    *number = 0;
    for (size_t end = *at + digits; *at < end; ++*at) {
        if (*at >= text.size || text.bytes[*at] < '0' || text.bytes[*at] > '9')
            return false;
        *number = 10 * *number + (text.bytes[*at] - '0');
    }
    return true;
}

static bool take(struct piece text, size_t *at, char c)
{
    if (*at >= text.size || text.bytes[*at] != c)
        return false;
    ++*at;
    return true;
}

bool date_read(struct piece text, struct date_style *style, int64_t *seconds)
{
    struct civil date;
    int64_t hour = 0, minute = 0, second = 0;
    size_t at = 0;
    *style = (struct date_style){.between = '-'};
    if (!take_number(text, &at, 4, &date.year))
        return false;
    if (at < text.size && text.bytes[at] == '/')
        style->between = '/';
    if (!take(text, &at, style->between) || !take_number(text, &at, 2, &date.month) ||
        !take(text, &at, style->between) || !take_number(text, &at, 2, &date.day))
        return false;
    if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > days_in(date.year, date.month))
        return false;
    if (at < text.size) {
        style->before = text.bytes[at] == 'T' ? 'T' : ' ';
        if (!take(text, &at, style->before) || !take_number(text, &at, 2, &hour) || !take(text, &at, ':') ||
            !take_number(text, &at, 2, &minute))
            return false;
        style->seconds = take(text, &at, ':');
        if (style->seconds && !take_number(text, &at, 2, &second))
            return false;
    }
    *seconds = days_of(date) * DAY + hour * 3600 + minute * 60 + second;
    return at == text.size && hour < 24 && minute < 60 && second < 60;
}

static void write_date(struct date_style style, int64_t seconds, char text[DATE_TEXT])
{
    int64_t days = seconds / DAY - (seconds % DAY < 0), left = seconds - days * DAY;
    struct civil date = civil_of(days);
    int used = snprintf(text, DATE_TEXT, "%04d%c%02d%c%02d", (int)date.year, style.between, (int)date.month,
                        style.between, (int)date.day);
    if (style.before != 0)
        used += snprintf(text + used, DATE_TEXT - (size_t)used, "%c%02d:%02d", style.before,
                         (int)(left / 3600), (int)(left / 60 % 60));
    if (style.seconds)
        snprintf(text + used, DATE_TEXT - (size_t)used, ":%02d", (int)(left % 60));
}

/* ---- the calendar -------------------------------------------------------------------------------------- */

/* Whole days since 1970, rounded down. */
static int64_t day_of(int64_t seconds)
{
    return seconds / DAY - (seconds % DAY < 0);
}

static bool ends_month(struct civil date)
{
    return date.day == days_in(date.year, date.month);
}

/* Seconds of row `index`. Months: a day that the month lacks becomes its last day. */
static int64_t seconds_of(const struct calendar *calendar, size_t index)
{
    if (calendar->months == 0)
        return calendar->first + (int64_t)index * calendar->seconds;
    struct civil date = civil_of(day_of(calendar->first));
    int64_t month = 12 * date.year + date.month - 1 + (int64_t)index * calendar->months;
    struct civil to = {month / 12, month % 12 + 1, date.day};
    int64_t last = days_in(to.year, to.month);
    if (calendar->month_ends || to.day > last)
        to.day = last;
    return days_of(to) * DAY + (calendar->first - day_of(calendar->first) * DAY);
}

/* Sets the period from the second date, which is later than the first. */
static void find_period(struct calendar *calendar, int64_t second)
{
    int64_t apart = second - calendar->first;
    struct civil from = civil_of(day_of(calendar->first)), to = civil_of(day_of(second));
    bool ends = ends_month(from) && ends_month(to);
    calendar->seconds = apart;
    if (apart < 28 * DAY || apart % DAY != 0 || (from.day != to.day && !ends))
        return;
    calendar->seconds = 0;
    calendar->months = 12 * (to.year - from.year) + to.month - from.month;
    calendar->month_ends = ends;
}

/* The number of periods between the last date and `seconds`, which is later than the next one; 0: it is
   between two periods. */
static size_t skipped(const struct calendar *calendar, int64_t seconds)
{
    size_t index = calendar->count;
    if (calendar->months == 0) {
        int64_t after = seconds - calendar->first;
        return after % calendar->seconds != 0 ? 0 : (size_t)(after / calendar->seconds) - index;
    }
    while (seconds_of(calendar, index) < seconds)
        index++;
    return seconds_of(calendar, index) == seconds ? index - calendar->count : 0;
}

/* Programs leave out a time of midnight, and seconds of 0, date by date. */
static struct date_style finer(struct date_style style, struct date_style other)
{
    style.before = style.before != 0 ? style.before : other.before;
    style.seconds |= other.seconds;
    return style;
}

hashattn_status calendar_add(struct host *host, struct calendar *calendar, struct piece text)
{
    struct date_style style;
    int64_t seconds;
    char before[DATE_TEXT], now[DATE_TEXT], next[DATE_TEXT];
    FAIL_IF(!date_read(text, &style, &seconds), host, HASHATTN_BAD_FILE,
            "'%.*s' is not a date like 2016-07-01 or 2016-07-01 00:00:00",
            text.size > 40 ? 40 : (int)text.size, text.bytes);
    if (calendar->count == 0) {
        *calendar = (struct calendar){.style = style, .first = seconds, .count = 1};
        return HASHATTN_OK;
    }
    calendar->style = style = finer(calendar->style, style);
    int64_t last = seconds_of(calendar, calendar->count - 1);
    write_date(style, seconds, now);
    write_date(style, last, before);
    FAIL_IF(seconds == last, host, HASHATTN_BAD_FILE, "the date %s repeats that of the row before", now);
    FAIL_IF(seconds < last, host, HASHATTN_BAD_FILE, "the date %s is before %s of the row before", now,
            before);
    if (calendar->count == 1)
        find_period(calendar, seconds);
    int64_t expected = seconds_of(calendar, calendar->count);
    write_date(style, expected, next);
    size_t missing = seconds > expected ? skipped(calendar, seconds) : 0;
    FAIL_IF(missing > 0, host, HASHATTN_BAD_FILE, "%zu date%s missing before %s: %s comes after %s", missing,
            missing == 1 ? " is" : "s are", now, next, before);
    FAIL_IF(seconds != expected, host, HASHATTN_BAD_FILE,
            "the date %s is not one period after %s, where %s is expected", now, before, next);
    calendar->count++;
    return HASHATTN_OK;
}

bool calendar_date(const struct calendar *calendar, size_t index, char text[DATE_TEXT])
{
    const int64_t end = (days_before(LAST_YEAR + 1) - days_before(1970)) * DAY;
    int64_t shortest = calendar->months > 0 ? calendar->months * 28 * DAY : calendar->seconds;
    text[0] = '\0';
    if (shortest > 0 && index > (size_t)((end - calendar->first) / shortest))
        return false;
    int64_t seconds = seconds_of(calendar, index);
    if (seconds >= end)
        return false;
    write_date(calendar->style, seconds, text);
    return true;
}

size_t calendar_per_day(const struct calendar *calendar)
{
    return calendar->seconds > 0 && DAY % calendar->seconds == 0 ? (size_t)(DAY / calendar->seconds) : 0;
}

size_t calendar_num_marks(const struct calendar *calendar)
{
    return calendar->months == 0 && calendar->seconds < 3600 ? 5 : 4;
}

void calendar_marks(const struct calendar *calendar, size_t index, float marks[CALENDAR_MARKS])
{
    int64_t seconds = seconds_of(calendar, index), day = day_of(seconds), of_day = seconds - day * DAY;
    struct civil date = civil_of(day);
    int64_t year_day = day + days_before(1970) - days_before(date.year);
    int64_t weekday = ((day + 3) % 7 + 7) % 7; /* 1970-01-01 was a Thursday */
    marks[0] = (float)((double)(of_day / 3600) / 23 - 0.5);
    marks[1] = (float)((double)weekday / 6 - 0.5);
    marks[2] = (float)((double)(date.day - 1) / 30 - 0.5);
    marks[3] = (float)((double)year_day / 365 - 0.5);
    marks[4] = (float)((double)(of_day / 60 % 60) / 59 - 0.5);
}
