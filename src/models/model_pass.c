/* Runs the encoder and the decoder, then the objectives in order, each with its own part of the workspace.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "models/model_parts.h"

/* The rows that the objectives read, after a forward. */
static const float *objective_rows(const struct model_pass *pass)
{
    return pass->model->bare            ? pass->batch->input.floats
           : model_decodes(pass->model) ? trunk_rows(&pass->decoder)
                                        : encoder_stack_rows(&pass->encoder);
}

static size_t examples_of(const struct model_pass *pass)
{
    return pass->batch->num_sequences / (pass->model->config.pairs ? 2 : 1);
}

/* The sum of the weights of a term's targets, over the step or this batch. Never 0, because it is a
   divisor. */
static double count_of(const struct model_pass *pass, size_t index)
{
    const struct model_batch *batch = pass->batch;
    const struct loss_term *term = &pass->model->terms[index];
    if (batch->targets == NULL)
        return 1;
    const float *weights = batch->targets[index].weights;
    size_t n = objective_targets(term->objective, &pass->rows, pass->model->config.pairs);
    double count = weights == NULL ? (double)n : 0;
    for (size_t i = 0; weights != NULL && i < n; i++)
        count += (double)weights[i];
    if (batch->counts != NULL)
        count = batch->counts[index];
    return count > 0 ? count : 1;
}

static struct objective_pass term_pass(const struct model_pass *pass, size_t index, const float *x)
{
    return (struct objective_pass){
        .self = pass->model->terms[index].self,
        .rows = &pass->rows,
        .values = pass->values,
        .targets = pass->batch->targets == NULL ? NULL : &pass->batch->targets[index],
        .x = x,
        .training = pass->batch->training,
        .weight = (1 - pass->model->own_share) * pass->model->terms[index].weight,
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
    return encoder_stack_own_heads(&model->encoder, mechanism) + trunk_own_heads(&model->decoder, mechanism);
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
    if (model_decodes(model))
        trunk_forward(&pass->decoder, own, batch->targets == NULL ? 0 : model->num_own);
    const float *x = objective_rows(pass);
    double loss = 0;
    for (size_t i = 0; i < model->num_terms; i++) {
        struct objective_pass term = term_pass(pass, i, x);
        double found = term.weight * (model->terms[i].objective->forward(&term) / term.count);
        loss += counts_here(pass, model->terms[i].objective) ? found : 0;
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
    assert(batch->training && batch->targets != NULL && model->num_terms > 0);
    fill_own(pass, own);
    const float *x = objective_rows(pass);
    float *dx = model->bare            ? NULL
                : model_decodes(model) ? trunk_gradient(&pass->decoder)
                                       : encoder_stack_gradient(&pass->encoder);
    for (size_t i = 0; i < model->num_terms && !batch->own_losses_only; i++) {
        struct objective_pass term = term_pass(pass, i, x);
        model->terms[i].objective->backward(&term, (struct slice){gradients, 0}, dx, i > 0);
    }
    profile_lap(batch->profile, PROFILE_HEAD);
    pass->decoder.own_losses_only = batch->own_losses_only;
    if (model_decodes(model))
        trunk_backward(&pass->decoder, gradients, own, model->num_own);
    if (!model->bare)
        encoder_stack_backward(&pass->encoder, gradients, own, model->num_own, batch->first_trained,
                               batch->own_losses_only, listener);
}

void model_count(const struct model_pass *pass, double *sums)
{
    const struct model *model = pass->model;
    const float *x = objective_rows(pass);
    assert(pass->batch->targets != NULL);
    for (size_t i = 0; i < model->num_terms; i++) {
        struct objective_pass term = term_pass(pass, i, x);
        if (counts_here(pass, model->terms[i].objective))
            model->terms[i].objective->count(&term, sums);
        sums += objective_sums(model->terms[i].objective);
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
    return i == model->num_terms ? 0 : model->terms[i].objective->outputs(model->terms[i].self);
}

void model_predict(const struct model_pass *pass, float *outputs)
{
    size_t i = model_predicting(pass->model);
    assert(i < pass->model->num_terms);
    struct objective_pass term = term_pass(pass, i, objective_rows(pass));
    pass->model->terms[i].objective->predict(&term, outputs);
}

size_t model_confused(const struct model *model)
{
    size_t i = model_predicting(model), classes = model_outputs(model);
    return classes > 0 && classes <= MODEL_CONFUSED && model->terms[i].objective->confuse != NULL ? classes
                                                                                                  : 0;
}

void model_confuse(const struct model_pass *pass, size_t *counts)
{
    size_t i = model_predicting(pass->model);
    assert(model_confused(pass->model) > 0 && pass->batch->targets != NULL);
    struct objective_pass term = term_pass(pass, i, objective_rows(pass));
    if (counts_here(pass, pass->model->terms[i].objective))
        pass->model->terms[i].objective->confuse(&term, counts);
}

size_t model_labels(const struct model *model)
{
    size_t i = model_predicting(model), labels = model_outputs(model);
    return labels > 0 && labels <= MODEL_LABELS && model->terms[i].objective->count_labels != NULL ? labels
                                                                                                   : 0;
}

void model_count_labels(const struct model_pass *pass, size_t *counts)
{
    size_t i = model_predicting(pass->model);
    assert(model_labels(pass->model) > 0 && pass->batch->targets != NULL);
    struct objective_pass term = term_pass(pass, i, objective_rows(pass));
    if (counts_here(pass, pass->model->terms[i].objective))
        pass->model->terms[i].objective->count_labels(&term, counts);
}

/* ---- rows and scores ---------------------------------------------------------------------------------- */

const float *model_rows(const struct model_pass *pass)
{
    return objective_rows(pass);
}

static size_t scoring(const struct model *model)
{
    size_t i = 0;
    while (i < model->num_terms && model->terms[i].objective->num_scores == NULL)
        i++;
    return i;
}

size_t model_num_scores(const struct model *model)
{
    size_t i = scoring(model);
    return i == model->num_terms ? 0 : model->terms[i].objective->num_scores(model->terms[i].self);
}

void model_score_rows(const struct model_pass *pass, const size_t *places, size_t n, float *scores)
{
    size_t i = scoring(pass->model);
    assert(i < pass->model->num_terms);
    struct objective_pass term = term_pass(pass, i, objective_rows(pass));
    pass->model->terms[i].objective->score_rows(&term, places, n, scores);
}
