/* Drawing and reading: a tensor of (heads, rows, cols) for each row of the mechanism, which the driver wants
   head by head. SPDX-License-Identifier: Apache-2.0 */
#include "api/own_params.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "io/safetensors.h"

void own_params_drop(hashattn_attention *attention)
{
    memory_free(&attention->context->host, attention->params);
    attention->params = NULL;
}

static bool is_for(const hashattn_attention *attention, size_t heads, size_t head_dim, size_t value_dim)
{
    return attention->params != NULL && attention->params_heads == heads &&
           attention->params_head_dim == head_dim && attention->params_value_dim == value_dim;
}

/* Room for the parameters of `heads`, in place of what was there. */
static hashattn_status make_room(hashattn_attention *attention, size_t heads, size_t head_dim,
                                 size_t value_dim)
{
    size_t count = attention_param_count(attention->mechanism, attention->options, head_dim, value_dim);
    void *block;
    TRY(memory_new(&attention->context->host, size_product(heads, count), sizeof(float),
                   "learned parameters of the mechanism", &block));
    own_params_drop(attention);
    attention->params = block;
    attention->params_heads = heads;
    attention->params_head_dim = head_dim;
    attention->params_value_dim = value_dim;
    return HASHATTN_OK;
}

/* Calls `fill` for the tensor of every row, (heads, rows, cols), and puts it where the driver looks. */
typedef hashattn_status fill_tensor(struct host *host, const struct parameter_row *row, size_t index,
                                    const size_t shape[3], const void *from, float *tensor);

static hashattn_status fill_all(hashattn_attention *attention, fill_tensor *fill, const void *from)
{
    struct host *host = &attention->context->host;
    size_t heads = attention->params_heads, at = 0, index = 0;
    size_t count = attention_param_count(attention->mechanism, attention->options, attention->params_head_dim,
                                         attention->params_value_dim);
    for (const struct parameter_row *row = attention->mechanism->params; row->name != NULL; row++, index++) {
        size_t shape[3] = {heads, 0, 0};
        row->shape(attention->options, attention->params_head_dim, attention->params_value_dim, &shape[1],
                   &shape[2]);
        size_t size = shape[1] * shape[2];
        if (size == 0)
            continue;
        void *tensor;
        TRY(memory_new(host, size_product(heads, size), sizeof(float), "a tensor", &tensor));
        hashattn_status status = fill(host, row, index, shape, from, tensor);
        for (size_t h = 0; h < heads && status == HASHATTN_OK; h++)
            memcpy(attention->params + h * count + at, (const float *)tensor + h * size,
                   size * sizeof(float));
        memory_free(host, tensor);
        if (status != HASHATTN_OK)
            return status;
        at += size;
    }
    return HASHATTN_OK;
}

static hashattn_status draw_tensor(struct host *host, const struct parameter_row *row, size_t index,
                                   const size_t shape[3], const void *from, float *tensor)
{
    (void)host;
    size_t count = shape[0] * shape[1] * shape[2];
    random_normals(random_key(*(const uint64_t *)from, RANDOM_INIT, index), 0, tensor, count);
    for (size_t i = 0; i < count; i++)
        tensor[i] *= row->init;
    return HASHATTN_OK;
}

static hashattn_status read_tensor(struct host *host, const struct parameter_row *row, size_t index,
                                   const size_t shape[3], const void *from, float *tensor)
{
    (void)index;
    TRY(safetensors_copy(host, from, row->name, 3, shape, tensor));
    size_t count = shape[0] * shape[1] * shape[2];
    for (size_t i = 0; i < count; i++)
        FAIL_IF(!isfinite(tensor[i]), host, HASHATTN_BAD_FILE, "tensor '%s' holds %g at element %zu of %zu",
                row->name, (double)tensor[i], i, count);
    return HASHATTN_OK;
}

hashattn_status own_params_for(hashattn_attention *attention, const hashattn_problem *p)
{
    struct host *host = &attention->context->host;
    if (attention_param_count(attention->mechanism, attention->options, p->head_dim, p->value_dim) == 0)
        return HASHATTN_OK;
    bool fits = is_for(attention, p->num_heads, p->head_dim, p->value_dim);
    if (attention->params != NULL && !attention->params_drawn) {
        FAIL_IF(!fits, host, HASHATTN_INVALID,
                "the parameters that were read are for %zu heads of width %zu and values of width %zu, the "
                "problem has %zu, %zu and %zu",
                attention->params_heads, attention->params_head_dim, attention->params_value_dim,
                p->num_heads, p->head_dim, p->value_dim);
        return HASHATTN_OK;
    }
    if (fits && attention->params_seed == p->seed)
        return HASHATTN_OK;
    TRY(make_room(attention, p->num_heads, p->head_dim, p->value_dim));
    attention->params_drawn = true;
    attention->params_seed = p->seed;
    hashattn_status status = fill_all(attention, draw_tensor, &p->seed);
    if (status != HASHATTN_OK)
        own_params_drop(attention);
    return status;
}

hashattn_status hashattn_attention_read_params(hashattn_attention *attention, const char *path,
                                               size_t num_heads, size_t head_dim, size_t value_dim)
{
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(path == NULL, host, HASHATTN_INVALID, "path is NULL");
    FAIL_IF(num_heads == 0 || head_dim == 0 || value_dim == 0, host, HASHATTN_INVALID,
            "num_heads is %zu, head_dim %zu, value_dim %zu; each must be at least 1", num_heads, head_dim,
            value_dim);
    size_t count = attention_param_count(attention->mechanism, attention->options, head_dim, value_dim);
    FAIL_IF(count == 0, host, HASHATTN_INVALID, "%s has no learned parameters of its own",
            attention->mechanism->name);
    struct safetensors file;
    size_t bytes = size_product(size_product(num_heads, count), sizeof(float));
    TRY(safetensors_read_given(host, path, size_sum(size_product(2, bytes), (size_t)SAFETENSORS_MAX_HEADER),
                               &file));
    hashattn_status status = make_room(attention, num_heads, head_dim, value_dim);
    attention->params_drawn = false;
    if (status == HASHATTN_OK)
        status = fill_all(attention, read_tensor, &file);
    if (status != HASHATTN_OK) {
        own_params_drop(attention);
        host_prefix(host, path);
    }
    safetensors_free(host, &file);
    return status;
}
