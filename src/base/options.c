/* Reads and writes option fields as text; every message states the range.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"

const struct option_row *option_find(const struct option_row *rows, const char *name)
{
    for (; rows->name != NULL; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

static void *field_of(const struct option_row *row, void *values)
{
    return (char *)values + row->offset;
}

void options_preset(const struct option_row *rows, void *values)
{
    for (; rows->name != NULL; rows++) {
        switch (rows->type) {
        case OPTION_INT:
            *(int64_t *)field_of(rows, values) = (int64_t)rows->preset;
            break;
        case OPTION_REAL:
            *(double *)field_of(rows, values) = rows->preset;
            break;
        case OPTION_CHOICE:
        case OPTION_FLAG:
            *(int *)field_of(rows, values) = (int)rows->preset;
            break;
        case OPTION_TEXT:
            snprintf(field_of(rows, values), OPTION_TEXT_SIZE, "%s", rows->choices[0]);
            break;
        }
    }
}

static hashattn_status fail_choice(struct host *host, const struct option_row *row, const char *of,
                                   const char *text)
{
    char list[200] = "";
    for (const char *const *choice = row->choices; *choice != NULL; choice++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ", *choice);
    }
    return host_fail(host, HASHATTN_INVALID, "%s: `%s` is '%.60s', allowed are %s", of, row->name, text,
                     list);
}

hashattn_status option_set(struct host *host, const struct option_row *rows, const char *of, void *values,
                           const char *name, const char *text)
{
    const struct option_row *row = option_find(rows, name);
    FAIL_IF(row == NULL, host, HASHATTN_INVALID, "%s has no option '%.60s'", of, name);
    void *field = field_of(row, values);
    char *end = NULL;
    errno = 0;
    switch (row->type) {
    case OPTION_INT: {
        long long value = strtoll(text, &end, 10);
        FAIL_IF(end == text || *end != '\0' || errno != 0, host, HASHATTN_INVALID,
                "%s: `%s` is '%.60s', a whole number from %.0f to %.0f is needed", of, name, text,
                row->minimum, row->maximum);
        FAIL_IF((double)value < row->minimum || (double)value > row->maximum, host, HASHATTN_INVALID,
                "%s: `%s` is %lld, allowed are %.0f to %.0f", of, name, value, row->minimum, row->maximum);
        *(int64_t *)field = value;
        break;
    }
    case OPTION_REAL: {
        struct c_locale locale = c_locale_begin();
        double value = strtod(text, &end);
        bool lost = value == 0 && errno == ERANGE;
        c_locale_end(locale);
        bool decimal = end > text && *end == '\0' && strpbrk(text, "xX") == NULL; /* 0x1p-3 is no decimal */
        FAIL_IF(!decimal || !isfinite(value), host, HASHATTN_INVALID,
                "%s: `%s` is '%.60s', a number from %g to %g is needed", of, name, text, row->minimum,
                row->maximum);
        FAIL_IF(lost, host, HASHATTN_INVALID,
                "%s: `%s` is '%.60s', which is too small and would be read as 0; allowed are %g to %g", of,
                name, text, row->minimum, row->maximum);
        FAIL_IF(value < row->minimum || value > row->maximum, host, HASHATTN_INVALID,
                "%s: `%s` is %g, allowed are %g to %g", of, name, value, row->minimum, row->maximum);
        *(double *)field = value;
        break;
    }
    case OPTION_CHOICE: {
        int index = 0;
        while (row->choices[index] != NULL && strcmp(row->choices[index], text) != 0)
            index++;
        if (row->choices[index] == NULL)
            return fail_choice(host, row, of, text);
        *(int *)field = index;
        break;
    }
    case OPTION_FLAG:
        if (strcmp(text, "true") == 0)
            *(int *)field = 1;
        else if (strcmp(text, "false") == 0)
            *(int *)field = 0;
        else
            return host_fail(host, HASHATTN_INVALID, "%s: `%s` is '%.60s', allowed are true, false", of, name,
                             text);
        break;
    case OPTION_TEXT: {
        size_t size = strlen(text);
        FAIL_IF((double)size < row->minimum || (double)size > row->maximum, host, HASHATTN_INVALID,
                "%s: `%s` is '%.60s' of %zu bytes, allowed are %.0f to %.0f bytes", of, name, text, size,
                row->minimum, row->maximum);
        assert(size < OPTION_TEXT_SIZE);
        memcpy(field, text, size + 1);
        break;
    }
    }
    return HASHATTN_OK;
}

void options_take(const struct option_row *rows, void *values, const char *text)
{
    char name[64], value[64];
    struct host host;
    host_init(&host);
    for (text = text == NULL ? "" : text; *text != '\0'; text += strspn(text, " ")) {
        size_t size = strcspn(text, "="), end = strcspn(text, " ");
        assert(size < end && end < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)size, text);
        snprintf(value, sizeof value, "%.*s", (int)(end - size - 1), text + size + 1);
        hashattn_status status = option_set(&host, rows, "preset", values, name, value);
        assert(status == HASHATTN_OK);
        (void)status;
        text += end;
    }
}

/* The fewest digits that read back as the same number. */
static void write_real(char *text, size_t size, double number)
{
    struct c_locale locale = c_locale_begin();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    c_locale_end(locale);
}

void option_text(const struct option_row *row, const void *values, char *text, size_t size)
{
    const void *field = (const char *)values + row->offset;
    switch (row->type) {
    case OPTION_INT:
        snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
        break;
    case OPTION_REAL:
        write_real(text, size, *(const double *)field);
        break;
    case OPTION_CHOICE:
        snprintf(text, size, "%s", row->choices[*(const int *)field]);
        break;
    case OPTION_FLAG:
        snprintf(text, size, "%s", *(const int *)field ? "true" : "false");
        break;
    case OPTION_TEXT:
        snprintf(text, size, "%s", (const char *)field);
        break;
    }
}

/* The option whose name, up to a brace, is at `text`; NULL: none. */
static const struct option_row *braced(const struct option_row *rows, const char *text)
{
    for (; rows->name != NULL; rows++) {
        size_t length = strlen(rows->name);
        if (strncmp(text, rows->name, length) == 0 && text[length] == '}')
            return rows;
    }
    return NULL;
}

void options_fill(const struct option_row *rows, const void *values, const char *sentence, char *text,
                  size_t size)
{
    size_t used = 0;
    while (*sentence != '\0' && used + 1 < size) {
        const struct option_row *row = *sentence == '{' ? braced(rows, sentence + 1) : NULL;
        if (row == NULL) {
            text[used++] = *sentence++;
            continue;
        }
        option_text(row, values, text + used, size - used);
        used += strlen(text + used);
        sentence += strlen(row->name) + 2;
    }
    text[used] = '\0';
}
