/* Accidents of a training: full disks, kills in the middle of a save, a second process on the same run,
   numeric overflow, lack of memory. Everything saved before is complete, and the message names the failure.
   The head of test_trainer.c lists the bugs planted and caught here. Covers: loop.c begin.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/memory.h"
#include "io/json.h"
#include "models/model_io.h"
#include "support/check.h"
#include "support/named_metric.h"
#include "support/trainer_case.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- accidents ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
}

static void full_from_5_to_8(struct watcher *watcher, const struct train_event *event)
{
    (void)watcher;
    if (event->step == 5)
        limit_files(100);
    if (event->step == 8)
        limit_files(RLIM_INFINITY);
}

static void full_from_5(struct watcher *watcher, const struct train_event *event)
{
    (void)watcher;
    if (event->step == 5)
        limit_files(100);
}

static void a_full_disk_is_survived_or_named(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    /* Saves at 3, 6, 9, 10: the one of step 6 fails and is only a warning. */
    struct watcher passing = {.stop_at = -1, .act = full_from_5_to_8};
    check_status(&small.host, train(&small, small.run, 1, &passing, false), HASHATTN_OK, NULL);
    assert_int_equal(passing.warnings, 1);
    char run[80];
    small_run_path(&small, "full", run);
    struct watcher full = {.stop_at = -1, .act = full_from_5};
    hashattn_status status = train(&small, run, 1, &full, false);
    limit_files(RLIM_INFINITY);
    check_status(&small.host, status, HASHATTN_NO_DISK, "full");
    assert_int_equal(full.last.step, 10);
    struct watcher after = {.stop_at = -1};
    check_status(&small.host, train(&small, run, 1, &after, true), HASHATTN_OK, NULL);
    assert_int_equal(after.last.step, 10);
    check_same_run(&small.host, small.run, run);

    /* Nothing can be saved at all: the directory is removed again, whichever file fails first. */
    static const rlim_t rooms[] = {0, 100, 3000};
    for (int i = 0; i < 3; i++) {
        small_run_path(&small, "never", run);
        limit_files(rooms[i]);
        status = train(&small, run, 1, &after, false);
        limit_files(RLIM_INFINITY);
        check_status(&small.host, status, HASHATTN_NO_DISK, "never");
        assert_false(file_exists(run));
    }
    struct watcher again = {.stop_at = -1};
    check_status(&small.host, train(&small, run, 1, &again, false), HASHATTN_OK, NULL);
    check_same_run(&small.host, small.run, run);
    small_run_free(&small);
}

static void a_best_model_that_cannot_be_written_does_not_count(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    /* Only model.safetensors cannot be written: a directory has its name. */
    char path[160];
    snprintf(path, sizeof path, "%s/model.safetensors", small.run);
    struct watcher stopping = {.stop_at = 1}, blocked = {.stop_at = -1}, after = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    check_status(&small.host, file_make_directory(&small.host, path, false), HASHATTN_OK, NULL);
    check_status(&small.host, train(&small, small.run, 1, &blocked, true), HASHATTN_NO_DISK,
                 "model.safetensors");
    assert_int_equal(blocked.warnings, 2); /* steps 4 and 8; step 10 is the end */
    assert_true(isnan(blocked.best_accuracy));
    assert_int_equal(rmdir(path), 0);
    check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_OK, NULL);
    assert_int_equal(after.events, 3); /* only the evaluation, in two batches, was left */
    assert_true(after.best_accuracy == after.valid_accuracy);
    assert_true(file_exists(path));
    small_run_free(&small);
}

static long renames_left = -1; /* the process is killed at this rename; negative: never */

/* Replaces the C library's rename, which file_writer.c and checkpoint.c call for every file of a run. */
int rename(const char *from, const char *to)
{
    if (renames_left == 0)
        raise(SIGKILL);
    renames_left -= renames_left > 0;
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static bool no_locks; /* as on some network file systems */

/* Replaces the C library's flock, which lock.c calls. */
int flock(int file, int operation)
{
    if (no_locks) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_flock, file, operation);
}

static void expect_unlocked(struct watcher *watcher, const struct train_event *event)
{
    bool first = watcher->events == 1;
    assert_int_equal(event->warning != NULL, first);
    if (first)
        assert_non_null(strstr(event->warning, "nothing keeps a second process from training this run: "));
}

