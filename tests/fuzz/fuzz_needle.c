/* Any bytes as a training file of needles: an accepted file has ids in range; a refusal names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "support/labels.h"
#include "tasks/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct task *task = task_find("needle");
    int64_t options[2]; /* seq_len and marks: only for generating, unused here */
    struct task_facts facts;
    struct dataset dataset;
    struct host host;
    host_init(&host);
    FUZZ_CHECK(task->options_size == sizeof options);
    options_preset(task->options, options);
    fuzz_file("train.tsv", data, size);
    hashattn_status status = task->facts(&host, options, fuzz_directory, NULL, &facts);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    if (status == HASHATTN_OK) {
        FUZZ_CHECK(facts.max_len >= 1 && facts.max_len <= size);
        status = task->load(&host, options, &facts, fuzz_directory, SPLIT_TRAIN, 1, &dataset);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        for (size_t i = 0; i < dataset.count; i++) {
            size_t start = dataset.offsets[i], length = dataset.offsets[i + 1] - start;
            FUZZ_CHECK(length >= 1 && length <= facts.max_len);
            FUZZ_CHECK(label_of(&dataset, i) >= 0 && label_of(&dataset, i) < 16);
            for (size_t k = 0; k < length; k++)
                FUZZ_CHECK(dataset.ids[start + k] >= 1 && dataset.ids[start + k] < facts.vocab_size);
        }
        dataset_free(&host, &dataset);
    }
    task_facts_free(&host, &facts);
    return 0;
}
