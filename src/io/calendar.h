/* Dates of a table whose rows are one period apart. A date is YYYY-MM-DD or YYYY/MM/DD, and optionally a
   space or T and HH:MM or HH:MM:SS, without which it is midnight; years 1 to 9999, Gregorian, without time
   zones. The first two dates determine the period: a number of seconds, or of months if they have the same
   day and time (or are both the last day of a month) and the period is at least 28 days. Source: days from
   civil dates as in Fliegel and Van Flandern (1968).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_CALENDAR_H
#define IO_CALENDAR_H

#include <stdint.h>

#include "io/lines.h"

enum { DATE_TEXT = 24 }; /* bytes of a date with its NUL */

/* How dates are written; of a calendar: as the finest of its dates. */
struct date_style {
    char between; /* '-' or '/' */
    char before;  /* ' ' or 'T' before the time; 0: no time */
    bool seconds; /* HH:MM:SS */
};

struct calendar {
    struct date_style style;
    int64_t first;   /* seconds since 1970-01-01 00:00:00 */
    int64_t seconds; /* per period; 0: the period is in months */
    int64_t months;
    bool month_ends; /* every date is the last day of its month */
    size_t count;    /* number of dates so far */
};

/* Reads a date. Returns false if the text is none. */
bool date_read(struct piece text, struct date_style *style, int64_t *seconds);
/* Adds the next date; the calendar starts as zeros. BAD_FILE, without row and path: it is no date, it repeats
   or precedes the date before it, dates are missing between the two, or it is between two periods. */
hashattn_status calendar_add(struct host *host, struct calendar *calendar, struct piece text);
/* The date of row `index`, also after the last, in the style of the first, with a time or seconds if any date
   so far has them. Returns false after year 9999. */
bool calendar_date(const struct calendar *calendar, size_t index, char text[DATE_TEXT]);
enum { CALENDAR_MARKS = 5 };
/* The time features of row `index`, each from -0.5 to 0.5: hour of the day, day of the week (Monday first),
   of the month and of the year; and, if the period is shorter than an hour, the minute. Also after the last
   row, and after year 9999. Source: the features of Informer (Zhou et al. 2021). */
void calendar_marks(const struct calendar *calendar, size_t index, float marks[CALENDAR_MARKS]);
size_t calendar_num_marks(const struct calendar *calendar); /* 4 or 5 */
/* Rows per day, or 0 if a day is not a whole number of periods. */
size_t calendar_per_day(const struct calendar *calendar);

#endif
