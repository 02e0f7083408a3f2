/* Metrics on a data set. Examples are processed in order, packed without padding, `batch` at a time. Every
   sequence hashes with a key derived from (seed, layer) only, so a result does not depend on the other
   examples of its batch.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "train/packing.h"

hashattn_status workspace_fit(struct host *host, struct workspace *workspace, size_t size)
{
    if (size <= workspace->size)
        return HASHATTN_OK;
    /* An eighth more, so that slowly growing batches do not allocate each time. */
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

/* ---- checking ----------------------------------------------------------------------------------------- */

/* Checks the target sets against their objectives. */
static hashattn_status check_targets(struct host *host, const struct model_config *config,
                                     const struct dataset *dataset)
{
    FAIL_IF(dataset->num_targets != config->num_objectives, host, HASHATTN_BAD_FILE,
            "the data have %zu kinds of targets, the model has %zu objectives", dataset->num_targets,
            config->num_objectives);
    for (size_t k = 0; k < dataset->num_targets; k++) {
        const struct target_set *set = &dataset->targets[k];
        const struct objective *objective = config->objectives[k].objective;
        FAIL_IF(set->kind == TARGETS_MASKED && dataset->masks.num_ids > (size_t)config->vocab_size, host,
                HASHATTN_BAD_FILE, "masking draws ids below %zu, the model takes 0 to %lld",
                dataset->masks.num_ids, (long long)config->vocab_size - 1);
        bool per_row = objective->place == TARGET_ROW, floats = objective->type == TARGET_FLOATS;
        FAIL_IF(per_row != (set->kind != TARGETS_EXAMPLE) || floats != (set->width > 0), host,
                HASHATTN_BAD_FILE, "the targets are %s per %s, the model's %s predicts %s per %s",
                set->width > 0 ? "floats" : "an id", set->kind == TARGETS_EXAMPLE ? "example" : "row",
                objective->name, floats ? "floats" : "an id", per_row ? "row" : "example");
        FAIL_IF(floats && set->width != (size_t)config->objectives[k].num_outputs, host, HASHATTN_BAD_FILE,
                "a target of %s has %zu floats, the model predicts %lld", objective->name, set->width,
                (long long)config->objectives[k].num_outputs);
    }
    return HASHATTN_OK;
}

/* Checks targets [first, first + count) of objective k, which are ids. */
static hashattn_status check_ids(struct host *host, const struct model_config *config,
                                 const struct dataset *dataset, size_t k, size_t example, size_t first,
                                 size_t count)
{
    const struct target_set *set = &dataset->targets[k];
    const struct model_objective *entry = &config->objectives[k];
    uint32_t least = (uint32_t)entry->first_output;
    for (size_t i = first; i < first + count; i++)
        FAIL_IF((set->weights == NULL || set->weights[i] != 0) &&
                    (set->ids[i] < least || set->ids[i] - least >= entry->num_outputs),
                host, HASHATTN_BAD_FILE, "example %zu has label number %u, %s has %lld labels from %u on",
                example, (unsigned)set->ids[i], entry->objective->name, (long long)entry->num_outputs,
                (unsigned)least);
    return HASHATTN_OK;
}

static hashattn_status check_sequence(struct host *host, const struct model_config *config,
                                      const struct dataset *dataset, size_t s, size_t example)
{
    size_t length = dataset_length(dataset, s), first = dataset->offsets[s], end = dataset->offsets[s + 1];
    FAIL_IF(length < 1 || length > (size_t)config->max_len, host, HASHATTN_BAD_FILE,
            "example %zu has %zu tokens, the model takes 1 to %lld", example, length,
            (long long)config->max_len);
    if (dataset->map.bytes != NULL) /* its reader has checked the rest */
        return HASHATTN_OK;
    for (size_t at = first; dataset->ids != NULL && at < end; at++)
        FAIL_IF(dataset->ids[at] >= config->vocab_size, host, HASHATTN_BAD_FILE,
                "example %zu has token id %u, the model takes 0 to %lld", example, (unsigned)dataset->ids[at],
                (long long)config->vocab_size - 1);
    for (size_t at = first; dataset->segmented && at < end; at++)
        FAIL_IF(dataset->segments[at] >= config->num_segments, host, HASHATTN_BAD_FILE,
                "example %zu has segment id %u, the model takes 0 to %lld", example,
                (unsigned)dataset->segments[at], (long long)config->num_segments - 1);
    for (size_t k = 0; k < dataset->num_targets; k++) {
        const struct target_set *set = &dataset->targets[k];
        if (set->width == 0 && set->kind == TARGETS_ROW)
            TRY(check_ids(host, config, dataset, k, example, first, length));
        for (size_t at = first + 1; set->kind == TARGETS_NEXT && at < end; at++)
            FAIL_IF(dataset->ids[at] < config->objectives[k].first_output, host, HASHATTN_BAD_FILE,
                    "example %zu has target id %u, %s predicts ids from %lld on", example,
                    (unsigned)dataset->ids[at], config->objectives[k].objective->name,
                    (long long)config->objectives[k].first_output);
    }
    return HASHATTN_OK;
}

