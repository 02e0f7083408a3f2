/* Which level is in the middle, and whether two lists of levels are the same.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/quantiles.h"

#include <math.h>

size_t quantiles_middle(const struct quantiles *quantiles)
{
    size_t middle = 0;
    for (size_t q = 1; q < quantiles->count; q++)
        if (fabs(quantiles->levels[q] - 0.5) < fabs(quantiles->levels[middle] - 0.5))
            middle = q;
    return middle;
}

bool quantiles_equal(const struct quantiles *a, const struct quantiles *b)
{
    bool equal = a->count == b->count;
    for (size_t q = 0; equal && q < a->count; q++)
        equal = a->levels[q] == b->levels[q];
    return equal;
}
