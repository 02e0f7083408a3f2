/* The directory of a run: one trainer at a time, and removal of the run's own files only.
   Planted and caught: leftovers removed while another process trains; a file of the user's that looks like
   one removed; the lock left behind by a run that never began; a file of a state forgotten; a run that took
   the place of the locked one not seen.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_folder.h"

#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "support/folder.h"

static bool has(const struct folder *folder, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return file_exists(path);
}

static void a_run_is_locked_and_cleared_of_leftovers(void **state)
{
    struct folder *folder = *state;
    static const char *const leftovers[] = {"last.safetensors.next.tmp-0123abcd", "trainer.json.tmp-ffffffff",
                                            "model.safetensors.tmp-00000000", "log.jsonl.tmp-12345678"};
    static const char *const others[] = {"y.npy.tmp-0123abcd",           "trainer.json.tmp",
                                         "trainer.json.tmp-0123abc",     "trainer.json.tmp-0123abcde",
                                         "trainer.json.tmp-0123ABCD",    "trainer.json.tmp-0123abcd~",
                                         "trainer.json.old.tmp-0123abcd"};
    enum { LEFTOVERS = sizeof leftovers / sizeof *leftovers, OTHERS = sizeof others / sizeof *others };
    for (int i = 0; i < OTHERS; i++)
        folder_put_text(folder, others[i], "the user's");
    struct lock lock, second;
    assert_false(run_folder_is_locked(folder->path));
    check_status(&folder->host, run_folder_lock(&folder->host, folder->path, &lock), HASHATTN_OK, NULL);
    assert_true(run_folder_is_locked(folder->path));
    for (int i = 0; i < LEFTOVERS; i++)
        folder_put_text(folder, leftovers[i], "being written");
    check_status(&folder->host, run_folder_lock(&folder->host, folder->path, &second), HASHATTN_INVALID,
                 "this run is being trained: ");
    char want[64];
    snprintf(want, sizeof want, "/lock is held by process %ld on ", (long)getpid());
    check_status(&folder->host, HASHATTN_INVALID, HASHATTN_INVALID, want);
    for (int i = 0; i < LEFTOVERS; i++)
        assert_true(has(folder, leftovers[i]));
    lock_release(&lock);
    check_status(&folder->host, run_folder_lock(&folder->host, folder->path, &lock), HASHATTN_OK, NULL);
    for (int i = 0; i < LEFTOVERS; i++)
        assert_false(has(folder, leftovers[i]));
    for (int i = 0; i < OTHERS; i++)
        assert_true(has(folder, others[i]));
    lock_release(&lock);
}

static void another_run_in_its_place_is_refused(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    struct lock lock, none = {-1};
    check_status(host, run_folder_lock(host, folder->path, &lock), HASHATTN_OK, NULL);
    check_status(host, run_folder_check_lock(host, folder->path, &lock), HASHATTN_OK, NULL);
    folder_remove(folder, "lock");
    check_status(host, run_folder_check_lock(host, folder->path, &lock), HASHATTN_OK, NULL);
    folder_put_text(folder, "lock", "");
    check_status(host, run_folder_check_lock(host, folder->path, &lock), HASHATTN_INVALID,
                 " is another run now, or has another lock: ");
    check_status(host, run_folder_check_lock(host, folder->path, &none), HASHATTN_OK, NULL);
    lock_release(&lock);
}

static void a_folder_is_new_old_or_neither(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    char run[100];
    snprintf(run, sizeof run, "%s/run", folder->path);
    check_status(host, run_folder_check_new(host, run), HASHATTN_OK, NULL);
    check_status(host, run_folder_check_old(host, run), HASHATTN_OK, NULL); /* only config.json is missing */
    check_status(host, file_make_directory(host, run, false), HASHATTN_OK, NULL);
    check_status(host, run_folder_check_new(host, run), HASHATTN_INVALID, "run exists already and has no");
    check_status(host, run_folder_check_old(host, run), HASHATTN_BAD_FILE, "run has no config.json");
    folder_put_text(folder, "run/config.json", "{}");
    check_status(host, run_folder_check_new(host, run), HASHATTN_INVALID,
                 "run exists already; a run is never overwritten: resume it, or choose another name");
    check_status(host, run_folder_check_old(host, run), HASHATTN_OK, NULL);
    static const char *const states[] = {"trainer.json", "last.safetensors", "optimizer.safetensors",
                                         "model.safetensors"};
    folder_put_text(folder, "run/last.safetensors.next", "");
    assert_false(run_folder_has_state(host, run));
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "run/%s", states[i]);
        folder_put_text(folder, name, "");
        assert_true(run_folder_has_state(host, run));
        folder_remove(folder, name);
        assert_false(run_folder_has_state(host, run));
    }
    run_folder_remove(host, run);
}

static void a_run_that_never_began_is_removed(void **state)
{
    struct folder *folder = *state;
    char run[100], path[200];
    struct lock lock;
    snprintf(run, sizeof run, "%s/run", folder->path);
    for (int with_other = 0; with_other < 2; with_other++) {
        check_status(&folder->host, file_make_directory(&folder->host, run, false), HASHATTN_OK, NULL);
        check_status(&folder->host, run_folder_lock(&folder->host, run, &lock), HASHATTN_OK, NULL);
        folder_put_text(folder, "run/config.json", "{}");
        folder_put_text(folder, "run/last.safetensors.next", "");
        if (with_other)
            folder_put_text(folder, "run/notes.txt", "the user's");
        run_folder_remove(&folder->host, run);
        lock_release(&lock);
        assert_int_equal(has(folder, "run"), with_other);
        assert_int_equal(has(folder, "run/notes.txt"), with_other);
        assert_false(has(folder, "run/config.json"));
    }
    snprintf(path, sizeof path, "%s/notes.txt", run);
    unlink(path);
    rmdir(run);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_folder_is_new_old_or_neither),
        IN_FOLDER(a_run_is_locked_and_cleared_of_leftovers),
        IN_FOLDER(another_run_in_its_place_is_refused),
        IN_FOLDER(a_run_that_never_began_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
