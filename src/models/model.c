/* Runs the encoder and the decoder, then the objectives in order, each with its own part of the workspace.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model.h"

#include <assert.h>

#include "base/memory.h"
#include "models/model_parts.h"

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
    const struct objective_facts facts = {.dim = (size_t)(model->bare ? config->row_width : config->dim),
                                          .num_outputs = (size_t)entry->num_outputs,
                                          .first_output = (size_t)entry->first_output,
                                          .max_len = (size_t)config->max_len,
                                          .decoded_rows = (size_t)config->decoded_rows,
                                          .pairs = config->pairs,
                                          .causal = config->causal != 0,
                                          .bytes = config->bytes,
                                          .pooling = (enum pooling)config->pooling,
                                          .head = (enum head_kind)config->classifier,
                                          .norm_epsilon = config->norm_epsilon,
                                          .embed = &model->encoder.trunk.input.embed};
    const char *why = objective->refuse(&facts);
    FAIL_IF(why != NULL, host, HASHATTN_INVALID, "model: %s: %s", objective->name, why);
    struct goal *goal = &model->goals[model->num_goals];
    TRY(memory_new_zeroed(host, 1, objective->size, "an objective", &goal->self));
    goal->objective = objective;
    goal->weight = entry->weight;
    model->num_goals++;
    return objective->describe(host, &model->params, &facts, goal->self);
}

/* Bare objectives are not mixed with others, whose trunk they would not train. */
static hashattn_status find_bare(struct host *host, struct model *model)
{
    const struct model_config *config = &model->config;
    size_t bare = 0;
    for (size_t i = 0; i < config->num_objectives; i++)
        bare += config->objectives[i].objective->bare;
    FAIL_IF(bare > 0 && bare < config->num_objectives, host, HASHATTN_INVALID,
            "model: %zu of %zu objectives read the input without a trunk; all or none can", bare,
            config->num_objectives);
    FAIL_IF(bare > 0 && config->row_width == 0, host, HASHATTN_INVALID,
            "model: %s reads rows of floats, the data have ids", config->objectives[0].objective->name);
    model->bare = bare > 0;
    return HASHATTN_OK;
}

static hashattn_status describe_stacks(struct host *host, struct model *model)
{
    const struct model_config *config = &model->config;
    bool tied = false;
    for (size_t i = 0; i < config->num_objectives; i++)
        tied |= config->objectives[i].objective->ties_embedding;
    TRY(find_own(host, model));
    TRY(encoder_stack_describe(host, &model->params, config, tied, &model->encoder));
    return config->decoder_rows == 0
               ? HASHATTN_OK
               : decoder_describe(host, &model->params, config, &model->encoder.trunk, &model->decoder);
}

static hashattn_status describe(struct host *host, struct model *model)
{
    const struct model_config *config = &model->config;
    model->params.precision = (enum precision)config->precision;
    model->params.initial_std = (float)config->initial_std;
    TRY(find_bare(host, model));
    if (!model->bare)
        TRY(describe_stacks(host, model));
    for (size_t i = 0; i < config->num_objectives; i++)
        TRY(describe_goal(host, model, &config->objectives[i]));
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
    if (status == HASHATTN_OK)
        status = model_list_metrics(host, model);
    if (status != HASHATTN_OK)
        model_free(host, model);
    else
        *out = model;
    return status;
}

hashattn_status model_fit(struct host *host, struct model *model, size_t rows)
{
    if (model->bare)
        return HASHATTN_OK;
    TRY(input_fit(host, &model->encoder.trunk.input, rows));
    return model->decoder.layers == 0
               ? HASHATTN_OK
               : decoder_fit(host, &model->decoder, (size_t)model->config.decoder_rows);
}

void model_free(struct host *host, struct model *model)
{
    if (model == NULL)
        return;
    for (size_t i = 0; i < model->num_goals; i++)
        memory_free(host, model->goals[i].self);
    decoder_free(host, &model->decoder);
    encoder_stack_free(host, &model->encoder);
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
    return model->encoder.trunk.input.embed.scale;
}

size_t model_trunk_floats(const struct model *model)
{
    return size_max(model->encoder.end, model->decoder.end);
}

/* ---- the plan ----------------------------------------------------------------------------------------- */

struct model_plan {
    const struct model *model;
    struct plan_set set;
    struct encoder_stack_plan encoder;
    struct decoder_plan decoder; /* if there is one */
    size_t workspace_bytes, saved_bytes;
};

static bool decodes(const struct model *model)
{
    return model->decoder.layers > 0;
}

