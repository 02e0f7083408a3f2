/* Atomic writes: a failure is reported and leaves the old file. Bugs tried and caught: rename before the
   write is checked (full disk); writing PATH in place (kill); no unlink after a failure; first error
   overwritten by a later one; a device or pipe replaced by a file; a link replaced instead of its file; one
   fixed name for the temporary file; creating it without O_EXCL; no other name tried after a taken one; mode
   0600 for every file; a replacement that follows a link or opens a pipe; signals allowed between creating
   the file and listing it; a writer never removed from the list; a write or fsync that a signal interrupts
   taken for a failure; bytes lost or written twice after it; a wait for a pipe that a signal does not end;
   what waits for a pipe or standard output dropped by abandon.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/folder.h"
#include "support/place.h"

/* In place of the C library's: with `interrupting`, every other call is interrupted, and the others write up
   to 5 bytes. */
static int interrupting, calls;

ssize_t write(int file, const void *bytes, size_t size)
{
    if (interrupting && calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, file, bytes, interrupting && size > 5 ? 5 : size);
}

int fsync(int file)
{
    if (interrupting && calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fsync, file);
}

static void signals_do_not_end_a_write(void **state)
{
    struct place *place = *state;
    for (int shift = 0; shift < 2; shift++) {
        struct file_writer writer;
        char large[20001];
        memset(large, 'l', sizeof large - 1);
        large[sizeof large - 1] = '\0';
        check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
        interrupting = 1, calls = shift;
        file_write(&writer, "........", 8);
        for (int i = 0; i < 3000; i++)
            file_print(&writer, "%d\n", i);
        file_write(&writer, large, sizeof large - 1);
        file_write_first(&writer, "12345678", 8);
        file_write(&writer, "end", 3);
        hashattn_status status = file_commit(&place->host, &writer);
        interrupting = 0;
        check_status(&place->host, status, HASHATTN_OK, NULL);
        char want[40000] = "12345678";
        size_t used = 8;
        for (int i = 0; i < 3000; i++)
            used += (size_t)snprintf(want + used, sizeof want - used, "%d\n", i);
        snprintf(want + used, sizeof want - used, "%send", large);
        place_check(place, want);
    }
}

static void note_alarm(int number)
{
    (void)number;
}

/* The pipe has a reader that reads nothing, and is full. */
static void a_signal_ends_a_wait_for_a_pipe(void **state)
{
    struct place *place = *state;
    struct file_writer writer;
    char bytes[10000] = {0};
    assert_int_equal(mkfifo(place->path, 0600), 0);
    int reader = open(place->path, O_RDWR);
    struct sigaction action = {.sa_handler = note_alarm}, before;
    struct itimerval timer = {.it_interval = {0, 100000}, .it_value = {0, 100000}}, none = {{0, 0}, {0, 0}};
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 50 && writer.error == 0; i++)
        file_write(&writer, bytes, sizeof bytes);
    setitimer(ITIMER_REAL, &none, NULL);
    sigaction(SIGALRM, &before, NULL);
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_INTERRUPTED, "cannot write");
    close(reader);
}

/* Replaces the system's function, so that a test knows the next temporary name: a number of `chances`, or
   the number of calls where that is 0 and after the last. */
static uint32_t chances[4], chances_taken;
static bool signal_comes;

int getentropy(void *buffer, size_t length)
{
    uint32_t chance = chances_taken++;
    assert_int_equal(length, sizeof chance);
    if (chance < 4 && chances[chance] != 0)
        chance = chances[chance];
    memcpy(buffer, &chance, length);
    if (signal_comes)
        raise(SIGTERM);
    return 0;
}

static void what_was_written_is_read(void **state)
{
    struct place *place = *state;
    place_put(place, "one");
    place_check(place, "one");
    place_put(place, "");
    place_check(place, "");
}

static void nothing_shows_before_commit_and_nothing_stays_after_abandon(void **state)
{
    struct place *place = *state;
    place_put(place, "old");
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_print(&writer, "%d %s", 17, "words");
    file_write(&writer, NULL, 0);
    assert_int_equal(folder_temporaries(place->directory), 1);
    file_abandon(&writer);
    file_abandon(&writer);
    place_check(place, "old");
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_print(&writer, "%d %s", 17, "words");
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
    file_abandon(&writer);
    place_check(place, "17 words");
}

