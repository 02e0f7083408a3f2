/* The vector words for AVX2 with fused multiply-add: eight floats. vec_avx512.h has the same words and their
   definitions.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_AVX2_H
#define KERNELS_VEC_AVX2_H

#if !defined(__AVX2__) || !defined(__FMA__)
#error "vec_avx2.h needs -mavx2 -mfma"
#endif

#include <stddef.h>
#include <stdint.h>

#include <immintrin.h>

#include "kernels/vec_flush_x86.h"
#include "kernels/vec_word.h"

enum {
    VLEN = 8,
    BLOCK_ROWS = 6, /* 12 sums, 2 loads and a broadcast: 15 of the 16 registers */
    BLOCK_VECTORS = 2,
    AHEAD_ROWS = 96 /* the most rows of a product that fetches the next strip of weights; 0: none does */
};

typedef __m256 vf;
typedef __m256 vm;

/* All ones in the first n lanes. */
static inline __m256i v_first(size_t n)
{
    static const int32_t ones_then_zeros[2 * VLEN] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones_then_zeros + VLEN - n));
}

WORD(vf, v_load, (const float *p), _mm256_loadu_ps(p))

static inline void v_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

static inline vf v_load_part(const float *p, size_t n, vf rest)
{
    __m256i first = v_first(n);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(p, first), _mm256_castsi256_ps(first));
}

static inline void v_store_part(float *p, vf a, size_t n)
{
    _mm256_maskstore_ps(p, v_first(n), a);
}

