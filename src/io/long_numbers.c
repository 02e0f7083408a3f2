/* Numbers are found outside strings, where a number can begin.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/long_numbers.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

enum { LONG_DIGITS = 19 };

static const char mark[] = "\\u0000\"";
enum { MARK = sizeof mark - 1, ADDED = 1 + MARK }; /* bytes around the digits */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of the string that begins at the quote `at`, after its closing quote. */
static size_t string_end(const char *text, size_t size, size_t at)
{
    for (at++; at < size && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < size ? at + 1 : size;
}

/* The end of the number that begins at `at`; 0: it is not whole, begins with 0 or is short. */
static size_t long_end(const char *text, size_t size, size_t at)
{
    size_t first = at + (text[at] == '-'), end = first;
    while (end < size && is_digit(text[end]))
        end++;
    if (end - first < LONG_DIGITS || text[first] == '0')
        return 0;
    return end < size && strchr(".eE", text[end]) != NULL ? 0 : end;
}

/* Finds the next long number from *at on, which is outside strings; false: there is none. */
static bool next_long(const char *text, size_t size, size_t *at, size_t *end)
{
    while (*at < size) {
        char c = text[*at], before = *at == 0 ? ',' : text[*at - 1];
        if (c == '"') {
            *at = string_end(text, size, *at);
            continue;
        }
        bool begins = (is_digit(c) || c == '-') && before != '\0' && strchr("[:, \t\r\n", before) != NULL;
        *end = begins ? long_end(text, size, *at) : 0;
        if (*end > 0)
            return true;
        ++*at;
    }
    return false;
}

hashattn_status long_numbers_quote(struct host *host, const char *text, size_t size, char **quoted,
                                   size_t *quoted_size)
{
    size_t count = 0, end, done = 0;
    void *block;
    for (size_t at = 0; next_long(text, size, &at, &end); at = end)
        count++;
    *quoted = NULL;
    *quoted_size = size + count * ADDED;
    TRY(memory_new(host, *quoted_size, 1, "a JSON text", &block));
    char *to = *quoted = block;
    for (size_t at = 0; next_long(text, size, &at, &end); at = done = end) {
        memcpy(to, text + done, at - done);
        to += at - done;
        *to++ = '"';
        memcpy(to, text + at, end - at);
        memcpy(to + (end - at), mark, MARK);
        to += end - at + MARK;
    }
    memcpy(to, text + done, size - done);
    return HASHATTN_OK;
}

size_t long_numbers_origin(const char *text, size_t size, size_t at)
{
    size_t added = 0, end;
    for (size_t from = 0; next_long(text, size, &from, &end) && from + added < at; from = end) {
        if (end + added + ADDED > at)
            return from;
        added += ADDED;
    }
    return at - added;
}

size_t long_numbers_unquote(char *text, size_t size)
{
    size_t to = 0;
    for (size_t at = 0, end; at < size; at = end) {
        end = text[at] == '"' ? string_end(text, size, at) : at + 1;
        size_t length = end - at;
        bool marked =
            length > ADDED && is_digit(text[end - MARK - 1]) && memcmp(text + end - MARK, mark, MARK) == 0;
        if (marked) {
            at++;
            length -= ADDED;
        }
        memmove(text + to, text + at, length);
        to += length;
    }
    return to;
}
