/* Runs the trunk, then the objectives in order, each with its own part of the workspace.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "models/trunk.h"

/* An entry of the list of objectives, with its parameters described. */
struct goal {
    const struct objective *objective;
    void *self;
    double weight;
};

struct model {
    struct model_config config;
    struct params params;
    struct trunk trunk;
    size_t num_goals, num_own, num_metrics;
    struct goal goals[MODEL_OBJECTIVES];
    struct {
        const struct mechanism *mechanism;
        double share; /* of its loss in the training loss */
    } own[PLAN_MECHANISMS];
    double own_share; /* sum of all shares */
    struct model_metric metrics[MODEL_METRICS];
};

/* ---- making and freeing ------------------------------------------------------------------------------- */

static hashattn_status find_own(struct host *host, struct model *model)
{
    const struct head_plan *plan = &model->config.plan;
    for (size_t i = 0; i < plan->num_used; i++) {
        const struct mechanism *mechanism = plan->used[i].mechanism;
        double share = mechanism->own_loss == NULL ? 0 : mechanism->own_loss->share(plan->used[i].options);
        if (share == 0)
            continue;
        model->own[model->num_own].mechanism = mechanism;
        model->own[model->num_own++].share = share;
        model->own_share += share;
    }
    FAIL_IF(model->own_share > 1, host, HASHATTN_INVALID,
            "model: the shares of the mechanisms' own losses add up to %g, at most 1 is allowed",
            model->own_share);
    return HASHATTN_OK;
}

static hashattn_status describe_goal(struct host *host, struct model *model,
                                     const struct model_objective *entry)
{
    const struct model_config *config = &model->config;
    const struct objective *objective = entry->objective;
    const struct objective_facts facts = {.dim = (size_t)config->dim,
                                          .num_outputs = (size_t)entry->num_outputs,
                                          .first_output = (size_t)entry->first_output,
                                          .max_len = (size_t)config->max_len,
                                          .pairs = config->pairs,
                                          .causal = config->causal != 0,
                                          .bytes = config->bytes,
                                          .pooling = (enum pooling)config->pooling,
                                          .head = (enum head_kind)config->classifier,
                                          .norm_epsilon = config->norm_epsilon,
                                          .embed = &model->trunk.input.embed};
    const char *why = objective->refuse(&facts);
    FAIL_IF(why != NULL, host, HASHATTN_INVALID, "model: %s: %s", objective->name, why);
    struct goal *goal = &model->goals[model->num_goals];
    TRY(memory_new_zeroed(host, 1, objective->size, "an objective", &goal->self));
    goal->objective = objective;
    goal->weight = entry->weight;
    model->num_goals++;
    return objective->describe(host, &model->params, &facts, goal->self);
}

static hashattn_status describe(struct host *host, struct model *model)
{
    const struct model_config *config = &model->config;
    bool tied = false;
    for (size_t i = 0; i < config->num_objectives; i++)
        tied |= config->objectives[i].objective->ties_embedding;
    model->params.precision = (enum precision)config->precision;
    model->params.initial_std = (float)config->initial_std;
    TRY(find_own(host, model));
    TRY(trunk_describe(host, &model->params, config, tied, &model->trunk));
    for (size_t i = 0; i < config->num_objectives; i++)
        TRY(describe_goal(host, model, &config->objectives[i]));
    return HASHATTN_OK;
}

static void name_of(const struct model *model, const struct objective *objective, const char *own,
                    char name[METRIC_NAME])
{
    if (model->num_goals > 1)
        snprintf(name, METRIC_NAME, "%.20s.%.24s", objective->name, own);
    else
        snprintf(name, METRIC_NAME, "%.47s", own);
}

/* The objective whose outputs are the predictions; num_goals: none. */
static size_t predicting(const struct model *model)
{
    size_t i = 0;
    while (i < model->num_goals && model->goals[i].objective->outputs == NULL)
        i++;
    return i;
}

/* Overall metrics are those of the objective that predicts. */
static const struct overall_metric *overall_of(const struct model *model, size_t index)
{
    static const struct overall_metric none[] = {{.name = NULL}};
    const struct overall_metric *overall = model->goals[index].objective->overall;
    return overall != NULL && index == predicting(model) ? overall : none;
}

