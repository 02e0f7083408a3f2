/* Gradients of unit rows from the pairs of one hash, in two forms: tiles of pairs on tensor cores, and for dense
   buckets the d x d matrix of the partners, which costs time linear in the rows of a bucket. Each row has one
   owner and a fixed order in both, and hashes follow one another.
   For dQ: a = dX, b = V, c = K. For dK: a = V, b = dX, c = Q.
   Cost with p partners on average: 4 d p operations for a row in tiles, 2 d^2 in a dense bucket.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_PAIRS_CUH
#define GPU_PAIRS_CUH

#include "rows.cuh"

struct sorted_rows { /* of one hash and side */
    const uint32_t *rows, *starts;
    const uint16_t *codes;
};

GPU_FN sorted_rows sorted_at(const gpu_pairs &p, int side)
{
    size_t at = (size_t)blockIdx.y * p.hashes + p.hash;
    return {array_at<const uint32_t>(p.order[side].rows) + at * p.ld,
            array_at<const uint32_t>(p.order[side].starts) + at * (((size_t)1 << p.hash_bits) + 1),
            array_at<const uint16_t>(p.order[side].codes) + at * p.ld};
}

GPU_FN bool is_dense(const gpu_pairs &p, const sorted_rows &own, const sorted_rows &other, uint32_t code)
{
    uint64_t a = own.starts[code + 1] - own.starts[code], b = other.starts[code + 1] - other.starts[code];
    return p.dense > 0 && a * b > (a + b) * p.dense;
}

enum { PAIR_WARPS = 4, PAIR_ROWS = 16 };

/* A warp has PAIR_ROWS rows, in order of code, and walks their partners in tiles of 8. SPLIT: three products of tf32
   for one, which keeps float32's precision. Grid (ceil(longest / (PAIR_WARPS * PAIR_ROWS)), units), PAIR_WARPS
   warps. */
