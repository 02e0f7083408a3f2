/* log.jsonl: records are lines of JSON; trimming removes lines that were cut or belong to unsaved steps. Bugs
   planted and caught: lines after the step kept; the line of the step itself dropped; a cut last line kept; a
   failed record appended as an empty line.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/check.h"

struct fixture {
    struct host host;
    char run[64], path[128];
};

static void fixture_init(struct fixture *fixture)
{
    host_init(&fixture->host);
    strcpy(fixture->run, "/tmp/hashattn_log_XXXXXX");
    assert_non_null(mkdtemp(fixture->run));
    snprintf(fixture->path, sizeof fixture->path, "%s/log.jsonl", fixture->run);
}

static void fixture_free(struct fixture *fixture)
{
    unlink(fixture->path);
    assert_int_equal(rmdir(fixture->run), 0);
}

static void check_log(struct fixture *fixture, const char *want)
{
    char *text;
    size_t size;
    check_status(&fixture->host, file_read(&fixture->host, fixture->path, 1 << 20, &text, &size), HASHATTN_OK,
                 NULL);
    assert_string_equal(text, want);
    memory_free(&fixture->host, text);
}

static void records_are_lines(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    for (int64_t step = 10; step <= 20; step += 10) {
        struct run_record record = run_record_new(&fixture.host, step);
        run_record_real(&record, "loss", 0.1 * (double)step);
        run_record_real(&record, "valid_loss", NAN);
        run_record_int(&record, "tokens", 5);
        run_record_text(&record, "warning", "cannot \"write\"\n");
        check_status(&fixture.host, run_record_append(&record, fixture.run), HASHATTN_OK, NULL);
    }
    char *text;
    size_t size;
    check_status(&fixture.host, file_read(&fixture.host, fixture.path, 1 << 20, &text, &size), HASHATTN_OK,
                 NULL);
    struct json *line;
    char *second = strchr(text, '\n') + 1;
    assert_string_equal(strchr(second, '\n'), "\n");
    check_status(&fixture.host, json_parse(&fixture.host, second, strlen(second) - 1, &line), HASHATTN_OK,
                 NULL);
    int64_t step;
    double loss, valid;
    const char *warning;
    check_status(&fixture.host, json_get_int(&fixture.host, line, "step", 20, 20, &step), HASHATTN_OK, NULL);
    check_status(&fixture.host, json_get_real(&fixture.host, line, "loss", &loss), HASHATTN_OK, NULL);
    check_status(&fixture.host, json_get_real(&fixture.host, line, "valid_loss", &valid), HASHATTN_OK, NULL);
    check_status(&fixture.host, json_get_string(&fixture.host, line, "warning", &warning), HASHATTN_OK, NULL);
    assert_true(loss == 0.1 * 20 && isnan(valid));
    assert_string_equal(warning, "cannot \"write\"\n");
    json_free(line);
    memory_free(&fixture.host, text);
    fixture_free(&fixture);
}

static void trimming_drops_what_will_be_done_again(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    check_status(&fixture.host, run_log_trim(&fixture.host, fixture.run, 5), HASHATTN_OK, NULL);
    assert_false(file_exists(fixture.path));
    FILE *file = fopen(fixture.path, "w");
    assert_non_null(file);
    fputs(
        "{\"step\": 0, \"isa\": \"ref\"}\n{\"step\": 5, \"loss\": 1}\n{\"step\": 6}\nno json\n{\"loss\": 1}\n"
        "{\"step\": 4}\n{\"step\": 5, \"lo\n{\"step\": 3} ",
        file);
    fclose(file);
    check_status(&fixture.host, run_log_trim(&fixture.host, fixture.run, 5), HASHATTN_OK, NULL);
    check_log(&fixture, "{\"step\": 0, \"isa\": \"ref\"}\n{\"step\": 5, \"loss\": 1}\n{\"step\": 4}\n");
    check_status(&fixture.host, run_log_trim(&fixture.host, fixture.run, -1), HASHATTN_OK, NULL);
    check_log(&fixture, "");
    fixture_free(&fixture);
}

static void a_failed_record_is_not_written(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct run_record record = run_record_new(&fixture.host, 1);
    run_record_text(&record, "word", "\xff\xfe");
    run_record_int(&record, "after", 1);
    check_status(&fixture.host, run_record_append(&record, fixture.run), HASHATTN_INVALID, "UTF-8");
    assert_false(file_exists(fixture.path));
    record = run_record_new(&fixture.host, 1);
    check_status(&fixture.host, run_record_append(&record, "/nowhere/at/all"), HASHATTN_NO_DISK, "/nowhere");
    fixture_free(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_lines),
        cmocka_unit_test(trimming_drops_what_will_be_done_again),
        cmocka_unit_test(a_failed_record_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