/* True if the config names the metric that chooses the best model. */
static bool is_chosen(const struct model *model)
{
    return model->num_goals > 0 && model->config.objectives[0].selects[0] != '\0';
}

static void list_metric(struct model *model, size_t index, const char *name, struct model_metric metric)
{
    bool chosen = index == 0 && is_chosen(model);
    if (index > 0)
        metric.selects = metric.selects == 1 ? 3 : 0;
    else if (chosen && strcmp(model->config.objectives[0].selects, name) == 0)
        metric.selects = 1;
    else if (chosen && metric.selects == 1)
        metric.selects = 0;
    name_of(model, model->goals[index].objective, name, metric.name);
    model->metrics[model->num_metrics++] = metric;
}

static void list_metrics(struct model *model)
{
    for (size_t i = 0; i < model->num_goals; i++) {
        const struct goal *goal = &model->goals[i];
        for (const struct metric *m = goal->objective->metrics; m->name != NULL; m++)
            if (!isnan(m->value(goal->self, NULL)))
                list_metric(
                    model, i, m->name,
                    (struct model_metric){.more_is_better = m->more_is_better, .selects = m->selects});
        for (const struct overall_metric *m = overall_of(model, i); m->name != NULL; m++)
            list_metric(model, i, m->name,
                        (struct model_metric){.more_is_better = m->more_is_better, .overall = true});
    }
    for (size_t i = 0; i < model->num_own; i++) {
        struct model_metric *metric = &model->metrics[model->num_metrics++];
        metric->training_only = true;
        snprintf(metric->name, METRIC_NAME, "%.30s.own_loss", model->own[i].mechanism->name);
    }
}

static hashattn_status check_chosen(struct host *host, const struct model *model)
{
    for (size_t i = 0; i < model->num_metrics; i++)
        if (!is_chosen(model) || model->metrics[i].selects == 1)
            return HASHATTN_OK;
    FAIL_IF(is_chosen(model), host, HASHATTN_INVALID,
            "model: %s has no metric '%.60s' that could choose the best model",
            model->goals[0].objective->name, model->config.objectives[0].selects);
    return HASHATTN_OK;
}

hashattn_status model_new(struct host *host, const struct model_config *config, struct model **out)
{
    *out = NULL;
    TRY(model_config_check(host, config));
    void *block;
    TRY(memory_new_zeroed(host, 1, sizeof(struct model), "model", &block));
    struct model *model = block;
    model->config = *config;
    hashattn_status status = describe(host, model);
    if (status != HASHATTN_OK) {
        model_free(host, model);
        return status;
    }
    list_metrics(model);
    status = check_chosen(host, model);
    if (status != HASHATTN_OK)
        model_free(host, model);
    else
        *out = model;
    return status;
}

hashattn_status model_fit(struct host *host, struct model *model, size_t rows)
{
    return input_fit(host, &model->trunk.input, rows);
}

void model_free(struct host *host, struct model *model)
{
    if (model == NULL)
        return;
    for (size_t i = 0; i < model->num_goals; i++)
        memory_free(host, model->goals[i].self);
    trunk_free(host, &model->trunk);
    params_free(host, &model->params);
    memory_free(host, model);
}

const struct model_config *model_config_of(const struct model *model)
{
    return &model->config;
}

const struct params *model_params(const struct model *model)
{
    return &model->params;
}

float model_word_scale(const struct model *model)
{
    return model->trunk.input.embed.scale;
}

size_t model_trunk_floats(const struct model *model)
{
    return model->trunk.end;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* One pass over a batch, with the workspace cut into parts. */
struct pass {
    const struct model *model;
    const struct model_batch *batch;
    struct trunk_pass trunk;
    void *memory[MODEL_OBJECTIVES];
    double *own_sums; /* (num_own) sums of the last forward */
    size_t bytes;
};

static struct pass open_pass(const struct model *model, const struct model_batch *batch, const float *values,
                             void *workspace)
{
    struct pass pass = {
        .model = model,
        .batch = batch,
        .trunk = {.trunk = &model->trunk,
                  .rows = rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets,
                                  batch->sample_ids),
                  .input = batch->input,
                  .values = values,
                  .random_key = batch->random_key,
                  .training = batch->training},
    };
    struct arena arena = arena_on(workspace);
    pass.trunk.rows.profile = batch->profile;
    pass.trunk.rows.inspector = batch->inspector;
    pass.trunk.memory = arena_take(&arena, trunk_memory_size(&pass.trunk), 1);
    for (size_t i = 0; i < model->num_goals; i++) {
        const struct goal *goal = &model->goals[i];
        size_t size = goal->objective->memory_size(goal->self, &pass.trunk.rows, batch->training);
        pass.memory[i] = arena_take(&arena, size, 1);
    }
    pass.own_sums = arena_take(&arena, model->num_own, sizeof(double));
    pass.bytes = arena.used;
    return pass;
}

