/* Dates as text. A format says how the dates of a file are read; dates_choose finds the one that reads all of
   them:
   - year-first: YYYY-MM-DD, YYYY/MM/DD, YYYYMMDD, YYYY-MM, YYYYMM (1900 to 2099) or YYYY;
   - day-first, month-first: DD.MM.YYYY (day first only), DD/MM/YYYY, DD-MM-YYYY; MM/DD/YYYY, MM-DD-YYYY; the
     year may be YY, from 1969 to 2068, but not with dashes;
   - the same with the English name of the month or its first three letters, in any case, between spaces,
     dashes, slashes or points or without: "2020 Jan", "1-Feb-19", "01Feb2019", "Feb 1, 2019", "January 2020",
     "Jan-20" (a month of a year; the month comes first);
   - epoch: a number since 1970 of seconds, or of milliseconds (from 11 digits on), microseconds (14) or
     nanoseconds (17).
   Month and day may lack their leading zero. After a whole date a space or T and HH:MM, HH:MM:SS or HH:MM:SS
   with a fraction may follow, then AM or PM, then Z, UTC or an offset such as +02:00: such dates are
   converted to UTC. YYYYMMDD may have the time in digits alone, as in 2016073113 (1900 to 2099),
   201607311305 or 20160731T130500Z. Years 1 to 9999, Gregorian. Time is in microseconds; further digits are
   left out of it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_DATES_H
#define IO_DATES_H

#include "io/dates/civil.h"
#include "io/dates/date_style.h"
#include "io/lines.h"

/* Reads a date of this format. Returns false if the text is none. */
bool date_read(struct piece text, enum date_format format, struct date_style *style, int64_t *time);

/* Corrects a time that was read with this style, if the smallest `unit` of the file's numbers is smaller: all
   of them have that unit. */
int64_t date_of_unit(const struct date_style *style, int64_t unit, int64_t time);

/* The formats that read every text so far; starts with date_choice_begin. */
struct date_choice {
    bool reads[DATES_FORMATS];
};
struct date_choice date_choice_begin(void);
/* Returns false, and *choice stays as it is, if no format reads this text and those before it. Numbers below
   10^8 are not taken for epochs here. */
bool date_choice_add(struct date_choice *choice, struct piece text);

#endif
