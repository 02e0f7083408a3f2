/* Finds, checks and copies tensors by the rules of pretrained_names.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "io/json.h"
#include "io/shape_text.h"
#include "io/weights/tensor_floats.h"
#include "nn/ffn.h"

enum { THEIR_NAME = PARAM_NAME + 32 };

/* ---- names --------------------------------------------------------------------------------------------- */

/* Older files call the gain and bias of a norm gamma and beta. Returns false if `name` is of no norm. */
static bool older_name(const char *name, char older[THEIR_NAME])
{
    static const char norm[] = "LayerNorm.";
    const char *at = strstr(name, norm);
    if (at == NULL)
        return false;
    int head = (int)(at - name) + (int)sizeof norm - 1;
    const char *kind = strcmp(name + head, "weight") == 0 ? "gamma"
                       : strcmp(name + head, "bias") == 0 ? "beta"
                                                          : NULL;
    if (kind == NULL)
        return false;
    int length = snprintf(older, THEIR_NAME, "%.*s%s", head, name, kind);
    return length < THEIR_NAME;
}

/* The tensor of a row; NULL if the files have none. theirs: its name in files of today. */
static const struct tensor *find_row(const struct pretrained *pretrained, const struct param *row,
                                     char theirs[THEIR_NAME], const struct safetensors **file)
{
    char older[THEIR_NAME];
    bool whole = name_map_theirs(pretrained->names, row->name, theirs, THEIR_NAME);
    assert(whole);
    (void)whole;
    const struct tensor *tensor = weight_files_find(&pretrained->weights, theirs, file);
    if (tensor == NULL && older_name(theirs, older))
        tensor = weight_files_find(&pretrained->weights, older, file);
    return tensor;
}

const struct tensor *pretrained_find(const struct pretrained *pretrained, const struct param *row,
                                     const struct safetensors **file)
{
    char theirs[THEIR_NAME];
    return find_row(pretrained, row, theirs, file);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* The output's table is that of the words if the file has it twice with the same values or once. */
static hashattn_status check_tied(struct host *host, const struct pretrained *pretrained, const char *copy,
                                  const char *ours)
{
    struct param row = {.rank = 0};
    char theirs[THEIR_NAME];
    snprintf(row.name, sizeof row.name, "%s", ours);
    const struct tensor *second = weight_files_find(&pretrained->weights, copy, NULL);
    const struct tensor *first = find_row(pretrained, &row, theirs, NULL);
    bool same = second == NULL || first == NULL ||
                (first->type == second->type && first->bytes == second->bytes &&
                 (first->bytes == 0 || memcmp(first->data, second->data, first->bytes) == 0));
    FAIL_IF(
        !same, host, HASHATTN_BAD_FILE,
        "tensor '%s' differs from '%s': the output has a table of its own, and only tied ones are computed",
        copy, theirs);
    return HASHATTN_OK;
}

/* Adds the objective if the files have a part of its output; pretrained_check then names missing parts. */
static hashattn_status find_output(struct host *host, struct pretrained *pretrained)
{
    static const char *const parts[] = {"lm_head.dense.weight", "lm_head.dense.bias",
                                        "lm_head.layer_norm.weight", "lm_head.layer_norm.bias",
                                        "lm_head.bias"};
    struct model_config *model = &pretrained->config.model;
    char theirs[THEIR_NAME];
    bool found = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct param row = {.rank = 0};
        snprintf(row.name, sizeof row.name, "%s", parts[i]);
        found |= find_row(pretrained, &row, theirs, NULL) != NULL;
    }
    if (!found)
        return HASHATTN_OK;
    FAIL_IF(model->activation != FFN_GELU && pretrained_names[pretrained->config.type].transform_follows,
            host, HASHATTN_BAD_FILE,
            "the activation is %s, also of the output for masked tokens, which is computed with gelu only",
            ffn_activations[model->activation]);
    model->objectives[model->num_objectives++] = (struct model_objective){
        .objective = objective_find("masked_tokens"), .weight = 1, .num_outputs = model->vocab_size};
    for (const struct name_rule *copy = pretrained_copies; copy->ours != NULL; copy++)
        TRY(check_tied(host, pretrained, copy->theirs, copy->ours));
    return HASHATTN_OK;
}

