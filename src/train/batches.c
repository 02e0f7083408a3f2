/* Places to examples to packed rows. Per step a copy of the batch's tokens (tens of kilobytes); per epoch one
   permutation (a few nanoseconds per example).
   SPDX-License-Identifier: Apache-2.0 */
#include "train/batches.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

size_t batches_max_tokens(const struct dataset *dataset, size_t batch)
{
    size_t longest = 0;
    for (size_t s = 0; s < dataset_sequences(dataset); s++) {
        size_t length = dataset_length(dataset, s);
        longest = length > longest ? length : longest;
    }
    return size_product(longest, size_product(batch, dataset->pairs ? 2 : 1));
}

hashattn_status packed_examples_new(struct host *host, const struct dataset *dataset, size_t batch,
                                    struct packed_examples *packed)
{
    hashattn_status status;
    void *block;
    size_t sequences = size_product(batch, dataset->pairs ? 2 : 1);
    memset(packed, 0, sizeof *packed);
    TRY_DONE(memory_new_zeroed(host, size_sum(sequences, 1), sizeof *packed->offsets, "offsets of a batch",
                               &block));
    packed->offsets = block;
    TRY_DONE(memory_new(host, batches_max_tokens(dataset, batch), sizeof *packed->tokens, "tokens of a batch",
                        &block));
    packed->tokens = block;
    TRY_DONE(memory_new(host, dataset->next_token ? batches_max_tokens(dataset, batch) : batch,
                        sizeof *packed->labels, "labels of a batch", &block));
    packed->labels = block;
    TRY_DONE(memory_new(host, sequences, sizeof *packed->sample_ids, "ids of a batch", &block));
    packed->sample_ids = block;
done:
    if (status != HASHATTN_OK)
        packed_examples_free(host, packed);
    return status;
}

void packed_examples_free(struct host *host, struct packed_examples *packed)
{
    memory_free(host, packed->sample_ids);
    memory_free(host, packed->labels);
    memory_free(host, packed->tokens);
    memory_free(host, packed->offsets);
    memset(packed, 0, sizeof *packed);
}

static void append(struct packed_examples *packed, const struct dataset *dataset, size_t example, uint64_t id)
{
    size_t each = dataset->pairs ? 2 : 1;
    for (size_t s = 0; s < each; s++) {
        size_t length = dataset_length(dataset, example * each + s), at = packed->offsets[packed->count];
        const uint16_t *from = dataset->tokens + dataset->offsets[example * each + s];
        memcpy(packed->tokens + at, from, length * sizeof *packed->tokens);
        for (size_t i = 0; dataset->next_token && i < length; i++)
            packed->labels[at + i] = from[i + 1];
        packed->sample_ids[packed->count] = id * each + s;
        packed->offsets[++packed->count] = at + length;
    }
    if (!dataset->next_token)
        packed->labels[packed->examples] = dataset->labels[example];
    packed->examples++;
}

void packed_examples_range(struct packed_examples *packed, const struct dataset *dataset, size_t first,
                           size_t count)
{
    packed->examples = packed->count = 0;
    for (size_t i = first; i < first + count; i++)
        append(packed, dataset, i, i);
}

hashattn_status batches_new(struct host *host, const struct dataset *dataset, size_t batch, uint64_t seed,
                            struct batches *batches)
{
    memset(batches, 0, sizeof *batches);
    FAIL_IF(dataset->count == 0, host, HASHATTN_BAD_FILE, "the training set has no example");
    FAIL_IF(dataset->count > UINT32_MAX, host, HASHATTN_REFUSED,
            "the training set has %zu examples, at most %u can be ordered", dataset->count, UINT32_MAX);
    void *block;
    TRY(packed_examples_new(host, dataset, batch, &batches->packed));
    hashattn_status status =
        memory_new(host, dataset->count, sizeof *batches->order, "order of an epoch", &block);
    if (status != HASHATTN_OK) {
        batches_free(host, batches);
        return status;
    }
    batches->order = block;
    batches->dataset = dataset;
    batches->batch = batch;
    batches->key = random_key(seed, RANDOM_SHUFFLE, 0);
    batches->epoch = UINT64_MAX;
    return HASHATTN_OK;
}

void batches_free(struct host *host, struct batches *batches)
{
    memory_free(host, batches->order);
    packed_examples_free(host, &batches->packed);
    memset(batches, 0, sizeof *batches);
}

/* The example at a place of the endless walk. */
static size_t example_at(struct batches *batches, uint64_t place)
{
    uint64_t epoch = place / batches->dataset->count;
    if (epoch != batches->epoch) {
        random_permutation(random_key(batches->key, RANDOM_SHUFFLE, epoch), batches->order,
                           batches->dataset->count);
        batches->epoch = epoch;
    }
    return batches->order[place % batches->dataset->count];
}

size_t batches_tokens(struct batches *batches, uint64_t first, uint64_t count)
{
    const struct dataset *dataset = batches->dataset;
    size_t each = dataset->pairs ? 2 : 1, tokens = 0;
    for (uint64_t place = first * batches->batch; place < (first + count) * batches->batch; place++) {
        size_t example = example_at(batches, place);
        for (size_t s = 0; s < each; s++)
            tokens += dataset_length(dataset, example * each + s);
    }
    return tokens;
}

uint64_t batches_largest(struct batches *batches, uint64_t count)
{
    size_t most = 0;
    uint64_t largest = 0, look = BATCHES_LOOK / batches->batch + 1;
    for (uint64_t i = 0; i < count && i < look; i++) {
        size_t tokens = batches_tokens(batches, i, 1);
        largest = tokens > most ? i : largest;
        most = tokens > most ? tokens : most;
    }
    return largest;
}

const struct packed_examples *batches_get(struct batches *batches, uint64_t step)
{
    const struct dataset *dataset = batches->dataset;
    batches->packed.examples = batches->packed.count = 0;
    for (size_t i = 0; i < batches->batch; i++) {
        uint64_t place = step * batches->batch + i;
        append(&batches->packed, dataset, example_at(batches, place), place);
    }
    assert(batches->packed.examples == batches->batch);
    return &batches->packed;
}
