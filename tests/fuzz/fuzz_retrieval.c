/* Any bytes as pairs of documents: every example has two sequences in range; the splits cover the whole file;
   a refusal names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "support/labels.h"
#include "support/task_case.h"

enum { MAX_LEN = 30 }; /* cuts some of the corpus */

static size_t check(struct host *host, hashattn_status status, const struct task_facts *facts,
                    struct dataset *dataset, int32_t least)
{
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    size_t count = status == HASHATTN_OK ? dataset->count : 0;
    for (size_t s = 0; s < 2 * count; s++) {
        size_t start = dataset->offsets[s], length = dataset->offsets[s + 1] - start;
        FUZZ_CHECK(length >= 1 && length <= MAX_LEN);
        for (size_t k = 0; k < length; k++)
            FUZZ_CHECK(dataset->ids[start + k] >= 1 && dataset->ids[start + k] <= 256);
    }
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(label_of(dataset, i) >= least && label_of(dataset, i) < (int32_t)facts->num_classes);
    FUZZ_CHECK(count == 0 || dataset->pairs);
    dataset_free(host, dataset);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"train.jsonl", "train.tsv", "new_aan_pairs.train.tsv"};
    const struct task *task = task_find("retrieval");
    const struct task_options options = task_options_of("retrieval", "tokens=bytes max_len=30");
    struct host host;
    host_init(&host);
    for (int format = 0; format < 3; format++) {
        const char *path = fuzz_file(names[format], data, size);
        struct task_facts facts;
        struct dataset dataset;
        if (task->facts(&host, &options, fuzz_directory, NULL, &facts) == HASHATTN_OK) {
            size_t loaded = 0;
            hashattn_status status = task_stream_whole(&host, "retrieval", &options, &facts, path, &dataset);
            size_t pairs = check(&host, status, &facts, &dataset, 0);
            for (enum split split = 0; split < SPLIT_COUNT; split++) {
                status = task->load(&host, &options, &facts, fuzz_directory, split, 1, &dataset);
                loaded += check(&host, status, &facts, &dataset, 0);
            }
            FUZZ_CHECK(loaded == pairs || (pairs == 2 && loaded == 0));
            task_facts_free(&host, &facts);
        }
        fuzz_remove(path);
    }
    return 0;
}
