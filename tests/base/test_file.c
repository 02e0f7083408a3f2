/* Reads and atomic writes: what fails must say so, and must leave the old file.
   Bugs tried and caught: rename before the write is checked (full disk), writing PATH in place (kill), no
   unlink after a failure, first error overwritten by a later one, limit off by one, a cut log line glued to
   the next, a device or pipe replaced by a file, NUL after the end missing, a link replaced instead of its
   file. SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/check.h"

/* Every test works in a directory of its own, which teardown removes. */
struct place {
    struct host host;
    char directory[64], path[96], temporary[100];
};

static int enter(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    host_init(&place->host);
    strcpy(place->directory, "/tmp/test_file.XXXXXX");
    if (mkdtemp(place->directory) == NULL)
        return -1;
    snprintf(place->path, sizeof place->path, "%s/file", place->directory);
    snprintf(place->temporary, sizeof place->temporary, "%s.tmp", place->path);
    *state = place;
    return 0;
}

static int leave(void **state)
{
    struct place *place = *state;
    chmod(place->directory, 0700);
    DIR *directory = opendir(place->directory);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", place->directory, entry->d_name);
        remove(path);
    }
    closedir(directory);
    int failed = rmdir(place->directory);
    free(place);
    return failed;
}

static void put(struct place *place, const char *text)
{
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_write(&writer, text, strlen(text));
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
}

static void check_holds(struct place *place, const char *want)
{
    char *bytes;
    size_t size;
    check_status(&place->host, file_read(&place->host, place->path, 1 << 20, &bytes, &size), HASHATTN_OK,
                 NULL);
    assert_int_equal(size, strlen(want));
    assert_string_equal(bytes, want); /* and so a NUL stands after the end */
    memory_free(&place->host, bytes);
    assert_false(file_exists(place->temporary));
}

static void what_was_written_is_read(void **state)
{
    struct place *place = *state;
    put(place, "one");
    check_holds(place, "one");
    put(place, "");
    check_holds(place, "");
}

static void nothing_shows_before_commit_and_nothing_stays_after_abandon(void **state)
{
    struct place *place = *state;
    put(place, "old");
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_print(&writer, "%d %s", 17, "words");
    file_write(&writer, NULL, 0);
    assert_true(file_exists(place->temporary));
    file_abandon(&writer);
    file_abandon(&writer);
    check_holds(place, "old");
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_print(&writer, "%d %s", 17, "words");
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
    file_abandon(&writer);
    check_holds(place, "17 words");
}

