/* Key masks for mechanisms that do not see them: only the kept keys are given, so a masked key is an absent
   key to the bit. Kept keys that are the first ones (padding at the end) need no copy; else their rows are
   gathered, and gradient rows are gathered before and put back after, which leaves exactly the bits that
   adding in place would. Rows of bfloat16 are widened on this way, so they always move, and rounded to
   nearest on the way back. Cost: one pass over the mask, and one over the rows that move.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_KEPT_H
#define ATTENTION_KEPT_H

#include "attention/driver/attention.h"

struct kept {
    size_t count; /* keys that take part */
    bool prefix;  /* they are the first `count` ones */
};

/* mask (n), 1 = the key takes part; NULL = all. */
struct kept kept_count(const uint8_t *mask, size_t n);

/* visible[i], i < n: how many of the kept keys are among the first i + 1: what query i of a causal problem
 * sees. */
void kept_visible(const uint8_t *mask, size_t n, size_t *visible);

/* The kept rows of `rows` in order, adjacent in `block`, which has room for all of them; the view of them.
   mask: as above. */
struct view kept_gather(const struct kernels *kernels, struct view rows, const uint8_t *mask,
                        struct kept kept, float *block);
/* The way back: the rows that kept_gather made are written over those that they came from. */
void kept_put_back(const struct kernels *kernels, struct view gathered, const uint8_t *mask,
                   struct view rows);

#endif
