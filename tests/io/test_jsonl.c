/* One object per line, and line numbers in messages. Bugs tried and caught: blank lines not counted in line
   numbers; an array accepted as an object; its tree leaked; a bad line ending the reading.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/jsonl.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static long outstanding;

static void *counted_malloc(size_t size)
{
    outstanding++;
    return malloc(size);
}

static void counted_free(void *block)
{
    outstanding -= block != NULL;
    free(block);
}

static void objects_come_line_by_line(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    json_set_alloc_funcs(counted_malloc, counted_free);
    static const char text[] = "\xef\xbb\xbf{\"n\": 1}\r\n\n \t\r\n{\"n\": 2}\n[3]\n{\"n\": 4\n\n{\"n\": 5}";
    struct lines lines = lines_open(text, sizeof text - 1);
    struct json *object;
    int64_t n;
    static const struct {
        int64_t n;
        const char *message;
    } want[] = {{1, NULL},
                {2, NULL},
                {0, "line 5: 'the top level' is an array"},
                {0, "line 6: byte 7 of 7"},
                {5, NULL}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        hashattn_status status = jsonl_next(&host, &lines, &object);
        check_status(&host, status, want[i].message == NULL ? HASHATTN_OK : HASHATTN_BAD_FILE,
                     want[i].message);
        if (status != HASHATTN_OK) {
            assert_null(object);
            continue;
        }
        check_status(&host, json_get_int(&host, object, "n", 0, 9, &n), HASHATTN_OK, NULL);
        assert_int_equal(n, want[i].n);
        json_free(object);
    }
    for (int i = 0; i < 2; i++) {
        check_status(&host, jsonl_next(&host, &lines, &object), HASHATTN_OK, NULL);
        assert_null(object);
    }
    assert_int_equal(lines.number, 8);
    assert_int_equal(outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_come_line_by_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