WORD(vf, v_keep, (vf a, size_t n), _mm256_and_ps(_mm256_castsi256_ps(v_first(n)), a))
WORD(vf, v_zero, (void), _mm256_setzero_ps())
WORD(vf, v_set, (float a), _mm256_set1_ps(a))
WORD(vf, v_add, (vf a, vf b), _mm256_add_ps(a, b))
WORD(vf, v_sub, (vf a, vf b), _mm256_sub_ps(a, b))
WORD(vf, v_mul, (vf a, vf b), _mm256_mul_ps(a, b))
WORD(vf, v_div, (vf a, vf b), _mm256_div_ps(a, b))
WORD(vf, v_fma, (vf a, vf b, vf c), _mm256_fmadd_ps(a, b, c))
WORD(vf, v_fnma, (vf a, vf b, vf c), _mm256_fnmadd_ps(a, b, c))
WORD(vf, v_max, (vf a, vf b), _mm256_max_ps(a, b))
WORD(vf, v_min, (vf a, vf b), _mm256_min_ps(a, b))
WORD(vf, v_sqrt, (vf a), _mm256_sqrt_ps(a))
WORD(vf, v_abs, (vf a), _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a))
WORD(vf, v_round, (vf a), _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

/* The factor 2^n is built from its exponent; a negative exponent is clamped to 0, which gives the factor
   0. */
static inline vf v_scale(vf a, vf n)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    exponent = _mm256_max_epi32(exponent, _mm256_setzero_si256());
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

WORD(vm, v_less, (vf a, vf b), _mm256_cmp_ps(a, b, _CMP_LT_OQ))
WORD(vf, v_select, (vm condition, vf yes, vf no), _mm256_blendv_ps(no, yes, condition))
WORD(vm, v_either, (vm a, vm b), _mm256_or_ps(a, b))

/* Bit l is lane l. */
WORD(unsigned, v_bits, (vm a), (unsigned)_mm256_movemask_ps(a))

static inline size_t v_count(vm a, size_t n)
{
    return (size_t)__builtin_popcount((unsigned)_mm256_movemask_ps(a) & ((1u << n) - 1));
}

WORD(__m256i, u_add_one, (__m256i a, vm set), _mm256_sub_epi32(a, _mm256_castps_si256(set)))

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

static inline uint32_t u_sum(__m256i a)
{
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

static inline float v_sum(vf a)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

static inline float v_largest(vf a)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

static inline const float *v_address(const float *p)
{
    __asm__("" : "+r"(p));
    return p;
}

static inline void v_sum4(float *out, vf a, vf b, vf c, vf d, float shift, float factor)
{
    vf ab = v_add(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    vf cd = v_add(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    vf all = v_add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    __m128 sums = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
    _mm_storeu_ps(out, _mm_mul_ps(_mm_add_ps(sums, _mm_set1_ps(shift)), _mm_set1_ps(factor)));
}

static inline void v_sum4x4(float *out, size_t step, vf a[4][4], const float shift[4], float factor)
{
    for (size_t r = 0; r < 4; r++)
        v_sum4(out + r * step, a[r][0], a[r][1], a[r][2], a[r][3], shift[r], factor);
}

WORD(vf, v_sum_quarters, (vf a), v_add(a, _mm256_permute2f128_ps(a, a, 0x01)))

static inline void v_sums(const size_t count, vf *out, const vf *a)
{
    if (count == 1) {
        vf half = v_add(a[0], _mm256_permute_ps(a[0], 0x4e));
        out[0] = v_sum_quarters(v_add(half, _mm256_permute_ps(half, 0xb1)));
        return;
    }
    vf ab = v_add(_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1]));
    if (count == 2) {
        ab = v_sum_quarters(v_add(ab, _mm256_permute_ps(ab, 0x4e)));
        out[0] = _mm256_moveldup_ps(ab);
        out[1] = _mm256_movehdup_ps(ab);
        return;
    }
    vf cd = v_add(_mm256_unpacklo_ps(a[2], a[3]), _mm256_unpackhi_ps(a[2], a[3]));
    vf all = v_add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    all = v_sum_quarters(all);
    out[0] = _mm256_permute_ps(all, 0x00);
    out[1] = _mm256_permute_ps(all, 0x55);
    out[2] = _mm256_permute_ps(all, 0xaa);
    out[3] = _mm256_permute_ps(all, 0xff);
}

static inline vf v_gather(const float *p, const uint32_t *index)
{
    return _mm256_i32gather_ps(p, _mm256_loadu_si256((const __m256i *)(const void *)index), 4);
}

static inline void v_code_bit(uint32_t *codes, vf a, uint32_t bit)
{
    __m256i *place = (__m256i *)(void *)codes;
    __m256i positive = _mm256_castps_si256(_mm256_cmp_ps(a, v_zero(), _CMP_GT_OQ));
    __m256i added = _mm256_and_si256(positive, _mm256_set1_epi32((int)bit));
    _mm256_storeu_si256(place, _mm256_or_si256(_mm256_loadu_si256(place), added));
}

typedef __m256d vd;
typedef __m256d dm;
enum { DLEN = VLEN / 2 };

WORD(vd, d_zero, (void), _mm256_setzero_pd())

static inline vd d_add_squares(vd sum, vf a)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return _mm256_fmadd_pd(high, high, _mm256_fmadd_pd(low, low, sum));
}

static inline double d_sum(vd a)
{
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

WORD(vd, d_load, (const double *p), _mm256_loadu_pd(p))

static inline void d_store(double *p, vd a)
{
    _mm256_storeu_pd(p, a);
}

WORD(vd, d_set, (double a), _mm256_set1_pd(a))
WORD(vd, d_add, (vd a, vd b), _mm256_add_pd(a, b))
WORD(vd, d_sub, (vd a, vd b), _mm256_sub_pd(a, b))
WORD(vd, d_mul, (vd a, vd b), _mm256_mul_pd(a, b))
WORD(vd, d_div, (vd a, vd b), _mm256_div_pd(a, b))
WORD(vd, d_sqrt, (vd a), _mm256_sqrt_pd(a))
WORD(vd, d_fma, (vd a, vd b, vd c), _mm256_fmadd_pd(a, b, c))
WORD(vd, d_fnma, (vd a, vd b, vd c), _mm256_fnmadd_pd(a, b, c))
WORD(vd, d_truncate, (vd a), _mm256_round_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
WORD(dm, d_less, (vd a, vd b), _mm256_cmp_pd(a, b, _CMP_LT_OQ))
WORD(vd, d_select, (dm condition, vd yes, vd no), _mm256_blendv_pd(no, yes, condition))

/* An integer below 2^52 in the low bits of 2^52 is 2^52 plus that integer. */
static inline vd d_whole(__m256i a)
{
    __m256i bits = _mm256_or_si256(a, _mm256_set1_epi64x(0x4330000000000000));
    return _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_set1_pd(0x1p52));
}

static inline vd d_split(vd a, vd *exponent)
{
    __m256i bits = _mm256_castpd_si256(a);
    __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi64x(0x000fffffffffffff));
    *exponent = _mm256_sub_pd(d_whole(_mm256_srli_epi64(bits, 52)), _mm256_set1_pd(1022));
    return _mm256_castsi256_pd(_mm256_or_si256(fraction, _mm256_set1_epi64x(0x3fe0000000000000)));
}

typedef __m256i vu;

WORD(vu, u_load, (const uint32_t *p), _mm256_loadu_si256((const __m256i *)(const void *)p))

static inline void u_store(uint32_t *p, vu a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, a);
}

