/* Choosing rows by score. Cost beyond an exponential for each candidate: a few passes for the constant of the
   probabilities, each two additions a candidate.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_choice.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

static void take(const struct kv_candidates *candidates, struct kv_choice *choice, size_t j, float weight)
{
    choice->row[choice->count] = candidates->first + (uint32_t)j;
    choice->weight[choice->count++] = weight;
}

/* Appends the candidates with x > bound, with weight 1; x becomes `then` there. */
static size_t take_above(const struct kv_candidates *candidates, float *x, float bound, float then,
                         struct kv_choice *choice)
{
    size_t count = candidates->kernels->rows.count_above(x, candidates->count, bound);
    uint32_t *row = choice->row + choice->count;
    candidates->kernels->rows.list_above(row, x, candidates->count, bound);
    for (size_t i = 0; i < count; i++) {
        x[row[i]] = then;
        choice->weight[choice->count + i] = 1;
        row[i] += candidates->first;
    }
    choice->count += count;
    return count;
}

/* Fills `parts` with the sums of min(x, bound); returns their sum. */
static double sum_parts(const struct kv_candidates *candidates, const float *x, float bound)
{
    double sum = 0;
    size_t parts = candidates->count / DECODE_PART;
    candidates->kernels->decode.part_sums(candidates->parts, x, parts, bound);
    for (size_t i = 0; i < parts; i++)
        sum += candidates->parts[i];
    return sum;
}

/* Systematic sampling with probabilities factor * x, all at most 1. */
static void take_systematically(const struct kv_candidates *candidates, const float *x, double factor,
                                struct kv_choice *choice)
{
    double sum = candidates->start, next = 1;
    sum_parts(candidates, x, INFINITY);
    for (size_t i = 0; i < candidates->count / DECODE_PART; i++) {
        double running = sum;
        sum += factor * candidates->parts[i];
        for (size_t j = 0; j < DECODE_PART && sum >= next; j++) {
            float each = x[i * DECODE_PART + j];
            running += factor * each;
            if (running < next || each <= 0)
                continue;
            take(candidates, choice, i * DECODE_PART + j, (float)(1 / fmin(1, factor * each)));
            next++;
        }
    }
}

/* The bound b with sum min(1, x / b) = wanted, by Newton's method from above: the sum is convex in b. */
static float bound_of(const struct kv_candidates *candidates, const float *x, size_t wanted)
{
    enum { MOST_STEPS = 30 };
    float bound = (float)(sum_parts(candidates, x, INFINITY) / (double)wanted);
    for (int step = 0; step < MOST_STEPS; step++) {
        size_t above = candidates->kernels->rows.count_above(x, candidates->count, bound);
        double rest = sum_parts(candidates, x, bound) - (double)above * bound;
        if (above == 0 || above >= wanted || rest <= 0)
            break;
        float lower = (float)(rest / (double)(wanted - above));
        if (!(lower < bound))
            break;
        bound = lower;
    }
    return bound;
}

void kv_choose_sample(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    const struct kernels *kernels = candidates->kernels;
    size_t count = candidates->count;
    float *x = candidates->room, most, shift;
    if (wanted == 0 || count == 0)
        return;
    kernels->softmax.largest(&most, candidates->score, count, 1, count);
    if (most == -INFINITY)
        return;
    shift = most * candidates->exponent;
    kernels->softmax.exp(x, count, candidates->score, count, 1, count, candidates->exponent, &shift, 0);
    float bound = bound_of(candidates, x, wanted);
    size_t certain = take_above(candidates, x, bound, 0, choice);
    double rest = sum_parts(candidates, x, INFINITY);
    if (certain < wanted && rest > 0)
        take_systematically(candidates, x, fmin((double)(wanted - certain) / rest, 1 / (double)bound),
                            choice);
}

/* A bound that at most `wanted` scores are above, by bisection. */
static float bound_of_top(const struct kv_candidates *candidates, size_t wanted)
{
    const struct kernels *kernels = candidates->kernels;
    size_t count = candidates->count;
    float high, low = -INFINITY;
    kernels->softmax.largest(&high, candidates->score, count, 1, count);
    for (size_t j = 0; j < count; j++)
        low = candidates->score[j] > -INFINITY && (low == -INFINITY || candidates->score[j] < low)
                  ? candidates->score[j]
                  : low;
    if (low == -INFINITY)
        return INFINITY;
    low = nextafterf(low, -INFINITY);
    if (kernels->rows.count_above(candidates->score, count, low) <= wanted)
        return low;
    for (;;) {
        float middle = low + (high - low) / 2;
        if (!(middle > low && middle < high))
            return high;
        if (kernels->rows.count_above(candidates->score, count, middle) <= wanted)
            high = middle;
        else
            low = middle;
    }
}

void kv_choose_top(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    if (candidates->count > 0)
        take_above(candidates, candidates->score, bound_of_top(candidates, wanted), -INFINITY, choice);
}

/* A uniform sample of the candidates that are left. */
static void take_uniformly(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    float *x = candidates->room;
    size_t left = 0;
    for (size_t j = 0; j < candidates->count; j++) {
        x[j] = candidates->score[j] > -INFINITY;
        left += x[j] > 0;
    }
    if (left > 0)
        take_systematically(candidates, x, fmin(1, (double)wanted / (double)left), choice);
}

void kv_choose_top_uniform(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    kv_choose_top(candidates, wanted / 2, choice);
    take_uniformly(candidates, wanted - wanted / 2, choice);
}

void kv_choose_positive(const struct kv_candidates *candidates, size_t wanted, struct kv_choice *choice)
{
    for (size_t j = 0; j < candidates->count; j++)
        if (candidates->score[j] <= 0)
            candidates->score[j] = -INFINITY;
    take_uniformly(candidates, wanted, choice);
}
