/* A date is read field by field; days are counted in the proleptic Gregorian calendar.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/dates.h"

#include <stdio.h>
#include <string.h>

const char *const date_formats[] = {"year-first", "day-first", "month-first", "epoch", NULL};
enum { MOST_EPOCH = 19, EPOCH_DIGITS = 9 };
/* Seconds since 1970 of the first second of year 1 and of the last of year 9999. */
#define FIRST_SECOND ((int64_t)-62135596800)
#define LAST_SECOND  ((int64_t)253402300799)
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* ---- days ---------------------------------------------------------------------------------------------- */

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
    /* not after the year, and one or a few before it */
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

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool is_digit(struct piece text, size_t at)
{
    return at < text.size && text.bytes[at] >= '0' && text.bytes[at] <= '9';
}

/* Reads `least` to `most` digits at *at. */
static bool take_number(struct piece text, size_t *at, size_t least, size_t most, int64_t *number)
{
    size_t begin = *at;
    for (*number = 0; *at - begin < most && is_digit(text, *at); ++*at)
        *number = 10 * *number + (text.bytes[*at] - '0');
    return *at - begin >= least;
}

static bool take(struct piece text, size_t *at, char c)
{
    if (*at >= text.size || text.bytes[*at] != c)
        return false;
    ++*at;
    return true;
}

static bool take_word(struct piece text, size_t *at, const char *word)
{
    size_t size = strlen(word);
    if (text.size - *at < size || memcmp(text.bytes + *at, word, size) != 0)
        return false;
    *at += size;
    return true;
}

/* A month or day of one or two digits. */
static bool take_part(struct piece text, size_t *at, struct date_style *style, int64_t *number)
{
    size_t begin = *at;
    bool taken = take_number(text, at, 1, 2, number);
    style->bare = style->bare || *at == begin + 1;
    return taken;
}

/* The English name of a month, or its first three letters, in any case: sets its number. */
static bool take_month(struct piece text, size_t *at, struct date_style *style, int64_t *month)
{
    size_t size = 0, lower = 0;
    char word[MONTH_WHOLE + 1];
    for (; *at + size < text.size && size < MONTH_WHOLE; size++) {
        char c = text.bytes[*at + size];
        if ((c | 32) < 'a' || (c | 32) > 'z')
            break;
        word[size] = (char)(c | 32);
        lower += c >= 'a' && size > 0;
    }
    for (int m = 0; m < 12; m++) {
        size_t whole = strlen(months[m]);
        if (size != 3 && size != whole && (m != 8 || size != 4)) /* "Sept" */
            continue;
        word[0] = (char)(word[0] & ~32);
        if (memcmp(word, months[m], size) != 0)
            continue;
        *month = m + 1;
        *at += size;
        style->letters = size == whole && whole > 3 ? MONTH_WHOLE : 3;
        style->capital = lower == 0;
        return true;
    }
    return false;
}

/* YYYY, or YY from 1969 to 2068. */
static bool take_year(struct piece text, size_t *at, struct date_style *style, int64_t *year)
{
    size_t begin = *at;
    if (!take_number(text, at, 2, 4, year) || (*at - begin != 2 && *at - begin != 4))
        return false;
    style->short_year = *at - begin == 2;
    if (style->short_year)
        *year += *year < 69 ? 2000 : 1900;
    return true;
}

/* What is between the parts of a date: at first anything that may be, then the same again. */
static bool take_between(struct piece text, size_t *at, struct date_style *style, bool first)
{
    char c = *at < text.size ? text.bytes[*at] : 0;
    if (first)
        style->between = c != 0 && strchr("-/. ", c) != NULL ? c : 0;
    return style->between == 0 || take(text, at, style->between);
}

/* A date with the name of its month: year month [day], day month year, or month [day] year. */
static bool take_named(struct piece text, size_t *at, enum date_format format, struct date_style *style,
                       struct civil *date)
{
    style->fields = 3;
    if (format == DATES_YEAR_FIRST) {
        if (!take_number(text, at, 4, 4, &date->year) || !take_between(text, at, style, true) ||
            !take_month(text, at, style, &date->month))
            return false;
        style->fields = *at == text.size ? 2 : 3;
        return *at == text.size ||
               (take_between(text, at, style, false) && take_part(text, at, style, &date->day));
    }
    if (format == DATES_DAY_FIRST)
        return take_part(text, at, style, &date->day) && take_between(text, at, style, true) &&
               take_month(text, at, style, &date->month) && take_between(text, at, style, false) &&
               take_year(text, at, style, &date->year);
    if (!take_month(text, at, style, &date->month) || !take_between(text, at, style, true))
        return false;
    size_t begin = *at;
    struct date_style month = *style;
    if (take_year(text, at, &month, &date->year) && *at == text.size) { /* of a month of a year */
        *style = month;
        style->fields = 2;
        return true;
    }
    *at = begin;
    if (!take_part(text, at, style, &date->day))
        return false;
    style->comma = take(text, at, ',');
    return take_between(text, at, style, false) && take_year(text, at, style, &date->year);
}

