/* The vector words for AArch64: eight floats in two registers of Advanced SIMD (NEON). vec_avx512.h has the
   same words and their definitions.

   A word is a pair of registers because 32 registers of four floats are the 16 of eight floats that the
   bodies for AVX2 are cut for: the blocks, the lanes of the hashes and the order of every sum are those of
   vec_avx2.h, so no body needs another form. A pair also gives two independent chains to every operation.
   There are no masked loads: the lanes of a partial vector are loaded and stored one by one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_NEON_H
#define KERNELS_VEC_NEON_H

#if !defined(__aarch64__) || !defined(__ARM_NEON) || !defined(__AARCH64EL__)
#error "vec_neon.h needs a little-endian AArch64 with Advanced SIMD"
#endif

#include <stddef.h>
#include <stdint.h>

#include <arm_neon.h>

#include "kernels/vec_word.h"

enum {
    VLEN = 8,
    BLOCK_ROWS = 6, /* 24 registers of sums, 4 of loads and a broadcast: 29 of 32 */
    BLOCK_VECTORS = 2,
    AHEAD_ROWS = 0 /* not measured */
};

typedef struct {
    float32x4_t lo, hi; /* lanes 0 to 3, 4 to 7 */
} vf;

typedef struct {
    uint32x4_t lo, hi; /* VLEN 32-bit integers; as a mask, all ones in the lanes that are set */
} vu;

typedef vu vm;

static inline float32x4_t four_load(const float *p, size_t n, float32x4_t rest)
{
    if (n >= 4)
        return vld1q_f32(p);
    if (n >= 1)
        rest = vld1q_lane_f32(p, rest, 0);
    if (n >= 2)
        rest = vld1q_lane_f32(p + 1, rest, 1);
    if (n >= 3)
        rest = vld1q_lane_f32(p + 2, rest, 2);
    return rest;
}

static inline void four_store(float *p, float32x4_t a, size_t n)
{
    if (n >= 4) {
        vst1q_f32(p, a);
        return;
    }
    if (n >= 1)
        vst1q_lane_f32(p, a, 0);
    if (n >= 2)
        vst1q_lane_f32(p + 1, a, 1);
    if (n >= 3)
        vst1q_lane_f32(p + 2, a, 2);
}

WORD(vf, v_load, (const float *p), (vf){vld1q_f32(p), vld1q_f32(p + 4)})

static inline void v_store(float *p, vf a)
{
    vst1q_f32(p, a.lo);
    vst1q_f32(p + 4, a.hi);
}

static inline vf v_load_part(const float *p, size_t n, vf rest)
{
    if (n <= 4)
        return (vf){four_load(p, n, rest.lo), rest.hi};
    return (vf){vld1q_f32(p), four_load(p + 4, n - 4, rest.hi)};
}

static inline void v_store_part(float *p, vf a, size_t n)
{
    four_store(p, a.lo, n);
    if (n > 4)
        four_store(p + 4, a.hi, n - 4);
}

WORD(vu, u_set, (uint32_t a), (vu){vdupq_n_u32(a), vdupq_n_u32(a)})
WORD(vu, u_and, (vu a, vu b), (vu){vandq_u32(a.lo, b.lo), vandq_u32(a.hi, b.hi)})
WORD(vf, v_from, (vu a), (vf){vreinterpretq_f32_u32(a.lo), vreinterpretq_f32_u32(a.hi)})
WORD(vu, u_from, (vf a), (vu){vreinterpretq_u32_f32(a.lo), vreinterpretq_u32_f32(a.hi)})

/* All ones in the first n lanes. */
static inline vm v_first(size_t n)
{
    const uint32x4_t lanes = {0, 1, 2, 3}, end = vdupq_n_u32((uint32_t)n);
    return (vm){vcltq_u32(lanes, end), vcltq_u32(vaddq_u32(lanes, vdupq_n_u32(4)), end)};
}

