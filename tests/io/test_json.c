/* Parsing with limits, key paths in messages, exact numbers, and running out of memory. Bugs tried and
   caught: duplicate keys accepted; depth counted inside strings; depth off by one; %.15g; range check
   exclusive; an escaped quote ending a string in the depth scan; integers refused as reals; elements found by
   a number followed by letters; a value leaked when adding it fails; sorted and insertion order swapped; text
   read, written or passed as an option in the caller's locale; an escaped backslash before u0000 taken for
   NUL; lines counted to the end of the text; a number of 2^64 refused though nobody reads it, read as a text,
   written as a text, or read as INT64_MAX; bytes of messages counted in the copy with long numbers in quotes;
   NUL accepted beside a long number; an empty file told in the words of a parser.
   Covers: long_numbers.c
   SPDX-License-Identifier: Apache-2.0 */
#include "io/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "support/check.h"
#include "support/locales.h"

static struct json *parse(struct host *host, const char *text)
{
    struct json *root;
    check_status(host, json_parse(host, text, strlen(text), &root), HASHATTN_OK, NULL);
    return root;
}

static void check_refused(const char *text, const char *part)
{
    struct host host;
    host_init(&host);
    struct json *root;
    check_status(&host, json_parse(&host, text, strlen(text), &root), HASHATTN_BAD_FILE, part);
    assert_null(root);
}

static void values_are_found_by_path(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct json *root =
        parse(&host, "{\"a\": {\"b\": [1, 2.5, \"x\", true, null, {\"c\": -7}]}, \"e\": \"\"}");
    int64_t whole;
    double real;
    bool flag;
    const char *text;
    const struct json *found;
    check_status(&host, json_get_int(&host, root, "a.b.0", 1, 1, &whole), HASHATTN_OK, NULL);
    assert_int_equal(whole, 1);
    check_status(&host, json_get_real(&host, root, "a.b.0", &real), HASHATTN_OK, NULL);
    assert_true(real == 1);
    check_status(&host, json_get_real(&host, root, "a.b.1", &real), HASHATTN_OK, NULL);
    assert_true(real == 2.5);
    check_status(&host, json_get_real(&host, root, "a.b.4", &real), HASHATTN_OK, NULL);
    assert_true(isnan(real));
    check_status(&host, json_get_string(&host, root, "a.b.2", &text), HASHATTN_OK, NULL);
    assert_string_equal(text, "x");
    check_status(&host, json_get_string(&host, root, "e", &text), HASHATTN_OK, NULL);
    assert_string_equal(text, "");
    check_status(&host, json_get_bool(&host, root, "a.b.3", &flag), HASHATTN_OK, NULL);
    assert_true(flag);
    check_status(&host, json_get_int(&host, root, "a.b.5.c", -10, 10, &whole), HASHATTN_OK, NULL);
    assert_int_equal(whole, -7);
    check_status(&host, json_get_array(&host, root, "a.b", &found), HASHATTN_OK, NULL);
    assert_int_equal(json_count(found), 6);
    assert_string_equal(json_text(json_element(found, 2)), "x");
    assert_null(json_text(json_element(found, 1)));
    assert_null(json_text(NULL));
    assert_null(json_element(found, 6));
    check_status(&host, json_get_object(&host, root, "", &found), HASHATTN_OK, NULL);
    assert_ptr_equal(found, root);
    assert_int_equal(json_count(found), 2);
    assert_null(json_find(root, "a.b.1x"));
    assert_true(json_is_absent(root, "a.b.1x") && json_is_absent(root, "a.b.4"));
    assert_false(json_is_absent(root, "a"));
    assert_null(json_find(root, "a.b."
                                "99999999999999999999"));
    assert_null(json_find(root, "a.x.b"));
    assert_null(json_find(root, "e.x"));
    json_free(root);
    json_free(NULL);
    root = parse(&host, "{\"a\": {\"b\": 1}, \"a.b\": 2}");
    assert_ptr_equal(json_at(root, "a.b"), json_next(json_first(root)).value);
    assert_ptr_not_equal(json_at(root, "a.b"), json_find(root, "a.b"));
    assert_null(json_at(root, "b"));
    assert_null(json_at(NULL, "b"));
    json_free(root);
}

