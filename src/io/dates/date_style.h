/* How the dates of a file are written, and dates in that style.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_DATE_STYLE_H
#define IO_DATE_STYLE_H

#include <stdbool.h>
#include <stdint.h>

enum { DATE_TEXT = 40, MONTH_WHOLE = 9 }; /* bytes of a date with its NUL */

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
    int clock;    /* of a time in digits alone: 1: HH; 2: HHMM; 3: HHMMSS; 0: HH:MM */
    bool seconds; /* HH:MM:SS */
    int digits;   /* of the fraction of a second: 0, 3 or 6 */
    bool utc;     /* Z at the end */
};
extern const char *const date_months[]; /* (12) their English names */

/* What the first text of a file and another one are both written in: the parts that either has. */
struct date_style date_style_of_both(struct date_style first, struct date_style other);
/* The style with the parts that tell dates apart which are this many microseconds apart. */
struct date_style date_style_of_period(struct date_style style, int64_t period);
void date_write(struct date_style style, int64_t time, char text[DATE_TEXT]);

#endif
