/* The only file that uses jansson. A `struct json` is a json_t. A value takes about 100 bytes; JSON is used
   for configurations, headers and log lines, never per token. jansson allocates with malloc, not from the
   host; a failure is NO_MEMORY here too.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "io/decimal.h"
#include "io/long_numbers.h"
#include "io/utf8.h"

static const json_t *inside(const struct json *value)
{
    return (const json_t *)(const void *)value;
}

static json_t *inside_mutable(struct json *value)
{
    return (json_t *)(void *)value;
}

static struct json *outside(const json_t *value)
{
    return (struct json *)(uintptr_t)value;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Bytes of memory of a tree, by the bytes of its text: an array and an object when they begin, a string, a
   number, the place of a member, and the place after a comma. Measured with jansson 2.14 on 64 bits; blocks
   of malloc round them up. */
enum { OF_ARRAY = 128, OF_OBJECT = 224, OF_STRING = 64, OF_NUMBER = 32, OF_MEMBER = 40, OF_PLACE = 16 };

static size_t memory_of(char c, char before)
{
    switch (c) {
    case '[':
        return OF_ARRAY;
    case '{':
        return OF_OBJECT;
    case '"':
        return OF_STRING;
    case ':':
        return OF_MEMBER;
    case ',':
        return OF_PLACE;
    default:
        return strchr("[:, \t\r\n", before) != NULL && ((c >= '0' && c <= '9') || c == '-') ? OF_NUMBER : 0;
    }
}

/* The parser and the destructor recurse, so the depth is checked before either runs, and so is the memory, of
   which short values take 75 times their text. What is inside strings does not count. All other errors are
   left to the parser. */
static hashattn_status check_size(struct host *host, const char *text, size_t size)
{
    size_t depth = 0, memory = size;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (quoted)
            quoted = c != '"';
        else {
            quoted = c == '"';
            depth += c == '{' || c == '[';
            depth -= (c == '}' || c == ']') && depth > 0;
            memory += memory_of(c, i == 0 ? ',' : text[i - 1]);
            FAIL_IF(depth > JSON_MAX_DEPTH, host, HASHATTN_BAD_FILE, "byte %zu: nested deeper than %d levels",
                    i, JSON_MAX_DEPTH);
            FAIL_IF(
                memory > JSON_MAX_MEMORY, host, HASHATTN_BAD_FILE,
                "byte %zu of %zu: the values up to here take more than %d MiB of memory, which is the limit",
                i, size, JSON_MAX_MEMORY >> 20);
        }
    }
    return HASHATTN_OK;
}

/* jansson reports some failed allocations as syntax errors. No block of its parser is larger than twice the
   text; if a block of that size cannot be allocated now, memory was the reason. */
static bool memory_is_out(size_t size)
{
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    void *probe = allocate(2 * size + 64);
    release(probe);
    return probe == NULL;
}

/* The offset of the first escaped NUL, which is legal JSON but would end a C string; `size` if there is
   none. */
static size_t find_nul(const char *text, size_t size)
{
    static const char nul[] = "\\u0000";
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\\') {
            if (size - i >= sizeof nul - 1 && memcmp(text + i, nul, sizeof nul - 1) == 0)
                return i;
            i++;
        }
    return size;
}

/* Reports what is wrong at a byte, with the line if the text has several. */
static hashattn_status fail_at(struct host *host, const char *text, size_t size, size_t offset,
                               const char *why)
{
    size_t line = 1;
    for (size_t i = 0; i < offset && i < size; i++)
        line += text[i] == '\n';
    if (line == 1)
        return host_fail(host, HASHATTN_BAD_FILE, "byte %zu of %zu: %s", offset, size, why);
    return host_fail(host, HASHATTN_BAD_FILE, "line %zu, byte %zu of %zu: %s", line, offset, size, why);
}

static hashattn_status fail_nul(struct host *host, const char *text, size_t size)
{
    return fail_at(host, text, size, find_nul(text, size), "\\u0000 is not allowed: no text may contain NUL");
}

static hashattn_status fail_parse(struct host *host, const char *text, size_t size, const json_error_t *error)
{
    if (json_error_code(error) == json_error_null_character ||
        json_error_code(error) == json_error_null_byte_in_key)
        return fail_nul(host, text, size);
    return fail_at(host, text, size, (size_t)error->position, error->text);
}

static json_t *load(const char *text, size_t size, size_t flags, json_error_t *error)
{
    struct c_locale locale = c_locale_begin();
    json_t *value = json_loadb(text, size, flags | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, error);
    c_locale_end(locale);
    return value;
}

