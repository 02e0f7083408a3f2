/* Random words and normals, VLEN blocks of base/random.h in parallel, with the same bits: Philox4x32-10
   (Salmon et al. 2011) with the published constants, then Box and Muller in double with the polynomials of
   base/random.c, operation by operation. A lane holds the four words of a block. Ten rounds take 120
   operations for VLEN blocks. The four normals of a block take two logarithms, two square roots and two
   angles, about 90 operations each for DLEN of them. Measured on Zen 5, ns a normal: 2.0 with AVX-512, 4.0
   with AVX2, 15 one at a time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_RANDOM_H
#define KERNELS_SIMD_RANDOM_H

#include <string.h>

#include "kernels/simd_math.h"
#include "kernels/slots_chance.h"

enum { PHILOX_ROUNDS = 10 };

/* Lane l: the low word of first + l, and *high its high word. Computed by addition, because values stored
   one by one must leave the store buffer before they can be loaded as a vector. The low words wrap once in
   2^32. */
INLINE vu random_counters(vu *high, uint64_t first)
{
    static const uint32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint32_t low = (uint32_t)first, highs[VLEN];
    *high = u_set((uint32_t)(first >> 32));
    if (low > UINT32_MAX - (VLEN - 1)) {
        for (uint32_t l = 0; l < VLEN; l++)
            highs[l] = (uint32_t)((first + l) >> 32);
        *high = u_load(highs);
    }
    return u_add(u_set(low), u_load(lanes));
}

/* word[4 g + w], lane l: word w of block first + g VLEN + l of the key, g < groups. Even and odd blocks are
   kept in separate vectors, each number in the low half of 64 bits, where the multiplication reads and leaves
   it; the high halves are ignored. A round waits for the previous one, so 2 groups chains run in parallel;
   groups is 1 to 3. */
