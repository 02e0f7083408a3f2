/* Dates of a table whose rows are one period apart: a number of microseconds, business days (Monday to
   Friday), or months, if all dates have the same day and time (or are the last day of a month) and the period
   is at least 28 days. A table without dates is numbered from 1. calendar_find finds the period that most
   dates are apart, and the first two if there is none; calendar_of takes one by name:
   [N]UNIT with the units ms, s, min, h, D, B (business days), W, M, Q, Y, as in 15min.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_CALENDAR_H
#define IO_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/host.h"
#include "io/dates/date_style.h"

struct calendar {
    struct date_style style;
    int64_t first;  /* the date of row 0, in microseconds since 1970 */
    int64_t period; /* microseconds; 0: the period is in months */
    int64_t months;
    bool month_ends; /* every date is the last day of its month */
    bool workdays;   /* the period is a day, and Saturdays and Sundays have no row */
    bool numbered;   /* there are no dates: rows are numbered from 1 */
    size_t count;    /* rows that the file has */
};

/* The calendar of n dates, at least one, in ascending order; count is n. */
struct calendar calendar_find(const int64_t *times, size_t n);
/* The calendar of this period that begins with the first date, or with the begin of the period it lies in:
   months begin on the day of all dates if they have one, otherwise on the first. INVALID, with the names: the
   text names no period. */
hashattn_status calendar_of(struct host *host, const char *freq, const int64_t *times, size_t n,
                            struct calendar *calendar);
/* Moves the first date back by whole periods until it is not after a time. Returns false, and *calendar stays
   as it is, if that is before year 1. */
bool calendar_begin(struct calendar *calendar, int64_t time);
enum { CALENDAR_FREQ = 32 }; /* bytes of the name of a period with its NUL */
/* The name of the period, as in 15min. */
void calendar_freq(const struct calendar *calendar, char freq[CALENDAR_FREQ]);
/* True if both have the same period, whatever their first dates. */
bool calendar_same_period(const struct calendar *a, const struct calendar *b);

/* The row whose period contains a time, which is not before the first date. Returns false if the row does not
   begin then. */
bool calendar_row(const struct calendar *calendar, int64_t time, size_t *row);
/* The date of row `index`, also after the last. Returns false after year 9999. */
bool calendar_date(const struct calendar *calendar, size_t index, char text[DATE_TEXT]);
enum { CALENDAR_MARKS = 5 };
/* The time features of row `index`, each from -0.5 to 0.5: hour of the day, day of the week (Monday first),
   of the month and of the year; and, if the period is shorter than an hour, the minute. Also after the last
   row, and after year 9999. Source: the features of Informer (Zhou et al. 2021). */
void calendar_marks(const struct calendar *calendar, size_t index, float marks[CALENDAR_MARKS]);
size_t calendar_num_marks(const struct calendar *calendar); /* 4 or 5 */
/* Rows per day, or 0 if a day is not a whole number of periods. */
size_t calendar_per_day(const struct calendar *calendar);
/* Rows of a season: a day; of daily dates a week (of business days 5), of weekly and monthly dates a
   year; 0: the period tells none. */
size_t calendar_season(const struct calendar *calendar);

#endif