/* Parses a text again whose first error is a number beyond 64 bits. *value is NULL if the text has another.
 */
static hashattn_status load_long(struct host *host, const char *text, size_t size, json_t **value,
                                 json_error_t *error)
{
    const json_error_t first = *error;
    char *quoted;
    size_t quoted_size;
    if (find_nul(text, size) < size) /* no string of the text may have the mark of a long number */
        return fail_nul(host, text, size);
    TRY(long_numbers_quote(host, text, size, &quoted, &quoted_size));
    *value = load(quoted, quoted_size, JSON_ALLOW_NUL, error);
    memory_free(host, quoted);
    if (json_error_code(error) == json_error_null_byte_in_key) /* the number is a key */
        *error = first;
    else if (*value == NULL)
        error->position = (int)long_numbers_origin(text, size, (size_t)error->position);
    return HASHATTN_OK;
}

hashattn_status json_parse(struct host *host, const char *text, size_t size, struct json **root)
{
    *root = NULL;
    TRY(check_size(host, text, size));
    json_error_t error = {.position = 0};
    json_t *value = load(text, size, 0, &error);
    if (value == NULL && json_error_code(&error) == json_error_numeric_overflow)
        TRY(load_long(host, text, size, &value, &error));
    FAIL_IF(value == NULL && (json_error_code(&error) == json_error_out_of_memory || memory_is_out(size)),
            host, HASHATTN_NO_MEMORY, "no memory for the values of %zu bytes of JSON", size);
    if (value == NULL)
        return fail_parse(host, text, size, &error);
    *root = outside(value);
    return HASHATTN_OK;
}

hashattn_status json_read_file(struct host *host, const char *path, struct json **root)
{
    char *text;
    size_t size;
    *root = NULL;
    TRY(file_read_regular(host, path, JSON_MAX_BYTES, &text, &size));
    hashattn_status status = size > 0 ? json_parse(host, text, size, root)
                                      : host_fail(host, HASHATTN_BAD_FILE, "the file is empty");
    memory_free(host, text);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}

void json_library(char *text, size_t size)
{
    snprintf(text, size, "jansson %s", jansson_version_str());
}

void json_free(struct json *root)
{
    json_decref(inside_mutable(root));
}

/* The element number in a part of a path; SIZE_MAX, which no array has, if it is not a number. */
static size_t element_number(const char *part, size_t length)
{
    size_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (part[i] < '0' || part[i] > '9' || length > 18)
            return SIZE_MAX;
        number = number * 10 + (size_t)(part[i] - '0');
    }
    return length == 0 ? SIZE_MAX : number;
}

const struct json *json_find(const struct json *root, const char *path)
{
    const json_t *value = inside(root);
    while (value != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        if (json_is_array(value))
            value = json_array_get(value, element_number(path, length));
        else
            value = json_object_getn(value, path, length);
        path += length + (path[length] == '.');
    }
    return outside(value);
}

bool json_is_absent(const struct json *root, const char *path)
{
    const json_t *value = inside(json_find(root, path));
    return value == NULL || json_is_null(value);
}

/* True for a whole number that long_numbers_quote has made a string. */
static bool is_long(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) > strlen(json_string_value(value));
}

static bool is_text(const json_t *value)
{
    return json_is_string(value) && !is_long(value);
}

/* NaN for a number of too many digits. */
static double number_of(const json_t *value)
{
    if (!is_long(value))
        return json_number_value(value);
    double number;
    const char *digits = json_string_value(value);
    struct c_locale locale = c_locale_begin();
    bool read = decimal_read((struct piece){digits, strlen(digits)}, &number);
    c_locale_end(locale);
    return read ? number : NAN;
}

