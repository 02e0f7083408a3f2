/* The check of a call, before any of it runs: widths and strides, what the mechanism refuses for the shape of
   each sequence, and memory that cannot be counted. Its messages have the numbers. Cost: one refusal per
   sequence whose shape differs from the one before, and a pass over the mask.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "attention/driver/call_shape.h"
#include "attention/driver/kept.h"
#include "base/memory.h"

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
static hashattn_status check_ranks(struct host *host, const struct attention_call *call, size_t sequence)
{
    const struct mechanism *mechanism = call->mechanism;
    size_t ranks = row_ranks_count(call->ranks), rows = call->totals[sequence];
    char list[200];
    attention_shared_names(list, sizeof list);
    FAIL_IF(rows < ranks, host, HASHATTN_REFUSED,
            "sequence %zu has %zu rows, too few for sequence_parallel %zu: each rank needs one", sequence,
            rows, ranks);
    FAIL_IF(mechanism->mixes && mechanism->sequence_parallel == NULL, host, HASHATTN_REFUSED,
            "%s cannot share a sequence: sequence_parallel is %zu, which is for: %s", mechanism->name, ranks,
            list);
    assert(call->query_offsets == call->key_offsets && call->key_mask == NULL && call->out_of_range == NULL);
    assert(call->dtype == DTYPE_FLOAT32 && !call->inspects && !call->large);
    return HASHATTN_OK;
}

static hashattn_status check_sequence(struct host *host, const struct attention_call *call, size_t sequence)
{
    const struct mechanism *mechanism = call->mechanism;
    assert(call->query_offsets[sequence] <= call->query_offsets[sequence + 1] &&
           call->key_offsets[sequence] <= call->key_offsets[sequence + 1]);
    struct problem_shape shape = call_shape(call, sequence);
    FAIL_IF(call->causal && shape.num_queries != shape.num_keys, host, HASHATTN_INVALID,
            "sequence %zu has %zu queries and %zu keys; causal attention needs equal numbers", sequence,
            shape.num_queries, shape.num_keys);
    bool masked = call_masks_queries(call, &shape);
    if (!mechanism->sees_mask)
        shape.num_keys = kept_count(call_mask(call, sequence), shape.num_keys).count;
    if (masked)
        shape.num_queries = shape.num_keys;
    const char *why = mechanism_refuses(mechanism, call->options, &shape);
    if (call->ranks != NULL)
        TRY(check_ranks(host, call, sequence));
    if (why == NULL && call_across(call) != NULL && call_across(call)->refuse != NULL)
        why = call_across(call)->refuse(call->options, &shape);
    if (why == NULL)
        return HASHATTN_OK;
    char longest[40] = "", sentence[200];
    options_fill(mechanism->options, call->options, why, sentence, sizeof sentence);
    struct attention_call longer = *call;
    longer.max_len++;
    if (call_param_count(&longer) != call_param_count(call)) /* its tensors grow with max_len */
        snprintf(longest, sizeof longest, ", max_len %zu", call->max_len);
    return host_fail(host, HASHATTN_REFUSED, "%s: %s (sequence %zu: %zu queries, %zu keys, head_dim %zu%s)",
                     mechanism->name, sentence, sequence, shape.num_queries, shape.num_keys, shape.head_dim,
                     longest);
}

/* true if `sequence` has the shape of the previous one, which was checked. */
static bool is_as_before(const struct attention_call *call, size_t sequence)
{
    if (sequence == 0 || call->key_mask != NULL)
        return false;
    struct problem_shape shape = call_shape(call, sequence), before = call_shape(call, sequence - 1);
    return shape.num_queries == before.num_queries && shape.num_keys == before.num_keys &&
           shape.total_rows == before.total_rows;
}

hashattn_status attention_check_shapes(struct host *host, const struct attention_call *call)
{
    assert(call->query_offsets[0] == 0 && call->key_offsets[0] == 0);
    for (size_t s = 0; s < call->num_sequences; s++)
        if (!is_as_before(call, s))
            TRY(check_sequence(host, call, s));
    return HASHATTN_OK;
}

hashattn_status attention_check(struct host *host, const struct attention_call *call)
{
    const struct mechanism *mechanism = call->mechanism;
    assert(call->kernels != NULL && call->pool != NULL && mechanism != NULL);
    FAIL_IF(call->num_heads < 1 || call->head_dim < 1 || call->value_dim < 1, host, HASHATTN_INVALID,
            "num_heads is %zu, head_dim %zu, value_dim %zu; each must be at least 1", call->num_heads,
            call->head_dim, call->value_dim);
    size_t queries = call->query_offsets[call->num_sequences], keys = call->key_offsets[call->num_sequences];
    TRY(check_rows(host, "query", &call->query, call->head_dim, queries));
    TRY(check_rows(host, "key", &call->key, call->head_dim, keys));
    TRY(check_rows(host, "value", &call->value, call->value_dim, keys));
    size_t parameters = call_param_count(call);
    FAIL_IF(parameters > 0 && call->params == NULL && call_has_rows(call), host, HASHATTN_INVALID,
            "%s needs %zu learned parameters per head, none were given", mechanism->name, parameters);
    TRY(attention_check_shapes(host, call));
    size_t saved = attention_saved_size(call), scratch = attention_scratch_size(call);
    FAIL_IF(saved >= PTRDIFF_MAX || scratch >= PTRDIFF_MAX, host, HASHATTN_NO_MEMORY,
            "%s on %zu queries, %zu keys, %zu heads needs more bytes than can be counted (%zu saved, %zu "
            "scratch)",
            mechanism->name, queries, keys, call->num_heads, saved, scratch);
    return HASHATTN_OK;
}

hashattn_status attention_check_backward(struct host *host, const struct mechanism *mechanism)
{
    FAIL_IF(mechanism->backward == NULL, host, HASHATTN_REFUSED,
            "%s has no backward pass: it computes outputs, but no gradients, and cannot be trained",
            mechanism->name);
    return HASHATTN_OK;
}
