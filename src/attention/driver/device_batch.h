/* Calls on a device: a whole batch in one call of the mechanism's device implementation, on arrays in the
   memory of the device. Nothing waits for the device, and nothing reads or writes the arrays here.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_DEVICE_BATCH_H
#define ATTENTION_DEVICE_BATCH_H

#include "attention/driver/attention_call.h"
#include "parts/problem/device_call.h"

/* What the implementation needs of a shape that has a device. */
struct device_batch attention_device_batch(const struct attention_shape *shape);

/* Bytes of host memory, see struct device_blocks. */
size_t attention_device_staging(const struct attention_shape *shape);

/* The mechanisms that a device computes, as "yoso". */
void attention_device_names(char *list, size_t size);

/* saved, scratch: addresses in the memory of the device, with the bytes that the plan says. staging: of the
   host, plan->staging_bytes that were zeros before the first call with this plan. tag: see struct
   device_call. */
struct device_blocks {
    void *saved, *scratch, *staging;
    uint64_t tag, tag_words[2];
};

/* The call has been checked. Errors: those of the device's driver. */
hashattn_status attention_device_forward(struct host *host, const struct attention_call *call,
                                         const struct device_blocks *blocks, struct packed out);
/* WRITES the gradients. */
hashattn_status attention_device_backward(struct host *host, const struct attention_call *call,
                                          const struct device_blocks *blocks, struct packed out,
                                          struct packed dout, struct packed dquery, struct packed dkey,
                                          struct packed dvalue);

#endif
