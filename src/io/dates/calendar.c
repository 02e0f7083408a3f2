/* Rows are counted in periods from the first date.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/calendar.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/dates/civil.h"

enum {
    LAST_YEAR = 9999,
    FIRST_MONTH = 12, /* January of year 1, as month_of counts */
    WEEK = 7,
    WORKWEEK = 5,
    WEEKS = 52,
    SHORTEST_MONTH = 28,
    LONGEST_MONTH = 31,
    MOST_PERIODS = 100000
};

static int64_t time_of_day(int64_t time)
{
    return time - date_day(time) * DATE_DAY;
}

static bool ends_month(struct civil date)
{
    return date.day == civil_days_in(date.year, date.month);
}

static int64_t month_of(struct civil date)
{
    return 12 * date.year + date.month - 1;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* Days from Monday of the first date's week to the business day that is `index` after the first. */
static int64_t workday(const struct calendar *calendar, size_t index)
{
    int64_t at = date_weekday(date_day(calendar->first)) + (int64_t)index;
    return at / WORKWEEK * WEEK + at % WORKWEEK;
}

/* The time of row `index`. Months: a day that the month lacks becomes its last day. */
static int64_t time_of(const struct calendar *calendar, size_t index)
{
    int64_t day = date_day(calendar->first);
    if (calendar->workdays)
        return calendar->first + (workday(calendar, index) - date_weekday(day)) * DATE_DAY;
    if (calendar->months == 0)
        return calendar->first + (int64_t)index * calendar->period;
    struct civil date = civil_of(day);
    int64_t month = month_of(date) + (int64_t)index * calendar->months;
    struct civil to = {month / 12, month % 12 + 1, date.day};
    int64_t last = civil_days_in(to.year, to.month);
    if (calendar->month_ends || to.day > last)
        to.day = last;
    return civil_days(to) * DATE_DAY + time_of_day(calendar->first);
}

bool calendar_row(const struct calendar *calendar, int64_t time, size_t *row)
{
    assert(time >= calendar->first && !calendar->numbered);
    int64_t day = date_day(calendar->first);
    if (calendar->workdays) {
        int64_t since = date_day(time - time_of_day(calendar->first)) - day + date_weekday(day);
        int64_t of_week = since % WEEK;
        *row = (size_t)(since / WEEK * WORKWEEK + (of_week < WORKWEEK ? of_week : WORKWEEK - 1) -
                        date_weekday(day));
    } else if (calendar->months == 0) {
        *row = (size_t)((time - calendar->first) / calendar->period);
    } else {
        int64_t months = month_of(civil_of(date_day(time))) - month_of(civil_of(day));
        *row = (size_t)(months / calendar->months);
        if (*row > 0 && time_of(calendar, *row) > time)
            --*row;
    }
    return time_of(calendar, *row) == time;
}

bool calendar_date(const struct calendar *calendar, size_t index, char text[DATE_TEXT])
{
    const int64_t end = (civil_days_before(LAST_YEAR + 1) - civil_days_before(1970)) * DATE_DAY;
    int64_t shortest = calendar->months > 0 ? calendar->months * SHORTEST_MONTH * DATE_DAY : calendar->period;
    text[0] = '\0';
    if (calendar->numbered) {
        snprintf(text, DATE_TEXT, "%zu", index + 1);
        return true;
    }
    if (shortest > 0 && index > (size_t)((end - calendar->first) / shortest))
        return false;
    int64_t time = time_of(calendar, index);
    if (time >= end)
        return false;
    date_write(calendar->style, time, text);
    return true;
}

/* ---- the period ---------------------------------------------------------------------------------------- */

/* Sets the months if half of the dates have the day and time of the first, or are the last days of their
   months, and the first two are at least 28 days apart: the months that most are apart. */
static bool find_months(const int64_t *times, size_t n, struct calendar *calendar)
{
    if (n < 2 || times[1] - times[0] < SHORTEST_MONTH * DATE_DAY)
        return false;
    struct civil first = civil_of(date_day(times[0])), date;
    size_t same = 0, ends = 0;
    for (size_t i = 1; i < n; i++) {
        date = civil_of(date_day(times[i]));
        if (time_of_day(times[i]) != time_of_day(times[0]))
            continue;
        same += date.day == first.day || (ends_month(date) && date.day < first.day);
        ends += ends_month(first) && ends_month(date);
    }
    if (2 * same < n - 1 && 2 * ends < n - 1)
        return false;
    calendar->month_ends = ends >= same;
    int64_t candidate = 0;
    size_t votes = 0, before = 0;
    for (size_t i = 1; i < n; i++, before++) { /* the majority, as of periods below */
        int64_t apart = month_of(civil_of(date_day(times[i]))) - month_of(civil_of(date_day(times[before])));
        if (votes == 0)
            candidate = apart;
        if (apart == candidate)
            votes++;
        else
            votes--;
    }
    calendar->months = candidate;
    return candidate > 0;
}

/* What more than half of the dates are apart, or the first two (the vote of Boyer and Moore). */
static int64_t most_apart(const int64_t *times, size_t n)
{
    int64_t candidate = 0;
    size_t votes = 0, count = 0;
    for (size_t i = 1; i < n; i++) {
        int64_t apart = times[i] - times[i - 1];
        if (votes == 0)
            candidate = apart;
        if (apart == candidate)
            votes++;
        else
            votes--;
    }
    for (size_t i = 1; i < n; i++)
        count += times[i] - times[i - 1] == candidate;
    return 2 * count > n - 1 ? candidate : times[1] - times[0];
}

/* Business days from Monday of the week of day 0 on; the same for Saturday and Sunday as for Friday. */
static int64_t workdays_to(int64_t day)
{
    int64_t of_week = date_weekday(day), week = (day - of_week + 3) / WEEK;
    return WORKWEEK * week + (of_week < WORKWEEK ? of_week : WORKWEEK - 1);
}

/* No date is on a weekend, some weekend lies between two, and most follow each other on business days. */
static bool skips_weekends(const int64_t *times, size_t n)
{
    bool any = false;
    size_t next = 0;
    for (size_t i = 0; i < n; i++)
        if (date_weekday(date_day(times[i])) >= WORKWEEK || time_of_day(times[i]) != time_of_day(times[0]))
            return false;
    for (size_t i = 1; i < n; i++) {
        int64_t day = date_day(times[i]), before = date_day(times[i - 1]);
        int64_t apart = workdays_to(day) - workdays_to(before);
        any = any || apart < day - before;
        next += apart == 1;
    }
    return any && 2 * next > n - 1;
}

struct calendar calendar_find(const int64_t *times, size_t n)
{
    struct calendar calendar = {.first = times[0], .count = n};
    if (n < 2 || find_months(times, n, &calendar))
        return calendar;
    calendar.month_ends = false;
    calendar.workdays = skips_weekends(times, n);
    calendar.period = calendar.workdays ? DATE_DAY : most_apart(times, n);
    return calendar;
}

static const struct unit {
    const char *name;
    int64_t period, months;
    bool workdays;
} units[] = {{"ms", 1000, 0, false},
             {"s", DATE_SECOND, 0, false},
             {"min", 60 * DATE_SECOND, 0, false},
             {"h", 3600 * DATE_SECOND, 0, false},
             {"D", DATE_DAY, 0, false},
             {"B", DATE_DAY, 0, true},
             {"W", WEEK *DATE_DAY, 0, false},
             {"M", 0, 1, false},
             {"Q", 0, 3, false},
             {"Y", 0, 12, false},
             {.name = NULL}};

hashattn_status calendar_of(struct host *host, const char *freq, const int64_t *times, size_t n,
                            struct calendar *calendar)
{
    const char *at = freq;
    int64_t number = 0;
    while (*at >= '0' && *at <= '9' && number <= MOST_PERIODS)
        number = 10 * number + (*at++ - '0');
    bool given = at > freq;
    number = given ? number : 1;
    const struct unit *unit = units;
    while (unit->name != NULL && strcmp(unit->name, at) != 0)
        unit++;
    FAIL_IF(unit->name == NULL || number < 1 || number > MOST_PERIODS || (unit->workdays && number > 1), host,
            HASHATTN_INVALID,
            "`freq` is '%.40s'; a period is needed: a number and ms, s, min, h, D, W, M, Q or Y, as in "
            "15min, or B "
            "for business days",
            freq);
    *calendar = (struct calendar){.first = times[0],
                                  .period = unit->period * number,
                                  .months = unit->months * number,
                                  .workdays = unit->workdays,
                                  .count = n};
    struct calendar found = {.first = 0};
    if (calendar->months > 0 && !find_months(times, n, &found)) {
        struct civil first = civil_of(date_day(times[0]));
        if (n > 1)
            calendar->first = civil_days((struct civil){first.year, first.month, 1}) * DATE_DAY;
    } else if (calendar->months > 0) {
        calendar->month_ends = found.month_ends;
    } else {
        int64_t whole = calendar->period < DATE_DAY ? calendar->period : DATE_DAY;
        int64_t over = time_of_day(times[0]) % whole;
        bool all = true; /* rows at another minute of every period stay there */
        for (size_t i = 1; i < n; i++)
            all = all && (time_of_day(times[i]) - over) % whole == 0;
        calendar->first = all ? times[0] : times[0] - over;
        if (calendar->workdays && date_weekday(date_day(calendar->first)) >= WORKWEEK)
            calendar->first -= (date_weekday(date_day(calendar->first)) - WORKWEEK + 1) * DATE_DAY;
    }
    return HASHATTN_OK;
}

/* Months before row 0 of a calendar of months, until it is not after a time. False: before year 1. */
static bool begin_months(struct calendar *calendar, int64_t time)
{
    struct civil date = civil_of(date_day(calendar->first)), to = civil_of(date_day(time));
    int64_t first = calendar->first, step = calendar->months, month = month_of(date);
    month -= (month - month_of(to) + step - 1) / step * step;
    for (; first > time; month -= step) {
        if (month < FIRST_MONTH)
            return false;
        struct civil at = {month / 12, month % 12 + 1, date.day};
        int64_t last = civil_days_in(at.year, at.month);
        if (calendar->month_ends || at.day > last)
            at.day = last;
        first = civil_days(at) * DATE_DAY + time_of_day(first);
    }
    calendar->first = first;
    return true;
}

bool calendar_begin(struct calendar *calendar, int64_t time)
{
    const int64_t year_1 = -civil_days_before(1970) * DATE_DAY;
    int64_t before = calendar->first - time;
    if (before <= 0)
        return true;
    if (calendar->months > 0)
        return begin_months(calendar, time);
    int64_t step = calendar->workdays ? WEEK * DATE_DAY : calendar->period;
    int64_t first = calendar->first - (before + step - 1) / step * step;
    if (first < year_1)
        return false;
    calendar->first = first;
    return true;
}

void calendar_freq(const struct calendar *calendar, char freq[CALENDAR_FREQ])
{
    const struct unit *unit = units;
    freq[0] = '\0';
    if (calendar->numbered || (calendar->months == 0 && calendar->period == 0))
        return;
    for (const struct unit *u = units; u->name != NULL; u++)
        if (calendar->months > 0
                ? u->months > 0 && calendar->months % u->months == 0
                : u->months == 0 && u->workdays == calendar->workdays && calendar->period % u->period == 0)
            unit = u;
    int64_t number = calendar->months > 0 ? calendar->months / unit->months : calendar->period / unit->period;
    if (number > 1)
        snprintf(freq, CALENDAR_FREQ, "%lld%s", (long long)number, unit->name);
    else
        snprintf(freq, CALENDAR_FREQ, "%s", unit->name);
}

bool calendar_same_period(const struct calendar *a, const struct calendar *b)
{
    return a->period == b->period && a->months == b->months && a->workdays == b->workdays &&
           a->numbered == b->numbered;
}

/* ---- what follows from the period ---------------------------------------------------------------------- */

size_t calendar_per_day(const struct calendar *calendar)
{
    return calendar->period > 0 && DATE_DAY % calendar->period == 0 ? (size_t)(DATE_DAY / calendar->period)
                                                                    : 0;
}

size_t calendar_season(const struct calendar *calendar)
{
    size_t day = calendar_per_day(calendar);
    if (day > 0)
        return day > 1 ? day : calendar->workdays ? WORKWEEK : WEEK;
    if (calendar->period == WEEK * DATE_DAY)
        return WEEKS;
    return calendar->months > 0 && 12 % calendar->months == 0 ? (size_t)(12 / calendar->months) : 0;
}

size_t calendar_num_marks(const struct calendar *calendar)
{
    return calendar->months == 0 && calendar->period < 3600 * DATE_SECOND ? 5 : 4;
}

void calendar_marks(const struct calendar *calendar, size_t index, float marks[CALENDAR_MARKS])
{
    int64_t longest = calendar->months > 0 ? calendar->months * LONGEST_MONTH * DATE_DAY : calendar->period;
    size_t last = longest > 0 ? (size_t)(INT64_MAX / 2 / longest) : SIZE_MAX; /* whose time is an int64_t */
    int64_t time = time_of(calendar, size_min(index, last));
    int64_t day = date_day(time), seconds = time_of_day(time) / DATE_SECOND;
    struct civil date = civil_of(day);
    int64_t year_day = day + civil_days_before(1970) - civil_days_before(date.year);
    marks[0] = (float)((double)(seconds / 3600) / 23 - 0.5);
    marks[1] = (float)((double)date_weekday(day) / 6 - 0.5);
    marks[2] = (float)((double)(date.day - 1) / 30 - 0.5);
    marks[3] = (float)((double)year_day / 365 - 0.5);
    marks[4] = (float)((double)(seconds / 60 % 60) / 59 - 0.5);
}
