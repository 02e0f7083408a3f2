/* Sorts by a heap only as far as needed.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/choose.h"

#include <math.h>
#include <stdbool.h>

#include "base/random.h"

static bool is_before(struct candidate a, struct candidate b)
{
    return a.probability > b.probability || (a.probability == b.probability && a.index < b.index);
}

/* Moves heap[at] down to its place among the n of the heap; the first one comes before all. */
static void sift(struct candidate *heap, size_t at, size_t n)
{
    struct candidate moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before(heap[child + 1], heap[child]))
            child++;
        if (!is_before(heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static double sum_of(const struct candidate *candidates, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += candidates[i].probability;
    return sum;
}

/* Sorts the likeliest to the front, until `most` are there or, without such a number, their sum is enough. */
static size_t sort_front(struct candidate *candidates, size_t n, size_t most, double enough)
{
    size_t left = n;
    double sum = 0;
    for (size_t at = n / 2; at-- > 0;)
        sift(candidates, at, n);
    /* The first of the heap goes to the end. */
    while (left > 0 && n - left < most && (left == n || sum < enough)) {
        struct candidate first = candidates[0];
        candidates[0] = candidates[--left];
        candidates[left] = first;
        sift(candidates, 0, left);
        sum += first.probability;
    }
    size_t count = n - left;
    for (size_t i = 0; i < n / 2; i++) {
        struct candidate swapped = candidates[i];
        candidates[i] = candidates[n - 1 - i];
        candidates[n - 1 - i] = swapped;
    }
    return count;
}

static size_t likeliest(const float *scores, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

size_t choose_from(const struct choice_rules *rules, const float *scores, size_t n,
                   struct candidate *candidates)
{
    size_t best = likeliest(scores, n), count = n;
    bool limited = rules->top_k > 0 && rules->top_k < n;
    if (rules->temperature == 0) {
        candidates[0] = (struct candidate){1, (uint32_t)best};
        return 1;
    }
    for (size_t i = 0; i < n; i++)
        candidates[i] = (struct candidate){
            exp(((double)scores[i] - (double)scores[best]) / rules->temperature), (uint32_t)i};
    if (limited)
        count = sort_front(candidates, n, rules->top_k, INFINITY);
    if (rules->top_p < 1)
        count = sort_front(candidates, count, count, rules->top_p * sum_of(candidates, count));
    double sum = sum_of(candidates, count);
    for (size_t i = 0; i < count; i++)
        candidates[i].probability /= sum;
    return count;
}

uint32_t choose_one(const struct candidate *candidates, size_t count, uint64_t key, uint64_t step)
{
    uint32_t words[4];
    random_words(key, step, words);
    double unit = ldexp((double)words[0], -32) + ldexp((double)(words[1] >> 11), -53), sum = 0;
    size_t i = 0;
    while (i + 1 < count && (sum += candidates[i].probability) <= unit)
        i++;
    return candidates[i].index;
}
