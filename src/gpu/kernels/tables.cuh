/* Sums of rows by code, in tables (units, m, 2^tau, D). They are added in 32-bit fixed point: integers have
   the same sum in any order, and on shared memory atomicAdd(int) is one instruction, atomicAdd(float) a loop.
   The scale of a unit is a power of two that depends on its largest number and its fullest bucket only, so a
   unit has the same bits in any batch. Rounding: half a step of 2^-min(21, 30 - log2 of the fullest bucket) of
   the largest number, for each row that enters a sum.
   Cost: n m D additions and as many numbers read from tables.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_TABLES_CUH
#define GPU_TABLES_CUH

#include "rows.cuh"

/* most (units): the bits of the largest |x|. Grid (blocks, units), 256 threads. */
template <int D> GPU_FN void largest_number(uint32_t *most, const gpu_array &array, const gpu_unit *units, int side, uint32_t longest)
{
    float largest = 0;
    size_t count = (size_t)units[blockIdx.y].rows[side] * D;
    numbers x = numbers_of(array, (size_t)blockIdx.y * longest * D);
    for (size_t i = blockIdx.x * 256 + threadIdx.x; i < count; i += (size_t)gridDim.x * 256) largest = fmaxf(largest, fabsf(x[i]));
    for (int step = WARP / 2; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, step));
    if (lane_id() == 0) atomicMax(&most[blockIdx.y], __float_as_uint(largest));
}

/* counts (units, m, 2^tau): the rows of each code, NULL: not wanted; fullest (units): the largest of them. Grid
   (m, units), 256 threads, 4 2^tau bytes. */
GPU_KERNEL(256, 1)
yoso_count(uint32_t *fullest, uint32_t *counts, const unsigned char *codes_block, const gpu_unit *units, int side, int tau)
{
    GPU_SHARED(shared);
    uint32_t *count = (uint32_t *)shared;
    const gpu_unit unit = units[blockIdx.y];
    const uint16_t *codes = codes_of(codes_block, unit, side) + blockIdx.x * codes_stride(unit, side);
    for (int i = (int)threadIdx.x; i < 1 << tau; i += 256) count[i] = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < (int)of_side(unit.rows, side); i += 256) atomicAdd(&count[bucket_of(codes[i], tau)], 1u);
    __syncthreads();
    uint32_t most = 0;
    for (int i = (int)threadIdx.x; i < 1 << tau; i += 256) {
        most = count[i] > most ? count[i] : most;
        if (counts != nullptr) counts[(((size_t)blockIdx.y * gridDim.x + blockIdx.x) << tau) + i] = count[i];
    }
    atomicMax(&fullest[blockIdx.y], most);
}

/* Numbers times 2^exponent have at most 22 bits, so that adding `magic` below rounds them, and no sum of a
   bucket leaves 31 bits. */
GPU_FN int exponent_of(uint32_t most, uint32_t fullest)
{
    int number = most == 0 ? 0 : (int)(most >> 23) - 126;             /* |x| < 2^number */
    int members = fullest < 2 ? 0 : 32 - __clz((int)(fullest - 1));   /* fullest <= 2^members */
    int bits = 30 - members < 21 ? 30 - members : 21;
    int exponent = bits - number;
    return exponent > 126 ? 126 : exponent < -126 ? -126 : exponent;
}
GPU_FN float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

enum { BUILD_WARPS = 16 };

/* table = sums of the rows of x by code. A block sums G hashes of C columns in shared memory. Grid (D / C, ceil(m
   / G), units), BUILD_WARPS warps, 4 G 2^tau C bytes. */
