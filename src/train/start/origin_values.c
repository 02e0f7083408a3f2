/* Initial values from a stored model.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "io/json.h"
#include "io/weights/tensor_floats.h"
#include "train/start/origin.h"

void origin_report_free(struct origin_report *report)
{
    json_free(report->anew);
    json_free(report->dropped);
    *report = (struct origin_report){.taken = 0};
}

struct taking {
    const struct origin *origin;
    const struct model *model;
    float *values;
    bool *used;        /* (tensors of the files) by number: a row has it */
    bool same_meaning; /* of the outputs */
    enum extend_positions extend;
    struct origin_report *report;
};

static bool has_shape(const struct tensor *tensor, const struct param *row)
{
    return tensor->rank == row->rank &&
           memcmp(tensor->shape, row->shape, (size_t)row->rank * sizeof *row->shape) == 0;
}

static bool is_positions(const struct param *row)
{
    return strcmp(row->name, "embeddings.position_embeddings.weight") == 0;
}

static bool is_last_layer(const struct model *model, const struct param *row)
{
    const struct model_config *config = model_config_of(model);
    for (size_t i = 0; i < config->num_objectives; i++) {
        const char *layer = config->objectives[i].objective->last_layer;
        if (layer != NULL && strncmp(row->name, layer, strlen(layer)) == 0)
            return true;
    }
    return false;
}

/* The names of a checkpoint's classes; LABEL_0, LABEL_1 and so on name nothing. */
static bool same_names(const struct json *names, const struct task_facts *facts)
{
    for (size_t i = 0; i < facts->num_classes; i++) {
        char id[24], usual[32];
        snprintf(id, sizeof id, "%zu", i);
        snprintf(usual, sizeof usual, "LABEL_%zu", i);
        const char *name = json_text(json_at(names, id));
        if (name != NULL && strcmp(name, usual) != 0 && strcmp(name, facts->labels[i]) != 0)
            return false;
    }
    return true;
}

/* A checkpoint predicts a number in its units; those of a table are standardised here. */
static bool same_meaning(const struct origin *origin, const struct task_facts *facts)
{
    const struct task_facts *stored = &origin->run.facts;
    const struct task_objective *was = &stored->objectives[0], *is = &facts->objectives[0];
    if (origin->run.task == NULL)
        return facts->num_columns == 0 && same_names(json_at(origin->files.config.json, "id2label"), facts);
    bool same = stored->num_classes == facts->num_classes && strcmp(was->name, is->name) == 0 &&
                quantiles_equal(&was->quantiles, &is->quantiles);
    for (size_t i = 0; same && i < facts->num_classes; i++)
        same = strcmp(stored->labels[i], facts->labels[i]) == 0;
    return same;
}

static hashattn_status check_finite(struct host *host, const struct taking *t, const struct param *row)
{
    const float *values = t->values + row->offset;
    for (size_t i = 0; i < row->count; i++)
        FAIL_IF(!isfinite(values[i]), host, HASHATTN_BAD_FILE,
                "%.200s: the tensor of '%s' holds %g at element %zu of %zu", t->origin->directory, row->name,
                (double)values[i], i, row->count);
    return HASHATTN_OK;
}

/* A table that is also an output may be scaled on input, and the same table without that output is not: the
   words must enter the trunk as they did. A factor of 1 changes no bit. */
static void scale_words(const struct taking *t, const struct param *row)
{
    float stored = model_word_scale(t->origin->model), now = model_word_scale(t->model);
    const char *end = strrchr(row->name, '.');
    if (stored == now || strncmp(row->name, "embeddings.word_embeddings.", 27) != 0 ||
        strcmp(end, ".weight") != 0) /* those of tails too, not their projections */
        return;
    for (size_t i = 0; i < row->count; i++)
        t->values[row->offset + i] *= stored / now;
}

/* Position r of n between the first and the last of `stored` ones. */
static void interpolate(const float *table, size_t stored, size_t r, size_t n, size_t dim, float *row)
{
    double place = (double)r * (double)(stored - 1) / (double)(n - 1);
    size_t low = (size_t)place, high = low + 1 < stored ? low + 1 : low;
    double share = place - (double)low;
    for (size_t c = 0; c < dim; c++)
        row[c] = (float)((1 - share) * (double)table[low * dim + c] + share * (double)table[high * dim + c]);
}

