/* The numbers of a call: the one place that looks for NaN, for infinity, and for numbers too large for
   float32, and that reports them with their position. The largest number of a unit (one head of one sequence)
   is bounded by its REACH,
       max(|query|, |key|)^power |value| |dout| rows,     |x| = the root of 1 + the sum of squares of x,
   with the power of the mechanism's row (struct number_range) and, in forward, |dout| = 1. Mechanisms that
   are `bounded` are refused from REACH_LIMIT on; the others compute in double what float32 cannot hold, and
   `large` tells them that this may be needed. Cost: one pass over the arrays. Forward checks a unit just
   before it runs: the pass brings its rows from memory, and the mechanism finds them in the caches (a pass
   over the whole call first: forward of lha takes 1.1 of the time with 12 heads of 4,096, Zen 5).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_ROW_RANGE_H
#define ATTENTION_ROW_RANGE_H

#include "attention/driver/attention_call.h"

#define REACH_LIMIT 0x1p120

struct row_range {
    bool allowed; /* no query, and no kept key or value, is NaN or infinite, nor the reach too large */
    bool large;   /* query, key or value has a sum of squares of DOUBLE_SQUARES or more */
};

/* One unit of forward. pool: of the unit; NULL: none. */
struct row_range row_range_unit(const struct attention_call *call, size_t sequence, size_t head,
                                struct pool *pool);

/* All units, before anything is computed; sets call->large. Arrays without data are left out; so are query,
   key and value in a backward (dout not NULL) whose mechanism is not bounded, because forward checked them.
   first_row: number of the call's first row in a stream; NULL: no stream. */
hashattn_status row_range_check(struct host *host, struct attention_call *call, const struct packed *dout,
                                const size_t *first_row);

/* The same before the mechanism's own loss, which reads queries and keys in float32: their reach, with the
   power 1 at least, is limited for every mechanism. */
hashattn_status row_range_check_loss(struct host *host, const struct attention_call *call);

/* The failure of a forward that found a number out of range: INVALID with the position of the first NaN or
   infinity, or REFUSED with the reach that was found and the limit. */
hashattn_status row_range_fail(struct host *host, const struct attention_call *call);

#endif
