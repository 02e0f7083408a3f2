/* Batches of neighbouring sequences up to INFERENCE_ROWS rows, or one longer sequence.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/inference.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "models/model_space.h"

hashattn_status inference_check(struct host *host, const struct inference *inference,
                                const struct inference_input *input)
{
    const struct model_config *config = model_config_of(inference->model);
    size_t longest = 0;
    for (size_t s = 0; s < input->num_sequences; s++) {
        size_t first = input->offsets[s], end = input->offsets[s + 1], length = end - first;
        FAIL_IF(end <= first, host, HASHATTN_INVALID, "sequence %zu is empty", s);
        FAIL_IF(length > (size_t)config->max_len, host, HASHATTN_INVALID,
                "sequence %zu has %zu tokens, the model has positions for %lld", s, length,
                (long long)config->max_len);
        for (size_t i = first; i < end; i++)
            FAIL_IF(input->ids[i] >= config->vocab_size, host, HASHATTN_INVALID,
                    "sequence %zu has id %u at token %zu, the model has ids 0 to %lld", s,
                    (unsigned)input->ids[i], i - first, (long long)config->vocab_size - 1);
        for (size_t i = first; input->segments != NULL && i < end; i++)
            FAIL_IF(input->segments[i] >= config->num_segments, host, HASHATTN_INVALID,
                    "sequence %zu has segment %u at token %zu, the model has segments 0 to %lld", s,
                    (unsigned)input->segments[i], i - first, (long long)config->num_segments - 1);
        longest = size_max(longest, length);
    }
    return model_fit(host, inference->model, longest);
}

/* A batch and its memory, which is kept for the next one if it is large enough. */
struct batch {
    size_t first, count; /* sequences */
    size_t *offsets;     /* (count + 1) from 0 */
    struct model_batch packed;
    struct model_space space;
    struct model_pass *pass; /* after its forward */
};

static void batch_free(struct host *host, struct batch *batch)
{
    memory_free(host, batch->offsets);
    model_space_free(host, &batch->space);
}

/* The number of sequences from `first` on that fit into a batch. */
static size_t count_of(const struct inference_input *input, size_t first)
{
    size_t count = 1;
    while (first + count < input->num_sequences &&
           input->offsets[first + count + 1] - input->offsets[first] <= INFERENCE_ROWS)
        count++;
    return count;
}

/* Runs the forward pass of the batch that begins at sequence `first`. */
static hashattn_status run_batch(struct host *host, const struct inference *inference,
                                 const struct inference_input *input, size_t first, struct batch *batch)
{
    size_t row = input->offsets[first];
    batch->first = first;
    batch->count = count_of(input, first);
    for (size_t s = 0; s <= batch->count; s++)
        batch->offsets[s] = input->offsets[first + s] - row;
    batch->packed = (struct model_batch){
        .kernels = inference->kernels,
        .pool = inference->pool,
        .num_sequences = batch->count,
        .offsets = batch->offsets,
        .input = {.ids = input->ids + row,
                  .segments = input->segments == NULL ? NULL : input->segments + row},
        .random_key = random_key(inference->seed, RANDOM_EVALUATION, 0),
        .profile = inference->profile,
    };
    TRY(model_space_open(host, &batch->space, inference->model, &batch->packed, inference->values,
                         &batch->pass));
    model_forward(batch->pass);
    return HASHATTN_OK;
}

static hashattn_status batch_new(struct host *host, const struct inference_input *input, struct batch *batch)
{
    void *block;
    memset(batch, 0, sizeof *batch);
    TRY(memory_new(host, size_sum(input->num_sequences, 1), sizeof *batch->offsets, "the offsets of a batch",
                   &block));
    batch->offsets = block;
    return HASHATTN_OK;
}

hashattn_status inference_rows(struct host *host, const struct inference *inference,
                               const struct inference_input *input, inference_rows_callback *callback,
                               void *user)
{
    struct batch batch;
    hashattn_status status;
    TRY(batch_new(host, input, &batch));
    for (size_t first = 0; first < input->num_sequences; first += batch.count) {
        TRY_DONE(run_batch(host, inference, input, first, &batch));
        if (callback(user, first, batch.count, model_rows(batch.pass)))
            TRY_DONE(host_fail(host, HASHATTN_INTERRUPTED, "stopped after %zu of %zu sequences",
                               first + batch.count, input->num_sequences));
    }
    status = HASHATTN_OK;
done:
    batch_free(host, &batch);
    return status;
}

hashattn_status inference_scores(struct host *host, const struct inference *inference,
                                 const struct inference_input *input, const size_t *places, size_t n,
                                 float *scores)
{
    struct batch batch;
    void *block = NULL;
    size_t width = model_num_scores(inference->model), done = 0;
    hashattn_status status;
    TRY(batch_new(host, input, &batch));
    TRY_DONE(memory_new(host, n, sizeof(size_t), "the places of scores", &block));
    size_t *local = block;
    for (size_t first = 0; first < input->num_sequences && done < n; first += count_of(input, first)) {
        size_t row = input->offsets[first], end = input->offsets[first + count_of(input, first)], count = 0;
        for (; done + count < n && places[done + count] < end; count++)
            local[count] = places[done + count] - row;
        if (count == 0)
            continue;
        TRY_DONE(run_batch(host, inference, input, first, &batch));
        model_score_rows(batch.pass, local, count, scores + done * width);
        done += count;
    }
    status = HASHATTN_OK;
done:
    memory_free(host, block);
    batch_free(host, &batch);
    return status;
}