static void what_does_not_fit_is_named_with_its_path(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct json *root = parse(&host, "{\"training\": {\"steps\": 12, \"rate\": \"x\"}}");
    int64_t whole;
    double real;
    bool flag;
    const char *text;
    const struct json *found;
    check_status(&host, json_get_int(&host, root, "training.steps", 1, 11, &whole), HASHATTN_BAD_FILE,
                 "'training.steps' is 12, allowed are 1 to 11");
    check_status(&host, json_get_int(&host, root, "training.steps", 13, 20, &whole), HASHATTN_BAD_FILE,
                 "allowed are 13 to 20");
    check_status(&host, json_get_int(&host, root, "training.step", 1, 11, &whole), HASHATTN_BAD_FILE,
                 "'training.step' is missing, a whole number is needed");
    check_status(&host, json_get_int(&host, root, "training.rate", 1, 11, &whole), HASHATTN_BAD_FILE,
                 "'training.rate' is a string, a whole number is needed");
    check_status(&host, json_get_real(&host, root, "training.rate", &real), HASHATTN_BAD_FILE, "a string");
    check_status(&host, json_get_bool(&host, root, "training.steps", &flag), HASHATTN_BAD_FILE,
                 "a whole number, true or false is needed");
    check_status(&host, json_get_string(&host, root, "training", &text), HASHATTN_BAD_FILE,
                 "an object, a string is needed");
    check_status(&host, json_get_object(&host, root, "training.steps", &found), HASHATTN_BAD_FILE,
                 "an object is needed");
    check_status(&host, json_get_array(&host, root, "", &found), HASHATTN_BAD_FILE, "an array is needed");
    whole = 7;
    check_status(&host, json_get_int(&host, root, "training.steps", 13, 20, &whole), HASHATTN_BAD_FILE, NULL);
    assert_int_equal(whole, 0);
    check_status(&host, json_get_int(&host, root, "training.steps", 12, 12, &whole), HASHATTN_OK, NULL);
    char number[JSON_MAX_NUMBER] = "old";
    check_status(&host, json_get_text(&host, root, "training", number, &text), HASHATTN_BAD_FILE,
                 "'training' is an object, a string, a number, true or false is needed");
    assert_string_equal(text, "");
    json_free(root);
    root = parse(&host, "[7]");
    assert_ptr_equal(json_find(root, "000000000000000000"), json_element(root, 0));
    assert_null(json_find(root, "0000000000000000000")); /* more than 18 digits */
    assert_null(json_find(root, "/"));
    assert_null(json_find(root, ":"));
    json_free(root);
}

static void hostile_text_is_refused(void **state)
{
    (void)state;
    check_refused("", "byte 0 of 0");
    check_refused("{\"a\": 1, \"a\": 2}", "duplicate");
    check_refused("{\"a\": 1} x", "byte 10 of 10");
    check_refused("{9223372036854775808: 1}", "big integer");
    check_refused("[9223372036854775808, 1e999]", "byte 27 of 28: real number overflow");
    check_refused("[123456789012345678901234567890}", "byte 32 of 32");
    check_refused("[[123456789012345678901234567890],\n 09]", "line 2, byte 37 of 39");
    check_refused("[9223372036854775808, \"\\u0000\"]", "byte 23 of 31: \\u0000 is not allowed");
    check_refused("[9223372036854775808, {\"a\\u0000\": 1}]", "byte 25 of 37: \\u0000 is not allowed");
    check_refused("[9223372036854775808, 00000000000000000000009]", "byte");
    check_refused("[9223372036854775808x]", "byte");
    check_refused("{\"a\": 1e999}", "overflow");
    check_refused("{\"a\": NaN}", "byte");
    check_refused("{\"a\": \"\\u0000\"}", "byte 7 of 15: \\u0000 is not allowed: no text may contain NUL");
    check_refused("{\"a\": 1,\n \"b\\\\u0000\": [\"\\t\\u0000\"]}", "line 2, byte 26 of 35: \\u0000 is not");
    check_refused("{\n\"a\\u0000\": 1\n}", "line 2, byte 4 of 16: \\u0000 is not allowed");
    check_refused("{\n\"a\": 1\n]", "line 3, byte 10 of 10: '}' expected near ']'");
    check_refused("{\"a\": \"\xff\"}", "0xff");
    check_refused("{\"a\": \"\xed\xa0\x80\"}", "byte");
    check_refused("{\"a\"", "byte");
    struct host host;
    host_init(&host);
    struct json *root;
    check_status(&host, json_parse(&host, "{}\0 ", 4, &root), HASHATTN_BAD_FILE, "byte");
    check_refused("]][", "byte 1 of 3"); /* not too deep */
    check_status(&host, json_parse(&host, "{\"a\": \"\\u0001\"}", 15, &root), HASHATTN_OK, NULL);
    json_free(root);
    check_status(&host, json_parse(&host, "12", 1, &root), HASHATTN_OK, NULL);
    json_free(root);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char text[200];
    for (int depth = JSON_MAX_DEPTH - 1; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        if (depth <= JSON_MAX_DEPTH)
            json_free(parse(&host, text));
        else
            check_refused(text, "byte 32: nested deeper than 32 levels");
    }
    /* Brackets inside strings are text, also after an escaped quote. */
    memset(text, '[', sizeof text);
    memcpy(text, "\"\\\"", 3);
    strcpy(text + 150, "\"");
    json_free(parse(&host, text));
    /* Closed brackets do not count. */
    strcpy(text, "[");
    for (int i = 0; i < 50; i++)
        strcat(text, i == 0 ? "[]" : ",[]");
    strcat(text, "]");
    json_free(parse(&host, text));
    /* Half a megabyte of brackets is refused without recursion. */
    size_t size = 1 << 19;
    char *many = malloc(size + 1);
    memset(many, '[', size);
    many[size] = '\0';
    check_refused(many, "nested deeper");
    free(many);
}

