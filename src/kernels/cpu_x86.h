/* Bits of cpu_features on x86.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_CPU_X86_H
#define KERNELS_CPU_X86_H

enum {
    X86_FMA = 1 << 0,
    X86_AVX2 = 1 << 1,
    X86_AVX512F = 1 << 2,
    X86_AVX512DQ = 1 << 3,
    X86_AVX512BW = 1 << 4,
    X86_AVX512VL = 1 << 5,
    X86_AVX512VNNI = 1 << 6,
    X86_AVX512BF16 = 1 << 7,
    X86_AVX512VBMI2 = 1 << 8,
    X86_AMX_TILE = 1 << 9,
    X86_AMX_INT8 = 1 << 10,
    X86_AMX_BF16 = 1 << 11,
    X86_AVX512 = X86_FMA | X86_AVX2 | X86_AVX512F | X86_AVX512DQ | X86_AVX512BW | X86_AVX512VL
};

#endif
