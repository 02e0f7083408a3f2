/* Draws or reads a tensor (heads, rows, cols) for each of the mechanism's rows, and stores them head by head
   for the driver; copies them from and to memory in that layout, and writes them to a file.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/operator/own_params.h"

#include <math.h>
#include <string.h>

#include "api/floating.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "base/random.h"
#include "io/weights/safetensors.h"

void own_params_drop(hashattn_attention *attention)
{
    memory_free(&attention->context->host, attention->params);
    attention->params = NULL;
}

static size_t count_of(const hashattn_attention *attention, const struct parameter_sizes *sizes)
{
    return attention_param_count(attention->mechanism, attention->options, sizes);
}

/* Replaces the parameters by room for those of `heads` heads. */
static hashattn_status reserve(hashattn_attention *attention, size_t heads,
                               const struct parameter_sizes *sizes)
{
    void *block;
    TRY(memory_new(&attention->context->host, size_product(heads, count_of(attention, sizes)), sizeof(float),
                   "learned parameters of the mechanism", &block));
    own_params_drop(attention);
    attention->params = block;
    attention->params_heads = heads;
    attention->params_sizes = *sizes;
    return HASHATTN_OK;
}

/* Calls `fill` for the tensor of every row, (heads, rows, cols), and copies it to the driver's layout. */
typedef hashattn_status fill_tensor(struct host *host, const struct parameter_row *row, size_t index,
                                    const size_t shape[3], const void *from, float *tensor);

