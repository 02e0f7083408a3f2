/* The learned parameters that a mechanism has of its own, for the operator: a handle holds those of its
   heads, drawn from a seed or read from a file. SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OWN_PARAMS_H
#define API_OWN_PARAMS_H

#include "api/handles.h"

void own_params_drop(hashattn_attention *attention);

/* The parameters for this problem: those that the handle holds; drawn from the problem's seed where it holds
   none, or ones drawn for another problem. INVALID where what was read from a file is for other heads. */
hashattn_status own_params_for(hashattn_attention *attention, const hashattn_problem *problem);

#endif
