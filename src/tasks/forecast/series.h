/* Series of numbers, one row per period, and how they are read from files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_FORECAST_SERIES_H
#define TASKS_FORECAST_SERIES_H

#include "base/options.h"
#include "io/dates/calendar.h"
#include "io/decimal.h"

enum { SERIES_FOUND = 640 };

struct series {
    struct calendar calendar;
    size_t columns, times; /* times: of all pieces, one after another */
    char **names;          /* (columns) */
    double *values;        /* (times, columns) */
    /* One series each, in the order of the files. The only one of a file without a column of series has no
     * name. */
    struct series_piece {
        char *name;  /* or NULL */
        size_t time; /* of its first row in `values` */
        size_t times;
        size_t row; /* of the calendar: its first row */
    } * pieces;
    size_t num_pieces;
    char date_column[OPTION_TEXT_SIZE]; /* as the file calls it; "none": rows are numbered */
    char found[SERIES_FOUND]; /* in one sentence: rows, period, first and last date, columns and repairs */
    bool repaired;
};

enum missing { MISSING_REFUSE, MISSING_INTERPOLATE, MISSING_LAST };
enum repeated { REPEATED_REFUSE, REPEATED_FIRST, REPEATED_LAST, REPEATED_MEAN };

/* How files are read. */
struct series_choice {
    /* The column of dates; "": one that is called date, time or alike, otherwise the first whose first cell
       is a date, otherwise none; "none": none. */
    const char *date;
    const char *by; /* the column that names the series; "": none */
    bool no_header; /* the first line is a row; the names of columns are their numbers, from 1 */
    /* Those of numbers, between commas, each once; NULL or "": all others. Here and in date, by and target,
       where no column has the name, its number counts, from 1. */
    const char *columns;
    /* NULL: the numbers are all other columns in the order of the file, except that the target is the last.
       Otherwise these. */
    char *const *names;
    size_t count;
    const char *target; /* "": the last column of the file */
    bool only_target;
    int format;           /* enum date_format; -1: the one that reads all dates */
    const char *freq;     /* the period (io/dates/calendar.h); "auto": the one that is found */
    const char *expected; /* the period of the run; "": not known. Another one is BAD_FILE */
    enum missing missing;
    enum repeated repeated;
    char delimiter; /* 0: found in the first line */
    enum decimal_mark decimal;
};

/* True if the run's options are recorded, so that only the file can be changed: messages then name none. */
static inline bool series_choice_recorded(const struct series_choice *choice)
{
    return choice->names != NULL;
}

void series_free(struct host *host, struct series *series);

#endif