/* A pipe and standard output have got the bytes before, and get the last ones too. */
static void abandon_passes_on_what_cannot_be_taken_back(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkfifo(place->path, 0600), 0);
    int reader = open(place->path, O_RDWR), out = dup(STDOUT_FILENO);
    assert_true(reader >= 0 && out >= 0);
    for (int standard = 0; standard < 2; standard++) {
        struct file_writer writer;
        char got[20] = "";
        fflush(stdout);
        if (standard)
            assert_true(dup2(reader, STDOUT_FILENO) >= 0);
        hashattn_status status = file_open_writer(&place->host, standard ? "-" : place->path, &writer);
        file_print(&writer, "%d words", 17);
        file_abandon(&writer);
        dup2(out, STDOUT_FILENO);
        check_status(&place->host, status, HASHATTN_OK, NULL);
        assert_int_equal(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(read(reader, got, sizeof got - 1), 8);
        assert_string_equal(got, "17 words");
    }
    close(reader);
    close(out);
}

static void a_private_file_stays_private(void **state)
{
    struct place *place = *state;
    place_put(place, "old");
    assert_int_equal(chmod(place->path, 0600), 0);
    place_put(place, "new");
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

static void a_link_stays_a_link(void **state)
{
    struct place *place = *state;
    place_put(place, "old");
    struct place at_link = *place;
    snprintf(at_link.path, sizeof at_link.path, "%s/link", place->directory);
    assert_int_equal(symlink("file", at_link.path), 0);
    place_put(&at_link, "new");
    struct stat facts;
    assert_int_equal(lstat(at_link.path, &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    place_check(place, "new");
}

/* The target of a link must exist. */
static void a_link_to_nothing_is_refused(void **state)
{
    struct place *place = *state;
    struct file_writer writer;
    char target[200];
    snprintf(target, sizeof target, "%s.absent", place->path);
    assert_int_equal(symlink(target, place->path), 0);
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_NO_DISK,
                 "file: cannot write: No such file");
    assert_false(file_exists(target));
}

static void put_beside(const struct place *place, const char *ending, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s%s", place->path, ending);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void check_beside(const struct place *place, const char *ending, const char *want)
{
    char path[200], text[100] = "";
    snprintf(path, sizeof path, "%s%s", place->path, ending);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fgets(text, sizeof text, file) != NULL);
    assert_string_equal(text, want);
    fclose(file);
    assert_int_equal(unlink(path), 0);
}

static void files_beside_are_left_alone(void **state)
{
    struct place *place = *state;
    put_beside(place, ".tmp", "the user's own");
    put_beside(place, ".victim", "the victim's");
    static const char *const links[] = {".tmp-0000abcd", ".tmp-00000bad"};
    char path[200], victim[200];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", place->path, links[i]);
        snprintf(victim, sizeof victim, "%s%s", place->path, i == 0 ? ".victim" : ".absent");
        assert_int_equal(symlink(victim, path), 0);
    }
    chances[0] =
        0xabcd; /* a planted link to a file, one to a file that does not exist yet, then a free name */
    chances[1] = 0xbad;
    chances_taken = 0;
    place_put(place, "new");
    assert_int_equal(chances_taken, 3);
    memset(chances, 0, sizeof chances);
    assert_false(file_exists(victim));
    for (int i = 0; i < 2; i++) {
        struct stat facts;
        snprintf(path, sizeof path, "%s%s", place->path, links[i]);
        assert_int_equal(lstat(path, &facts), 0);
        assert_true(S_ISLNK(facts.st_mode));
        unlink(path);
    }
    check_beside(place, ".tmp", "the user's own");
    check_beside(place, ".victim", "the victim's");
    place_check(place, "new");
}

static void two_writers_of_one_file_do_not_meet(void **state)
{
    struct place *place = *state;
    struct file_writer one, two;
    check_status(&place->host, file_open_writer(&place->host, place->path, &one), HASHATTN_OK, NULL);
    check_status(&place->host, file_open_writer(&place->host, place->path, &two), HASHATTN_OK, NULL);
    file_print(&one, "one");
    file_print(&two, "two");
    check_status(&place->host, file_commit(&place->host, &one), HASHATTN_OK, NULL);
    check_status(&place->host, file_commit(&place->host, &two), HASHATTN_OK, NULL);
    place_check(place, "two");
}

static void a_new_file_has_the_mode_of_the_umask(void **state)
{
    struct place *place = *state;
    mode_t before = umask(027);
    place_put(place, "new");
    umask(before);
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0640);
}

