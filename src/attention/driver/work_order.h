/* The order in which a plan's units of work run, and which of them use all threads. A unit is one head of
   one sequence. The bits do not depend on either.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_WORK_ORDER_H
#define ATTENTION_WORK_ORDER_H

#include "attention/driver/attention_shape.h"

/* Number of units, from the front of the order, that use all threads one after another. */
size_t work_order_spread(const struct attention_shape *shape);

/* Writes order (num_sequences): the sequences, most expensive first; ties keep their order. */
void work_order_sort(const struct attention_shape *shape, size_t *order);

#endif
