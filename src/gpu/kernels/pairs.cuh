/* Gradients of unit rows from the pairs of one hash, in three forms: partners one by one for rows that have few,
   tiles of pairs on tensor cores, and for dense buckets the d x d matrix of the partners, which costs time linear
   in the rows of a bucket. Each row has one owner and a fixed order in all, and hashes follow one another.
   For dQ: a = dX, b = V, c = K. For dK: a = V, b = dX, c = Q.
   Cost of a row with p partners: 4 d p operations one by one, on plain cores; in tiles the same on tensor cores
   (three times for float32), but for at least 8 partners; 2 d^2 in a dense bucket. The first two read 2 d p numbers, of
   which those of bfloat16 arrays are half as large.
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
    return a * b > (a + b) * p.dense;
}

enum { PAIR_WARPS = 4, PAIR_ROWS = 16, FEW_PARTNERS = 2 };

/* One row's partners one by one: the warp adds to out (D) of the row. */
template <int D>
GPU_FN void gather_partners(const gpu_pairs &p, const gpu_unit &unit, const sorted_rows &own, const sorted_rows &other,
                            int at, int begin, int end)
{
    enum { V = D / WARP };
    int own_side = (int)p.own, lane = (int)lane_id();
    size_t start = (size_t)blockIdx.y * p.longest, row = own.rows[at];
    const uint32_t *kept = array_at<const uint32_t>(p.kept);
    const numbers a = numbers_of(p.a, (start + row) * D + lane);
    const float *inverses = inverse_of(array_at<const unsigned char>(p.codes), unit, 1 - own_side);
    float *out = array_at<float>(p.out) + (start + row) * D + lane;
    uint32_t place = p.causal ? place_of(unit, own_side, kept, (uint32_t)row) : 0;
    float bias = p.own_bias ? array_at<const float>(p.own_bias)[start + row] : 0.0f, mine[V], sum[V] = {};
#pragma unroll
    for (int v = 0; v < V; v++) mine[v] = a[v * WARP];
    for (int i = begin; i < end; i++) {
        size_t partner = other.rows[i];
        if (p.causal) {
            uint32_t theirs = place_of(unit, 1 - own_side, kept, (uint32_t)partner);
            if (own_side == GPU_QUERIES ? theirs > place : theirs < place) continue;
        }
        const numbers b = numbers_of(p.b, (start + partner) * D + lane), c = numbers_of(p.c, (start + partner) * D + lane);
        float dot = 0, theirs[V];
#pragma unroll
        for (int v = 0; v < V; v++) {
            theirs[v] = c[v * WARP];
            dot = __fmaf_rn(mine[v], b[v * WARP], dot);
        }
        float weight = warp_sum(dot) + bias;
        if (p.other_bias) weight += array_at<const float>(p.other_bias)[start + partner];
        weight *= inverses[partner];
#pragma unroll
        for (int v = 0; v < V; v++) sum[v] = __fmaf_rn(weight, theirs[v], sum[v]);
    }
#pragma unroll
    for (int v = 0; v < V; v++) out[v * WARP] += sum[v];
}

/* A warp has PAIR_ROWS rows, in order of code. If they have at most FEW_PARTNERS on average, it takes them one by
   one, and otherwise walks all partners in tiles of 8. SPLIT: three products of tf32 for one, which keeps float32's
   precision. Grid (ceil(longest / (PAIR_WARPS * PAIR_ROWS)), units), PAIR_WARPS
   warps. */
