/* The header of an .npy file is a Python dictionary with three known keys. The parser accepts exactly that,
   within the header's stated length. Cost: one pass over the header and one move of the data to the front of
   their block.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/npy.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "io/shape_text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are moved as bytes");

static const char magic[] = "\x93NUMPY";

enum {
    MAGIC = sizeof magic - 1,
    SHORT_PREAMBLE = MAGIC + 4, /* version 1: major, minor, 16 bits of length */
    LONG_PREAMBLE = MAGIC + 6,  /* versions 2 and 3: 32 bits */
    MAX_HEADER = 65535,         /* bytes of the dictionary; ours has 118 */
};

static const struct {
    const char *name, *code;
    size_t size;
} types[] = {
    [NPY_FLOAT32] = {"float32", "<f4", 4}, [NPY_BOOL] = {"bool", "|b1", 1},
    [NPY_UINT8] = {"uint8", "|u1", 1},     [NPY_UINT16] = {"uint16", "<u2", 2},
    [NPY_INT32] = {"int32", "<i4", 4},     [NPY_INT64] = {"int64", "<i8", 8},
    [NPY_FLOAT64] = {"float64", "<f8", 8},
};
enum { TYPES = sizeof types / sizeof types[0] };

const char *npy_type_name(enum npy_type type)
{
    return types[type].name;
}

size_t npy_type_size(enum npy_type type)
{
    return types[type].size;
}

/* ---- the dictionary ------------------------------------------------------------------------------------ */

struct cursor {
    struct host *host;
    const char *start, *at, *end; /* start of the file, for offsets in messages */
};

static hashattn_status fail_at(const struct cursor *c, const char *wanted)
{
    size_t offset = (size_t)(c->at - c->start);
    if (c->at == c->end)
        return host_fail(c->host, HASHATTN_BAD_FILE, "the header ends at byte %zu, %s is needed", offset,
                         wanted);
    return host_fail(c->host, HASHATTN_BAD_FILE, "byte %zu of the header is 0x%02x, %s is needed", offset,
                     (unsigned)(unsigned char)*c->at, wanted);
}

static void skip_spaces(struct cursor *c)
{
    while (c->at < c->end && *c->at == ' ')
        c->at++;
}

