/* Between the caller's rows and those that kernels compute on, (units, longest, D), filled with zeros from the width
   to D, without masked keys. Queries, keys and values stay bfloat16 if they were, which halves what is read of them;
   all others are floats. A warp moves a row, so reads and writes are whole lines.
   Each kernel here takes one pass over its rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_ROWS_CUH
#define GPU_ROWS_CUH

#include "kernel_arguments.h"
#include "dialect.cuh"

enum { ROW_WARPS = 8 }; /* of a block: a grid is (ceil(longest / ROW_WARPS), units) */

/* The number of a side. Selected: an index known only at run time would copy the unit to local memory in every thread. */
template <typename T> GPU_FN T of_side(const T (&pair)[GPU_SIDES], int side)
{
    return side == GPU_QUERIES ? pair[GPU_QUERIES] : pair[GPU_KEYS];
}

/* The smallest finding stays. */
GPU_FN void report(unsigned long long *found, unsigned finding, const gpu_unit &unit, uint32_t row)
{
    atomicMin(found, (unsigned long long)finding << GPU_FINDING_SHIFT |
                         (unsigned long long)unit.name << GPU_UNIT_SHIFT | row);
}

/* The caller's number of a row. */
GPU_FN uint32_t place_of(const gpu_unit &unit, int side, const uint32_t *kept, uint32_t row)
{
    return side == GPU_KEYS && unit.kept != GPU_EVERY_KEY ? kept[unit.kept + row] : row;
}

GPU_FN size_t start_of(const gpu_rows &rows, const gpu_unit &unit, int side, uint32_t place)
{
    size_t first = rows.padded ? (size_t)unit.sequence * rows.sequence_stride : (size_t)of_side(unit.first, side) * rows.row_stride;
    return first + (size_t)unit.head * rows.head_stride + (size_t)place * rows.row_stride;
}

GPU_FN float float_of(uint16_t half) { return __uint_as_float((uint32_t)half << 16); }

GPU_FN float load_number(const gpu_rows &rows, size_t at)
{
    return rows.half ? float_of(array_at<const uint16_t>(rows.data)[at]) : array_at<const float>(rows.data)[at];
}

/* Numbers of an array from one on. */
struct numbers {
    const void *at;
    bool half;
    GPU_METHOD float operator[](size_t i) const { return half ? float_of(((const uint16_t *)at)[i]) : ((const float *)at)[i]; }
    GPU_METHOD float4 four(size_t i) const /* i to i + 3, i a multiple of 4 */
    {
        if (!half) return *(const float4 *)((const float *)at + i);
        uint2 words = *(const uint2 *)((const uint16_t *)at + i);
        return {__uint_as_float(words.x << 16), __uint_as_float(words.x & 0xffff0000u), __uint_as_float(words.y << 16),
                __uint_as_float(words.y & 0xffff0000u)};
    }
};

GPU_FN numbers numbers_of(const gpu_array &array, size_t first)
{
    return {array.half ? (const void *)(array_at<const uint16_t>(array.data) + first)
                       : (const void *)(array_at<const float>(array.data) + first),
            array.half != 0};
}

