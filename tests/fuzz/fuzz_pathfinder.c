/* Any bytes as training pictures, and as metadata of the published layout beside the picture "a.pgm":
   examples have whole lengths and labels; a refusal names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "fuzz/fuzz_file.h"
#include "support/labels.h"
#include "support/task_case.h"

static void check(struct host *host)
{
    const struct task *task = task_find("pathfinder");
    const struct task_options options = task_options_of("pathfinder", "");
    struct task_facts facts;
    struct dataset dataset = {0};
    hashattn_status status = task->facts(host, &options, fuzz_directory, NULL, &facts);
    if (status == HASHATTN_OK)
        status = task->load(host, &options, &facts, fuzz_directory, SPLIT_TRAIN, 1, &dataset);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    FUZZ_CHECK(status == HASHATTN_OK || strstr(host->message, "/tmp/") == host->message ||
               strstr(host->message, "too few to cut") != NULL);
    for (size_t i = 0; i < dataset.count; i++) {
        FUZZ_CHECK(dataset.offsets[i + 1] - dataset.offsets[i] == facts.max_len);
        FUZZ_CHECK(label_of(&dataset, i) == 0 || label_of(&dataset, i) == 1);
    }
    for (size_t i = 0; dataset.count > 0 && i < dataset.offsets[dataset.count]; i++)
        FUZZ_CHECK(dataset.ids[i] < 256);
    dataset_free(host, &dataset);
    task_facts_free(host, &facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char picture[] = "P5 2 2 255 abcd";
    char folder[FUZZ_PATH];
    struct host host;
    host_init(&host);
    const char *path = fuzz_file("train.pgm", data, size);
    check(&host);
    fuzz_remove(path);
    snprintf(folder, sizeof folder, "%s/metadata", fuzz_directory);
    FUZZ_CHECK(mkdir(folder, 0700) == 0);
    path = fuzz_file("metadata/1.npy", data, size);
    const char *picture_path = fuzz_file("a.pgm", picture, sizeof picture - 1);
    check(&host);
    fuzz_remove(path);
    fuzz_remove(picture_path);
    FUZZ_CHECK(rmdir(folder) == 0);
    return 0;
}