static void a_private_file_stays_private(void **state)
{
    struct place *place = *state;
    put(place, "old");
    assert_int_equal(chmod(place->path, 0600), 0);
    put(place, "new");
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

static void a_link_stays_a_link(void **state)
{
    struct place *place = *state;
    put(place, "old");
    struct place at_link = *place;
    snprintf(at_link.path, sizeof at_link.path, "%s/link", place->directory);
    assert_int_equal(symlink("file", at_link.path), 0);
    put(&at_link, "new");
    struct stat facts;
    assert_int_equal(lstat(at_link.path, &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    check_holds(place, "new");
}

static void sizes_at_and_over_the_limit(void **state)
{
    struct place *place = *state;
    /* Around the first block too: a file that fills it exactly is read to its end. */
    static const size_t sizes[] = {1, 2, 100, 65535, 65536, 65537, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct file_writer writer;
        check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
        for (size_t k = 0; k < sizes[i]; k++)
            file_write(&writer, &(char){(char)k}, 1);
        check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
        char *bytes, number[32];
        size_t size;
        check_status(&place->host, file_read(&place->host, place->path, sizes[i], &bytes, &size), HASHATTN_OK,
                     NULL);
        assert_int_equal(size, sizes[i]);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(bytes[k], (char)k);
        memory_free(&place->host, bytes);
        snprintf(number, sizeof number, "%zu bytes", sizes[i] - 1);
        check_status(&place->host, file_read(&place->host, place->path, sizes[i] - 1, &bytes, &size),
                     HASHATTN_BAD_FILE, number);
        check_status(&place->host, HASHATTN_BAD_FILE, HASHATTN_BAD_FILE, place->path);
        assert_null(bytes);
    }
}

static void a_pipe_is_read_to_its_end(void **state)
{
    struct place *place = *state;
    for (size_t want = 0; want <= 300000; want = want * 3 + 50000) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            for (size_t i = 0; i < want; i++)
                if (write(ends[1], "abcdefg" + i % 7, 1) != 1)
                    _exit(1);
            _exit(0);
        }
        close(ends[1]);
        int kept = dup(STDIN_FILENO);
        dup2(ends[0], STDIN_FILENO);
        char *bytes;
        size_t size;
        hashattn_status status = file_read(&place->host, "-", want, &bytes, &size);
        dup2(kept, STDIN_FILENO);
        close(kept);
        close(ends[0]);
        waitpid(child, NULL, 0);
        check_status(&place->host, status, HASHATTN_OK, NULL);
        assert_int_equal(size, want);
        for (size_t i = 0; i < want; i++)
            assert_int_equal(bytes[i], "abcdefg"[i % 7]);
        memory_free(&place->host, bytes);
    }
}

static void an_endless_file_ends_at_the_limit(void **state)
{
    struct place *place = *state;
    char *bytes;
    size_t size;
    check_status(&place->host, file_read(&place->host, "/dev/zero", 1000000, &bytes, &size),
                 HASHATTN_BAD_FILE, "1000000 bytes");
}

static void what_cannot_be_read_is_named(void **state)
{
    struct place *place = *state;
    char *bytes;
    size_t size;
    check_status(&place->host, file_read(&place->host, place->path, 100, &bytes, &size), HASHATTN_BAD_FILE,
                 "No such file");
    check_status(&place->host, HASHATTN_BAD_FILE, HASHATTN_BAD_FILE, place->path);
    check_status(&place->host, file_read(&place->host, place->directory, 100, &bytes, &size),
                 HASHATTN_BAD_FILE, "directory");
    /* A path that is longer than the message leaves room for the reason. */
    char longest[2000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    check_status(&place->host, file_read(&place->host, longest, 100, &bytes, &size), HASHATTN_BAD_FILE,
                 "name too long");
}

static void what_cannot_be_written_is_named(void **state)
{
    struct place *place = *state;
    struct file_writer writer;
    char path[4200];
    snprintf(path, sizeof path, "%s/absent/file", place->directory);
    check_status(&place->host, file_open_writer(&place->host, path, &writer), HASHATTN_NO_DISK,
                 "No such file");
    check_status(&place->host, HASHATTN_NO_DISK, HASHATTN_NO_DISK, "absent");
    check_status(&place->host, file_open_writer(&place->host, place->directory, &writer), HASHATTN_NO_DISK,
                 "directory");
    check_status(&place->host, file_open_writer(&place->host, "", &writer), HASHATTN_NO_DISK, "No such file");
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    check_status(&place->host, file_open_writer(&place->host, path, &writer), HASHATTN_NO_DISK,
                 "name too long");
    file_abandon(&writer); /* harmless after a failed open */
}

/* Runs `work` as a user who owns nothing (root may write anywhere); its exit code. */
static int as_nobody(void (*work)(struct place *), struct place *place)
{
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        work(place);
        _exit(0);
    }
    int code;
    waitpid(child, &code, 0);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static void write_where_forbidden(struct place *place)
{
    struct file_writer writer;
    if (file_open_writer(&place->host, place->path, &writer) != HASHATTN_NO_DISK ||
        strstr(place->host.message, "Permission denied") == NULL)
        _exit(1);
    if (file_append_line(&place->host, place->path, "line") != HASHATTN_NO_DISK)
        _exit(2);
    char path[200];
    snprintf(path, sizeof path, "%s/inner", place->directory);
    if (file_make_directory(&place->host, path, false) != HASHATTN_NO_DISK)
        _exit(3);
}

static void an_unwritable_directory_is_refused(void **state)
{
    struct place *place = *state;
    assert_int_equal(chmod(place->directory, 0555), 0);
    assert_int_equal(as_nobody(write_where_forbidden, place), 0);
    chmod(place->directory, 0700);
}

/* Writes until the file size limit of the process stops it, as a full disk would. */
static void a_full_disk_leaves_the_old_file(void **state)
{
    struct place *place = *state;
    put(place, "old");
    struct rlimit before, small = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    /* What fails: a write in the middle (big), or only the flush at commit (one that fits the buffer of the
       stream, past a limit of 1 byte). */
    for (int big = 0; big < 2; big++) {
        small.rlim_cur = big ? 100000 : 1;
        struct file_writer writer;
        check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
        setrlimit(RLIMIT_FSIZE, &small);
        for (int i = 0; i < (big ? 50000 : 10); i++)
            file_print(&writer, "%d words\n", i);
        assert_int_equal(writer.error, big ? EFBIG : 0);
        hashattn_status status = file_commit(&place->host, &writer);
        setrlimit(RLIMIT_FSIZE, &before);
        check_status(&place->host, status, HASHATTN_NO_DISK, "File too large");
        check_status(&place->host, status, HASHATTN_NO_DISK, place->path);
        check_holds(place, "old");
    }
    signal(SIGXFSZ, SIG_DFL);
}

static void the_first_error_is_the_one_reported(void **state)
{
    struct place *place = *state;
    put(place, "old");
    struct rlimit before, none;
    getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 0;
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_write(&writer, "x", 1); /* stays in the stream's buffer, and fails at the flush */
    writer.error = EDQUOT;       /* as if a write had met it */
    file_write(&writer, "x", 1);
    file_print(&writer, "%s", "y");
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    hashattn_status status = file_commit(&place->host, &writer);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    check_status(&place->host, status, HASHATTN_NO_DISK, "quota");
    check_holds(place, "old");
}

static void a_pipe_is_written_and_not_replaced(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkfifo(place->path, 0600), 0);
    int reader = open(place->path, O_RDONLY | O_NONBLOCK);
    put(place, "words");
    char text[10] = "";
    assert_int_equal(read(reader, text, sizeof text), 5);
    assert_string_equal(text, "words");
    close(reader);
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_true(S_ISFIFO(facts.st_mode));
    assert_false(file_exists(place->temporary));
}

/* Our own /dev/full: a bug here replaces what it is given. */
static void a_full_device_says_so(void **state)
{
    struct place *place = *state;
    int device = mknod(place->path, S_IFCHR | 0600, makedev(1, 7)) == 0 ? open(place->path, O_WRONLY) : -1;
    if (device < 0) {
        print_message("SKIPPED: a_full_device_says_so: no device can be made here\n");
        skip();
    }
    close(device);
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_write(&writer, "x", 1);
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_NO_DISK, "No space left");
    check_status(&place->host, HASHATTN_NO_DISK, HASHATTN_NO_DISK, place->path);
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_true(S_ISCHR(facts.st_mode));
    check_status(&place->host, file_append_line(&place->host, place->path, "x"), HASHATTN_NO_DISK,
                 "No space");
}

