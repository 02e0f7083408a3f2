/* One block holds the arrays of the plan and copies of the offsets, because those of the caller may change
   between calls. Equal lengths get offsets of their own.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/operator/operator_plan.h"

#include <string.h>

#include "base/memory.h"

void operator_plan_forget(hashattn_attention *attention)
{
    attention->cached.made = false;
}

void operator_plan_free(hashattn_attention *attention)
{
    memory_free(&attention->context->host, attention->cached.block);
    memory_free(&attention->context->host, attention->cached.staging);
    attention->cached = (struct cached_plan){.made = false};
}

/* The contents of the block. */
struct plan_arrays {
    void *plan;
    size_t *query, *key; /* offsets */
    size_t *totals;      /* (num_sequences) with total_rows */
    size_t bytes;
};

static struct plan_arrays arrays_on(void *block, size_t num_sequences)
{
    struct arena arena = arena_on(block);
    struct plan_arrays arrays;
    size_t ends = size_sum(num_sequences, 1);
    arrays.plan = arena_take(&arena, attention_plan_bytes(num_sequences), 1);
    arrays.query = arena_take(&arena, ends, sizeof *arrays.query);
    arrays.key = arena_take(&arena, ends, sizeof *arrays.key);
    arrays.totals = arena_take(&arena, num_sequences, sizeof *arrays.totals);
    arrays.bytes = arena.used;
    return arrays;
}

/* Offset number s of a problem, given or of equal lengths. */
static size_t offset_of(const size_t *offsets, size_t rows, size_t s)
{
    return offsets != NULL ? offsets[s] : s * rows;
}

static bool same_offsets(const hashattn_problem *p, const struct attention_shape *shape)
{
    for (size_t s = 0; s <= p->num_sequences; s++)
        if (shape->query_offsets[s] != offset_of(p->query_offsets, p->num_queries, s) ||
            shape->key_offsets[s] != offset_of(p->key_offsets, p->num_keys, s))
            return false;
    return true;
}

static enum dtype dtype_of(const hashattn_problem *p)
{
    return p->element == HASHATTN_BF16 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
}

static bool is_cached(const struct cached_plan *cached, const hashattn_problem *p)
{
    const struct attention_shape *shape = &cached->plan.shape;
    return cached->made && shape->num_sequences == p->num_sequences && shape->num_heads == p->num_heads &&
           shape->head_dim == p->head_dim && shape->value_dim == p->value_dim &&
           shape->max_len == p->max_len && shape->dtype == dtype_of(p) &&
           shape->alike == (p->sample_ids == NULL) && shape->masked == (p->key_mask != NULL) &&
           shape->causal == (p->causal != 0) && cached->total_rows == p->total_rows && same_offsets(p, shape);
}

/* The shapes of the problem, with arrays of our own. */
static struct attention_shape shape_of(hashattn_attention *attention, const hashattn_problem *p,
                                       const struct plan_arrays *arrays)
{
    struct row_ranks *ranks = &attention->cached.ranks;
    for (size_t s = 0; s <= p->num_sequences; s++) {
        arrays->query[s] = offset_of(p->query_offsets, p->num_queries, s);
        arrays->key[s] = offset_of(p->key_offsets, p->num_keys, s);
    }
    struct attention_shape shape = {
        .kernels = attention->context->kernels,
        .pool = attention->context->pool,
        .mechanism = attention->mechanism,
        .options = attention->options,
        .num_sequences = p->num_sequences,
        .num_heads = p->num_heads,
        .head_dim = p->head_dim,
        .value_dim = p->value_dim,
        .max_len = p->max_len,
        .query_offsets = arrays->query,
        .key_offsets = arrays->key,
        .dtype = dtype_of(p),
        .precision = attention->context->precision,
        .masked = p->key_mask != NULL,
        .causal = p->causal != 0,
        .device = attention->context->device,
        .alike = p->sample_ids == NULL,
    };
    if (p->total_rows == 0 || comm_size(ranks->comm) == 1)
        return shape;
    for (size_t s = 0; s < p->num_sequences; s++)
        arrays->totals[s] = p->total_rows;
    shape.ranks = ranks;
    shape.totals = arrays->totals;
    shape.key_offsets = shape.query_offsets;
    return shape;
}

static hashattn_status reserve(struct host *host, struct cached_plan *cached, size_t num_sequences)
{
    size_t bytes = arrays_on(NULL, num_sequences).bytes;
    void *block;
    if (bytes <= cached->capacity)
        return HASHATTN_OK;
    TRY(memory_new(host, 1, bytes, "a plan", &block));
    memory_free(host, cached->block);
    cached->block = block;
    cached->capacity = bytes;
    return HASHATTN_OK;
}

hashattn_status operator_plan(hashattn_attention *attention, const hashattn_problem *p,
                              const struct attention_plan **plan)
{
    struct host *host = &attention->context->host;
    struct cached_plan *cached = &attention->cached;
    *plan = &cached->plan;
    if (is_cached(cached, p)) {
        cached->ranks.status = HASHATTN_OK;
        return p->key_mask == NULL ? HASHATTN_OK
                                   : attention_check_shapes(host, &cached->plan.shape, p->key_mask);
    }
    cached->made = false;
    memory_free(host, cached->staging);
    cached->staging = NULL;
    cached->ranks = (struct row_ranks){.host = host, .comm = &attention->context->comm};
    cached->total_rows = p->total_rows;
    TRY(reserve(host, cached, p->num_sequences));
    const struct plan_arrays arrays = arrays_on(cached->block, p->num_sequences);
    const struct attention_shape shape = shape_of(attention, p, &arrays);
    TRY(attention_plan_make(host, &shape, p->key_mask, arrays.plan, &cached->plan));
    cached->made = true;
    return HASHATTN_OK;
}
