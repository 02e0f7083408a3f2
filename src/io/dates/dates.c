/* A date is read field by field.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/dates/dates.h"

#include <string.h>

enum { MOST_EPOCH = 19, EPOCH_DIGITS = 9 };
enum { FIRST_BARE = 1900, LAST_BARE = 2099 }; /* years of YYYYMM, and of dates with a time in digits alone */
/* Seconds since 1970 of the first second of year 1 and of the last of year 9999. */
#define FIRST_SECOND ((int64_t)-62135596800)
#define LAST_SECOND  ((int64_t)253402300799)

/* ---- one date ------------------------------------------------------------------------------------------ */

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
        size_t whole = strlen(date_months[m]);
        if (size != 3 && size != whole && (m != 8 || size != 4)) /* "Sept" */
            continue;
        word[0] = (char)(word[0] & ~32);
        if (memcmp(word, date_months[m], size) != 0)
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

/* Other years may be a number since 1970, or no date. */
static bool is_bare_year(int64_t year)
{
    return year >= FIRST_BARE && year <= LAST_BARE;
}

static bool take_year_first(struct piece text, size_t *at, struct date_style *style, struct civil *date)
{
    if (!take_number(text, at, 4, 4, &date->year))
        return false;
    style->fields = 1;
    if (*at == text.size)
        return true;
    if (is_digit(text, *at)) { /* YYYYMM, YYYYMMDD */
        style->fields = text.size > 6 ? 3 : 2;
        return take_number(text, at, 2, 2, &date->month) &&
               (style->fields == 3 ? take_number(text, at, 2, 2, &date->day) : is_bare_year(date->year));
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

/* True if the time at `at` is behind YYYYMMDD and has no colons. */
static bool is_clock(struct piece text, size_t at, const struct date_style *style)
{
    at += text.bytes[at] == 'T';
    return style->between == 0 && style->letters == 0 && is_digit(text, at) && is_digit(text, at + 1) &&
           (at + 2 == text.size || text.bytes[at + 2] != ':');
}

/* HH, HHMM or HHMMSS. */
static bool take_clock(struct piece text, size_t *at, struct date_style *style, int64_t parts[3])
{
    for (; style->clock < 3 && is_digit(text, *at); style->clock++)
        if (!take_number(text, at, 2, 2, &parts[style->clock]))
            return false;
    return true;
}

/* HH:MM or HH:MM:SS. */
static bool take_hours(struct piece text, size_t *at, struct date_style *style, int64_t parts[3])
{
    if (!take_number(text, at, 1, 2, &parts[0]) || !take(text, at, ':') ||
        !take_number(text, at, 2, 2, &parts[1]))
        return false;
    style->seconds = take(text, at, ':');
    return !style->seconds || take_number(text, at, 2, 2, &parts[2]);
}

/* The time of a day in microseconds. */
static bool take_time(struct piece text, size_t *at, struct date_style *style, int64_t *time)
{
    int64_t parts[3] = {0, 0, 0}, micros = 0, offset = 0;
    bool clock = is_clock(text, *at, style);
    style->before = text.bytes[*at] == 'T' ? 'T' : clock ? '\0' : ' ';
    if (style->before != 0 && !take(text, at, style->before))
        return false;
    if (clock ? !take_clock(text, at, style, parts) : !take_hours(text, at, style, parts))
        return false;
    if (style->seconds && take(text, at, '.') && !take_fraction(text, at, style, &micros))
        return false;
    if (!take_half(text, at, &parts[0]) || !take_zone(text, at, style, &offset))
        return false;
    *time = (parts[0] * 3600 + parts[1] * 60 + parts[2]) * DATE_SECOND + micros - offset;
    return parts[0] < 24 && parts[1] < 60 && parts[2] < 60;
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
    style->unit = digits <= 10 ? DATE_SECOND : digits <= 13 ? DATE_SECOND / 1000 : digits <= 16 ? 1 : 0;
    if (take(text, &at, '.') && !take_fraction(text, &at, style, &micros))
        return false;
    if (at != text.size || (style->unit != DATE_SECOND && micros != 0))
        return false;
    int64_t unit = style->unit;
    *time = unit == 0 ? number / 1000 : number * unit + micros;
    *time = negative ? -*time : *time;
    return is_in_range(*time);
}

int64_t date_of_unit(const struct date_style *style, int64_t unit, int64_t time)
{
    if (style->format != DATES_EPOCH || style->unit <= unit)
        return time;
    return unit == 0 ? time / style->unit / 1000 : time / (style->unit / unit);
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
    if (style->clock > 0 && style->before == 0 && !is_bare_year(date.year))
        return false;
    *time = civil_days(date) * DATE_DAY + of_day;
    return at == text.size && is_in_range(*time); /* a zone may lead out of the years */
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
