/* Evaluates both runs, then tests their sums in pairs.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/compare/compare.h"

#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "train/evaluate.h"
#include "train/fingerprint.h"
#include "train/run_ranks.h"

/* Reports the progress of one evaluation as a part of both. */
struct relay {
    const struct train_setup *setup;
    size_t done, examples;
};

static bool relay_event(void *user, const struct train_event *event)
{
    const struct relay *relay = user;
    struct train_event whole = *event;
    whole.step += (int64_t)relay->done;
    whole.steps = (int64_t)relay->examples;
    return relay->setup->callback(relay->setup->user, &whole);
}

/* One of the two runs on the split. */
struct side {
    const struct compared *run;
    struct dataset dataset;
    double *sums; /* (examples, MODEL_SUMS) */
};

static hashattn_status side_open(struct host *host, const struct compared *run, const char *data,
                                 enum split split, struct side *side)
{
    const struct run_config *config = run->config;
    void *block;
    side->run = run;
    TRY(config->task->load(host, config->task_options, &config->facts, data, split,
                           (uint64_t)config->training.seed, &side->dataset));
    TRY(memory_new(host, size_product(side->dataset.count, MODEL_SUMS), sizeof(double), "sums of examples",
                   &block));
    side->sums = block;
    return HASHATTN_OK;
}

/* What is compared: windows of a series, with all their columns, or examples. */
static size_t side_units(const struct side *side)
{
    return side->dataset.windows.values != NULL ? side->dataset.windows.count : side->dataset.count;
}

/* Adds up the examples of each window, which are neighbours. */
static void side_sum_windows(struct side *side)
{
    size_t units = side_units(side), each = units == 0 ? 1 : side->dataset.count / units;
    for (size_t i = 0; i < units && each > 1; i++)
        for (size_t k = 0; k < MODEL_SUMS; k++) {
            double sum = 0;
            for (size_t c = 0; c < each; c++)
                sum += side->sums[(i * each + c) * MODEL_SUMS + k];
            side->sums[i * MODEL_SUMS + k] = sum;
        }
}

static void side_close(struct host *host, struct side *side)
{
    memory_free(host, side->sums);
    dataset_free(host, &side->dataset);
}

static const char *positive_of(const struct run_config *config)
{
    int64_t positive = config->model.objectives[0].positive;
    bool named = positive > 0 && (uint64_t)positive <= config->facts.num_classes;
    return named ? config->facts.labels[positive - 1] : "the default label";
}

static hashattn_status check_runs(struct host *host, const struct run_config *run,
                                  const struct run_config *other, const char *data)
{
    FAIL_IF(run->task != other->task, host, HASHATTN_INVALID,
            "the run is of task %s, the one it is compared with of %s", run->task->name, other->task->name);
    FAIL_IF(data == NULL && strcmp(run->data, other->data) != 0, host, HASHATTN_INVALID,
            "the run was trained on %.300s, the one it is compared with on %.300s; name the data to compare "
            "them on",
            run->data, other->data);
    FAIL_IF(run->model.objectives[0].positive != other->model.objectives[0].positive, host, HASHATTN_INVALID,
            "f1 is that of %.60s in the run and of %.60s in the one it is compared with; set the same label",
            positive_of(run), positive_of(other));
    return HASHATTN_OK;
}

static hashattn_status check_examples(struct host *host, const struct side sides[2], enum split split)
{
    const struct dataset *a = &sides[0].dataset, *b = &sides[1].dataset;
    const char *name = split == SPLIT_COUNT ? "the file" : split_name(split);
    long long seed = sides[0].run->config->training.seed, other_seed = sides[1].run->config->training.seed;
    size_t count = side_units(&sides[0]), other = side_units(&sides[1]);
    FAIL_IF(
        count != other, host, HASHATTN_INVALID,
        "the runs do not see the same examples: %s has %zu for the run and %zu for the one it is compared "
        "with",
        name, count, other);
    FAIL_IF(count < 2, host, HASHATTN_INVALID, "%s has %zu example%s, a comparison needs at least 2", name,
            count, count == 1 ? "" : "s");
    FAIL_IF(
        fingerprint_of_targets(a) != fingerprint_of_targets(b), host, HASHATTN_INVALID,
        "the runs do not see the same examples: the targets of the %zu examples of %s differ (a split that "
        "is cut from the training file depends on the seed of training, %lld and %lld here)",
        count, name, seed, other_seed);
    return HASHATTN_OK;
}

static hashattn_status open_both(struct host *host, const struct compared *const runs[2], const char *data,
                                 enum split split, struct side sides[2])
{
    TRY(check_runs(host, runs[0]->config, runs[1]->config, data));
    TRY(run_config_data(host, runs[0]->config, &data));
    for (int i = 0; i < 2; i++)
        TRY(side_open(host, runs[i], data, split, &sides[i]));
    return check_examples(host, sides, split);
}

static hashattn_status evaluate_both(struct host *host, const struct train_setup *setup, struct side sides[2],
                                     uint64_t seed)
{
    struct relay relay = {.setup = setup, .examples = sides[0].dataset.count + sides[1].dataset.count};
    struct train_setup own = *setup;
    own.callback = setup->callback == NULL ? NULL : relay_event;
    own.user = &relay;
    for (int i = 0; i < 2; i++) {
        const struct compared *run = sides[i].run;
        struct session session = {.model = NULL};
        struct evaluation unused;
        relay.done = i == 0 ? 0 : sides[0].dataset.count;
        TRY(evaluate_open(host, &own, run->model, run->values, &session));
        hashattn_status status =
            evaluate_examples(host, &own, &session, &sides[i].dataset, seed, sides[i].sums, &unused);
        session_close(host, &session);
        TRY(status);
        side_sum_windows(&sides[i]);
    }
    return HASHATTN_OK;
}

/* The loss of quantiles is no squared error, so losses are compared only if both have the same levels. */
static void drop_other_losses(const struct compared *const runs[2], struct comparison *comparison)
{
    const struct task_objective *a = &runs[0]->config->facts.objectives[0],
                                *b = &runs[1]->config->facts.objectives[0];
    size_t kept = 0;
    if (quantiles_equal(&a->quantiles, &b->quantiles))
        return;
    for (size_t i = 0; i < comparison->count; i++)
        if (strcmp(comparison->list[i].metric->name, "loss") != 0)
            comparison->list[kept++] = comparison->list[i];
    comparison->count = kept;
}

hashattn_status compare_runs(struct host *host, const struct train_setup *setup, const struct compared *run,
                             const struct compared *against, const char *data, enum split split,
                             uint64_t seed, struct comparison *comparison)
{
    const struct compared *const runs[2] = {run, against};
    struct side sides[2] = {{.sums = NULL}};
    hashattn_status status = comm_agree(host, setup->comm, open_both(host, runs, data, split, sides));
    for (int i = 0; i < 2 && status == HASHATTN_OK; i++)
        status = ranks_check_set(host, setup->comm, &sides[i].dataset);
    if (status == HASHATTN_OK)
        status = evaluate_both(host, setup, sides, seed);
    if (status == HASHATTN_OK)
        paired_test(run->model, sides[0].sums, against->model, sides[1].sums, side_units(&sides[0]),
                    comparison);
    if (status == HASHATTN_OK)
        drop_other_losses(runs, comparison);
    for (int i = 0; i < 2; i++)
        side_close(host, &sides[i]);
    return status;
}
