/* A GPU: opened by name, its memory, its stream, and kernels started on it. driver.c is the only file that
   knows the driver's library, which it loads when a device is opened or counted; nothing links
   it. Every call returns before the GPU has done the work, except device_read and device_wait.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host.h"
#include "gpu/kernels/kernel_names.h"

struct device;

/* name: "cuda" (the first device) or "cuda:N". Uses the primary context of the device, the one of the CUDA
   runtime and of PyTorch, and the default stream. INVALID: no such name or number. FAILED: no driver, one
   that is too old, or no GPU. REFUSED: the GPU is older than the kernels, or the library was built without
   them. NO_MEMORY. */
hashattn_status device_open(struct host *host, const char *name, struct device **device);
void device_free(struct host *host, struct device *device); /* NULL is allowed */

/* FAILED: no driver, or one that is too old. *count may be 0. */
hashattn_status device_count(struct host *host, int *count);
struct device_facts {
    char name[96];
    int major, minor; /* compute capability */
    uint64_t memory_bytes;
};
hashattn_status device_describe(struct host *host, int index, struct device_facts *facts);

/* Later calls go to this stream (CUstream; NULL: the default one). INVALID: it belongs to another device. */
hashattn_status device_set_stream(struct host *host, struct device *device, void *stream);
/* Waits for all that was started on the stream. INVALID: kernels found NaN or infinity, or a block `saved` of
   another call; REFUSED: a result is beyond float32. FAILED: a kernel failed, and the device can do no more
   in this process. */
hashattn_status device_wait(struct host *host, struct device *device);

/* Bytes of shared memory that a block may have. */
size_t device_shared_bytes(const struct device *device);
/* Address of the word that kernels report to (struct gpu_finding in kernels/kernel_arguments.h). */
uint64_t device_found(const struct device *device);

/* bytes > 0, aligned to 256 bytes. `what` names the block in the message. */
hashattn_status device_memory_new(struct host *host, struct device *device, size_t bytes, const char *what,
                                  uint64_t *address);
void device_memory_free(struct host *host, struct device *device, uint64_t address); /* 0 is allowed */

/* In the order of the stream. `from` may change when the call returns. */
hashattn_status device_write(struct host *host, struct device *device, uint64_t to, const void *from,
                             size_t bytes);
hashattn_status device_clear(struct host *host, struct device *device, uint64_t to, size_t bytes);
/* Waits until `to` is written. */
hashattn_status device_read(struct host *host, struct device *device, void *to, uint64_t from, size_t bytes);

struct gpu_launch {
    enum gpu_kernel kernel;
    unsigned width;   /* 32, 64 or 128; any for kernels of any width */
    unsigned grid[3]; /* each at least 1 */
    unsigned threads;
    size_t shared_bytes;
};
/* arguments: pointers to the kernel's arguments, in order. */
hashattn_status device_launch(struct host *host, struct device *device, const struct gpu_launch *launch,
                              void **arguments);

/* Turns the times of kernels on, from zero, or off. While they are on, a launch waits for the work before it
   and for the kernel, so that calls take longer than without. */
void device_profile(struct device *device, bool on);
/* The name of a kernel, without its width, and the seconds that it has taken. */
const char *device_profile_get(const struct device *device, enum gpu_kernel kernel, double *seconds);

#endif
