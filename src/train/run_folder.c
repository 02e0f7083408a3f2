/* Two processes that train one run would leave files of different steps; so the first locks the file "lock".
   SPDX-License-Identifier: Apache-2.0 */
#include "train/run_folder.h"

#include "base/file.h"
#include "base/file_writer.h"

static const char *const names[] = {"lock",
                                    "config.json",
                                    "vocab.txt",
                                    "last.safetensors.next",
                                    "optimizer.safetensors.next",
                                    "trainer.json",
                                    "last.safetensors",
                                    "optimizer.safetensors",
                                    "model.safetensors",
                                    "log.jsonl",
                                    NULL};

hashattn_status run_folder_lock(struct host *host, const char *run, struct lock *lock)
{
    char path[4096];
    TRY(file_join(host, run, names[0], path, sizeof path));
    hashattn_status status = lock_take(host, path, lock);
    if (status == HASHATTN_OK)
        file_remove_leftovers(run, names);
    if (status == HASHATTN_INVALID)
        host_prefix(host, "this run is being trained");
    return status;
}

void run_folder_remove(struct host *host, const char *run)
{
    file_remove_directory(host, run, names);
}
