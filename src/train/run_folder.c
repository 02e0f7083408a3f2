/* Two processes that train the same run would leave files of different steps, so the first locks the file
   "lock".
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_folder.h"

#include "base/file.h"
#include "base/file_writer.h"

static const char *const names[] = {"lock",
                                    "config.json",
                                    "vocab.txt",
                                    "tokenizer.json",
                                    "last.safetensors.next",
                                    "optimizer.safetensors.next",
                                    "trainer.json",
                                    "last.safetensors",
                                    "optimizer.safetensors",
                                    "model.safetensors",
                                    "stopped.safetensors",
                                    "log.jsonl",
                                    NULL};

static bool has(struct host *host, const char *run, const char *name)
{
    char path[FILE_PATH];
    return file_join(host, run, name, path, sizeof path) == HASHATTN_OK && file_exists(path);
}

hashattn_status run_folder_check_new(struct host *host, const char *run)
{
    if (!file_exists(run))
        return HASHATTN_OK;
    FAIL_IF(has(host, run, "config.json"), host, HASHATTN_INVALID,
            "%.300s exists already; a run is never overwritten: resume it, or choose another name", run);
    return host_fail(
        host, HASHATTN_INVALID,
        "%.300s exists already and has no config.json: it is not a run, or one that was killed before "
        "it had saved anything; remove it or choose another name",
        run);
}

hashattn_status run_folder_check_old(struct host *host, const char *run)
{
    FAIL_IF(
        file_exists(run) && !has(host, run, "config.json"), host, HASHATTN_BAD_FILE,
        "%.300s has no config.json: it is not a run, or one that was killed before it had saved anything and "
        "must be restarted",
        run);
    return HASHATTN_OK;
}

bool run_folder_has_state(struct host *host, const char *run)
{
    static const char *const files[] = {"trainer.json", "last.safetensors", "optimizer.safetensors",
                                        "model.safetensors"};
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        found |= has(host, run, files[i]);
    return found;
}

hashattn_status run_folder_lock(struct host *host, const char *run, struct lock *lock)
{
    char path[FILE_PATH];
    TRY(file_join(host, run, names[0], path, sizeof path));
    hashattn_status status = lock_take(host, path, lock);
    if (status == HASHATTN_OK)
        file_remove_leftovers(run, names);
    if (status == HASHATTN_INVALID)
        host_prefix(host, "this run is being trained");
    return status;
}

hashattn_status run_folder_check_lock(struct host *host, const char *run, const struct lock *lock)
{
    char path[FILE_PATH];
    TRY(file_join(host, run, names[0], path, sizeof path));
    FAIL_IF(lock_is_replaced(path, lock), host, HASHATTN_INVALID,
            "%.300s is another run now, or has another lock: the one that this process trains was moved or "
            "removed, and nothing more is saved",
            run);
    return HASHATTN_OK;
}

bool run_folder_is_locked(const char *run)
{
    struct host host;
    char path[FILE_PATH];
    host_init(&host);
    return file_join(&host, run, names[0], path, sizeof path) == HASHATTN_OK && lock_is_held(path);
}

void run_folder_drop_stopped(struct host *host, const char *run)
{
    char path[FILE_PATH];
    if (file_join(host, run, "stopped.safetensors", path, sizeof path) == HASHATTN_OK)
        file_remove(path);
}

void run_folder_remove(struct host *host, const char *run)
{
    file_remove_directory(host, run, names);
}
