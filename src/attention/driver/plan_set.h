/* The plans of a batch: one for each shape that differs, so layers with the same group of heads share one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_PLAN_SET_H
#define ATTENTION_PLAN_SET_H

#include "attention/driver/plan.h"

struct plan_set {
    struct attention_plan *plans; /* (room), of which `count` are made */
    size_t count, room;
    unsigned char *arrays; /* (room, array_bytes) of the plans */
    size_t array_bytes;
};

/* Bytes of the memory of a set of up to `room` plans for this many sequences. */
size_t plan_set_bytes(size_t room, size_t num_sequences);
/* An empty set. block: plan_set_bytes. */
struct plan_set plan_set_on(void *block, size_t room, size_t num_sequences);
/* The plan of an unmasked shape, made if the set has none. Errors: as attention_plan_make. */
hashattn_status plan_set_get(struct host *host, struct plan_set *set, const struct attention_shape *shape,
                             const struct attention_plan **plan);

#endif
