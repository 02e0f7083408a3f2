/* Dates as text. A format says how the dates of a file are read; dates_choose finds the one that reads all of
   them:
   - year-first: YYYY-MM-DD, YYYY/MM/DD, YYYYMMDD, YYYY-MM or YYYY;
   - day-first, month-first: DD.MM.YYYY (day first only), DD/MM/YYYY, DD-MM-YYYY; MM/DD/YYYY, MM-DD-YYYY; the
     year may be YY, from 1969 to 2068, but not with dashes;
   - the same with the English name of the month or its first three letters, in any case, between spaces,
     dashes, slashes or points or without: "2020 Jan", "1-Feb-19", "01Feb2019", "Feb 1, 2019", "January 2020",
     "Jan-20" (a month of a year; the month comes first);
   - epoch: a number of seconds since 1970, or of milliseconds, microseconds or nanoseconds by its size.
   Month and day may lack their leading zero. After a whole date a space or T and HH:MM, HH:MM:SS or HH:MM:SS
   with a fraction may follow, then AM or PM, then Z, UTC or an offset such as +02:00: such dates are
   converted to UTC. Years 1 to 9999, Gregorian. Time is in microseconds; further digits are dropped. Source:
   days from civil dates as in Fliegel and Van Flandern (1968).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_DATES_H
#define IO_DATES_H

#include <stdint.h>

#include "io/lines.h"

enum { DATE_TEXT = 40, MONTH_WHOLE = 9 }; /* bytes of a date with its NUL */
#define DATE_SECOND ((int64_t)1000000)
#define DATE_DAY    (86400 * DATE_SECOND)

enum date_format { DATES_YEAR_FIRST, DATES_DAY_FIRST, DATES_MONTH_FIRST, DATES_EPOCH, DATES_FORMATS };
extern const char *const date_formats[]; /* their names, ended by NULL */

/* How dates are written. */
struct date_style {
    enum date_format format;
    int64_t unit; /* of an epoch, in microseconds; 0: nanoseconds */
    int fields;   /* 3: a whole date; 2: year and month; 1: the year */
    char between; /* '-', '/', '.' or ' '; 0: nothing */
    bool bare;    /* month and day without leading zero */
    int letters;  /* of the name of a month: 0: a number; 3: "Jan"; MONTH_WHOLE: "January" */
    bool capital; /* "JAN" */
    bool comma;   /* between day and year: "Jan 1, 2020" */
    bool short_year;
    char before;  /* ' ' or 'T' before the time; 0: no time */
    bool seconds; /* HH:MM:SS */
    int digits;   /* of the fraction of a second: 0, 3 or 6 */
    bool utc;     /* Z at the end */
};

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

/* Reads a date of this format. Returns false if the text is none. */
bool date_read(struct piece text, enum date_format format, struct date_style *style, int64_t *time);
/* What the first text of a file and another one are both written in: the parts that either has. */
struct date_style date_style_of_both(struct date_style first, struct date_style other);
void date_write(struct date_style style, int64_t time, char text[DATE_TEXT]);

/* The formats that read every text so far; starts with date_choice_begin. */
struct date_choice {
    bool reads[DATES_FORMATS];
};
struct date_choice date_choice_begin(void);
/* Returns false, and *choice stays as it is, if no format reads this text and those before it. Numbers below
   10^8 are not taken for epochs here. */
bool date_choice_add(struct date_choice *choice, struct piece text);

#endif