hashattn_status model_check(struct host *host, const struct model *model, const struct model_batch *batch)
{
    const struct rows rows =
        rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets, batch->sample_ids);
    for (size_t i = 0; i < model->trunk.num_lists; i++)
        TRY(self_attention_check(host, &model->trunk.blocks[i].attention, &rows));
    return HASHATTN_OK;
}

size_t model_workspace_size(const struct model *model, const struct model_batch *batch)
{
    return open_pass(model, batch, NULL, NULL).bytes;
}

size_t model_saved_size(const struct model *model, const struct model_batch *batch)
{
    struct pass pass = open_pass(model, batch, NULL, NULL);
    return trunk_saved_size(&pass.trunk);
}

static size_t examples_of(const struct model *model, const struct model_batch *batch)
{
    return batch->num_sequences / (model->config.pairs ? 2 : 1);
}

/* The sum of the weights of a goal's targets, over the step or this batch. Never 0, because it is a
   divisor. */
static double count_of(const struct pass *pass, size_t index)
{
    const struct model_batch *batch = pass->batch;
    const struct goal *goal = &pass->model->goals[index];
    if (batch->targets == NULL)
        return 1;
    const float *weights = batch->targets[index].weights;
    size_t n = objective_targets(goal->objective, &pass->trunk.rows, pass->model->config.pairs);
    double count = weights == NULL ? (double)n : 0;
    for (size_t i = 0; weights != NULL && i < n; i++)
        count += (double)weights[i];
    if (batch->counts != NULL)
        count = batch->counts[index];
    return count > 0 ? count : 1;
}

static struct objective_pass goal_pass(const struct pass *pass, size_t index, const float *x)
{
    return (struct objective_pass){
        .self = pass->model->goals[index].self,
        .rows = &pass->trunk.rows,
        .values = pass->trunk.values,
        .targets = pass->batch->targets == NULL ? NULL : &pass->batch->targets[index],
        .x = x,
        .training = pass->batch->training,
        .weight = (1 - pass->model->own_share) * pass->model->goals[index].weight,
        .count = count_of(pass, index),
        .memory = pass->memory[index],
    };
}

/* Sets the weight of each own loss so that its sum becomes the mean over the heads that have it and over
   examples, times its share. */
static void fill_own(const struct pass *pass, struct own_loss own[PLAN_MECHANISMS])
{
    const struct model *model = pass->model;
    size_t examples = pass->batch->examples > 0 ? pass->batch->examples : examples_of(model, pass->batch);
    for (size_t i = 0; i < model->num_own; i++) {
        size_t heads = trunk_own_heads(&model->trunk, model->own[i].mechanism);
        double over = (double)heads * (double)examples;
        own[i] = (struct own_loss){.mechanism = model->own[i].mechanism,
                                   .heads = heads,
                                   .weight = over == 0 ? 0 : model->own[i].share / over};
    }
}

double model_forward(const struct model *model, const struct model_batch *batch, const float *values,
                     void *workspace)
{
    struct pass pass = open_pass(model, batch, values, workspace);
    struct own_loss own[PLAN_MECHANISMS];
    fill_own(&pass, own);
    const float *x = trunk_forward(&pass.trunk, own, batch->targets == NULL ? 0 : model->num_own);
    double loss = 0;
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(&pass, i, x);
        loss += goal.weight * (model->goals[i].objective->forward(&goal) / goal.count);
    }
    for (size_t i = 0; i < model->num_own && batch->targets != NULL; i++) {
        pass.own_sums[i] = own[i].sum;
        loss += own[i].weight * own[i].sum;
    }
    profile_lap(batch->profile, PROFILE_HEAD);
    return loss;
}