hashattn_status pretrained_open(struct host *host, const char *directory, const char *attention,
                                struct pretrained *pretrained)
{
    memset(pretrained, 0, sizeof *pretrained);
    hashattn_status status;
    TRY_DONE(pretrained_config_read(host, directory, attention, &pretrained->config));
    TRY_DONE(weight_files_open(host, directory, &pretrained->weights));
    const struct pretrained_names *names = &pretrained_names[pretrained->config.type];
    bool whole = weight_files_find(&pretrained->weights, names->word_table, NULL) != NULL;
    pretrained->names = whole ? &names->whole : &names->bare;
    status = find_output(host, pretrained);
    if (status != HASHATTN_OK)
        host_prefix(host, directory);
done:
    if (status != HASHATTN_OK)
        pretrained_close(host, pretrained);
    return status;
}

void pretrained_close(struct host *host, struct pretrained *pretrained)
{
    weight_files_close(host, &pretrained->weights);
    pretrained_config_free(host, &pretrained->config);
    memset(pretrained, 0, sizeof *pretrained);
}

/* ---- checking ------------------------------------------------------------------------------------------ */

/* A list of what is wrong, as much as fits in a message. */
struct complaints {
    char text[360];
    size_t used, count, shown;
};

static void complain(struct complaints *list, const char *name, const char *what)
{
    char one[320];
    int length = snprintf(one, sizeof one, "%s'%.120s' %.160s", list->shown > 0 ? "; " : "", name, what);
    list->count++;
    if (length < 0 || list->used + (size_t)length >= sizeof list->text || list->shown + 1 < list->count)
        return;
    memcpy(list->text + list->used, one, (size_t)length + 1);
    list->used += (size_t)length;
    list->shown++;
}

static void check_row(const struct pretrained *pretrained, const struct param *row, struct complaints *list)
{
    char theirs[THEIR_NAME], is[SHAPE_TEXT(TENSOR_RANK)], wanted[SHAPE_TEXT(TENSOR_RANK)],
        text[2 * SHAPE_TEXT(TENSOR_RANK) + 60];
    const struct tensor *tensor = find_row(pretrained, row, theirs, NULL);
    if (tensor == NULL && param_is_own(row))
        return;
    if (tensor == NULL) {
        complain(list, theirs, "is missing");
        return;
    }
    bool fits = tensor->rank == row->rank &&
                memcmp(tensor->shape, row->shape, (size_t)row->rank * sizeof *row->shape) == 0;
    if (fits && tensor_has_floats(tensor))
        return;
    shape_text(tensor->rank, tensor->shape, is, sizeof is);
    shape_text(row->rank, row->shape, wanted, sizeof wanted);
    snprintf(text, sizeof text, "is %s %s, F32, F64, F16 or BF16 %s is needed",
             tensor_type_name(tensor->type), is, wanted);
    complain(list, theirs, text);
}

/* How a tensor's name is that of a row. */
enum named { NAMED_NOT, NAMED_TODAY, NAMED_BEFORE };

/* Lists for every tensor of the files, by its number, whether it is that of a row; the caller frees the list.
 */
static hashattn_status list_named(struct host *host, const struct pretrained *pretrained,
                                  const struct params *params, unsigned char **named)
{
    const struct weight_files *weights = &pretrained->weights;
    const struct safetensors *file;
    const struct tensor *tensor;
    char theirs[THEIR_NAME], older[THEIR_NAME];
    void *block;
    TRY(memory_new_zeroed(host, weight_files_tensors(weights), 1, "the tensors of a model", &block));
    *named = block;
    for (size_t i = 0; i < params->num_rows; i++) {
        if (!name_map_theirs(pretrained->names, params->rows[i].name, theirs, sizeof theirs))
            continue;
        if ((tensor = weight_files_find(weights, theirs, &file)) != NULL)
            (*named)[weight_files_number(weights, file, tensor)] = NAMED_TODAY;
        if (older_name(theirs, older) && (tensor = weight_files_find(weights, older, &file)) != NULL)
            (*named)[weight_files_number(weights, file, tensor)] = NAMED_BEFORE;
    }
    return HASHATTN_OK;
}

