/* Any bytes as a batch of CIFAR-10, and as images of MNIST with as many labels: examples have whole lengths
   and labels in range; a refusal names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "io/idx.h"
#include "support/labels.h"
#include "support/task_case.h"

static void check(struct host *host, const struct task_options *options, size_t bytes)
{
    const struct task *task = task_find("image");
    struct task_facts facts;
    struct dataset dataset = {0};
    hashattn_status status = task->facts(host, options, fuzz_directory, NULL, &facts);
    if (status == HASHATTN_OK) {
        FUZZ_CHECK(facts.max_len >= 1 && facts.max_len <= 65536);
        status = task->load(host, options, &facts, fuzz_directory, SPLIT_TRAIN, 1, &dataset);
    }
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    FUZZ_CHECK(status == HASHATTN_OK || strstr(host->message, "/tmp/") == host->message ||
               strstr(host->message, "too few to cut") != NULL);
    for (size_t i = 0; i < dataset.count; i++) {
        FUZZ_CHECK(dataset.offsets[i + 1] - dataset.offsets[i] == facts.max_len);
        FUZZ_CHECK(label_of(&dataset, i) >= 0 && label_of(&dataset, i) < 10);
    }
    for (size_t i = 0; dataset.count > 0 && i < dataset.offsets[dataset.count]; i++)
        FUZZ_CHECK(dataset.ids[i] < 256);
    FUZZ_CHECK(dataset.count <= bytes);
    dataset_free(host, &dataset);
    task_facts_free(host, &facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char labels[8 + 256];
    const struct task_options options = task_options_of("image", "");
    struct host host;
    struct idx idx;
    host_init(&host);
    const char *path = fuzz_file("data_batch_1.bin", data, size);
    check(&host, &options, size);
    fuzz_remove(path);
    size_t count =
        idx_parse(&host, data, size, 3, &idx) == HASHATTN_OK && idx.shape[0] <= 256 ? idx.shape[0] : 1;
    memcpy(labels, "\0\0\10\1\0\0", 6);
    labels[6] = (unsigned char)(count / 256);
    labels[7] = (unsigned char)count;
    for (size_t i = 0; i < count; i++)
        labels[8 + i] = (unsigned char)(i % 10);
    path = fuzz_file("train-images-idx3-ubyte", data, size);
    const char *labels_path = fuzz_file("train-labels-idx1-ubyte", labels, 8 + count);
    check(&host, &options, size);
    fuzz_remove(path);
    fuzz_remove(labels_path);
    return 0;
}
