/* Pairs of token and group are sorted by score once and then taken greedily.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/partition.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "parts/groups/score_order.h"

struct memory {
    struct ordered *entries, *other; /* (n, num_groups) each */
    uint32_t *counts;                /* (ORDER_COUNTS) */
    size_t *sizes;                   /* (num_groups): tokens so far */
    size_t bytes;
};

static struct memory memory_on(size_t num_groups, size_t n, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    size_t pairs = size_product(n, num_groups);
    memory.entries = arena_take(&arena, pairs, sizeof *memory.entries);
    memory.other = arena_take(&arena, pairs, sizeof *memory.other);
    memory.counts = arena_take(&arena, ORDER_COUNTS, sizeof *memory.counts);
    memory.sizes = arena_take(&arena, num_groups, sizeof *memory.sizes);
    memory.bytes = arena.used;
    return memory;
}

size_t partition_size(size_t num_groups, size_t n)
{
    return memory_on(num_groups, n, NULL).bytes;
}

void partition(const float *scores, size_t ld, size_t num_groups, size_t n, uint32_t first, uint32_t *choice,
               size_t stride, void *scratch)
{
    struct memory memory = memory_on(num_groups, n, scratch);
    size_t each = n / num_groups, more = n % num_groups, pairs = n * num_groups;
    memset(memory.sizes, 0, num_groups * sizeof *memory.sizes);
    for (size_t i = 0; i < n; i++)
        choice[i * stride] = UINT32_MAX;
    for (size_t pair = 0; pair < pairs; pair++) {
        float score = scores[pair % num_groups * ld + pair / num_groups];
        memory.entries[pair] =
            (struct ordered){isnan(score) ? UINT32_MAX : ~score_order(score), (uint32_t)pair};
    }
    const struct ordered *sorted = order_sort(memory.entries, memory.other, memory.counts, pairs);
    for (size_t k = 0; k < pairs; k++) {
        size_t i = sorted[k].index / num_groups, b = sorted[k].index % num_groups;
        if (choice[i * stride] != UINT32_MAX || memory.sizes[b] > each ||
            (memory.sizes[b] == each && more == 0))
            continue;
        more -= memory.sizes[b] == each;
        memory.sizes[b]++;
        choice[i * stride] = first + (uint32_t)b;
    }
}
