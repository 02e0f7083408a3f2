/* The vector words for AVX-512 (F, BW, DQ, VL): sixteen floats. The bodies simd_*.h use only these words;
   vec_avx2.h has the same ones.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_AVX512_H
#define KERNELS_VEC_AVX512_H

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error "vec_avx512.h needs -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

#include <stddef.h>
#include <stdint.h>

#include <immintrin.h>

#include "kernels/vec_flush_x86.h"
#include "kernels/vec_word.h"

enum {
    VLEN = 16,         /* floats in a vector */
    BLOCK_ROWS = 6,    /* of a product in registers: ROWS * VECTORS sums, VECTORS loads and a broadcast */
    BLOCK_VECTORS = 4, /* fill 29 of the 32 registers; 24 sums hide the latency of 4 twice over */
    AHEAD_ROWS = 0     /* not measured */
};

typedef __m512 vf;
typedef __mmask16 vm;

WORD(__mmask16, v_first, (size_t n), (__mmask16)((1u << n) - 1))
WORD(vf, v_load, (const float *p), _mm512_loadu_ps(p))

static inline void v_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

/* The first n <= VLEN lanes from memory, the rest from `rest`; nothing past n is read. */
WORD(vf, v_load_part, (const float *p, size_t n, vf rest), _mm512_mask_loadu_ps(rest, v_first(n), p))

static inline void v_store_part(float *p, vf a, size_t n)
{
    _mm512_mask_storeu_ps(p, v_first(n), a);
}

/* a with the lanes from n <= VLEN on set to 0. */
WORD(vf, v_keep, (vf a, size_t n), _mm512_maskz_mov_ps(v_first(n), a))
WORD(vf, v_zero, (void), _mm512_setzero_ps())
WORD(vf, v_set, (float a), _mm512_set1_ps(a))
WORD(vf, v_add, (vf a, vf b), _mm512_add_ps(a, b))
WORD(vf, v_sub, (vf a, vf b), _mm512_sub_ps(a, b))
WORD(vf, v_mul, (vf a, vf b), _mm512_mul_ps(a, b))
WORD(vf, v_div, (vf a, vf b), _mm512_div_ps(a, b))

/* a b + c and c - a b, rounded once. */
WORD(vf, v_fma, (vf a, vf b, vf c), _mm512_fmadd_ps(a, b, c))
WORD(vf, v_fnma, (vf a, vf b, vf c), _mm512_fnmadd_ps(a, b, c))

/* Both return b if either is NaN. */
WORD(vf, v_max, (vf a, vf b), _mm512_max_ps(a, b))
WORD(vf, v_min, (vf a, vf b), _mm512_min_ps(a, b))
WORD(vf, v_sqrt, (vf a), _mm512_sqrt_ps(a))
WORD(vf, v_abs, (vf a), _mm512_abs_ps(a))

/* Rounds to the nearest integer, ties to even. */
WORD(vf, v_round, (vf a), _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

/* a 2^n for integer n <= 127; 0 if that is too small. */
WORD(vf, v_scale, (vf a, vf n), _mm512_scalef_ps(a, n))
WORD(vm, v_less, (vf a, vf b), _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ))
WORD(vf, v_select, (vm condition, vf yes, vf no), _mm512_mask_blend_ps(condition, no, yes))
WORD(vm, v_either, (vm a, vm b), _kor_mask16(a, b))

/* Bit l is lane l. */
WORD(unsigned, v_bits, (vm a), (unsigned)a)

/* The number of set lanes among the first n. */

static inline size_t v_count(vm a, size_t n)
{
    return (size_t)__builtin_popcount((unsigned)a & ((1u << n) - 1));
}

/* a + 1 in the lanes that are set. */
WORD(__m512i, u_add_one, (__m512i a, vm set), _mm512_mask_add_epi32(a, set, a, _mm512_set1_epi32(1)))

/* out = first + l for each lane l of 64 that is set, ascending; returns the number of them. Compresses whole
   vectors, so the time does not depend on how many are set. */
static inline size_t u_list64(uint32_t *out, const vm set[64 / VLEN], uint32_t first)
{
    size_t count = 0;
    __m512i lanes = _mm512_add_epi32(_mm512_set1_epi32((int)first),
                                     _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    for (size_t v = 0; v < 64 / VLEN; v++) {
        size_t listed = (size_t)__builtin_popcount((unsigned)set[v]);
        _mm512_mask_storeu_epi32(out + count, v_first(listed), _mm512_maskz_compress_epi32(set[v], lanes));
        lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(VLEN));
        count += listed;
    }
    return count;
}

