/* Attention on an NVIDIA GPU: its memory, its stream, and the devices of this machine. A context with the
   option `device` computes hashattn_attention_forward and _backward there (yoso; other mechanisms are
   REFUSED). On such a context
   - hashattn_array.data, saved and scratch are addresses in the memory of the device;
     hashattn_array.data is aligned to its elements (INVALID otherwise). offsets, key_mask and sample_ids
     stay memory of the host, and are read before a call returns. hashattn_attention_sizes gives bytes of
     the device. A NULL block is allocated there for the call, which then waits for the device.
   - calls start work on the context's stream, in order, and return. What the device finds wrong is told by
     hashattn_context_wait: NaN and infinity in the inputs, a block `saved` of another call, results beyond
     float32.
   - head_dim is 16 to 128, value_dim up to 128, num_hashes up to 256, hash_bits up to 12, planes orthogonal
     or gaussian, map l2, max_partners 0. Codes are those of the projection int16-dp of the processor,
     bit for bit. Outputs and gradients have the same bits in every run, whatever else is in the batch or
     on the device. They differ from the processor's by rounding (docs/guide/10-on-a-gpu.md).
   - streams, models and training compute on the processor, and their arrays are the host's.
   No CUDA is linked: the driver's library is loaded when a device is asked for.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_DEVICE_H
#define HASHATTN_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "hashattn/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hashattn_device_info {
    size_t struct_size;
    char name[96];         /* as the driver says it */
    int major, minor;      /* compute capability */
    uint64_t memory_bytes; /* of the device */
} hashattn_device_info;

/* Writes the number of devices, 0 or more. FAILED: no driver, or one that is too old; message: (message_size)
   chars that then say so, or NULL. */
HASHATTN_API hashattn_status hashattn_device_count(char *message, size_t message_size, size_t *count);
/* Fills *info, whose struct_size must be set, and returns 1; returns 0 past the last device, or if there is
   no driver. */
HASHATTN_API int hashattn_device_get(size_t index, hashattn_device_info *info);

/* The stream of later calls: a CUstream or cudaStream_t, or NULL, the default stream, with which a context
   starts. It must live until the context is freed or has another one. INVALID: the stream belongs to another
   device, or the context has none. */
HASHATTN_API hashattn_status hashattn_context_set_stream(hashattn_context *context, void *stream);
/* Waits until everything that was started on the context's stream is done; without a device returns OK at
   once. INVALID or REFUSED: the device found one of the errors above since the last wait; the message has the
   array, the sequence, the head and the row of the first. The outputs of the calls since then are undefined.
   FAILED: a kernel failed; the device can then do nothing more in this process. */
HASHATTN_API hashattn_status hashattn_context_wait(hashattn_context *context);

/* Memory of the context's device, aligned to 256 bytes, for programs that have no allocator of their own.
   NO_MEMORY. INVALID: the context has no device, or bytes is 0. */
HASHATTN_API hashattn_status hashattn_device_allocate(hashattn_context *context, size_t bytes, void **block);
/* NULL is allowed. */
HASHATTN_API void hashattn_device_release(hashattn_context *context, void *block);
/* Copies to the device, in the order of the stream; `from` may change when the call returns. */
HASHATTN_API hashattn_status hashattn_device_write(hashattn_context *context, void *to, const void *from,
                                                   size_t bytes);
/* Copies from the device, after what was started before, and waits for it. */
HASHATTN_API hashattn_status hashattn_device_read(hashattn_context *context, void *to, const void *from,
                                                  size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
