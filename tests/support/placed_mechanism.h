/* A small mechanism whose learned tensors follow the longest length, and start in every way but normal:
     out_i = gain * sum over the keys j that query i sees of (place_j + level) (v_j + offset)
   place (max_len, 1) uniform, level (1, 1) a constant, offset (1, d_v) zeros, gain (1, d_v) ones. Queries and
   keys are not looked at. Refuses sequences that are longer than max_len, and by an option those of one
   length. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PLACED_MECHANISM_H
#define TESTS_SUPPORT_PLACED_MECHANISM_H

#include "attention/mechanism.h"

struct placed_options {
    int64_t refused_len; /* tokens; 0: none */
};

extern const struct mechanism placed_mechanism;
/* The same with tensors that nothing is computed with: 16 in all, as many as there may be, and 17. */
extern const struct mechanism full_mechanism, crowded_mechanism;

#endif