static void a_file_system_without_locks_is_a_warning(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher begun = {.stop_at = 5, .act = expect_unlocked},
                   resumed = {.stop_at = -1, .act = expect_unlocked};
    no_locks = true;
    check_status(&small.host, train(&small, small.run, 1, &begun, false), HASHATTN_INTERRUPTED, NULL);
    check_status(&small.host, train(&small, small.run, 1, &resumed, true), HASHATTN_OK, NULL);
    no_locks = false;
    assert_true(begun.warnings == 1 && resumed.warnings == 1);
    small_run_free(&small);
}

static hashattn_status extend(struct small_run *small, const char *run, int64_t steps)
{
    const char *why;
    const struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    return train_resume(&small->host, &setup, run, steps);
}

static void expect_both(struct watcher *watcher, const struct train_event *event)
{
    if (watcher->events == 1) {
        assert_non_null(event->warning);
        assert_non_null(strstr(event->warning, "nothing keeps a second process from training this run: "));
        assert_non_null(strstr(event->warning, "; the best model is lost, "));
    }
}

static void two_warnings_of_one_moment_are_both_told(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    struct watcher begun = {.stop_at = 5}, resumed = {.stop_at = -1, .act = expect_both};
    char path[160];
    snprintf(path, sizeof path, "%s/model.safetensors", small.run);
    check_status(&small.host, train(&small, small.run, 1, &begun, false), HASHATTN_INTERRUPTED, NULL);
    assert_int_equal(truncate(path, 0), 0);
    no_locks = true;
    check_status(&small.host, train(&small, small.run, 1, &resumed, true), HASHATTN_OK, NULL);
    no_locks = false;
    assert_int_equal(resumed.warnings, 1);
    small_run_free(&small);
}

/* Kills a training before its n-th rename: of a new run, or with steps an extension. Returns false if it
   finished before. */
static bool train_and_kill(struct small_run *small, const char *run, long n, int64_t steps)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct watcher quiet = {.stop_at = 1};
        renames_left = n;
        if (steps > 0)
            extend(small, run, steps);
        else
            train(small, run, 1, &quiet, false);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

/* Patience stops the run at step 8, and the extended one at step 14. */
static void a_killed_extension_is_whole_or_none(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    static const char *const options[][2] = {
        {"steps", "40"}, {"eval_every", "2"}, {"patience", "3"}, {"learning_rate", "0"}, {"save_every", "4"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        small_run_set(&small, options[i][0], options[i][1]);
    struct watcher first = {.stop_at = -1};
    char whole[80], run[80];
    small_run_path(&small, "whole", whole);
    small_run_path(&small, "killed", run);
    check_status(&small.host, train(&small, small.run, 1, &first, false), HASHATTN_OK, NULL);
    assert_int_equal(first.last.step, 8);
    check_status(&small.host, train(&small, whole, 1, &first, false), HASHATTN_OK, NULL);
    check_status(&small.host, extend(&small, whole, 60), HASHATTN_OK, NULL);
    bool killed = true;
    long extended = 0;
    for (long n = 0; killed; n++) {
        struct run_config config;
        struct watcher resumed = {.stop_at = -1};
        check_status(&small.host, train(&small, run, 1, &first, false), HASHATTN_OK, NULL);
        killed = train_and_kill(&small, run, n, 60);
        check_status(&small.host, run_config_load(&small.host, run, &config), HASHATTN_OK, NULL);
        bool old = config.training.steps == 40;
        run_config_free(&small.host, &config);
        check_status(&small.host, train(&small, run, 1, &resumed, true), HASHATTN_OK, NULL);
        check_same_run(&small.host, old ? small.run : whole, run);
        small_run_remove(run);
        extended += !old;
    }
    assert_true(extended > 3); /* also between its saves */
    small_run_free(&small);
}

static void a_run_killed_in_its_first_save_goes_on(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "yoso", 24, 3);
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, small.run, 1, &quiet, false), HASHATTN_OK, NULL);
    /* config.json, the two files of the state as .next, trainer.json, the two under their names. */
    enum { FILES = 6 };
    char run[80], config[160];
    small_run_path(&small, "killed", run);
    snprintf(config, sizeof config, "%s/config.json", run);
    for (long n = 0; n < FILES; n++) {
        assert_true(train_and_kill(&small, run, n, 0));
        assert_int_equal(file_exists(config), n > 0);
        if (n == 0) { /* nothing to resume: the message says what to do, and that works */
            check_status(
                &small.host, train(&small, run, 1, &quiet, true), HASHATTN_BAD_FILE,
                "killed has no config.json: it is not a run, or one that was killed before it had saved "
                "anything and must be restarted");
            check_status(&small.host, train(&small, run, 1, &quiet, false), HASHATTN_INVALID,
                         "killed exists already and has no config.json");
            check_status(&small.host, HASHATTN_INVALID, HASHATTN_INVALID, "remove it or choose another name");
            small_run_remove(run);
        }
        check_status(&small.host, train(&small, run, 1, &quiet, n > 0), HASHATTN_OK, NULL);
        assert_int_equal(quiet.last.step, 10);
        check_same_run(&small.host, small.run, run);
        small_run_remove(run);
    }
    assert_false(train_and_kill(&small, run, 100, 0));
    small_run_free(&small);
}