hashattn_status evaluate_fit(struct host *host, struct model *model, const struct dataset *dataset)
{
    const struct model_config *config = model_config_of(model);
    size_t each = dataset->pairs ? 2 : 1, longest = 0;
    FAIL_IF(dataset->pairs != config->pairs, host, HASHATTN_BAD_FILE,
            "an example is %zu sequence%s, the model takes %d", each, each == 1 ? "" : "s",
            config->pairs ? 2 : 1);
    FAIL_IF(dataset->row_width != (size_t)config->row_width, host, HASHATTN_BAD_FILE,
            "a row of the data has %zu floats, the model takes %lld (0: rows are ids)", dataset->row_width,
            (long long)config->row_width);
    FAIL_IF(dataset->segmented && config->num_segments == 0, host, HASHATTN_BAD_FILE,
            "the data have segments, the model takes none");
    FAIL_IF(dataset->map.bytes != NULL && dataset->segmented && config->num_segments < 2, host,
            HASHATTN_BAD_FILE, "the data have segments 0 and 1, the model takes %lld",
            (long long)config->num_segments);
    TRY(check_targets(host, config, dataset));
    for (size_t s = 0; s < dataset_sequences(dataset); s++) {
        TRY(check_sequence(host, config, dataset, s, s / each));
        longest = size_max(longest, dataset_length(dataset, s));
    }
    for (size_t k = 0; k < dataset->num_targets; k++)
        for (size_t i = 0; dataset->targets[k].kind == TARGETS_EXAMPLE && dataset->targets[k].width == 0 &&
                           i < dataset->count;
             i++)
            TRY(check_ids(host, config, dataset, k, i, i, 1));
    return model_fit(host, model, longest);
}

/* ---- evaluating --------------------------------------------------------------------------------------- */

/* What one evaluation allocates. */
struct buffers {
    struct packed_examples packed;
    float *room;    /* params_room, or NULL */
    void *counts;   /* model_baselines_size */
    float *outputs; /* (count, model_outputs), for overall metrics; or NULL */
};

static void buffers_free(struct host *host, struct buffers *buffers)
{
    memory_free(host, buffers->outputs);
    memory_free(host, buffers->counts);
    memory_free(host, buffers->room);
    packed_examples_free(host, &buffers->packed);
}

static hashattn_status buffers_new(struct host *host, const struct model *model,
                                   const struct dataset *dataset, size_t batch, size_t num_outputs,
                                   struct buffers *buffers)
{
    hashattn_status status;
    void *block;
    memset(buffers, 0, sizeof *buffers);
    TRY_DONE(packed_examples_new(host, dataset, batch, &buffers->packed));
    TRY_DONE(memory_new_zeroed(host, model_baselines_size(model), 1, "counts of targets", &buffers->counts));
    TRY_DONE(memory_new(host, params_room(model_params(model)), sizeof(float), "weights laid for products",
                        &block));
    buffers->room = block;
    TRY_DONE(memory_new(host, num_outputs, sizeof(float), "predictions", &block));
    buffers->outputs = block;
done:
    if (status != HASHATTN_OK)
        buffers_free(host, buffers);
    return status;
}

