/* Sizes and order of a call. The functions that lay memory out are also those that count it: on NULL they
   count.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/plan.h"

#include "attention/driver/device_batch.h"
#include "attention/driver/work_order.h"
#include "base/memory.h"

static size_t scratch_size(const struct attention_shape *shape, const struct problem_shape *of)
{
    return (shape->inspects ? shape->mechanism->inspection->scratch_size
                            : shape_implementation(shape)->scratch_size)(shape->options, of);
}

struct worker_memory worker_memory(const struct attention_shape *shape, const struct problem_shape *of,
                                   void *block)
{
    struct worker_memory memory = {0};
    struct arena arena = arena_on(block);
    if (shape->causal)
        memory.visible = arena_take(&arena, of->num_queries, sizeof *memory.visible);
    bool half = shape->dtype == DTYPE_BFLOAT16;
    size_t queries = size_product(of->num_queries, of->head_dim);
    size_t outputs = size_product(of->num_queries, of->value_dim);
    size_t keys = size_product(of->num_keys, of->head_dim);
    size_t values = size_product(of->num_keys, of->value_dim);
    if (half || shape_masks_queries(shape, of)) {
        memory.query = arena_take(&arena, queries, sizeof(float));
        memory.out = arena_take(&arena, outputs, sizeof(float));
        memory.dout = arena_take(&arena, outputs, sizeof(float));
        memory.dquery = arena_take(&arena, queries, sizeof(float));
    }
    if (half || (shape->masked && !shape->mechanism->sees_mask)) {
        memory.key = arena_take(&arena, keys, sizeof(float));
        memory.value = arena_take(&arena, values, sizeof(float));
        memory.dkey = arena_take(&arena, keys, sizeof(float));
        memory.dvalue = arena_take(&arena, values, sizeof(float));
    }
    memory.mechanism = arena_take(&arena, scratch_size(shape, of), 1);
    memory.bytes = arena.used;
    return memory;
}

/* Bytes that an arena takes for `bytes`. */
static size_t padded(size_t bytes)
{
    struct arena arena = arena_on(NULL);
    arena_take(&arena, bytes, 1);
    return arena.used;
}

/* The saved memory of every sequence, and the scratch of the largest unit. */
static void lay_sequences(struct attention_plan *plan)
{
    const struct attention_shape *shape = &plan->shape;
    const struct implementation *implementation = shape_implementation(shape);
    struct arena keep = arena_on(NULL);
    size_t threads = (size_t)pool_threads(shape->pool), spread_bytes = 0;
    size_t units = size_product(shape->num_sequences, shape->num_heads);
    arena_take(&keep, plan->shared_bytes, 1);
    for (size_t s = 0; s < shape->num_sequences; s++) {
        struct problem_shape of = shape_of_sequence(shape, s);
        plan->start[s] = keep.used;
        arena_take(&keep, shape->num_heads, padded(implementation->saved_size(shape->options, &of)));
        plan->worker_bytes = size_max(plan->worker_bytes, worker_memory(shape, &of, NULL).bytes);
        of.workers = threads;
        if (plan->num_spread > 0)
            spread_bytes = size_max(spread_bytes, worker_memory(shape, &of, NULL).bytes);
    }
    plan->start[shape->num_sequences] = plan->saved_bytes = keep.used;
    plan->worker_area = plan->num_spread == units ? 0 : size_product(threads, plan->worker_bytes);
    plan->worker_area = size_max(plan->worker_area, spread_bytes);
}

struct call_memory call_memory(const struct attention_plan *plan, void *scratch)
{
    const struct attention_shape *shape = &plan->shape;
    struct arena work = arena_on(scratch);
    size_t units = size_product(shape->num_sequences, shape->num_heads);
    struct call_memory memory = {.losses = NULL};
    if (shape->mechanism->own_loss != NULL)
        memory.losses = arena_take(&work, units, sizeof *memory.losses);
    memory.slices = arena_take(&work, size_product(units, plan->param_count), sizeof *memory.slices);
    memory.workers = arena_take(&work, plan->worker_area, 1);
    memory.bytes = work.used;
    return memory;
}

/* The blocks of a device, which has its own order of work. */
static void lay_device(struct attention_plan *plan)
{
    struct device_batch batch = attention_device_batch(&plan->shape);
    struct device_sizes sizes = plan->shape.mechanism->device->sizes(&batch);
    plan->saved_bytes = sizes.saved;
    plan->scratch_bytes = sizes.scratch;
    plan->staging_bytes = attention_device_staging(&plan->shape);
}

static void lay(struct attention_plan *plan)
{
    const struct attention_shape *shape = &plan->shape;
    const struct preparation_facet *preparation = shape->mechanism->preparation;
    if (!shape_has_rows(shape))
        return;
    if (shape->device != NULL) {
        lay_device(plan);
        return;
    }
    if (preparation != NULL)
        plan->shared_bytes = preparation->shared_size(shape->options, shape->head_dim);
    plan->num_spread = work_order_spread(shape);
    work_order_sort(shape, plan->order);
    lay_sequences(plan);
    if (preparation != NULL && preparation->scratch_size != NULL) /* not needed after the first unit starts */
        plan->worker_area =
            size_max(plan->worker_area, preparation->scratch_size(shape->options, shape->head_dim,
                                                                  (size_t)pool_threads(shape->pool)));
    plan->scratch_bytes = call_memory(plan, NULL).bytes;
}

struct plan_arrays {
    size_t *order, *start;
    size_t bytes;
};

static struct plan_arrays arrays_on(void *block, size_t num_sequences)
{
    struct arena arena = arena_on(block);
    struct plan_arrays arrays;
    arrays.order = arena_take(&arena, num_sequences, sizeof *arrays.order);
    arrays.start = arena_take(&arena, size_sum(num_sequences, 1), sizeof *arrays.start);
    arrays.bytes = arena.used;
    return arrays;
}

size_t attention_plan_bytes(size_t num_sequences)
{
    return arrays_on(NULL, num_sequences).bytes;
}

hashattn_status attention_plan_make(struct host *host, const struct attention_shape *shape,
                                    const uint8_t *key_mask, void *block, struct attention_plan *plan)
{
    struct plan_arrays arrays = arrays_on(block, shape->num_sequences);
    FAIL_IF(shape->num_heads < 1 || shape->head_dim < 1 || shape->value_dim < 1, host, HASHATTN_INVALID,
            "num_heads is %zu, head_dim %zu, value_dim %zu; each must be at least 1", shape->num_heads,
            shape->head_dim, shape->value_dim);
    TRY(attention_check_shapes(host, shape, key_mask));
    *plan = (struct attention_plan){.shape = *shape,
                                    .param_count = shape_param_count(shape),
                                    .order = arrays.order,
                                    .start = arrays.start};
    lay(plan);
    FAIL_IF(plan->saved_bytes >= PTRDIFF_MAX || plan->scratch_bytes >= PTRDIFF_MAX, host, HASHATTN_NO_MEMORY,
            "%s on %zu queries, %zu keys, %zu heads needs more bytes than can be counted (%zu saved, %zu "
            "scratch)",
            shape->mechanism->name, shape->query_offsets[shape->num_sequences],
            shape->key_offsets[shape->num_sequences], shape->num_heads, plan->saved_bytes,
            plan->scratch_bytes);
    return HASHATTN_OK;
}
