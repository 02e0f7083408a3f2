/* A JSON writer (RFC 8259). Whole numbers have no exponent; other numbers have the fewest digits that read
   back as the same double.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/output/character_out.h"

struct json_out json_out_to(FILE *stream)
{
    return (struct json_out){.stream = stream};
}

static void write_string(FILE *stream, const char *text, size_t size)
{
    fputc('"', stream);
    for (size_t i = 0; i < size;) {
        unsigned char c = (unsigned char)text[i];
        size_t bytes = character_size(text + i, size - i);
        if (c == '"' || c == '\\')
            fprintf(stream, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(stream, "\\u%04x", c);
        else if (bytes == 0)
            fputs(CHARACTER_REPLACED, stream);
        else
            fwrite(text + i, 1, bytes, stream);
        i += bytes == 0 ? 1 : bytes;
    }
    fputc('"', stream);
}

/* Writes the comma and the key before a value. */
static void begin(struct json_out *json, const char *key)
{
    if (json->begun)
        fputs(", ", json->stream);
    json->begun = true;
    if (key != NULL) {
        write_string(json->stream, key, strlen(key));
        fputs(": ", json->stream);
    }
}

static void enter(struct json_out *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->stream);
    json->begun = false;
    json->depth++;
}

static void leave(struct json_out *json, char bracket)
{
    fputc(bracket, json->stream);
    json->depth--;
    json->begun = json->depth > 0;
    if (json->depth == 0)
        fputc('\n', json->stream);
}

void json_out_object(struct json_out *json, const char *key)
{
    enter(json, key, '{');
}

void json_out_end_object(struct json_out *json)
{
    leave(json, '}');
}

void json_out_array(struct json_out *json, const char *key)
{
    enter(json, key, '[');
}

void json_out_end_array(struct json_out *json)
{
    leave(json, ']');
}

void json_out_text(struct json_out *json, const char *key, const char *text)
{
    begin(json, key);
    if (text == NULL)
        fputs("null", json->stream);
    else
        write_string(json->stream, text, strlen(text));
}

void json_out_bytes(struct json_out *json, const char *key, const char *text, size_t size)
{
    begin(json, key);
    write_string(json->stream, text, size);
}

void json_out_number(struct json_out *json, const char *key, double number)
{
    begin(json, key);
    if (!isfinite(number)) {
        fputs("null", json->stream);
        return;
    }
    char text[40];
    bool whole = number == floor(number) && fabs(number) < 1e15;
    snprintf(text, sizeof text, "%.0f", number);
    for (int digits = 1; digits <= 17 && !whole; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    fputs(text, json->stream);
}

void json_out_count(struct json_out *json, const char *key, uint64_t count)
{
    begin(json, key);
    fprintf(json->stream, "%" PRIu64, count);
}

void json_out_literal(struct json_out *json, const char *key, const char *number)
{
    begin(json, key);
    fputs(number, json->stream);
}

void json_out_flag(struct json_out *json, const char *key, bool flag)
{
    begin(json, key);
    fputs(flag ? "true" : "false", json->stream);
}
