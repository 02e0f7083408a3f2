/* Reading, appending and directories: failures are reported. Bugs tried and caught: limit off by one; a cut
   log line joined to the next; no NUL after the end; waiting for a pipe; reading a device as a file;
   following a log's link; reading a whole file for its start; bytes of a read that failed midway, or their
   count; a pipe or "-" opened although a folder has it; a wait for a pipe that a signal does not end; "..",
   an absolute name or a link out of the folder accepted, or "..a" and a folder with a name that continues
   that of the root refused; a device accepted as recorded data; a regular file, log, lock or directory that a
   signal keeps from being opened.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_writer.h"
#include "base/lock.h"
#include "base/memory.h"
#include "support/place.h"

static void sizes_at_and_over_the_limit(void **state)
{
    struct place *place = *state;
    /* Includes sizes around the first block: a file that fills it exactly is read to its end. */
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

/* A process may start without standard input: then a file gets descriptor 0. */
static void descriptor_0_is_a_descriptor(void **state)
{
    struct place *place = *state;
    hashattn_status status[5];
    char *bytes[3] = {NULL};
    size_t size, count;
    place_put(place, "text");
    int kept = dup(STDIN_FILENO), file;
    close(STDIN_FILENO);
    status[0] = file_open_regular(&place->host, place->path, &file, &size);
    close(file);
    status[1] = file_read(&place->host, place->path, 100, &bytes[0], &size);
    status[2] = file_read_regular(&place->host, place->path, 100, &bytes[1], &size);
    status[3] = file_read_start(&place->host, place->path, 2, &bytes[2], &count, &size);
    status[4] = file_append_line(&place->host, place->path, "line");
    int next = dup(kept);
    dup2(kept, STDIN_FILENO);
    close(kept);
    assert_true(file == 0 && next == 0); /* and all are closed */
    for (int i = 0; i < 5; i++)
        check_status(&place->host, status[i], HASHATTN_OK, NULL);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(bytes[i], i < 2 ? "text" : "te");
        memory_free(&place->host, bytes[i]);
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
                if (write(ends[1], &"abcdefg"[i % 7], 1) != 1)
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
    /* A path longer than the message leaves room for the reason. */
    char longest[2000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    check_status(&place->host, file_read(&place->host, longest, 100, &bytes, &size), HASHATTN_BAD_FILE,
                 "name too long");
}

static void only_regular_files_are_read_as_such(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char *bytes, pipe[200], link[200], want[300];
    size_t size;
    snprintf(pipe, sizeof pipe, "%s/pipe", place->directory);
    snprintf(link, sizeof link, "%s/link", place->directory);
    snprintf(want, sizeof want, "%s: is a pipe, a regular file is needed", pipe);
    place_put(place, "words");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("file", link), 0);
    alarm(20); /* opening the pipe would wait for a writer forever */
    check_status(host, file_read_regular(host, pipe, 100, &bytes, &size), HASHATTN_BAD_FILE, want);
    assert_null(bytes);
    alarm(0);
    check_status(host, file_read_regular(host, "/dev/zero", 100, &bytes, &size), HASHATTN_BAD_FILE,
                 "/dev/zero: is a device");
    check_status(host, file_read_regular(host, place->directory, 100, &bytes, &size), HASHATTN_BAD_FILE,
                 "is a directory");
    check_status(host, file_read_regular(host, "-", 100, &bytes, &size), HASHATTN_BAD_FILE,
                 "-: cannot open: No such file");
    check_status(host, file_read_regular(host, place->path, 4, &bytes, &size), HASHATTN_BAD_FILE, "4 bytes");
    check_status(host, file_read_regular(host, link, 5, &bytes, &size), HASHATTN_OK, NULL);
    assert_int_equal(size, 5);
    assert_string_equal(bytes, "words");
    memory_free(host, bytes);
}

static void the_source_decides_what_may_be_opened(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char pipe[200];
    int file;
    snprintf(pipe, sizeof pipe, "%s/pipe", place->directory);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    alarm(20);
    check_status(host, file_open(host, pipe, FILE_FOUND, &file), HASHATTN_BAD_FILE,
                 "is a pipe, a regular file is needed");
    assert_int_equal(file, -1);
    alarm(0);
    check_status(host, file_open(host, "/dev/zero", FILE_FOUND, &file), HASHATTN_BAD_FILE, "is a device");
    check_status(host, file_open(host, "-", FILE_FOUND, &file), HASHATTN_BAD_FILE, "No such file");
    for (int i = 0; i < 3; i++) {
        place_put(place, "words");
        check_status(host,
                     file_open(host,
                               i == 0   ? "/dev/zero"
                               : i == 1 ? "-"
                                        : place->path,
                               i < 2 ? FILE_TYPED : FILE_FOUND, &file),
                     HASHATTN_OK, NULL);
        assert_true(file > STDERR_FILENO);
        close(file);
    }
    check_status(host, file_check_recorded(host, place->path), HASHATTN_OK, NULL);
    check_status(host, file_check_recorded(host, place->directory), HASHATTN_OK, NULL);
    check_status(host, file_check_recorded(host, pipe), HASHATTN_BAD_FILE, "pipe: is a pipe");
    check_status(host, file_check_recorded(host, "/dev/zero"), HASHATTN_BAD_FILE, "/dev/zero: is a device");
    check_status(host, file_check_recorded(host, "-"), HASHATTN_BAD_FILE, "is '-'");
    check_status(host, file_check_recorded(host, "/nowhere"), HASHATTN_BAD_FILE, "No such file");
}

