/* The choice of the next token from scores, logarithms of probabilities up to a constant. Scores are divided
   by the temperature; of these probabilities the top_k largest stay, and of those, rescaled, the fewest that
   add up to top_p. Among equal scores the smaller index comes first. A token is drawn from what stays.
   Temperature 0 takes the first. Sums are double. Cost: one exponential per score; with top_k or top_p also a
   heap, n + k log n comparisons.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_CHOOSE_H
#define TRAIN_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

struct choice_rules {
    double temperature; /* >= 0 */
    size_t top_k;       /* 0: all */
    double top_p;       /* > 0, <= 1 */
};

struct candidate {
    double probability; /* of those that stay */
    uint32_t index;     /* of the score */
};

/* Lists what stays, in candidates (n); returns their number, at least 1. With top_k or top_p the likeliest
   comes first. The largest of the n >= 1 scores is finite, and none is NaN. */
size_t choose_from(const struct choice_rules *rules, const float *scores, size_t n,
                   struct candidate *candidates);
/* Draws one of them; (key, step) determines the number. Returns its index. */
uint32_t choose_one(const struct candidate *candidates, size_t count, uint64_t key, uint64_t step);

#endif