static bool take_year_first(struct piece text, size_t *at, struct date_style *style, struct civil *date)
{
    if (!take_number(text, at, 4, 4, &date->year))
        return false;
    style->fields = 1;
    if (*at == text.size)
        return true;
    if (text.size >= 8 && is_digit(text, *at)) { /* YYYYMMDD */
        style->fields = 3;
        return take_number(text, at, 2, 2, &date->month) && take_number(text, at, 2, 2, &date->day);
    }
    style->between = text.bytes[*at] == '/' ? '/' : '-';
    if (!take(text, at, style->between) || !take_part(text, at, style, &date->month))
        return false;
    style->fields = 2;
    if (*at == text.size)
        return true;
    style->fields = 3;
    return take(text, at, style->between) && take_part(text, at, style, &date->day);
}

static bool take_year_last(struct piece text, size_t *at, enum date_format format, struct date_style *style,
                           struct civil *date)
{
    int64_t *first = format == DATES_DAY_FIRST ? &date->day : &date->month,
            *second = format == DATES_DAY_FIRST ? &date->month : &date->day;
    style->fields = 3;
    if (!take_part(text, at, style, first) || *at == text.size)
        return false;
    style->between = text.bytes[*at];
    if (style->between != '/' && style->between != '-' &&
        (style->between != '.' || format == DATES_MONTH_FIRST))
        return false;
    return take(text, at, style->between) && take_part(text, at, style, second) &&
           take(text, at, style->between) && take_year(text, at, style, &date->year) &&
           !(style->short_year && style->between == '-'); /* it could be the year that comes first */
}

/* The fraction of a second behind its point. */
static bool take_fraction(struct piece text, size_t *at, struct date_style *style, int64_t *micros)
{
    size_t count = 0;
    *micros = 0;
    for (; is_digit(text, *at); ++*at, count++)
        if (count < 6)
            *micros = 10 * *micros + (text.bytes[*at] - '0');
    for (size_t i = count; i < 6; i++)
        *micros *= 10;
    style->digits = *micros == 0 ? 0 : *micros % 1000 == 0 ? 3 : 6;
    return count > 0;
}

/* The zone, if there is one: *offset is to be subtracted. */
static bool take_zone(struct piece text, size_t *at, struct date_style *style, int64_t *offset)
{
    int64_t hours, minutes = 0;
    size_t begin = *at;
    take(text, at, ' ');
    if (take(text, at, 'Z') || take_word(text, at, "UTC")) {
        style->utc = true;
        return true;
    }
    char sign = *at < text.size ? text.bytes[*at] : 0;
    if (sign != '+' && sign != '-') {
        *at = begin;
        return true;
    }
    ++*at;
    if (!take_number(text, at, 2, 2, &hours))
        return false;
    if ((take(text, at, ':') || is_digit(text, *at)) && !take_number(text, at, 2, 2, &minutes))
        return false;
    style->utc = true;
    *offset = (sign == '-' ? -60 : 60) * (60 * hours + minutes) * DATE_SECOND;
    return hours < 24 && minutes < 60;
}

/* AM or PM, if there is one. */
static bool take_half(struct piece text, size_t *at, int64_t *hour)
{
    size_t begin = *at;
    take(text, at, ' ');
    bool before = take_word(text, at, "AM") || take_word(text, at, "am");
    bool after = !before && (take_word(text, at, "PM") || take_word(text, at, "pm"));
    if (!before && !after) {
        *at = begin;
        return true;
    }
    bool good = *hour >= 1 && *hour <= 12;
    *hour = *hour % 12 + (after ? 12 : 0);
    return good;
}

