/* Bisection over ordered floats: of all scores, or of the candidates that a sample leaves.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/topk.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    SAMPLE = 128,
    LEAST_SAMPLED = 8 * SAMPLE, /* scores; below this, bisection over all scores costs no more */
    CANDIDATES = 1024
};

/* An integer that orders floats, from -inf to inf; and its inverse. Zeros of different sign differ by one,
   which no comparison of floats sees. */
static int64_t order_of(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) - 1 : bits;
}

static float float_of(int64_t order)
{
    uint32_t bits = order < 0 ? (uint32_t)(-(order + 1)) | 0x80000000u : (uint32_t)order;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Takes the scores above the bound, and the first `more` of the rest: those equal to it or, for a bound of
   -inf, all others. Branchless: which k of n are taken is unpredictable. */
static void take(const float *scores, size_t n, float bound, size_t more, size_t k, uint32_t *out)
{
    bool any = bound == -INFINITY;
    size_t count = 0;
    for (size_t i = 0; i < n && count < k; i++) {
        bool above = scores[i] > bound, level = (above == 0) & (any | (scores[i] == bound)) & (more > 0);
        out[count] = (uint32_t)i;
        count += above | level;
        more -= level;
    }
}

/* Bounds, as integers of order_of: at least `wanted` scores are above `low`, fewer above `high`. */
struct bracket {
    int64_t low, high;
    size_t above_low, above_high;
};

/* Bisects until at most `most` >= wanted scores are above the low end, or the ends are neighbours: then
   scores equal to `high` are tied. */
static void narrow(const struct kernels *kernels, const float *scores, size_t n, size_t wanted, size_t most,
                   struct bracket *b)
{
    while (b->above_low > most && b->high - b->low > 1) {
        int64_t middle = b->low + (b->high - b->low) / 2;
        size_t count = kernels->rows.count_above(scores, n, float_of(middle));
        if (count >= wanted) {
            b->low = middle;
            b->above_low = count;
        } else {
            b->high = middle;
            b->above_high = count;
        }
    }
}

/* Selects the k largest scores; at least k are above the low end, which is a number or -inf. */
static void choose(const struct kernels *kernels, const float *scores, size_t n, size_t k, struct bracket b,
                   uint32_t *out)
{
    narrow(kernels, scores, n, k, k, &b);
    if (b.above_low == k)
        kernels->rows.list_above(out, scores, n, float_of(b.low));
    else
        take(scores, n, float_of(b.high), k - b.above_high, k, out);
}

static struct bracket all_of(size_t numbers)
{
    return (struct bracket){order_of(-INFINITY), order_of(INFINITY), numbers, 0};
}

/* Finds, from a sample of equidistant scores, a bound that about 2 k + n / 32 scores exceed; returns how
   many do. */
static size_t guess(const struct kernels *kernels, const float *scores, size_t n, size_t k, float *bound)
{
    float sample[SAMPLE];
    size_t step = n / SAMPLE, wanted = 2 * k / step + SAMPLE / 32;
    for (size_t i = 0; i < SAMPLE; i++)
        sample[i] = scores[i * step];
    struct bracket b = all_of(kernels->rows.count_above(sample, SAMPLE, -INFINITY));
    if (b.above_low < wanted)
        return 0;
    narrow(kernels, sample, SAMPLE, wanted, wanted + wanted / 2, &b);
    *bound = float_of(b.low);
    return kernels->rows.count_above(scores, n, *bound);
}

void topk_select(const struct kernels *kernels, const float *scores, size_t n, size_t k, uint32_t *out)
{
    if (k == 0)
        return;
    if (n >= LEAST_SAMPLED && k <= n / 16 && k <= CANDIDATES / 4) {
        uint32_t index[CANDIDATES];
        float among[CANDIDATES], bound;
        size_t count = guess(kernels, scores, n, k, &bound);
        if (count >= k && count <= CANDIDATES) {
            kernels->rows.list_above(index, scores, n, bound);
            for (size_t c = 0; c < count; c++)
                among[c] = scores[index[c]];
            choose(kernels, among, count, k, (struct bracket){order_of(bound), order_of(INFINITY), count, 0},
                   out);
            for (size_t c = 0; c < k; c++)
                out[c] = index[out[c]];
            return;
        }
    }
    size_t numbers = kernels->rows.count_above(scores, n, -INFINITY);
    if (numbers <= k)
        take(scores, n, -INFINITY, k - numbers, k, out);
    else
        choose(kernels, scores, n, k, all_of(numbers), out);
}
