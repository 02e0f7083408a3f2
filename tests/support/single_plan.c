/* One list with one group, of all heads.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/single_plan.h"

#include <stdio.h>

struct head_plan single_plan(const struct mechanism *mechanism, void *options)
{
    struct head_plan plan = {.num_used = 1, .num_lists = 1};
    snprintf(plan.text, sizeof plan.text, "%s", mechanism->name);
    plan.used[0] = (struct planned){mechanism, options};
    plan.lists[0].num_groups = 1;
    return plan;
}
