/* The choice between the two.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/utility.h"

#include "parts/targets/estimated_shares.h"
#include "parts/targets/exact_shares.h"

size_t utility_size(const struct problem_shape *shape, const struct utility *utility)
{
    return utility->num_features == 0 ? exact_shares_size(shape, utility)
                                      : estimated_shares_size(shape, utility);
}

void utility_targets(const struct problem *problem, const struct utility *utility, void *scratch)
{
    if (utility->num_features == 0)
        exact_shares(problem, utility, scratch);
    else
        estimated_shares(problem, utility, scratch);
}
