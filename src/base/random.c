/* Philox words, derived keys, and normals by Box and Muller with our own log and sine/cosine. The polynomials
   are Taylor/Chebyshev forms in double with a fixed order of operations. IEEE add, multiply, divide and
   square root are correctly rounded, so the bits are the same on every machine.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <math.h>
#include <Random123/philox.h>
#include <string.h>

void random_words(uint64_t key, uint64_t index, uint32_t words[4])
{
    philox4x32_ctr_t counter = {{(uint32_t)index, (uint32_t)(index >> 32), 0, 0}};
    philox4x32_key_t pair = {{(uint32_t)key, (uint32_t)(key >> 32)}};
    philox4x32_ctr_t out = philox4x32(counter, pair);
    memcpy(words, out.v, sizeof out.v);
}

uint64_t random_key(uint64_t parent, enum random_purpose purpose, uint64_t index)
{
    /* Counter words 2 and 3 are never 0 here and always 0 in random_words: a key is never a sample. */
    philox4x32_ctr_t counter = {{(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)purpose, 0x6b657973u}};
    philox4x32_key_t pair = {{(uint32_t)parent, (uint32_t)(parent >> 32)}};
    philox4x32_ctr_t out = philox4x32(counter, pair);
    return (uint64_t)out.v[1] << 32 | out.v[0];
}

struct random random_open(uint64_t key)
{
    return (struct random){.key = key, .index = 0, .words = {0}, .left = 0};
}

uint32_t random_next(struct random *random)
{
    if (random->left == 0) {
        random_words(random->key, random->index++, random->words);
        random->left = 4;
    }
    return random->words[4 - random->left--];
}

uint32_t random_below(struct random *random, uint32_t bound)
{
    /* Rejects words below 2^32 mod bound, so that every residue has the same number of words. */
    uint32_t refused = (uint32_t)-bound % bound;
    for (;;) {
        uint32_t word = random_next(random);
        if (word >= refused)
            return word % bound;
    }
}

float random_unit(struct random *random)
{
    return (float)(random_next(random) >> 8) * 0x1p-24f;
}

/* log(x) for a normal x > 0: x = 2^e m, m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)). */
static double own_log(double x)
{
    static const double odd[] = {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3};
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1022;
    bits = (bits & 0x000fffffffffffffu) | 0x3fe0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m); /* in [1/2, 1) */
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double z = (m - 1) / (m + 1), z2 = z * z; /* |z| < 0.1716: eight terms leave 1e-15 */
    double series = odd[0];
    for (size_t k = 1; k < sizeof odd / sizeof *odd; k++)
        series = series * z2 + odd[k];
    return exponent * 0.69314718055994531 + 2 * z * (series * z2 + 1);
}

/* sin and cos of 2 pi u, u in [0, 1): reduced to |angle| <= pi/4, then Taylor to below 1e-15. */
static void own_sincos_2pi(double u, double *sine, double *cosine)
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
    int quarter = (int)(u * 4 + 0.5);
    double a = (u - quarter * 0.25) * 6.28318530717958648, a2 = a * a;
    double s = sines[0], c = cosines[0];
    for (size_t k = 1; k < sizeof sines / sizeof *sines; k++)
        s = s * a2 + sines[k];
    for (size_t k = 1; k < sizeof cosines / sizeof *cosines; k++)
        c = c * a2 + cosines[k];
    s *= a;
    switch (quarter & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
    }
}

void random_normals(uint64_t key, uint64_t first, float *out, size_t n)
{
    /* Four normals per block of words. u in (0, 1] keeps the logarithm finite. */
    uint64_t block = first / 4;
    size_t lane = (size_t)(first % 4), done = 0;
    while (done < n) {
        uint32_t words[4];
        float normals[4];
        random_words(key, block++, words);
        for (int pair = 0; pair < 2; pair++) {
            double u = ((double)words[2 * pair] + 1) * 0x1p-32, v = (double)words[2 * pair + 1] * 0x1p-32;
            double radius = sqrt(-2 * own_log(u)), s, c;
            own_sincos_2pi(v, &s, &c);
            normals[2 * pair] = (float)(radius * c);
            normals[2 * pair + 1] = (float)(radius * s);
        }
        for (; lane < 4 && done < n; lane++)
            out[done++] = normals[lane];
        lane = 0;
    }
}

void random_permutation(uint64_t key, uint32_t *out, size_t n)
{
    struct random random = random_open(key);
    for (size_t i = 0; i < n; i++) {
        size_t j = random_below(&random, (uint32_t)i + 1);
        out[i] = out[j];
        out[j] = (uint32_t)i;
    }
}

void random_signs(uint64_t key, float *out, size_t n)
{
    struct random random = random_open(key);
    uint32_t word = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 32 == 0)
            word = random_next(&random);
        out[i] = (word >> (i % 32) & 1) ? 1.0f : -1.0f;
    }
}
