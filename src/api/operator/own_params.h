/* A mechanism's own learned parameters, for the operator: a handle holds those of its heads, drawn from a
   seed or read from a file.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OWN_PARAMS_H
#define API_OWN_PARAMS_H

#include "api/handles.h"

void own_params_drop(hashattn_attention *attention);

/* INVALID: parameters that were set or read do not fit this problem. Draws nothing. */
hashattn_status own_params_check(const hashattn_attention *attention, const hashattn_problem *problem);

/* Provides the parameters for this problem: those in the handle if they fit; otherwise drawn from the
   problem's seed. INVALID: parameters read from a file do not fit. */
hashattn_status own_params_for(hashattn_attention *attention, const hashattn_problem *problem);

#endif
