/* One problem of yoso, computed on the processor or on a device through the public operator, for the tests
   in tests/gpu. The device is that of the libcuda.so.1 that is found: the emulator (tests/gpu/emulator), or
   a GPU.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_GPU_CASE_H
#define SUPPORT_GPU_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "hashattn/hashattn.h"

enum gpu_inputs {
    GPU_INPUTS_NORMAL,
    GPU_INPUTS_CLUSTERED, /* rows share half of their square: full buckets */
    GPU_INPUTS_EQUAL,     /* all queries are equal, and all keys: one bucket of each */
    GPU_INPUTS_EDGES      /* rows of 0, of 1e-20 and of 1e18 among normal ones */
};
enum gpu_mask { GPU_MASK_NONE, GPU_MASK_SOME, GPU_MASK_ALL_OF_FIRST };

struct gpu_case {
    const char *name;
    size_t sequences, heads, queries, keys, dim, value_dim;
    const size_t *query_offsets, *key_offsets; /* NULL: equal lengths */
    bool padded;                               /* with offsets */
    bool causal, half;                         /* half: bfloat16 */
    bool apart;                                /* sequences have ids of their own */
    enum gpu_mask mask;
    enum gpu_inputs inputs;
    const char *options; /* "num_hashes=16 hash_bits=6 ..." */
};

enum { GPU_OUT, GPU_DQUERY, GPU_DKEY, GPU_DVALUE, GPU_RESULTS };

struct gpu_result {
    float *rows[GPU_RESULTS]; /* all rows of an array, in its layout; to be freed by gpu_result_free */
    size_t count[GPU_RESULTS];
};

/* device: NULL for the processor, with projection int16-dp. Fails the test if a call fails. */
struct gpu_result gpu_case_run(const struct gpu_case *of, const char *device, uint64_t seed, bool backward);
void gpu_result_free(struct gpu_result *result);

/* The largest difference, relative to the largest number of `want`. */
double gpu_error(const float *got, const float *want, size_t count);

/* The context of a device, with the message printed if it fails. */
hashattn_context *gpu_context(const char *device);
hashattn_attention *gpu_attention(hashattn_context *context, const char *options);

#endif
