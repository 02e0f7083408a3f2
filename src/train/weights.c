/* Rows of a params block to tensors of a file and back. Reading holds the file and the block in memory
   together, once per start. SPDX-License-Identifier: Apache-2.0 */
#include "train/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/safetensors.h"

enum { FULL_NAME = PARAM_NAME + 32 };

static void full_name(char name[FULL_NAME], const char *prefix, const struct param *row)
{
    snprintf(name, FULL_NAME, "%.31s%s", prefix, row->name);
}

hashattn_status weights_save(struct host *host, const char *path, const struct params *params,
                             const struct weight_block *blocks, size_t count, int64_t step)
{
    size_t total = size_product(params->num_rows, count);
    struct tensor *tensors = NULL;
    char(*names)[FULL_NAME] = NULL;
    hashattn_status status;
    void *block;
    TRY_DONE(memory_new_zeroed(host, total, sizeof *tensors, "description of tensors", &block));
    tensors = block;
    TRY_DONE(memory_new(host, total, sizeof *names, "names of tensors", &block));
    names = block;
    for (size_t b = 0, at = 0; b < count; b++) {
        for (size_t i = 0; i < params->num_rows; i++, at++) {
            const struct param *row = &params->rows[i];
            full_name(names[at], blocks[b].prefix, row);
            tensors[at] = (struct tensor){.name = names[at],
                                          .type = TENSOR_F32,
                                          .rank = row->rank,
                                          .data = blocks[b].values + row->offset,
                                          .bytes = row->count * sizeof(float)};
            memcpy(tensors[at].shape, row->shape, (size_t)row->rank * sizeof *row->shape);
        }
    }
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)step);
    const struct tensor_word words[] = {{"format", "pt"}, {"step", text}};
    TRY_DONE(safetensors_write(host, path, tensors, total, words, 2));
done:
    memory_free(host, names);
    memory_free(host, tensors);
    return status;
}

static hashattn_status step_of(struct host *host, const struct safetensors *file, int64_t *step)
{
    const char *text = safetensors_word(file, "step");
    FAIL_IF(text == NULL, host, HASHATTN_BAD_FILE, "no word 'step' in __metadata__");
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    FAIL_IF(end == text || *end != '\0' || errno != 0 || value < 0, host, HASHATTN_BAD_FILE,
            "the word 'step' is '%.40s', a whole number is needed", text);
    *step = value;
    return HASHATTN_OK;
}

/* The file's tensors into the blocks. */
static hashattn_status copy_all(struct host *host, const struct safetensors *file,
                                const struct params *params, const struct weight_block *blocks, size_t count)
{
    size_t wanted = size_product(params->num_rows, count);
    FAIL_IF(file->count != wanted, host, HASHATTN_BAD_FILE, "%zu tensors, this model has %zu", file->count,
            wanted);
    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < params->num_rows; i++) {
            const struct param *row = &params->rows[i];
            char name[FULL_NAME];
            full_name(name, blocks[b].prefix, row);
            TRY(safetensors_copy(host, file, name, row->rank, row->shape, blocks[b].values + row->offset));
        }
    }
    return HASHATTN_OK;
}

hashattn_status weights_load(struct host *host, const char *path, const struct params *params,
                             const struct weight_block *blocks, size_t count, int64_t *step)
{
    struct safetensors file;
    size_t data = size_product(size_product(params->total, count), sizeof(float));
    TRY(safetensors_read(host, path, size_sum(data, SAFETENSORS_MAX_HEADER + 8), &file));
    hashattn_status status = copy_all(host, &file, params, blocks, count);
    if (status == HASHATTN_OK && step != NULL)
        status = step_of(host, &file, step);
    safetensors_free(host, &file);
    if (status == HASHATTN_BAD_FILE)
        host_prefix(host, path);
    return status;
}

hashattn_status weights_step(struct host *host, const char *path, int64_t *step)
{
    struct safetensors file;
    TRY(safetensors_read(host, path, SIZE_MAX, &file));
    hashattn_status status = step_of(host, &file, step);
    safetensors_free(host, &file);
    if (status != HASHATTN_OK)
        host_prefix(host, path);
    return status;
}
