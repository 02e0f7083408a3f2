/* Levels of the quantiles that a model predicts of each number.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_QUANTILES_H
#define BASE_QUANTILES_H

#include <stdbool.h>
#include <stddef.h>

enum { MOST_QUANTILES = 16 };

struct quantiles {
    size_t count;                  /* 0: the mean is predicted */
    double levels[MOST_QUANTILES]; /* (count) ascending, from above 0 to below 1 */
};

/* The index of the level nearest to 0.5, the lower one of two: the forecast whose errors count. 0 without
   levels. */
size_t quantiles_middle(const struct quantiles *quantiles);
bool quantiles_equal(const struct quantiles *a, const struct quantiles *b);

#endif
