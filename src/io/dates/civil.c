/* Years begin with a count of days before them; days before year 1 continue the calendar backwards.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/civil.h"

#include <stdbool.h>

/* The quotient, rounded down. */
static int64_t floor_of(int64_t number, int64_t divisor)
{
    return number / divisor - (number % divisor < 0);
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int64_t civil_days_in(int64_t year, int64_t month)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

int64_t civil_days_before(int64_t year)
{
    int64_t y = year - 1;
    return 365 * y + floor_of(y, 4) - floor_of(y, 100) + floor_of(y, 400);
}

int64_t civil_days(struct civil date)
{
    int64_t days = civil_days_before(date.year) - civil_days_before(1970) + date.day - 1;
    for (int64_t month = 1; month < date.month; month++)
        days += civil_days_in(date.year, month);
    return days;
}

struct civil civil_of(int64_t days)
{
    int64_t all = days + civil_days_before(1970);
    /* a first guess: the year, or a few years before it */
    struct civil date = {floor_of(all, all < 0 ? 365 : 366) + 1, 1, 1};
    while (civil_days_before(date.year + 1) <= all)
        date.year++;
    int64_t left = all - civil_days_before(date.year);
    for (; left >= civil_days_in(date.year, date.month); date.month++)
        left -= civil_days_in(date.year, date.month);
    date.day = left + 1;
    return date;
}

int64_t date_day(int64_t time)
{
    return floor_of(time, DATE_DAY);
}

int64_t date_weekday(int64_t day)
{
    return day + 3 - floor_of(day + 3, 7) * 7; /* 1970-01-01 was a Thursday */
}