WORD(uint32_t, u_sum, (__m512i a), (uint32_t)_mm512_reduce_add_epi32(a))

/* Sum of the lanes: lane l adds lane l + VLEN / 2, then l + VLEN / 4, and so on. */
static inline float v_sum(vf a)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

WORD(float, v_largest, (vf a), _mm512_reduce_max_ps(a))

/* p, hidden from the compiler, so that lines from it on are prefetched from one address instead of one
   precomputed offset each. */
static inline const float *v_address(const float *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* out[0..4) = ((the sums of the lanes of a, b, c, d) + shift) * factor: a third of the shuffles of four
   v_sum. */
static inline void v_sum4(float *out, vf a, vf b, vf c, vf d, float shift, float factor)
{
    vf ab = v_add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    vf cd = v_add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    vf all = v_add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    __m128 sums = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    _mm_storeu_ps(out, _mm_mul_ps(_mm_add_ps(sums, _mm_set1_ps(shift)), _mm_set1_ps(factor)));
}

/* Row r < 4 of out = v_sum4 of a[r] with shift[r], with the same bits: 30 shuffles instead of the 32 of four
   v_sum4, half the other work, and one dependency chain instead of four. */
static inline void v_sum4x4(float *out, size_t step, vf a[4][4], const float shift[4], float factor)
{
    vf all[4];
    for (int r = 0; r < 4; r++) {
        vf ab = v_add(_mm512_unpacklo_ps(a[r][0], a[r][1]), _mm512_unpackhi_ps(a[r][0], a[r][1]));
        vf cd = v_add(_mm512_unpacklo_ps(a[r][2], a[r][3]), _mm512_unpackhi_ps(a[r][2], a[r][3]));
        all[r] = v_add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    }
    vf low = v_add(_mm512_shuffle_f32x4(all[0], all[1], 0x44), _mm512_shuffle_f32x4(all[0], all[1], 0xee));
    vf high = v_add(_mm512_shuffle_f32x4(all[2], all[3], 0x44), _mm512_shuffle_f32x4(all[2], all[3], 0xee));
    vf sums = v_add(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
    __m512i each = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    vf shifts = _mm512_permutexvar_ps(each, _mm512_castps128_ps512(_mm_loadu_ps(shift)));
    sums = v_mul(v_add(sums, shifts), v_set(factor));
    _mm_storeu_ps(out, _mm512_castps512_ps128(sums));
    _mm_storeu_ps(out + step, _mm512_extractf32x4_ps(sums, 1));
    _mm_storeu_ps(out + 2 * step, _mm512_extractf32x4_ps(sums, 2));
    _mm_storeu_ps(out + 3 * step, _mm512_extractf32x4_ps(sums, 3));
}

/* Every lane of out[k] = the sum of the lanes of a[k], k < count = 1, 2 or 4; the same bits for any count. */
static inline vf v_sum_quarters(vf a)
{
    a = v_add(a, _mm512_shuffle_f32x4(a, a, 0x4e));
    return v_add(a, _mm512_shuffle_f32x4(a, a, 0xb1));
}

static inline void v_sums(const size_t count, vf *out, const vf *a)
{
    if (count == 1) {
        vf half = v_add(a[0], _mm512_permute_ps(a[0], 0x4e));
        out[0] = v_sum_quarters(v_add(half, _mm512_permute_ps(half, 0xb1)));
        return;
    }
    vf ab = v_add(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
    if (count == 2) {
        ab = v_sum_quarters(v_add(ab, _mm512_permute_ps(ab, 0x4e)));
        out[0] = _mm512_moveldup_ps(ab);
        out[1] = _mm512_movehdup_ps(ab);
        return;
    }
    vf cd = v_add(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
    vf all = v_add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    all = v_sum_quarters(all);
    out[0] = _mm512_permute_ps(all, 0x00);
    out[1] = _mm512_permute_ps(all, 0x55);
    out[2] = _mm512_permute_ps(all, 0xaa);
    out[3] = _mm512_permute_ps(all, 0xff);
}

/* Lanes p[index[0]], p[index[1]], ... */
static inline vf v_gather(const float *p, const uint32_t *index)
{
    return _mm512_i32gather_ps(_mm512_loadu_si512(index), p, 4);
}

/* codes[lane] |= bit in the lanes with a > 0. */
static inline void v_code_bit(uint32_t *codes, vf a, uint32_t bit)
{
    __m512i old = _mm512_loadu_si512(codes);
    __mmask16 positive = _mm512_cmp_ps_mask(a, v_zero(), _CMP_GT_OQ);
    _mm512_storeu_si512(codes, _mm512_mask_or_epi32(old, positive, old, _mm512_set1_epi32((int)bit)));
}

/* Doubles, in half as many lanes. */
typedef __m512d vd;
typedef __mmask8 dm;
enum { DLEN = VLEN / 2 };

WORD(vd, d_zero, (void), _mm512_setzero_pd())

static inline vd d_add_squares(vd sum, vf a)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return _mm512_fmadd_pd(high, high, _mm512_fmadd_pd(low, low, sum));
}

WORD(double, d_sum, (vd a), _mm512_reduce_add_pd(a))
WORD(vd, d_load, (const double *p), _mm512_loadu_pd(p))

static inline void d_store(double *p, vd a)
{
    _mm512_storeu_pd(p, a);
}

WORD(vd, d_set, (double a), _mm512_set1_pd(a))
WORD(vd, d_add, (vd a, vd b), _mm512_add_pd(a, b))
WORD(vd, d_sub, (vd a, vd b), _mm512_sub_pd(a, b))
WORD(vd, d_mul, (vd a, vd b), _mm512_mul_pd(a, b))
WORD(vd, d_div, (vd a, vd b), _mm512_div_pd(a, b))
WORD(vd, d_sqrt, (vd a), _mm512_sqrt_pd(a))

/* a b + c and c - a b, rounded once. */
WORD(vd, d_fma, (vd a, vd b, vd c), _mm512_fmadd_pd(a, b, c))
WORD(vd, d_fnma, (vd a, vd b, vd c), _mm512_fnmadd_pd(a, b, c))
WORD(vd, d_truncate, (vd a), _mm512_roundscale_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
WORD(dm, d_less, (vd a, vd b), _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ))
WORD(vd, d_select, (dm condition, vd yes, vd no), _mm512_mask_blend_pd(condition, no, yes))

/* a = 2^*exponent * result for a normal a > 0, result in [1/2, 1). */
static inline vd d_split(vd a, vd *exponent)
{
    *exponent = _mm512_add_pd(_mm512_getexp_pd(a), _mm512_set1_pd(1));
    return _mm512_getmant_pd(a, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src);
}

/* VLEN 32-bit integers. */
typedef __m512i vu;

WORD(vu, u_load, (const uint32_t *p), _mm512_loadu_si512(p))

static inline void u_store(uint32_t *p, vu a)
{
    _mm512_storeu_si512(p, a);
}

WORD(vu, u_set, (uint32_t a), _mm512_set1_epi32((int)a))
WORD(vu, u_xor3, (vu a, vu b, vu c), _mm512_ternarylogic_epi32(a, b, c, 0x96))

/* u_wide_product: 64-bit products of the even lanes; each fills its lane and the next. u_upper: the upper
   half of each 64-bit pair in the lower half, with 0 above. u_together: the even lanes of `even`, with those
   of `odd` between them. */
WORD(vu, u_wide_product, (vu a, vu b), _mm512_mul_epu32(a, b))
WORD(vu, u_upper, (vu a), _mm512_srli_epi64(a, 32))
WORD(vu, u_together, (vu even, vu odd), _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)))

/* out[4 lane .. 4 lane + 3] = that lane of a, b, c, d. */
static inline void u_store4(uint32_t *out, vu a, vu b, vu c, vu d)
{
    vu ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    vu ef = _mm512_unpackhi_epi32(a, b), gh = _mm512_unpackhi_epi32(c, d);
    vu t0 = _mm512_unpacklo_epi64(ab, cd), t1 = _mm512_unpackhi_epi64(ab, cd);
    vu t2 = _mm512_unpacklo_epi64(ef, gh), t3 = _mm512_unpackhi_epi64(ef, gh);
    vu low = _mm512_shuffle_i32x4(t0, t1, 0x44), high = _mm512_shuffle_i32x4(t2, t3, 0x44);
    _mm512_storeu_si512(out, _mm512_shuffle_i32x4(low, high, 0x88));
    _mm512_storeu_si512(out + 16, _mm512_shuffle_i32x4(low, high, 0xdd));
    low = _mm512_shuffle_i32x4(t0, t1, 0xee), high = _mm512_shuffle_i32x4(t2, t3, 0xee);
    _mm512_storeu_si512(out + 32, _mm512_shuffle_i32x4(low, high, 0x88));
    _mm512_storeu_si512(out + 48, _mm512_shuffle_i32x4(low, high, 0xdd));
}

/* The number of equal pairs among the first n <= 2 VLEN 16-bit numbers, or n <= VLEN 32-bit ones. */
static inline size_t u_same16(const uint16_t *a, const uint16_t *b, size_t n)
{
    __mmask32 exist = (__mmask32)(((uint64_t)1 << n) - 1);
    __m512i left = _mm512_maskz_loadu_epi16(exist, a), right = _mm512_maskz_loadu_epi16(exist, b);
    return (size_t)__builtin_popcount(_mm512_mask_cmpeq_epi16_mask(exist, left, right));
}

static inline size_t u_same32(const uint32_t *a, const uint32_t *b, size_t n)
{
    __m512i left = _mm512_maskz_loadu_epi32(v_first(n), a), right = _mm512_maskz_loadu_epi32(v_first(n), b);
    return (size_t)__builtin_popcount((unsigned)_mm512_mask_cmpeq_epi32_mask(v_first(n), left, right));
}

/* The lanes whose 16-bit number is below `bound` <= 65535. */
static inline vm u_short_below(const uint16_t *p, unsigned bound)
{
    vu wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_cmplt_epu32_mask(wide, u_set(bound));
}

WORD(vu, u_from, (vf a), _mm512_castps_si512(a))

/* Converts the first DLEN lanes, or the rest, as unsigned integers to doubles; and two such halves to
   floats. */
WORD(vd, d_low, (vu a), _mm512_cvtepu32_pd(_mm512_castsi512_si256(a)))
WORD(vd, d_high, (vu a), _mm512_cvtepu32_pd(_mm512_extracti64x4_epi64(a, 1)))

static inline vf v_rounded(vd low, vd high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

WORD(vf, v_from, (vu a), _mm512_castsi512_ps(a))
WORD(vu, u_add, (vu a, vu b), _mm512_add_epi32(a, b))
WORD(vu, u_sub, (vu a, vu b), _mm512_sub_epi32(a, b))
/* Byte i is byte index[i] of the same 16 of the table, which repeats them; index[i] < 16. */
WORD(vu, u_lookup16, (vu table, vu index), _mm512_shuffle_epi8(table, index))
WORD(vu, u_and, (vu a, vu b), _mm512_and_si512(a, b))
WORD(vu, u_or, (vu a, vu b), _mm512_or_si512(a, b))
WORD(vu, u_xor, (vu a, vu b), _mm512_xor_si512(a, b))
WORD(vu, u_left, (vu a, unsigned bits), _mm512_slli_epi32(a, bits))
WORD(vu, u_right, (vu a, unsigned bits), _mm512_srli_epi32(a, bits))

/* The upper byte of each 16-bit half in the lower one, with 0 above. */
WORD(vu, u_upper_bytes, (vu a), _mm512_srli_epi16(a, 8))

/* Lanes of a below those of b, as unsigned integers. */
WORD(vm, u_below, (vu a, vu b), _mm512_cmplt_epu32_mask(a, b))

/* Lane l = the sum of the lanes 0 to l of a, modulo 2^32; and the last lane of a in all. */
static inline vu u_prefix(vu a)
{
    vu zero = _mm512_setzero_si512();
    a = _mm512_add_epi32(a, _mm512_alignr_epi32(a, zero, 15));
    a = _mm512_add_epi32(a, _mm512_alignr_epi32(a, zero, 14));
    a = _mm512_add_epi32(a, _mm512_alignr_epi32(a, zero, 12));
    return _mm512_add_epi32(a, _mm512_alignr_epi32(a, zero, 8));
}

WORD(vu, u_last, (vu a), _mm512_permutexvar_epi32(_mm512_set1_epi32(VLEN - 1), a))

/* `nan` in the lanes in which a is NaN, else `number`. */
static inline vu u_select_nan(vf a, vu nan, vu number)
{
    return _mm512_mask_mov_epi32(number, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), nan);
}

/* 16-bit numbers, two per lane: loads the first n <= 2 VLEN of them, n even, the rest 0; and stores them. */
static inline vu u_get_shorts(const uint16_t *p, size_t n)
{
    return n == 2 * VLEN ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi32(v_first(n / 2), p);
}

static inline void u_put_twos(uint16_t *p, vu a, size_t n)
{
    _mm512_mask_storeu_epi32(p, v_first(n), a);
}

/* Stores n <= 2 VLEN of them, n even or odd. */
static inline void u_put_halves(uint16_t *p, vu a, size_t n)
{
    _mm512_mask_storeu_epi16(p, (__mmask32)(((uint64_t)1 << n) - 1), a);
}

/* n <= VLEN 16-bit numbers, one per lane, the rest 0; load and store. */
static inline vu u_widen_shorts(const uint16_t *p, size_t n)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v_first(n), p));
}