static hashattn_status fill_all(hashattn_attention *attention, fill_tensor *fill, const void *from)
{
    struct host *host = &attention->context->host;
    size_t heads = attention->params_heads, at = 0, index = 0;
    size_t count = count_of(attention, &attention->params_sizes);
    for (const struct parameter_row *row = attention->mechanism->params; row->name != NULL; row++, index++) {
        size_t shape[3] = {heads, 0, 0};
        row->shape(attention->options, &attention->params_sizes, &shape[1], &shape[2]);
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

/* Runs before the allocation, because an array without rows may claim any number of heads. */
static hashattn_status check_tensors(const hashattn_attention *attention, const struct safetensors *file,
                                     size_t heads, const struct parameter_sizes *sizes)
{
    for (const struct parameter_row *row = attention->mechanism->params; row->name != NULL; row++) {
        size_t shape[3] = {heads, 0, 0};
        row->shape(attention->options, sizes, &shape[1], &shape[2]);
        if (shape[1] > 0 && shape[2] > 0)
            TRY(safetensors_check(&attention->context->host, file, row->name, 3, shape));
    }
    return HASHATTN_OK;
}

static hashattn_status draw_tensor(struct host *host, const struct parameter_row *row, size_t index,
                                   const size_t shape[3], const void *from, float *tensor)
{
    (void)host;
    start_fill(row->start, row->scale, random_key(*(const uint64_t *)from, RANDOM_INIT, index), tensor,
               shape[0] * shape[1] * shape[2]);
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

/* Whether the parameters are there, drawn or not. */
static bool has_params(const hashattn_attention *attention, const hashattn_problem *p)
{
    const struct parameter_sizes sizes = {p->head_dim, p->value_dim, p->max_len},
                                 *of = &attention->params_sizes;
    return attention->params != NULL && attention->params_heads == p->num_heads &&
           of->head_dim == p->head_dim && of->value_dim == p->value_dim &&
           count_of(attention, of) ==
               count_of(attention, &sizes); /* max_len counts only if a shape uses it */
}

hashattn_status own_params_check(const hashattn_attention *attention, const hashattn_problem *p)
{
    struct host *host = &attention->context->host;
    const struct parameter_sizes sizes = {p->head_dim, p->value_dim, p->max_len},
                                 *of = &attention->params_sizes;
    if (attention->params == NULL || attention->params_drawn || count_of(attention, &sizes) == 0)
        return HASHATTN_OK;
    FAIL_IF(attention->params_heads != p->num_heads || of->head_dim != p->head_dim ||
                of->value_dim != p->value_dim,
            host, HASHATTN_INVALID,
            "the learned parameters are for %zu heads of width %zu and values of width %zu, the "
            "problem has %zu, %zu and %zu",
            attention->params_heads, of->head_dim, of->value_dim, p->num_heads, p->head_dim, p->value_dim);
    FAIL_IF(!has_params(attention, p), host, HASHATTN_INVALID,
            "the learned parameters are for max_len %zu, the problem has max_len %zu", of->max_len,
            p->max_len);
    return HASHATTN_OK;
}

hashattn_status own_params_for(hashattn_attention *attention, const hashattn_problem *p)
{
    const struct parameter_sizes sizes = {p->head_dim, p->value_dim, p->max_len};
    if (count_of(attention, &sizes) == 0)
        return HASHATTN_OK;
    TRY(own_params_check(attention, p));
    if (has_params(attention, p) && (!attention->params_drawn || attention->params_seed == p->seed))
        return HASHATTN_OK;
    TRY(reserve(attention, p->num_heads, &sizes));
    attention->params_drawn = true;
    attention->params_seed = p->seed;
    hashattn_status status = fill_all(attention, draw_tensor, &p->seed);
    if (status != HASHATTN_OK)
        own_params_drop(attention);
    return status;
}

/* *count: learned floats of a head, at least 1. */
static hashattn_status check_sizes(const hashattn_attention *attention, size_t num_heads,
                                   const struct parameter_sizes *sizes, size_t *count)
{
    struct host *host = &attention->context->host;
    FAIL_IF(num_heads == 0 || sizes->head_dim == 0 || sizes->value_dim == 0, host, HASHATTN_INVALID,
            "num_heads is %zu, head_dim %zu, value_dim %zu; each must be at least 1", num_heads,
            sizes->head_dim, sizes->value_dim);
    *count = count_of(attention, sizes);
    FAIL_IF(*count == 0, host, HASHATTN_INVALID,
            "%s has no learned parameters of its own with these options and max_len %zu",
            attention->mechanism->name, sizes->max_len);
    FAIL_IF(size_product(size_product(num_heads, *count), sizeof(float)) > PTRDIFF_MAX, host,
            HASHATTN_NO_MEMORY, "no memory for the learned parameters of %zu heads of %zu floats", num_heads,
            *count);
    return HASHATTN_OK;
}

hashattn_status hashattn_attention_read_params(hashattn_attention *attention, const char *path,
                                               size_t num_heads, size_t head_dim, size_t value_dim,
                                               size_t max_len)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(path == NULL, host, HASHATTN_INVALID, "path is NULL");
    const struct parameter_sizes sizes = {head_dim, value_dim, max_len};
    size_t count;
    TRY(check_sizes(attention, num_heads, &sizes, &count));
    struct safetensors file;
    size_t bytes = size_product(size_product(num_heads, count), sizeof(float));
    TRY(safetensors_read_given(host, path, size_sum(size_product(2, bytes), (size_t)SAFETENSORS_MAX_HEADER),
                               &file));
    struct hashattn_attention read = *attention; /* keeps the parameters until all of the file is read */
    read.params = NULL;
    read.params_drawn = false;
    hashattn_status status = check_tensors(attention, &file, num_heads, &sizes);
    if (status == HASHATTN_OK)
        status = reserve(&read, num_heads, &sizes);
    if (status == HASHATTN_OK)
        status = fill_all(&read, read_tensor, &file);
    own_params_drop(status == HASHATTN_OK ? attention : &read);
    if (status == HASHATTN_OK)
        *attention = read;
    else
        host_prefix(host, path);
    safetensors_free(host, &file);
    return status;
}

hashattn_status hashattn_attention_set_params(hashattn_attention *attention, const float *params,
                                              size_t num_heads, size_t head_dim, size_t value_dim,
                                              size_t max_len)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(params == NULL, host, HASHATTN_INVALID, "params is NULL");
    const struct parameter_sizes sizes = {head_dim, value_dim, max_len};
    size_t count;
    TRY(check_sizes(attention, num_heads, &sizes, &count));
    size_t total = size_product(num_heads, count);
    for (size_t i = 0; i < total; i++)
        FAIL_IF(!isfinite(params[i]), host, HASHATTN_INVALID,
                "params holds %g at float %zu of head %zu, which has %zu", (double)params[i], i % count,
                i / count, count);
    TRY(reserve(attention, num_heads, &sizes));
    attention->params_drawn = false;
    memcpy(attention->params, params, total * sizeof *params);
    return HASHATTN_OK;
}

hashattn_status hashattn_attention_get_params(hashattn_attention *attention, const hashattn_problem *problem,
                                              float *params)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(params == NULL, host, HASHATTN_INVALID, "params is NULL");
    hashattn_problem own;
    hashattn_problem_default(&own);
    TRY(version_take(host, &own, sizeof own, problem, first_sizes.problem, "problem"));
    const struct parameter_sizes sizes = {own.head_dim, own.value_dim, own.max_len};
    size_t count;
    TRY(check_sizes(attention, own.num_heads, &sizes, &count));
    TRY(own_params_for(attention, &own));
    memcpy(params, attention->params, own.num_heads * count * sizeof *params);
    return HASHATTN_OK;
}