/* Bytes that the parser holds now and held at most, with what malloc adds to a block. */
static size_t held, held_most;
enum { BLOCK_HEAD = 16 };

static void *held_malloc(size_t size)
{
    size_t *block = malloc(size + BLOCK_HEAD);
    if (block == NULL)
        return NULL;
    *block = (size + 8 + 15) / 16 * 16;
    held += *block;
    held_most = held > held_most ? held : held_most;
    return (char *)block + BLOCK_HEAD;
}

static void held_free(void *pointer)
{
    if (pointer == NULL)
        return;
    size_t *block = (size_t *)(void *)((char *)pointer - BLOCK_HEAD);
    held -= *block;
    free(block);
}

static size_t put_many(char *text, size_t size, const char *format)
{
    size_t used = 0;
    for (unsigned i = 0; used + 64 < size; i++)
        used += (size_t)snprintf(text + used, 64, format, i % 10, i);
    return used - 1; /* without the last comma */
}

/* A text whose values take too much memory is refused at the byte where they do, before any is made: what the
   parser would hold there is near the limit, whatever the values are. */
static void memory_is_limited(void **state)
{
    (void)state;
    static const struct {
        char first, last;
        const char *format; /* of each value, given a digit and a number of its own */
    } kinds[] = {{'[', ']', "[],"},         {'[', ']', "{},"},           {'[', ']', "%u,"},
                 {'[', ']', "\"\","},       {'[', ']', "[[[%u]]],"},     {'[', ']', "[\"a%u\", \"b\"],"},
                 {'{', '}', "\"%u%u\":1,"}, {'{', '}', "\"k%u%u\":[],"}, {'[', ']', "{\"a\": {\"b\": %u}},"}};
    enum { MEASURED = 1 << 20, LARGE = JSON_MAX_BYTES };
    char *text = malloc(LARGE + 1);
    struct host host;
    struct json *root;
    host_init(&host);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t used = 1 + put_many(text + 1, MEASURED, kinds[i].format), at = 0;
        text[0] = kinds[i].first;
        text[used++] = kinds[i].last;
        json_set_alloc_funcs(held_malloc, held_free);
        held = held_most = 0;
        check_status(&host, json_parse(&host, text, used, &root), HASHATTN_OK, NULL);
        json_free(root);
        json_set_alloc_funcs(malloc, free);
        double rate = (double)held_most / (double)used;
        used = 1 + put_many(text + 1, LARGE, kinds[i].format);
        check_status(&host, json_parse(&host, text, used, &root), HASHATTN_BAD_FILE,
                     "the values up to here take more than 512 MiB of memory, which is the limit");
        assert_null(root);
        assert_int_equal(sscanf(host.message, "byte %zu", &at), 1);
        double share = rate * (double)at / JSON_MAX_MEMORY;
        print_message("%-24s %5.1f bytes of memory per byte, refused at byte %zu, %.2f of the limit\n",
                      kinds[i].format, rate, at, share);
        assert_true(share > 0.5 && share < 1.4);
    }
    free(text);
}

