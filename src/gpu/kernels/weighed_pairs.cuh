/* Gradients of unit rows from the pairs of one hash, each with a weight of its own: the derivative of the collision
   probability (gradient true), or that at 0.99 of the cosine, once for a pair (released). docs/MATH.md, section 4, has
   the formulas. Angles come from differences and sums of rows, because a dot product has lost those near 0. A warp has a
   row and takes its partners one by one, in the order of the sort.
   Cost of a row with p partners: 8 d p operations on plain cores, and 2 d p numbers read; released also 2 m p codes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_WEIGHED_PAIRS_CUH
#define GPU_WEIGHED_PAIRS_CUH

#include "pairs.cuh"

enum { WEIGH_WARPS = 8 };

/* The angle of two unit rows whose squared distance is w, 0 <= w <= 2: that of simd_math.h. Calls no function of a library. */
GPU_FN float angle_of(float w)
{
    float p = 1.95914959e-6f;
    p = __fmaf_rn(p, w, -8.8390143e-6f);
    p = __fmaf_rn(p, w, 2.7973041e-5f);
    p = __fmaf_rn(p, w, -9.79548895e-6f);
    p = __fmaf_rn(p, w, 0.000142627119f);
    p = __fmaf_rn(p, w, 0.000687559368f);
    p = __fmaf_rn(p, w, 0.00468956166f);
    p = __fmaf_rn(p, w, 0.041666504f);
    return __fsqrt_rn(w) * __fmaf_rn(p, w, 1.0f);
}

/* tau / (p pi s), and the sign of the cosine, from |o - c|^2 and |o + c|^2 of unit rows. 0 for equal and for opposite rows,
   which have no direction. */
GPU_FN float tangent_weight(float differ, float agree, int tau, float *sign)
{
    bool opposite = agree < differ;
    float angle = angle_of(opposite ? agree : differ), chance = opposite ? angle : 3.14159265f - angle;
    float product = chance * __fsqrt_rn(differ * agree);
    *sign = opposite ? -1.0f : 1.0f;
    return product > 0 ? 2 * (float)tau / product : 0;
}

/* tau p^(tau - 1) / (pi s) at 0.99 of the cosine. */
GPU_FN float shrunk_weight(float cosine, int tau)
{
    float y = 0.99f * cosine, angle = angle_of(2 - 2 * (y < 0 ? -y : y)) * 0.318309886f, chance = y < 0 ? angle : 1 - angle;
    float power = 0.318309886f * (float)tau;
    for (int b = 1; b < tau; b++) power *= chance;
    return power / __fsqrt_rn((1 - y) * (1 + y));
}

/* In how many hashes row `own` of one side and row `other` of the other side collide. */
GPU_FN int collisions_of(const gpu_pairs &p, const gpu_unit &unit, size_t own, size_t other)
{
    const unsigned char *codes = array_at<const unsigned char>(p.codes);
    const uint16_t *a = codes_of(codes, unit, (int)p.own) + own, *b = codes_of(codes, unit, 1 - (int)p.own) + other;
    size_t from_a = codes_stride(unit, (int)p.own), from_b = codes_stride(unit, 1 - (int)p.own);
    int count = 0;
    for (unsigned h = lane_id(); h < p.num_hashes; h += WARP) count += a[h * from_a] == b[h * from_b];
    for (int step = WARP / 2; step > 0; step /= 2) count += __shfl_xor_sync(FULL, count, step);
    return count;
}

/* Grid (ceil(longest / WEIGH_WARPS), units), WEIGH_WARPS warps. */
template <int D> GPU_FN void weigh_pairs(const gpu_pairs &p, const gpu_unit *units)
{
    enum { V = D / WARP };
    const gpu_unit unit = units[blockIdx.y];
    int own_side = (int)p.own, at = (int)(blockIdx.x * WEIGH_WARPS + warp_id()), lane = (int)lane_id();
    if (at >= (int)of_side(unit.rows, own_side)) return;
    sorted_rows own = sorted_at(p, own_side), other = sorted_at(p, 1 - own_side);
    size_t start = (size_t)blockIdx.y * p.longest, row = own.rows[at];
    const uint32_t *kept = array_at<const uint32_t>(p.kept);
    const unsigned char *codes = array_at<const unsigned char>(p.codes);
    const float *inverses = inverse_of(codes, unit, 1 - own_side);
    const numbers a = numbers_of(p.a, (start + row) * D + lane), x = numbers_of(p.own_rows, (start + row) * D + lane);
    float *out = array_at<float>(p.out) + (start + row) * D + lane, scale = inverse_of(codes, unit, own_side)[row];
    float bias = p.own_bias ? array_at<const float>(p.own_bias)[start + row] : 0.0f, mine[V], unit_row[V], sum[V] = {};
    uint32_t place = p.causal ? place_of(unit, own_side, kept, (uint32_t)row) : 0, code = own.codes[at];
#pragma unroll
    for (int v = 0; v < V; v++) {
        mine[v] = a[v * WARP];
        unit_row[v] = x[v * WARP] * scale;
    }
    for (uint32_t i = other.starts[code]; i < other.starts[code + 1]; i++) {
        size_t partner = other.rows[i];
        if (p.causal) {
            uint32_t theirs = place_of(unit, 1 - own_side, kept, (uint32_t)partner);
            if (own_side == GPU_QUERIES ? theirs > place : theirs < place) continue;
        }
        const numbers b = numbers_of(p.b, (start + partner) * D + lane), c = numbers_of(p.c, (start + partner) * D + lane);
        float score = 0, differ = 0, agree = 0, cosine = 0, theirs[V], sign = 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            theirs[v] = c[v * WARP] * inverses[partner];
            score = __fmaf_rn(mine[v], b[v * WARP], score);
            differ = __fmaf_rn(unit_row[v] - theirs[v], unit_row[v] - theirs[v], differ);
            agree = __fmaf_rn(unit_row[v] + theirs[v], unit_row[v] + theirs[v], agree);
            cosine = __fmaf_rn(unit_row[v], theirs[v], cosine);
        }
        float weight = warp_sum(score) + bias;
        if (p.other_bias) weight += array_at<const float>(p.other_bias)[start + partner];
        if (p.released)
            weight *= shrunk_weight(warp_sum(cosine), (int)p.hash_bits) / (float)collisions_of(p, unit, row, partner);
        else
            weight *= tangent_weight(warp_sum(differ), warp_sum(agree), (int)p.hash_bits, &sign);
#pragma unroll
        for (int v = 0; v < V; v++) sum[v] = __fmaf_rn(weight, theirs[v] - sign * unit_row[v], sum[v]);
    }
#pragma unroll
    for (int v = 0; v < V; v++) out[v * WARP] += sum[v];
}

#endif