/* A child replaces the file over and over with a thousand equal letters, and is killed at a random moment. */
static void a_kill_leaves_a_whole_file(void **state)
{
    struct place *place = *state;
    enum { KILLS = 50, SIZE = 100000 };
    put(place, "a");
    int replaced = 0;
    for (int kill_number = 0; kill_number < KILLS; kill_number++) {
        pid_t child = fork();
        if (child == 0) {
            for (unsigned round = 0;; round++) {
                struct file_writer writer;
                if (file_open_writer(&place->host, place->path, &writer) != HASHATTN_OK)
                    _exit(1);
                char letter[1000];
                memset(letter, (int)('a' + round % 26), sizeof letter);
                for (int i = 0; i < SIZE / 1000; i++)
                    file_write(&writer, letter, sizeof letter);
                if (file_commit(&place->host, &writer) != HASHATTN_OK)
                    _exit(2);
            }
        }
        struct timespec wait = {.tv_nsec = (kill_number * 7919 % 100) * 100000L}; /* 0 to 10 ms */
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        int code;
        waitpid(child, &code, 0);
        assert_true(WIFSIGNALED(code));
        char *bytes;
        size_t size;
        check_status(&place->host, file_read(&place->host, place->path, 1 << 20, &bytes, &size), HASHATTN_OK,
                     NULL);
        assert_true(size == SIZE || size == 1);
        for (size_t i = 1; i < size; i++)
            assert_int_equal(bytes[i], bytes[0]);
        replaced += size == SIZE;
        memory_free(&place->host, bytes);
    }
    assert_true(replaced > 0);
    unlink(place->temporary);
}