static void numbers_come_back_to_the_bit(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const double reals[] = {0.1,      1.0 / 3, 1e300, 5e-324, -0.0,       1.7976931348623157e308,
                                   1e22 + 7, 3.0,     1e-5,  0x1p63, 1 + 0x1p-52};
    static const int64_t wholes[] = {0, -1, INT64_MAX, INT64_MIN, 9007199254740993};
    struct json *root;
    check_status(&host, json_new_array(&host, &root), HASHATTN_OK, NULL);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        check_status(&host, json_put_real(&host, root, NULL, reals[i]), HASHATTN_OK, NULL);
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        check_status(&host, json_put_int(&host, root, NULL, wholes[i]), HASHATTN_OK, NULL);
    check_status(&host, json_put_real(&host, root, NULL, NAN), HASHATTN_OK, NULL);
    check_status(&host, json_put_real(&host, root, NULL, -INFINITY), HASHATTN_OK, NULL);
    char *text;
    size_t size;
    check_status(&host, json_to_text(&host, root, JSON_LINE, &text, &size), HASHATTN_OK, NULL);
    assert_int_equal(strlen(text), size);
    assert_null(strchr(text, '\n'));
    json_free(root);
    root = parse(&host, text);
    memory_free(&host, text);
    size_t at = 0;
    char path[20];
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value;
        snprintf(path, sizeof path, "%zu", at++);
        check_status(&host, json_get_real(&host, root, path, &value), HASHATTN_OK, NULL);
        check_same_bits(&value, &reals[i], sizeof value, path);
    }
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        int64_t value;
        snprintf(path, sizeof path, "%zu", at++);
        check_status(&host, json_get_int(&host, root, path, INT64_MIN, INT64_MAX, &value), HASHATTN_OK, NULL);
        assert_true(value == wholes[i]);
    }
    for (int i = 0; i < 2; i++) {
        double value;
        snprintf(path, sizeof path, "%zu", at++);
        check_status(&host, json_get_real(&host, root, path, &value), HASHATTN_OK, NULL);
        assert_true(isnan(value));
    }
    json_free(root);
}

/* Each value is read as what it is, and written as it was. */
static void whole_numbers_may_be_long(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const char text[] = "{\"id\": 18446744073709551615, \"all\": [-9223372036854775808, "
                               "1000000000000000019884624838656, -9223372036854775809, \"\\\\u0000\", "
                               "\"12345678901234567890\", \"9\\\\\", 9223372036854775807, 5], \"x\": 2.5}";
    struct json *root = parse(&host, text);
    char number[JSON_MAX_NUMBER], *written;
    const char *word;
    int64_t whole;
    double real;
    size_t size;
    check_status(&host, json_get_int(&host, root, "id", 0, INT64_MAX, &whole), HASHATTN_BAD_FILE,
                 "'id' is 18446744073709551615, allowed are 0 to 9223372036854775807");
    check_status(&host, json_get_int(&host, root, "all.2", INT64_MIN, 9, &whole), HASHATTN_BAD_FILE,
                 "'all.2' is -9223372036854775809, allowed are -9223372036854775808 to 9");
    check_status(&host, json_get_int(&host, root, "all.0", INT64_MIN, 0, &whole), HASHATTN_OK, NULL);
    assert_true(whole == INT64_MIN);
    check_status(&host, json_get_int(&host, root, "all.6", 0, INT64_MAX, &whole), HASHATTN_OK, NULL);
    assert_true(whole == INT64_MAX);
    check_status(&host, json_get_int(&host, root, "all.7", 0, 9, &whole), HASHATTN_OK, NULL);
    assert_int_equal(whole, 5);
    check_status(&host, json_get_real(&host, root, "all.1", &real), HASHATTN_OK, NULL);
    assert_true(real == 1e30 && json_number(json_find(root, "all.1")) == 1e30);
    check_status(&host, json_get_text(&host, root, "all.1", number, &word), HASHATTN_OK, NULL);
    assert_string_equal(word, "1000000000000000019884624838656");
    check_status(&host, json_get_string(&host, root, "id", &word), HASHATTN_BAD_FILE,
                 "'id' is a whole number, a string is needed");
    assert_null(json_text(json_find(root, "id")));
    assert_string_equal(json_text(json_find(root, "all.3")), "\\u0000");
    assert_true(isnan(json_number(json_find(root, "all.4"))));
    check_status(&host, json_to_text(&host, root, JSON_LINE, &written, &size), HASHATTN_OK, NULL);
    assert_string_equal(written, text);
    assert_int_equal(size, sizeof text - 1);
    memory_free(&host, written);
    json_free(root);
    /* A number beyond the largest real number does no harm either. */
    char large[420] = "[1, ";
    memset(large + 4, '7', 400);
    strcpy(large + 404, "]");
    root = parse(&host, large);
    check_status(&host, json_get_real(&host, root, "1", &real), HASHATTN_BAD_FILE,
                 "'1' is a number of 400 digits");
    assert_true(isnan(json_number(json_find(root, "1"))));
    json_free(root);
    struct failing_host failing;
    failing_host_init(&failing, 0);
    check_status(&failing.host, json_parse(&failing.host, large, 405, &root), HASHATTN_NO_MEMORY,
                 "a JSON text");
}

