/* Attention over a batch of packed sequences, cut into units of work (sequence, head) that a mechanism
   computes one at a time on the pool, most expensive first. The API turns padded batches and equal lengths
   into offsets. Nothing here allocates: the plan (plan.h) has the sizes, and the caller passes the blocks. A
   sequence gets the same bits on its own, packed among others, and padded with a mask.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "attention/driver/attention_call.h"
#include "attention/driver/plan.h"
#include "parts/inspect/inspected.h"

/* INVALID, with the numbers: rows of another width than the plan's, or no parameters. */
hashattn_status attention_check(struct host *host, const struct attention_call *call);

/* REFUSED if the mechanism has no backward pass. For callers of attention_backward, before they compute. */
hashattn_status attention_check_backward(struct host *host, const struct mechanism *mechanism);

/* Writes out (query rows, heads, value_dim). The call has been checked. */
void attention_forward(const struct attention_call *call, struct packed out);

/* The mechanism has a backward pass. Adds into dquery, dkey, dvalue and dparams (num_heads, ...; NULL: not
   wanted, or no parameters); gradients of params are summed in the order of the sequences. */
void attention_backward(const struct attention_call *call, struct packed out, struct packed dout,
                        struct packed dquery, struct packed dkey, struct packed dvalue, float *dparams);

/* After forward, if the mechanism has `inspection`. inspections: (num_sequences, num_heads), each with its
   arrays (inspection_take); all 0 for a sequence without a kept key. */
void attention_inspect(const struct attention_call *call, struct inspection *inspections);

/* The mechanism's own loss, summed over units in order; its gradient is added into dparams (NULL: value
   only). 0 if it has none. */
double attention_auxiliary(const struct attention_call *call, float *dparams);

#endif
