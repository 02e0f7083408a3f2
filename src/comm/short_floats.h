/* bfloat16, the upper 16 bits of a float: rounded to nearest, ties to even. Plain loops, which compilers turn
   into vectors; sums of messages are limited by memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef COMM_SHORT_FLOATS_H
#define COMM_SHORT_FLOATS_H

#include <stdint.h>
#include <string.h>

/* A value that is not a number stays one. */
static inline uint16_t short_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? quiet : nearest) >> 16);
}

static inline float float_of_short(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

#endif
