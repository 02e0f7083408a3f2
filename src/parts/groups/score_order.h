/* Sorts numbered scores: a stable radix sort of 32-bit keys. Cost: three passes over n entries, and their
   counts.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_SCORE_ORDER_H
#define PARTS_SCORE_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* `order` sorts as the score does. */
struct ordered {
    uint32_t order, index;
};

/* An integer in the order of floats; -0 is 0, and a NaN is at one of the ends, by its sign. */
uint32_t score_order(float score);

enum { ORDER_DIGIT_BITS = 11, ORDER_DIGITS = 1 << ORDER_DIGIT_BITS, ORDER_PASSES = 3 };
enum { ORDER_COUNTS = ORDER_PASSES * ORDER_DIGITS };

/* Returns the entries in rising order, in `entries` or in `other` (n each); equal ones stay in the order they
   had. counts (ORDER_COUNTS): work space. */
const struct ordered *order_sort(struct ordered *entries, struct ordered *other, uint32_t *counts, size_t n);

#endif
