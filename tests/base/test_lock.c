/* One holder at a time, named by its process, and none after it ends. Planted and caught: a lock between
   processes only, which a second holder in the same process can take; the number of an older holder reported;
   no message while the holder has not written yet; following a link; writing to another file with two names;
   taking a file system without locks for a holder; the descriptor kept after a refusal; a look at the lock
   that keeps it, or makes its file; a file that took the lock's place not seen, or one that is gone taken for
   such.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/place.h"

static int flock_error; /* as of a file system without locks; 0: call the system */

/* Replaces the system's function. */
int flock(int file, int operation)
{
    if (flock_error == 0)
        return (int)syscall(SYS_flock, file, operation);
    errno = flock_error;
    return -1;
}

static void check_held_by(struct place *place, pid_t process)
{
    struct lock lock;
    char want[300], machine[64] = "";
    gethostname(machine, sizeof machine - 1);
    snprintf(want, sizeof want, "%s is held by process %ld on %s", place->path, (long)process, machine);
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_INVALID, want);
    assert_string_equal(place->host.message, want);
    assert_int_equal(lock.file, -1);
}

static void a_process_takes_it_once(void **state)
{
    struct place *place = *state;
    struct lock lock, again;
    place_put(place, "4294967295 the-machine-of-an-older-holder-with-a-long-name.example.org\nand more\n");
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_OK, NULL);
    int next = dup(0);
    close(next);
    check_held_by(place, getpid());
    check_held_by(place, getpid());
    int now = dup(0);
    close(now);
    assert_int_equal(now, next);
    lock_release(&lock);
    lock_release(&lock);
    check_status(&place->host, lock_take(&place->host, place->path, &again), HASHATTN_OK, NULL);
    lock_release(&again);
}

/* Starts a child, which holds the lock when this returns. */
static pid_t holding_child(struct place *place)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct lock lock;
        alarm(60);
        byte = lock_take(&place->host, place->path, &lock) == HASHATTN_OK ? 'y' : 'n';
        if (write(ends[1], &byte, 1) != 1)
            _exit(1);
        pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void a_look_tells_whether_it_is_held(void **state)
{
    struct place *place = *state;
    struct lock lock;
    assert_false(lock_is_held(place->path));
    assert_int_equal(access(place->path, F_OK), -1);
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_OK, NULL);
    assert_true(lock_is_held(place->path));
    lock_release(&lock);
    assert_false(lock_is_held(place->path));
    assert_false(lock_is_held(place->path));
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_OK, NULL);
    lock_release(&lock);
    pid_t child = holding_child(place);
    assert_true(lock_is_held(place->path));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(lock_is_held(place->path));
    flock_error = ENOLCK;
    assert_false(lock_is_held(place->path));
    flock_error = 0;
}

static void a_file_in_its_place_is_seen(void **state)
{
    struct place *place = *state;
    struct lock lock = {-1};
    char old[200];
    snprintf(old, sizeof old, "%s.old", place->path);
    place_put(place, "");
    assert_false(lock_is_replaced(place->path, &lock));
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_OK, NULL);
    assert_false(lock_is_replaced(place->path, &lock));
    assert_int_equal(rename(place->path, old), 0);
    assert_false(lock_is_replaced(place->path, &lock));
    place_put(place, "");
    assert_true(lock_is_replaced(place->path, &lock));
    assert_int_equal(rename(old, place->path), 0);
    assert_false(lock_is_replaced(place->path, &lock));
    lock_release(&lock);
}

static void a_killed_holder_holds_nothing(void **state)
{
    struct place *place = *state;
    struct lock lock;
    for (int i = 0; i < 3; i++) {
        pid_t child = holding_child(place);
        check_held_by(place, child);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_OK, NULL);
    check_held_by(place, getpid());
    lock_release(&lock);
}

static void a_holder_without_a_text_is_told_too(void **state)
{
    struct place *place = *state;
    struct lock lock;
    int file = open(place->path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(file, LOCK_EX), 0);
    check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_INVALID,
                 "file is held by another process");
    close(file);
}

static void other_files_are_left_alone(void **state)
{
    struct place *place = *state;
    struct lock lock;
    char other[200];
    snprintf(other, sizeof other, "%s/other", place->directory);
    place_put(place, "the victim's");
    assert_int_equal(link(place->path, other), 0);
    check_status(&place->host, lock_take(&place->host, other, &lock), HASHATTN_NO_DISK,
                 "other has 2 names (hard links), a lock has one; remove it, a new one is made");
    unlink(other);
    check_status(&place->host, lock_take(&place->host, other, &lock), HASHATTN_OK, NULL);
    lock_release(&lock);
    unlink(other);
    assert_int_equal(symlink("file", other), 0);
    check_status(&place->host, lock_take(&place->host, other, &lock), HASHATTN_NO_DISK, "other: cannot open");
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    check_status(&place->host, lock_take(&place->host, other, &lock), HASHATTN_NO_DISK, "is a pipe");
    check_status(&place->host, lock_take(&place->host, "/nowhere/lock", &lock), HASHATTN_NO_DISK,
                 "No such file");
    place_check(place, "the victim's");
}

static void a_file_system_without_locks_is_told(void **state)
{
    struct place *place = *state;
    struct lock lock;
    static const int errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        flock_error = errors[i];
        check_status(&place->host, lock_take(&place->host, place->path, &lock), HASHATTN_REFUSED,
                     "file: cannot lock: ");
        assert_int_equal(lock.file, -1);
    }
    flock_error = 0;
}

/* A process may start without standard input: then a file gets descriptor 0. */
static void descriptor_0_is_a_descriptor(void **state)
{
    struct place *place = *state;
    struct lock lock;
    int kept = dup(0);
    close(0);
    hashattn_status status = lock_take(&place->host, place->path, &lock);
    int file = lock.file, open = fcntl(0, F_GETFD);
    lock_release(&lock);
    int after = fcntl(0, F_GETFD);
    dup2(kept, 0);
    close(kept);
    check_status(&place->host, status, HASHATTN_OK, NULL);
    assert_true(file == 0 && open >= 0 && after < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACED(a_process_takes_it_once),
        PLACED(a_look_tells_whether_it_is_held),
        PLACED(a_file_in_its_place_is_seen),
        PLACED(a_killed_holder_holds_nothing),
        PLACED(a_holder_without_a_text_is_told_too),
        PLACED(other_files_are_left_alone),
        PLACED(a_file_system_without_locks_is_told),
        PLACED(descriptor_0_is_a_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