WORD(vu, u_set, (uint32_t a), _mm256_set1_epi32((int)a))
WORD(vu, u_xor3, (vu a, vu b, vu c), _mm256_xor_si256(_mm256_xor_si256(a, b), c))
WORD(vu, u_wide_product, (vu a, vu b), _mm256_mul_epu32(a, b))
WORD(vu, u_upper, (vu a), _mm256_srli_epi64(a, 32))
WORD(vu, u_together, (vu even, vu odd), _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa))

static inline void u_store4(uint32_t *out, vu a, vu b, vu c, vu d)
{
    vu ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    vu ef = _mm256_unpackhi_epi32(a, b), gh = _mm256_unpackhi_epi32(c, d);
    vu t0 = _mm256_unpacklo_epi64(ab, cd), t1 = _mm256_unpackhi_epi64(ab, cd);
    vu t2 = _mm256_unpacklo_epi64(ef, gh), t3 = _mm256_unpackhi_epi64(ef, gh);
    __m256i *to = (__m256i *)(void *)out;
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(t0, t1, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(t2, t3, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(t0, t1, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(t2, t3, 0x31));
}

static inline size_t u_same16(const uint16_t *a, const uint16_t *b, size_t n)
{
    size_t count = 0;
    if (n < 2 * VLEN) {
        for (size_t i = 0; i < n; i++)
            count += a[i] == b[i];
        return count;
    }
    __m256i same = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)(const void *)a),
                                      _mm256_loadu_si256((const __m256i *)(const void *)b));
    return (size_t)__builtin_popcount((unsigned)_mm256_movemask_epi8(same)) / 2;
}

static inline size_t u_same32(const uint32_t *a, const uint32_t *b, size_t n)
{
    __m256i left = _mm256_maskload_epi32((const int *)(const void *)a, v_first(n)),
            right = _mm256_maskload_epi32((const int *)(const void *)b, v_first(n));
    __m256i same = _mm256_and_si256(_mm256_cmpeq_epi32(left, right), v_first(n));
    return (size_t)__builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(same)));
}

static inline vm u_short_below(const uint16_t *p, unsigned bound)
{
    vu wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)bound), wide));
}

WORD(vu, u_from, (vf a), _mm256_castps_si256(a))
WORD(vd, d_low, (vu a), d_whole(_mm256_cvtepu32_epi64(_mm256_castsi256_si128(a))))
WORD(vd, d_high, (vu a), d_whole(_mm256_cvtepu32_epi64(_mm256_extracti128_si256(a, 1))))

static inline vf v_rounded(vd low, vd high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}

WORD(vf, v_from, (vu a), _mm256_castsi256_ps(a))
WORD(vu, u_lookup16, (vu table, vu index), _mm256_shuffle_epi8(table, index))

WORD(vu, u_add, (vu a, vu b), _mm256_add_epi32(a, b))
WORD(vu, u_sub, (vu a, vu b), _mm256_sub_epi32(a, b))
WORD(vu, u_and, (vu a, vu b), _mm256_and_si256(a, b))
WORD(vu, u_or, (vu a, vu b), _mm256_or_si256(a, b))
WORD(vu, u_xor, (vu a, vu b), _mm256_xor_si256(a, b))
WORD(vu, u_left, (vu a, unsigned bits), _mm256_slli_epi32(a, (int)bits))
WORD(vu, u_right, (vu a, unsigned bits), _mm256_srli_epi32(a, (int)bits))
WORD(vu, u_upper_bytes, (vu a), _mm256_srli_epi16(a, 8))

static inline vm u_below(vu a, vu b)
{
    vu sign = _mm256_set1_epi32(INT32_MIN);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_xor_si256(b, sign), _mm256_xor_si256(a, sign)));
}

static inline vu u_prefix(vu a)
{
    a = _mm256_add_epi32(a, _mm256_slli_si256(a, 4));
    a = _mm256_add_epi32(a, _mm256_slli_si256(a, 8));
    return _mm256_add_epi32(a, _mm256_shuffle_epi32(_mm256_permute2x128_si256(a, a, 0x08), 0xff));
}

