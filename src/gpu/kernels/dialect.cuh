/* The dialect that kernels are written in: CUDA C++, or the emulator of tests/gpu, and what differs between
   the two. Kernels include nothing else.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DIALECT_CUH
#define GPU_DIALECT_CUH

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define GPU_ON_DEVICE               1
#define GPU_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define GPU_FN                      static __device__ __forceinline__
#define GPU_METHOD                  __device__ __forceinline__
#define GPU_SHARED(name)            extern __shared__ __align__(128) unsigned char name[]
#ifdef __CUDACC_RTC__ /* has no headers of the system */
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#else
#include <cstdint>
#endif
#else
#include "emulator.hpp"
#define GPU_KERNEL(threads, blocks) extern "C" void
#define GPU_FN                      static inline
#define GPU_METHOD                  inline
#define GPU_SHARED(name)            unsigned char *name = cuemu::shared_memory()
#endif

constexpr uint32_t FULL = 0xffffffffu; /* all lanes */

enum { WARP = 32 };

GPU_FN uint32_t lane_id() { return threadIdx.x & 31; }
GPU_FN uint32_t warp_id() { return threadIdx.x >> 5; }

template <typename T> GPU_FN T *array_at(unsigned long long address) { return (T *)(uintptr_t)address; }

/* The sum over a warp, in a fixed order. */
GPU_FN float warp_sum(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2) x = __fadd_rn(x, __shfl_xor_sync(FULL, x, step));
    return x;
}

/* ---- tensor cores: D = A B + D for a warp ---------------------------------------------------------------
   Fragments as in the PTX manual. With g = lane / 4 and t = lane % 4:
   m16n8k32, bytes: word i of A has row g + 8 (i % 2), columns 16 (i / 2) + 4 t .. + 3; word i of B rows 16 i +
   4 t .. + 3 of column g; number i of D row g + 8 (i / 2), column 2 t + i % 2.
   m16n8k8, tf32: word i of A row g + 8 (i % 2), column t + 4 (i / 2); word i of B row t + 4 i of column g; D as
   above. */
#if GPU_ON_DEVICE
#define GPU_MMA_BYTES(name, a_type, b_type)                                                                  \
    GPU_FN void name(int32_t d[4], const uint32_t a[4], const uint32_t b[2])                                 \
    {                                                                                                        \
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." a_type "." b_type ".s32 "                      \
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                 \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                    \
    }
GPU_MMA_BYTES(mma_s8s8, "s8", "s8")
GPU_MMA_BYTES(mma_s8u8, "s8", "u8")
GPU_MMA_BYTES(mma_u8s8, "u8", "s8")
GPU_MMA_BYTES(mma_u8u8, "u8", "u8")

GPU_FN void mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

/* To the nearest tf32: tensor cores drop the low 13 bits. tf32_of drops them here. */
GPU_FN uint32_t to_tf32(float x) { return __float_as_uint(x) + 0x1000u; }
GPU_FN uint32_t tf32_of(float x) { return (__float_as_uint(x) + 0x1000u) & ~0x1fffu; }

#endif