/* Row r of the new table is row r of the stored one up to the offset; the positions after it are extended. */
static hashattn_status take_positions(struct host *host, const struct taking *t, const struct param *row,
                                      const struct tensor *tensor)
{
    size_t offset = (size_t)model_config_of(t->model)->position_offset, dim = row->shape[1];
    size_t stored = tensor->shape[0] - offset, n = row->shape[0] - offset;
    bool between = t->extend == EXTEND_INTERPOLATE && n > stored;
    void *block;
    TRY(memory_new(host, size_product(tensor->shape[0], dim), sizeof(float), "stored positions", &block));
    const float *table = block;
    tensor_copy_floats(tensor, block);
    for (size_t r = 0; r < row->shape[0]; r++) {
        float *to = t->values + row->offset + r * dim;
        size_t from = r < offset ? r : offset + (r - offset) % stored;
        if (between && r >= offset)
            interpolate(table + offset * dim, stored, r - offset, n, dim, to);
        else
            memcpy(to, table + from * dim, dim * sizeof *table);
    }
    memory_free(host, block);
    t->report->stored_positions = stored;
    t->report->positions = n;
    return HASHATTN_OK;
}

static hashattn_status take_row(struct host *host, const struct taking *t, size_t index, uint64_t seed)
{
    const struct param *row = &model_params(t->model)->rows[index];
    const struct safetensors *file;
    const struct tensor *tensor = pretrained_find(&t->origin->files, row, &file);
    bool meant = t->same_meaning || !is_last_layer(t->model, row);
    bool same = tensor != NULL && has_shape(tensor, row) && meant;
    if (!same && (tensor == NULL || !is_positions(row))) {
        start_fill(row->start, row->scale, random_key(seed, RANDOM_INIT, index), t->values + row->offset,
                   row->count);
        return json_put_string(host, t->report->anew, NULL, row->name);
    }
    FAIL_IF(!tensor_has_floats(tensor), host, HASHATTN_BAD_FILE,
            "%.200s: the tensor of '%s' is %s, F32, F64, F16 or BF16 is needed", t->origin->directory,
            row->name, tensor_type_name(tensor->type));
    if (same)
        tensor_copy_floats(tensor, t->values + row->offset);
    else
        TRY(take_positions(host, t, row, tensor));
    file_map_release(&file->map, tensor->data, tensor->bytes);
    t->used[weight_files_number(&t->origin->files.weights, file, tensor)] = true;
    t->report->taken++;
    scale_words(t, row);
    return check_finite(host, t, row);
}

static hashattn_status list_dropped(struct host *host, const struct taking *t)
{
    const struct weight_files *weights = &t->origin->files.weights;
    for (size_t f = 0, number = 0; f < weights->num_files; f++)
        for (size_t i = 0; i < weights->files[f].count; i++, number++)
            if (!t->used[number])
                TRY(json_put_string(host, t->report->dropped, NULL, weights->files[f].tensors[i].name));
    return HASHATTN_OK;
}

hashattn_status origin_values(struct host *host, const struct origin *origin, const struct model *model,
                              const struct task_facts *facts, enum extend_positions extend, uint64_t seed,
                              float *values, struct origin_report *report)
{
    const struct params *params = model_params(model);
    struct taking t = {.origin = origin,
                       .model = model,
                       .values = values,
                       .report = report,
                       .extend = extend,
                       .same_meaning = same_meaning(origin, facts)};
    void *block = NULL;
    hashattn_status status;
    *report = (struct origin_report){.taken = 0};
    if (params->total > 0)
        memset(values, 0, params->total * sizeof *values);
    TRY_DONE(memory_new_zeroed(host, weight_files_tensors(&origin->files.weights), sizeof *t.used,
                               "the list of tensors", &block));
    t.used = block;
    TRY_DONE(json_new_array(host, &report->anew));
    TRY_DONE(json_new_array(host, &report->dropped));
    for (size_t i = 0; i < params->num_rows; i++)
        TRY_DONE(take_row(host, &t, i, seed));
    status = list_dropped(host, &t);
done:
    memory_free(host, block);
    if (status != HASHATTN_OK)
        origin_report_free(report);
    return status;
}
