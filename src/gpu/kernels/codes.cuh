/* Hash codes, equal to the CPU's to the bit (projection int16-dp): rows and planes as 16-bit integers, their
   products exact in 32 bits. A 16-bit number is 256 high + low, high signed and low not, so a product of two is
   four products of bytes, which tensor cores add: 256 (256 hh + hl + lh) + ll, modulo 2^32.
   Codes are hash-major, 16 bits, because tables and sorting read one hash at a time.
   Cost: 8 n d m tau operations on bytes, reads every row once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_CODES_CUH
#define GPU_CODES_CUH

#include "rows.cuh"

enum { LANES = 16 }; /* planes of a group in the CPU's layout, HASH_LANES */

GPU_FN int half_of(float x) { return __float2int_rn(fminf(fmaxf(x, -32767.0f), 32767.0f)); }

/* planes: (tau, ceil(m / 16), width, 16) floats, as planes_draw makes them; permutation, sign: (turns, width).
   packed: (units, tau, octets, D / 32, 32 lanes, 4 words): B operands of products with the high (words 0, 1)
   and the low bytes (2, 3) of planes times 32767. Grid (tau octets, units), 32 threads. */
template <int D>
GPU_FN void pack_planes(uint32_t *packed, const float *planes, const uint32_t *permutation, const float *sign,
                        const gpu_unit *units, int width, int m, int tau)
{
    int octets = (m + 7) / 8, groups = (m + LANES - 1) / LANES;
    int tile = (int)blockIdx.x, bit = tile / octets, octet = tile % octets;
    int lane = (int)lane_id(), hash = octet * 8 + lane / 4;
    size_t turn = (size_t)units[blockIdx.y].turn * width;
    const float *plane = planes + (size_t)(bit * groups + hash / LANES) * width * LANES + hash % LANES;
    uint32_t *out = packed + (((size_t)blockIdx.y * tau * octets + tile) * (D / 32) * WARP + lane) * 4;
    for (int s = 0; s < D / 32; s++, out += WARP * 4)
        for (int part = 0; part < 2; part++) {
            uint32_t high = 0, low = 0;
            for (int i = 0; i < 4; i++) {
                int c = s * 32 + part * 16 + (lane % 4) * 4 + i, x = 0;
                if (hash < m && c < width)
                    x = half_of(__fmul_rn(__fmul_rn(plane[permutation[turn + c] * LANES], sign[turn + c]), 32767.0f));
                high |= ((uint32_t)(x >> 8) & 0xff) << 8 * i;
                low |= ((uint32_t)x & 0xff) << 8 * i;
            }
            out[part] = high;
            out[2 + part] = low;
        }
}

enum { HASH_WARPS = 8, TILES = 2, WARP_ROWS = 16 * TILES, HASH_ROWS = HASH_WARPS * WARP_ROWS };

/* A row whose length is near the limits of float: cleared if short, scaled by 2^-96 if huge, as mend_row of
   parts/hashing/codes.c. Rare, so every lane sums the whole row. */
template <int D> GPU_FN void mend(float *x, const numbers &row, int l, float *unscale)
{
    const float down = 1.262177448353618888658765704e-29f; /* 2^-96 */
    double square = 0;
    for (int c = 0; c < D; c++) square += (double)row[c] * (double)row[c];
    const double shortest = (double)1e-12f;
    for (int i = 0; i < D / LANES; i++) {
        float v = row[l + i * LANES];
        x[i] = square < shortest * shortest ? 0.0f : square > 1e30 ? v * down : v;
    }
    *unscale = square > 1e30 ? down : 1.0f;
}

/* The sum of squares in the CPU's order: lane c % 16 in order, then lane l adds l + 8, + 4, + 2, + 1. */
template <int D> GPU_FN float square_of(const float *x)
{
    float sum = 0;
    for (int i = 0; i < D / LANES; i++) sum = __fmaf_rn(x[i], x[i], sum);
    for (int step = LANES / 2; step > 0; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(FULL, sum, step));
    return sum;
}

/* Writes the codes of a side and 1 / |row|, 0 for a row taken as 0, into the block of codes. tiles_at_once: octets
   whose planes fit in shared memory, HASH_ROWS (2 D + 16) bytes plus tiles_at_once tau D 16. Grid (ceil(longest / HASH_ROWS), units), HASH_WARPS warps. */
