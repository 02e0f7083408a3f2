/* From a call to that of a device: addresses, and the keys of its units. Cost on the host: a key for each
   unit, or for each head if all sequences hash alike.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/device_batch.h"

#include <stdio.h>

#include "base/memory.h"

struct device_batch attention_device_batch(const struct attention_shape *shape)
{
    return (struct device_batch){.device = shape->device,
                                 .options = shape->options,
                                 .num_sequences = shape->num_sequences,
                                 .num_heads = shape->num_heads,
                                 .head_dim = shape->head_dim,
                                 .value_dim = shape->value_dim,
                                 .query_offsets = shape->query_offsets,
                                 .key_offsets = shape->key_offsets,
                                 .dtype = shape->dtype,
                                 .causal = shape->causal,
                                 .masked = shape->masked,
                                 .alike = shape->alike};
}

/* The staging: keys, and behind them that of the implementation. */
struct staging {
    uint64_t *unit_keys;
    void *implementation;
    size_t bytes;
};

static struct staging staging_at(const struct attention_shape *shape, void *block)
{
    struct device_batch batch = attention_device_batch(shape);
    struct arena arena = arena_on(block);
    struct staging staging;
    staging.unit_keys =
        arena_take(&arena, size_product(shape->num_sequences, shape->num_heads), sizeof *staging.unit_keys);
    staging.implementation = arena_take(&arena, shape->mechanism->device->sizes(&batch).staging, 1);
    staging.bytes = arena.used;
    return staging;
}

size_t attention_device_staging(const struct attention_shape *shape)
{
    return staging_at(shape, NULL).bytes;
}

void attention_device_names(char *list, size_t size)
{
    size_t used = 0;
    list[0] = '\0';
    for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL && used < size; m++)
        if ((*m)->device != NULL)
            used += (size_t)snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", (*m)->name);
}

static struct device_rows rows_of(const struct packed *rows)
{
    return (struct device_rows){.data = (uint64_t)(uintptr_t)rows->data,
                                .width = rows->width,
                                .row_stride = rows->row_stride,
                                .head_stride = rows->head_stride,
                                .sequence_stride = rows->sequence_stride,
                                .padded = rows->padded};
}

static struct device_call open_call(const struct attention_call *call, const struct device_blocks *blocks,
                                    const struct device_batch *batch)
{
    const struct attention_shape *shape = &call->plan->shape;
    struct staging staging = staging_at(shape, blocks->staging);
    size_t sequences = shape->alike ? size_min(shape->num_sequences, 1) : shape->num_sequences;
    for (size_t s = 0; s < sequences; s++)
        for (size_t h = 0; h < shape->num_heads; h++)
            staging.unit_keys[s * shape->num_heads + h] = call_unit_key(call, s, h);
    return (struct device_call){.batch = batch,
                                .kernels = shape->kernels,
                                .query = rows_of(&call->query),
                                .key = rows_of(&call->key),
                                .value = rows_of(&call->value),
                                .key_mask = call->key_mask,
                                .call_key = call->call_key,
                                .unit_keys = staging.unit_keys,
                                .saved = (uint64_t)(uintptr_t)blocks->saved,
                                .scratch = (uint64_t)(uintptr_t)blocks->scratch,
                                .staging = staging.implementation,
                                .tag = blocks->tag,
                                .tag_words = {blocks->tag_words[0], blocks->tag_words[1]}};
}

hashattn_status attention_device_forward(struct host *host, const struct attention_call *call,
                                         const struct device_blocks *blocks, struct packed out)
{
    struct device_batch batch = attention_device_batch(&call->plan->shape);
    struct device_call on_device = open_call(call, blocks, &batch);
    on_device.out = rows_of(&out);
    return call->plan->shape.mechanism->device->forward(host, &on_device);
}

hashattn_status attention_device_backward(struct host *host, const struct attention_call *call,
                                          const struct device_blocks *blocks, struct packed out,
                                          struct packed dout, struct packed dquery, struct packed dkey,
                                          struct packed dvalue)
{
    struct device_batch batch = attention_device_batch(&call->plan->shape);
    struct device_call on_device = open_call(call, blocks, &batch);
    on_device.out = rows_of(&out);
    on_device.dout = rows_of(&dout);
    on_device.dquery = rows_of(&dquery);
    on_device.dkey = rows_of(&dkey);
    on_device.dvalue = rows_of(&dvalue);
    return call->plan->shape.mechanism->device->backward(host, &on_device);
}