static void scalars_are_text_for_options(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct json *root = parse(&host, "[\"word\", -5, 0.1, true, false, null]");
    static const char *const want[] = {"word", "-5", "0.1", "true", "false"};
    char path[] = "0", number[JSON_MAX_NUMBER];
    const char *text;
    for (int i = 0; i < 5; i++, path[0]++) {
        check_status(&host, json_get_text(&host, root, path, number, &text), HASHATTN_OK, NULL);
        assert_string_equal(text, want[i]);
    }
    check_status(&host, json_get_text(&host, root, path, number, &text), HASHATTN_BAD_FILE, "'5' is null");
    json_free(root);
}

static void numbers_have_a_dot_in_every_locale(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const char text[] = "{\"a\": 0.625, \"b\": [-2.5e-300, 1e22]}";
    char number[JSON_MAX_NUMBER], *written;
    const char *option;
    double value;
    size_t size;
    for (const char *const *locale = foreign_locales; *locale != NULL; locale++) {
        locales_set(*locale);
        struct json *root = parse(&host, text);
        check_status(&host, json_get_real(&host, root, "b.0", &value), HASHATTN_OK, NULL);
        assert_true(value == -2.5e-300);
        check_status(&host, json_get_text(&host, root, "a", number, &option), HASHATTN_OK, NULL);
        assert_string_equal(option, "0.625");
        check_status(&host, json_to_text(&host, root, JSON_LINE, &written, &size), HASHATTN_OK, NULL);
        assert_string_equal(written, "{\"a\": 0.625, \"b\": [-2.5e-300, 1e22]}");
        memory_free(&host, written);
        json_free(root);
        check_refused("{\"a\": 0,625}", "byte");
        locales_set("C");
    }
}

static struct json *build(struct host *host)
{
    struct json *root = NULL, *inner = NULL, *array = NULL;
    hashattn_status status;
    TRY_DONE(json_new_object(host, &root));
    TRY_DONE(json_put_string(host, root, "z", "q\"\xc3\xa9\n"));
    TRY_DONE(json_put_int(host, root, "b", 3));
    TRY_DONE(json_put_bool(host, root, "a", true));
    TRY_DONE(json_new_object(host, &inner));
    TRY_DONE(json_put_real(host, inner, "x", 0.5));
    status = json_put(host, root, "in", inner);
    inner = NULL;
    TRY_DONE(status);
    TRY_DONE(json_new_array(host, &array));
    TRY_DONE(json_put_bool(host, array, NULL, false));
    status = json_put(host, root, "list", array);
    array = NULL;
    TRY_DONE(status);
    TRY_DONE(json_put_int(host, root, "b", 4));
    return root;
done:
    check_status(host, status, HASHATTN_NO_MEMORY, "no memory");
    json_free(array);
    json_free(inner);
    json_free(root);
    return NULL;
}

static void *no_memory(size_t size)
{
    (void)size;
    return NULL;
}

/* The byte and the depth differ only if something precedes the brackets. */
static void too_deep_is_reported_with_its_byte(void **state)
{
    (void)state;
    char text[64] = "  \n  ";
    memset(text + 5, '[', 40);
    check_refused(text, "byte 37: nested deeper than 32 levels");
    /* Nothing after the text counts. */
    struct host host;
    struct json *root;
    host_init(&host);
    check_status(&host, json_parse(&host, text, 37, &root), HASHATTN_BAD_FILE, "byte 37 of 37: ");
}