WORD(vf, v_keep, (vf a, size_t n), v_from(u_and(u_from(a), v_first(n))))
WORD(vf, v_set, (float a), (vf){vdupq_n_f32(a), vdupq_n_f32(a)})
WORD(vf, v_zero, (void), v_set(0.0f))
WORD(vf, v_add, (vf a, vf b), (vf){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)})
WORD(vf, v_sub, (vf a, vf b), (vf){vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)})
WORD(vf, v_mul, (vf a, vf b), (vf){vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)})
WORD(vf, v_div, (vf a, vf b), (vf){vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)})
WORD(vf, v_fma, (vf a, vf b, vf c), (vf){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)})
WORD(vf, v_fnma, (vf a, vf b, vf c), (vf){vfmsq_f32(c.lo, a.lo, b.lo), vfmsq_f32(c.hi, a.hi, b.hi)})

/* A comparison and a selection: fmax and fmin treat NaN differently. */
WORD(float32x4_t, four_max, (float32x4_t a, float32x4_t b), vbslq_f32(vcgtq_f32(a, b), a, b))
WORD(vf, v_max, (vf a, vf b), (vf){four_max(a.lo, b.lo), four_max(a.hi, b.hi)})

static inline vf v_min(vf a, vf b)
{
    return (vf){vbslq_f32(vcltq_f32(a.lo, b.lo), a.lo, b.lo), vbslq_f32(vcltq_f32(a.hi, b.hi), a.hi, b.hi)};
}

WORD(vf, v_sqrt, (vf a), (vf){vsqrtq_f32(a.lo), vsqrtq_f32(a.hi)})
WORD(vf, v_abs, (vf a), (vf){vabsq_f32(a.lo), vabsq_f32(a.hi)})
WORD(vf, v_round, (vf a), (vf){vrndnq_f32(a.lo), vrndnq_f32(a.hi)})

/* As in vec_avx2.h: the factor 2^n from its exponent; a negative exponent is clamped to 0, which gives 0. */
static inline float32x4_t four_scale(float32x4_t a, float32x4_t n)
{
    int32x4_t exponent = vmaxq_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), vdupq_n_s32(0));
    return vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
}

WORD(vf, v_scale, (vf a, vf n), (vf){four_scale(a.lo, n.lo), four_scale(a.hi, n.hi)})
WORD(vm, v_less, (vf a, vf b), (vm){vcltq_f32(a.lo, b.lo), vcltq_f32(a.hi, b.hi)})

static inline vf v_select(vm condition, vf yes, vf no)
{
    return (vf){vbslq_f32(condition.lo, yes.lo, no.lo), vbslq_f32(condition.hi, yes.hi, no.hi)};
}

WORD(vm, v_either, (vm a, vm b), (vm){vorrq_u32(a.lo, b.lo), vorrq_u32(a.hi, b.hi)})

/* Bit l is lane l. */
static inline unsigned v_bits(vm a)
{
    const uint32x4_t low = {1, 2, 4, 8}, high = {16, 32, 64, 128};
    return vaddvq_u32(vorrq_u32(vandq_u32(a.lo, low), vandq_u32(a.hi, high)));
}

WORD(size_t, v_count, (vm a, size_t n), (size_t)__builtin_popcount(v_bits(a) & ((1u << n) - 1)))
WORD(vu, u_add_one, (vu a, vm set), (vu){vsubq_u32(a.lo, set.lo), vsubq_u32(a.hi, set.hi)})

/* out = first + l for each lane l of 64 that is set, ascending; returns the number of them. */
static inline size_t u_list64(uint32_t *out, const vm set[64 / VLEN], uint32_t first)
{
    size_t count = 0;
    uint64_t bits = 0;
    for (size_t v = 0; v < 64 / VLEN; v++)
        bits |= (uint64_t)v_bits(set[v]) << (v * VLEN);
    for (; bits != 0; bits &= bits - 1)
        out[count++] = first + (uint32_t)__builtin_ctzll(bits);
    return count;
}

