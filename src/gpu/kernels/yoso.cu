/* The kernels of YOSO on a GPU, by name and width: what is compiled into the images of the library
   (tools/gpu_images.py) and into the fake driver of the tests. D is the width of rows in device memory, that of the
   caller rounded up to 32, 64 or 128. kernel_names.h has the same list.
   SPDX-License-Identifier: Apache-2.0 */
#include "codes.cuh"
#include "order.cuh"
#include "pairs.cuh"
#include "rows.cuh"
#include "tables.cuh"
#include "weighed_pairs.cuh"

#define YOSO_BUILD(D, C, G)                                                                                            \
    GPU_KERNEL(BUILD_WARPS * 32, 1)                                                                                    \
    yoso_build_##C##_##G##_##D(float *table, gpu_array x, const unsigned char *codes, const uint32_t *most,         \
                               const uint32_t *fullest, const gpu_unit *units, int side, uint32_t longest, int m,      \
                               int tau)                                                                                \
    {                                                                                                                  \
        GPU_SHARED(shared);                                                                                            \
        build_tables<D, C, G>(table, x, codes, most, fullest, units, side, longest, m, tau, shared);               \
    }

#define YOSO_WIDTH(D)                                                                                                  \
    GPU_KERNEL(ROW_WARPS * 32, 1)                                                                                      \
    yoso_take_##D(gpu_array to, unsigned long long *found, gpu_rows rows, const gpu_unit *units, const uint32_t *kept,    \
                  int side, unsigned finding, uint32_t longest)                                                        \
    {                                                                                                                  \
        take_rows<D>(to, found, rows, units, kept, side, finding, longest);                                            \
    }                                                                                                                  \
    GPU_KERNEL(ROW_WARPS * 32, 1)                                                                                      \
    yoso_give_##D(gpu_rows rows, const float *from, unsigned long long *found, const gpu_unit *units,                  \
                  const uint32_t *kept, int side, uint32_t longest)                                                    \
    {                                                                                                                  \
        give_rows<D>(rows, from, found, units, kept, side, longest);                                                   \
    }                                                                                                                  \
    GPU_KERNEL(ROW_WARPS * 32, 1)                                                                                      \
    yoso_give_output_##D(gpu_rows out, unsigned char *saved, const float *x, const float *sums,                      \
                         unsigned long long *found, const gpu_unit *units, uint32_t longest, int normalize)            \
    {                                                                                                                  \
        give_output<D>(out, saved, x, sums, found, units, longest, normalize);                                         \
    }                                                                                                                  \
    GPU_KERNEL(ROW_WARPS * 32, 1)                                                                                      \
    yoso_take_gradient_##D(float *dx, float *bias, gpu_rows out, gpu_rows dout, const unsigned char *saved,            \
                           unsigned long long *found, const gpu_unit *units, uint32_t longest, int normalize)          \
    {                                                                                                                  \
        take_gradient<D>(dx, bias, out, dout, saved, found, units, longest, normalize);                                \
    }                                                                                                                  \
    GPU_KERNEL(ROW_WARPS * 32, 1)                                                                                      \
    yoso_give_unit_gradient_##D(gpu_rows rows, const float *g, gpu_array x, const unsigned char *codes, float weight, \
                                unsigned long long *found, const gpu_unit *units, const uint32_t *kept, int side,      \
                                uint32_t longest)                                                                      \
    {                                                                                                                  \
        give_unit_gradient<D>(rows, g, x, codes, weight, found, units, kept, side, longest);                         \
    }                                                                                                                  \
    GPU_KERNEL(32, 1)                                                                                                  \
    yoso_pack_planes_##D(uint32_t *packed, const float *planes, const uint32_t *permutation, const float *sign,        \
                         const gpu_unit *units, int width, int m, int tau)                                             \
    {                                                                                                                  \
        pack_planes<D>(packed, planes, permutation, sign, units, width, m, tau);                                       \
    }                                                                                                                  \
    GPU_KERNEL(HASH_WARPS * 32, 1)                                                                                     \
    yoso_hash_##D(unsigned char *codes, gpu_array x, const uint32_t *packed, const gpu_unit *units, int side,       \
                  uint32_t longest, int m, int tau, int tiles_at_once)                                                 \
    {                                                                                                                  \
        GPU_SHARED(shared);                                                                                            \
        hash_rows<D>(codes, x, packed, units, side, longest, m, tau, tiles_at_once, shared);                           \
    }                                                                                                                  \
    GPU_KERNEL(256, 1) yoso_largest_##D(uint32_t *most, gpu_array x, const gpu_unit *units, int side, uint32_t longest) \
    {                                                                                                                  \
        largest_number<D>(most, x, units, side, longest);                                                              \
    }                                                                                                                  \
    GPU_KERNEL(READ_WARPS * 32, 4)                                                                                     \
    yoso_read_##D(float *out, float *sums, const float *table, const uint32_t *counts, const unsigned char *codes,     \
                  const gpu_unit *units, int side, uint32_t longest, int m, int tau)                                   \
    {                                                                                                                  \
        GPU_SHARED(shared);                                                                                            \
        read_tables<D>(out, sums, table, counts, codes, units, side, longest, m, tau, shared);                     \
    }                                                                                                                  \
    GPU_KERNEL(WALK_WARPS * 32, 1)                                                                                     \
    yoso_walk_##D(float *out, float *sums, gpu_array x, gpu_order from_order, gpu_order to_order,                   \
                  const gpu_unit *units, const uint32_t *kept, int from, uint32_t longest, int ld, int tau,            \
                  int hashes, int hash, float share)                                                                   \
    {                                                                                                                  \
        walk_buckets<D>(out, sums, x, from_order, to_order, units, kept, from, longest, ld, tau, hashes, hash, share); \
    }                                                                                                                  \
    GPU_KERNEL(PAIR_WARPS * 32, 1) yoso_pairs_tf32_##D(gpu_pairs pairs, const gpu_unit *units)                         \
    {                                                                                                                  \
        pair_gradient<D, false>(pairs, units);                                                                         \
    }                                                                                                                  \
    GPU_KERNEL(PAIR_WARPS * 32, 1) yoso_pairs_f32_##D(gpu_pairs pairs, const gpu_unit *units)                          \
    {                                                                                                                  \
        pair_gradient<D, true>(pairs, units);                                                                          \
    }                                                                                                                  \
    GPU_KERNEL(DENSE_WARPS * 32, 1) yoso_dense_##D(gpu_pairs pairs, const gpu_unit *units)                             \
    {                                                                                                                  \
        GPU_SHARED(shared);                                                                                            \
        dense_gradient<D>(pairs, units, shared);                                                                       \
    }                                                                                                                  \
    GPU_KERNEL(WEIGH_WARPS * 32, 1) yoso_weigh_##D(gpu_pairs pairs, const gpu_unit *units)                             \
    {                                                                                                                  \
        weigh_pairs<D>(pairs, units);                                                                                  \
    }                                                                                                                  \
    YOSO_BUILD(D, 32, 3)                                                                                               \
    YOSO_BUILD(D, 32, 1)                                                                                               \
    YOSO_BUILD(D, 16, 1)                                                                                               \
    YOSO_BUILD(D, 8, 1)                                                                                                \
    YOSO_BUILD(D, 4, 1)

YOSO_WIDTH(32)
YOSO_WIDTH(64)
YOSO_WIDTH(128)
