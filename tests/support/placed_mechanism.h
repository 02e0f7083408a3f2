/* A small mechanism whose learned tensors are sized by the longest length, with every kind of initial value
   except normal:
     out_i = gain * sum over the keys j that query i sees of (place_j + level) (v_j + offset)
   place (max_len, 1) uniform, level (1, 1) a constant, offset (1, d_v) zeros, gain (1, d_v) ones. Ignores
   queries and keys. Refuses sequences longer than max_len and, by an option, those of one length.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PLACED_MECHANISM_H
#define TESTS_SUPPORT_PLACED_MECHANISM_H

#include "attention/mechanism.h"

struct placed_options {
    int64_t refused_len; /* tokens; 0: none */
};

extern const struct mechanism placed_mechanism;
/* The same with unused tensors: 16 in all, the limit, and 17. */
extern const struct mechanism full_mechanism, crowded_mechanism;

#endif