WORD(uint32_t, u_sum, (vu a), vaddvq_u32(vaddq_u32(a.lo, a.hi)))

static inline float v_sum(vf a)
{
    float32x4_t four = vaddq_f32(a.lo, a.hi);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static inline float v_largest(vf a)
{
    float32x4_t four = four_max(a.lo, a.hi);
    four = four_max(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(four_max(four, vrev64q_f32(four)), 0);
}

static inline const float *v_address(const float *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* Lanes (a0 + a2, b0 + b2, a1 + a3, b1 + b3) of four lanes each. */
WORD(float32x4_t, four_fold, (float32x4_t a, float32x4_t b), vaddq_f32(vzip1q_f32(a, b), vzip2q_f32(a, b)))

/* The sums of the four lanes of a, b, c and d: (0 + 2) + (1 + 3). */
static inline float32x4_t four_sums(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    float64x2_t ab = vreinterpretq_f64_f32(four_fold(a, b)), cd = vreinterpretq_f64_f32(four_fold(c, d));
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(ab, cd)), vreinterpretq_f32_f64(vzip2q_f64(ab, cd)));
}

static inline float32x4_t v_sums_of(vf a, vf b, vf c, vf d)
{
    return vaddq_f32(four_sums(a.lo, b.lo, c.lo, d.lo), four_sums(a.hi, b.hi, c.hi, d.hi));
}

static inline void v_sum4(float *out, vf a, vf b, vf c, vf d, float shift, float factor)
{
    vst1q_f32(out, vmulq_n_f32(vaddq_f32(v_sums_of(a, b, c, d), vdupq_n_f32(shift)), factor));
}

static inline void v_sum4x4(float *out, size_t step, vf a[4][4], const float shift[4], float factor)
{
    for (size_t r = 0; r < 4; r++)
        v_sum4(out + r * step, a[r][0], a[r][1], a[r][2], a[r][3], shift[r], factor);
}

WORD(vf, v_lane, (float32x4_t sums, const int lane), v_set(sums[lane]))

static inline void v_sums(const size_t count, vf *out, const vf *a)
{
    const size_t b = count > 1 ? 1 : 0, c = count > 2 ? 2 : 0, d = count > 3 ? 3 : b;
    float32x4_t sums = v_sums_of(a[0], a[b], a[c], a[d]);
    out[0] = v_lane(sums, 0);
    if (count > 1)
        out[1] = v_lane(sums, 1);
    if (count > 2) {
        out[2] = v_lane(sums, 2);
        out[3] = v_lane(sums, 3);
    }
}

static inline vf v_gather(const float *p, const uint32_t *index)
{
    float32x4_t lo = vdupq_n_f32(p[index[0]]), hi = vdupq_n_f32(p[index[4]]);
    lo = vld1q_lane_f32(p + index[1], lo, 1);
    hi = vld1q_lane_f32(p + index[5], hi, 1);
    lo = vld1q_lane_f32(p + index[2], lo, 2);
    hi = vld1q_lane_f32(p + index[6], hi, 2);
    return (vf){vld1q_lane_f32(p + index[3], lo, 3), vld1q_lane_f32(p + index[7], hi, 3)};
}

typedef struct {
    float64x2_t lo, hi; /* lanes 0 and 1, 2 and 3 */
} vd;

typedef struct {
    uint64x2_t lo, hi;
} dm;

enum { DLEN = VLEN / 2 };

WORD(vd, d_set, (double a), (vd){vdupq_n_f64(a), vdupq_n_f64(a)})
WORD(vd, d_zero, (void), d_set(0))
WORD(vd, d_load, (const double *p), (vd){vld1q_f64(p), vld1q_f64(p + 2)})

static inline void d_store(double *p, vd a)
{
    vst1q_f64(p, a.lo);
    vst1q_f64(p + 2, a.hi);
}

WORD(vd, d_add, (vd a, vd b), (vd){vaddq_f64(a.lo, b.lo), vaddq_f64(a.hi, b.hi)})
WORD(vd, d_sub, (vd a, vd b), (vd){vsubq_f64(a.lo, b.lo), vsubq_f64(a.hi, b.hi)})
WORD(vd, d_mul, (vd a, vd b), (vd){vmulq_f64(a.lo, b.lo), vmulq_f64(a.hi, b.hi)})
WORD(vd, d_div, (vd a, vd b), (vd){vdivq_f64(a.lo, b.lo), vdivq_f64(a.hi, b.hi)})
WORD(vd, d_sqrt, (vd a), (vd){vsqrtq_f64(a.lo), vsqrtq_f64(a.hi)})
WORD(vd, d_fma, (vd a, vd b, vd c), (vd){vfmaq_f64(c.lo, a.lo, b.lo), vfmaq_f64(c.hi, a.hi, b.hi)})
WORD(vd, d_fnma, (vd a, vd b, vd c), (vd){vfmsq_f64(c.lo, a.lo, b.lo), vfmsq_f64(c.hi, a.hi, b.hi)})
WORD(vd, d_truncate, (vd a), (vd){vrndq_f64(a.lo), vrndq_f64(a.hi)})
WORD(dm, d_less, (vd a, vd b), (dm){vcltq_f64(a.lo, b.lo), vcltq_f64(a.hi, b.hi)})

static inline vd d_select(dm condition, vd yes, vd no)
{
    return (vd){vbslq_f64(condition.lo, yes.lo, no.lo), vbslq_f64(condition.hi, yes.hi, no.hi)};
}

WORD(vd, d_widened, (float32x4_t a), (vd){vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a)})