/* The time of a day in microseconds. */
static bool take_time(struct piece text, size_t *at, struct date_style *style, int64_t *time)
{
    int64_t hour, minute, second = 0, micros = 0, offset = 0;
    style->before = text.bytes[*at] == 'T' ? 'T' : ' ';
    if (!take(text, at, style->before) || !take_number(text, at, 1, 2, &hour) || !take(text, at, ':') ||
        !take_number(text, at, 2, 2, &minute))
        return false;
    style->seconds = take(text, at, ':');
    if (style->seconds && !take_number(text, at, 2, 2, &second))
        return false;
    if (style->seconds && take(text, at, '.') && !take_fraction(text, at, style, &micros))
        return false;
    if (!take_half(text, at, &hour) || !take_zone(text, at, style, &offset))
        return false;
    *time = (hour * 3600 + minute * 60 + second) * DATE_SECOND + micros - offset;
    return hour < 24 && minute < 60 && second < 60;
}

/* Years 1 to 9999. */
static bool is_in_range(int64_t time)
{
    return time >= FIRST_SECOND * DATE_SECOND && time < (LAST_SECOND + 1) * DATE_SECOND;
}

/* Seconds, milliseconds, microseconds or nanoseconds since 1970, by the number of digits. */
static bool read_epoch(struct piece text, struct date_style *style, int64_t *time)
{
    size_t at = 0;
    bool negative = take(text, &at, '-');
    size_t begin = at, digits = 0;
    int64_t number, micros = 0;
    while (is_digit(text, begin + digits))
        digits++;
    if (digits > MOST_EPOCH || (digits == MOST_EPOCH && text.bytes[begin] == '9') || /* beyond int64_t */
        !take_number(text, &at, 1, MOST_EPOCH, &number))
        return false;
    style->unit = digits <= 11 ? DATE_SECOND : digits <= 14 ? DATE_SECOND / 1000 : digits <= 16 ? 1 : 0;
    if (take(text, &at, '.') && !take_fraction(text, &at, style, &micros))
        return false;
    if (at != text.size || (style->unit != DATE_SECOND && micros != 0))
        return false;
    int64_t unit = style->unit;
    if (unit == DATE_SECOND && number > LAST_SECOND)
        return false;
    *time = unit == 0 ? number / 1000 : number * unit + micros;
    *time = negative ? -*time : *time;
    return is_in_range(*time);
}

bool date_read(struct piece text, enum date_format format, struct date_style *style, int64_t *time)
{
    struct civil date = {0, 1, 1};
    int64_t of_day = 0;
    size_t at = 0;
    *style = (struct date_style){.format = format, .fields = 3};
    if (format == DATES_EPOCH)
        return read_epoch(text, style, time);
    if (!take_named(text, &at, format, style, &date)) {
        at = 0;
        date = (struct civil){0, 1, 1};
        *style = (struct date_style){.format = format, .fields = 3};
        if (format == DATES_YEAR_FIRST ? !take_year_first(text, &at, style, &date)
                                       : !take_year_last(text, &at, format, style, &date))
            return false;
    }
    if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > civil_days_in(date.year, date.month))
        return false;
    if (at < text.size && (style->fields < 3 || !take_time(text, &at, style, &of_day)))
        return false;
    *time = civil_days(date) * DATE_DAY + of_day;
    return at == text.size && is_in_range(*time); /* a zone may lead out of the years */
}

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
    first.seconds = first.seconds || other.seconds;
    first.digits = first.digits > other.digits ? first.digits : other.digits;
    first.utc = first.utc || other.utc;
    return first;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

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
    for (int i = 0; i < style.letters && months[month - 1][i] != '\0'; i++) {
        char c = months[month - 1][i];
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
    if (style.before == 0)
        return;
    put(text, &used, style.before);
    put_number(text, &used, 2, seconds / 3600);
    put(text, &used, ':');
    put_number(text, &used, 2, seconds / 60 % 60);
    if (style.seconds) {
        put(text, &used, ':');
        put_number(text, &used, 2, seconds % 60);
    }
    if (style.digits > 0) {
        put(text, &used, '.');
        put_number(text, &used, style.digits, left % DATE_SECOND / (style.digits == 3 ? 1000 : 1));
    }
    put(text, &used, style.utc ? 'Z' : '\0');
}

/* ---- which format -------------------------------------------------------------------------------------- */

struct date_choice date_choice_begin(void)
{
    return (struct date_choice){{true, true, true, true}};
}

bool date_choice_add(struct date_choice *choice, struct piece text)
{
    struct date_choice left = *choice;
    struct date_style style;
    int64_t time;
    bool any = false;
    size_t digits = 0;
    while (is_digit(text, digits))
        digits++;
    for (int f = 0; f < DATES_FORMATS; f++) {
        left.reads[f] = left.reads[f] && (f != DATES_EPOCH || digits >= EPOCH_DIGITS) &&
                        date_read(text, (enum date_format)f, &style, &time);
        any = any || left.reads[f];
    }
    if (any)
        *choice = left;
    return any;
}