/* Calls the callback between two batches, which may stop the evaluation. */
static hashattn_status ask(struct host *host, const struct train_setup *setup, const struct model *model,
                           size_t done, size_t count, const double *sums, double seconds, size_t tokens)
{
    double values[MODEL_METRICS];
    model_metrics(model, sums, values);
    const struct train_event event = {.step = (int64_t)done,
                                      .steps = (int64_t)count,
                                      .model = model,
                                      .train = values,
                                      .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0,
                                      .seconds = seconds};
    FAIL_IF(setup->callback != NULL && setup->callback(setup->user, &event), host, HASHATTN_INTERRUPTED,
            "stopped after %zu of %zu examples", done, count);
    return HASHATTN_OK;
}

static hashattn_status overall_metrics(struct host *host, const struct model *model,
                                       const struct dataset *dataset, const float *outputs, size_t count,
                                       double *values)
{
    struct targets targets[TASK_OBJECTIVES];
    if (model_num_overall(model) == 0)
        return HASHATTN_OK;
    for (size_t k = 0; k < dataset->num_targets; k++) {
        const struct target_set *set = &dataset->targets[k];
        targets[k] = (struct targets){.ids = set->ids, .floats = set->floats, .weights = set->weights};
    }
    return model_overall(host, model, targets, outputs, count, values);
}

hashattn_status evaluate_within(struct host *host, const struct train_setup *setup, const struct model *model,
                                const float *values, const struct dataset *dataset, size_t count,
                                size_t batch, uint64_t seed, float *outputs, struct workspace *workspace,
                                struct evaluation *result)
{
    struct buffers buffers;
    double sums[MODEL_SUMS] = {0}, start = clock_seconds();
    size_t tokens = 0;
    batch = batch < count ? batch : count;
    size_t kept =
        model_num_overall(model) > 0 && outputs == NULL ? size_product(count, model_outputs(model)) : 0;
    TRY(buffers_new(host, model, dataset, batch, kept, &buffers));
    outputs = outputs == NULL ? buffers.outputs : outputs;
    hashattn_status status = HASHATTN_OK;
    values = params_lay(model_params(model), setup->kernels, setup->pool, values, false, buffers.room);
    for (size_t first = 0; first < count; first += batch) {
        size_t n = count - first < batch ? count - first : batch;
        packing_range(&buffers.packed, dataset, first, n);
        struct model_batch packed = packed_batch(&buffers.packed, setup->kernels, setup->pool, true);
        packed.sample_ids = NULL; /* the same hashing for every sequence */
        packed.random_key = random_key(seed, RANDOM_EVALUATION, 0);
        TRY_DONE(model_check(host, model, &packed));
        TRY_DONE(workspace_fit(host, workspace, model_workspace_size(model, &packed)));
        model_forward(model, &packed, values, workspace->block);
        model_count(model, &packed, workspace->block, sums);
        model_baseline_count(model, &packed, buffers.counts);
        if (outputs != NULL)
            model_predict(model, &packed, workspace->block, outputs + first * model_outputs(model));
        tokens += packed.offsets[packed.num_sequences];
        TRY_DONE(ask(host, setup, model, first + n, count, sums, clock_seconds() - start, tokens));
    }
    double seconds = clock_seconds() - start;
    *result = (struct evaluation){.examples = count,
                                  .num_cut = dataset->num_cut,
                                  .tokens = tokens,
                                  .num_unknown = dataset->num_unknown,
                                  .seconds = seconds,
                                  .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0};
    model_metrics(model, sums, result->metrics);
    TRY_DONE(overall_metrics(host, model, dataset, outputs, count, result->metrics));
    model_baselines(model, buffers.counts, result->baselines);
done:
    buffers_free(host, &buffers);
    return status;
}

hashattn_status evaluate(struct host *host, const struct train_setup *setup, struct model *model,
                         const float *values, const struct dataset *dataset, size_t batch, uint64_t seed,
                         float *outputs, struct evaluation *result)
{
    struct workspace workspace = {NULL, 0};
    TRY(evaluate_fit(host, model, dataset));
    hashattn_status status = evaluate_within(host, setup, model, values, dataset, dataset->count, batch, seed,
                                             outputs, &workspace, result);
    workspace_free(host, &workspace);
    return status;
}
