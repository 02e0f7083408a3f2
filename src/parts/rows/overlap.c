/* Steps are first joined: rows without a gap become wider ones, and a step that continues the one below it
   becomes a longer one. So contiguous arrays become one range, and columns of one matrix one progression of
   rows. Two progressions with the same stride are compared in closed form; other strides row by row. Arrays
   that keep several steps are compared for every position of their shorter steps whose range meets the other
   array. Cost: a few operations for arrays in different blocks, and for columns of one matrix.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/rows/overlap.h"

static void drop_step(struct spread *a, size_t k)
{
    a->num_steps--;
    for (; k < a->num_steps; k++)
        a->step[k] = a->step[k + 1];
}

/* Joins the steps, and sorts them by stride. */
static void join(struct spread *a)
{
    for (size_t k = a->num_steps; k-- > 0;)
        if (a->step[k].count == 1 || a->step[k].stride == 0)
            drop_step(a, k);
    for (size_t k = 1; k < a->num_steps; k++)
        for (size_t j = k; j > 0 && a->step[j].stride < a->step[j - 1].stride; j--) {
            size_t count = a->step[j].count, stride = a->step[j].stride;
            a->step[j] = a->step[j - 1];
            a->step[j - 1].count = count;
            a->step[j - 1].stride = stride;
        }
    while (a->num_steps > 0 && a->step[0].stride <= a->width) {
        a->width += a->step[0].stride * (a->step[0].count - 1);
        drop_step(a, 0);
    }
    for (size_t k = 1; k < a->num_steps;)
        if (a->step[k].stride == a->step[k - 1].stride * a->step[k - 1].count) {
            a->step[k - 1].count *= a->step[k].count;
            drop_step(a, k);
        } else {
            k++;
        }
}

/* One more than the last byte. */
static uintptr_t end_of(const struct spread *a)
{
    uintptr_t end = a->start + a->width;
    for (size_t k = 0; k < a->num_steps; k++)
        end += a->step[k].stride * (a->step[k].count - 1);
    return end;
}

/* Whether some byte of [start, end) belongs to the progression, which has one step at most. */
static bool range_meets(const struct spread *row, uintptr_t start, uintptr_t end)
{
    if (end <= row->start || start >= end_of(row))
        return false;
    if (row->num_steps == 0 || end - row->start <= row->width)
        return true;
    /* The last row that begins before the end is the one that reaches furthest. */
    size_t last = (end - 1 - row->start) / row->step[0].stride;
    if (last >= row->step[0].count)
        last = row->step[0].count - 1;
    return row->start + last * row->step[0].stride + row->width > start;
}

/* Of two progressions. */
static bool rows_meet(const struct spread *a, const struct spread *b)
{
    if (a->num_steps == 0)
        return range_meets(b, a->start, a->start + a->width);
    if (b->num_steps == 0)
        return range_meets(a, b->start, b->start + b->width);
    const struct spread *lower = a->start <= b->start ? a : b, *upper = lower == a ? b : a;
    size_t stride = lower->step[0].stride;
    if (stride == upper->step[0].stride) {
        /* Row i of the upper one lies between rows i + shift and i + shift + 1 of the lower one, for every i.
         */
        size_t shift = (upper->start - lower->start) / stride,
               offset = (upper->start - lower->start) % stride;
        bool beside = shift < lower->step[0].count && offset < lower->width;
        bool before = shift + 1 < lower->step[0].count && stride - offset < upper->width;
        return beside || before;
    }
    const struct spread *few = a->step[0].count <= b->step[0].count ? a : b, *many = few == a ? b : a;
    for (size_t i = 0; i < few->step[0].count; i++) {
        uintptr_t start = few->start + i * few->step[0].stride;
        if (range_meets(many, start, start + few->width))
            return true;
    }
    return false;
}

static size_t shortest_step(const struct spread *a)
{
    size_t least = 0;
    for (size_t k = 1; k < a->num_steps; k++)
        if (a->step[k].count < a->step[least].count)
            least = k;
    return least;
}

/* Removes the shortest step, and returns the first position and the number of those whose range meets b. */
static size_t open_step(struct spread *a, const struct spread *b, size_t *count, size_t *stride)
{
    size_t k = shortest_step(a), first = 0;
    *count = a->step[k].count;
    *stride = a->step[k].stride;
    drop_step(a, k);
    uintptr_t end = end_of(a), b_end = end_of(b);
    if (end <= b->start)
        first = (b->start - end) / *stride + 1;
    size_t most = b_end <= a->start ? 0 : (b_end - 1 - a->start) / *stride + 1;
    if (*count > most)
        *count = most;
    return first;
}

static bool joined_overlap(const struct spread *a, const struct spread *b)
{
    if (a->start >= end_of(b) || b->start >= end_of(a))
        return false;
    if (a->num_steps <= 1 && b->num_steps <= 1)
        return rows_meet(a, b);
    if (a->num_steps < b->num_steps)
        return joined_overlap(b, a);
    struct spread part = *a;
    size_t count, stride, first = open_step(&part, b, &count, &stride);
    for (size_t i = first; i < count; i++) {
        struct spread at = part;
        at.start += i * stride;
        if (joined_overlap(&at, b))
            return true;
    }
    return false;
}

static bool has_bytes(const struct spread *a)
{
    for (size_t k = 0; k < a->num_steps; k++)
        if (a->step[k].count == 0)
            return false;
    return a->width > 0;
}

bool spread_overlap(struct spread a, struct spread b)
{
    if (!has_bytes(&a) || !has_bytes(&b))
        return false;
    join(&a);
    join(&b);
    return joined_overlap(&a, &b);
}
