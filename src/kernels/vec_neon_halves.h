/* The vector words of vec_neon.h for 16-bit and 8-bit numbers, two or four per lane.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_NEON_HALVES_H
#define KERNELS_VEC_NEON_HALVES_H

#include "kernels/vec_neon.h"

static inline size_t u_same16(const uint16_t *a, const uint16_t *b, size_t n)
{
    size_t count = 0;
    if (n < 2 * VLEN) {
        for (size_t i = 0; i < n; i++)
            count += a[i] == b[i];
        return count;
    }
    uint16x8_t first = vceqq_u16(vld1q_u16(a), vld1q_u16(b)),
               second = vceqq_u16(vld1q_u16(a + VLEN), vld1q_u16(b + VLEN));
    return vaddvq_u16(vshrq_n_u16(first, 15)) + vaddvq_u16(vshrq_n_u16(second, 15));
}

WORD(vu, u_widened, (uint16x8_t a), (vu){vmovl_u16(vget_low_u16(a)), vmovl_high_u16(a)})

static inline vm u_short_below(const uint16_t *p, unsigned bound)
{
    vu wide = u_widened(vld1q_u16(p)), end = u_set(bound);
    return (vm){vcltq_u32(wide.lo, end.lo), vcltq_u32(wide.hi, end.hi)};
}

static inline vu u_get_shorts(const uint16_t *p, size_t n)
{
    return u_from(v_load_part((const float *)(const void *)p, n / 2, v_zero()));
}

static inline void u_put_twos(uint16_t *p, vu a, size_t n)
{
    v_store_part((float *)(void *)p, v_from(a), n);
}

static inline void u_put_halves(uint16_t *p, vu a, size_t n)
{
    uint16_t part[2 * VLEN];
    uint16_t *to = n < 2 * VLEN ? part : p;
    vst1q_u16(to, vreinterpretq_u16_u32(a.lo));
    vst1q_u16(to + VLEN, vreinterpretq_u16_u32(a.hi));
    for (size_t i = 0; n < 2 * VLEN && i < n; i++)
        p[i] = part[i];
}

static inline vu u_widen_shorts(const uint16_t *p, size_t n)
{
    uint16_t part[VLEN] = {0};
    if (n < VLEN) {
        for (size_t i = 0; i < n; i++)
            part[i] = p[i];
        p = part;
    }
    return u_widened(vld1q_u16(p));
}

WORD(uint16x8_t, u_narrowed, (vu a), vmovn_high_u32(vmovn_u32(a.lo), a.hi))

static inline void u_put_shorts(uint16_t *p, vu a, size_t n)
{
    uint16_t part[VLEN];
    vst1q_u16(n < VLEN ? part : p, u_narrowed(a));
    for (size_t i = 0; n < VLEN && i < n; i++)
        p[i] = part[i];
}

static inline void u_put_bytes(uint8_t *p, vu a)
{
    vst1_u8(p, vmovn_u16(u_narrowed(a)));
}

WORD(int16x8_t, low_halves, (vu a), vuzp1q_s16(vreinterpretq_s16_u32(a.lo), vreinterpretq_s16_u32(a.hi)))
WORD(int16x8_t, high_halves, (vu a), vuzp2q_s16(vreinterpretq_s16_u32(a.lo), vreinterpretq_s16_u32(a.hi)))

/* Four widening multiply-adds. An operand of several calls is split into its low and high halves once. */
static inline vu u_dot_halves(vu sum, vu a, vu b)
{
    int16x8_t a_low = low_halves(a), a_high = high_halves(a), b_low = low_halves(b), b_high = high_halves(b);
    int32x4_t lo = vreinterpretq_s32_u32(sum.lo), hi = vreinterpretq_s32_u32(sum.hi);
    lo = vmlal_s16(lo, vget_low_s16(a_low), vget_low_s16(b_low));
    hi = vmlal_high_s16(hi, a_low, b_low);
    lo = vmlal_s16(lo, vget_low_s16(a_high), vget_low_s16(b_high));
    hi = vmlal_high_s16(hi, a_high, b_high);
    return (vu){vreinterpretq_u32_s32(lo), vreinterpretq_u32_s32(hi)};
}

