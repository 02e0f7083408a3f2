/* Comma-separated values: every rule of RFC 4180, records across blocks, and every refusal with its line.
   Bugs planted and caught: two quotes kept as two; a line break inside quotes that ends the record; the line
   of a record counted by records; the carriage return kept in the last field; a last record without its line
   feed lost, or one too many after it; the last empty field lost; an open quote accepted; text after a
   closing quote accepted; the largest record one byte smaller, or without a largest number of fields; a byte
   order mark kept.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "support/folder.h"

/* Writes the records as "a|b;c|d;" with the lines on which they begin in front: "1:a|b;2:c|d;". */
static hashattn_status shown(struct host *host, struct csv *csv, char *text)
{
    *text = '\0';
    for (;;) {
        TRY(csv_next(host, csv));
        if (csv->count == 0)
            return HASHATTN_OK;
        text += sprintf(text, "%zu:", csv->line);
        for (size_t i = 0; i < csv->count; i++)
            text +=
                sprintf(text, "%s%.*s", i == 0 ? "" : "|", (int)csv->fields[i].size, csv->fields[i].bytes);
        text += sprintf(text, ";");
    }
}

static void records_follow_the_rules(void **state)
{
    struct folder *folder = *state;
    static const char *const cases[][2] = {
        {"", ""},
        {"a", "1:a;"},
        {"a,b\nc,d\n", "1:a|b;2:c|d;"},
        {"a,b\r\nc,d\r\n", "1:a|b;2:c|d;"},
        {"a,b\nc,d", "1:a|b;2:c|d;"},
        {"a,", "1:a|;"},
        {",\n,", "1:|;2:|;"},
        {"\n\nx\n", "1:;2:;3:x;"},
        {"\"a\",\"b\"\n", "1:a|b;"},
        {"\"\",\"\"\"\",\"a\"\"b\"\n", "1:|\"|a\"b;"},
        {"\"a,b\",\"c\nd\r\ne\"\nx,y\n", "1:a,b|c\nd\r\ne;4:x|y;"},
        {"a b , c\td\n", "1:a b | c\td;"},
        {"\"\"", "1:;"},
        {"\xef\xbb\xbf\"a\",b\n", "1:a|b;"},
        {"a,\xef\xbb\xbf\n", "1:a|\xef\xbb\xbf;"},
        {"\"x\"\r\n\"y\"", "1:x;2:y;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200], path[200];
        struct csv csv = csv_of(cases[i][0], strlen(cases[i][0]));
        check_status(&folder->host, shown(&folder->host, &csv, text), HASHATTN_OK, NULL);
        assert_string_equal(text, cases[i][1]);
        csv_close(&folder->host, &csv);
        folder_put_text(folder, "x.csv", cases[i][0]);
        snprintf(path, sizeof path, "%s/x.csv", folder->path);
        check_status(&folder->host, csv_open(&folder->host, path, FILE_TYPED, &csv), HASHATTN_OK, NULL);
        check_status(&folder->host, shown(&folder->host, &csv, text), HASHATTN_OK, NULL);
        assert_string_equal(text, cases[i][1]);
        csv_close(&folder->host, &csv);
    }
}

static void damage_is_refused_by_line(void **state)
{
    struct folder *folder = *state;
    static const char *const cases[][2] = {
        {"a,b\nc,\"d\ne\n", "line 2: the quote that opens here is not closed"},
        {"a\n\"b\n\n\"\",c", "line 2: the quote that opens here is not closed"},
        {"a,\"", "line 1: the quote that opens here is not closed"},
        {"\"a\nb\",\"c", "line 2: the quote that opens here is not closed"},
        {"a\nb\"c\n", "line 2: a quote inside a field without quotes"},
        {"a\n\"b\"c\n", "line 2: after the closing quote of a field, a comma or the end"},
        {"\"a\nb\" ,c\n", "line 2: after the closing quote"},
        {"a\nb\rc\n", "line 2: a carriage return without a line feed"},
        {"a\nb\r", "line 2: a carriage return without a line feed"},
        {"a,\r\r\n", "line 1: a carriage return without a line feed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        struct csv csv = csv_of(cases[i][0], strlen(cases[i][0]));
        check_status(&folder->host, shown(&folder->host, &csv, text), HASHATTN_BAD_FILE, cases[i][1]);
        csv_close(&folder->host, &csv);
    }
    struct csv csv;
    check_status(&folder->host, csv_open(&folder->host, "/nowhere/x.csv", FILE_TYPED, &csv),
                 HASHATTN_BAD_FILE, "/nowhere/x.csv: cannot open");
}

/* A field longer than a block, quotes at the border of blocks, and the lines after it. */
static void records_span_blocks(void **state)
{
    struct folder *folder = *state;
    for (size_t length = LINE_BLOCK - 4; length <= LINE_BLOCK + 4; length++) {
        char path[200], *text = malloc(length + 40), *at = text;
        *at++ = '"';
        memset(at, '\n', length);
        at += length;
        at += sprintf(at, "\"\"\",x\ny,z\n");
        folder_put(folder, "x.csv", text, (size_t)(at - text));
        free(text);
        snprintf(path, sizeof path, "%s/x.csv", folder->path);
        struct csv csv;
        check_status(&folder->host, csv_open(&folder->host, path, FILE_TYPED, &csv), HASHATTN_OK, NULL);
        check_status(&folder->host, csv_next(&folder->host, &csv), HASHATTN_OK, NULL);
        assert_int_equal(csv.count, 2);
        assert_int_equal(csv.fields[0].size, length + 1);
        assert_int_equal(csv.fields[0].bytes[length], '"');
        check_status(&folder->host, csv_next(&folder->host, &csv), HASHATTN_OK, NULL);
        assert_int_equal(csv.line, length + 2);
        assert_true(csv.count == 2 && piece_is(csv.fields[0], "y") && piece_is(csv.fields[1], "z"));
        check_status(&folder->host, csv_next(&folder->host, &csv), HASHATTN_OK, NULL);
        assert_int_equal(csv.count, 0);
        csv_close(&folder->host, &csv);
    }
}

static void a_record_has_a_largest_size(void **state)
{
    struct folder *folder = *state;
    char *text = malloc(CSV_LARGEST + 10);
    memset(text, 'a', CSV_LARGEST + 10);
    text[0] = '\n';
    text[1] = '"';
    for (size_t more = 0; more < 2; more++) {
        struct csv csv = csv_of(text, CSV_LARGEST + 3 + more);
        text[CSV_LARGEST + 2 + more] = '"';
        check_status(&folder->host, csv_next(&folder->host, &csv), HASHATTN_OK, NULL);
        check_status(&folder->host, csv_next(&folder->host, &csv), more ? HASHATTN_BAD_FILE : HASHATTN_OK,
                     "line 2: the record that begins here has more than 67108864 bytes; is a quote not "
                     "closed?");
        assert_true(more == 1 || csv.fields[0].size == CSV_LARGEST);
        csv_close(&folder->host, &csv);
        text[CSV_LARGEST + 2 + more] = 'a';
    }
    free(text);
}

static void a_record_has_a_largest_number_of_fields(void **state)
{
    struct folder *folder = *state;
    char *text = malloc(CSV_FIELDS + 1);
    memset(text, ',', CSV_FIELDS + 1);
    for (size_t commas = CSV_FIELDS - 1; commas <= CSV_FIELDS; commas++) {
        struct csv csv = csv_of(text, commas);
        bool fits = commas < CSV_FIELDS;
        check_status(&folder->host, csv_next(&folder->host, &csv), fits ? HASHATTN_OK : HASHATTN_BAD_FILE,
                     "line 1: the record that begins here has more than 65536 fields");
        assert_true(!fits || csv.count == CSV_FIELDS);
        csv_close(&folder->host, &csv);
    }
    free(text);
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    char path[200];
    folder_put_text(folder, "x.csv", "a,b,c\n\"d\nd\",e,f\n1,2,3");
    snprintf(path, sizeof path, "%s/x.csv", folder->path);
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct csv csv;
        char text[100];
        failing_host_init(&failing, n);
        hashattn_status status = csv_open(&failing.host, path, FILE_TYPED, &csv);
        if (status == HASHATTN_OK) {
            status = shown(&failing.host, &csv, text);
            csv_close(&failing.host, &csv);
        }
        done = status == HASHATTN_OK;
        assert_true(done || status == HASHATTN_NO_MEMORY);
        assert_int_equal(failing.outstanding, 0);
        assert_true(n < 30 && (!done || n > 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_follow_the_rules, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(damage_is_refused_by_line, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(records_span_blocks, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_record_has_a_largest_size, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_record_has_a_largest_number_of_fields, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
