/* Functions that the bodies share: partial loads and stores, and exp, the normal tail and the angle of two
   unit vectors as polynomials. We fitted all of them to the smallest maximum relative error (Remez exchange
   by Lawson's weights, in double). The stated errors are those of the polynomials in exact arithmetic, in
   units of 2^-24; rounding adds about one. Include a vec_*.h first.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_MATH_H
#define KERNELS_SIMD_MATH_H

#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))

/* Unrolls a loop whose count is constant after inlining, so that arrays of vectors that it indexes stay in
   registers. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* The words v_flush and v_flush_end of a vec_*.h: between them, every float instruction of this thread treats
   operands and results under 2^-126 as 0. The compiler does not know about it, so they may only surround
   calls of NOT_INLINED functions. */
#define NOT_INLINED static __attribute__((noinline))

/* Loads and stores a vector of which `left` floats exist; missing lanes are loaded as 0. */
INLINE vf v_get(const float *p, size_t left)
{
    return left >= VLEN ? v_load(p) : v_load_part(p, left, v_zero());
}

INLINE void v_put(float *p, vf a, size_t left)
{
    if (left >= VLEN)
        v_store(p, a);
    else
        v_store_part(p, a, left);
}

/* sum of coefficient[k] x^k, k < count, by Horner's rule. */
INLINE vf v_polynomial(vf x, const float *coefficient, int count)
{
    vf sum = v_set(coefficient[count - 1]);
    UNROLLED
    for (int k = count - 2; k >= 0; k--)
        sum = v_fma(sum, x, v_set(coefficient[k]));
    return sum;
}

/* exp(x + low) for x <= 88 and tiny |low|; 0 from about the smallest normal number down. Cody and Waite: x =
   n ln 2 + r with ln 2 in two pieces, the first short enough that n times it is exact; exp r = 1 + r + r^2
   P(r), error 0.05. */
INLINE vf v_exp_any(vf x, const bool with_low, vf low)
{
    static const float tail[] = {0.49999994f, 0.166665196f, 0.0416684002f, 0.00836885069f, 0.00138143206f};
    x = v_max(v_set(-105.0f), x); /* this order keeps a NaN */
    vf n = v_round(v_mul(x, v_set(1.44269504f)));
    vf r = v_fnma(n, v_set(-2.12194440e-4f), v_fnma(n, v_set(0.693359375f), x));
    if (with_low)
        r = v_add(r, low);
    vf p = v_fma(v_polynomial(r, tail, 5), r, v_set(1.0f));
    return v_scale(v_fma(p, r, v_set(1.0f)), n);
}

INLINE vf v_exp(vf x)
{
    return v_exp_any(x, false, x);
}

/* The normal distribution at -t for 0 <= t: *density = exp(-t^2 / 2); returns Phi(-t) = density * N(z), z =
   (1 - t / 3) / (1 + t / 3) approximately, error 0.2. Around t = 3, where the tolerance is tightest, z is
   small, and so are its rounding and the terms. t^2 is computed in two pieces, because exp magnifies its
   rounding. */
INLINE vf v_normal_tail(vf t, vf *density)
{
    static const float mills[] = {0.120479859f,   0.205162495f,    0.123554103f,    0.0473224521f,
                                  0.00690759253f, -0.00274331239f, -0.00106397504f, 0.000305644906f,
                                  0.00012559288f, -5.04482523e-05f};
    vf one = v_set(1.0f), third = v_set(0.33f);
    t = v_min(v_set(14.5f), t); /* exp is 0 there */
    vf square = v_mul(t, t);
    vf rounding = v_mul(v_fnma(t, t, square), v_set(0.5f));
    vf z = v_div(v_fnma(t, third, one), v_fma(t, third, one));
    *density = v_exp_any(v_mul(square, v_set(-0.5f)), true, rounding);
    return v_mul(*density, v_polynomial(z, mills, 10));
}

/* The angle 2 asin(sqrt(w) / 2) of two unit vectors whose squared distance is w, 0 <= w <= 2; error 0.04. */
INLINE vf v_angle(vf w)
{
    static const float series[] = {
        1.0f,          0.041666504f,   0.00468956166f, 0.000687559368f, 0.000142627119f, -9.79548895e-6f,
        2.7973041e-5f, -8.8390143e-6f, 1.95914959e-6f};
    return v_mul(v_sqrt(w), v_polynomial(w, series, 9));
}

/* log x for normal x > 0; a finite number for 0. x = 2^e m with m from 1 / sqrt 2 to sqrt 2; log m = 2
   atanh(s), s = (m - 1) / (m + 1); its series to s^9 has an error of 2^-28. */
INLINE vf v_log(vf x)
{
    static const float series[] = {2.0f, 0.666666667f, 0.4f, 0.285714286f, 0.222222222f};
    vu bits = u_add(u_from(x), u_set(0x3f800000u - 0x3f3504f3u)); /* maps sqrt 1/2 to 1 */
    /* The exponent as the low bits of 2^23 + exponent. */
    vf e = v_sub(v_from(u_or(u_right(bits, 23), u_set(0x4b000000u))), v_set(8388608.0f + 127.0f));
    vf m = v_from(u_add(u_and(bits, u_set(0x007fffffu)), u_set(0x3f3504f3u)));
    vf s = v_div(v_sub(m, v_set(1.0f)), v_add(m, v_set(1.0f)));
    vf log_m = v_mul(s, v_polynomial(v_mul(s, s), series, 5));
    return v_fma(e, v_set(0.693359375f), v_fma(e, v_set(-2.12194440e-4f), log_m));
}

/* x^n by repeated squaring. */
INLINE vf v_power(vf x, unsigned n)
{
    vf power = v_set(1.0f);
    for (; n > 0; n /= 2) {
        if (n & 1)
            power = v_mul(power, x);
        x = v_mul(x, x);
    }
    return power;
}

#endif