/* The even or the odd bytes of 16-bit halves, as unsigned or signed halves. */
WORD(vu, u_even_bytes, (vu a), u_and(a, u_set(0x00ff00ff)))
WORD(uint32x4_t, odd_bytes, (uint32x4_t a), vreinterpretq_u32_u16(vshrq_n_u16(vreinterpretq_u16_u32(a), 8)))
WORD(uint32x4_t, odd_signed, (uint32x4_t a), vreinterpretq_u32_s16(vshrq_n_s16(vreinterpretq_s16_u32(a), 8)))

static inline uint32x4_t even_signed(uint32x4_t a)
{
    return odd_signed(vreinterpretq_u32_u16(vshlq_n_u16(vreinterpretq_u16_u32(a), 8)));
}

static inline vu u_dot_bytes(vu sum, vu a, vu b)
{
    vu odd = {odd_bytes(a.lo), odd_bytes(a.hi)}, right = {even_signed(b.lo), even_signed(b.hi)};
    sum = u_dot_halves(sum, u_even_bytes(a), right);
    return u_dot_halves(sum, odd, (vu){odd_signed(b.lo), odd_signed(b.hi)});
}

/* The halves of a, then those of b. */
static inline vu u_pack_halves(vu a, vu b)
{
    int16x8_t first = vqmovn_high_s32(vqmovn_s32(vreinterpretq_s32_u32(a.lo)), vreinterpretq_s32_u32(a.hi));
    int16x8_t second = vqmovn_high_s32(vqmovn_s32(vreinterpretq_s32_u32(b.lo)), vreinterpretq_s32_u32(b.hi));
    return (vu){vreinterpretq_u32_s16(first), vreinterpretq_u32_s16(second)};
}

static inline vu u_zipped(uint32x4_t a, uint32x4_t b)
{
    uint16x8_t left = vreinterpretq_u16_u32(a), right = vreinterpretq_u16_u32(b);
    return (vu){vreinterpretq_u32_u16(vzip1q_u16(left, right)),
                vreinterpretq_u32_u16(vzip2q_u16(left, right))};
}

WORD(vu, u_low_halves, (vu a, vu b), u_zipped(a.lo, b.lo))
WORD(vu, u_high_halves, (vu a, vu b), u_zipped(a.hi, b.hi))

#define EACH_HALF(op, a, b) vreinterpretq_u32_s16(op(vreinterpretq_s16_u32(a), vreinterpretq_s16_u32(b)))
WORD(uint32x4_t, four_upper_bytes, (uint32x4_t a),
     vreinterpretq_u32_u16(vshrq_n_u16(vreinterpretq_u16_u32(a), 8)))
WORD(vu, u_upper_bytes, (vu a), (vu){four_upper_bytes(a.lo), four_upper_bytes(a.hi)})
WORD(vu, u_add_halves, (vu a, vu b), (vu){EACH_HALF(vaddq_s16, a.lo, b.lo), EACH_HALF(vaddq_s16, a.hi, b.hi)})
WORD(vu, u_sub_halves, (vu a, vu b), (vu){EACH_HALF(vsubq_s16, a.lo, b.lo), EACH_HALF(vsubq_s16, a.hi, b.hi)})

/* (2 a b + 2^15) >> 16, which saturates only if both are -2^15. */
static inline vu u_scale_halves(vu a, vu b)
{
    return (vu){EACH_HALF(vqrdmulhq_s16, a.lo, b.lo), EACH_HALF(vqrdmulhq_s16, a.hi, b.hi)};
}

#undef EACH_HALF

WORD(uint32x4_t, halves_positive, (uint32x4_t a), vreinterpretq_u32_u16(vcgtzq_s16(vreinterpretq_s16_u32(a))))

static inline vu u_code_halves(vu codes, vu a, uint16_t bit)
{
    vu positive = {halves_positive(a.lo), halves_positive(a.hi)};
    return u_or(codes, u_and(positive, u_set((uint32_t)bit << 16 | bit)));
}

#endif