template <int D, bool SPLIT> GPU_FN void pair_gradient(const gpu_pairs &p, const gpu_unit *units)
{
    enum { CHUNKS = D / 16 }; /* of 4 columns, for each t */
    const gpu_unit unit = units[blockIdx.y];
    int lane = (int)lane_id(), g = lane / 4, t = lane % 4, own_side = (int)p.own, n = (int)unit.rows[own_side];
    int first = ((int)blockIdx.x * PAIR_WARPS + (int)warp_id()) * PAIR_ROWS;
    if (first >= n) return;
    sorted_rows own = sorted_at(p, own_side), other = sorted_at(p, 1 - own_side);
    size_t start = (size_t)blockIdx.y * p.longest;
    const uint32_t *kept = array_at<const uint32_t>(p.kept);
    float *out = array_at<float>(p.out) + start * D;
    const float *a = array_at<const float>(p.a) + start * D, *b = array_at<const float>(p.b) + start * D;
    const float *c = array_at<const float>(p.c) + start * D;
    const float *inverses = inverse_of(array_at<const unsigned char>(p.codes), unit, 1 - own_side);
    const float *own_bias = p.own_bias ? array_at<const float>(p.own_bias) + start : nullptr;
    const float *other_bias = p.other_bias ? array_at<const float>(p.other_bias) + start : nullptr;

    /* Rows of dense buckets are left out: they are at the ends of the run, because a dense bucket is longer. */
    bool counts = first + lane % PAIR_ROWS < n && !is_dense(p, own, other, own.codes[first + lane % PAIR_ROWS]);
    uint32_t taking = __ballot_sync(FULL, counts) & 0xffffu;
    if (taking == 0) return;
    uint32_t low_code = own.codes[first + __ffs((int)taking) - 1], high_code = own.codes[first + 31 - __clz((int)taking)];
    int begin = (int)other.starts[low_code], end = (int)other.starts[high_code + 1];
    if (begin >= end) return; /* no partners: adds nothing */

    /* A operand: rows g and g + 8; column 4 (t + 4 j) + i has the place of step 2 j + i / 2, half i % 2. */
    int row[2], code[2], place[2];
    float bias[2];
    float4 mine[2][CHUNKS];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        bool taken = taking >> (g + 8 * r) & 1;
        row[r] = taken ? (int)own.rows[first + g + 8 * r] : -1;
        code[r] = taken ? own.codes[first + g + 8 * r] : -1;
        place[r] = taken && p.causal ? (int)place_of(unit, own_side, kept, (uint32_t)row[r]) : 0;
        bias[r] = taken && own_bias != nullptr ? own_bias[row[r]] : 0.0f;
#pragma unroll
        for (int j = 0; j < CHUNKS; j++)
            mine[r][j] = taken ? *(const float4 *)(a + (size_t)row[r] * D + 4 * (t + 4 * j)) : float4{0, 0, 0, 0};
    }
    float sum[D / 8][4] = {};
    for (int tile = begin; tile < end; tile += 8) {
        int partner = tile + g < end ? (int)other.rows[tile + g] : -1;
        float score[4] = {};
#pragma unroll
        for (int j = 0; j < CHUNKS; j++) {
            float4 theirs = partner >= 0 ? *(const float4 *)(b + (size_t)partner * D + 4 * (t + 4 * j)) : float4{0, 0, 0, 0};
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float av[4] = {half ? mine[0][j].z : mine[0][j].x, half ? mine[1][j].z : mine[1][j].x,
                               half ? mine[0][j].w : mine[0][j].y, half ? mine[1][j].w : mine[1][j].y};
                float bv[2] = {half ? theirs.z : theirs.x, half ? theirs.w : theirs.y};
                uint32_t ah[4], al[4], bh[2], bl[2];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    ah[i] = SPLIT ? tf32_of(av[i]) : to_tf32(av[i]);
                    if (SPLIT) al[i] = to_tf32(av[i] - __uint_as_float(ah[i]));
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    bh[i] = SPLIT ? tf32_of(bv[i]) : to_tf32(bv[i]);
                    if (SPLIT) bl[i] = to_tf32(bv[i] - __uint_as_float(bh[i]));
                }
                if (SPLIT) {
                    mma_tf32(score, ah, bl);
                    mma_tf32(score, al, bh);
                }
                mma_tf32(score, ah, bh);
            }
        }
        /* score[i]: row g + 8 (i / 2), partner tile + 2 t + i % 2. As the A operand of the next product, place t of its
           step is partner 2 t and place t + 4 is partner 2 t + 1: no number changes its lane. */
        int key[2], key_code[2], key_place[2];
        float inverse[2], key_bias[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int at = tile + 2 * t + i;
            key[i] = at < end ? (int)other.rows[at] : -1;
            key_code[i] = at < end ? other.codes[at] : -2;
            key_place[i] = at < end && p.causal ? (int)place_of(unit, 1 - own_side, kept, (uint32_t)key[i]) : 0;
            inverse[i] = at < end ? inverses[key[i]] : 0.0f;
            key_bias[i] = at < end && other_bias != nullptr ? other_bias[key[i]] : 0.0f;
        }
        float weight[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool seen = own_side == GPU_QUERIES ? key_place[i % 2] <= place[i / 2] : key_place[i % 2] >= place[i / 2];
            bool meets = code[i / 2] == key_code[i % 2] && seen;
            weight[i] = meets ? (score[i] + bias[i / 2] + key_bias[i % 2]) * inverse[i % 2] : 0.0f;
        }
        float wv[4] = {weight[0], weight[2], weight[1], weight[3]};
        uint32_t wh[4], wl[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            wh[i] = SPLIT ? tf32_of(wv[i]) : to_tf32(wv[i]);
            if (SPLIT) wl[i] = to_tf32(wv[i] - __uint_as_float(wh[i]));
        }
        /* B operand: place g of column tile 4 j + i is column 4 (g + 8 j) + i. */
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            float4 rows[2];
#pragma unroll
            for (int i = 0; i < 2; i++)
                rows[i] = key[i] >= 0 ? *(const float4 *)(c + (size_t)key[i] * D + 4 * (g + 8 * j)) : float4{0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float bv[2] = {i == 0 ? rows[0].x : i == 1 ? rows[0].y : i == 2 ? rows[0].z : rows[0].w,
                               i == 0 ? rows[1].x : i == 1 ? rows[1].y : i == 2 ? rows[1].z : rows[1].w};
                uint32_t bh[2], bl[2];
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    bh[k] = SPLIT ? tf32_of(bv[k]) : to_tf32(bv[k]);
                    if (SPLIT) bl[k] = to_tf32(bv[k] - __uint_as_float(bh[k]));
                }
                if (SPLIT) {
                    mma_tf32(sum[4 * j + i], wh, bl);
                    mma_tf32(sum[4 * j + i], wl, bh);
                }
                mma_tf32(sum[4 * j + i], wh, bh);
            }
        }
    }
    /* sum[4 j + i][k]: row g + 8 (k / 2), column 4 (2 t + k % 2 + 8 j) + i. */
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if (row[r] < 0) continue;
#pragma unroll
        for (int j = 0; j < D / 32; j++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float4 *to = (float4 *)(out + (size_t)row[r] * D + 4 * (2 * t + k + 8 * j));
                float4 old = *to;
                *to = {old.x + sum[4 * j][2 * r + k], old.y + sum[4 * j + 1][2 * r + k], old.z + sum[4 * j + 2][2 * r + k],
                       old.w + sum[4 * j + 3][2 * r + k]};
            }
    }
}

