/* Reads the features of x86: CPUID reports the instructions, XGETBV the registers that the operating system
   saves. Bits: Intel, Software Developer's Manual, volume 2, CPUID leaves 1 and 7, and volume 1, chapter 13.3
   (XCR0).
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu_x86.h"

#include <stdbool.h>
#include <stddef.h>

#include <cpuid.h>

#include "kernels/cpu.h"

#if defined(__AVX__)
#error "cpu_x86.c decides what may run, so it must run everywhere: build it for the baseline"
#endif

enum {
    LEAF1_ECX_OSXSAVE = 1 << 27, /* XGETBV is available */
    XCR0_YMM = 0x06,             /* SSE and AVX state */
    XCR0_ZMM = 0xe0 | XCR0_YMM,  /* plus masks, upper halves and the upper 16 registers */
    XCR0_TILES = 3 << 17         /* shapes and contents of tiles */
};

enum word { LEAF1_ECX, LEAF7_EBX, LEAF7_ECX, LEAF7_EDX, LEAF7_1_EAX, WORDS };

static const struct {
    uint32_t feature;
    enum word word;
    int bit;
    uint32_t saved; /* bits of XCR0 */
} rows[] = {
    {X86_FMA, LEAF1_ECX, 12, XCR0_YMM},        {X86_AVX2, LEAF7_EBX, 5, XCR0_YMM},
    {X86_AVX512F, LEAF7_EBX, 16, XCR0_ZMM},    {X86_AVX512DQ, LEAF7_EBX, 17, XCR0_ZMM},
    {X86_AVX512BW, LEAF7_EBX, 30, XCR0_ZMM},   {X86_AVX512VL, LEAF7_EBX, 31, XCR0_ZMM},
    {X86_AVX512VNNI, LEAF7_ECX, 11, XCR0_ZMM}, {X86_AVX512BF16, LEAF7_1_EAX, 5, XCR0_ZMM},
    {X86_AVX512VBMI2, LEAF7_ECX, 6, XCR0_ZMM}, {X86_AMX_TILE, LEAF7_EDX, 24, XCR0_TILES},
    {X86_AMX_INT8, LEAF7_EDX, 25, XCR0_TILES}, {X86_AMX_BF16, LEAF7_EDX, 22, XCR0_TILES},
};

static uint32_t xcr0(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

uint64_t cpu_features(void)
{
    uint32_t words[WORDS] = {0}, eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &words[LEAF1_ECX], &edx) || !(words[LEAF1_ECX] & LEAF1_ECX_OSXSAVE))
        return 0;
    if (__get_cpuid_count(7, 0, &eax, &words[LEAF7_EBX], &words[LEAF7_ECX], &words[LEAF7_EDX]) && eax >= 1)
        __get_cpuid_count(7, 1, &words[LEAF7_1_EAX], &ebx, &ecx, &edx);
    uint32_t saved = xcr0();
    uint64_t features = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((words[rows[i].word] >> rows[i].bit & 1) && (saved & rows[i].saved) == rows[i].saved)
            features |= rows[i].feature;
    return features;
}
