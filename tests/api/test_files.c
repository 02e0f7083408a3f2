/* Files of arbitrary bytes through the public header; tests/base/test_file_writer.c tests the writer itself.
   Planted and caught: a file that appears before commit; a full disk not reported by write; memory leaked by
   drop; a temporary file left by remove_unfinished.
   SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/api_context.h"
#include "support/folder.h"

static void path_in(const struct folder *folder, char path[100])
{
    snprintf(path, 100, "%s/text", folder->path);
}

static void check_text(const struct folder *folder, const char *want)
{
    size_t size;
    char *text = folder_get(folder, "text", &size);
    assert_string_equal(text, want);
    assert_int_equal(size, strlen(want));
    free(text);
    assert_int_equal(folder_temporaries(folder->path), 0);
}

static void a_file_is_there_when_it_is_complete(void **state)
{
    struct folder *folder = *state;
    struct failing_host counting;
    failing_host_init(&counting, -1);
    hashattn_context *context = context_with(1, &counting);
    hashattn_file *file;
    char path[100];
    path_in(folder, path);
    check_ok(context, hashattn_file_begin(context, path, &file));
    check_ok(context, hashattn_file_write(file, "one ", 4));
    check_ok(context, hashattn_file_write(file, NULL, 0));
    assert_int_equal(access(path, F_OK), -1);
    check_ok(context, hashattn_file_write(file, "two", 3));
    check_ok(context, hashattn_file_commit(file));
    check_text(folder, "one two");
    check_ok(context, hashattn_file_begin(context, path, &file));
    check_ok(context, hashattn_file_write(file, "three", 5));
    hashattn_file_drop(file);
    hashattn_file_drop(NULL);
    check_text(folder, "one two");
    hashattn_context_free(context);
    assert_int_equal(counting.outstanding, 0);
}

static void what_is_under_way_can_be_removed(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_file *file;
    hashattn_npy_writer *array;
    char path[100];
    path_in(folder, path);
    hashattn_context_remove_unfinished(NULL);
    hashattn_context_remove_unfinished(context);
    check_ok(context, hashattn_file_begin(context, path, &file));
    check_ok(context, hashattn_npy_begin(context, path, 0, NULL, &array));
    assert_int_equal(folder_temporaries(folder->path), 2);
    hashattn_context_remove_unfinished(context);
    assert_int_equal(folder_temporaries(folder->path), 0);
    check_call(context, hashattn_file_commit(file), HASHATTN_NO_DISK, "text: cannot write");
    hashattn_npy_drop(array);
    assert_int_equal(access(path, F_OK), -1);
    hashattn_context_free(context);
}

static void a_full_disk_is_told(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_file *file;
    char path[100], much[1 << 16] = {0};
    struct rlimit before, none;
    path_in(folder, path);
    check_ok(context, hashattn_file_begin(context, path, &file));
    getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 0;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    hashattn_status written = hashattn_file_write(file, much, sizeof much);
    hashattn_status committed = hashattn_file_commit(file);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(written, HASHATTN_NO_DISK);
    check_call(context, committed, HASHATTN_NO_DISK, "text: cannot write: File too large");
    assert_int_equal(access(path, F_OK), -1);
    hashattn_context_free(context);
}

static void arguments_are_checked(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_file *file;
    char path[100];
    path_in(folder, path);
    assert_int_equal(hashattn_file_begin(NULL, path, &file), HASHATTN_INVALID);
    check_call(context, hashattn_file_begin(context, NULL, &file), HASHATTN_INVALID, "path is NULL");
    check_call(context, hashattn_file_begin(context, path, NULL), HASHATTN_INVALID, "file is NULL");
    check_call(context, hashattn_file_begin(context, "/nowhere/text", &file), HASHATTN_NO_DISK,
               "/nowhere/text: cannot write: No such file");
    assert_null(file);
    assert_int_equal(hashattn_file_write(NULL, "x", 1), HASHATTN_INVALID);
    assert_int_equal(hashattn_file_commit(NULL), HASHATTN_INVALID);
    check_ok(context, hashattn_file_begin(context, path, &file));
    check_call(context, hashattn_file_write(file, NULL, 1), HASHATTN_INVALID, "bytes is NULL");
    hashattn_file_drop(file);
    hashattn_context_free(context);
}

static hashattn_status write_one(hashattn_context *context, void *user)
{
    hashattn_file *file;
    hashattn_status status = hashattn_file_begin(context, user, &file);
    return status == HASHATTN_OK ? hashattn_file_commit(file) : status;
}

static void every_failing_allocation_is_survived(void **state)
{
    struct folder *folder = *state;
    char path[100];
    path_in(folder, path);
    check_every_failing_allocation(write_one, path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_file_is_there_when_it_is_complete),
        IN_FOLDER(what_is_under_way_can_be_removed),
        IN_FOLDER(a_full_disk_is_told),
        IN_FOLDER(arguments_are_checked),
        IN_FOLDER(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