static inline vd d_add_squares(vd sum, vf a)
{
    vd low = d_widened(a.lo), high = d_widened(a.hi);
    return d_fma(high, high, d_fma(low, low, sum));
}

static inline double d_sum(vd a)
{
    float64x2_t half = vaddq_f64(a.lo, a.hi);
    return vgetq_lane_f64(half, 0) + vgetq_lane_f64(half, 1);
}

static inline float64x2_t two_exponents(float64x2_t a)
{
    uint64x2_t bits = vshrq_n_u64(vreinterpretq_u64_f64(a), 52);
    return vsubq_f64(vcvtq_f64_u64(bits), vdupq_n_f64(1022));
}

static inline float64x2_t two_fractions(float64x2_t a)
{
    uint64x2_t fraction = vandq_u64(vreinterpretq_u64_f64(a), vdupq_n_u64(0x000fffffffffffff));
    return vreinterpretq_f64_u64(vorrq_u64(fraction, vdupq_n_u64(0x3fe0000000000000)));
}

static inline vd d_split(vd a, vd *exponent)
{
    *exponent = (vd){two_exponents(a.lo), two_exponents(a.hi)};
    return (vd){two_fractions(a.lo), two_fractions(a.hi)};
}

WORD(vu, u_load, (const uint32_t *p), (vu){vld1q_u32(p), vld1q_u32(p + 4)})

static inline void u_store(uint32_t *p, vu a)
{
    vst1q_u32(p, a.lo);
    vst1q_u32(p + 4, a.hi);
}