template <int D, int C, int G>
GPU_FN void build_tables(float *table, const gpu_array &x, const unsigned char *codes_block, const uint32_t *most,
                         const uint32_t *fullest, const gpu_unit *units, int side, uint32_t longest, int m, int tau,
                         unsigned char *shared)
{
    enum { PER = WARP / C, AHEAD = C < 8 ? C : 8 }; /* rows side by side in a warp; loads under way */
    int *sums = (int *)shared;
    int at = (int)blockIdx.z, h0 = (int)blockIdx.y * G, column = (int)blockIdx.x * C;
    int lane = (int)lane_id(), warp = (int)warp_id();
    const gpu_unit unit = units[at];
    int n = (int)of_side(unit.rows, side), hashes = m - h0 < G ? m - h0 : G, buckets = 1 << tau;
    for (int i = (int)threadIdx.x; i < hashes * buckets * C; i += BUILD_WARPS * WARP) sums[i] = 0;
    __syncthreads();
    int exponent = exponent_of(most[at], fullest[at]);
    float scale = power_of_two(exponent);
    const float magic = 12582912.0f; /* 1.5 2^23: adding it leaves the nearest integer in the low bits */
    const numbers from = numbers_of(x, (size_t)at * longest * D + column + lane % C);
    size_t ld = codes_stride(unit, side);
    const uint16_t *code = codes_of(codes_block, unit, side) + h0 * ld;
    for (int base = warp * WARP; base < n; base += BUILD_WARPS * WARP) {
        uint32_t mine[G];
#pragma unroll
        for (int g = 0; g < G; g++) mine[g] = g < hashes && base + lane < n ? bucket_of(code[g * ld + base + lane], tau) : 0;
        for (int t = 0; t < C; t += AHEAD) {
            float number[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                int row = base + (t + a) * PER + lane / C;
                number[a] = row < n ? from[(size_t)row * D] : 0.0f;
            }
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                int fixed = __float_as_int(__fmaf_rn(number[a], scale, magic)) - __float_as_int(magic);
#pragma unroll
                for (int g = 0; g < G; g++) {
                    uint32_t c = __shfl_sync(FULL, mine[g], (t + a) * PER + lane / C);
                    if (G == 1 || g < hashes) atomicAdd(&sums[((uint32_t)(g << tau) + c) * C + lane % C], fixed);
                }
            }
        }
    }
    __syncthreads();
    float back = power_of_two(-exponent);
    for (int i = (int)threadIdx.x; i < hashes * buckets * C; i += BUILD_WARPS * WARP)
        table[(((size_t)at * m + h0) * buckets + i / C) * D + column + i % C] = (float)sums[i] * back;
}

enum { READ_WARPS = 8, READ_ROWS = 64 };

/* out (units, longest, D) = the sum over hashes of the rows of the table / m; sums (units, longest) = those of
   counts, unless it is NULL. A warp reads for a row, the hashes in order. Grid (ceil(longest / READ_ROWS), units),
   READ_WARPS warps, 2 m READ_ROWS bytes. */
template <int D>
GPU_FN void read_tables(float *out, float *sums, const float *table, const uint32_t *counts, const unsigned char *codes_block,
                        const gpu_unit *units, int side, uint32_t longest, int m, int tau, unsigned char *shared)
{
    enum { V = D / WARP }; /* columns of a lane */
    const gpu_unit unit = units[blockIdx.y];
    uint16_t *code = (uint16_t *)shared;
    const uint16_t *codes = codes_of(codes_block, unit, side);
    size_t ld = codes_stride(unit, side);
    int first = (int)blockIdx.x * READ_ROWS, lane = (int)lane_id(), warp = (int)warp_id();
    int count = (int)of_side(unit.rows, side) - first < READ_ROWS ? (int)of_side(unit.rows, side) - first : READ_ROWS;
    if (count <= 0) return;
    for (int i = (int)threadIdx.x; i < m * READ_ROWS; i += READ_WARPS * WARP) {
        int h = i / READ_ROWS, t = i % READ_ROWS;
        if (t < count) code[i] = (uint16_t)bucket_of(codes[h * ld + first + t], tau);
    }
    __syncthreads();
    float share = __fdiv_rn(1.0f, (float)m);
    for (int t = warp; t < count; t += READ_WARPS) {
        float sum[V] = {};
        const float *at = table + (((size_t)blockIdx.y * m) << tau) * D + lane;
#pragma unroll 8
        for (int h = 0; h < m; h++) {
            const float *row = at + ((size_t)(h << tau) + code[h * READ_ROWS + t]) * D;
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += row[i * WARP];
        }
        size_t to = (size_t)blockIdx.y * longest + first + t;
#pragma unroll
        for (int i = 0; i < V; i++) out[to * D + i * WARP + lane] = sum[i] * share;
        if (counts == nullptr) continue;
        uint32_t collisions = 0;
        const uint32_t *of_unit = counts + (((size_t)blockIdx.y * m) << tau);
        for (int h = lane; h < m; h += WARP) collisions += of_unit[(h << tau) + code[h * READ_ROWS + t]];
        for (int step = WARP / 2; step > 0; step /= 2) collisions += __shfl_xor_sync(FULL, collisions, step);
        if (lane == 0) sums[to] = (float)collisions * share;
    }
}

#endif
