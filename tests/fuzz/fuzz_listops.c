/* Any bytes as a validation file of ListOps: an accepted file has ids in range and correct values; a refusal
   names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "support/labels.h"
#include "tasks/listops.h"
#include "tasks/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char train[] = "Source\tTarget\n1\t1\n";
    const struct task *task = task_find("listops");
    struct listops_options options;
    struct task_facts facts;
    struct dataset dataset;
    struct host host;
    host_init(&host);
    options_preset(task->options, &options);
    options.max_len = 40; /* cuts some of the corpus */
    fuzz_file("basic_train.tsv", train, sizeof train - 1);
    const char *path = fuzz_file("basic_val.tsv", data, size);
    FUZZ_CHECK(task->facts(&host, &options, fuzz_directory, NULL, &facts) == HASHATTN_OK);
    for (options.check_labels = 0; options.check_labels < 2; options.check_labels++) {
        hashattn_status status =
            task->load(&host, &options, &facts, fuzz_directory, SPLIT_VALID, 1, &dataset);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        FUZZ_CHECK((status == HASHATTN_OK) == (dataset.count > 0));
        FUZZ_CHECK(status == HASHATTN_OK || strstr(host.message, path) == host.message);
        size_t cut = 0;
        for (size_t i = 0; i < dataset.count; i++) {
            const uint32_t *symbols = dataset.ids + dataset.offsets[i];
            size_t length = dataset.offsets[i + 1] - dataset.offsets[i];
            FUZZ_CHECK(length >= 1 && length <= 40 && label_of(&dataset, i) >= 0 &&
                       label_of(&dataset, i) <= 9);
            for (size_t k = 0; k < length; k++)
                FUZZ_CHECK(symbols[k] >= 1 && symbols[k] < LISTOPS_SYMBOLS);
            int value = listops_value(symbols, length);
            FUZZ_CHECK(value <= 9);
            if (options.check_labels && value != label_of(&dataset, i))
                cut++; /* only a cut expression has no value */
        }
        FUZZ_CHECK(cut <= dataset.num_cut);
        dataset_free(&host, &dataset);
    }
    task_facts_free(&host, &facts);
    return 0;
}
