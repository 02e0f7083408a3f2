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

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* One pass over a batch, with the workspace cut into parts. */
struct pass {
    const struct model *model;
    const struct model_batch *batch;
    struct encoder_stack_pass encoder;
    struct decoder_pass decoder; /* if there is one */
    void *memory[MODEL_OBJECTIVES];
    double *own_sums; /* (num_own) sums of the last forward */
    size_t bytes;
};

static bool decodes(const struct model *model)
{
    return model->decoder.layers > 0;
}

/* How the rows are cut that the objectives read. */
static const struct rows *read_rows(const struct pass *pass)
{
    return decodes(pass->model) ? &pass->decoder.rows : &pass->encoder.rows;
}

static struct decoder_pass decoder_of(const struct model *model, const struct model_batch *batch,
                                      const struct encoder_stack_pass *encoder)
{
    struct decoder_pass pass = {.decoder = &model->decoder,
                                .rows = rows_of(batch->kernels, batch->pool, batch->num_sequences,
                                                batch->decoder_offsets, batch->sample_ids),
                                .encoder = encoder_stack_last(encoder),
                                .floats = batch->decoder_floats,
                                .values = encoder->values,
                                .random_key = batch->random_key,
                                .training = batch->training};
    pass.rows.profile = batch->profile;
    pass.rows.inspector = batch->inspector;
    return pass;
}

static struct pass open_pass(const struct model *model, const struct model_batch *batch, const float *values,
                             void *workspace)
{
    struct pass pass = {
        .model = model,
        .batch = batch,
        .encoder = {.encoder = &model->encoder,
                    .rows = rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets,
                                    batch->sample_ids),
                    .halved_offsets = batch->halved_offsets,
                    .input = batch->input,
                    .values = values,
                    .random_key = batch->random_key,
                    .training = batch->training},
    };
    struct arena arena = arena_on(workspace);
    pass.encoder.rows.profile = batch->profile;
    pass.encoder.rows.inspector = batch->inspector;
    pass.encoder.rows.listener = batch->listener;
    pass.encoder.rows.cut = batch->cut;
    pass.encoder.memory = arena_take(&arena, model->bare ? 0 : encoder_stack_memory_size(&pass.encoder), 1);
    if (decodes(model)) {
        pass.decoder = decoder_of(model, batch, &pass.encoder);
        pass.decoder.memory = arena_take(&arena, decoder_memory_size(&pass.decoder), 1);
        pass.decoder.encoded = workspace == NULL ? NULL : encoder_stack_rows(&pass.encoder);
    }
    for (size_t i = 0; i < model->num_goals; i++) {
        const struct goal *goal = &model->goals[i];
        size_t size = goal->objective->memory_size(goal->self, read_rows(&pass), batch->training);
        pass.memory[i] = arena_take(&arena, size, 1);
    }
    pass.own_sums = arena_take(&arena, model->num_own, sizeof(double));
    pass.bytes = arena.used;
    return pass;
}

hashattn_status model_check(struct host *host, const struct model *model, const struct model_batch *batch)
{
    struct rows rows =
        rows_of(batch->kernels, batch->pool, batch->num_sequences, batch->offsets, batch->sample_ids);
    rows.cut = batch->cut;
    for (size_t i = 0; i < model->num_goals && batch->cut != NULL; i++)
        FAIL_IF(
            model->goals[i].objective->whole, host, HASHATTN_REFUSED,
            "the objective %s reads the rows of a sequence together: sequence_parallel must be 1, not %zu",
            model->goals[i].objective->name, row_ranks_count(batch->cut->ranks));
    const struct encoder_stack_pass encoder = {
        .encoder = &model->encoder, .rows = rows, .halved_offsets = batch->halved_offsets};
    TRY(encoder_stack_check(host, &encoder));
    if (!decodes(model))
        return HASHATTN_OK;
    const struct decoder_pass pass = decoder_of(model, batch, &encoder);
    return decoder_check(host, &pass);
}

size_t model_workspace_size(const struct model *model, const struct model_batch *batch)
{
    return open_pass(model, batch, NULL, NULL).bytes;
}

size_t model_saved_size(const struct model *model, const struct model_batch *batch)
{
    struct pass pass = open_pass(model, batch, NULL, NULL);
    size_t decoder = decodes(model) ? decoder_saved_size(&pass.decoder) : 0;
    return model->bare ? 0 : size_sum(encoder_stack_saved_size(&pass.encoder), decoder);
}

/* The rows that the objectives read, after a forward. */
static const float *goal_rows(const struct pass *pass)
{
    return pass->model->bare      ? pass->batch->input.floats
           : decodes(pass->model) ? decoder_rows(&pass->decoder)
                                  : encoder_stack_rows(&pass->encoder);
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
    size_t n = objective_targets(goal->objective, read_rows(pass), pass->model->config.pairs);
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
        .rows = read_rows(pass),
        .values = pass->encoder.values,
        .targets = pass->batch->targets == NULL ? NULL : &pass->batch->targets[index],
        .x = x,
        .training = pass->batch->training,
        .weight = (1 - pass->model->own_share) * pass->model->goals[index].weight,
        .count = count_of(pass, index),
        .memory = pass->memory[index],
    };
}

