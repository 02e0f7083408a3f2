/* Key masks for mechanisms that do not see them: they receive only the kept keys, so a masked key equals an
   absent key to the bit. Kept keys at the front (padding at the end) need no copy. Otherwise their rows are
   gathered, and gradient rows are gathered before and written back after, which gives the bits of adding in
   place. bfloat16 rows are always copied: widened, and rounded to nearest when written back. Cost: a pass
   over the mask, and one over the rows that are copied.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_KEPT_H
#define ATTENTION_KEPT_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "parts/rows/view.h"

struct kept {
    size_t count; /* number of keys that take part */
    bool prefix;  /* they are the first `count` ones */
};

/* mask (n), 1 = the key takes part; NULL = all. */
struct kept kept_count(const uint8_t *mask, size_t n);

/* visible[i], i < n: number of kept keys among the first i + 1, which query i of a causal problem sees. */
void kept_visible(const uint8_t *mask, size_t n, size_t *visible);

/* Copies the kept rows of `rows`, in order, to adjacent rows of `block`, and returns their view. mask: as
   above. */
struct view kept_gather(const struct kernels *kernels, struct view rows, const uint8_t *mask,
                        struct kept kept, float *block);
/* The inverse of kept_gather: writes the gathered rows over their originals. */
void kept_put_back(const struct kernels *kernels, struct view gathered, const uint8_t *mask,
                   struct view rows);

#endif
