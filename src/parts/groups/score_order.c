/* Three passes of a radix sort, 11 bits each.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/score_order.h"

#include <string.h>

uint32_t score_order(float score)
{
    uint32_t bits;
    score += 0.0f;
    memcpy(&bits, &score, sizeof bits);
    return bits ^ (bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
}

static size_t digit_of(struct ordered entry, size_t pass)
{
    return entry.order >> (pass * ORDER_DIGIT_BITS) & (ORDER_DIGITS - 1);
}

const struct ordered *order_sort(struct ordered *entries, struct ordered *other, uint32_t *counts, size_t n)
{
    struct ordered *from = entries, *to = other;
    memset(counts, 0, ORDER_COUNTS * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        for (size_t pass = 0; pass < ORDER_PASSES; pass++)
            counts[pass * ORDER_DIGITS + digit_of(from[i], pass)]++;
    for (size_t pass = 0; pass < ORDER_PASSES; pass++) {
        uint32_t *next = counts + pass * ORDER_DIGITS, sum = 0;
        for (size_t digit = 0; digit < ORDER_DIGITS; digit++) {
            uint32_t count = next[digit];
            next[digit] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            to[next[digit_of(from[i], pass)]++] = from[i];
        struct ordered *swap = from;
        from = to;
        to = swap;
    }
    return from;
}