enum { DENSE_WARPS = 8, DENSE_TILE = 8 };

/* A dense bucket is a block. matrix (D + 1, D) = the sum over partners j of b_j and, in the last row, of their bias
   (or 1 for the rows' own) times c_j / |c_j|; then out_i += a_i and the bias times the matrix. Not for causal
   calls. Grid (2^tau, units), DENSE_WARPS warps, ((D + 1) D + 2 DENSE_TILE D + DENSE_TILE) 4 bytes. */
template <int D> GPU_FN void dense_gradient(const gpu_pairs &p, const gpu_unit *units, unsigned char *shared)
{
    int own_side = (int)p.own, thread = (int)threadIdx.x, lane = (int)lane_id(), code = (int)blockIdx.x;
    enum { THREADS = DENSE_WARPS * WARP, V = D / WARP };
    sorted_rows own = sorted_at(p, own_side), other = sorted_at(p, 1 - own_side);
    if (!is_dense(p, own, other, (uint32_t)code)) return;
    size_t start = (size_t)blockIdx.y * p.longest;
    const float *b = array_at<const float>(p.b) + start * D, *c = array_at<const float>(p.c) + start * D;
    const float *a = array_at<const float>(p.a) + start * D;
    const float *inverses = inverse_of(array_at<const unsigned char>(p.codes), units[blockIdx.y], 1 - own_side);
    float *out = array_at<float>(p.out) + start * D;
    float *matrix = (float *)shared, *left = matrix + (D + 1) * D, *right = left + DENSE_TILE * D, *last = right + DENSE_TILE * D;
    for (int i = thread; i < (D + 1) * D; i += THREADS) matrix[i] = 0;
    int begin = (int)other.starts[code], end = (int)other.starts[code + 1];
    for (int tile = begin; tile < end; tile += DENSE_TILE) {
        int count = end - tile < DENSE_TILE ? end - tile : DENSE_TILE;
        __syncthreads();
        for (int i = thread; i < count * D; i += THREADS) {
            size_t row = other.rows[tile + i / D];
            left[i] = b[row * D + i % D];
            right[i] = c[row * D + i % D] * inverses[row];
        }
        if (thread < count)
            last[thread] = p.other_bias ? (array_at<const float>(p.other_bias) + start)[other.rows[tile + thread]] : 1.0f;
        __syncthreads();
        for (int i = thread; i < (D + 1) * D; i += THREADS) {
            float sum = matrix[i];
            for (int j = 0; j < count; j++) sum = __fmaf_rn(i < D * D ? left[j * D + i / D] : last[j], right[j * D + i % D], sum);
            matrix[i] = sum;
        }
    }
    __syncthreads();
    for (int i = (int)own.starts[code] + (int)warp_id(); i < (int)own.starts[code + 1]; i += DENSE_WARPS) {
        size_t row = own.rows[i];
        float sum[V] = {};
        for (int k = 0; k < D; k++) {
            float factor = a[row * D + k];
#pragma unroll
            for (int v = 0; v < V; v++) sum[v] = __fmaf_rn(factor, matrix[k * D + v * WARP + lane], sum[v]);
        }
        float bias = p.own_bias ? (array_at<const float>(p.own_bias) + start)[row] : p.other_bias ? 1.0f : 0.0f;
#pragma unroll
        for (int v = 0; v < V; v++)
            out[row * D + v * WARP + lane] += __fmaf_rn(bias, matrix[D * D + v * WARP + lane], sum[v]);
    }
}

#endif
