/* JSON as trees of values: parsed with limits, read by key path, built, and written as text. Only json.c
   includes the JSON library's header. A key path is "training.steps" or "labels.3" (members by name, elements
   by number); every message names it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"

enum {
    JSON_MAX_DEPTH = 32,       /* levels of nested objects and arrays */
    JSON_MAX_BYTES = 64 << 20, /* size of a file for json_read_file */
    JSON_MAX_MEMORY = 1 << 29, /* bytes of the values of a text, and of the text */
    JSON_MAX_NUMBER = 40,      /* size of a number as text, NUL included */
};

/* A value. The caller owns the root of a tree; values found inside are valid as long as the root. */
struct json;

/* ---- reading: a failure is BAD_FILE with the byte offset or the key path ------------------------------- */

/* Parses exactly one value. Refuses more than JSON_MAX_DEPTH levels or JSON_MAX_MEMORY, duplicate keys, real
   numbers out of range, NUL (even escaped) and text that is not UTF-8, with the byte, and the line if there
   are several. Whole numbers may have any number of digits. */
hashattn_status json_parse(struct host *host, const char *text, size_t size, struct json **root);
/* The same for a regular file; messages begin with its path. */
hashattn_status json_read_file(struct host *host, const char *path, struct json **root);
void json_free(struct json *root); /* NULL is allowed */
/* Writes the name of the library and its version: "jansson 2.14". */
void json_library(char *text, size_t size);

/* The value at a path; NULL if there is none. The empty path is the root. */
const struct json *json_find(const struct json *root, const char *path);
/* True if there is no value at a path, or null. */
bool json_is_absent(const struct json *root, const char *path);
hashattn_status json_get_string(struct host *host, const struct json *root, const char *path,
                                const char **text);
/* A whole number from minimum to maximum, inclusive. */
hashattn_status json_get_int(struct host *host, const struct json *root, const char *path, int64_t minimum,
                             int64_t maximum, int64_t *value);
/* Any number. null reads as NaN, because NaN is written as null. */
hashattn_status json_get_real(struct host *host, const struct json *root, const char *path, double *value);
hashattn_status json_get_bool(struct host *host, const struct json *root, const char *path, bool *value);
hashattn_status json_get_object(struct host *host, const struct json *root, const char *path,
                                const struct json **object);
hashattn_status json_get_array(struct host *host, const struct json *root, const char *path,
                               const struct json **array);
/* A string, number or flag as text for option_set. The text is inside the tree or in `number`; that of a
   whole number beyond 64 bits has all its digits, that of a real one the fewest that read back. */
hashattn_status json_get_text(struct host *host, const struct json *root, const char *path,
                              char number[JSON_MAX_NUMBER], const char **text);
/* BAD_FILE if the object has a key that is not in `allowed`, which NULL ends. where: its name in messages. */
hashattn_status json_only_members(struct host *host, const struct json *object, const char *where,
                                  const char *const *allowed);

const char *json_text(const struct json *value); /* of a string; NULL for anything else */
double json_number(const struct json *value);    /* NaN for anything else */
bool json_is_list(const struct json *value);     /* an array; false for NULL */
size_t json_count(const struct json *value);     /* members of an object, elements of an array, otherwise 0 */
/* The element at an index; the member of exactly this name, which may contain dots. NULL if there is none. */
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

/* ---- building: NO_MEMORY, or INVALID for text that is not UTF-8 ---------------------------------------- */

hashattn_status json_new_object(struct host *host, struct json **object);
hashattn_status json_new_array(struct host *host, struct json **array);
/* Adds a member to an object, replacing one of that name; with key NULL, appends an element to an array. */
hashattn_status json_put_string(struct host *host, struct json *parent, const char *key, const char *text);
hashattn_status json_put_int(struct host *host, struct json *parent, const char *key, int64_t value);
/* Reading it back gives the same bits; NaN and infinities become null, because JSON cannot express them. */
hashattn_status json_put_real(struct host *host, struct json *parent, const char *key, double value);
hashattn_status json_put_bool(struct host *host, struct json *parent, const char *key, bool value);
/* Takes ownership of the value, even if it fails. */
hashattn_status json_put(struct host *host, struct json *parent, const char *key, struct json *value);

enum json_style {
    JSON_LINE = 0,   /* one line, for logs and JSONL */
    JSON_PAGE = 1,   /* indented, for people */
    JSON_SORTED = 2, /* members by name instead of in order of insertion; may be added to either */
};
/* The text, with a NUL that *size does not count; the caller frees it with memory_free. */
hashattn_status json_to_text(struct host *host, const struct json *value, int style, char **text,
                             size_t *size);
/* Atomically replaces a file by the value as a JSON_PAGE. */
hashattn_status json_write_file(struct host *host, const char *path, const struct json *value);

#endif
