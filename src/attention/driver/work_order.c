/* A unit runs on one thread beside others, or uses all threads, which costs a few wake-ups per step. The
   most expensive unit is spread over all threads if it would otherwise finish last (it costs more than an
   equal share of the remaining work), or if a remainder of equal units would leave threads idle: of 3 heads
   on 2 threads one, of 12 none, of 16 sequences with a long one the long one. All units are spread if ranks
   share their rows, because one thread exchanges them. The rest runs most expensive first, so that the last
   unit to end is small. Cost: a few passes over the lengths, and a sort.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/work_order.h"

#include <stdbool.h>

#include "base/memory.h"

/* Below these costs of a unit, waking threads does not pay: at n 2,048 yoso's backward wakes them 40 times
   (11 us each) in 2 ms. */
enum { SPREAD_ROWS = 4096, SPREAD_PAIRS = 512 * 512, EQUAL_ROUNDS = 4 };

/* Cost of one head, in pairs or rows: comparable within a call. */
static size_t cost_of(const struct attention_shape *shape, size_t sequence)
{
    const size_t *query = shape->query_offsets + sequence, *key = shape->key_offsets + sequence;
    return shape->mechanism->quadratic ? size_product(query[1] - query[0], key[1] - key[0])
                                       : size_sum(query[1] - query[0], key[1] - key[0]);
}

/* Units that cost at most `limit` each: their total cost, number, and highest cost. */
struct units {
    size_t cost, count, largest;
};

static struct units units_within(const struct attention_shape *shape, size_t limit)
{
    struct units units = {0};
    for (size_t s = 0; s < shape->num_sequences; s++) {
        size_t cost = cost_of(shape, s);
        if (cost > limit)
            continue;
        units.cost = size_sum(units.cost, size_product(cost, shape->num_heads));
        units.count += shape->num_heads;
        units.largest = cost > units.largest ? cost : units.largest;
    }
    return units;
}

size_t work_order_spread(const struct attention_shape *shape)
{
    const struct mechanism *mechanism = shape->mechanism;
    size_t threads = (size_t)pool_threads(shape->pool),
           worth = mechanism->quadratic ? SPREAD_PAIRS : SPREAD_ROWS;
    struct units all = units_within(shape, SIZE_MAX), left = all;
    if (shape_spans_ranks(shape))
        return all.count;
    if (threads == 1 || !mechanism->mixes || all.cost == SIZE_MAX)
        return 0;
    /* Spread the units that would finish last, one cost at a time. */
    while (left.largest >= worth && left.largest > left.cost / threads + left.cost / 16)
        left = units_within(shape, left.largest - 1);
    /* Spread the remainder of equal units. */
    size_t rest = left.count % threads;
    bool equal = left.count > 0 && left.largest - left.cost / left.count <= left.largest / 8;
    if (left.largest < worth || !equal || left.count > EQUAL_ROUNDS * threads || 4 * rest > 3 * threads)
        rest = 0;
    return all.count - left.count + rest;
}

/* ---- most expensive first ------------------------------------------------------------------------------ */

/* true if a comes before b. */
static bool dearer(const struct attention_shape *shape, size_t a, size_t b)
{
    size_t cost_a = cost_of(shape, a), cost_b = cost_of(shape, b);
    return cost_a != cost_b ? cost_a > cost_b : a < b;
}

/* Restores the heap below `root`; its top is the cheapest of order[0 .. count). */
static void sift(const struct attention_shape *shape, size_t *order, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && dearer(shape, order[child], order[child + 1]))
            child++;
        if (!dearer(shape, order[root], order[child]))
            return;
        size_t cheaper = order[child];
        order[child] = order[root];
        order[root] = cheaper;
    }
}

/* Heap sort: in place, n log n; qsort may allocate. */
void work_order_sort(const struct attention_shape *shape, size_t *order)
{
    size_t count = shape->num_sequences;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    if (shape_spans_ranks(shape)) /* ranks have other lengths, but need the same order */
        return;
    for (size_t i = count / 2; i-- > 0;)
        sift(shape, order, i, count);
    for (size_t i = count; i-- > 1;) {
        size_t cheapest = order[0];
        order[0] = order[i];
        order[i] = cheapest;
        sift(shape, order, 0, i);
    }
}