static void each_new_value_tells_that_memory_ended(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct json *object = NULL, *array = NULL;
    json_set_alloc_funcs(no_memory, free);
    hashattn_status first = json_new_object(&host, &object), second = json_new_array(&host, &array);
    json_set_alloc_funcs(malloc, free);
    assert_true(first == HASHATTN_NO_MEMORY && second == HASHATTN_NO_MEMORY);
    assert_string_equal(host.message, "no memory for the JSON value '{}'");
    static const char *const keys[] = {NULL, "key"}, *const shown[] = {"'[]'", "'key'"};
    for (int i = 0; i < 2; i++) {
        json_set_alloc_funcs(no_memory, free);
        hashattn_status status = json_put_real(&host, NULL, keys[i], 0.5);
        json_set_alloc_funcs(malloc, free);
        check_status(&host, status, HASHATTN_NO_MEMORY, shown[i]);
    }
    assert_true(object == NULL && array == NULL);
}

static void trees_are_built_and_written(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct json *root = build(&host);
    static const char *const want[] = {
        [JSON_LINE] = "{\"z\": \"q\\\"\xc3\xa9\\n\", \"b\": 4, \"a\": true, \"in\": {\"x\": 0.5}, "
                      "\"list\": [false]}",
        [JSON_SORTED] = "{\"a\": true, \"b\": 4, \"in\": {\"x\": 0.5}, \"list\": [false], "
                        "\"z\": \"q\\\"\xc3\xa9\\n\"}",
        [JSON_PAGE] = "{\n  \"z\": \"q\\\"\xc3\xa9\\n\",\n  \"b\": 4,\n  \"a\": true,\n  \"in\": {\n"
                      "    \"x\": 0.5\n  },\n  \"list\": [\n    false\n  ]\n}"};
    for (int style = JSON_LINE; style <= JSON_SORTED; style++) {
        char *text;
        size_t size;
        check_status(&host, json_to_text(&host, root, style, &text, &size), HASHATTN_OK, NULL);
        assert_string_equal(text, want[style]);
        memory_free(&host, text);
    }
    const char *names[] = {"z", "b", "a", "in", "list"};
    int at = 0;
    for (struct json_member m = json_first(root); m.key != NULL; m = json_next(m), at++) {
        assert_string_equal(m.key, names[at]);
        assert_ptr_equal(m.value, json_find(root, m.key));
    }
    assert_int_equal(at, 5);
    check_status(&host, json_put_string(&host, root, "bad", "a\xff"), HASHATTN_INVALID, "byte 1");
    assert_true(strncmp(host.message, "bad: ", 5) == 0);
    check_status(&host, json_put_int(&host, root, "\xff", 1), HASHATTN_INVALID, "byte 0");
    assert_null(json_find(root, "bad"));
    json_free(root);
}

static void files_are_written_and_read(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char directory[] = "/tmp/test_json.XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/config.json", directory);
    struct json *root = build(&host), *back;
    check_status(&host, json_write_file(&host, path, root), HASHATTN_OK, NULL);
    json_free(root);
    check_status(&host, json_read_file(&host, path, &back), HASHATTN_OK, NULL);
    assert_int_equal(json_count(back), 5);
    json_free(back);
    struct file_writer writer;
    check_status(&host, file_open_writer(&host, path, &writer), HASHATTN_OK, NULL);
    file_print(&writer, "{\"a\": ]");
    check_status(&host, file_commit(&host, &writer), HASHATTN_OK, NULL);
    check_status(&host, json_read_file(&host, path, &back), HASHATTN_BAD_FILE, path);
    check_status(&host, HASHATTN_BAD_FILE, HASHATTN_BAD_FILE, "byte 7 of 7");
    assert_int_equal(truncate(path, 0), 0);
    check_status(&host, json_read_file(&host, path, &back), HASHATTN_BAD_FILE,
                 "config.json: the file is empty");
    assert_null(back);
    /* No block stays, and a write past one is detected. */
    struct failing_host failing;
    failing_host_init(&failing, -1);
    check_status(&failing.host, json_read_file(&failing.host, path, &back), HASHATTN_BAD_FILE, path);
    root = build(&failing.host);
    check_status(&failing.host, json_write_file(&failing.host, path, root), HASHATTN_OK, NULL);
    check_status(&failing.host, json_read_file(&failing.host, path, &back), HASHATTN_OK, NULL);
    json_free(back);
    assert_int_equal(failing.outstanding, 0);
    char *text;
    size_t size;
    check_status(&host, file_read(&host, path, 1000, &text, &size), HASHATTN_OK, NULL);
    assert_true(memcmp(text, "{\n  \"z\"", 7) == 0 && memcmp(text + size - 4, "]\n}\n", 4) == 0);
    memory_free(&host, text);
    check_status(&failing.host, json_write_file(&failing.host, "/nowhere/x.json", root), HASHATTN_NO_DISK,
                 "/nowhere/x.json");
    failing_host_init(&failing, 0);
    check_status(&failing.host, json_to_text(&failing.host, root, JSON_LINE, &text, &size),
                 HASHATTN_NO_MEMORY, "JSON text");
    assert_null(text);
    json_free(root);
    remove(path);
    check_status(&host, json_read_file(&host, path, &back), HASHATTN_BAD_FILE, "No such file");
    assert_null(back);
    rmdir(directory);
}

