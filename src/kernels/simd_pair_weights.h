/* The weights of the pairs of a block other than a constant, from their sums: vector loops over all pairs,
   about 30 operations each. Slot pairs.bucket has the formulas.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_PAIR_WEIGHTS_H
#define KERNELS_SIMD_PAIR_WEIGHTS_H

#include "kernels/simd_pair_sums.h"
#include "kernels/slots_pairs.h"

/* v2 below this is not computed as 4 - u2. */
#define PAIR_OPPOSITE 0.25f

/* v2 = |q + k|^2 of pairs [first, first + left) of a block, recomputed from the rows for nearly opposite
   pairs. Such pairs rarely collide, and only with few bits. */
static vf pair_opposite(vf v2, size_t first, size_t left, const struct pair_side *queries,
                        const struct pair_side *keys, size_t dim)
{
    size_t step = keys->count;
    float lanes[VLEN];
    v_store(lanes, v2);
    for (size_t l = 0; l < left; l++) {
        size_t query = (first + l) / step, key = (first + l) % step;
        if (lanes[l] >= PAIR_OPPOSITE)
            continue;
        const float *q = queries->x + queries->rows[query] * queries->ld;
        const float *k = keys->x + keys->rows[key] * keys->ld;
        double sum = 0;
        for (size_t c = 0; c < dim; c++)
            sum += ((double)q[c] + (double)k[c]) * ((double)q[c] + (double)k[c]);
        lanes[l] = (float)sum;
    }
    return v_load(lanes);
}

/* weight *= hash_bits / (p pi s) for a block, from u2 = |q - k|^2; also writes sigma. v2 = |q + k|^2 is 4 -
   u2 for rows of length 1, as accurate as its own sum unless it is small. (A row of length 0 gets some finite
   weight, and so adds multiples of its partner, which the projection on the tangent removes.) */
INLINE void pair_tangent(float *weight, float *sigma, const float *u2, const struct pair_side *queries,
                         const struct pair_side *keys, size_t dim, unsigned hash_bits, float least_sine)
{
    size_t size = queries->count * keys->count;
    vf least = v_set(4.0f * least_sine * least_sine); /* the least (2 s)^2 = u2 v2 */
    vf zero = v_zero(), one = v_set(1.0f), bits = v_set(2.0f * (float)hash_bits);
    for (size_t i = 0; i < size; i += VLEN) {
        size_t left = size - i < VLEN ? size - i : VLEN;
        vf u = v_get(u2 + i, left), v = v_sub(v_set(4.0f), u);
        if (v_count(v_less(v, v_set(PAIR_OPPOSITE)), left) > 0)
            v = pair_opposite(v, i, left, queries, keys, dim);
        vm opposite = v_less(v, u);
        vf angle = v_angle(v_select(opposite, v, u));
        vf p_pi = v_select(opposite, angle, v_sub(v_set(3.14159265f), angle));
        vf product = v_mul(p_pi, v_sqrt(v_max(v_mul(u, v), least)));
        vf steep = v_select(v_less(zero, product), v_div(bits, product), zero);
        v_put(weight + i, v_mul(v_get(weight + i, left), steep), left);
        v_put(sigma + i, v_select(opposite, v_sub(zero, one), one), left);
    }
}

/* weight *= hash_bits p^(hash_bits - 1) / (pi s) at PAIR_SHRINK times the cosines x. */
INLINE void pair_shrunk(float *weight, const float *x, size_t size, unsigned hash_bits)
{
    vf one = v_set(1.0f), two = v_set(2.0f), shrink = v_set(PAIR_SHRINK);
    vf per_pi = v_set(0.318309886f), bits_per_pi = v_set(0.318309886f * (float)hash_bits);
    for (size_t i = 0; i < size; i += VLEN) {
        size_t left = size - i < VLEN ? size - i : VLEN;
        vf y = v_mul(shrink, v_get(x + i, left));
        vf angle_part = v_mul(v_angle(v_fnma(two, v_abs(y), two)), per_pi);
        vf p = v_select(v_less(y, v_zero()), angle_part, v_sub(one, angle_part));
        vf sine = v_sqrt(v_mul(v_sub(one, y), v_add(one, y)));
        vf steep = v_div(v_mul(bits_per_pi, v_power(p, hash_bits - 1)), sine);
        v_put(weight + i, v_mul(v_get(weight + i, left), steep), left);
    }
}

/* weight *= times, for a block whose first pair is at times. */
INLINE void pair_times(float *weight, const float *times, size_t ld, size_t queries, size_t keys)
{
    for (size_t q = 0; q < queries; q++)
        v_put(weight + q * keys, v_mul(v_get(weight + q * keys, keys), v_get(times + q * ld, keys)), keys);
}

/* weight = (weight + bias of the query) * scale */
INLINE void pair_biased(float *weight, const float *bias, const struct pair_side *queries, size_t keys,
                        float scale)
{
    for (size_t q = 0; q < queries->count; q++) {
        vf sum = v_add(v_get(weight + q * keys, keys), v_set(bias[queries->rows[q]]));
        v_put(weight + q * keys, v_mul(sum, v_set(scale)), keys);
    }
}

#endif
