/* See the header.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/targets/utility.h"

#include "parts/targets/estimated_shares.h"
#include "parts/targets/exact_shares.h"

size_t utility_size(const struct utility *utility)
{
    return utility->num_features == 0 ? exact_shares_size(utility) : estimated_shares_size(utility);
}

void utility_targets(const struct utility *utility, void *scratch)
{
    if (utility->num_features == 0)
        exact_shares(utility, scratch);
    else
        estimated_shares(utility, scratch);
}