/* bfloat16: to nearest, ties to even; NaN stays NaN. */
GPU_FN void store_number(const gpu_rows &rows, size_t at, float x)
{
    if (!rows.half) {
        array_at<float>(rows.data)[at] = x;
        return;
    }
    uint32_t bits = __float_as_uint(x);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    array_at<uint16_t>(rows.data)[at] = (uint16_t)(nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

GPU_FN bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

/* The codes of the first hash of a side, and the stride from one hash to the next. */
GPU_FN uint16_t *codes_of(unsigned char *codes_block, const gpu_unit &unit, int side)
{
    return (uint16_t *)(codes_block + of_side(unit.codes, side));
}
GPU_FN const uint16_t *codes_of(const unsigned char *codes_block, const gpu_unit &unit, int side)
{
    return (const uint16_t *)(codes_block + of_side(unit.codes, side));
}
GPU_FN size_t codes_stride(const gpu_unit &unit, int side) { return ((size_t)of_side(unit.rows, side) + 7) / 8 * 8; }

/* A bucket for any number: a block `saved` that no forward wrote must not make a kernel fail. */
GPU_FN uint32_t bucket_of(uint16_t code, int tau) { return code & ((1u << tau) - 1); }

GPU_FN const float *inverse_of(const unsigned char *codes_block, const gpu_unit &unit, int side)
{
    return (const float *)(codes_block + of_side(unit.inverse, side));
}

GPU_FN uint32_t row_of_warp() { return blockIdx.x * ROW_WARPS + warp_id(); }

/* to = the rows of a side; `finding` is reported where one is not finite. */
template <int D>
GPU_FN void take_rows(const gpu_array &to, unsigned long long *found, gpu_rows rows, const gpu_unit *units, const uint32_t *kept,
                      int side, unsigned finding, uint32_t longest)
{
    const gpu_unit unit = units[blockIdx.y];
    uint32_t row = row_of_warp();
    if (row >= of_side(unit.rows, side)) return;
    uint32_t place = place_of(unit, side, kept, row);
    size_t at = start_of(rows, unit, side, place);
    bool finite = true;
    for (uint32_t c = lane_id(); c < D; c += WARP) {
        float x = c < rows.width ? load_number(rows, at + c) : 0.0f;
        finite = finite && is_finite(x);
        size_t number = ((size_t)blockIdx.y * longest + row) * D + c;
        if (to.half)
            array_at<uint16_t>(to.data)[number] = (uint16_t)(__float_as_uint(x) >> 16);
        else
            array_at<float>(to.data)[number] = x;
    }
    if (__ballot_sync(FULL, !finite) != 0 && lane_id() == 0) report(found, finding, unit, place);
}

/* rows = from, of a side. */
template <int D>
GPU_FN void give_rows(gpu_rows rows, const float *from, unsigned long long *found, const gpu_unit *units,
                      const uint32_t *kept, int side, uint32_t longest)
{
    const gpu_unit unit = units[blockIdx.y];
    uint32_t row = row_of_warp();
    if (row >= of_side(unit.rows, side)) return;
    uint32_t place = place_of(unit, side, kept, row);
    size_t at = start_of(rows, unit, side, place);
    for (uint32_t c = lane_id(); c < rows.width; c += WARP) {
        float x = from[((size_t)blockIdx.y * longest + row) * D + c];
        if (!is_finite(x)) report(found, GPU_OVERFLOW, unit, place);
        store_number(rows, at + c, x);
    }
}

/* Zeros in the rows of all keys, masked ones too. */
GPU_KERNEL(ROW_WARPS * 32, 1) yoso_clear_keys(gpu_rows rows, const gpu_unit *units)
{
    const gpu_unit unit = units[blockIdx.y];
    uint32_t row = row_of_warp();
    if (row >= unit.all_keys) return;
    size_t at = start_of(rows, unit, GPU_KEYS, row);
    for (uint32_t c = lane_id(); c < rows.width; c += WARP) store_number(rows, at + c, 0.0f);
}

/* Reports a block `saved` that does not begin with these two words. One thread. */
GPU_KERNEL(32, 1) yoso_check_saved(unsigned long long *found, const unsigned long long *saved, unsigned long long mark,
                                   unsigned long long fingerprint)
{
    if (threadIdx.x == 0 && (saved[0] != mark || saved[1] != fingerprint))
        atomicMin(found, (unsigned long long)GPU_SAVED << GPU_FINDING_SHIFT);
}

/* ---- normalisation (parts/collisions/normalize.h has the formulas) ------------------------------------------ */

enum { NORMALIZE_L2, NORMALIZE_SUM, NORMALIZE_NONE }; /* as enum yoso_normalize */

/* out = x normalised. sums: the collisions of each query / m, for NORMALIZE_SUM. kept: bytes of `saved`. */
template <int D>
GPU_FN void give_output(gpu_rows out, unsigned char *saved, const float *x, const float *sums, unsigned long long *found,
                        const gpu_unit *units, uint32_t longest, int normalize)
{
    const gpu_unit unit = units[blockIdx.y];
    uint32_t row = row_of_warp();
    if (row >= unit.rows[GPU_QUERIES]) return;
    size_t from = (size_t)blockIdx.y * longest + row, at = start_of(out, unit, GPU_QUERIES, row);
    float square = 0, factor = 1, length = 1, largest = 0;
    for (uint32_t c = lane_id(); c < D; c += WARP) largest = fmaxf(largest, fabsf(x[from * D + c]));
    const float down = 5.421010862427522e-20f /* 2^-64 */, up = 18446744073709551616.0f;
    bool large = __ballot_sync(FULL, largest > 1e15f) != 0; /* squares could overflow */
    for (uint32_t c = lane_id(); c < D; c += WARP) {
        float part = large ? x[from * D + c] * down : x[from * D + c];
        square = __fmaf_rn(part, part, square);
    }
    square = warp_sum(square);
    if (normalize == NORMALIZE_L2) {
        length = large ? __fsqrt_rn(square) * up : __fsqrt_rn(square);
        factor = __fdiv_rn(1.0f, fmaxf(length, 1e-12f));
    } else if (normalize == NORMALIZE_SUM) {
        length = sums[from];
        factor = length > 0 ? __fdiv_rn(1.0f, length) : 0.0f;
    }
    if (lane_id() == 0) {
        if (normalize != NORMALIZE_NONE) ((float *)(saved + unit.length))[row] = length;
        if (!is_finite(square)) report(found, GPU_OVERFLOW, unit, row);
    }
    for (uint32_t c = lane_id(); c < out.width; c += WARP) store_number(out, at + c, x[from * D + c] * factor);
}

/* dx = the gradient of X from that of the output, and bias where a pair's weight has one. */
template <int D>
GPU_FN void take_gradient(float *dx, float *bias, gpu_rows out, gpu_rows dout, const unsigned char *saved,
                          unsigned long long *found, const gpu_unit *units, uint32_t longest, int normalize)
{
    const gpu_unit unit = units[blockIdx.y];
    uint32_t row = row_of_warp();
    if (row >= unit.rows[GPU_QUERIES]) return;
    size_t to = (size_t)blockIdx.y * longest + row;
    size_t y_at = start_of(out, unit, GPU_QUERIES, row), g_at = start_of(dout, unit, GPU_QUERIES, row);
    float y[D / WARP], g[D / WARP], dot = 0;
    bool finite = true;
    for (int i = 0; i < D / WARP; i++) {
        uint32_t c = i * WARP + lane_id();
        y[i] = c < out.width ? load_number(out, y_at + c) : 0.0f;
        g[i] = c < dout.width ? load_number(dout, g_at + c) : 0.0f;
        finite = finite && is_finite(g[i]);
        dot = __fmaf_rn(y[i], g[i], dot);
    }
    dot = warp_sum(dot);
    if (__ballot_sync(FULL, !finite) != 0 && lane_id() == 0) report(found, GPU_DOUT, unit, row);
    float factor = 1;
    if (normalize != NORMALIZE_NONE) {
        float length = ((const float *)(saved + unit.length))[row];
        float least = normalize == NORMALIZE_L2 ? 1e-12f : 0.0f;
        factor = length > least ? __fdiv_rn(1.0f, length) : 0.0f;
    }
    for (int i = 0; i < D / WARP; i++)
        dx[to * D + i * WARP + lane_id()] = (normalize == NORMALIZE_L2 ? g[i] - y[i] * dot : g[i]) * factor;
    if (normalize == NORMALIZE_SUM && lane_id() == 0) bias[to] = -dot * factor;
}

/* rows = the gradient of x from that of its unit row: weight (g - u <u, g>) / |x|, u = x / |x|. */
template <int D>
GPU_FN void give_unit_gradient(gpu_rows rows, const float *g, const gpu_array &array, const unsigned char *codes_block,
                               float weight, unsigned long long *found, const gpu_unit *units, const uint32_t *kept, int side,
                               uint32_t longest)
{
    const gpu_unit unit = units[blockIdx.y];
    uint32_t row = row_of_warp();
    if (row >= of_side(unit.rows, side)) return;
    size_t from = (size_t)blockIdx.y * longest + row;
    uint32_t place = place_of(unit, side, kept, row);
    size_t at = start_of(rows, unit, side, place);
    numbers x = numbers_of(array, from * D);
    float scale = inverse_of(codes_block, unit, side)[row], dot = 0, gs[D / WARP], us[D / WARP];
    for (int i = 0; i < D / WARP; i++) {
        gs[i] = g[from * D + i * WARP + lane_id()];
        us[i] = x[i * WARP + lane_id()] * scale;
        dot = __fmaf_rn(gs[i], us[i], dot);
    }
    dot = warp_sum(dot);
    for (int i = 0; i < D / WARP; i++) {
        uint32_t c = i * WARP + lane_id();
        float dx = (gs[i] - us[i] * dot) * (scale * weight);
        if (c >= rows.width) continue;
        if (!is_finite(dx)) report(found, GPU_OVERFLOW, unit, place);
        store_number(rows, at + c, dx);
    }
}

#endif
