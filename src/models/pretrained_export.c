/* A second model is described with the config that the files will have, and takes its tensors by name.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained_export.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/json.h"

/* RoBERTa numbers positions from the row after that of the padding's id. */
static enum pretrained_type type_of(const struct model_config *model, int64_t padding)
{
    if (strcmp(model->plan.used[0].mechanism->name, "softmax") != 0)
        return PRETRAINED_YOSO;
    bool roberta = model->positions == POSITIONS_LEARNED && model->position_offset > 0 &&
                   model->position_offset == padding + 1;
    return roberta ? PRETRAINED_ROBERTA : PRETRAINED_BERT;
}

/* The config of the same encoder in a file, with the one objective that has a place there. */
static enum pretrained_type describe(const struct model_config *model, const struct export_choice *choice,
                                     struct model_config *theirs)
{
    bool classifies = pretrained_problem(model) != NULL;
    enum pretrained_type type = type_of(model, choice->padding);
    *theirs = *model;
    theirs->num_objectives = 0;
    for (size_t i = 0; !choice->encoder_only && i < model->num_objectives; i++)
        if (classifies || strcmp(model->objectives[i].objective->name, "masked_tokens") == 0)
            theirs->objectives[theirs->num_objectives++] = model->objectives[i];
    if (theirs->num_segments == 0)
        theirs->num_segments = 1;
    if (theirs->positions == POSITIONS_LEARNED && type != PRETRAINED_ROBERTA)
        theirs->position_offset = type == PRETRAINED_YOSO ? PRETRAINED_YOSO_OFFSET : 0;
    return type;
}

hashattn_status pretrained_export_check(struct host *host, const struct model_config *model,
                                        const struct export_choice *choice)
{
    struct model_config theirs;
    return pretrained_config_check(host, describe(model, choice, &theirs), &theirs);
}

static const struct param *find_row(const struct params *params, const char *name)
{
    for (size_t i = 0; i < params->num_rows; i++)
        if (strcmp(params->rows[i].name, name) == 0)
            return &params->rows[i];
    return NULL;
}

/* Copies the tensors that both models have into zeros. The tables of positions end with the same rows. */
static void take_values(const struct params *ours, const float *values, const struct params *theirs,
                        float *taken)
{
    memset(taken, 0, theirs->total * sizeof *taken);
    for (size_t i = 0; i < theirs->num_rows; i++) {
        const struct param *to = &theirs->rows[i], *from = find_row(ours, to->name);
        if (from == NULL)
            continue;
        size_t count = size_min(from->count, to->count);
        memcpy(taken + to->offset + (to->count - count), values + from->offset + (from->count - count),
               count * sizeof *taken);
    }
}

/* A regression's output in the units of its targets. */
static void take_units(const struct params *theirs, const struct export_choice *choice, float *taken)
{
    const struct param *weight = find_row(theirs, "classifier.out_proj.weight");
    const struct param *bias = find_row(theirs, "classifier.out_proj.bias");
    for (size_t i = 0; i < weight->count; i++)
        taken[weight->offset + i] = (float)(choice->scale * (double)taken[weight->offset + i]);
    taken[bias->offset] = (float)(choice->shift + choice->scale * (double)taken[bias->offset]);
}

static hashattn_status put_labels(struct host *host, struct json *json, const char *const *labels,
                                  size_t count)
{
    struct json *names, *ids;
    char id[24];
    TRY(json_new_object(host, &names));
    TRY(json_put(host, json, "id2label", names));
    TRY(json_new_object(host, &ids));
    TRY(json_put(host, json, "label2id", ids));
    for (size_t i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%zu", i);
        TRY(json_put_string(host, names, id, labels == NULL ? "LABEL_0" : labels[i]));
        TRY(json_put_int(host, ids, labels == NULL ? "LABEL_0" : labels[i], (int64_t)i));
    }
    return HASHATTN_OK;
}

static hashattn_status new_floats(struct host *host, const struct params *params, float **floats)
{
    void *block;
    TRY(memory_new(host, params->total, sizeof **floats, "the parameters", &block));
    *floats = block;
    return HASHATTN_OK;
}

hashattn_status pretrained_export(struct host *host, const char *directory, const struct pretrained *files,
                                  const struct model *net, const struct export_choice *choice)
{
    struct pretrained written = {.names = NULL};
    struct model_config config;
    struct model *theirs = NULL;
    float *values = NULL, *taken = NULL;
    hashattn_status status;
    const struct params *params = model_params(net);
    written.config.type = describe(model_config_of(net), choice, &config);
    TRY(pretrained_config_check(host, written.config.type, &config));
    config.pairs = false; /* of an output that is left out */
    const char *problem = pretrained_problem(&config);
    written.names = &pretrained_names[written.config.type].whole;
    TRY(json_new_object(host, &written.config.json));
    if (choice->padding >= 0)
        TRY_DONE(json_put_int(host, written.config.json, "pad_token_id", choice->padding));
    TRY_DONE(
        json_put_real(host, written.config.json, "attention_probs_dropout_prob", config.attention_dropout));
    if (problem != NULL)
        TRY_DONE(
            put_labels(host, written.config.json, choice->labels, (size_t)config.objectives[0].num_outputs));
    TRY_DONE(model_new(host, &config, &theirs));
    TRY_DONE(new_floats(host, params, &values));
    TRY_DONE(new_floats(host, model_params(theirs), &taken));
    TRY_DONE(pretrained_load(host, files, params, choice->seed, values));
    take_values(params, values, model_params(theirs), taken);
    if (problem != NULL && strcmp(problem, "regression") == 0)
        take_units(model_params(theirs), choice, taken);
    status = pretrained_save(host, directory, &written, &config, model_params(theirs), taken);
done:
    memory_free(host, taken);
    memory_free(host, values);
    model_free(host, theirs);
    json_free(written.config.json);
    return status;
}
