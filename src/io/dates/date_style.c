/* A date is written part by part.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/date_style.h"

#include <stdbool.h>
#include <stdio.h>

#include "io/dates/civil.h"

const char *const date_formats[] = {"year-first", "day-first", "month-first", "epoch", NULL};
const char *const date_months[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

struct date_style date_style_of_both(struct date_style first, struct date_style other)
{
    first.unit = first.unit < other.unit ? first.unit : other.unit;
    first.fields = first.fields > other.fields ? first.fields : other.fields;
    first.between = first.between == 0 ? other.between : first.between;
    first.bare = first.bare || other.bare;
    first.letters = first.letters > other.letters ? first.letters : other.letters;
    first.capital = first.capital && other.capital;
    first.comma = first.comma || other.comma;
    first.short_year = first.short_year && other.short_year;
    first.before = first.before == 0 ? other.before : first.before;
    first.clock = first.clock > other.clock ? first.clock : other.clock;
    first.seconds = first.seconds || other.seconds;
    first.digits = first.digits > other.digits ? first.digits : other.digits;
    first.utc = first.utc || other.utc;
    return first;
}

struct date_style date_style_of_period(struct date_style style, int64_t period)
{
    bool epoch = style.format == DATES_EPOCH, fraction = period % DATE_SECOND != 0;
    if (period % DATE_DAY != 0 && style.before == 0 && style.clock == 0 && !epoch) {
        style.fields = 3;
        style.before = ' ';
    }
    if (period % (3600 * DATE_SECOND) != 0 && style.clock == 1)
        style.clock = 2;
    style.seconds = style.seconds || period % (60 * DATE_SECOND) != 0;
    if (fraction && style.digits < 6)
        style.digits = period % 1000 == 0 && !epoch ? 3 : 6;
    return style;
}

/* Appends to a text of DATE_TEXT bytes. */
static void put_number(char *text, size_t *used, int digits, int64_t number)
{
    *used += (size_t)snprintf(text + *used, DATE_TEXT - *used, "%0*lld", digits, (long long)number);
}

static void put(char *text, size_t *used, char c)
{
    if (c != 0 && *used + 1 < DATE_TEXT)
        text[(*used)++] = c;
    text[*used] = '\0';
}

/* The number or the name of a month. */
static void put_month(struct date_style style, int64_t month, char *text, size_t *used)
{
    if (style.letters == 0) {
        put_number(text, used, style.bare ? 1 : 2, month);
        return;
    }
    for (int i = 0; i < style.letters && date_months[month - 1][i] != '\0'; i++) {
        char c = date_months[month - 1][i];
        put(text, used, style.capital && c >= 'a' ? (char)(c & ~32) : c);
    }
}

static void put_year(struct date_style style, int64_t year, char *text, size_t *used)
{
    if (style.short_year && year >= 1969 && year <= 2068)
        put_number(text, used, 2, year % 100);
    else
        put_number(text, used, 4, year);
}

static void put_date(struct date_style style, struct civil date, char *text, size_t *used)
{
    int two = style.bare ? 1 : 2;
    if (style.format == DATES_DAY_FIRST) {
        put_number(text, used, two, date.day);
        put(text, used, style.between);
        put_month(style, date.month, text, used);
        put(text, used, style.between);
        put_year(style, date.year, text, used);
        return;
    }
    bool year_first = style.format == DATES_YEAR_FIRST;
    if (year_first)
        put_number(text, used, 4, date.year);
    if (year_first && style.fields > 1)
        put(text, used, style.between);
    if (style.fields > 1)
        put_month(style, date.month, text, used);
    if (style.fields > 2) {
        put(text, used, style.between);
        put_number(text, used, two, date.day);
        put(text, used, style.comma ? ',' : '\0');
    }
    if (!year_first) {
        put(text, used, style.between);
        put_year(style, date.year, text, used);
    }
}

static void write_epoch(struct date_style style, int64_t time, char *text)
{
    size_t used = 0;
    int64_t size = time < 0 ? -time : time;
    put(text, &used, time < 0 ? '-' : '\0');
    put_number(text, &used, 1, size / (style.unit == 0 ? 1 : style.unit));
    if (style.unit == 0 && time != 0)
        snprintf(text + used, DATE_TEXT - used, "000");
    else if (style.unit == DATE_SECOND && style.digits > 0)
        snprintf(text + used, DATE_TEXT - used, ".%06d", (int)(size % DATE_SECOND));
}

void date_write(struct date_style style, int64_t time, char text[DATE_TEXT])
{
    size_t used = 0;
    int64_t day = date_day(time), left = time - day * DATE_DAY, seconds = left / DATE_SECOND;
    text[0] = '\0';
    if (style.format == DATES_EPOCH) {
        write_epoch(style, time, text);
        return;
    }
    put_date(style, civil_of(day), text, &used);
    if (style.before == 0 && style.clock == 0)
        return;
    char mark = style.clock == 0 ? ':' : '\0';
    put(text, &used, style.before);
    put_number(text, &used, 2, seconds / 3600);
    if (style.clock != 1) {
        put(text, &used, mark);
        put_number(text, &used, 2, seconds / 60 % 60);
    }
    if (style.seconds || style.clock == 3) {
        put(text, &used, mark);
        put_number(text, &used, 2, seconds % 60);
    }
    if (style.digits > 0) {
        put(text, &used, '.');
        put_number(text, &used, style.digits, left % DATE_SECOND / (style.digits == 3 ? 1000 : 1));
    }
    put(text, &used, style.utc ? 'Z' : '\0');
}