static void the_longest_names_are_written(void **state)
{
    struct place *place = *state;
    struct file_writer writer;
    char path[400], name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    check_status(&place->host, file_open_writer(&place->host, path, &writer), HASHATTN_OK, NULL);
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
    assert_true(file_exists(path));
}

static void replace(struct place *place, const char *text)
{
    struct file_writer writer;
    check_status(&place->host, file_open_replacement(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_print(&writer, "%s", text);
    check_status(&place->host, file_commit(&place->host, &writer), HASHATTN_OK, NULL);
    struct stat facts;
    assert_int_equal(lstat(place->path, &facts), 0);
    assert_true(S_ISREG(facts.st_mode));
    place_check(place, text);
}

static void a_replacement_follows_nothing(void **state)
{
    struct place *place = *state;
    char victim[200];
    snprintf(victim, sizeof victim, "%s.victim", place->path);
    put_beside(place, ".victim", "the victim's");
    assert_int_equal(symlink(victim, place->path), 0);
    replace(place, "instead of a link");
    check_beside(place, ".victim", "the victim's");
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(mkfifo(place->path, 0600), 0);
    alarm(20); /* opening the pipe would wait for a reader forever */
    replace(place, "instead of a pipe");
    alarm(0);
    assert_int_equal(chmod(place->path, 0600), 0);
    replace(place, "instead of a private file");
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    struct file_writer writer;
    check_status(&place->host, file_open_replacement(&place->host, place->directory, &writer),
                 HASHATTN_NO_DISK, "directory");
    check_status(&place->host, file_open_replacement(&place->host, "", &writer), HASHATTN_NO_DISK,
                 "No such file");
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
    file_abandon(&writer); /* does nothing after a failed open */
}

/* Runs `work` as a user who owns nothing, because root may write anywhere; returns its exit code. */
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
    place_put(place, "old");
    struct rlimit before, small = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    /* big: a write in the middle fails. Otherwise only the flush at commit fails, because the bytes fit in
       the stream's buffer but exceed a limit of 1 byte. */
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
        place_check(place, "old");
    }
    signal(SIGXFSZ, SIG_DFL);
}

static void the_first_error_is_the_one_reported(void **state)
{
    struct place *place = *state;
    place_put(place, "old");
    struct rlimit before, none;
    getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 0;
    struct file_writer writer;
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    file_write(&writer, "x", 1); /* stays in the stream's buffer, and fails at the flush */
    writer.error = EDQUOT;       /* as after a failed write */
    file_write(&writer, "x", 1);
    file_print(&writer, "%s", "y");
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    hashattn_status status = file_commit(&place->host, &writer);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    check_status(&place->host, status, HASHATTN_NO_DISK, strerror(EDQUOT));
    place_check(place, "old");
}

static void a_pipe_is_written_and_not_replaced(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkfifo(place->path, 0600), 0);
    int reader = open(place->path, O_RDONLY | O_NONBLOCK);
    place_put(place, "words");
    char text[10] = "";
    assert_int_equal(read(reader, text, sizeof text), 5);
    assert_string_equal(text, "words");
    close(reader);
    struct stat facts;
    assert_int_equal(stat(place->path, &facts), 0);
    assert_true(S_ISFIFO(facts.st_mode));
    assert_int_equal(folder_temporaries(place->directory), 0);
}

/* Makes its own /dev/full, because a bug here would replace the device. */
static void a_full_device_says_so(void **state)
{
    struct place *place = *state;
    int device = mknod(place->path, S_IFCHR | 0600, makedev(1, 7)) == 0 ? open(place->path, O_WRONLY) : -1;
    if (device < 0) {
        print_message("SKIPPED: a_full_device_says_so: cannot make a device here\n");
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
}

static const struct host *handled; /* the host whose files the handler removes */

static void remove_and_end(int number)
{
    file_remove_unfinished(handled);
    signal(number, SIG_DFL);
    raise(number);
}

/* A child keeps replacing the file with a thousand equal letters until a signal ends it at a random moment
   within 10 ms. Returns the number of replacements. */
static int end_a_writing_child(struct place *place, int signal_number, int moment)
{
    enum { SIZE = 100000 };
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        handled = &place->host;
        signal(SIGTERM, remove_and_end);
        alarm(60); /* ends in any case */
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
    long step = 100000L * (1 + moment / 100); /* a slow disk or a busy machine may need longer */
    struct timespec wait = {.tv_nsec = moment * 7919 % 100 * (step < 5000000 ? step : 5000000)};
    nanosleep(&wait, NULL);
    kill(child, signal_number);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code) && WTERMSIG(code) == signal_number);
    char *bytes;
    size_t size;
    check_status(&place->host, file_read(&place->host, place->path, 1 << 20, &bytes, &size), HASHATTN_OK,
                 NULL);
    assert_true(size == SIZE || size == 1);
    for (size_t i = 1; i < size; i++)
        assert_int_equal(bytes[i], bytes[0]);
    memory_free(&place->host, bytes);
    return size == SIZE;
}