/* A run that has lost its trainer.json is not started anew: its parameters are valuable. */
static void a_run_that_lost_a_file_is_kept(void **state)
{
    (void)state;
    static const char *const lost[] = {"trainer.json", "last.safetensors", "optimizer.safetensors"};
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    for (size_t i = 0; i < 3; i++) {
        struct watcher stopping = {.stop_at = 5}, quiet = {.stop_at = -1};
        char path[160];
        snprintf(path, sizeof path, "%s/%s", small.run, lost[i]);
        check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
        assert_int_equal(unlink(path), 0);
        check_status(&small.host, train(&small, small.run, 1, &quiet, true), HASHATTN_BAD_FILE, lost[i]);
        assert_int_equal(quiet.events, 0);
        assert_false(file_exists(path));
        small_run_remove(small.run);
    }
    small_run_free(&small);
}

/* A model.safetensors that is missing or cut does not keep the next one from being written. */
static void a_lost_best_model_is_replaced(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    for (int cut = 0; cut < 2; cut++) {
        struct watcher stopping = {.stop_at = 9}, resumed = {.stop_at = -1}, again = {.stop_at = -1};
        char path[160];
        snprintf(path, sizeof path, "%s/model.safetensors", small.run);
        check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
        assert_int_equal(cut ? truncate(path, 1000) : unlink(path), 0);
        replace_member(small.run, "best_accuracy", "best_accuracy", "2.0"); /* nothing would beat it */
        check_status(&small.host, train(&small, small.run, 1, &resumed, true), HASHATTN_OK, NULL);
        assert_int_equal(resumed.warnings, 1);
        assert_true(resumed.best_accuracy == resumed.valid_accuracy);
        check_status(&small.host, train(&small, small.run, 1, &again, true), HASHATTN_OK, NULL);
        assert_int_equal(again.warnings, 0);
        small_run_remove(small.run);
    }
    small_run_free(&small);
}

/* Of a finished run, and of one that stops before its next evaluation. */
static void a_best_model_lost_at_the_end_has_a_successor(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    for (int finished = 0; finished < 2; finished++) {
        struct watcher first = {.stop_at = finished ? -1 : 9}, resumed = {.stop_at = finished ? -1 : 10};
        struct run_values found;
        char path[160];
        snprintf(path, sizeof path, "%s/model.safetensors", small.run);
        check_status(&small.host, train(&small, small.run, 1, &first, false),
                     finished ? HASHATTN_OK : HASHATTN_INTERRUPTED, NULL);
        assert_int_equal(truncate(path, 0), 0);
        check_status(&small.host, train(&small, small.run, 1, &resumed, true),
                     finished ? HASHATTN_OK : HASHATTN_INTERRUPTED, NULL);
        assert_int_equal(resumed.warnings, 1);
        check_status(&small.host, run_values_find(&small.host, small.run, &found), HASHATTN_OK, NULL);
        assert_true(finished ? found.last_step == -1 : found.last_step == 10);
        small_run_remove(small.run);
    }
    small_run_free(&small);
}