static inline void u_put_shorts(uint16_t *p, vu a, size_t n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtepi32_epi16(a));
}

/* Rounds to the nearest integer, ties to even; |a| < 2^31. */
WORD(vu, u_round, (vf a), _mm512_cvtps_epi32(a))

/* sum + a b of the low halves + a b of the high halves, as signed integers. In assembly, because with
   intrinsics gcc 12 moves each sum twice per step, which halves the speed. */
static inline vu u_dot_halves(vu sum, vu a, vu b)
{
#if defined(__AVX512VNNI__)
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(_mm512_madd_epi16(a, b)));
#endif
    return sum;
}

/* u_pack_halves packs the lanes of a and b to 16-bit halves, in the instruction's own order. From two
   such rows, u_low_halves interleaves the halves that came from a, one lane per pair in their original order,
   and u_high_halves those from b. */
WORD(vu, u_pack_halves, (vu a, vu b), _mm512_packs_epi32(a, b))
WORD(vu, u_low_halves, (vu a, vu b), _mm512_unpacklo_epi16(a, b))
WORD(vu, u_high_halves, (vu a, vu b), _mm512_unpackhi_epi16(a, b))
WORD(vf, v_of_whole, (vu a), _mm512_cvtepi32_ps(a))

/* sum + the products of the four bytes of a lane, unsigned in a, signed in b. Without the instruction the
   even and the odd bytes are widened to halves. */