static void a_kill_leaves_a_whole_file(void **state)
{
    struct place *place = *state;
    place_put(place, "a");
    int replaced = 0;
    for (int i = 0; i < 50 || (replaced == 0 && i < 5000);
         i++) /* a busy machine may not let children begin */
        replaced += end_a_writing_child(place, SIGKILL, i);
    assert_true(replaced > 0);
}

static void a_handled_signal_leaves_nothing_else(void **state)
{
    struct place *place = *state;
    place_put(place, "a");
    int replaced = 0;
    for (int i = 0; i < 100 || (replaced == 0 && i < 5000); i++) {
        /* The child creates no file before its handler is set. */
        replaced += end_a_writing_child(place, SIGTERM, i);
        assert_int_equal(folder_temporaries(place->directory), 0);
    }
    assert_true(replaced > 0);
}

static volatile sig_atomic_t seen; /* set by the handler: it found a writer */

static void look(int number)
{
    (void)number;
    seen = handled->unfinished != NULL ? 1 : -1;
}

static void a_signal_waits_until_the_file_is_in_the_list(void **state)
{
    struct place *place = *state;
    struct file_writer writer;
    handled = &place->host;
    signal(SIGTERM, look);
    signal_comes = true; /* while choosing a name */
    check_status(&place->host, file_open_writer(&place->host, place->path, &writer), HASHATTN_OK, NULL);
    signal_comes = false;
    signal(SIGTERM, SIG_DFL);
    assert_int_equal(seen, 1);
    file_abandon(&writer);
}

static void those_under_way_are_known(void **state)
{
    struct place *place = *state;
    struct file_writer writers[4];
    for (int i = 0; i < 4; i++)
        check_status(&place->host, file_open_writer(&place->host, place->path, &writers[i]), HASHATTN_OK,
                     NULL);
    file_print(&writers[1], "second");
    check_status(&place->host, file_commit(&place->host, &writers[1]), HASHATTN_OK, NULL);
    file_abandon(&writers[3]);
    assert_int_equal(folder_temporaries(place->directory), 2);
    file_remove_unfinished(&place->host);
    place_check(place, "second");
    check_status(&place->host, file_commit(&place->host, &writers[0]), HASHATTN_NO_DISK, "No such file");
    file_abandon(&writers[2]);
    assert_null(place->host.unfinished);
    place_check(place, "second");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACED(what_was_written_is_read),
        PLACED(nothing_shows_before_commit_and_nothing_stays_after_abandon),
        PLACED(abandon_passes_on_what_cannot_be_taken_back),
        PLACED(a_private_file_stays_private),
        PLACED(a_link_stays_a_link),
        PLACED(a_link_to_nothing_is_refused),
        PLACED(files_beside_are_left_alone),
        PLACED(two_writers_of_one_file_do_not_meet),
        PLACED(a_new_file_has_the_mode_of_the_umask),
        PLACED(the_longest_names_are_written),
        PLACED(a_replacement_follows_nothing),
        PLACED(what_cannot_be_written_is_named),
        PLACED(an_unwritable_directory_is_refused),
        PLACED(a_full_disk_leaves_the_old_file),
        PLACED(the_first_error_is_the_one_reported),
        PLACED(a_pipe_is_written_and_not_replaced),
        PLACED(a_full_device_says_so),
        PLACED(a_kill_leaves_a_whole_file),
        PLACED(a_handled_signal_leaves_nothing_else),
        PLACED(a_signal_waits_until_the_file_is_in_the_list),
        PLACED(those_under_way_are_known),
        PLACED(signals_do_not_end_a_write),
        PLACED(a_signal_ends_a_wait_for_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
