/* JSON records through the public header. Planted and caught: a broken line that ends a file; the record kept
   after it was freed; an indented file read by lines; a number given for a string of digits; elements of an
   array left out; a pipe opened although a regular file was demanded.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/api_context.h"
#include "support/folder.h"

static hashattn_records *open_text(const struct folder *folder, hashattn_context *context, const char *text)
{
    char path[100];
    hashattn_records *records;
    folder_put_text(folder, "records", text);
    snprintf(path, sizeof path, "%s/records", folder->path);
    check_ok(context, hashattn_records_open(context, path, 1, &records));
    return records;
}

/* Reads all records; each has its number as "n", and the numbers rise. A failure counts as "!". */
static void check_numbers(const struct folder *folder, hashattn_context *context, const char *text,
                          const char *want)
{
    char got[100] = "";
    hashattn_records *records = open_text(folder, context, text);
    for (const hashattn_value *record = NULL;;) {
        hashattn_status status = hashattn_records_next(records, &record);
        if (status == HASHATTN_OK && record == NULL)
            break;
        if (status != HASHATTN_OK) {
            check_call(context, status, HASHATTN_BAD_FILE, "/records: ");
            assert_null(record);
        }
        snprintf(got + strlen(got), sizeof got - strlen(got), status == HASHATTN_OK ? "%.0f " : "! ",
                 hashattn_value_number(hashattn_value_find(record, "n")));
    }
    const hashattn_value *after = NULL;
    check_ok(context, hashattn_records_next(records, &after)); /* the end stays the end */
    assert_null(after);
    hashattn_records_close(records);
    assert_string_equal(got, want);
}

static void files_hold_one_object_or_lines_of_them(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    check_numbers(folder, context, "{\"n\": 1}", "1 ");
    check_numbers(folder, context, "{\"n\": 1}\n{\"n\": 2}\n\n{\"n\": 3}\n", "1 2 3 ");
    check_numbers(folder, context, "{\n  \"n\": 1,\n  \"m\": {\n    \"n\": 2\n  }\n}\n", "1 ");
    check_numbers(folder, context, "", "");
    check_numbers(folder, context, "\n \n", "");
    check_numbers(folder, context, "{\"n\": 1}\n{\"n\": 2, \"lo", "1 ! ");
    check_numbers(folder, context, "{\"n\": 1}\n{\"n\": 2, \"lo\n{\"n\": 3}\n", "1 ! 3 ");
    check_numbers(folder, context, "\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n", "! 2 3 ");
    check_numbers(folder, context, "[1, 2]", "! ");
    check_numbers(folder, context, "5\n{\"n\": 2}", "! 2 ");
    check_numbers(folder, context, "no JSON\nat all\n{\"n\": 3}", "! ");
    hashattn_context_free(context);
}

static int collect(void *user, const char *key, const hashattn_value *value)
{
    char *text = user, number[HASHATTN_NUMBER_TEXT];
    const char *found = hashattn_value_text(value, number);
    sprintf(text + strlen(text), "%s=%s;", key == NULL ? "" : key, found == NULL ? "" : found);
    return strcmp(key == NULL ? "" : key, "stop") == 0;
}

static void values_are_found_by_path(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_records *records = open_text(folder, context,
                                          "{\"a\": {\"b\": [1, \"2\", {\"c\": 2.5}]}, \"t\": true, \"z\": "
                                          "null, \"s\": \"x\", \"stop\": 0, \"after\": 1}");
    const hashattn_value *record, *list;
    char number[HASHATTN_NUMBER_TEXT], text[200] = "";
    check_ok(context, hashattn_records_next(records, &record));
    assert_true(hashattn_value_number(hashattn_value_find(record, "a.b.0")) == 1);
    assert_true(hashattn_value_number(hashattn_value_find(record, "a.b.2.c")) == 2.5);
    assert_true(isnan(hashattn_value_number(hashattn_value_find(record, "a.b.1"))));
    assert_true(isnan(hashattn_value_number(hashattn_value_find(record, "t"))) &&
                isnan(hashattn_value_number(hashattn_value_find(record, "z"))) &&
                isnan(hashattn_value_number(NULL)));
    assert_string_equal(hashattn_value_text(hashattn_value_find(record, "a.b.1"), number), "2");
    assert_string_equal(hashattn_value_text(hashattn_value_find(record, "a.b.0"), number), "1");
    assert_string_equal(hashattn_value_text(hashattn_value_find(record, "t"), number), "true");
    assert_null(hashattn_value_text(hashattn_value_find(record, "z"), number));
    assert_null(hashattn_value_text(hashattn_value_find(record, "a"), number));
    assert_null(hashattn_value_text(NULL, number));
    assert_null(hashattn_value_find(record, "a.x"));
    assert_null(hashattn_value_find(record, NULL));
    assert_null(hashattn_value_find(NULL, "a"));
    list = hashattn_value_find(record, "a.b");
    assert_int_equal(hashattn_value_count(list), 3);
    assert_int_equal(hashattn_value_count(record), 6);
    assert_int_equal(hashattn_value_count(hashattn_value_find(record, "s")), 0);
    hashattn_value_each(list, collect, text);
    assert_string_equal(text, "=1;=2;=;");
    text[0] = '\0';
    hashattn_value_each(record, collect, text);
    assert_string_equal(text, "a=;t=true;z=;s=x;stop=0;");
    hashattn_value_each(NULL, collect, text);
    hashattn_records_close(records);
    hashattn_records_close(NULL);
    hashattn_context_free(context);
}

static void files_that_cannot_be_read_are_named(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_records *records;
    char path[100];
    snprintf(path, sizeof path, "%s/pipe", folder->path);
    check_call(context, hashattn_records_open(context, path, 1, &records), HASHATTN_BAD_FILE,
               "pipe: cannot open");
    assert_null(records);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_call(context, hashattn_records_open(context, path, 1, &records), HASHATTN_BAD_FILE, "is a pipe");
    folder_remove(folder, "pipe");
    check_call(context, hashattn_records_open(context, NULL, 1, &records), HASHATTN_INVALID, "path is NULL");
    check_call(context, hashattn_records_open(context, path, 1, NULL), HASHATTN_INVALID, "records is NULL");
    assert_int_equal(hashattn_records_open(NULL, path, 1, &records), HASHATTN_INVALID);
    assert_int_equal(hashattn_records_next(NULL, NULL), HASHATTN_INVALID);
    hashattn_context_free(context);
}

static hashattn_status read_all(hashattn_context *context, void *user)
{
    hashattn_records *records;
    const hashattn_value *record;
    hashattn_status status = hashattn_records_open(context, user, 1, &records);
    if (status == HASHATTN_OK)
        status = hashattn_records_next(records, &record);
    hashattn_records_close(records);
    return status;
}

static void memory_that_runs_out_is_survived(void **state)
{
    struct folder *folder = *state;
    char path[100];
    folder_put_text(folder, "records", "{\"n\": 1}\n{\"n\": 2}\n");
    snprintf(path, sizeof path, "%s/records", folder->path);
    check_every_failing_allocation(read_all, path);
}

static void a_run_is_in_training_while_it_is_locked(void **state)
{
    (void)state;
    assert_int_equal(hashattn_run_is_training("/nowhere"), 0);
    assert_int_equal(hashattn_run_is_training(NULL), 0);
}

#define FILED(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILED(files_hold_one_object_or_lines_of_them),
        FILED(values_are_found_by_path),
        FILED(files_that_cannot_be_read_are_named),
        FILED(memory_that_runs_out_is_survived),
        cmocka_unit_test(a_run_is_in_training_while_it_is_locked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