template <int D>
GPU_FN void hash_rows(unsigned char *codes_block, const gpu_array &x, const uint32_t *packed, const gpu_unit *units, int side,
                      uint32_t longest, int m, int tau, int tiles_at_once, unsigned char *shared)
{
    enum { STRIDE = 2 * D + 16, STEPS = D / 32 };
    const gpu_unit unit = units[blockIdx.y];
    int n = (int)of_side(unit.rows, side), octets = (m + 7) / 8, lane = (int)lane_id(), warp = (int)warp_id();
    if ((int)blockIdx.x * HASH_ROWS >= n) return;
    uint16_t *codes = codes_of(codes_block, unit, side);
    float *inverse = (float *)(codes_block + of_side(unit.inverse, side));
    size_t ld = codes_stride(unit, side);
    int first = (int)blockIdx.x * HASH_ROWS + warp * WARP_ROWS;
    unsigned char *rows = shared + warp * WARP_ROWS * STRIDE;
    uint4 *planes = (uint4 *)(shared + HASH_ROWS * STRIDE);
    int l = lane % LANES;
    for (int r = lane / LANES; r < WARP_ROWS; r += 2) {
        int row = first + r;
        float v[D / LANES];
        const numbers from = numbers_of(x, ((size_t)blockIdx.y * longest + (row < n ? row : 0)) * D);
        for (int i = 0; i < D / LANES; i++) v[i] = row < n ? from[l + i * LANES] : 0.0f;
        float square = square_of<D>(v), unscale = 1;
        bool safe = (square > 1e-20f && square < 1e30f) || row >= n;
        if (__ballot_sync(FULL, !safe) != 0) {
            if (!safe) mend<D>(v, from, l, &unscale);
            float again = square_of<D>(v);
            square = safe ? square : again;
        }
        float scale = square > 0 ? __fdiv_rn(32767.0f, __fsqrt_rn(square)) : 0.0f;
        if (l == 0 && row < n) inverse[row] = square > 0 ? __fdiv_rn(unscale, __fsqrt_rn(square)) : 0.0f;
        for (int i = 0; i < D / LANES; i++) {
            int q = half_of(__fmul_rn(v[i], scale));
            rows[r * STRIDE + l + i * LANES] = (unsigned char)(q >> 8);
            rows[r * STRIDE + D + l + i * LANES] = (unsigned char)q;
        }
    }
    __syncwarp();
    uint32_t high[TILES][STEPS][4], low[TILES][STEPS][4];
#pragma unroll
    for (int r = 0; r < TILES; r++)
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const unsigned char *at = rows + (r * 16 + lane / 4 + 8 * (i % 2)) * STRIDE + s * 32 + 16 * (i / 2) + 4 * (lane % 4);
                high[r][s][i] = *(const uint32_t *)at;
                low[r][s][i] = *(const uint32_t *)(at + D);
            }
    __syncwarp();
    uint16_t *staged = (uint16_t *)rows; /* (8 hashes, WARP_ROWS) */
    for (int begin = 0; begin < octets; begin += tiles_at_once) {
        int end = begin + tiles_at_once < octets ? begin + tiles_at_once : octets, count = end - begin;
        __syncthreads();
        for (int i = (int)threadIdx.x; i < tau * count * STEPS * WARP; i += HASH_WARPS * WARP) {
            int bit = i / (count * STEPS * WARP), rest = i % (count * STEPS * WARP);
            planes[i] = ((const uint4 *)packed)[(((size_t)blockIdx.y * tau + bit) * octets + begin) * STEPS * WARP + rest];
        }
        __syncthreads();
        for (int o = begin; o < end; o++) {
            uint32_t code[TILES][4] = {};
            for (int bit = 0; bit < tau; bit++) {
                const uint4 *plane = planes + ((bit * count + o - begin) * STEPS) * WARP + lane;
                uint32_t ph[STEPS][2], pl[STEPS][2];
#pragma unroll
                for (int s = 0; s < STEPS; s++) {
                    uint4 w = plane[s * WARP];
                    ph[s][0] = w.x; ph[s][1] = w.y; pl[s][0] = w.z; pl[s][1] = w.w;
                }
                int32_t acc[TILES][4] = {};
#pragma unroll
                for (int s = 0; s < STEPS; s++)
#pragma unroll
                    for (int r = 0; r < TILES; r++) mma_s8s8(acc[r], high[r][s], ph[s]);
#pragma unroll
                for (int r = 0; r < TILES; r++)
#pragma unroll
                    for (int i = 0; i < 4; i++) acc[r][i] = (int32_t)((uint32_t)acc[r][i] << 8);
#pragma unroll
                for (int s = 0; s < STEPS; s++)
#pragma unroll
                    for (int r = 0; r < TILES; r++) {
                        mma_s8u8(acc[r], high[r][s], pl[s]);
                        mma_u8s8(acc[r], low[r][s], ph[s]);
                    }
#pragma unroll
                for (int r = 0; r < TILES; r++)
#pragma unroll
                    for (int i = 0; i < 4; i++) acc[r][i] = (int32_t)((uint32_t)acc[r][i] << 8);
#pragma unroll
                for (int s = 0; s < STEPS; s++)
#pragma unroll
                    for (int r = 0; r < TILES; r++) mma_u8u8(acc[r], low[r][s], pl[s]);
#pragma unroll
                for (int r = 0; r < TILES; r++)
#pragma unroll
                    for (int i = 0; i < 4; i++) code[r][i] |= (uint32_t)(acc[r][i] > 0) << bit;
            }
#pragma unroll
            for (int r = 0; r < TILES; r++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    staged[(2 * (lane % 4) + i % 2) * WARP_ROWS + r * 16 + lane / 4 + 8 * (i / 2)] = (uint16_t)code[r][i];
            __syncwarp();
            int hash = o * 8 + lane / 4, at = first + (lane % 4) * 8;
            if (hash < m && at < n) /* ld is a multiple of 8 */
                *(uint4 *)(codes + hash * ld + at) = *(const uint4 *)(staged + lane * 8);
            __syncwarp();
        }
    }
}

#endif