/* The tensors of a file, and their data, (heads, rows, cols) each. */
struct written {
    struct tensor *tensors;
    float *data;
    size_t bytes;
};

static struct written written_on(void *block, size_t tensors, size_t floats)
{
    struct arena arena = arena_on(block);
    struct written written = {.tensors = arena_take(&arena, tensors, sizeof(struct tensor))};
    written.data = arena_take(&arena, floats, sizeof(float));
    written.bytes = arena.used;
    return written;
}

/* Fills the tensors from params, (heads, count), and returns how many there are. */
static size_t gather(const hashattn_attention *attention, const float *params, size_t heads, size_t count,
                     const struct parameter_sizes *sizes, const struct written *written)
{
    size_t at = 0, tensors = 0;
    for (const struct parameter_row *row = attention->mechanism->params; row->name != NULL; row++) {
        size_t rows, cols;
        row->shape(attention->options, sizes, &rows, &cols);
        size_t size = rows * cols;
        if (size == 0)
            continue;
        float *data = written->data + heads * at;
        for (size_t h = 0; h < heads; h++)
            memcpy(data + h * size, params + h * count + at, size * sizeof *data);
        written->tensors[tensors++] = (struct tensor){
            .name = row->name, .type = TENSOR_F32, .rank = 3, .shape = {heads, rows, cols}, .data = data};
        at += size;
    }
    return tensors;
}

hashattn_status hashattn_attention_write_params(hashattn_attention *attention, const char *path,
                                                const float *params, size_t num_heads, size_t head_dim,
                                                size_t value_dim, size_t max_len)
{
    FLOATING_DEFAULT;
    if (attention == NULL)
        return HASHATTN_INVALID;
    struct host *host = &attention->context->host;
    FAIL_IF(path == NULL || params == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "params");
    const struct parameter_sizes sizes = {head_dim, value_dim, max_len};
    size_t count, most = 0;
    TRY(check_sizes(attention, num_heads, &sizes, &count));
    while (attention->mechanism->params[most].name != NULL)
        most++;
    size_t floats = size_product(num_heads, count);
    void *block;
    TRY(memory_new(host, 1, written_on(NULL, most, floats).bytes, "the tensors of a file", &block));
    const struct written written = written_on(block, most, floats);
    size_t tensors = gather(attention, params, num_heads, count, &sizes, &written);
    hashattn_status status = safetensors_write(host, path, written.tensors, tensors, NULL, 0);
    memory_free(host, block);
    return status;
}