WORD(vu, u_add, (vu a, vu b), (vu){vaddq_u32(a.lo, b.lo), vaddq_u32(a.hi, b.hi)})
WORD(vu, u_sub, (vu a, vu b), (vu){vsubq_u32(a.lo, b.lo), vsubq_u32(a.hi, b.hi)})
WORD(vu, u_or, (vu a, vu b), (vu){vorrq_u32(a.lo, b.lo), vorrq_u32(a.hi, b.hi)})
WORD(vu, u_xor, (vu a, vu b), (vu){veorq_u32(a.lo, b.lo), veorq_u32(a.hi, b.hi)})
WORD(vu, u_xor3, (vu a, vu b, vu c), u_xor(u_xor(a, b), c))
WORD(vu, u_left, (vu a, unsigned bits), (vu){a.lo << bits, a.hi << bits})
WORD(vu, u_right, (vu a, unsigned bits), (vu){a.lo >> bits, a.hi >> bits})
WORD(vm, u_below, (vu a, vu b), (vm){vcltq_u32(a.lo, b.lo), vcltq_u32(a.hi, b.hi)})

static inline uint32x4_t four_prefix(uint32x4_t a)
{
    uint32x4_t zero = vdupq_n_u32(0);
    a = vaddq_u32(a, vextq_u32(zero, a, 3));
    return vaddq_u32(a, vextq_u32(zero, a, 2));
}

static inline vu u_prefix(vu a)
{
    uint32x4_t low = four_prefix(a.lo);
    return (vu){low, vaddq_u32(four_prefix(a.hi), vdupq_laneq_u32(low, 3))};
}

WORD(vu, u_last, (vu a), (vu){vdupq_laneq_u32(a.hi, 3), vdupq_laneq_u32(a.hi, 3)})

static inline vu u_lookup16(vu table, vu index)
{
    uint8x16_t bytes = vreinterpretq_u8_u32(table.lo);
    return (vu){vreinterpretq_u32_u8(vqtbl1q_u8(bytes, vreinterpretq_u8_u32(index.lo))),
                vreinterpretq_u32_u8(vqtbl1q_u8(bytes, vreinterpretq_u8_u32(index.hi)))};
}

static inline uint32x4_t two_products(uint32x4_t a, uint32x4_t b)
{
    uint32x2_t left = vmovn_u64(vreinterpretq_u64_u32(a)), right = vmovn_u64(vreinterpretq_u64_u32(b));
    return vreinterpretq_u32_u64(vmull_u32(left, right));
}

WORD(vu, u_wide_product, (vu a, vu b), (vu){two_products(a.lo, b.lo), two_products(a.hi, b.hi)})
WORD(uint32x4_t, two_upper, (uint32x4_t a), vreinterpretq_u32_u64(vshrq_n_u64(vreinterpretq_u64_u32(a), 32)))
WORD(vu, u_upper, (vu a), (vu){two_upper(a.lo), two_upper(a.hi)})

static inline uint32x4_t two_together(uint32x4_t even, uint32x4_t odd)
{
    return vreinterpretq_u32_u64(vsliq_n_u64(vreinterpretq_u64_u32(even), vreinterpretq_u64_u32(odd), 32));
}

WORD(vu, u_together, (vu even, vu odd), (vu){two_together(even.lo, odd.lo), two_together(even.hi, odd.hi)})

static inline void u_store4(uint32_t *out, vu a, vu b, vu c, vu d)
{
    vst4q_u32(out, ((uint32x4x4_t){{a.lo, b.lo, c.lo, d.lo}}));
    vst4q_u32(out + 2 * VLEN, ((uint32x4x4_t){{a.hi, b.hi, c.hi, d.hi}}));
}

static inline size_t u_same32(const uint32_t *a, const uint32_t *b, size_t n)
{
    size_t count = 0;
    if (n < VLEN) {
        for (size_t i = 0; i < n; i++)
            count += a[i] == b[i];
        return count;
    }
    vu left = u_load(a), right = u_load(b);
    return v_count((vm){vceqq_u32(left.lo, right.lo), vceqq_u32(left.hi, right.hi)}, VLEN);
}

static inline vd d_whole(uint32x4_t a)
{
    return (vd){vcvtq_f64_u64(vmovl_u32(vget_low_u32(a))), vcvtq_f64_u64(vmovl_high_u32(a))};
}

