/* Accuracy and loss on a data set: examples in their order, packed without padding, `batch` at a time. Every
   sequence hashes with the key of (seed, layer) alone, so a result does not depend on what else was in its
   batch.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "train/batches.h"
#include "train/metrics.h"

hashattn_status workspace_fit(struct host *host, struct workspace *workspace, size_t size)
{
    if (size <= workspace->size)
        return HASHATTN_OK;
    /* An eighth more, so that batches of creeping size do not allocate each time. */
    size_t larger = size_sum(workspace->size, workspace->size / 8);
    larger = larger > size ? larger : size;
    workspace_free(host, workspace);
    TRY(memory_new(host, larger, 1, "the activations of a batch", &workspace->block));
    workspace->size = larger;
    return HASHATTN_OK;
}

void workspace_free(struct host *host, struct workspace *workspace)
{
    memory_free(host, workspace->block);
    *workspace = (struct workspace){NULL, 0};
}

hashattn_status evaluate_check(struct host *host, const struct encoder *encoder,
                               const struct dataset *dataset)
{
    const struct encoder_config *config = encoder_config_of(encoder);
    size_t each = dataset->pairs ? 2 : 1;
    FAIL_IF(dataset->pairs != config->pairs, host, HASHATTN_BAD_FILE,
            "an example is %zu sequence%s, the model takes %d", each, each == 1 ? "" : "s",
            config->pairs ? 2 : 1);
    FAIL_IF(dataset->next_token != config->next_token, host, HASHATTN_BAD_FILE,
            "the data ask for %s, the model predicts %s", dataset->next_token ? "next tokens" : "labels",
            config->next_token ? "next tokens" : "labels");
    for (size_t s = 0; s < dataset_sequences(dataset); s++) {
        size_t i = s / each, length = dataset_length(dataset, s);
        FAIL_IF(length < 1 || length > (size_t)config->max_len, host, HASHATTN_BAD_FILE,
                "example %zu has %zu tokens, the model takes 1 to %lld", i, length,
                (long long)config->max_len);
        FAIL_IF(!config->next_token && dataset->labels[i] >= config->num_classes, host, HASHATTN_BAD_FILE,
                "example %zu has label number %d, the model knows %lld", i, (int)dataset->labels[i],
                (long long)config->num_classes);
        for (size_t at = dataset->offsets[s]; at < dataset->offsets[s + 1]; at++)
            FAIL_IF(dataset->tokens[at] < 1 || dataset->tokens[at] >= config->vocab_size, host,
                    HASHATTN_BAD_FILE, "example %zu has token id %d, the model takes 1 to %lld", i,
                    (int)dataset->tokens[at], (long long)config->vocab_size - 1);
    }
    return HASHATTN_OK;
}

/* What one evaluation allocates. */
struct buffers {
    struct packed_examples packed;
    float *logits;  /* (batch, classes) */
    float *room;    /* params_room, or NULL */
    size_t *counts; /* (classes, or ids of tokens) */
};

static void buffers_free(struct host *host, struct buffers *buffers)
{
    memory_free(host, buffers->counts);
    memory_free(host, buffers->logits);
    memory_free(host, buffers->room);
    packed_examples_free(host, &buffers->packed);
}

static hashattn_status buffers_new(struct host *host, const struct dataset *dataset, size_t batch,
                                   size_t classes, size_t kinds, size_t room, struct buffers *buffers)
{
    hashattn_status status;
    void *block;
    memset(buffers, 0, sizeof *buffers);
    TRY_DONE(packed_examples_new(host, dataset, batch, &buffers->packed));
    TRY_DONE(memory_new(host, size_product(batch, classes), sizeof(float), "logits", &block));
    buffers->logits = block;
    TRY_DONE(memory_new(host, kinds, sizeof(size_t), "counts of classes", &block));
    buffers->counts = block;
    TRY_DONE(memory_new(host, room, sizeof(float), "weights laid for products", &block));
    buffers->room = block;
done:
    if (status != HASHATTN_OK)
        buffers_free(host, buffers);
    return status;
}

/* Asks the callback between two batches whether to go on. */
static hashattn_status ask(struct host *host, const struct train_setup *setup, size_t done, size_t count,
                           const struct metrics *metrics, double seconds, size_t tokens)
{
    const struct train_event event = {.step = (int64_t)done,
                                      .steps = (int64_t)count,
                                      .loss = metrics_loss(metrics),
                                      .accuracy = metrics_accuracy(metrics),
                                      .valid_loss = NAN,
                                      .valid_accuracy = NAN,
                                      .best_accuracy = NAN,
                                      .best_loss = NAN,
                                      .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0,
                                      .seconds = seconds};
    FAIL_IF(setup->callback != NULL && setup->callback(setup->user, &event), host, HASHATTN_INTERRUPTED,
            "stopped after %zu of %zu examples", done, count);
    return HASHATTN_OK;
}