static const char *kind(const json_t *value)
{
    if (is_long(value))
        return "a whole number";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

static hashattn_status fail_kind(struct host *host, const struct json *root, const char *path,
                                 const char *wanted)
{
    const json_t *value = inside(json_find(root, path));
    const char *named = *path == '\0' ? "the top level" : path;
    if (value == NULL)
        return host_fail(host, HASHATTN_BAD_FILE, "'%.200s' is missing, %s is needed", named, wanted);
    return host_fail(host, HASHATTN_BAD_FILE, "'%.200s' is %s, %s is needed", named, kind(value), wanted);
}

hashattn_status json_get_string(struct host *host, const struct json *root, const char *path,
                                const char **text)
{
    *text = json_text(json_find(root, path));
    return *text != NULL ? HASHATTN_OK : fail_kind(host, root, path, "a string");
}

hashattn_status json_get_int(struct host *host, const struct json *root, const char *path, int64_t minimum,
                             int64_t maximum, int64_t *value)
{
    const json_t *found = inside(json_find(root, path));
    *value = 0;
    if (!json_is_integer(found) && !is_long(found))
        return fail_kind(host, root, path, "a whole number");
    char text[JSON_MAX_NUMBER];
    const char *shown = text, *quote = *path == '\0' ? "" : "'", *named = *path == '\0' ? "the value" : path;
    int64_t number = json_integer_value(found);
    errno = 0;
    if (is_long(found))
        number = strtoll(shown = json_string_value(found), NULL, 10);
    else
        snprintf(text, sizeof text, "%" PRId64, number);
    FAIL_IF(errno == ERANGE || number < minimum || number > maximum, host, HASHATTN_BAD_FILE,
            "%s%.200s%s is %.60s, allowed are %" PRId64 " to %" PRId64, quote, named, quote, shown, minimum,
            maximum);
    *value = number;
    return HASHATTN_OK;
}

hashattn_status json_get_real(struct host *host, const struct json *root, const char *path, double *value)
{
    const json_t *found = inside(json_find(root, path));
    *value = json_is_null(found) ? NAN : number_of(found);
    if (!json_is_number(found) && !is_long(found) && !json_is_null(found))
        return fail_kind(host, root, path, "a number");
    FAIL_IF(isnan(*value) && is_long(found), host, HASHATTN_BAD_FILE, "'%.200s' is a number of %zu digits",
            path, strlen(json_string_value(found)));
    return HASHATTN_OK;
}

hashattn_status json_get_bool(struct host *host, const struct json *root, const char *path, bool *value)
{
    const json_t *found = inside(json_find(root, path));
    *value = json_is_true(found);
    return json_is_boolean(found) ? HASHATTN_OK : fail_kind(host, root, path, "true or false");
}

hashattn_status json_get_object(struct host *host, const struct json *root, const char *path,
                                const struct json **object)
{
    *object = json_find(root, path);
    return json_is_object(inside(*object)) ? HASHATTN_OK : fail_kind(host, root, path, "an object");
}

hashattn_status json_get_array(struct host *host, const struct json *root, const char *path,
                               const struct json **array)
{
    *array = json_find(root, path);
    return json_is_array(inside(*array)) ? HASHATTN_OK : fail_kind(host, root, path, "an array");
}

/* The shortest text that reads back as the same number: %g leaves out zeros at the end. */
static void write_real(char number[JSON_MAX_NUMBER], double value)
{
    struct c_locale locale = c_locale_begin();
    double back = 0;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(number, JSON_MAX_NUMBER, "%.*g", digits, value);
        if (decimal_read((struct piece){number, strlen(number)}, &back) && back == value)
            break;
    }
    c_locale_end(locale);
}

hashattn_status json_get_text(struct host *host, const struct json *root, const char *path,
                              char number[JSON_MAX_NUMBER], const char **text)
{
    const json_t *found = inside(json_find(root, path));
    *text = number;
    number[0] = '\0';
    if (json_is_string(found))
        *text = json_string_value(found);
    else if (json_is_integer(found))
        snprintf(number, JSON_MAX_NUMBER, "%" PRId64, (int64_t)json_integer_value(found));
    else if (json_is_real(found))
        write_real(number, json_real_value(found));
    else if (json_is_boolean(found))
        *text = json_is_true(found) ? "true" : "false";
    else
        return fail_kind(host, root, path, "a string, a number, true or false");
    return HASHATTN_OK;
}

hashattn_status json_only_members(struct host *host, const struct json *object, const char *where,
                                  const char *const *allowed)
{
    for (struct json_member member = json_first(object); member.key != NULL; member = json_next(member)) {
        size_t i = 0;
        while (allowed[i] != NULL && strcmp(allowed[i], member.key) != 0)
            i++;
        FAIL_IF(allowed[i] == NULL, host, HASHATTN_BAD_FILE, "%s has the unknown key '%.60s'", where,
                member.key);
    }
    return HASHATTN_OK;
}

const char *json_text(const struct json *value)
{
    return is_text(inside(value)) ? json_string_value(inside(value)) : NULL;
}

double json_number(const struct json *value)
{
    return json_is_number(inside(value)) || is_long(inside(value)) ? number_of(inside(value)) : NAN;
}

bool json_is_list(const struct json *value)
{
    return json_is_array(inside(value));
}

size_t json_count(const struct json *value)
{
    return json_is_array(inside(value)) ? json_array_size(inside(value)) : json_object_size(inside(value));
}

const struct json *json_element(const struct json *array, size_t index)
{
    return outside(json_array_get(inside(array), index));
}

const struct json *json_at(const struct json *object, const char *key)
{
    return outside(json_object_get(inside(object), key));
}