static void do_nothing(int number)
{
    (void)number;
}

/* The child waits in open (no writer), or in read (a writer that is silent), until an alarm. */
static void a_signal_ends_a_wait_for_a_pipe(void **state)
{
    struct place *place = *state;
    char pipe[200], *bytes;
    size_t size;
    snprintf(pipe, sizeof pipe, "%s/pipe", place->directory);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    for (int silent = 0; silent < 2; silent++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct sigaction action = {.sa_handler = do_nothing};
            struct itimerval timer = {.it_interval = {0, 100000}, .it_value = {0, 100000}};
            int writer = silent ? open(pipe, O_RDWR) : -1;
            sigaction(SIGALRM, &action, NULL);
            setitimer(ITIMER_REAL, &timer, NULL);
            hashattn_status status = file_read(&place->host, pipe, 100, &bytes, &size);
            _exit(status == HASHATTN_INTERRUPTED && bytes == NULL && (writer >= 0) == silent &&
                          strstr(place->host.message, silent ? "cannot read" : "cannot open") != NULL
                      ? 0
                      : 1);
        }
        int status, waited = 0;
        while (waitpid(child, &status, WNOHANG) == 0 && waited++ < 2000)
            usleep(10000);
        if (waited >= 2000)
            kill(child, SIGKILL);
        assert_true(waited < 2000 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
    (void)number;
    alarms++;
}

/* The handler has SA_RESTART, and the writer comes after the first signals. */
static void a_wait_for_a_pipe_goes_on_if_signals_restart_it(void **state)
{
    struct place *place = *state;
    char pipe[200], *bytes;
    size_t size;
    snprintf(pipe, sizeof pipe, "%s/pipe", place->directory);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sigaction action = {.sa_handler = count_alarm, .sa_flags = SA_RESTART};
        struct itimerval timer = {.it_interval = {0, 20000}, .it_value = {0, 20000}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &timer, NULL);
        hashattn_status status = file_read(&place->host, pipe, 100, &bytes, &size);
        _exit(status == HASHATTN_OK && size == 5 && strcmp(bytes, "words") == 0 && alarms > 0 ? 0 : 1);
    }
    usleep(2000000);
    int writer = open(pipe, O_WRONLY), status;
    assert_int_equal(write(writer, "words", 5), 5);
    close(writer);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In place of the C library's: the next open_interruptions calls are interrupted. */
static int open_interruptions, opens;

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    opens++;
    if (open_interruptions > 0) {
        open_interruptions--;
        errno = EINTR;
        return -1;
    }
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Only a network disk interrupts the opening of a regular file. */
static void a_signal_does_not_end_the_opening_of_a_regular_file(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char *bytes, path[200];
    size_t size;
    struct file_writer writer;
    struct lock lock;
    place_put(place, "words");
    snprintf(path, sizeof path, "%s/lock", place->directory);
    for (int times = 1; times <= 2; times++) {
        open_interruptions = times;
        check_status(host, file_read_regular(host, place->path, 100, &bytes, &size), HASHATTN_OK, NULL);
        assert_string_equal(bytes, "words");
        memory_free(host, bytes);
        open_interruptions = times;
        check_status(host, lock_take(host, path, &lock), HASHATTN_OK, NULL);
        open_interruptions = times;
        assert_true(lock_is_held(path));
        lock_release(&lock);
        open_interruptions = times;
        check_status(host, file_open_writer(host, place->path, &writer), HASHATTN_OK, NULL);
        file_write(&writer, "words", 5);
        open_interruptions = times, opens = 0;
        check_status(host, file_commit(host, &writer), HASHATTN_OK, NULL);
        assert_int_equal(opens, times + 1); /* the directory, which is then flushed */
    }
    open_interruptions = 1;
    check_status(host, file_append_line(host, place->path, "more"), HASHATTN_OK, NULL);
    place_check(place, "words\nmore\n");
    open_interruptions = 1; /* what the user typed may be a pipe */
    check_status(host, file_read(host, place->path, 100, &bytes, &size), HASHATTN_INTERRUPTED, "cannot open");
    assert_int_equal(unlink(path), 0);
}

static void names_in_files_stay_inside(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char root[200], path[4096], more[300];
    static const char *const refused[] = {"",     "/etc/passwd", "..", "../file", "a/../../file",
                                          "a/..", "out/file"};
    static const char *const accepted[] = {"file", "a/file", "..a", "a../b", "a/..b", "in/file", "not/there"};
    snprintf(root, sizeof root, "%s/root", place->directory);
    snprintf(more, sizeof more, "%s-more", root);
    assert_int_equal(mkdir(root, 0700), 0);
    assert_int_equal(mkdir(more, 0700), 0);
    for (int i = 0; i < 4; i++) {
        static const char *const made[] = {"root/a", "root/out", "root/in", "root-more/file"};
        snprintf(path, sizeof path, "%s/%s", place->directory, made[i]);
        if (i == 1 || i == 2)
            assert_int_equal(symlink(i == 1 ? "../root-more" : "a", path), 0);
        else
            assert_int_equal(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_status(host, file_join_inside(host, root, refused[i], path, sizeof path), HASHATTN_BAD_FILE,
                     i < 6 ? "a path inside the directory is needed"
                           : "a link there leads out of the directory");
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        check_status(host, file_join_inside(host, root, accepted[i], path, sizeof path), HASHATTN_OK, NULL);
        snprintf(more, sizeof more, "%s/%s", root, accepted[i]);
        assert_string_equal(path, more);
    }
    check_status(host, file_join_inside(host, "/", "etc", path, sizeof path), HASHATTN_OK, NULL);
    for (int i = 0; i < 5; i++) {
        static const char *const made[] = {"root/a", "root/out", "root/in", "root-more/file", "root"};
        snprintf(path, sizeof path, "%s/%s", place->directory, made[i]);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/root-more", place->directory);
    remove(path);
}

static void the_start_of_a_file_is_read(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char *bytes;
    size_t count, size;
    place_put(place, "0123456789");
    for (size_t most = 0; most <= 12; most++) {
        check_status(host, file_read_start(host, place->path, most, &bytes, &count, &size), HASHATTN_OK,
                     NULL);
        assert_int_equal(size, 10);
        assert_int_equal(count, most < 10 ? most : 10);
        assert_int_equal(strlen(bytes), count); /* a NUL follows the end */
        assert_memory_equal(bytes, "0123456789", count);
        memory_free(host, bytes);
    }
    check_status(host, file_read_start(host, "/dev/zero", 1, &bytes, &count, &size), HASHATTN_BAD_FILE,
                 "is a device");
    assert_null(bytes);
    struct failing_host failing;
    failing_host_init(&failing, 0);
    check_status(&failing.host, file_read_start(&failing.host, place->path, 3, &bytes, &count, &size),
                 HASHATTN_NO_MEMORY, "file: no memory");
    assert_null(bytes);
    assert_int_equal(failing.outstanding, 0);
    /* Memory depends on the bytes requested, not on the size of the file. */
    assert_int_equal(truncate(place->path, (off_t)1 << 26), 0);
    failing_host_init(&failing, -1);
    check_status(&failing.host, file_read_start(&failing.host, place->path, 3, &bytes, &count, &size),
                 HASHATTN_OK, NULL);
    assert_true(size == (size_t)1 << 26 && count == 3 && failing.largest <= 4);
    memory_free(&failing.host, bytes);
}

/* A disk that fails: calls of read give 3 bytes each, the one interrupted_at fails with EINTR and that
   failing_at with EIO; 0: the whole file, without failure. */
static int reads, interrupted_at, failing_at;

ssize_t read(int file, void *bytes, size_t size)
{
    reads++;
    if (failing_at == 0)
        return syscall(SYS_read, file, bytes, size);
    errno = reads == interrupted_at ? EINTR : EIO;
    return reads == interrupted_at || reads >= failing_at
               ? -1
               : syscall(SYS_read, file, bytes, size < 3 ? size : 3);
}

static void a_disk_that_fails_midway_leaves_nothing(void **state)
{
    struct place *place = *state;
    char *bytes;
    size_t size, count;
    char reason[80];
    snprintf(reason, sizeof reason, "file: cannot read: %s", strerror(EIO));
    place_put(place, "0123456789");
    for (int at = 1; at <= 6; at++) {
        struct failing_host host;
        failing_host_init(&host, -1);
        /* 10 bytes take four reads, the end of the file a fifth, and the interrupted one is repeated. */
        reads = 0, interrupted_at = 2, failing_at = at == 2 ? 3 : at;
        hashattn_status status = file_read_start(&host.host, place->path, 100, &bytes, &count, &size);
        failing_at = 0;
        check_status(&host.host, status, at < 6 ? HASHATTN_BAD_FILE : HASHATTN_OK, at < 6 ? reason : NULL);
        assert_int_equal(count, at < 6 ? 0 : 10);
        assert_true((bytes == NULL) == (at < 6) && (at < 6 || strcmp(bytes, "0123456789") == 0));
        memory_free(&host.host, bytes);
        assert_int_equal(host.outstanding, 0);
        bytes = (char *)1, size = 1;
        reads = 0, failing_at = at == 2 ? 3 : at;
        status = file_read(&host.host, place->path, 100, &bytes, &size);
        failing_at = 0;
        check_status(&host.host, status, HASHATTN_BAD_FILE, reason);
        assert_true(bytes == NULL && size == 0);
        assert_int_equal(host.outstanding, 0);
    }
}

static void a_log_is_a_regular_file(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    char pipe[200], link[200];
    snprintf(pipe, sizeof pipe, "%s/pipe", place->directory);
    snprintf(link, sizeof link, "%s/link", place->directory);
    place_put(place, "words");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("file", link), 0);
    check_status(host, file_append_line(host, pipe, "x"), HASHATTN_NO_DISK, "pipe: is a pipe");
    check_status(host, file_append_line(host, link, "x"), HASHATTN_NO_DISK, "link: is a link");
    check_status(host, file_append_line(host, "/dev/null", "x"), HASHATTN_NO_DISK, "is a device");
    place_check(place, "words");
}

static void lines_are_appended_whole(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    check_status(host, file_append_line(host, place->path, "one"), HASHATTN_OK, NULL);
    check_status(host, file_append_line(host, place->path, ""), HASHATTN_OK, NULL);
    place_check(place, "one\n\n");
    place_put(place, "one\ntw"); /* as a crash leaves it */
    check_status(host, file_append_line(host, place->path, "three"), HASHATTN_OK, NULL);
    place_check(place, "one\ntw\nthree\n");
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 16; /* only the beginning of the line fits */
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    hashattn_status status = file_append_line(host, place->path, "four and more");
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    check_status(host, status, HASHATTN_NO_DISK, place->path);
    place_check(place, "one\ntw\nthree\n");
}

static void directories_are_made_once(void **state)
{
    struct place *place = *state;
    struct host *host = &place->host;
    check_status(host, file_make_directory(host, place->path, false), HASHATTN_OK, NULL);
    check_status(host, file_make_directory(host, place->path, false), HASHATTN_INVALID, "File exists");
    check_status(host, file_make_directory(host, place->path, true), HASHATTN_OK, NULL);
    rmdir(place->path);
    place_put(place, "a file");
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

/* Fails every n-th allocation; reads from a pipe, so that the buffer grows. */
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
        if (status == HASHATTN_BAD_FILE) { /* it reached the limit */
            assert_int_equal(n, failing.calls);
            assert_true(n >= 3);
            return;
        }
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, "/dev/zero: no memory");
    }
}

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
    host_fail(&host, HASHATTN_FAILED, "the failure");
    file_remove_directory(&host, directory, names);
    assert_true(file_exists(directory) && file_exists(path)); /* it holds something else */
    snprintf(path, sizeof path, "%s/one", directory);
    assert_false(file_exists(path));
    file_remove_directory(&host, directory, (const char *const[]){"other", NULL});
    assert_false(file_exists(directory));
    assert_string_equal(host.message, "the failure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACED(sizes_at_and_over_the_limit),
        PLACED(a_pipe_is_read_to_its_end),
        PLACED(descriptor_0_is_a_descriptor),
        PLACED(an_endless_file_ends_at_the_limit),
        PLACED(what_cannot_be_read_is_named),
        PLACED(only_regular_files_are_read_as_such),
        PLACED(the_source_decides_what_may_be_opened),
        PLACED(a_signal_ends_a_wait_for_a_pipe),
        PLACED(a_wait_for_a_pipe_goes_on_if_signals_restart_it),
        PLACED(a_signal_does_not_end_the_opening_of_a_regular_file),
        PLACED(names_in_files_stay_inside),
        PLACED(the_start_of_a_file_is_read),
        PLACED(a_disk_that_fails_midway_leaves_nothing),
        PLACED(a_log_is_a_regular_file),
        PLACED(lines_are_appended_whole),
        PLACED(directories_are_made_once),
        PLACED(paths_are_joined),
        cmocka_unit_test(failing_allocations_are_survived),
        cmocka_unit_test(a_directory_is_removed_with_the_files_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
