/* The blocks of an operator's call on a device.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef API_DEVICE_BLOCKS_H
#define API_DEVICE_BLOCKS_H

#include "api/handles.h"
#include "attention/driver/device_batch.h"

/* Allocates on the device what the caller passed as NULL, and finds the staging and the words of the tag.
   *saved, *scratch: in, the caller's; out, addresses, `saved` behind its tag. device_blocks_close follows in
   any case. */
struct device_own {
    uint64_t saved, scratch; /* 0: the caller's */
};
hashattn_status device_blocks_open(hashattn_attention *attention, const struct attention_call *call,
                                   size_t saved_bytes, void *saved, void *scratch, struct device_own *own,
                                   struct device_blocks *blocks);
/* Frees what was allocated, after waiting for the device. Returns `status`, or what the device found. */
hashattn_status device_blocks_close(hashattn_attention *attention, const struct device_own *own,
                                    hashattn_status status);

#endif