static void lines_are_appended_whole(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    check_status(host, file_append_line(host, place->path, "one"), HASHATTN_OK, NULL);
    check_status(host, file_append_line(host, place->path, ""), HASHATTN_OK, NULL);
    check_holds(place, "one\n\n");
    put(place, "one\ntw"); /* as a crash leaves it */
    check_status(host, file_append_line(host, place->path, "three"), HASHATTN_OK, NULL);
    check_holds(place, "one\ntw\nthree\n");
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 16; /* the line begins to fit */
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    hashattn_status status = file_append_line(host, place->path, "four and more");
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    check_status(host, status, HASHATTN_NO_DISK, place->path);
    check_holds(place, "one\ntw\nthree\n");
}

static void directories_are_made_once(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    check_status(host, file_make_directory(host, place->path, false), HASHATTN_OK, NULL);
    check_status(host, file_make_directory(host, place->path, false), HASHATTN_INVALID, "File exists");
    check_status(host, file_make_directory(host, place->path, true), HASHATTN_OK, NULL);
    rmdir(place->path);
    put(place, "a file");
    check_status(host, file_make_directory(host, place->path, true), HASHATTN_INVALID, "File exists");
}

static void paths_are_joined(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char text[9];
    check_status(host, file_join(host, "run", "file", text, sizeof text), HASHATTN_OK, NULL);
    assert_string_equal(text, "run/file");
    check_status(host, file_join(host, "run/", "file", text, sizeof text), HASHATTN_OK, NULL);
    assert_string_equal(text, "run/file");
    check_status(host, file_join(host, "", "file", text, sizeof text), HASHATTN_OK, NULL);
    assert_string_equal(text, "file");
    check_status(host, file_join(host, "runs", "file", text, sizeof text), HASHATTN_INVALID, "9 bytes");
}

/* Every n-th allocation failing, through a pipe so that the buffer grows. */
static void failing_allocations_are_survived(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        char *bytes;
        size_t size;
        hashattn_status status = file_read(&failing.host, "/dev/zero", 200000, &bytes, &size);
        assert_null(bytes);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_BAD_FILE) { /* it got as far as the limit */
            assert_int_equal(n, failing.calls);
            assert_true(n >= 3);
            return;
        }
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, "/dev/zero: no memory");
    }
}

#define PLACED(test) cmocka_unit_test_setup_teardown(test, enter, leave)

static void a_directory_is_removed_with_the_files_named(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char directory[] = "/tmp/hashattn_remove_XXXXXX", path[100];
    static const char *const names[] = {"one", "absent", NULL};
    static const char *const written[] = {"one", "other"};
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 2; i++) {
        struct file_writer writer;
        check_status(&host, file_join(&host, directory, written[i], path, sizeof path), HASHATTN_OK, NULL);
        check_status(&host, file_open_writer(&host, path, &writer), HASHATTN_OK, NULL);
        check_status(&host, file_commit(&host, &writer), HASHATTN_OK, NULL);
    }
    host_fail(&host, HASHATTN_FAILED, "what is told");
    file_remove_directory(&host, directory, names);
    assert_true(file_exists(directory) && file_exists(path)); /* it holds something else */
    snprintf(path, sizeof path, "%s/one", directory);
    assert_false(file_exists(path));
    file_remove_directory(&host, directory, (const char *const[]){"other", NULL});
    assert_false(file_exists(directory));
    assert_string_equal(host.message, "what is told");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACED(what_was_written_is_read),
        PLACED(nothing_shows_before_commit_and_nothing_stays_after_abandon),
        PLACED(a_private_file_stays_private),
        PLACED(a_link_stays_a_link),
        PLACED(sizes_at_and_over_the_limit),
        PLACED(a_pipe_is_read_to_its_end),
        PLACED(an_endless_file_ends_at_the_limit),
        PLACED(what_cannot_be_read_is_named),
        PLACED(what_cannot_be_written_is_named),
        PLACED(an_unwritable_directory_is_refused),
        PLACED(a_full_disk_leaves_the_old_file),
        PLACED(the_first_error_is_the_one_reported),
        PLACED(a_pipe_is_written_and_not_replaced),
        PLACED(a_full_device_says_so),
        PLACED(a_kill_leaves_a_whole_file),
        PLACED(lines_are_appended_whole),
        PLACED(directories_are_made_once),
        PLACED(paths_are_joined),
        cmocka_unit_test(failing_allocations_are_survived),
        cmocka_unit_test(a_directory_is_removed_with_the_files_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