void model_backward(const struct model *model, const struct model_batch *batch, const float *values,
                    void *workspace, float *gradients)
{
    assert(batch->training && batch->targets != NULL && model->num_goals > 0);
    struct pass pass = open_pass(model, batch, values, workspace);
    struct own_loss own[PLAN_MECHANISMS];
    fill_own(&pass, own);
    const float *x = trunk_rows(&pass.trunk);
    float *dx = trunk_gradient(&pass.trunk);
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(&pass, i, x);
        model->goals[i].objective->backward(&goal, (struct slice){gradients, 0}, dx, i > 0);
    }
    profile_lap(batch->profile, PROFILE_HEAD);
    trunk_backward(&pass.trunk, gradients, own, model->num_own);
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

static size_t sums_of(const struct objective *objective)
{
    size_t count = 0;
    while (objective->sums[count] != NULL)
        count++;
    return count;
}

size_t model_num_metrics(const struct model *model)
{
    return model->num_metrics;
}

const struct model_metric *model_metric(const struct model *model, size_t index)
{
    assert(index < model->num_metrics);
    return &model->metrics[index];
}

size_t model_num_sums(const struct model *model)
{
    size_t count = 2 * model->num_own;
    for (size_t i = 0; i < model->num_goals; i++)
        count += sums_of(model->goals[i].objective);
    return count;
}

void model_sum_name(const struct model *model, size_t index, char name[METRIC_NAME])
{
    for (size_t i = 0; i < model->num_goals; i++) {
        const struct objective *objective = model->goals[i].objective;
        size_t count = sums_of(objective);
        if (index < count) {
            name_of(model, objective, objective->sums[index], name);
            return;
        }
        index -= count;
    }
    assert(index < 2 * model->num_own);
    snprintf(name, METRIC_NAME, "%.30s.%s", model->own[index / 2].mechanism->name,
             index % 2 == 0 ? "own_loss" : "count");
}

void model_count(const struct model *model, const struct model_batch *batch, void *workspace, double *sums)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    const float *x = trunk_rows(&pass.trunk);
    assert(batch->targets != NULL);
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(&pass, i, x);
        model->goals[i].objective->count(&goal, sums);
        sums += sums_of(model->goals[i].objective);
    }
    for (size_t i = 0; batch->training && i < model->num_own; i++) {
        size_t heads = trunk_own_heads(&model->trunk, model->own[i].mechanism);
        sums[2 * i] += heads == 0 ? 0 : pass.own_sums[i] / (double)heads;
        sums[2 * i + 1] += (double)examples_of(model, batch);
    }
}

void model_metrics(const struct model *model, const double *sums, double *values)
{
    for (size_t i = 0; i < model->num_goals; i++) {
        const struct goal *goal = &model->goals[i];
        for (const struct metric *m = goal->objective->metrics; m->name != NULL; m++)
            if (!isnan(m->value(goal->self, NULL)))
                *values++ = m->value(goal->self, sums);
        for (const struct overall_metric *m = overall_of(model, i); m->name != NULL; m++)
            *values++ = NAN;
        sums += sums_of(goal->objective);
    }
    for (size_t i = 0; i < model->num_own; i++)
        *values++ = sums[2 * i + 1] == 0 ? NAN : sums[2 * i] / sums[2 * i + 1];
}

size_t model_num_overall(const struct model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->num_metrics; i++)
        count += model->metrics[i].overall;
    return count;
}

hashattn_status model_overall(struct host *host, const struct model *model, const struct targets *targets,
                              const float *outputs, size_t n, double *values)
{
    size_t index = predicting(model), at = 0;
    if (index == model->num_goals)
        return HASHATTN_OK;
    const struct overall_metric *m = overall_of(model, index);
    for (; m->name != NULL; m++, at++) {
        while (!model->metrics[at].overall)
            at++;
        TRY(m->value(host, model->goals[index].self, &targets[index], outputs, n, &values[at]));
    }
    return HASHATTN_OK;
}

