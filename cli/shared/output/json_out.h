/* Writes JSON, one object per line, without buffering. `key` is NULL inside arrays.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_JSON_OUT_H
#define CLI_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
    FILE *stream;
    int depth;
    bool begun; /* the innermost object or array has an element */
};

struct json_out json_out_to(FILE *stream);
void json_out_object(struct json_out *json, const char *key); /* ended by json_out_end_object */
void json_out_end_object(struct json_out *json);              /* the outermost one also ends the line */
void json_out_array(struct json_out *json, const char *key);
void json_out_end_array(struct json_out *json);
/* Bytes that are not UTF-8 become U+FFFD. NULL: null */
void json_out_text(struct json_out *json, const char *key, const char *text);
/* `size` bytes, which may have NULs. */
void json_out_bytes(struct json_out *json, const char *key, const char *text, size_t size);
void json_out_number(struct json_out *json, const char *key, double number); /* NaN and infinity: null */
void json_out_count(struct json_out *json, const char *key, uint64_t count);
void json_out_literal(struct json_out *json, const char *key, const char *number); /* as it is written */
void json_out_flag(struct json_out *json, const char *key, bool flag);

#endif