/* jansson's memory, failing from the n-th block on. */
static long blocks_left, blocks_out;

static void *counted_malloc(size_t size)
{
    if (blocks_left == 0)
        return NULL;
    if (blocks_left > 0)
        blocks_left--;
    void *block = malloc(size);
    blocks_out += block != NULL;
    return block;
}

static void counted_free(void *block)
{
    blocks_out -= block != NULL;
    free(block);
}

static void memory_that_runs_out_is_survived(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    json_set_alloc_funcs(counted_malloc, counted_free);
    static const char text[] = "{\"a\": {\"b\": [1, 2.5, \"a string\", true, null]}, \"c\": \"\\u00e9\"}";
    struct json *root = NULL;
    long n = 0;
    for (;; n++) {
        blocks_left = n;
        hashattn_status status = json_parse(&host, text, sizeof text - 1, &root);
        if (status == HASHATTN_OK)
            break;
        check_status(&host, status, HASHATTN_NO_MEMORY, "no memory");
        assert_int_equal(blocks_out, 0);
    }
    assert_true(n > 10);
    json_free(root);
    assert_int_equal(blocks_out, 0);
    for (n = 0;; n++) {
        blocks_left = n;
        root = build(&host);
        if (root != NULL)
            break;
        assert_int_equal(blocks_out, 0);
    }
    assert_true(n > 10);
    long tree = blocks_out;
    for (n = 0;; n++) {
        blocks_left = n;
        char *dumped;
        size_t size;
        hashattn_status status = json_to_text(&host, root, JSON_PAGE | JSON_SORTED, &dumped, &size);
        assert_int_equal(blocks_out, tree);
        if (status == HASHATTN_OK) {
            memory_free(&host, dumped);
            break;
        }
        check_status(&host, status, HASHATTN_NO_MEMORY, "no memory");
        assert_null(dumped);
    }
    assert_true(n > 2);
    blocks_left = -1;
    /* A value whose key is refused is freed too. */
    check_status(&host, json_put_int(&host, root, "\xff", 1), HASHATTN_INVALID, "byte 0");
    assert_int_equal(blocks_out, tree);
    json_free(root);
    assert_int_equal(blocks_out, 0);
    json_set_alloc_funcs(malloc, free);
}

static void the_library_has_a_version(void **state)
{
    (void)state;
    char text[40];
    unsigned major;
    json_library(text, sizeof text);
    assert_int_equal(sscanf(text, "jansson %u.", &major), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_path),
        cmocka_unit_test(what_does_not_fit_is_named_with_its_path),
        cmocka_unit_test(hostile_text_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(numbers_come_back_to_the_bit),
        cmocka_unit_test(whole_numbers_may_be_long),
        cmocka_unit_test(scalars_are_text_for_options),
        cmocka_unit_test(numbers_have_a_dot_in_every_locale),
        cmocka_unit_test(too_deep_is_reported_with_its_byte),
        cmocka_unit_test(each_new_value_tells_that_memory_ended),
        cmocka_unit_test(trees_are_built_and_written),
        cmocka_unit_test(files_are_written_and_read),
        cmocka_unit_test(memory_that_runs_out_is_survived),
        cmocka_unit_test(the_library_has_a_version),
    };
    locales_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    locales_remove();
    return failed;
}
