/* Choosing rows by importance. Cost of a sample: a pass for the sum, two or three times three passes for the
   bound of certain rows, and the sample's own; each reads 4 bytes a candidate, in vector code.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_choice.h"

#include <math.h>
#include <string.h>

/* Bounds below are not told from 0: their factor would overflow. */
static const float least_bound = 0x1p-90f;

/* ---- a sample ------------------------------------------------------------------------------------------ */

/* Steps of Newton's method from `bound` down to the root b of sum min(1, x / b) = wanted, for the numbers
   `above` an edge and the sum of those below it. The result is the root if it is not below the edge, and
   otherwise still above it. above (count) has room for a multiple of DECODE_BLOCK. */
static double lower_bound(const struct kernels *kernels, float *above, size_t count, double below,
                          size_t wanted, double bound)
{
    size_t padded = (count + DECODE_BLOCK - 1) / DECODE_BLOCK * DECODE_BLOCK;
    memset(above + count, 0, (padded - count) * sizeof *above);
    for (;;) {
        size_t certain = kernels->rows.count_above(above, count, (float)bound);
        double rest = below + kernels->decode.sum_below(above, padded, (float)bound);
        double lower = certain < wanted ? rest / (double)(wanted - certain) : bound;
        if (!((float)lower < (float)bound) || (float)lower < least_bound)
            return bound;
        bound = lower;
    }
}

/* The b with sum min(1, x / b) = wanted. Only numbers above an eighth of the present bound are looked at
   again; there are at most 8 wanted of them. Uses the room of the choice. */
static float bound_of(const struct kv_candidates *candidates, double sum, size_t wanted,
                      const struct kv_choice *choice)
{
    const struct kernels *kernels = candidates->kernels;
    const float *x = candidates->importance;
    uint32_t *row = choice->row + choice->count;
    float *above = choice->weight + choice->count;
    double bound = sum / (double)wanted, edge;
    do {
        edge = bound / 8;
        size_t count = kernels->rows.count_above(x, candidates->count, (float)edge);
        kernels->rows.list_above(row, x, candidates->count, (float)edge);
        for (size_t i = 0; i < count; i++)
            above[i] = x[row[i]];
        double below = kernels->decode.sum_below(x, candidates->count, (float)edge);
        bound = lower_bound(kernels, above, count, below, wanted, bound);
    } while (bound < edge && bound > (double)least_bound);
    return fmaxf((float)bound, least_bound);
}

/* Rows with probability min(1, x / bound). */
static void take_sample(const struct kv_candidates *candidates, float bound, struct kv_choice *choice)
{
    const float *x = candidates->importance, factor = (float)DECODE_MOST_CHANCE / bound;
    uint32_t *row = choice->row + choice->count;
    float *weight = choice->weight + choice->count;
    size_t count =
        candidates->kernels->decode.sample(row, x, candidates->count, bound, factor, candidates->start);
    for (size_t i = 0; i < count; i++) {
        float each = x[row[i]];
        weight[i] = each < bound ? (float)DECODE_CERTAIN / (float)decode_chance(each, factor) : 1;
        row[i] += candidates->first;
    }
    choice->count += count;
}

void kv_choose_sample(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    double sum = candidates->kernels->decode.sum_below(candidates->importance, candidates->count, INFINITY);
    if (wanted > 0 && sum > 0)
        take_sample(candidates, bound_of(candidates, sum, wanted, choice), choice);
}

/* ---- others -------------------------------------------------------------------------------------------- */

static float float_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The least number that at most `wanted` are above, by bisection: floats from 0 on are ordered as their
   bits. */
static float bound_of_top(const struct kv_candidates *candidates, size_t wanted)
{
    const struct kernels *kernels = candidates->kernels;
    uint32_t low = 0, high = 0x7f800000; /* infinity */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (kernels->rows.count_above(candidates->importance, candidates->count, float_of(middle)) <= wanted)
            high = middle;
        else
            low = middle + 1;
    }
    return float_of(high);
}

void kv_choose_top(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    const struct kernels *kernels = candidates->kernels;
    float *x = candidates->importance, bound = bound_of_top(candidates, wanted);
    uint32_t *row = choice->row + choice->count;
    size_t count = kernels->rows.count_above(x, candidates->count, bound);
    kernels->rows.list_above(row, x, candidates->count, bound);
    for (size_t i = 0; i < count; i++) {
        x[row[i]] = 0;
        choice->weight[choice->count + i] = 1;
        row[i] += candidates->first;
    }
    choice->count += count;
}

void kv_choose_uniform(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    float *x = candidates->importance;
    size_t left = 0;
    for (size_t j = 0; j < candidates->count; j++) {
        left += x[j] > 0;
        x[j] = x[j] > 0;
    }
    if (left > 0 && wanted > 0)
        take_sample(candidates, fmaxf(1, (float)left / (float)wanted), choice);
}

void kv_choose_top_uniform(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    kv_choose_top(candidates, wanted / 2, choice);
    kv_choose_uniform(candidates, wanted - wanted / 2, choice);
}
