/* Asks CPUID for the instructions and XGETBV for the registers that the operating system saves. Bits: Intel,
   Software Developer's Manual, volume 2, CPUID leaves 1 and 7, and volume 1, chapter 13.3 (XCR0).
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include <stdint.h>

#include <cpuid.h>

enum {
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_OSXSAVE = 1 << 27, /* XGETBV may be asked */
    LEAF1_ECX_AVX = 1 << 28,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_EBX_AVX512F = 1 << 16,
    LEAF7_EBX_AVX512DQ = 1 << 17,
    LEAF7_EBX_AVX512BW = 1 << 30,
    LEAF7_ECX_AVX512VNNI = 1 << 11,
    LEAF7_1_EAX_AVX512BF16 = 1 << 5,
    XCR0_YMM = 0x06,       /* SSE and AVX state */
    XCR0_ZMM = 0xe0 | 0x06 /* and the masks, the upper halves, the upper sixteen registers */
};
#define LEAF7_EBX_AVX512VL (1u << 31)

static bool has_all(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

static uint32_t xcr0(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

enum isa isa_widest(void)
{
    uint32_t eax, ebx, ecx, edx, features;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) ||
        !has_all(ecx, LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX | LEAF1_ECX_FMA))
        return ISA_REF;
    if (!__get_cpuid_count(7, 0, &eax, &features, &ecx, &edx))
        return ISA_REF;
    uint32_t saved = xcr0();
    if (!has_all(saved, XCR0_YMM) || !has_all(features, LEAF7_EBX_AVX2))
        return ISA_REF;
    if (!has_all(saved, XCR0_ZMM) ||
        !has_all(features, LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512DQ | LEAF7_EBX_AVX512BW | LEAF7_EBX_AVX512VL))
        return ISA_AVX2;
    if (!has_all(ecx, LEAF7_ECX_AVX512VNNI) || !__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) ||
        !has_all(eax, LEAF7_1_EAX_AVX512BF16))
        return ISA_AVX512;
    return ISA_AVX512BF16;
}
