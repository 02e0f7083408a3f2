/* Any bytes as a file of GLUE, as a training and as a validation file, of every set: an accepted file has
   ids, segments, labels and scores in range, and so has the file as one to predict; a refusal names the file.
   The first byte selects the set.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "support/labels.h"
#include "tasks/task.h"

struct options { /* as in glue.c */
    int name;
    int64_t max_len, vocab_size;
};

static void check_dataset(const struct task_facts *facts, const struct dataset *dataset)
{
    for (size_t i = 0; i < dataset->count; i++) {
        size_t length = dataset->offsets[i + 1] - dataset->offsets[i];
        FUZZ_CHECK(length >= 1 && length <= 20);
        for (size_t k = dataset->offsets[i]; k < dataset->offsets[i + 1]; k++)
            FUZZ_CHECK(dataset->ids[k] < facts->vocab_size &&
                       (dataset->segments == NULL || dataset->segments[k] < facts->num_segments));
        if (facts->num_classes > 0)
            FUZZ_CHECK(label_of(dataset, i) >= 0 && (size_t)label_of(dataset, i) < facts->num_classes);
        else
            FUZZ_CHECK(dataset->targets[0].floats[i] >= -1000 && dataset->targets[0].floats[i] <= 1000);
    }
}

static hashattn_status check_part(struct host *host, void *context, struct dataset *part)
{
    const struct task_facts *facts = context;
    (void)host;
    FUZZ_CHECK(part->count >= 1 && part->count <= 3);
    for (size_t k = 0; k < part->offsets[part->count]; k++)
        FUZZ_CHECK(part->ids[k] < facts->vocab_size &&
                   (part->segments == NULL || part->segments[k] < facts->num_segments));
    return HASHATTN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct task *task = task_find("glue");
    struct options options;
    struct task_facts facts;
    struct dataset dataset;
    struct host host;
    if (size == 0)
        return 0;
    host_init(&host);
    options_preset(task->options, &options);
    options.name = 1 + data[0] % 8;
    options.max_len = 20;
    options.vocab_size = 270;
    const char *path = fuzz_file("train.tsv", data + 1, size - 1);
    hashattn_status status = task->facts(&host, &options, fuzz_directory, NULL, &facts);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE || status == HASHATTN_INVALID);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(strstr(host.message, path) == host.message);
        return 0;
    }
    for (int split = SPLIT_TRAIN; split <= SPLIT_VALID; split++) { /* the second is cut out of the first */
        status = task->load(&host, &options, &facts, fuzz_directory, (enum split)split, 1, &dataset);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        check_dataset(&facts, &dataset);
        dataset_free(&host, &dataset);
    }
    const struct dataset_stream stream = {.batch = 3, .visit = check_part, .context = &facts};
    options.name = data[0] / 8 % 2 == 0 ? 0 : options.name;
    status = task->stream_file(&host, &options, &facts, path, &stream);
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    task_facts_free(&host, &facts);
    return 0;
}