template <int D, bool SPLIT> GPU_FN void pair_gradient(const gpu_pairs &p, const gpu_unit *units)
{
    enum { CHUNKS = D / 16 }; /* of 4 columns, for each t */
    const gpu_unit unit = units[blockIdx.y];
    int lane = (int)lane_id(), g = lane / 4, t = lane % 4, own_side = (int)p.own, n = (int)of_side(unit.rows, own_side);
    int first = ((int)blockIdx.x * PAIR_WARPS + (int)warp_id()) * PAIR_ROWS;
    if (first >= n) return;
    sorted_rows own = sorted_at(p, own_side), other = sorted_at(p, 1 - own_side);
    size_t start = (size_t)blockIdx.y * p.longest;
    const uint32_t *kept = array_at<const uint32_t>(p.kept);
    float *out = array_at<float>(p.out) + start * D;
    const numbers a = numbers_of(p.a, start * D), b = numbers_of(p.b, start * D), c = numbers_of(p.c, start * D);
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

    /* Lane l has the partners of row l. */
    int from = 0, to = 0;
    if (taking >> lane & 1) {
        from = (int)other.starts[own.codes[first + lane]];
        to = (int)other.starts[own.codes[first + lane] + 1];
    }
    int partners = to - from;
    for (int step = WARP / 2; step > 0; step /= 2) partners += __shfl_xor_sync(FULL, partners, step);
    if (partners <= FEW_PARTNERS * __popc(taking)) {
        for (int r = 0; r < PAIR_ROWS; r++) {
            int from_r = __shfl_sync(FULL, from, r), to_r = __shfl_sync(FULL, to, r);
            if (from_r < to_r) gather_partners<D>(p, unit, own, other, first + r, from_r, to_r);
        }
        return;
    }

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
            mine[r][j] = taken ? a.four((size_t)row[r] * D + 4 * (t + 4 * j)) : float4{0, 0, 0, 0};
    }
    float sum[D / 8][4] = {};
    for (int tile = begin; tile < end; tile += 8) {
        int partner = tile + g < end ? (int)other.rows[tile + g] : -1;
        float score[4] = {};
#pragma unroll
        for (int j = 0; j < CHUNKS; j++) {
            float4 theirs = partner >= 0 ? b.four((size_t)partner * D + 4 * (t + 4 * j)) : float4{0, 0, 0, 0};
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
                rows[i] = key[i] >= 0 ? c.four((size_t)key[i] * D + 4 * (g + 8 * j)) : float4{0, 0, 0, 0};
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
                if (!SPLIT) {
                    mma_tf32(sum[4 * j + i], wh, bh);
                    continue;
                }
                float part[4] = {}; /* Tensor cores truncate sums, so the sum over tiles is added here, rounded. */
                mma_tf32(part, wh, bl);
                mma_tf32(part, wl, bh);
                mma_tf32(part, wh, bh);
#pragma unroll
                for (int k = 0; k < 4; k++) sum[4 * j + i][k] += part[k];
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
   (or 1 for the rows' own) times c_j / |c_j|; then out_i += a_i and the bias times the matrix. Causal: both sides are
   walked in the order in which partners come into sight, forwards for queries and backwards for keys. A row that
   sees a part of a tile takes the matrix before the tile, and those partners of the tile one by one. Grid (2^tau,
   units), DENSE_WARPS warps, ((D + 1) D + 2 DENSE_TILE D + DENSE_TILE) 4 bytes. */
template <int D> struct dense_bucket {
    enum { THREADS = DENSE_WARPS * WARP, V = D / WARP };
    const gpu_pairs &p;
    const gpu_unit &unit;
    const uint32_t *own, *other, *kept; /* rows of the bucket */
    int num_own, num_other;
    bool ascends;
    numbers a, b, c;
    const float *inverses, *own_bias, *other_bias;
    float *out, *matrix, *left, *right, *last;

    GPU_METHOD size_t own_row(int i) const { return own[ascends ? i : num_own - 1 - i]; }
    GPU_METHOD size_t other_row(int i) const { return other[ascends ? i : num_other - 1 - i]; }
    GPU_METHOD bool sees(uint32_t place, int j) const
    {
        uint32_t theirs = place_of(unit, 1 - (int)p.own, kept, (uint32_t)other_row(j));
        return ascends ? theirs <= place : theirs >= place;
    }
    GPU_METHOD uint32_t own_place(int i) const { return place_of(unit, (int)p.own, kept, (uint32_t)own_row(i)); }

    GPU_METHOD void load_tile(int begin, int count)
    {
        for (int i = (int)threadIdx.x; i < count * D; i += THREADS) {
            size_t row = other_row(begin + i / D);
            left[i] = b[row * D + i % D];
            right[i] = c[row * D + i % D] * inverses[row];
        }
        if ((int)threadIdx.x < count) last[threadIdx.x] = other_bias ? other_bias[other_row(begin + (int)threadIdx.x)] : 1.0f;
    }
    GPU_METHOD void add_tile(int count)
    {
        for (int i = (int)threadIdx.x; i < (D + 1) * D; i += THREADS) {
            float sum = matrix[i];
            for (int j = 0; j < count; j++) sum = __fmaf_rn(i < D * D ? left[j * D + i / D] : last[j], right[j * D + i % D], sum);
            matrix[i] = sum;
        }
    }
    /* Row i of the bucket, a warp: the matrix, and of the tile at `begin` the partners that it sees. */
    GPU_METHOD void add_row(int i, int begin, int count)
    {
        int lane = (int)lane_id();
        size_t row = own_row(i);
        float sum[V] = {}, mine[V];
        float bias = own_bias ? own_bias[row] : other_bias ? 1.0f : 0.0f;
#pragma unroll
        for (int v = 0; v < V; v++) mine[v] = a[row * D + v * WARP + lane];
        for (int k = 0; k < D; k++) {
            float factor = a[row * D + k];
#pragma unroll
            for (int v = 0; v < V; v++) sum[v] = __fmaf_rn(factor, matrix[k * D + v * WARP + lane], sum[v]);
        }
#pragma unroll
        for (int v = 0; v < V; v++) sum[v] = __fmaf_rn(bias, matrix[D * D + v * WARP + lane], sum[v]);
        uint32_t place = count > 0 ? own_place(i) : 0;
        for (int j = 0; j < count && sees(place, begin + j); j++) {
            float dot = 0;
#pragma unroll
            for (int v = 0; v < V; v++) dot = __fmaf_rn(mine[v], left[j * D + v * WARP + lane], dot);
            float weight = __fmaf_rn(bias, last[j], warp_sum(dot));
#pragma unroll
            for (int v = 0; v < V; v++) sum[v] = __fmaf_rn(weight, right[j * D + v * WARP + lane], sum[v]);
        }
#pragma unroll
        for (int v = 0; v < V; v++) out[row * D + v * WARP + lane] += sum[v];
    }
    /* The first own row from `next` on that sees partner j. */
    GPU_METHOD int first_to_see(int next, int j) const
    {
        int high = num_own;
        while (next < high) {
            int middle = next + (high - next) / 2;
            if (sees(own_place(middle), j))
                high = middle;
            else
                next = middle + 1;
        }
        return next;
    }
};

template <int D> GPU_FN void dense_gradient(const gpu_pairs &p, const gpu_unit *units, unsigned char *shared)
{
    int own_side = (int)p.own, code = (int)blockIdx.x, warp = (int)warp_id(), next = 0;
    sorted_rows own = sorted_at(p, own_side), other = sorted_at(p, 1 - own_side);
    if (!is_dense(p, own, other, (uint32_t)code)) return;
    size_t start = (size_t)blockIdx.y * p.longest;
    const gpu_unit unit = units[blockIdx.y];
    float *matrix = (float *)shared, *left = matrix + (D + 1) * D, *right = left + DENSE_TILE * D;
    dense_bucket<D> bucket = {p, unit, own.rows + own.starts[code], other.rows + other.starts[code],
                              array_at<const uint32_t>(p.kept), (int)(own.starts[code + 1] - own.starts[code]),
                              (int)(other.starts[code + 1] - other.starts[code]), own_side == GPU_QUERIES,
                              numbers_of(p.a, start * D), numbers_of(p.b, start * D), numbers_of(p.c, start * D),
                              inverse_of(array_at<const unsigned char>(p.codes), unit, 1 - own_side),
                              p.own_bias ? array_at<const float>(p.own_bias) + start : nullptr,
                              p.other_bias ? array_at<const float>(p.other_bias) + start : nullptr,
                              array_at<float>(p.out) + start * D, matrix, left, right, right + DENSE_TILE * D};
    for (int i = (int)threadIdx.x; i < (D + 1) * D; i += DENSE_WARPS * WARP) matrix[i] = 0;
    for (int tile = 0; tile < bucket.num_other; tile += DENSE_TILE) {
        int count = bucket.num_other - tile < DENSE_TILE ? bucket.num_other - tile : DENSE_TILE;
        __syncthreads();
        bucket.load_tile(tile, count);
        __syncthreads();
        if (p.causal) {
            int until = bucket.first_to_see(next, tile + count - 1);
            for (int i = next + warp; i < until; i += DENSE_WARPS) bucket.add_row(i, tile, count);
            next = until;
            __syncthreads();
        }
        bucket.add_tile(count);
    }
    __syncthreads();
    for (int i = next + warp; i < bucket.num_own; i += DENSE_WARPS) bucket.add_row(i, 0, 0);
}

#endif
