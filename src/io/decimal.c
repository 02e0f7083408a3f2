/* strtod on a copy that ends in NUL.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/decimal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 64 };

bool decimal_read(struct piece text, double *value)
{
    char copy[NUMBER_TEXT], *end;
    text = piece_trimmed(text);
    if (text.size == 0 || text.size >= sizeof copy)
        return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    if (strspn(copy, "+-.0123456789eE") < text.size)
        return false;
    *value = strtod(copy, &end);
    return *end == '\0' && isfinite(*value);
}

enum decimal_mark decimal_mark_of(struct piece text)
{
    for (size_t i = text.size; i-- > 0;)
        if (text.bytes[i] == '.' || text.bytes[i] == ',')
            return text.bytes[i] == '.' ? DECIMAL_POINT : DECIMAL_COMMA;
    return DECIMAL_AUTO;
}

bool decimal_is_group(struct piece text)
{
    static const char digits[] = "0123456789";
    char copy[NUMBER_TEXT];
    text = piece_trimmed(text);
    if (text.size == 0 || text.size >= sizeof copy)
        return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    const char *at = copy + (copy[0] == '-' || copy[0] == '+');
    size_t whole = strspn(at, digits);
    return whole >= 1 && whole <= 3 && at[0] != '0' && (at[whole] == '.' || at[whole] == ',') &&
           strspn(at + whole + 1, digits) == 3 && at[whole + 4] == '\0';
}

bool decimal_read_marked(struct piece text, enum decimal_mark mark, double *value)
{
    char copy[NUMBER_TEXT], point = mark == DECIMAL_COMMA ? ',' : '.', group = 0;
    size_t used = 0, whole = 0, since = 0; /* digits of the whole part, and since its last group began */
    bool fraction = false;
    text = piece_trimmed(text);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        bool digit = c >= '0' && c <= '9',
             divides = !fraction && (c == ' ' || c == (point == ',' ? '.' : ','));
        bool ends = !fraction && !digit && (c == point || c == 'e' || c == 'E');
        if ((divides || ends) && group != 0 && (since != 3 || (divides && c != group)))
            return false;
        if (divides && group == 0 && (whole < 1 || whole > 3))
            return false;
        since = digit ? since + 1 : divides ? 0 : since;
        whole += digit && !fraction;
        fraction = fraction || ends;
        group = divides ? c : group;
        if (divides)
            continue;
        if (used == sizeof copy)
            return false;
        copy[used++] = c;
        if (c == point)
            copy[used - 1] = '.';
    }
    if (group != 0 && !fraction && since != 3)
        return false;
    return decimal_read((struct piece){copy, used}, value);
}

bool decimal_is_missing(struct piece text)
{
    static const char *const words[] = {
        "",     "NA",  "NaN",  "nan",  "N/A",    "n/a",     "NULL",    "null",     "None",     "<NA>",
        "#N/A", "#NA", "-NaN", "-nan", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN", "#N/A N/A", NULL};
    text = piece_trimmed(text);
    for (size_t i = 0; words[i] != NULL; i++)
        if (piece_is(text, words[i]))
            return true;
    return false;
}
