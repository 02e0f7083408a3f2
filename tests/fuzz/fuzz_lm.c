/* Any bytes as a text and as a vocabulary: adjacent segments share their border and hold known ids; the
   splits cover the whole text; an accepted vocabulary is a table of its lines; a refusal names the file.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz_file.h"
#include "tasks/task.h"
#include "tasks/words.h"

struct options { /* of the task */
    int vocabulary;
    int64_t seq_len, max_words;
};

static size_t check(struct host *host, hashattn_status status, const struct task_facts *facts,
                    struct dataset *dataset)
{
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
    size_t count = status == HASHATTN_OK ? dataset->count : 0, asked = 0;
    for (size_t s = 0; s < count; s++) {
        size_t start = dataset->offsets[s], length = dataset_length(dataset, s);
        FUZZ_CHECK(length >= 1 && length <= facts->max_len);
        FUZZ_CHECK(s == 0 || dataset->ids[start] == dataset->ids[start - 1]);
        for (size_t k = 0; k <= length; k++)
            FUZZ_CHECK(dataset->ids[start + k] >= 1 && dataset->ids[start + k] < facts->vocab_size);
        asked += length;
    }
    FUZZ_CHECK(dataset->num_unknown <= asked);
    dataset_free(host, dataset);
    return asked;
}

static void check_vocabulary(struct host *host, const uint8_t *data, size_t size)
{
    size_t count = 2 + (size > 0 ? data[size - 1] % 8 : 0);
    struct words *words;
    hashattn_status status = words_parse(host, (const char *)data, size, count, &words);
    FUZZ_CHECK(status == HASHATTN_OK || (status == HASHATTN_BAD_FILE && words == NULL));
    for (size_t id = 1; status == HASHATTN_OK && id <= count; id++)
        FUZZ_CHECK(words_find(words, words_get(words, id)) == id);
    words_free(host, words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct task *task = task_find("lm");
    struct host host;
    host_init(&host);
    const char *path = fuzz_file("train.txt", data, size);
    for (int vocabulary = 0; vocabulary < 2; vocabulary++) {
        const struct options options = {vocabulary, 5, 7};
        struct task_facts facts;
        struct dataset dataset;
        hashattn_status status = task->facts(&host, &options, fuzz_directory, NULL, &facts);
        FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE);
        if (status != HASHATTN_OK)
            continue;
        size_t asked = 0;
        for (enum split split = 0; split < SPLIT_COUNT; split++) {
            status = task->load(&host, &options, &facts, fuzz_directory, split, 1, &dataset);
            asked += check(&host, status, &facts, &dataset);
        }
        FUZZ_CHECK(vocabulary == 1 || asked == (size > 11 ? size - 1 : 0));
        task_facts_free(&host, &facts);
    }
    fuzz_remove(path);
    check_vocabulary(&host, data, size);
    return 0;
}