/* Skips spaces, then consumes the character if it is next. */
static bool take(struct cursor *c, char wanted)
{
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* Parses a quoted string without escapes; *text points into the header. */
static hashattn_status parse_string(struct cursor *c, const char *what, const char **text, size_t *length)
{
    skip_spaces(c);
    char quote = c->at < c->end ? *c->at : '\0';
    if (quote != '\'' && quote != '"')
        return fail_at(c, what);
    const char *close = memchr(c->at + 1, quote, (size_t)(c->end - c->at - 1));
    if (close == NULL)
        return fail_at(c, "the end of the string");
    *text = c->at + 1;
    *length = (size_t)(close - *text);
    c->at = close + 1;
    return HASHATTN_OK;
}

static hashattn_status parse_type(struct cursor *c, struct npy *array)
{
    const char *code;
    size_t length;
    TRY(parse_string(c, "a type like '<f4' (records are not supported)", &code, &length));
    for (int i = 0; i < TYPES; i++)
        if (strlen(types[i].code) == length && memcmp(types[i].code, code, length) == 0) {
            array->type = (enum npy_type)i;
            return HASHATTN_OK;
        }
    const char *why = length > 0 && code[0] == '>' ? " (big endian)" : "";
    bool is_float = length == 3 && code[1] == 'f'; /* the usual type of NumPy is '<f8' */
    return host_fail(c->host, HASHATTN_BAD_FILE,
                     "the type is '%.*s'%s, not one of '<f4', '|b1', '|u1', '<u2', '<i4', '<i8', '<f8'%s",
                     length > 20 ? 20 : (int)length, code, why,
                     is_float ? "; save array.astype('float32') instead" : "");
}

static hashattn_status parse_order(struct cursor *c)
{
    if (take_word(c, "False"))
        return HASHATTN_OK;
    FAIL_IF(take_word(c, "True"), c->host, HASHATTN_BAD_FILE,
            "the array is in Fortran order, C order is needed (numpy.ascontiguousarray converts it)");
    return fail_at(c, "True or False");
}

static hashattn_status parse_size(struct cursor *c, size_t *size)
{
    skip_spaces(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return fail_at(c, "a length");
    *size = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        *size = size_sum(size_product(*size, 10), (size_t)(*c->at - '0'));
    FAIL_IF(*size > PTRDIFF_MAX, c->host, HASHATTN_BAD_FILE, "a length before byte %zu is over %zu",
            (size_t)(c->at - c->start), (size_t)PTRDIFF_MAX);
    return HASHATTN_OK;
}

/* (), (3,), (3, 4) or (3, 4,): a single length needs its comma. */
static hashattn_status parse_shape(struct cursor *c, struct npy *array)
{
    if (!take(c, '('))
        return fail_at(c, "a shape like (3, 4)");
    bool comma = true;
    while (!take(c, ')')) {
        if (!comma)
            return fail_at(c, "',' or ')'");
        FAIL_IF(array->rank == NPY_RANK, c->host, HASHATTN_BAD_FILE, "the array has more than %d dimensions",
                NPY_RANK);
        TRY(parse_size(c, &array->shape[array->rank++]));
        comma = take(c, ',');
    }
    FAIL_IF(array->rank == 1 && !comma, c->host, HASHATTN_BAD_FILE,
            "byte %zu of the header: a shape of one length needs a comma, like (3,)",
            (size_t)(c->at - c->start));
    return HASHATTN_OK;
}

enum { KEY_TYPE, KEY_ORDER, KEY_SHAPE, KEYS };

static hashattn_status parse_dictionary(struct cursor *c, struct npy *array)
{
    static const char *const keys[KEYS] = {"descr", "fortran_order", "shape"};
    bool seen[KEYS] = {false};
    if (!take(c, '{'))
        return fail_at(c, "'{'");
    bool comma = true;
    while (!take(c, '}')) {
        if (!comma)
            return fail_at(c, "',' or '}'");
        const char *text;
        size_t length;
        TRY(parse_string(c, "a key or '}'", &text, &length));
        int key = 0;
        while (key < KEYS && (strlen(keys[key]) != length || memcmp(keys[key], text, length) != 0))
            key++;
        FAIL_IF(key == KEYS, c->host, HASHATTN_BAD_FILE, "the header has an unknown key '%.*s'",
                length > 40 ? 40 : (int)length, text);
        FAIL_IF(seen[key], c->host, HASHATTN_BAD_FILE, "the header has '%s' twice", keys[key]);
        seen[key] = true;
        if (!take(c, ':'))
            return fail_at(c, "':'");
        if (key == KEY_TYPE)
            TRY(parse_type(c, array));
        else if (key == KEY_ORDER)
            TRY(parse_order(c));
        else
            TRY(parse_shape(c, array));
        comma = take(c, ',');
    }
    for (int key = 0; key < KEYS; key++)
        FAIL_IF(!seen[key], c->host, HASHATTN_BAD_FILE, "the header lacks '%s'", keys[key]);
    /* Spaces pad the header; its last byte is a newline. */
    skip_spaces(c);
    if (c->at == c->end || *c->at != '\n')
        return fail_at(c, "a space or the end of the line");
    c->at++;
    return c->at == c->end ? HASHATTN_OK : fail_at(c, "the end of the header");
}

/* ---- whole files --------------------------------------------------------------------------------------- */

hashattn_status npy_parse(struct host *host, const char *bytes, size_t size, struct npy *array, size_t *data)
{
    *array = (struct npy){.data = NULL};
    *data = 0;
    FAIL_IF(size < MAGIC || memcmp(bytes, magic, MAGIC) != 0, host, HASHATTN_BAD_FILE,
            "not an .npy file: its %zu bytes do not begin with \\x93NUMPY", size);
    FAIL_IF(size < SHORT_PREAMBLE, host, HASHATTN_BAD_FILE,
            "cut short: %zu bytes, the preamble alone needs %d", size, (int)SHORT_PREAMBLE);
    unsigned char b[LONG_PREAMBLE] = {0};
    memcpy(b, bytes, size < sizeof b ? size : sizeof b);
    unsigned major = b[MAGIC], minor = b[MAGIC + 1];
    FAIL_IF(major < 1 || major > 3 || minor != 0, host, HASHATTN_BAD_FILE,
            "the format version is %u.%u, not 1.0, 2.0 or 3.0", major, minor);
    size_t preamble = major == 1 ? SHORT_PREAMBLE : LONG_PREAMBLE;
    size_t length = (size_t)b[MAGIC + 2] | (size_t)b[MAGIC + 3] << 8;
    if (major > 1)
        length |= (size_t)b[MAGIC + 4] << 16 | (size_t)b[MAGIC + 5] << 24;
    FAIL_IF(length > MAX_HEADER, host, HASHATTN_BAD_FILE, "the header has %zu bytes, at most %d are allowed",
            length, (int)MAX_HEADER);
    FAIL_IF(size < preamble + length, host, HASHATTN_BAD_FILE,
            "cut short: %zu bytes, preamble and header alone need %zu", size, preamble + length);
    *data = preamble + length;
    struct cursor cursor = {.host = host, .start = bytes, .at = bytes + preamble, .end = bytes + *data};
    TRY(parse_dictionary(&cursor, array));

    /* A shape with a zero is empty; the product of its other lengths must not overflow either. */
    size_t lengths = 1;
    array->count = 1;
    for (int i = 0; i < array->rank; i++) {
        array->count *= array->shape[i];
        lengths = size_product(lengths, array->shape[i] == 0 ? 1 : array->shape[i]);
    }
    size_t there = size - *data, wanted = size_product(lengths, npy_type_size(array->type));
    if (array->count == 0)
        wanted = wanted == SIZE_MAX ? SIZE_MAX : 0;
    char text[120];
    npy_describe(array, text, sizeof text);
    FAIL_IF(wanted == SIZE_MAX, host, HASHATTN_BAD_FILE, "%s is too large", text);
    FAIL_IF(there != wanted, host, HASHATTN_BAD_FILE, "%s: %s has %zu bytes of data, the file has %zu",
            there < wanted ? "cut short" : "too long", text, wanted, there);
    return HASHATTN_OK;
}

hashattn_status npy_read(struct host *host, const char *path, size_t limit, struct npy *array)
{
    char *bytes;
    size_t size, data;
    *array = (struct npy){.data = NULL};
    TRY(file_read(host, path, limit, &bytes, &size));
    hashattn_status status = npy_parse(host, bytes, size, array, &data);
    if (status != HASHATTN_OK) {
        memory_free(host, bytes);
        host_prefix(host, path);
        return status;
    }
    if (array->count == 0) {
        memory_free(host, bytes);
        return HASHATTN_OK;
    }
    memmove(bytes, bytes + data, size - data);
    array->data = bytes;
    return HASHATTN_OK;
}

void npy_free(struct host *host, struct npy *array)
{
    memory_free(host, array->data);
    array->data = NULL;
}

void npy_describe(const struct npy *array, char *text, size_t size)
{
    shape_text(array->rank, array->shape, text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used, " %s", npy_type_name(array->type));
}

hashattn_status npy_begin(struct host *host, const char *path, const struct npy *array,
                          struct file_writer *writer)
{
    /* The data begin at a multiple of 64 bytes, so that they can be mapped. */
    char shape[SHAPE_TEXT(NPY_RANK)], header[256];
    shape_text(array->rank, array->shape, shape, sizeof shape);
    int written = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                           types[array->type].code, shape);
    size_t length = (SHORT_PREAMBLE + (size_t)written + 1 + 63) / 64 * 64 - SHORT_PREAMBLE;
    memset(header + written, ' ', length - (size_t)written);
    header[length - 1] = '\n';
    const unsigned char preamble[4] = {1, 0, (unsigned char)length, (unsigned char)(length >> 8)};
    TRY(file_open_writer(host, path, writer));
    file_write(writer, magic, MAGIC);
    file_write(writer, preamble, sizeof preamble);
    file_write(writer, header, length);
    return HASHATTN_OK;
}

hashattn_status npy_write(struct host *host, const char *path, const struct npy *array)
{
    size_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count = size_product(count, array->shape[i]);
    size_t bytes = size_product(count, npy_type_size(array->type));
    FAIL_IF(bytes == SIZE_MAX, host, HASHATTN_INVALID, "%s: the array is too large", path);
    struct file_writer writer;
    TRY(npy_begin(host, path, array, &writer));
    file_write(&writer, array->data, bytes);
    return file_commit(host, &writer);
}