/* An empty plan in a block; on NULL it only counts bytes. */
static struct model_plan *plan_on(const struct model *model, size_t num_sequences, void *block, size_t *bytes)
{
    struct arena arena = arena_on(block);
    struct model_plan *plan = arena_take(&arena, 1, sizeof *plan);
    struct model_plan empty = {.model = model};
    size_t plans = 0;
    if (!model->bare) {
        empty.encoder = encoder_stack_plan_on(&model->encoder, &arena);
        plans += encoder_stack_num_plans(&model->encoder);
    }
    if (decodes(model)) {
        empty.decoder = decoder_plan_on(&model->decoder, &arena);
        plans += decoder_num_plans(&model->decoder);
    }
    void *set = arena_take(&arena, plan_set_bytes(plans, num_sequences), 1);
    empty.set = plan_set_on(set, plans, num_sequences);
    if (plan != NULL)
        *plan = empty;
    *bytes = arena.used;
    return plan;
}

size_t model_plan_bytes(const struct model *model, size_t num_sequences)
{
    size_t bytes;
    plan_on(model, num_sequences, NULL, &bytes);
    return bytes;
}

/* The rows of a stack. */
static struct rows batch_rows(const struct model_batch *batch, const size_t *offsets)
{
    struct rows rows = rows_of(batch->kernels, batch->pool, batch->num_sequences, offsets, batch->sample_ids);
    rows.profile = batch->profile;
    rows.inspector = batch->inspector;
    return rows;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

struct model_pass {
    const struct model *model;
    const struct model_batch *batch;
    const float *values;
    struct rows rows; /* how the rows are cut that the objectives read */
    struct encoder_stack_pass encoder;
    struct decoder_pass decoder; /* if there is one */
    void *memory[MODEL_OBJECTIVES];
    double *own_sums; /* (num_own) sums of the last forward */
};

/* The pass in its workspace; on NULL it only counts bytes. */
static struct model_pass *open_pass(const struct model_plan *plan, const struct model_batch *batch,
                                    const float *values, void *workspace, size_t *bytes)
{
    const struct model *model = plan->model;
    struct arena arena = arena_on(workspace);
    struct model_pass *pass = arena_take(&arena, 1, sizeof *pass);
    struct model_pass opened = {.model = model, .batch = batch, .values = values};
    opened.rows = batch_rows(batch, batch->offsets);
    opened.rows.cut = batch->cut;
    if (!model->bare) {
        size_t unused;
        void *memory = arena_take(&arena, plan->encoder.memory_bytes, 1);
        opened.rows = *encoder_stack_last(&plan->encoder);
        opened.encoder =
            encoder_stack_open(&plan->encoder, batch->input, values, batch->random_key, memory, &unused);
    }
    if (decodes(model)) {
        opened.rows = plan->decoder.rows;
        opened.decoder = (struct decoder_pass){
            .plan = &plan->decoder,
            .encoded = workspace == NULL ? NULL : encoder_stack_rows(&opened.encoder),
            .floats = batch->decoder_floats,
            .values = values,
            .random_key = batch->random_key,
            .memory = arena_take(&arena, plan->decoder.memory_bytes, 1),
        };
    }
    for (size_t i = 0; i < model->num_goals; i++) {
        const struct goal *goal = &model->goals[i];
        size_t size = goal->objective->memory_size(goal->self, &opened.rows, batch->training);
        opened.memory[i] = arena_take(&arena, size, 1);
    }
    opened.own_sums = arena_take(&arena, model->num_own, sizeof(double));
    if (pass != NULL)
        *pass = opened;
    *bytes = arena.used;
    return pass;
}

static hashattn_status check_cut(struct host *host, const struct model *model,
                                 const struct model_batch *batch)
{
    for (size_t i = 0; i < model->num_goals && batch->cut != NULL; i++)
        FAIL_IF(
            model->goals[i].objective->whole, host, HASHATTN_REFUSED,
            "the objective %s reads the rows of a sequence together: sequence_parallel must be 1, not %zu",
            model->goals[i].objective->name, row_ranks_count(batch->cut->ranks));
    return HASHATTN_OK;
}

struct model_pass *model_open(const struct model_plan *plan, const struct model_batch *batch,
                              const float *values, void *workspace)
{
    size_t bytes;
    return open_pass(plan, batch, values, workspace, &bytes);
}

hashattn_status model_plan_make(struct host *host, const struct model *model, const struct model_batch *batch,
                                void *block, const struct model_plan **made)
{
    size_t bytes;
    struct model_plan *plan = plan_on(model, batch->num_sequences, block, &bytes);
    struct rows rows = batch_rows(batch, batch->offsets);
    rows.cut = batch->cut;
    TRY(check_cut(host, model, batch));
    if (!model->bare) {
        TRY(encoder_stack_plan_make(host, &rows, batch->halved_offsets, batch->training, &plan->set,
                                    &plan->encoder));
        plan->saved_bytes = plan->encoder.saved_bytes;
    }
    if (decodes(model)) {
        rows = batch_rows(batch, batch->decoder_offsets);
        TRY(decoder_plan_make(host, &rows, encoder_stack_last(&plan->encoder), batch->training, &plan->set,
                              &plan->decoder));
        plan->saved_bytes = size_sum(plan->saved_bytes, plan->decoder.saved_bytes);
    }
    open_pass(plan, batch, NULL, NULL, &plan->workspace_bytes);
    *made = plan;
    return HASHATTN_OK;
}

size_t model_workspace_bytes(const struct model_plan *plan)
{
    return plan->workspace_bytes;
}

size_t model_saved_bytes(const struct model_plan *plan)
{
    return plan->saved_bytes;
}

size_t model_num_plans(const struct model_plan *plan)
{
    return plan->set.count;
}

/* The rows that the objectives read, after a forward. */
static const float *goal_rows(const struct model_pass *pass)
{
    return pass->model->bare      ? pass->batch->input.floats
           : decodes(pass->model) ? decoder_rows(&pass->decoder)
                                  : encoder_stack_rows(&pass->encoder);
}

static size_t examples_of(const struct model_pass *pass)
{
    return pass->batch->num_sequences / (pass->model->config.pairs ? 2 : 1);
}

/* The sum of the weights of a goal's targets, over the step or this batch. Never 0, because it is a
   divisor. */
static double count_of(const struct model_pass *pass, size_t index)
{
    const struct model_batch *batch = pass->batch;
    const struct goal *goal = &pass->model->goals[index];
    if (batch->targets == NULL)
        return 1;
    const float *weights = batch->targets[index].weights;
    size_t n = objective_targets(goal->objective, &pass->rows, pass->model->config.pairs);
    double count = weights == NULL ? (double)n : 0;
    for (size_t i = 0; weights != NULL && i < n; i++)
        count += (double)weights[i];
    if (batch->counts != NULL)
        count = batch->counts[index];
    return count > 0 ? count : 1;
}

static struct objective_pass goal_pass(const struct model_pass *pass, size_t index, const float *x)
{
    return (struct objective_pass){
        .self = pass->model->goals[index].self,
        .rows = &pass->rows,
        .values = pass->values,
        .targets = pass->batch->targets == NULL ? NULL : &pass->batch->targets[index],
        .x = x,
        .training = pass->batch->training,
        .weight = (1 - pass->model->own_share) * pass->model->goals[index].weight,
        .count = count_of(pass, index),
        .memory = pass->memory[index],
    };
}

/* true on the rank that counts examples: the first of those that share sequences. */
static bool counts_examples(const struct model_pass *pass)
{
    return row_ranks_first(pass->batch->cut == NULL ? NULL : pass->batch->cut->ranks);
}

/* true if this rank counts what an objective finds: a rank that shares sequences counts its own rows, and the
   first one the examples. */
static bool counts_here(const struct model_pass *pass, const struct objective *objective)
{
    return objective->place == TARGET_ROW || counts_examples(pass);
}

/* Heads of both stacks with an own loss of this mechanism. */
static size_t own_heads(const struct model *model, const struct mechanism *mechanism)
{
    return encoder_stack_own_heads(&model->encoder, mechanism) +
           decoder_own_heads(&model->decoder, mechanism);
}

/* Sets the weight of each own loss so that its sum becomes the mean over the heads that have it and over
   examples, times its share. */
static void fill_own(const struct model_pass *pass, struct own_loss own[PLAN_MECHANISMS])
{
    const struct model *model = pass->model;
    size_t examples = pass->batch->examples > 0 ? pass->batch->examples : examples_of(pass);
    for (size_t i = 0; i < model->num_own; i++) {
        size_t heads = own_heads(model, model->own[i].mechanism);
        double over = (double)heads * (double)examples;
        own[i] = (struct own_loss){.mechanism = model->own[i].mechanism,
                                   .heads = heads,
                                   .weight = over == 0 ? 0 : model->own[i].share / over};
    }
}

double model_forward(struct model_pass *pass)
{
    const struct model *model = pass->model;
    const struct model_batch *batch = pass->batch;
    struct own_loss own[PLAN_MECHANISMS];
    fill_own(pass, own);
    if (!model->bare)
        encoder_stack_forward(&pass->encoder, own, batch->targets == NULL ? 0 : model->num_own);
    if (decodes(model))
        decoder_forward(&pass->decoder, own, batch->targets == NULL ? 0 : model->num_own);
    const float *x = goal_rows(pass);
    double loss = 0;
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(pass, i, x);
        double found = goal.weight * (model->goals[i].objective->forward(&goal) / goal.count);
        loss += counts_here(pass, model->goals[i].objective) ? found : 0;
    }
    for (size_t i = 0; i < model->num_own && batch->targets != NULL; i++) {
        pass->own_sums[i] = own[i].sum;
        loss += own[i].weight * own[i].sum;
    }
    profile_lap(batch->profile, PROFILE_HEAD);
    return loss;
}

