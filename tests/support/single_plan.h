/* A plan with one mechanism for all heads, for tests. The options stay the caller's; the plan needs no
   head_plan_free.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_SINGLE_PLAN_H
#define TESTS_SUPPORT_SINGLE_PLAN_H

#include "models/head_plan.h"

struct head_plan single_plan(const struct mechanism *mechanism, void *options);

#endif
