/* Writing to standard output, "-" or a path of it: what arrives there, and that a full device is reported
   once and not again by the next writer. Covers: file_writer.c. Bugs planted and caught: the stream left
   empty; one writer's error kept for the next; stdout closed; the file behind /dev/stdout replaced; a
   write to a descriptor that only reads.
   SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_writer.h"
#include "support/folder.h"

/* Writes "one 2\n" to `name` while descriptor 1 is `file`. */
static hashattn_status write_as(struct host *host, const char *name, int file)
{
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    dup2(file, STDOUT_FILENO);
    struct file_writer writer;
    hashattn_status status = file_open_writer(host, name, &writer);
    if (status == HASHATTN_OK) {
        file_write(&writer, "one ", 4);
        file_print(&writer, "%d\n", 2);
        status = file_commit(host, &writer);
    }
    int failed = ferror(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    assert_int_equal(failed, 0);
    return status;
}

static hashattn_status write_to(struct host *host, int file)
{
    return write_as(host, "-", file);
}

static void what_is_written_arrives(void **state)
{
    struct folder *folder = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/out", folder->path);
    for (int times = 1; times <= 2; times++) { /* stdout stays open */
        int file = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
        assert_true(file >= 0);
        hashattn_status status = write_to(&folder->host, file);
        close(file);
        check_status(&folder->host, status, HASHATTN_OK, NULL);
        size_t size;
        char *text = folder_get(folder, "out", &size);
        assert_string_equal(text, times == 1 ? "one 2\n" : "one 2\none 2\n");
        free(text);
    }
}

/* What was in the file stays, and what its descriptor writes later follows. */
static void its_paths_are_written_in_place(void **state)
{
    struct folder *folder = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/out", folder->path);
    const char *const names[] = {"/dev/stdout", "/dev/fd/1", path};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (access(names[i], F_OK) != 0 && i < 2) {
            print_message("SKIPPED: a path of standard output (no %s)\n", names[i]);
            continue;
        }
        folder_put_text(folder, "out", "before\n");
        int file = open(path, O_WRONLY | O_APPEND);
        assert_true(file >= 0);
        check_status(&folder->host, write_as(&folder->host, names[i], file), HASHATTN_OK, NULL);
        assert_int_equal(write(file, "after\n", 6), 6);
        close(file);
        size_t size;
        char *text = folder_get(folder, "out", &size);
        assert_string_equal(text, "before\none 2\nafter\n");
        free(text);
    }
}

/* As when the tool holds a closed descriptor 1 with /dev/null, and an output goes to /dev/null. */
static void a_descriptor_that_only_reads_is_no_output(void **state)
{
    struct folder *folder = *state;
    int null = open("/dev/null", O_RDONLY);
    assert_true(null >= 0);
    check_status(&folder->host, write_as(&folder->host, "/dev/null", null), HASHATTN_OK, NULL);
    close(null);
}

static void a_full_device_is_said_once(void **state)
{
    struct folder *folder = *state;
    int full = open("/dev/full", O_WRONLY), null = open("/dev/null", O_WRONLY);
    if (full < 0) {
        print_message("SKIPPED: a full standard output (no /dev/full)\n");
        return;
    }
    hashattn_status first = write_to(&folder->host, full);
    check_status(&folder->host, first, HASHATTN_NO_DISK, "No space left");
    hashattn_status second = write_to(&folder->host, null);
    check_status(&folder->host, second, HASHATTN_OK, NULL);
    close(full);
    close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_arrives, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(its_paths_are_written_in_place, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_descriptor_that_only_reads_is_no_output, folder_enter,
                                        folder_leave),
        cmocka_unit_test_setup_teardown(a_full_device_is_said_once, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
