/* The checks before anything runs: what the mechanism refuses for the shape of each sequence, and widths and
   strides of a call. The messages have the numbers. Cost: one refusal per sequence whose shape differs from
   the one before, and a pass over the mask.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "attention/driver/attention.h"
#include "attention/driver/device_batch.h"
#include "attention/driver/kept.h"

static hashattn_status check_rows(struct host *host, const char *what, const struct packed *rows,
                                  size_t width, size_t count)
{
    FAIL_IF(rows->width != width, host, HASHATTN_INVALID, "%s has width %zu, %zu is needed", what,
            rows->width, width);
    FAIL_IF(count > 1 && rows->row_stride < width, host, HASHATTN_INVALID,
            "%s has rows of width %zu that are only %zu apart", what, width, rows->row_stride);
    return HASHATTN_OK;
}

/* The part of check_sequence about ranks that share it. */
static hashattn_status check_ranks(struct host *host, const struct attention_shape *shape, size_t sequence)
{
    const struct mechanism *mechanism = shape->mechanism;
    size_t ranks = row_ranks_count(shape->ranks), rows = shape->totals[sequence];
    char list[200];
    attention_shared_names(list, sizeof list);
    FAIL_IF(rows < ranks, host, HASHATTN_REFUSED,
            "sequence %zu has %zu rows, too few for %zu ranks: each needs one", sequence, rows, ranks);
    FAIL_IF(mechanism->mixes && mechanism->ranks == NULL, host, HASHATTN_REFUSED,
            "%s cannot share a sequence among %zu ranks; those that can: %s", mechanism->name, ranks, list);
    assert(shape->query_offsets == shape->key_offsets && !shape->masked);
    assert(shape->dtype == DTYPE_FLOAT32 && !shape->inspects);
    return HASHATTN_OK;
}

/* What a device refuses of a sequence, as `refuse` of an implementation; "" if the mechanism has none there.
 */
static const char *device_refuses(const struct attention_shape *shape, const struct problem_shape *of)
{
    const struct device_implementation *device = shape->mechanism->device;
    return device == NULL ? "" : device->refuse(shape->options, of);
}

/* mask: of all key rows; NULL: all take part. */
static hashattn_status check_sequence(struct host *host, const struct attention_shape *shape,
                                      const uint8_t *mask, size_t sequence)
{
    const struct mechanism *mechanism = shape->mechanism;
    assert(shape->query_offsets[sequence] <= shape->query_offsets[sequence + 1] &&
           shape->key_offsets[sequence] <= shape->key_offsets[sequence + 1]);
    struct problem_shape of = shape_of_sequence(shape, sequence);
    FAIL_IF(shape->causal && of.num_queries != of.num_keys, host, HASHATTN_INVALID,
            "sequence %zu has %zu queries and %zu keys; causal attention needs equal numbers", sequence,
            of.num_queries, of.num_keys);
    bool masks_queries = shape_masks_queries(shape, &of);
    if (mask != NULL && !mechanism->sees_mask)
        of.num_keys = kept_count(mask + shape->key_offsets[sequence], of.num_keys).count;
    if (masks_queries)
        of.num_queries = of.num_keys;
    const char *why = mechanism_refuses(mechanism, shape->options, &of);
    if (shape->ranks != NULL)
        TRY(check_ranks(host, shape, sequence));
    if (why == NULL && shape->device != NULL)
        why = device_refuses(shape, &of);
    if (why != NULL && *why == '\0') {
        char list[200];
        attention_device_names(list, sizeof list);
        return host_fail(host, HASHATTN_REFUSED, "%s is not computed on a device, only: %s", mechanism->name,
                         list);
    }
    if (why == NULL && shape_spans_ranks(shape) && mechanism->ranks->refuse != NULL)
        why = mechanism->ranks->refuse(shape->options, &of);
    if (why == NULL)
        return HASHATTN_OK;
    char longest[40] = "", sentence[300];
    options_fill(mechanism->options, shape->options, why, sentence, sizeof sentence);
    struct attention_shape longer = *shape;
    longer.max_len++;
    if (shape_param_count(&longer) != shape_param_count(shape)) /* its tensors grow with max_len */
        snprintf(longest, sizeof longest, ", max_len %zu", shape->max_len);
    return host_fail(host, HASHATTN_REFUSED, "%s: %s (sequence %zu: %zu queries, %zu keys, head_dim %zu%s)",
                     mechanism->name, sentence, sequence, of.num_queries, of.num_keys, of.head_dim, longest);
}

/* true if `sequence` has the shape of the previous one, which was checked. */
static bool is_as_before(const struct attention_shape *shape, const uint8_t *mask, size_t sequence)
{
    if (sequence == 0 || mask != NULL)
        return false;
    struct problem_shape of = shape_of_sequence(shape, sequence),
                         before = shape_of_sequence(shape, sequence - 1);
    return of.num_queries == before.num_queries && of.num_keys == before.num_keys &&
           of.total_rows == before.total_rows;
}

hashattn_status attention_check_shapes(struct host *host, const struct attention_shape *shape,
                                       const uint8_t *key_mask)
{
    assert(shape->query_offsets[0] == 0 && shape->key_offsets[0] == 0);
    for (size_t s = 0; s < shape->num_sequences; s++)
        if (!is_as_before(shape, key_mask, s))
            TRY(check_sequence(host, shape, key_mask, s));
    return HASHATTN_OK;
}

hashattn_status attention_check(struct host *host, const struct attention_call *call)
{
    const struct attention_plan *plan = call->plan;
    const struct attention_shape *shape = &plan->shape;
    size_t queries = shape->query_offsets[shape->num_sequences],
           keys = shape->key_offsets[shape->num_sequences];
    assert(call->key_mask == NULL || shape->masked);
    assert(shape->ranks == NULL || (call->out_of_range == NULL && !call->large));
    TRY(check_rows(host, "query", &call->query, shape->head_dim, queries));
    TRY(check_rows(host, "key", &call->key, shape->head_dim, keys));
    TRY(check_rows(host, "value", &call->value, shape->value_dim, keys));
    FAIL_IF(plan->param_count > 0 && call->params == NULL && shape_has_rows(shape), host, HASHATTN_INVALID,
            "%s needs %zu learned parameters per head, none were given", shape->mechanism->name,
            plan->param_count);
    return HASHATTN_OK;
}

hashattn_status attention_check_backward(struct host *host, const struct mechanism *mechanism)
{
    FAIL_IF(mechanism->host.backward == NULL, host, HASHATTN_REFUSED,
            "%s has no backward pass: it computes outputs, but no gradients, and cannot be trained",
            mechanism->name);
    return HASHATTN_OK;
}
