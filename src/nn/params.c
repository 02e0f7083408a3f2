/* The description of a block of parameters, its initial values, and its weights packed for products. Rows
   begin at multiples of 16 floats, a cache line, so no two tensors share one.
   SPDX-License-Identifier: Apache-2.0 */
#include "nn/params.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { ROW_ALIGNMENT = 16 };

static hashattn_status grow(struct host *host, struct params *params)
{
    if (params->num_rows < params->capacity)
        return HASHATTN_OK;
    size_t capacity = params->capacity == 0 ? 32 : 2 * params->capacity;
    void *block;
    TRY(memory_new(host, capacity, sizeof *params->rows, "description of parameters", &block));
    if (params->num_rows > 0)
        memcpy(block, params->rows, params->num_rows * sizeof *params->rows);
    memory_free(host, params->rows);
    params->rows = block;
    params->capacity = capacity;
    return HASHATTN_OK;
}

hashattn_status params_add(struct host *host, struct params *params, enum param_start start, float scale,
                           size_t *offset, int rank, const size_t *shape, const char *format, ...)
{
    assert(rank >= 1 && rank <= PARAM_RANK);
    TRY(grow(host, params));
    struct param row = {.rank = rank,
                        .offset = params->total,
                        .count = 1,
                        .start = start,
                        .scale = scale,
                        .decayed = rank > 1};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(row.name, sizeof row.name, format, arguments);
    va_end(arguments);
    FAIL_IF(length < 0 || length >= PARAM_NAME, host, HASHATTN_INVALID,
            "the parameter name '%s...' has %d characters, allowed are %d", row.name, length, PARAM_NAME - 1);
    for (int i = 0; i < rank; i++) {
        row.shape[i] = shape[i];
        row.count = size_product(row.count, shape[i]);
    }
    /* The bytes of four blocks (values, gradients, two moments) and of weights packed twice must not overflow
       size_t. */
    size_t total = size_sum(params->total, size_sum(row.count, ROW_ALIGNMENT - 1));
    FAIL_IF(total > SIZE_MAX / (8 * sizeof(float)), host, HASHATTN_INVALID,
            "'%s' would make the model larger than this machine can address", row.name);
    params->rows[params->num_rows++] = row;
    params->total = total / ROW_ALIGNMENT * ROW_ALIGNMENT;
    *offset = row.offset;
    return HASHATTN_OK;
}

void params_free(struct host *host, struct params *params)
{
    memory_free(host, params->rows);
    memset(params, 0, sizeof *params);
}

bool param_is_own(const struct param *row)
{
    return strstr(row->name, ".attention.own.") != NULL;
}

void params_start(const struct params *params, uint64_t seed, float *values)
{
    if (params->total > 0)
        memset(values, 0, params->total * sizeof *values);
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        start_fill(row->start, row->scale, random_key(seed, RANDOM_INIT, i), values + row->offset,
                   row->count);
    }
}

size_t params_reserve(struct params *params, size_t k, size_t n)
{
    params->packed_weights = size_sum(params->packed_weights, weights_size(params->precision, k, n));
    return params->packed_weights;
}

size_t params_packed_floats(const struct params *params)
{
    return params->packed_weights == 0 ? 0 : size_sum(params->packed_weights, params->total);
}

void params_pack_row(const struct params *params, const struct kernels *kernels, size_t index,
                     const float *from, bool backward, float *values)
{
    const struct param *row = &params->rows[index];
    enum precision precision = params->precision;
    if (row->packed > 0)
        weights_pack(kernels, precision, values - row->packed, from, row->shape[1], true, row->shape[1],
                     row->shape[0]);
    if (row->packed_backward > 0 && backward)
        weights_pack(kernels, precision, values - row->packed_backward, from, row->shape[1], false,
                     row->shape[0], row->shape[1]);
    if (from != values + row->offset && (row->packed == 0 || (row->packed_backward == 0 && backward)))
        memcpy(values + row->offset, from, row->count * sizeof *from);
}

struct packing {
    const struct params *params;
    const struct kernels *kernels;
    const struct param_range *ranges; /* NULL: all rows */
    size_t num_ranges;
    const float *from;
    float *to; /* the values inside the block */
    bool backward;
};

static bool is_within(const struct packing *packing, const struct param *row)
{
    bool within = packing->ranges == NULL;
    for (size_t i = 0; i < packing->num_ranges && !within; i++) {
        const struct param_range *range = &packing->ranges[i];
        within = range->first < row->offset + row->count && row->offset < range->first + range->count;
    }
    return within;
}

static void pack_row(void *argument, size_t index, int worker)
{
    (void)worker;
    const struct packing *l = argument;
    const struct param *row = &l->params->rows[index];
    if (is_within(l, row))
        params_pack_row(l->params, l->kernels, index, l->from + row->offset, l->backward, l->to);
}

const float *params_pack(const struct params *params, const struct kernels *kernels, struct pool *pool,
                         const float *values, bool backward, float *block)
{
    if (params->packed_weights == 0)
        return values;
    struct packing packing = {.params = params,
                              .kernels = kernels,
                              .from = values,
                              .to = block + params->packed_weights,
                              .backward = backward};
    pool_run(pool, pack_row, &packing, params->num_rows);
    return packing.to;
}

void params_repack(const struct params *params, const struct kernels *kernels, struct pool *pool,
                   const struct param_range *ranges, size_t num_ranges, float *values)
{
    struct packing packing = {params, kernels, ranges, num_ranges, values, values, true};
    if (params->packed_weights > 0)
        pool_run(pool, pack_row, &packing, params->num_rows);
}

size_t params_count(const struct params *params)
{
    size_t count = 0;
    for (size_t i = 0; i < params->num_rows; i++)
        count += params->rows[i].count;
    return count;
}
