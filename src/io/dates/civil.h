/* Days of the proleptic Gregorian calendar, counted from 1970-01-01. Time is in microseconds. Source: days
   from civil dates as in Fliegel and Van Flandern (1968), by a count of the days before each year instead of
   one formula.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_CIVIL_H
#define IO_CIVIL_H

#include <stdint.h>

#define DATE_SECOND ((int64_t)1000000)
#define DATE_DAY    (86400 * DATE_SECOND)

struct civil {
    int64_t year, month, day; /* month and day from 1 */
};
int64_t civil_days(struct civil date); /* since 1970-01-01 */
struct civil civil_of(int64_t days);
int64_t civil_days_in(int64_t year, int64_t month);
/* Days before January 1 of a year, counted from year 1: negative before it. */
int64_t civil_days_before(int64_t year);
/* Whole days since 1970, rounded down. */
int64_t date_day(int64_t time);
/* The day of the week of a day since 1970; Monday is 0. */
int64_t date_weekday(int64_t day);

#endif