/* true if this rank counts what an objective finds: a rank that shares sequences counts its own rows, and the
   first one the examples. */
static bool counts_here(const struct pass *pass, const struct objective *objective)
{
    return objective->place == TARGET_ROW || row_ranks_first(rows_ranks(&pass->encoder.rows));
}

/* Heads of both stacks with an own loss of this mechanism. */
static size_t own_heads(const struct model *model, const struct mechanism *mechanism)
{
    return encoder_stack_own_heads(&model->encoder, mechanism) +
           decoder_own_heads(&model->decoder, mechanism);
}

/* Sets the weight of each own loss so that its sum becomes the mean over the heads that have it and over
   examples, times its share. */
static void fill_own(const struct pass *pass, struct own_loss own[PLAN_MECHANISMS])
{
    const struct model *model = pass->model;
    size_t examples = pass->batch->examples > 0 ? pass->batch->examples : examples_of(model, pass->batch);
    for (size_t i = 0; i < model->num_own; i++) {
        size_t heads = own_heads(model, model->own[i].mechanism);
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
    if (!model->bare)
        encoder_stack_forward(&pass.encoder, own, batch->targets == NULL ? 0 : model->num_own);
    if (decodes(model))
        decoder_forward(&pass.decoder, own, batch->targets == NULL ? 0 : model->num_own);
    const float *x = goal_rows(&pass);
    double loss = 0;
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(&pass, i, x);
        double found = goal.weight * (model->goals[i].objective->forward(&goal) / goal.count);
        loss += counts_here(&pass, model->goals[i].objective) ? found : 0;
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
    const float *x = goal_rows(&pass);
    float *dx = model->bare      ? NULL
                : decodes(model) ? decoder_gradient(&pass.decoder)
                                 : encoder_stack_gradient(&pass.encoder);
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(&pass, i, x);
        model->goals[i].objective->backward(&goal, (struct slice){gradients, 0}, dx, i > 0);
    }
    profile_lap(batch->profile, PROFILE_HEAD);
    if (decodes(model))
        decoder_backward(&pass.decoder, gradients, encoder_stack_gradient(&pass.encoder), own,
                         model->num_own);
    if (!model->bare)
        encoder_stack_backward(&pass.encoder, gradients, own, model->num_own);
}

void model_count(const struct model *model, const struct model_batch *batch, void *workspace, double *sums)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    const float *x = goal_rows(&pass);
    assert(batch->targets != NULL);
    for (size_t i = 0; i < model->num_goals; i++) {
        struct objective_pass goal = goal_pass(&pass, i, x);
        if (counts_here(&pass, model->goals[i].objective))
            model->goals[i].objective->count(&goal, sums);
        sums += objective_sums(model->goals[i].objective);
    }
    for (size_t i = 0; batch->training && i < model->num_own; i++) {
        size_t heads = own_heads(model, model->own[i].mechanism);
        sums[2 * i] += heads == 0 ? 0 : pass.own_sums[i] / (double)heads;
        sums[2 * i + 1] +=
            row_ranks_first(rows_ranks(&pass.encoder.rows)) ? (double)examples_of(model, batch) : 0;
    }
}

/* ---- predictions -------------------------------------------------------------------------------------- */

size_t model_outputs(const struct model *model)
{
    size_t i = model_predicting(model);
    return i == model->num_goals ? 0 : model->goals[i].objective->outputs(model->goals[i].self);
}

void model_predict(const struct model *model, const struct model_batch *batch, void *workspace,
                   float *outputs)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    size_t i = model_predicting(model);
    assert(i < model->num_goals);
    struct objective_pass goal = goal_pass(&pass, i, goal_rows(&pass));
    model->goals[i].objective->predict(&goal, outputs);
}

size_t model_confused(const struct model *model)
{
    size_t i = model_predicting(model), classes = model_outputs(model);
    return classes > 0 && classes <= MODEL_CONFUSED && model->goals[i].objective->confuse != NULL ? classes
                                                                                                  : 0;
}

void model_confuse(const struct model *model, const struct model_batch *batch, void *workspace,
                   size_t *counts)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    size_t i = model_predicting(model);
    assert(model_confused(model) > 0 && batch->targets != NULL);
    struct objective_pass goal = goal_pass(&pass, i, goal_rows(&pass));
    if (counts_here(&pass, model->goals[i].objective))
        model->goals[i].objective->confuse(&goal, counts);
}

/* ---- rows and scores ---------------------------------------------------------------------------------- */

const float *model_rows(const struct model *model, const struct model_batch *batch, void *workspace)
{
    struct pass pass = open_pass(model, batch, NULL, workspace);
    return goal_rows(&pass);
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
    struct objective_pass goal = goal_pass(&pass, i, goal_rows(&pass));
    model->goals[i].objective->score_rows(&goal, places, n, scores);
}