hashattn_status pretrained_check(struct host *host, const struct pretrained *pretrained,
                                 const struct params *params)
{
    struct complaints list = {.count = 0};
    unsigned char *named;
    TRY(list_named(host, pretrained, params, &named));
    for (size_t i = 0; i < params->num_rows; i++)
        check_row(pretrained, &params->rows[i], &list);
    for (size_t f = 0, number = 0; f < pretrained->weights.num_files; f++)
        for (size_t i = 0; i < pretrained->weights.files[f].count; i++, number++) {
            const char *name = pretrained->weights.files[f].tensors[i].name;
            if (named[number] == NAMED_NOT && !name_map_ignores(pretrained->names, name))
                complain(&list, name, "belongs to no layer of the model");
        }
    memory_free(host, named);
    char more[40] = "";
    if (list.count > list.shown)
        snprintf(more, sizeof more, "; and %zu more", list.count - list.shown);
    FAIL_IF(list.count > 0, host, HASHATTN_BAD_FILE, "%zu tensor%s not fit config.json: %s%s", list.count,
            list.count == 1 ? " does" : "s do", list.text, more);
    return HASHATTN_OK;
}

/* ---- loading ------------------------------------------------------------------------------------------- */

/* Index of the first value that is not finite; count if all are. */
static size_t first_bad(const float *values, size_t count)
{
    size_t i = 0;
    while (i < count && isfinite(values[i]))
        i++;
    return i;
}

static hashattn_status fail_value(struct host *host, const struct param *row, const float *values)
{
    size_t i = first_bad(values, row->count);
    return host_fail(host, HASHATTN_BAD_FILE, "the tensor of '%s' holds %g at element %zu of %zu", row->name,
                     (double)values[i], i, row->count);
}

static void start_row(const struct params *params, size_t index, uint64_t seed, float *values)
{
    const struct param *row = &params->rows[index];
    start_fill(row->start, row->scale, random_key(seed, RANDOM_INIT, index), values + row->offset,
               row->count);
}

hashattn_status pretrained_load(struct host *host, const struct pretrained *pretrained,
                                const struct params *params, uint64_t seed, float *values)
{
    char theirs[THEIR_NAME];
    if (params->total > 0)
        memset(values, 0, params->total * sizeof *values);
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        const struct safetensors *file;
        const struct tensor *tensor = find_row(pretrained, row, theirs, &file);
        if (tensor == NULL) {
            start_row(params, i, seed, values);
            continue;
        }
        tensor_copy_floats(tensor, values + row->offset);
        file_map_release(&file->map, tensor->data, tensor->bytes);
        if (first_bad(values + row->offset, row->count) < row->count)
            return fail_value(host, row, values + row->offset);
    }
    return HASHATTN_OK;
}

size_t pretrained_packed_floats(const struct params *params)
{
    return size_sum(params->packed_weights, params->total);
}

/* A row and its tensor. */
struct source {
    const struct tensor *tensor; /* NULL: the row starts from the seed */
    const struct safetensors *file;
    bool bad; /* a value is not finite */
};

struct packing {
    const struct params *params;
    const struct kernels *kernels;
    struct source *sources; /* (num_rows) */
    float *values;
};

static void pack_source(const struct packing *l, size_t index, const float *floats)
{
    struct source *source = &l->sources[index];
    source->bad = first_bad(floats, l->params->rows[index].count) < l->params->rows[index].count;
    params_pack_row(l->params, l->kernels, index, floats, false, l->values);
    file_map_release(&source->file->map, source->tensor->data, source->tensor->bytes);
}

static void lay_in_place(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct packing *l = argument;
    const struct source *source = &l->sources[index];
    if (source->tensor != NULL && tensor_floats(source->tensor) != NULL)
        pack_source(l, index, tensor_floats(source->tensor));
}

/* Rows that are converted first, one after another, in a block of the largest. */
static hashattn_status pack_converted(struct host *host, const struct packing *l)
{
    size_t largest = 0;
    void *block;
    for (size_t i = 0; i < l->params->num_rows; i++)
        if (l->sources[i].tensor != NULL && tensor_floats(l->sources[i].tensor) == NULL)
            largest = size_max(largest, l->params->rows[i].count);
    TRY(memory_new(host, largest, sizeof(float), "a converted tensor", &block));
    for (size_t i = 0; i < l->params->num_rows; i++) {
        const struct tensor *tensor = l->sources[i].tensor;
        if (tensor == NULL || tensor_floats(tensor) != NULL)
            continue;
        tensor_copy_floats(tensor, block);
        pack_source(l, i, block);
    }
    memory_free(host, block);
    return HASHATTN_OK;
}

