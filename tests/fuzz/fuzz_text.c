/* Any bytes as documents in each format: labels are sorted and in range; the splits cover the whole file; a
   refusal names the file; every file accepted for training is accepted for prediction, wrong ids aside; sets
   of labels ascend.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "support/labels.h"
#include "support/task_case.h"

enum { MAX_LEN = 30 }; /* cuts some of the corpus */

static size_t check(struct host *host, hashattn_status status, const struct task_facts *facts,
                    struct dataset *dataset, int32_t least)
{
    size_t count = dataset->count, longest = 0;
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    FUZZ_CHECK(status == HASHATTN_OK || strstr(host->message, "/tmp/") == host->message ||
               strstr(host->message, "too few to cut") != NULL);
    for (size_t i = 0; i < count; i++) {
        size_t start = dataset->offsets[i], length = dataset->offsets[i + 1] - start;
        FUZZ_CHECK(length >= 1 && length <= MAX_LEN);
        FUZZ_CHECK(label_of(dataset, i) >= least && label_of(dataset, i) < (int32_t)facts->num_classes);
        longest += length == MAX_LEN;
        for (size_t k = 0; k < length; k++)
            FUZZ_CHECK(dataset->ids[start + k] >= 1 && dataset->ids[start + k] <= 256);
    }
    FUZZ_CHECK(dataset->num_cut <= longest);
    dataset_free(host, dataset);
    return status == HASHATTN_OK ? count : 0;
}

/* The same file with any number of labels for a document. */
static void check_sets(struct host *host)
{
    const struct task *task = task_find("text");
    const struct task_options options =
        task_options_of("text", "tokens=bytes max_len=30 multi_label=true cut=middle");
    struct task_facts facts;
    struct dataset dataset;
    if (task->facts(host, &options, fuzz_directory, NULL, &facts) != HASHATTN_OK)
        return;
    hashattn_status status = task->load(host, &options, &facts, fuzz_directory, SPLIT_TRAIN, 1, &dataset);
    const struct target_set *set = &dataset.targets[0];
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    for (size_t i = 0; i < dataset.count; i++)
        for (size_t k = 0; k < set->ones[i].count; k++) {
            const uint32_t *place = set->places + set->ones[i].first + k;
            FUZZ_CHECK(*place < facts.num_classes && (k == 0 || place[-1] < *place));
        }
    dataset_free(host, &dataset);
    task_facts_free(host, &facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"train.jsonl", "train.tsv", "train.csv", "in.txt"};
    static char first[] = "a", second[] = "b";
    static char *labels[] = {first, second};
    const struct task_facts two = {.vocab_size = 257, .num_classes = 2, .max_len = MAX_LEN, .labels = labels};
    const struct task *task = task_find("text");
    const struct task_options options = task_options_of("text", "tokens=bytes max_len=30");
    struct dataset dataset;
    struct host host;
    host_init(&host);
    for (int format = 0; format < 4; format++) {
        const char *path = fuzz_file(names[format], data, size);
        hashattn_status status = task_stream_whole(&host, "text", &options, &two, path, &dataset);
        bool id = status != HASHATTN_OK && strstr(host.message, ": id is ") != NULL;
        size_t documents = check(&host, status, &two, &dataset, -1), loaded = 0;
        struct task_facts facts;
        if (format < 3 && task->facts(&host, &options, fuzz_directory, NULL, &facts) == HASHATTN_OK) {
            FUZZ_CHECK(facts.num_classes >= 2 && facts.num_classes <= 10000);
            for (size_t i = 1; i < facts.num_classes; i++)
                FUZZ_CHECK(strcmp(facts.labels[i - 1], facts.labels[i]) < 0);
            for (enum split split = 0; split < SPLIT_COUNT; split++) {
                status = task->load(&host, &options, &facts, fuzz_directory, split, 1, &dataset);
                loaded += check(&host, status, &facts, &dataset, 0);
            }
            FUZZ_CHECK(loaded == documents || id || (documents == 2 && loaded == 0));
            task_facts_free(&host, &facts);
        }
        if (format < 3)
            check_sets(&host);
        fuzz_remove(path);
    }
    return 0;
}