WORD(vu, u_last, (vu a), _mm256_permutevar8x32_epi32(a, _mm256_set1_epi32(VLEN - 1)))

static inline vu u_select_nan(vf a, vu nan, vu number)
{
    return _mm256_blendv_epi8(number, nan, _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}

static inline vu u_get_shorts(const uint16_t *p, size_t n)
{
    return n == 2 * VLEN ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                         : _mm256_maskload_epi32((const int *)(const void *)p, v_first(n / 2));
}

static inline void u_put_twos(uint16_t *p, vu a, size_t n)
{
    _mm256_maskstore_epi32((int *)(void *)p, v_first(n), a);
}

static inline void u_put_halves(uint16_t *p, vu a, size_t n)
{
    uint16_t part[2 * VLEN];
    _mm256_storeu_si256((__m256i *)(void *)(n < 2 * VLEN ? part : p), a);
    for (size_t i = 0; n < 2 * VLEN && i < n; i++)
        p[i] = part[i];
}

/* AVX2 has no 16-bit masks: a partial vector is copied through memory. */
static inline vu u_widen_shorts(const uint16_t *p, size_t n)
{
    uint16_t part[VLEN] = {0};
    if (n < VLEN) {
        for (size_t i = 0; i < n; i++)
            part[i] = p[i];
        p = part;
    }
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline void u_put_shorts(uint16_t *p, vu a, size_t n)
{
    uint16_t part[VLEN];
    vu packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, a), 0x88);
    _mm_storeu_si128((__m128i *)(void *)(n < VLEN ? part : p), _mm256_castsi256_si128(packed));
    for (size_t i = 0; n < VLEN && i < n; i++)
        p[i] = part[i];
}

WORD(vu, u_round, (vf a), _mm256_cvtps_epi32(a))

static inline vu u_dot_halves(vu sum, vu a, vu b)
{
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(_mm256_madd_epi16(a, b)));
    return sum;
}

WORD(vu, u_pack_halves, (vu a, vu b), _mm256_packs_epi32(a, b))
WORD(vu, u_low_halves, (vu a, vu b), _mm256_unpacklo_epi16(a, b))
WORD(vu, u_high_halves, (vu a, vu b), _mm256_unpackhi_epi16(a, b))
WORD(vf, v_of_whole, (vu a), _mm256_cvtepi32_ps(a))

static inline vu u_dot_bytes(vu sum, vu a, vu b)
{
    vu even = _mm256_and_si256(a, _mm256_set1_epi16(0xff)), odd = _mm256_srli_epi16(a, 8);
    sum = u_dot_halves(sum, even, _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    return u_dot_halves(sum, odd, _mm256_srai_epi16(b, 8));
}

static inline void u_put_bytes(uint8_t *p, vu a)
{
    const __m256i low = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8,
                                         12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    vu packed = _mm256_shuffle_epi8(a, low);
    __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
    _mm_storel_epi64((__m128i *)(void *)p, both);
}

WORD(vu, u_add_halves, (vu a, vu b), _mm256_add_epi16(a, b))

static inline vu u_sub_halves(vu a, vu b)
{
    vu difference;
    __asm__("vpsubw %2, %1, %0" : "=x"(difference) : "x"(a), "x"(b));
    return difference;
}

WORD(vu, u_scale_halves, (vu a, vu b), _mm256_mulhrs_epi16(a, b))

static inline vu u_code_halves(vu codes, vu a, uint16_t bit)
{
    __m256i positive = _mm256_cmpgt_epi16(a, _mm256_setzero_si256());
    return _mm256_or_si256(codes, _mm256_and_si256(positive, _mm256_set1_epi16((int16_t)bit)));
}

static inline unsigned u_positive(vu a)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, _mm256_setzero_si256())));
}

static inline void u_code_bit(uint32_t *codes, vu a, uint32_t bit)
{
    __m256i *place = (__m256i *)(void *)codes;
    __m256i positive = _mm256_cmpgt_epi32(a, _mm256_setzero_si256());
    __m256i added = _mm256_and_si256(positive, _mm256_set1_epi32((int)bit));
    _mm256_storeu_si256(place, _mm256_or_si256(_mm256_loadu_si256(place), added));
}

static inline void v_transpose(vf r[VLEN])
{
    vf t[VLEN];
    for (int i = 0; i < VLEN; i += 4) {
        vf a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        vf c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

#endif
