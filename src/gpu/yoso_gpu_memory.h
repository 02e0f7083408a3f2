/* Memory of a call of yoso on a GPU. Units (a head of a sequence) are computed in waves of equal size: the
   scratch has room for one wave, each unit as large as the longest sequence. Codes, their rows' lengths and
   what the normalisation keeps are saved for every unit, or with recompute only the last. Bytes of a unit of
   a wave, with n rows, D the width in device memory and m hashes: 24 D n for rows and gradients (18 D n for
   bfloat16), 4 m 2^tau D for tables, 96 n for orders of 8 hashes. A wave takes as many units as fit in
   WAVE_BYTES, and at least one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_YOSO_GPU_MEMORY_H
#define GPU_YOSO_GPU_MEMORY_H

#include "gpu/kernels/kernel_arguments.h"
#include "parts/hashing/yoso_options.h"
#include "parts/problem/device_call.h"

enum { ORDERED_HASHES = 8 }; /* sorted at a time */

/* Numbers that follow from the batch and the options. */
struct yoso_gpu_sizes {
    size_t units, wave;  /* all units; units of a wave */
    size_t longest, ld;  /* rows of the longest sequence on either side, at least 1; rounded up to 8 */
    unsigned width;      /* D */
    size_t hashes, bits; /* m, tau */
    size_t drawn;        /* hashes of the gradient */
    bool some;           /* drawn < hashes: each unit has a list of them */
    size_t ordered;      /* min(ORDERED_HASHES, hashes) */
    size_t turns;        /* permutations: heads if all sequences hash alike, else units */
};

/* Byte offsets. What is uploaded comes first, in `scratch` and in `staging` alike. */
struct yoso_gpu_layout {
    struct yoso_gpu_sizes sizes;
    size_t units, permutation, sign, planes, kept, drawn; /* uploaded */
    size_t uploaded_bytes;
    size_t packed, most, fullest, counts, table; /* of a wave; most and fullest are adjacent */
    size_t query, key, value;                    /* (wave, longest, D) of the caller's type */
    size_t dx, dquery, dkey;                     /* (wave, longest, D) floats */
    size_t bias;                /* (wave, longest): collisions in forward, bias in backward */
    size_t order[GPU_SIDES][3]; /* rows, codes, starts */
    size_t codes;               /* with recompute: the block of codes of a wave */
    size_t scratch_bytes;
    size_t saved_bytes;
    size_t staging_bytes;
};

struct yoso_gpu_layout yoso_gpu_lay_out(const struct device_batch *batch);
/* Bytes that the codes of a unit take, with their rows' lengths. */
size_t yoso_gpu_codes_bytes(const struct yoso_gpu_sizes *sizes, size_t num_queries, size_t num_keys);

/* Fills the staging for a call: units, turns, planes, kept keys and drawn hashes. It was zeros before the
   first call with this layout, and is kept from one to the next. */
void yoso_gpu_fill(const struct device_call *call, const struct yoso_gpu_layout *layout, bool backward);

#endif
