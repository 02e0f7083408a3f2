/* A set has few plans, so it is searched from the first on.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/plan_set.h"

#include <assert.h>

#include "base/memory.h"

static struct plan_set set_on(void *block, size_t room, size_t num_sequences, size_t *bytes)
{
    struct arena arena = arena_on(block);
    struct plan_set set = {.room = room, .array_bytes = attention_plan_bytes(num_sequences)};
    set.plans = arena_take(&arena, room, sizeof *set.plans);
    set.arrays = arena_take(&arena, room, set.array_bytes);
    *bytes = arena.used;
    return set;
}

size_t plan_set_bytes(size_t room, size_t num_sequences)
{
    size_t bytes;
    set_on(NULL, room, num_sequences, &bytes);
    return bytes;
}

struct plan_set plan_set_on(void *block, size_t room, size_t num_sequences)
{
    size_t bytes;
    return set_on(block, room, num_sequences, &bytes);
}

/* Arrays of numbers are the same if they stand in the same place. */
static bool is_same(const struct attention_shape *a, const struct attention_shape *b)
{
    return a->kernels == b->kernels && a->pool == b->pool && a->mechanism == b->mechanism &&
           a->options == b->options && a->num_sequences == b->num_sequences && a->num_heads == b->num_heads &&
           a->head_dim == b->head_dim && a->value_dim == b->value_dim && a->max_len == b->max_len &&
           a->first_head == b->first_head && a->query_offsets == b->query_offsets &&
           a->key_offsets == b->key_offsets && a->dtype == b->dtype && a->precision == b->precision &&
           a->masked == b->masked && a->causal == b->causal && a->inspects == b->inspects &&
           a->ranks == b->ranks && a->totals == b->totals;
}

hashattn_status plan_set_get(struct host *host, struct plan_set *set, const struct attention_shape *shape,
                             const struct attention_plan **plan)
{
    assert(!shape->masked);
    size_t i = 0;
    while (i < set->count && !is_same(&set->plans[i].shape, shape))
        i++;
    *plan = &set->plans[i];
    if (i < set->count)
        return HASHATTN_OK;
    assert(i < set->room);
    TRY(attention_plan_make(host, shape, NULL, set->arrays + i * set->array_bytes, &set->plans[i]));
    set->count++;
    return HASHATTN_OK;
}