static inline vu u_dot_bytes(vu sum, vu a, vu b)
{
#if defined(__AVX512VNNI__)
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
#else
    vu even = _mm512_and_si512(a, _mm512_set1_epi16(0xff)), odd = _mm512_srli_epi16(a, 8);
    sum = u_dot_halves(sum, even, _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    return u_dot_halves(sum, odd, _mm512_srai_epi16(b, 8));
#endif
}

/* Stores the low byte of each lane, VLEN of them. */
static inline void u_put_bytes(uint8_t *p, vu a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(a));
}

/* Both 16-bit halves as signed integers, modulo 2^16: a + b, a - b, and (a b + 2^14) >> 15. The difference is
   in assembly, because gcc 12 otherwise rewrites (a + b) - (c + d) next to (a + b) + (c + d) as sums of four:
   a third more instructions in butterflies. */
WORD(vu, u_add_halves, (vu a, vu b), _mm512_add_epi16(a, b))

static inline vu u_sub_halves(vu a, vu b)
{
    vu difference;
    __asm__("vpsubw %2, %1, %0" : "=v"(difference) : "v"(a), "v"(b));
    return difference;
}

WORD(vu, u_scale_halves, (vu a, vu b), _mm512_mulhrs_epi16(a, b))

/* codes + bit in the halves with a > 0. */
static inline vu u_code_halves(vu codes, vu a, uint16_t bit)
{
    __mmask32 positive = _mm512_cmpgt_epi16_mask(a, _mm512_setzero_si512());
    return _mm512_mask_add_epi16(codes, positive, codes, _mm512_set1_epi16((int16_t)bit));
}

/* Bit l is set if lane l is > 0 as a signed integer. */
WORD(unsigned, u_positive, (vu a), (unsigned)_mm512_cmpgt_epi32_mask(a, _mm512_setzero_si512()))

/* codes[lane] |= bit in the lanes with a > 0, as signed integers. */
static inline void u_code_bit(uint32_t *codes, vu a, uint32_t bit)
{
    __m512i old = _mm512_loadu_si512(codes);
    __mmask16 positive = _mm512_cmpgt_epi32_mask(a, _mm512_setzero_si512());
    _mm512_storeu_si512(codes, _mm512_mask_or_epi32(old, positive, old, _mm512_set1_epi32((int)bit)));
}

/* Transposes a block of VLEN x VLEN in four rounds of exchanges, between rows 1, 2, 4 and 8 apart. */
static inline void v_transpose(vf r[VLEN])
{
    vf t[VLEN];
    for (int i = 0; i < VLEN; i += 4) {
        vf a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        vf c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        vf a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88),
           b = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
        vf c = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd),
           d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

#endif