static hashattn_status fail_source(struct host *host, const struct packing *l, size_t index)
{
    const struct param *row = &l->params->rows[index];
    void *block;
    TRY(memory_new(host, row->count, sizeof(float), "a converted tensor", &block));
    tensor_copy_floats(l->sources[index].tensor, block);
    hashattn_status status = fail_value(host, row, block);
    memory_free(host, block);
    return status;
}

hashattn_status pretrained_pack(struct host *host, const struct pretrained *pretrained,
                                const struct params *params, const struct kernels *kernels, struct pool *pool,
                                uint64_t seed, float *packed, const float **values)
{
    struct packing l = {.params = params, .kernels = kernels, .values = packed + params->packed_weights};
    char theirs[THEIR_NAME];
    void *block;
    TRY(memory_new_zeroed(host, params->num_rows, sizeof *l.sources, "the list of tensors", &block));
    l.sources = block;
    for (size_t i = 0; i < params->num_rows; i++) {
        struct source *source = &l.sources[i];
        source->tensor = find_row(pretrained, &params->rows[i], theirs, &source->file);
        if (source->tensor == NULL)
            start_row(params, i, seed, l.values);
    }
    pool_run(pool, lay_in_place, &l, params->num_rows);
    hashattn_status status = pack_converted(host, &l);
    for (size_t i = 0; status == HASHATTN_OK && i < params->num_rows; i++)
        if (l.sources[i].bad)
            status = fail_source(host, &l, i);
    memory_free(host, block);
    *values = l.values;
    return status;
}

/* ---- saving -------------------------------------------------------------------------------------------- */

/* True for tensors that are neither part of the model nor computed from it. */
static bool is_carried(const struct pretrained *pretrained, enum named named, const char *name)
{
    for (const struct name_rule *copy = pretrained_copies; copy->ours != NULL; copy++)
        if (strcmp(copy->theirs, name) == 0)
            return false;
    return named != NAMED_TODAY && name_map_ignores(pretrained->names, name) && strstr(name, "_ids") == NULL;
}

static size_t list_carried(const struct pretrained *pretrained, const unsigned char *named,
                           struct tensor *tensors)
{
    size_t count = 0;
    for (size_t f = 0, number = 0; f < pretrained->weights.num_files; f++)
        for (size_t i = 0; i < pretrained->weights.files[f].count; i++, number++) {
            const struct tensor *tensor = &pretrained->weights.files[f].tensors[i];
            if (!is_carried(pretrained, (enum named)named[number], tensor->name))
                continue;
            if (tensors != NULL)
                tensors[count] = *tensor;
            count++;
        }
    return count;
}

static hashattn_status write_weights(struct host *host, const char *directory,
                                     const struct pretrained *pretrained, const struct params *params,
                                     const float *values)
{
    static const struct tensor_word word = {"format", "pt"};
    char path[FILE_PATH];
    unsigned char *named;
    void *names = NULL, *block = NULL;
    hashattn_status status;
    TRY(file_join(host, directory, "model.safetensors", path, sizeof path));
    TRY(list_named(host, pretrained, params, &named));
    size_t count = params->num_rows + list_carried(pretrained, named, NULL);
    TRY_DONE(memory_new(host, params->num_rows, THEIR_NAME, "names of tensors", &names));
    TRY_DONE(memory_new_zeroed(host, count, sizeof(struct tensor), "list of tensors", &block));
    struct tensor *tensors = block;
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        char *name = (char *)names + i * THEIR_NAME;
        name_map_theirs(pretrained->names, row->name, name, THEIR_NAME);
        tensors[i] = (struct tensor){
            .name = name, .type = TENSOR_F32, .rank = row->rank, .data = values + row->offset};
        memcpy(tensors[i].shape, row->shape, (size_t)row->rank * sizeof *row->shape);
    }
    list_carried(pretrained, named, tensors + params->num_rows);
    status = safetensors_write(host, path, tensors, count, &word, 1);
done:
    memory_free(host, block);
    memory_free(host, names);
    memory_free(host, named);
    return status;
}

hashattn_status pretrained_save(struct host *host, const char *directory, const struct pretrained *pretrained,
                                const struct model_config *model, const struct params *params,
                                const float *values)
{
    TRY(write_weights(host, directory, pretrained, params, values));
    return pretrained_config_write(host, directory, pretrained->config.type, model, pretrained->config.json);
}