bool model_is_better(const struct model *model, const double *values, const double *best)
{
    for (int rank = 1; rank <= 2; rank++)
        for (size_t i = 0; i < model->num_metrics; i++) {
            const struct model_metric *metric = &model->metrics[i];
            if (metric->selects != rank || values[i] == best[i])
                continue;
            return metric->more_is_better ? values[i] > best[i] : values[i] < best[i];
        }
    return false;
}

/* ---- baselines ---------------------------------------------------------------------------------------- */

/* The next goal from `index` on that has a baseline; num_goals if there is none. */
static size_t next_baseline(const struct model *model, size_t index)
{
    while (index < model->num_goals && model->goals[index].objective->baseline == NULL)
        index++;
    return index;
}

size_t model_num_baselines(const struct model *model)
{
    size_t count = 0;
    for (size_t i = next_baseline(model, 0); i < model->num_goals; i = next_baseline(model, i + 1))
        count++;
    return count;
}

void model_baseline_name(const struct model *model, size_t index, char name[METRIC_NAME])
{
    size_t i = next_baseline(model, 0);
    while (index-- > 0)
        i = next_baseline(model, i + 1);
    name_of(model, model->goals[i].objective, model->goals[i].objective->baseline, name);
}

/* The part of goal i in the block that starts at `counts`, and what follows it. */
static void *counts_of(const struct model *model, size_t i, struct arena *arena)
{
    return arena_take(arena, model->goals[i].objective->baseline_size(model->goals[i].self), 1);
}

size_t model_baselines_size(const struct model *model)
{
    struct arena arena = arena_on(NULL);
    for (size_t i = next_baseline(model, 0); i < model->num_goals; i = next_baseline(model, i + 1))
        counts_of(model, i, &arena);
    return arena.used;
}

void model_baseline_count(const struct model *model, const struct model_batch *batch, void *counts)
{
    struct arena arena = arena_on(counts);
    struct rows rows =
        rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets, batch->sample_ids);
    for (size_t i = next_baseline(model, 0); i < model->num_goals; i = next_baseline(model, i + 1)) {
        const struct objective *objective = model->goals[i].objective;
        objective->baseline_count(model->goals[i].self, &batch->targets[i],
                                  objective_targets(objective, &rows, model->config.pairs),
                                  counts_of(model, i, &arena));
    }
}

void model_baselines(const struct model *model, const void *counts, double *values)
{
    struct arena arena = arena_on((void *)(uintptr_t)counts); /* only read */
    for (size_t i = next_baseline(model, 0); i < model->num_goals; i = next_baseline(model, i + 1))
        *values++ =
            model->goals[i].objective->baseline_value(model->goals[i].self, counts_of(model, i, &arena));
}

/* ---- predictions -------------------------------------------------------------------------------------- */

size_t model_outputs(const struct model *model)
{
    size_t i = predicting(model);
    return i == model->num_goals ? 0 : model->goals[i].objective->outputs(model->goals[i].self);
}

void model_predict(const struct model *model, const struct model_batch *batch, void *workspace,
                   float *outputs)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    size_t i = predicting(model);
    assert(i < model->num_goals);
    struct objective_pass goal = goal_pass(&pass, i, trunk_rows(&pass.trunk));
    model->goals[i].objective->predict(&goal, outputs);
}

/* ---- rows and scores ---------------------------------------------------------------------------------- */

const float *model_rows(const struct model *model, const struct model_batch *batch, void *workspace)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    return trunk_rows(&pass.trunk);
}

static size_t scoring(const struct model *model)
{
    size_t i = 0;
    while (i < model->num_goals && model->goals[i].objective->num_scores == NULL)
        i++;
    return i;
}

size_t model_num_scores(const struct model *model)
{
    size_t i = scoring(model);
    return i == model->num_goals ? 0 : model->goals[i].objective->num_scores(model->goals[i].self);
}

void model_score_rows(const struct model *model, const struct model_batch *batch, const float *values,
                      void *workspace, const size_t *places, size_t n, float *scores)
{
    struct pass pass = open_pass(model, batch, values, workspace);
    size_t i = scoring(model);
    assert(i < model->num_goals);
    struct objective_pass goal = goal_pass(&pass, i, trunk_rows(&pass.trunk));
    model->goals[i].objective->score_rows(&goal, places, n, scores);
}
