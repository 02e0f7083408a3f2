/* Matches names of tensors.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/start/freeze.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* True if `name` is the word, or begins with it and a dot. */
static bool begins(const char *name, const char *word, size_t size)
{
    return strncmp(name, word, size) == 0 && (name[size] == '\0' || name[size] == '.');
}

static bool is_word(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && strncmp(text, word, size) == 0;
}

/* The length of a tensor's part: "encoder.layer.3", or its first word. */
static size_t part_of(const char *name)
{
    static const char layer[] = "encoder.layer.";
    size_t head = strncmp(name, layer, sizeof layer - 1) == 0 ? sizeof layer - 1 : 0;
    return head + strcspn(name + head, ".");
}

static hashattn_status fail_name(struct host *host, const struct params *params, const char *word,
                                 size_t size)
{
    char list[300] = "trunk, all-but-own";
    size_t used = strlen(list);
    for (size_t i = 0; i < params->num_rows && used < sizeof list; i++) {
        const char *name = params->rows[i].name;
        size_t part = part_of(name);
        bool again = i > 0 && part_of(params->rows[i - 1].name) == part &&
                     strncmp(params->rows[i - 1].name, name, part) == 0;
        if (!again)
            used += (size_t)snprintf(list + used, sizeof list - used, ", %.*s", (int)part, name);
    }
    return host_fail(host, HASHATTN_INVALID,
                     "freeze: no parameter is called '%.*s'; the model has the parts %s", (int)size, word,
                     list);
}

static hashattn_status mark(struct host *host, const struct model *model, const char *word, size_t size,
                            bool *frozen)
{
    const struct params *params = model_params(model);
    bool found = false, trunk = is_word(word, size, "trunk"), but_own = is_word(word, size, "all-but-own");
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        bool named = trunk     ? row->offset < model_trunk_floats(model)
                     : but_own ? !param_is_own(row)
                               : begins(row->name, word, size);
        found |= named;
        frozen[i] |= named;
    }
    return found ? HASHATTN_OK : fail_name(host, params, word, size);
}

static hashattn_status mark_all(struct host *host, const char *list, const struct model *model, bool *frozen)
{
    for (const char *word = list;; word++) {
        size_t size = strcspn(word, ",");
        TRY(mark(host, model, word, size, frozen));
        word += size;
        if (*word == '\0')
            return HASHATTN_OK;
    }
}

/* Marks the embeddings and all layers but the last ones. */
static hashattn_status mark_first(struct host *host, const struct model *model, int64_t last, bool *frozen)
{
    const struct params *params = model_params(model);
    int64_t layers = model_config_of(model)->layers;
    char first[40];
    FAIL_IF(last > layers, host, HASHATTN_INVALID, "`train_last` is %lld, the model has %lld layers",
            (long long)last, (long long)layers);
    size_t size = (size_t)snprintf(first, sizeof first, "encoder.layer.%lld", (long long)(layers - last));
    for (size_t i = 0; i < params->num_rows && !begins(params->rows[i].name, first, size); i++)
        frozen[i] = true;
    return HASHATTN_OK;
}

hashattn_status freeze_ranges(struct host *host, const char *list, int64_t last, const struct model *model,
                              struct param_range **ranges, size_t *num_ranges)
{
    const struct params *params = model_params(model);
    void *frozen = NULL, *block = NULL;
    size_t count = 0;
    hashattn_status status;
    *ranges = NULL;
    *num_ranges = 0;
    if (list[0] == '\0' && last == 0)
        return HASHATTN_OK;
    TRY_DONE(memory_new_zeroed(host, params->num_rows, sizeof(bool), "marks of parameters", &frozen));
    TRY_DONE(list[0] == '\0' ? HASHATTN_OK : mark_all(host, list, model, frozen));
    TRY_DONE(last == 0 ? HASHATTN_OK : mark_first(host, model, last, frozen));
    TRY_DONE(memory_new(host, params->num_rows, sizeof **ranges, "trained parameters", &block));
    struct param_range *found = block;
    for (size_t i = 0; i < params->num_rows; i++) {
        if (((bool *)frozen)[i])
            continue;
        size_t end = i + 1 < params->num_rows ? params->rows[i + 1].offset : params->total;
        if (count == 0 || found[count - 1].first + found[count - 1].count != params->rows[i].offset)
            found[count++] = (struct param_range){params->rows[i].offset, 0};
        found[count - 1].count = end - found[count - 1].first;
    }
    if (count == 0)
        status = host_fail(host, HASHATTN_INVALID, "`freeze` is '%.200s', which leaves no parameter to train",
                           list);
done:
    memory_free(host, frozen);
    if (status != HASHATTN_OK) {
        memory_free(host, block);
        return status;
    }
    *ranges = block;
    *num_ranges = count;
    return status;
}

/* True if the row is not trained. */
static bool is_frozen(const struct param *row, const struct param_range *ranges, size_t num_ranges)
{
    for (size_t i = 0; i < num_ranges; i++)
        if (row->offset >= ranges[i].first && row->offset < ranges[i].first + ranges[i].count)
            return false;
    return num_ranges > 0; /* no range: all is trained */
}

bool freeze_leaves_own_losses(const struct model *model, const struct param_range *ranges, size_t num_ranges)
{
    const struct params *params = model_params(model);
    for (size_t i = 0; i < params->num_rows; i++)
        if (!params->rows[i].of_own_loss && !is_frozen(&params->rows[i], ranges, num_ranges))
            return false;
    return true;
}