INLINE void random_blocks(const int groups, vu *word, uint64_t key, uint64_t first)
{
    enum { MOST = 6 };
    vu a[MOST], b[MOST], c[MOST], d[MOST];
    vu multiply_a = u_set(0xD2511F53u), multiply_c = u_set(0xCD9E8D57u);
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    UNROLLED
    for (int g = 0; g < groups; g++) {
        a[2 * g] = random_counters(&b[2 * g], first + (uint64_t)g * VLEN);
        a[2 * g + 1] = u_upper(a[2 * g]);
        b[2 * g + 1] = u_upper(b[2 * g]);
        c[2 * g] = d[2 * g] = c[2 * g + 1] = d[2 * g + 1] = u_set(0);
    }
    UNROLLED
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        UNROLLED
        for (int k = 0; k < 2 * groups; k++) {
            vu product_a = u_wide_product(a[k], multiply_a), product_c = u_wide_product(c[k], multiply_c);
            a[k] = u_xor3(u_upper(product_c), b[k], u_set(key0));
            c[k] = u_xor3(u_upper(product_a), d[k], u_set(key1));
            b[k] = product_c;
            d[k] = product_a;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    UNROLLED
    for (int g = 0; g < groups; g++) {
        word[4 * g] = u_together(a[2 * g], a[2 * g + 1]);
        word[4 * g + 1] = u_together(b[2 * g], b[2 * g + 1]);
        word[4 * g + 2] = u_together(c[2 * g], c[2 * g + 1]);
        word[4 * g + 3] = u_together(d[2 * g], d[2 * g + 1]);
    }
}

/* As v_polynomial, highest power first and no step fused: the bits of base/random.c. */
INLINE vd d_polynomial(vd x, const double *coefficient, int count)
{
    vd sum = d_set(coefficient[0]);
    UNROLLED
    for (int k = 1; k < count; k++)
        sum = d_add(d_mul(sum, x), d_set(coefficient[k]));
    return sum;
}

/* own_log of base/random.c. */
INLINE vd d_log(vd x)
{
    static const double odd[] = {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3};
    vd exponent, m = d_split(x, &exponent), one = d_set(1);
    dm below = d_less(m, d_set(0.70710678118654752));
    m = d_select(below, d_add(m, m), m);
    exponent = d_select(below, d_sub(exponent, one), exponent);
    vd z = d_div(d_sub(m, one), d_add(m, one)), z2 = d_mul(z, z);
    vd series = d_add(d_mul(d_polynomial(z2, odd, 8), z2), one);
    return d_add(d_mul(exponent, d_set(0.69314718055994531)), d_mul(d_mul(d_set(2), z), series));
}

/* own_sincos_2pi of base/random.c: an odd quarter q swaps the two; q also sets their signs. */
INLINE void d_sincos_2pi(vd u, vd *sine, vd *cosine)
{
    static const double sines[] = {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                   -1.0 / 5040,          1.0 / 120,        -1.0 / 6,        1};
    static const double cosines[] = {1.0 / 20922789888000,
                                     -1.0 / 87178291200,
                                     1.0 / 479001600,
                                     -1.0 / 3628800,
                                     1.0 / 40320,
                                     -1.0 / 720,
                                     1.0 / 24,
                                     -0.5,
                                     1};
    vd quarter = d_truncate(d_add(d_mul(u, d_set(4)), d_set(0.5))), minus = d_set(-1);
    vd a = d_mul(d_sub(u, d_mul(quarter, d_set(0.25))), d_set(6.28318530717958648)), a2 = d_mul(a, a);
    vd s = d_mul(d_polynomial(a2, sines, 8), a), c = d_polynomial(a2, cosines, 9);
    /* For quarters 0 to 4 the squares of middle are 4, 1, 0, 1, 4; those of late are below 1 for 2 and 3,
       those of early for 1 and 2. */
    vd middle = d_sub(quarter, d_set(2)), late = d_sub(quarter, d_set(2.5)),
       early = d_sub(quarter, d_set(1.5));
    dm not_even = d_less(d_mul(middle, middle), d_set(2)), is_two = d_less(d_mul(middle, middle), d_set(0.5));
    vd first = d_select(is_two, s, d_select(not_even, c, s));
    vd second = d_select(is_two, c, d_select(not_even, s, c));
    *sine = d_select(d_less(d_mul(late, late), d_set(1)), d_mul(first, minus), first);
    *cosine = d_select(d_less(d_mul(early, early), d_set(1)), d_mul(second, minus), second);
}

/* Two normals from each of DLEN pairs of words. */
INLINE void normal_pairs(vd normal[2], vd words_u, vd words_v)
{
    vd scale = d_set(0x1p-32), sine, cosine;
    vd u = d_mul(d_add(words_u, d_set(1)), scale), v = d_mul(words_v, scale);
    vd radius = d_sqrt(d_mul(d_set(-2), d_log(u)));
    d_sincos_2pi(v, &sine, &cosine);
    normal[0] = d_mul(radius, cosine);
    normal[1] = d_mul(radius, sine);
}

static void chance_normals(float *out, uint64_t key, size_t n)
{
    enum { NORMALS = 4 * VLEN };
    for (size_t at = 0; at < n; at += NORMALS) {
        vu word[4];
        vf normal[4];
        float part[NORMALS];
        random_blocks(1, word, key, at / 4);
        UNROLLED
        for (int pair = 0; pair < 4; pair += 2) {
            vd low[2], high[2];
            normal_pairs(low, d_low(word[pair]), d_low(word[pair + 1]));
            normal_pairs(high, d_high(word[pair]), d_high(word[pair + 1]));
            normal[pair] = v_rounded(low[0], high[0]);
            normal[pair + 1] = v_rounded(low[1], high[1]);
        }
        u_store4((uint32_t *)(void *)part, u_from(normal[0]), u_from(normal[1]), u_from(normal[2]),
                 u_from(normal[3]));
        memcpy(out + at, part, (n - at < NORMALS ? n - at : NORMALS) * sizeof *out);
    }
}

#define SIMD_RANDOM .chance.normals = chance_normals

#endif