struct replacement {
    const struct small_run *small;
    int64_t step;
};

/* Another run takes the place of the one that is being trained. */
static void replace_run(struct watcher *watcher, const struct train_event *event)
{
    struct replacement *replacement = watcher->user;
    char moved[80], lock[160];
    if (event->step != replacement->step)
        return;
    replacement->step = -1; /* an evaluation tells of the same step again */
    small_run_path(replacement->small, "moved", moved);
    snprintf(lock, sizeof lock, "%s/lock", replacement->small->run);
    assert_int_equal(rename(replacement->small->run, moved), 0);
    assert_int_equal(mkdir(replacement->small->run, 0700), 0);
    int file = open(lock, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    close(file);
}

/* The next save fails, and also a record before it is not written: at step 10 a record comes first. */
static void another_run_in_its_place_is_left_alone(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    char whole[80], moved[80], lock[160];
    small_run_path(&small, "moved", moved);
    small_run_path(&small, "whole", whole);
    snprintf(lock, sizeof lock, "%s/lock", small.run);
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, whole, 1, &quiet, false), HASHATTN_OK, NULL);
    for (int late = 0; late < 2; late++) {
        struct replacement replacement = {&small, late ? 10 : 5};
        struct watcher replaced = {.stop_at = -1, .act = replace_run, .user = &replacement};
        check_status(&small.host, train(&small, small.run, 1, &replaced, false), HASHATTN_INVALID,
                     " is another run now, or has another lock: ");
        assert_int_equal(replaced.last.step, late ? 10 : 6);
        assert_int_equal(unlink(lock), 0);
        assert_int_equal(rmdir(small.run), 0); /* nothing else is in it */
        check_status(&small.host, train(&small, moved, 1, &quiet, true), HASHATTN_OK, NULL);
        check_same_run(&small.host, whole, moved);
        small_run_remove(moved);
    }
    small_run_free(&small);
}

/* While a run is trained, a second trainer of the same process tries to resume it. */
static void resume_too(struct watcher *watcher, const struct train_event *event)
{
    (void)event;
    struct small_run *small = watcher->user;
    struct host host;
    const char *why;
    const struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    char want[200];
    host_init(&host);
    snprintf(want, sizeof want, "this run is being trained: %s/lock is held by process %ld on ", small->run,
             (long)getpid());
    check_status(&host, train_resume(&host, &setup, small->run, 0), HASHATTN_INVALID, want);
}

static void a_run_has_one_trainer(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "none", 24, 3);
    char run[80];
    small_run_path(&small, "alone", run);
    struct watcher quiet = {.stop_at = -1};
    check_status(&small.host, train(&small, run, 1, &quiet, false), HASHATTN_OK, NULL);
    struct watcher begun = {.stop_at = 5, .act = resume_too, .user = &small};
    check_status(&small.host, train(&small, small.run, 1, &begun, false), HASHATTN_INTERRUPTED, NULL);
    struct watcher resumed = {.stop_at = -1, .act = resume_too, .user = &small};
    check_status(&small.host, train(&small, small.run, 1, &resumed, true), HASHATTN_OK, NULL);
    assert_int_equal(begun.warnings + resumed.warnings, 0);
    check_same_run(&small.host, small.run, run);
    small_run_free(&small);
}

static void numbers_that_overflow_stop_the_run(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "softmax", 24, 3);
    struct watcher stopping = {.stop_at = 4};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    /* Finite on disk, but their products are not. */
    size_t size, before_size;
    char path[160];
    char *bytes = small_run_read(small.run, "last.safetensors", &size);
    for (size_t i = size - 2000; i + 4 <= size; i += 4)
        memcpy(bytes + i, &(float){3e38f}, 4);
    snprintf(path, sizeof path, "%s/last.safetensors", small.run);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    struct watcher after = {.stop_at = -1};
    char *before = small_run_read(small.run, "trainer.json", &before_size);
    check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_FAILED,
                 "the loss is nan in step 5 of 10");
    char *now = small_run_read(small.run, "trainer.json", &size);
    assert_true(size == before_size && memcmp(now, before, size) == 0);
    free(now);
    free(before);
    free(bytes);
    small_run_free(&small);
}

