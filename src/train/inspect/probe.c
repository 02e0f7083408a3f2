/* The hashes of each call are one block: values, gradients and both moments, which AdamW updates without
   decay (train/optim.h).
   SPDX-License-Identifier: Apache-2.0 */
#include "train/inspect/probe.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/optim.h"

/* Hashes start near 0 (standard deviation 0.1) and have few steps, so the rate is higher than in training. */
static const double RATE = 0.02, BETA1 = 0.9, BETA2 = 0.98, EPSILON = 1e-8;

static struct parameter_sizes sizes_of(const struct attention_shape *shape)
{
    return (struct parameter_sizes){shape->head_dim, shape->value_dim, shape->max_len};
}

/* Draws (num_heads, floats of a head). */
static void start_hashes(const struct probe *probe, const struct attention_shape *shape, size_t layer,
                         float *values)
{
    const struct parameter_sizes sizes = sizes_of(shape);
    for (size_t head = 0; head < shape->num_heads; head++) {
        size_t index = 0;
        for (const struct parameter_row *row = probe->mechanism->params; row->name != NULL; row++, index++) {
            size_t rows, cols;
            row->shape(probe->options, &sizes, &rows, &cols);
            uint64_t key = random_key(random_key(probe->seed, RANDOM_LAYER, layer), RANDOM_HEAD,
                                      shape->first_head + head);
            start_fill(row->start, row->scale, random_key(key, RANDOM_INIT, index), values, rows * cols);
            values += rows * cols;
        }
    }
}

/* The hashes of this call, made on first use; *found is NULL if the mechanism learns none. */
static hashattn_status hashes_of(struct probes *probes, size_t layer, const struct attention_shape *shape,
                                 struct probe_hashes **found)
{
    const struct parameter_sizes sizes = sizes_of(shape);
    size_t count =
        shape->num_heads * attention_param_count(probes->probe->mechanism, probes->probe->options, &sizes);
    *found = NULL;
    for (size_t i = 0; i < probes->num_hashes; i++)
        if (probes->hashes[i].layer == layer && probes->hashes[i].first_head == shape->first_head)
            *found = &probes->hashes[i];
    if (*found != NULL || count == 0)
        return HASHATTN_OK;
    void *block;
    if (probes->num_hashes == probes->capacity) {
        size_t capacity = probes->capacity == 0 ? 16 : 2 * probes->capacity;
        TRY(memory_new(probes->host, capacity, sizeof *probes->hashes, "a list of hashes", &block));
        if (probes->num_hashes > 0)
            memcpy(block, probes->hashes, probes->num_hashes * sizeof *probes->hashes);
        memory_free(probes->host, probes->hashes);
        probes->hashes = block;
        probes->capacity = capacity;
    }
    TRY(memory_new_zeroed(probes->host, size_product(4, count), sizeof(float), "hashes to fit", &block));
    *found = &probes->hashes[probes->num_hashes++];
    **found = (struct probe_hashes){
        .layer = layer, .first_head = shape->first_head, .count = count, .values = block};
    start_hashes(probes->probe, shape, layer, block);
    return HASHATTN_OK;
}

hashattn_status probes_open(struct probes *probes, size_t layer, const struct attention_call *call,
                            struct attention_call *probing)
{
    struct probe_hashes *hashes;
    struct attention_shape shape = call->plan->shape;
    TRY(hashes_of(probes, layer, &shape, &hashes));
    shape.mechanism = probes->probe->mechanism;
    shape.options = probes->probe->options;
    shape.inspects = true;
    TRY(workspace_fit(probes->host, &probes->arrays, attention_plan_bytes(shape.num_sequences)));
    TRY(attention_plan_make(probes->host, &shape, call->key_mask, probes->arrays.block, &probes->plan));
    *probing = *call;
    probing->plan = &probes->plan;
    probing->params = hashes != NULL ? hashes->values : NULL;
    probing->out_of_range = NULL;
    size_t rows = shape.query_offsets[shape.num_sequences], width = shape.num_heads * shape.value_dim;
    struct arena arena = arena_on(NULL);
    for (int pass = 0; pass < 2; pass++) {
        probing->saved = arena_take(&arena, probes->plan.saved_bytes, 1);
        probing->scratch = arena_take(&arena, probes->plan.scratch_bytes, 1);
        float *out = arena_take(&arena, size_product(rows, width), sizeof *out);
        if (pass == 0) {
            TRY(workspace_fit(probes->host, &probes->workspace, arena.used));
            arena = arena_on(probes->workspace.block);
            continue;
        }
        const struct packed to = {
            .data = out, .width = shape.value_dim, .row_stride = width, .head_stride = shape.value_dim};
        attention_forward(probing, to);
    }
    return HASHATTN_OK;
}

hashattn_status probes_fit(struct probes *probes, size_t layer, const struct attention_call *call)
{
    const struct attention_shape *shape = &call->plan->shape;
    struct attention_call probing;
    struct probe_hashes *hashes;
    TRY(hashes_of(probes, layer, shape, &hashes));
    if (hashes == NULL || probes->probe->mechanism->own_loss == NULL)
        return HASHATTN_OK;
    TRY(probes_open(probes, layer, call, &probing));
    float *gradients = hashes->values + hashes->count;
    memset(gradients, 0, hashes->count * sizeof *gradients);
    probes->loss =
        attention_auxiliary(&probing, gradients) / (double)(shape->num_heads * shape->num_sequences);
    const struct optim optim = {.kernels = shape->kernels,
                                .pool = shape->pool,
                                .total = hashes->count,
                                .m = gradients + hashes->count,
                                .v = gradients + 2 * hashes->count,
                                .beta2 = BETA2,
                                .epsilon = EPSILON};
    optim_step(&optim, hashes->values, gradients, 0, ++hashes->step, RATE, BETA1);
    return HASHATTN_OK;
}

void probes_free(struct probes *probes)
{
    for (size_t i = 0; i < probes->num_hashes; i++)
        memory_free(probes->host, probes->hashes[i].values);
    memory_free(probes->host, probes->hashes);
    workspace_free(probes->host, &probes->workspace);
    workspace_free(probes->host, &probes->arrays);
}
