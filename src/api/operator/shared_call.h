/* The agreement of ranks before a call on sequences that they share (total_rows). Collective.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_SHARED_CALL_H
#define API_SHARED_CALL_H

#include "api/handles.h"

/* `status`: of this rank's checks; if one rank fails, all fail before any waits. INVALID, with both values: a
   rank calls another function, or with another mechanism, options, shape or seed; ranks would then wait for
   messages of other sizes, or compute different sequences. Without total_rows it returns `status`.
   `function`: what the ranks call, such as "forward"; it is compared, and in the message. */
hashattn_status shared_call_agree(const hashattn_attention *attention, const hashattn_problem *problem,
                                  const char *function, hashattn_status status);

#endif
