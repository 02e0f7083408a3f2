/* Bisection over ordered floats. SPDX-License-Identifier: Apache-2.0 */
#include "parts/topk.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A whole number that grows as the float does, from -inf to inf; and back. Zeros of both signs differ by one,
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

/* What is above the bound, and the first `more` of the others: those equal to it, or, for a bound of -inf,
   those that are no more than it. Without branches: k of n are taken at no time that could be foretold. */
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

void topk_select(const struct kernels *kernels, const float *scores, size_t n, size_t k, uint32_t *out)
{
    if (k == 0)
        return;
    size_t finite = kernels->count_above(scores, n, -INFINITY);
    if (finite <= k) {
        take(scores, n, -INFINITY, k - finite, k, out);
        return;
    }
    /* More than k lie above `low`, fewer than k above `high`. */
    int64_t low = order_of(-INFINITY), high = order_of(INFINITY);
    size_t above = 0;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        size_t count = kernels->count_above(scores, n, float_of(middle));
        if (count == k) {
            kernels->list_above(out, scores, n, float_of(middle));
            return;
        }
        if (count > k) {
            low = middle;
        } else {
            high = middle;
            above = count;
        }
    }
    take(scores, n, float_of(high), k - above, k, out);
}