WORD(vd, d_low, (vu a), d_whole(a.lo))
WORD(vd, d_high, (vu a), d_whole(a.hi))
WORD(float32x4_t, four_rounded, (vd a), vcvt_high_f32_f64(vcvt_f32_f64(a.lo), a.hi))
WORD(vf, v_rounded, (vd low, vd high), (vf){four_rounded(low), four_rounded(high)})

static inline vu u_select_nan(vf a, vu nan, vu number)
{
    return (vu){vbslq_u32(vceqq_f32(a.lo, a.lo), number.lo, nan.lo),
                vbslq_u32(vceqq_f32(a.hi, a.hi), number.hi, nan.hi)};
}

static inline vu u_round(vf a)
{
    return (vu){vreinterpretq_u32_s32(vcvtnq_s32_f32(a.lo)), vreinterpretq_u32_s32(vcvtnq_s32_f32(a.hi))};
}

static inline vf v_of_whole(vu a)
{
    return (vf){vcvtq_f32_s32(vreinterpretq_s32_u32(a.lo)), vcvtq_f32_s32(vreinterpretq_s32_u32(a.hi))};
}

static inline vm u_above_zero(vu a)
{
    return (vm){vcgtzq_s32(vreinterpretq_s32_u32(a.lo)), vcgtzq_s32(vreinterpretq_s32_u32(a.hi))};
}

WORD(unsigned, u_positive, (vu a), v_bits(u_above_zero(a)))

static inline void u_code_bit(uint32_t *codes, vu a, uint32_t bit)
{
    u_store(codes, u_or(u_load(codes), u_and(u_above_zero(a), u_set(bit))));
}

static inline void v_code_bit(uint32_t *codes, vf a, uint32_t bit)
{
    u_store(codes, u_or(u_load(codes), u_and(v_less(v_zero(), a), u_set(bit))));
}

static inline void four_transpose(float32x4_t r[4])
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])),
                b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1])),
                c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])),
                d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vzip1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vzip1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vzip2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vzip2q_f64(b, d));
}

/* Four blocks of four by four, of which two change places. */
static inline void v_transpose(vf r[VLEN])
{
    float32x4_t block[4][4];
    for (int i = 0; i < 4; i++) {
        block[0][i] = r[i].lo;
        block[1][i] = r[i].hi;
        block[2][i] = r[i + 4].lo;
        block[3][i] = r[i + 4].hi;
    }
    for (int b = 0; b < 4; b++)
        four_transpose(block[b]);
    for (int i = 0; i < 4; i++) {
        r[i] = (vf){block[0][i], block[2][i]};
        r[i + 4] = (vf){block[1][i], block[3][i]};
    }
}

/* Bit FZ of FPCR. */
static inline unsigned v_flush(void)
{
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before)::"memory");
    __asm__ volatile("msr fpcr, %0" ::"r"(before | (uint64_t)1 << 24) : "memory");
    return (unsigned)before;
}

static inline void v_flush_end(unsigned before)
{
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)before) : "memory");
}

/* c + a b. FZ would flush results before they are rounded, x86 does afterwards: the sum is kept times 2^32
   and compared. */
static inline vf v_fma_flushed(vf a, vf b, vf c)
{
    vf sum = v_fma(v_mul(a, v_set(0x1p32f)), b, c), least = v_set(0x1p-94f);
    vm kept = {vcageq_f32(sum.lo, least.lo), vcageq_f32(sum.hi, least.hi)};
    return v_from(u_and(u_from(sum), kept));
}

/* v_dot2 of vec_dot2_widened.h between v_flush and v_flush_end, for sums of which only the sign is used. */
static inline vf v_dot2_flushed(vu a, vu b, vf c)
{
    vu high = u_set(0xffff0000);
    vf second = v_fma_flushed(v_from(u_and(a, high)), v_from(u_and(b, high)), c);
    return v_fma_flushed(v_from(u_left(a, 16)), v_from(u_left(b, 16)), second);
}

#endif
