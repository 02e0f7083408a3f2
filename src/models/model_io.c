/* One tensor per row and block.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model_io.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { NAME = BLOCK_PREFIX + PARAM_NAME };

static void name_of(const struct model_block *block, const struct param *row, char name[NAME])
{
    char theirs[PARAM_NAME];
    assert(strlen(block->prefix) < BLOCK_PREFIX);
    bool whole = name_map_theirs(block->names, row->name, theirs, sizeof theirs);
    assert(whole);
    (void)whole;
    snprintf(name, NAME, "%s%s", block->prefix, theirs);
}

hashattn_status model_save(struct host *host, const char *path, const struct params *params,
                           const struct model_block *blocks, size_t num_blocks,
                           const struct tensor_word *words, size_t num_words)
{
    size_t count = params->num_rows * num_blocks;
    void *names = NULL, *tensors = NULL;
    hashattn_status status = memory_new(host, count, NAME, "names of tensors", &names);
    if (status == HASHATTN_OK)
        status = memory_new_zeroed(host, count, sizeof(struct tensor), "list of tensors", &tensors);
    for (size_t i = 0; status == HASHATTN_OK && i < count; i++) {
        const struct model_block *block = &blocks[i / params->num_rows];
        const struct param *row = &params->rows[i % params->num_rows];
        struct tensor *tensor = (struct tensor *)tensors + i;
        char *name = (char *)names + i * NAME;
        name_of(block, row, name);
        *tensor = (struct tensor){
            .name = name, .type = TENSOR_F32, .rank = row->rank, .data = block->values + row->offset};
        memcpy(tensor->shape, row->shape, (size_t)row->rank * sizeof *row->shape);
    }
    if (status == HASHATTN_OK)
        status = safetensors_write(host, path, tensors, count, words, num_words);
    memory_free(host, names);
    memory_free(host, tensors);
    return status;
}

/* A file with more tensors than the model, all of which are there, belongs to another model, unless the maps
   of names ignore what is left. */
static hashattn_status check_others(struct host *host, const struct safetensors *file,
                                    const struct params *params, const struct model_block *blocks,
                                    size_t num_blocks)
{
    char name[NAME];
    size_t count = params->num_rows * num_blocks;
    void *block;
    TRY(memory_new_zeroed(host, file->count, sizeof(bool), "the tensors of a model", &block));
    bool *known = block;
    for (size_t i = 0; i < count; i++) {
        name_of(&blocks[i / params->num_rows], &params->rows[i % params->num_rows], name);
        known[safetensors_find(file, name) - file->tensors] = true;
    }
    hashattn_status status = HASHATTN_OK;
    for (size_t i = 0; i < file->count && status == HASHATTN_OK; i++) {
        const char *other = file->tensors[i].name;
        for (size_t b = 0; b < num_blocks; b++)
            known[i] |= name_map_ignores(blocks[b].names, other);
        if (!known[i])
            status = host_fail(
                host, HASHATTN_BAD_FILE,
                "tensor '%.60s' does not belong to this model: the file has %zu tensors, the model %zu",
                other, file->count, count);
    }
    memory_free(host, block);
    return status;
}

static hashattn_status load_row(struct host *host, const struct safetensors *file, const struct param *row,
                                const struct model_block *block)
{
    char name[NAME];
    float *values = block->values + row->offset;
    name_of(block, row, name);
    TRY(safetensors_copy(host, file, name, row->rank, row->shape, values));
    for (size_t i = 0; i < row->count; i++)
        FAIL_IF(!isfinite(values[i]), host, HASHATTN_BAD_FILE, "tensor '%s' holds %g at element %zu of %zu",
                name, (double)values[i], i, row->count);
    return HASHATTN_OK;
}

/* Every expected tensor is there, and no other. */
static hashattn_status check_rows(struct host *host, const struct safetensors *file,
                                  const struct params *params, const struct model_block *blocks,
                                  size_t num_blocks)
{
    char name[NAME];
    for (size_t b = 0; b < num_blocks; b++)
        for (size_t i = 0; i < params->num_rows; i++) {
            const struct param *row = &params->rows[i];
            name_of(&blocks[b], row, name);
            TRY(safetensors_check(host, file, name, row->rank, row->shape));
        }
    return file->count > params->num_rows * num_blocks ? check_others(host, file, params, blocks, num_blocks)
                                                       : HASHATTN_OK;
}

hashattn_status model_check_file(struct host *host, const char *path, const struct params *params,
                                 const struct model_block *blocks, size_t num_blocks)
{
    struct safetensors file;
    TRY(safetensors_read_header(host, path, &file));
    hashattn_status status = check_rows(host, &file, params, blocks, num_blocks);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    safetensors_free(host, &file);
    return status;
}

static hashattn_status load_rows(struct host *host, const struct safetensors *file,
                                 const struct params *params, const struct model_block *blocks,
                                 size_t num_blocks)
{
    TRY(check_rows(host, file, params, blocks, num_blocks));
    for (size_t b = 0; b < num_blocks; b++) {
        if (params->total > 0)
            memset(blocks[b].values, 0, params->total * sizeof(float));
        for (size_t i = 0; i < params->num_rows; i++)
            TRY(load_row(host, file, &params->rows[i], &blocks[b]));
    }
    return HASHATTN_OK;
}

hashattn_status model_load(struct host *host, const char *path, const struct params *params,
                           const struct model_block *blocks, size_t num_blocks)
{
    struct safetensors file;
    size_t limit = size_sum(size_product(size_product(num_blocks, params->total), sizeof(float)),
                            (size_t)SAFETENSORS_MAX_HEADER + 8);
    TRY(safetensors_read(host, path, limit, &file));
    hashattn_status status = load_rows(host, &file, params, blocks, num_blocks);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    safetensors_free(host, &file);
    return status;
}
