/* Makes and frees models: describes the parameters of the stacks, then those of the objectives in order.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "models/model_parts.h"

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

static hashattn_status describe_term(struct host *host, struct model *model,
                                     const struct model_objective *entry)
{
    const struct model_config *config = &model->config;
    const struct objective *objective = entry->objective;
    const struct objective_facts facts = {.dim = (size_t)(model->bare ? config->row_width : config->dim),
                                          .num_outputs = (size_t)entry->num_outputs,
                                          .first_output = (size_t)entry->first_output,
                                          .positive = (size_t)entry->positive,
                                          .max_len = (size_t)config->max_len,
                                          .decoded_rows = (size_t)config->decoded_rows,
                                          .pairs = config->pairs,
                                          .causal = config->causal != 0,
                                          .bytes = config->bytes,
                                          .quantiles = entry->quantiles,
                                          .pooling = (enum pooling)config->pooling,
                                          .head = (enum head_kind)config->classifier,
                                          .norm_epsilon = config->norm_epsilon,
                                          .embed = &model->encoder.trunk.input.embed};
    const char *why = objective->refuse(&facts);
    FAIL_IF(why != NULL, host, HASHATTN_INVALID, "model: %s: %s", objective->name, why);
    struct loss_term *term = &model->terms[model->num_terms];
    TRY(memory_new_zeroed(host, 1, objective->size, "an objective", &term->self));
    term->objective = objective;
    term->weight = entry->weight;
    model->num_terms++;
    return objective->describe(host, &model->params, &facts, term->self);
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
    return config->decoder_rows == 0 ? HASHATTN_OK
                                     : trunk_describe_decoder(host, &model->params, config, &model->decoder);
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
        TRY(describe_term(host, model, &config->objectives[i]));
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
    return model_decodes(model) ? input_fit(host, &model->decoder.input, (size_t)model->config.decoder_rows)
                                : HASHATTN_OK;
}

void model_free(struct host *host, struct model *model)
{
    if (model == NULL)
        return;
    for (size_t i = 0; i < model->num_terms; i++)
        memory_free(host, model->terms[i].self);
    trunk_free(host, &model->decoder);
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
