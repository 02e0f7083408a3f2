/* Whether two strided arrays share a byte. Arrays may interleave, as the columns of Q, K and V in one matrix
   do, so bounding ranges are not enough.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_OVERLAP_H
#define PARTS_OVERLAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPREAD_STEPS = 3 };

/* The bytes start + sum(i[k] * stride[k]) + [0, width) for all i[k] < count[k]. */
struct spread {
    uintptr_t start;
    size_t width, num_steps;
    struct {
        size_t count, stride;
    } step[SPREAD_STEPS];
};

/* Exact. No byte if width or a count is 0. */
bool spread_overlap(struct spread a, struct spread b);

#endif