void model_backward(struct model_pass *pass, float *gradients, const struct backward_listener *listener)
{
    const struct model *model = pass->model;
    const struct model_batch *batch = pass->batch;
    struct own_loss own[PLAN_MECHANISMS];
    assert(batch->training && batch->targets != NULL && model->num_goals > 0);
    fill_own(pass, own);
    const float *x = goal_rows(pass);
    float *dx = model->bare      ? NULL
                : decodes(model) ? decoder_gradient(&pass->decoder)
                                 : encoder_stack_gradient(&pass->encoder);
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(pass, i, x);
        model->goals[i].objective->backward(&goal, (struct slice){gradients, 0}, dx, i > 0);
    }
    profile_lap(batch->profile, PROFILE_HEAD);
    if (decodes(model))
        decoder_backward(&pass->decoder, gradients, encoder_stack_gradient(&pass->encoder), own,
                         model->num_own);
    if (!model->bare)
        encoder_stack_backward(&pass->encoder, gradients, own, model->num_own, listener);
}

void model_count(const struct model_pass *pass, double *sums)
{
    const struct model *model = pass->model;
    const float *x = goal_rows(pass);
    assert(pass->batch->targets != NULL);
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(pass, i, x);
        if (counts_here(pass, model->goals[i].objective))
            model->goals[i].objective->count(&goal, sums);
        sums += objective_sums(model->goals[i].objective);
    }
    for (size_t i = 0; pass->batch->training && i < model->num_own; i++) {
        size_t heads = own_heads(model, model->own[i].mechanism);
        sums[2 * i] += heads == 0 ? 0 : pass->own_sums[i] / (double)heads;
        sums[2 * i + 1] += counts_examples(pass) ? (double)examples_of(pass) : 0;
    }
}

