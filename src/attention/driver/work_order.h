/* In which order the units of work of a call run, and which of them have all threads to themselves. A unit is
   one head of one sequence. No bits depend on either. SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_WORK_ORDER_H
#define ATTENTION_WORK_ORDER_H

#include "attention/driver/attention.h"

/* How many units are spread over the threads, one after another: the first of the order. */
size_t work_order_spread(const struct attention_call *call);

/* order (num_sequences): the sequences, dearest first, equal ones as they come. */
void work_order_sort(const struct attention_call *call, size_t *order);

#endif
