/* A call on a device: a whole batch at once, all heads and sequences, where the host's implementation gets
   one head of one sequence. Arrays are addresses in the memory of the device; offsets, masks and keys are
   the host's. A device implementation starts work on the device's stream and does not wait for it; what the
   device finds wrong, such as NaN, is told by whoever waits.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_DEVICE_CALL_H
#define PARTS_DEVICE_CALL_H

#include "base/host.h"
#include "parts/problem/problem.h"

struct device; /* gpu/driver.h */

/* What sizes depend on. */
struct device_batch {
    struct device *device;
    const void *options; /* the mechanism's own option struct, filled */
    size_t num_sequences, num_heads, head_dim, value_dim;
    const size_t *query_offsets, *key_offsets; /* (num_sequences + 1) rising, first 0 */
    enum dtype dtype;
    bool causal, masked;
    bool alike; /* all sequences have the same random keys */
};

/* Row r of head h of sequence s begins at data + r * row_stride + h * head_stride elements, r counted over
   all sequences; if `padded`, at data + s * sequence_stride + r * row_stride + h * head_stride, r counted
   within the sequence. */
struct device_rows {
    uint64_t data;
    size_t width, row_stride, head_stride, sequence_stride;
    bool padded;
};

/* Bytes of the three blocks. `staging` is memory of the host: what a call writes to the device at once. */
struct device_sizes {
    size_t saved, scratch, staging;
};

struct device_call {
    const struct device_batch *batch;
    const struct kernels *kernels; /* of the host: for planes, which are drawn there */
    struct device_rows query, key, value, out;
    struct device_rows dout, dquery, dkey, dvalue; /* of backward */
    const uint8_t *key_mask;                       /* (key rows), 1 = the key takes part; NULL = all */
    uint64_t call_key;                             /* determines the planes */
    const uint64_t *unit_keys;                     /* (num_sequences, num_heads), or (num_heads) if alike */
    uint64_t saved, scratch;
    void *staging; /* zeros before the first call with a batch, and kept from one to the next */
    /* 16 bytes at `tag`, 0 if nothing is saved: forward writes the words there, and backward reports to
       whoever waits if others are found. */
    uint64_t tag, tag_words[2];
};

struct device_implementation {
    /* NULL if the options and the shape of one sequence can be handled, else a constant sentence, as `refuse`
       of struct implementation. The host's `refuse` is asked too. */
    const char *(*refuse)(const void *options, const struct problem_shape *shape);
    struct device_sizes (*sizes)(const struct device_batch *batch);
    /* Both write their outputs: backward does not add. */
    hashattn_status (*forward)(struct host *host, const struct device_call *call);
    hashattn_status (*backward)(struct host *host, const struct device_call *call);
};

#endif