/* ---- predictions -------------------------------------------------------------------------------------- */

size_t model_outputs(const struct model *model)
{
    size_t i = model_predicting(model);
    return i == model->num_goals ? 0 : model->goals[i].objective->outputs(model->goals[i].self);
}

void model_predict(const struct model_pass *pass, float *outputs)
{
    size_t i = model_predicting(pass->model);
    assert(i < pass->model->num_goals);
    struct objective_pass goal = goal_pass(pass, i, goal_rows(pass));
    pass->model->goals[i].objective->predict(&goal, outputs);
}

size_t model_confused(const struct model *model)
{
    size_t i = model_predicting(model), classes = model_outputs(model);
    return classes > 0 && classes <= MODEL_CONFUSED && model->goals[i].objective->confuse != NULL ? classes
                                                                                                  : 0;
}

void model_confuse(const struct model_pass *pass, size_t *counts)
{
    size_t i = model_predicting(pass->model);
    assert(model_confused(pass->model) > 0 && pass->batch->targets != NULL);
    struct objective_pass goal = goal_pass(pass, i, goal_rows(pass));
    if (counts_here(pass, pass->model->goals[i].objective))
        pass->model->goals[i].objective->confuse(&goal, counts);
}

/* ---- rows and scores ---------------------------------------------------------------------------------- */

const float *model_rows(const struct model_pass *pass)
{
    return goal_rows(pass);
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

void model_score_rows(const struct model_pass *pass, const size_t *places, size_t n, float *scores)
{
    size_t i = scoring(pass->model);
    assert(i < pass->model->num_goals);
    struct objective_pass goal = goal_pass(pass, i, goal_rows(pass));
    pass->model->goals[i].objective->score_rows(&goal, places, n, scores);
}
