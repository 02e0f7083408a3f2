/* Maps positions to examples. One permutation per epoch, a few nanoseconds per example.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/batches.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

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
    batches->packed.mask_key = random_key(seed, RANDOM_MASK, 0);
    return HASHATTN_OK;
}

void batches_free(struct host *host, struct batches *batches)
{
    memory_free(host, batches->order);
    packed_examples_free(host, &batches->packed);
    memset(batches, 0, sizeof *batches);
}

/* The example at a position of the endless sequence of epochs. */
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

/* Rows of the examples at positions first .. end - 1. */
static size_t rows_between(struct batches *batches, uint64_t first, uint64_t end)
{
    const struct dataset *dataset = batches->dataset;
    size_t each = dataset->pairs ? 2 : 1, rows = 0;
    for (uint64_t place = first; place < end; place++) {
        size_t example = example_at(batches, place);
        for (size_t s = 0; s < each; s++)
            rows += dataset_length(dataset, example * each + s);
    }
    return rows;
}

void batches_counts(struct batches *batches, uint64_t first, uint64_t count, double *counts)
{
    const struct dataset *dataset = batches->dataset;
    for (size_t k = 0; k < dataset->num_targets; k++)
        counts[k] = 0;
    for (uint64_t place = first * batches->batch; place < (first + count) * batches->batch; place++) {
        size_t example = example_at(batches, place);
        for (size_t k = 0; k < dataset->num_targets; k++)
            counts[k] += packing_weight(dataset, k, example);
    }
}

uint64_t batches_largest(struct batches *batches, uint64_t count, size_t first, size_t number)
{
    size_t most = 0;
    uint64_t largest = 0, look = BATCHES_LOOK / batches->batch + 1;
    for (uint64_t i = 0; i < count && i < look; i++) {
        uint64_t place = i * batches->batch + first;
        size_t rows = rows_between(batches, place, place + number);
        largest = rows > most ? i : largest;
        most = rows > most ? rows : most;
    }
    return largest;
}

const struct packed_examples *batches_get_part(struct batches *batches, uint64_t step, size_t first,
                                               size_t number)
{
    packing_begin(&batches->packed);
    for (size_t i = first; i < first + number; i++) {
        uint64_t place = step * batches->batch + i;
        packing_add(&batches->packed, batches->dataset, example_at(batches, place), place);
    }
    packing_end(&batches->packed);
    return &batches->packed;
}
