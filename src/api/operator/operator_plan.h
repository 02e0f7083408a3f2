/* The plan of an operator's calls (attention/driver/plan.h). It is made for the first problem and cached: a
   problem with the same shapes as the last one costs a comparison of its offsets.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPERATOR_PLAN_H
#define API_OPERATOR_PLAN_H

#include "api/handles.h"

/* *plan: of this checked problem, valid until the next one or until an option is set. INVALID, REFUSED:
   as attention_plan_make. NO_MEMORY: also for the plan itself. */
hashattn_status operator_plan(hashattn_attention *attention, const hashattn_problem *p,
                              const struct attention_plan **plan);
/* Forgets the plan, after an option has changed. */
void operator_plan_forget(hashattn_attention *attention);
/* Frees its memory. */
void operator_plan_free(hashattn_attention *attention);

#endif