/* A step whose loss and gradient are finite makes infinite parameters, which are neither saved nor the
   best. */
static void parameters_that_overflow_are_not_saved(void **state)
{
    (void)state;
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        struct small_run small;
        small_run_init(&small, "softmax", 24, 3);
        small_run_set(&small, "eval_every", evaluated ? "5" : "10");
        small_run_set(&small, "save_every", evaluated ? "10" : "5");
        struct watcher stopping = {.stop_at = 4}, after = {.stop_at = -1};
        check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
        /* The first half of the numbers: first moments. */
        size_t size, before_size;
        uint64_t header;
        char path[160], *bytes = small_run_read(small.run, "optimizer.safetensors", &size);
        memcpy(&header, bytes, 8);
        for (size_t i = 8 + header; i + 4 <= 8 + header + (size - 8 - header) / 2; i += 4)
            memcpy(bytes + i, &(float){3e38f}, 4);
        snprintf(path, sizeof path, "%s/optimizer.safetensors", small.run);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        fclose(file);
        free(bytes);
        char *before = small_run_read(small.run, "trainer.json", &before_size);
        check_status(&small.host, train(&small, small.run, 1, &after, true), HASHATTN_FAILED,
                     "the parameters are not finite after step 5 of 10: try a lower learning_rate");
        char *now = small_run_read(small.run, "trainer.json", &size);
        assert_true(size == before_size && memcmp(now, before, size) == 0);
        snprintf(path, sizeof path, "%s/model.safetensors", small.run);
        assert_false(file_exists(path));
        free(before);
        free(now);
        small_run_free(&small);
    }
}

static void every_failing_allocation_is_named(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "yoso", 24, 3);
    small_run_set(&small, "steps", "2");
    small_run_set(&small, "warmup", "1");
    const char *why;
    struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    check_status(&small.host, pool_new(&small.host, 1, &setup.pool), HASHATTN_OK, NULL);
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long n = 0; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        status = train_run(&failing.host, &setup, &small.config, small.run);
        assert_int_equal(failing.outstanding, 0);
        if (status != HASHATTN_OK)
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "memory");
        small_run_remove(small.run);
        assert_true(n < 5000);
    }
    pool_free(&small.host, setup.pool);
    small_run_free(&small);
}

static void failing_allocations_of_resuming_lose_nothing(void **state)
{
    (void)state;
    struct small_run small;
    small_run_init(&small, "yoso", 24, 3);
    struct watcher stopping = {.stop_at = 9};
    check_status(&small.host, train(&small, small.run, 1, &stopping, false), HASHATTN_INTERRUPTED, NULL);
    const char *why;
    struct train_setup setup = {.kernels = kernels_named("auto", &why)};
    check_status(&small.host, pool_new(&small.host, 1, &setup.pool), HASHATTN_OK, NULL);
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long n = 0; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        status = train_resume(&failing.host, &setup, small.run, 0);
        assert_int_equal(failing.outstanding, 0);
        if (status != HASHATTN_OK)
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "memory");
        assert_true(n < 5000);
    }
    pool_free(&small.host, setup.pool);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_survived_or_named),
        cmocka_unit_test(a_best_model_that_cannot_be_written_does_not_count),
        cmocka_unit_test(a_file_system_without_locks_is_a_warning),
        cmocka_unit_test(two_warnings_of_one_moment_are_both_told),
        cmocka_unit_test(a_killed_extension_is_whole_or_none),
        cmocka_unit_test(a_run_killed_in_its_first_save_goes_on),
        cmocka_unit_test(a_run_that_lost_a_file_is_kept),
        cmocka_unit_test(a_lost_best_model_is_replaced),
        cmocka_unit_test(a_best_model_lost_at_the_end_has_a_successor),
        cmocka_unit_test(another_run_in_its_place_is_left_alone),
        cmocka_unit_test(a_run_has_one_trainer),
        cmocka_unit_test(numbers_that_overflow_stop_the_run),
        cmocka_unit_test(parameters_that_overflow_are_not_saved),
        cmocka_unit_test(every_failing_allocation_is_named),
        cmocka_unit_test(failing_allocations_of_resuming_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
