/* JSON as trees of values: parsed with limits, read by key path, built, and written as text. The one
   interface to the JSON library; nobody else includes its header. A key path is "training.steps" or
   "labels.3" (members by name, elements by number), and every message names it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"

enum {
    JSON_MAX_DEPTH = 32,       /* of objects and arrays inside one another */
    JSON_MAX_BYTES = 64 << 20, /* of a file read by json_read_file */
    JSON_MAX_NUMBER = 40,      /* bytes of a number as text, NUL included */
};

/* A value. Trees are owned through their root; a value found inside one is valid as long as the root. */
struct json;

/* ---- reading: a failure is BAD_FILE with the byte offset or the key path ---------------------------------
 */

/* One value and nothing behind it. Duplicate keys, numbers that do not fit, NUL (escaped too) and text that
   is not UTF-8 are refused with the byte, and the line where there are several. */
hashattn_status json_parse(struct host *host, const char *text, size_t size, struct json **root);
/* The same for a regular file; messages begin with its path. */
hashattn_status json_read_file(struct host *host, const char *path, struct json **root);
void json_free(struct json *root); /* NULL is allowed */

/* The value at a path; NULL where there is none. An empty path is the root. */
const struct json *json_find(const struct json *root, const char *path);
hashattn_status json_get_string(struct host *host, const struct json *root, const char *path,
                                const char **text);
/* A whole number within minimum and maximum, both included. */
hashattn_status json_get_int(struct host *host, const struct json *root, const char *path, int64_t minimum,
                             int64_t maximum, int64_t *value);
/* Any number. null reads as NaN: that is how one is written. */
hashattn_status json_get_real(struct host *host, const struct json *root, const char *path, double *value);
hashattn_status json_get_bool(struct host *host, const struct json *root, const char *path, bool *value);
hashattn_status json_get_object(struct host *host, const struct json *root, const char *path,
                                const struct json **object);
hashattn_status json_get_array(struct host *host, const struct json *root, const char *path,
                               const struct json **array);
/* A string, number or flag as text that option_set takes. The text is inside the tree, or in `number`. */
hashattn_status json_get_text(struct host *host, const struct json *root, const char *path,
                              char number[JSON_MAX_NUMBER], const char **text);

const char *json_text(const struct json *value); /* of a string; NULL for anything else */
size_t json_count(const struct json *value);     /* members of an object, elements of an array, else 0 */
/* The element at an index, the member of exactly this name (dots and all); NULL where there is none. */
const struct json *json_element(const struct json *array, size_t index);
const struct json *json_at(const struct json *object, const char *key);

/* The members of an object in the order of the text:
   for (struct json_member m = json_first(object); m.key != NULL; m = json_next(m)) */
struct json_member {
    const char *key;
    const struct json *value;
    const struct json *object;
    void *position;
};
struct json_member json_first(const struct json *object);
struct json_member json_next(struct json_member member);

/* ---- building: NO_MEMORY, or INVALID for text that is not UTF-8 ------------------------------------------
 */

hashattn_status json_new_object(struct host *host, struct json **object);
hashattn_status json_new_array(struct host *host, struct json **array);
/* Puts a member into an object under `key`, or behind the last element of an array when key is NULL. An old
   member of that name is replaced. */
hashattn_status json_put_string(struct host *host, struct json *parent, const char *key, const char *text);
hashattn_status json_put_int(struct host *host, struct json *parent, const char *key, int64_t value);
/* Written so that reading gives the same bits; NaN and infinities become null, JSON has no other word. */
hashattn_status json_put_real(struct host *host, struct json *parent, const char *key, double value);
hashattn_status json_put_bool(struct host *host, struct json *parent, const char *key, bool value);
/* Takes the value over, also when it fails. */
hashattn_status json_put(struct host *host, struct json *parent, const char *key, struct json *value);

enum json_style {
    JSON_LINE = 0,   /* one line, for logs and JSONL */
    JSON_PAGE = 1,   /* indented, for people */
    JSON_SORTED = 2, /* members by name, not in the order in which they were put; may be added to either */
};
/* The text, memory_free'd by the caller, ended by a NUL that is not counted. */
hashattn_status json_to_text(struct host *host, const struct json *value, int style, char **text,
                             size_t *size);
/* Replaces a file by the page of a value, in one step. */
hashattn_status json_write_file(struct host *host, const char *path, const struct json *value);

#endif