/* Share of the commonest label of the first `count` examples, or of the commonest token asked for. */
static double majority_of(const struct dataset *dataset, size_t count, size_t kinds, size_t *counts)
{
    size_t total = 0, largest = 0;
    if (!dataset->next_token)
        return metrics_majority(dataset->labels, count, kinds, counts);
    memset(counts, 0, kinds * sizeof *counts);
    for (size_t s = 0; s < count; s++) {
        for (size_t at = dataset->offsets[s] + 1; at < dataset->offsets[s + 1]; at++) {
            size_t seen = ++counts[dataset->tokens[at]];
            largest = seen > largest ? seen : largest;
        }
        total += dataset_length(dataset, s);
    }
    return total == 0 ? NAN : (double)largest / (double)total;
}

hashattn_status evaluate_within(struct host *host, const struct train_setup *setup,
                                const struct encoder *encoder, const float *values,
                                const struct dataset *dataset, size_t count, size_t batch, uint64_t seed,
                                float *probabilities, struct workspace *workspace, struct evaluation *result)
{
    const struct encoder_config *config = encoder_config_of(encoder);
    size_t classes = config->next_token ? 0 : (size_t)config->num_classes;
    size_t kinds = config->next_token ? (size_t)config->vocab_size : classes;
    struct buffers buffers;
    struct metrics metrics = {0};
    size_t tokens = 0;
    double start = clock_seconds();
    batch = batch < count ? batch : count;
    const struct params *params = encoder_params(encoder);
    TRY(buffers_new(host, dataset, batch, classes, kinds, params_room(params), &buffers));
    hashattn_status status = HASHATTN_OK;
    values = params_lay(params, setup->kernels, setup->pool, values, false, buffers.room);
    for (size_t first = 0; first < count; first += batch) {
        size_t n = count - first < batch ? count - first : batch;
        packed_examples_range(&buffers.packed, dataset, first, n);
        const struct encoder_batch packed = {.kernels = setup->kernels,
                                             .pool = setup->pool,
                                             .num_sequences = buffers.packed.count,
                                             .offsets = buffers.packed.offsets,
                                             .tokens = buffers.packed.tokens,
                                             .labels = config->next_token ? buffers.packed.labels : NULL,
                                             .random_key = random_key(seed, RANDOM_EVALUATION, 0)};
        TRY_DONE(workspace_fit(host, workspace, encoder_workspace_size(encoder, &packed)));
        encoder_forward(encoder, &packed, values, workspace->block, buffers.logits);
        size_t rows = buffers.packed.offsets[buffers.packed.count];
        if (config->next_token) {
            struct token_scores scores = encoder_token_scores(encoder, &packed, workspace->block);
            metrics_add_tokens(&metrics, scores.loss, scores.correct, buffers.packed.labels, rows);
        } else {
            metrics_add(&metrics, buffers.logits, buffers.packed.labels, n, classes,
                        probabilities == NULL ? NULL : probabilities + first * classes);
        }
        tokens += rows;
        TRY_DONE(ask(host, setup, first + n, count, &metrics, clock_seconds() - start, tokens));
    }
    double seconds = clock_seconds() - start;
    *result = (struct evaluation){.loss = metrics_loss(&metrics),
                                  .accuracy = metrics_accuracy(&metrics),
                                  .majority = majority_of(dataset, count, kinds, buffers.counts),
                                  .examples = count,
                                  .num_cut = dataset->num_cut,
                                  .tokens = tokens,
                                  .num_unknown = dataset->num_unknown,
                                  .seconds = seconds,
                                  .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0};
done:
    buffers_free(host, &buffers);
    return status;
}

hashattn_status evaluate(struct host *host, const struct train_setup *setup, const struct encoder *encoder,
                         const float *values, const struct dataset *dataset, size_t batch, uint64_t seed,
                         float *probabilities, struct evaluation *result)
{
    struct workspace workspace = {NULL, 0};
    TRY(evaluate_check(host, encoder, dataset));
    hashattn_status status = evaluate_within(host, setup, encoder, values, dataset, dataset->count, batch,
                                             seed, probabilities, &workspace, result);
    workspace_free(host, &workspace);
    return status;
}