static struct json_member member_at(const struct json *object, void *position)
{
    return (struct json_member){.key = json_object_iter_key(position),
                                .value = outside(json_object_iter_value(position)),
                                .object = object,
                                .position = position};
}

struct json_member json_first(const struct json *object)
{
    return member_at(object, json_object_iter((json_t *)(uintptr_t)object));
}

struct json_member json_next(struct json_member member)
{
    return member_at(member.object,
                     json_object_iter_next((json_t *)(uintptr_t)member.object, member.position));
}

/* ---- building ------------------------------------------------------------------------------------------ */

static hashattn_status fail_memory(struct host *host, const char *key)
{
    return host_fail(host, HASHATTN_NO_MEMORY, "no memory for the JSON value '%.60s'",
                     key != NULL ? key : "[]");
}

/* Takes ownership of the value, which is NULL if memory ran out. */
static hashattn_status put(struct host *host, struct json *parent, const char *key, json_t *value)
{
    if (value == NULL)
        return fail_memory(host, key);
    if (key == NULL)
        return json_array_append_new(inside_mutable(parent), value) == 0 ? HASHATTN_OK
                                                                         : fail_memory(host, key);
    hashattn_status status = utf8_check(host, key, strlen(key));
    if (status != HASHATTN_OK) {
        json_decref(value);
        host_prefix(host, "a JSON key");
        return HASHATTN_INVALID;
    }
    return json_object_set_new(inside_mutable(parent), key, value) == 0 ? HASHATTN_OK
                                                                        : fail_memory(host, key);
}

static hashattn_status give(struct host *host, json_t *value, struct json **out)
{
    *out = outside(value);
    return value != NULL ? HASHATTN_OK : fail_memory(host, "{}");
}

hashattn_status json_new_object(struct host *host, struct json **object)
{
    return give(host, json_object(), object);
}

hashattn_status json_new_array(struct host *host, struct json **array)
{
    return give(host, json_array(), array);
}

hashattn_status json_put_string(struct host *host, struct json *parent, const char *key, const char *text)
{
    if (utf8_check(host, text, strlen(text)) != HASHATTN_OK) {
        host_prefix(host, key != NULL ? key : "a JSON string");
        return HASHATTN_INVALID;
    }
    return put(host, parent, key, json_string(text));
}

hashattn_status json_put_int(struct host *host, struct json *parent, const char *key, int64_t value)
{
    return put(host, parent, key, json_integer(value));
}

hashattn_status json_put_real(struct host *host, struct json *parent, const char *key, double value)
{
    return put(host, parent, key, isfinite(value) ? json_real(value) : json_null());
}

hashattn_status json_put_bool(struct host *host, struct json *parent, const char *key, bool value)
{
    return put(host, parent, key, json_boolean(value));
}

hashattn_status json_put(struct host *host, struct json *parent, const char *key, struct json *value)
{
    return put(host, parent, key, inside_mutable(value));
}

/* json_dumpb in the C locale. Writes up to `capacity` bytes of the text and returns its size; 0: no memory.
 */
static size_t dump(const struct json *value, char *to, size_t capacity, size_t flags)
{
    struct c_locale locale = c_locale_begin();
    size_t size = json_dumpb(inside(value), to, capacity, flags);
    c_locale_end(locale);
    return size;
}

hashattn_status json_to_text(struct host *host, const struct json *value, int style, char **text,
                             size_t *size)
{
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17) | (style & JSON_PAGE ? JSON_INDENT(2) : 0) |
                   (style & JSON_SORTED ? JSON_SORT_KEYS : 0);
    *text = NULL;
    *size = dump(value, NULL, 0, flags);
    if (*size == 0) /* no value has an empty text */
        return fail_memory(host, "text");
    void *block;
    TRY(memory_new(host, *size + 1, 1, "JSON text", &block));
    if (dump(value, block, *size, flags) != *size) {
        memory_free(host, block);
        return fail_memory(host, "text");
    }
    *text = block;
    *size = long_numbers_unquote(*text, *size);
    (*text)[*size] = '\0';
    return HASHATTN_OK;
}

hashattn_status json_write_file(struct host *host, const char *path, const struct json *value)
{
    char *text;
    size_t size;
    struct file_writer writer;
    TRY(json_to_text(host, value, JSON_PAGE, &text, &size));
    hashattn_status status = file_open_replacement(host, path, &writer);
    if (status == HASHATTN_OK) {
        file_write(&writer, text, size);
        file_write(&writer, "\n", 1);
        status = file_commit(host, &writer);
    }
    memory_free(host, text);
    return status;
}
