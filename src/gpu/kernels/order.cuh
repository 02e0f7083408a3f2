/* Rows sorted by code, and causal sums along that order.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_ORDER_CUH
#define GPU_ORDER_CUH

#include "rows.cuh"

/* order: the rows of a side by the code of each hash, ascending within a code. The hashes are `first` + blockIdx.x
   of each unit, or drawn (units, num_drawn) at that index. A counting sort: each warp counts, and then places, one
   run of rows. Grid (hashes, units); 2^tau words of shared memory for each warp, of which there may be up to 8. */
GPU_KERNEL(256, 1)
yoso_sort(gpu_order order, const unsigned char *codes_block, const gpu_unit *units, const uint32_t *drawn, int num_drawn,
          int side, int first, int ld, int tau)
{
    GPU_SHARED(shared);
    uint32_t *count = (uint32_t *)shared; /* (warps, 2^tau) */
    const gpu_unit unit = units[blockIdx.y];
    int buckets = 1 << tau, lane = (int)lane_id(), warp = (int)warp_id(), threads = (int)blockDim.x, warps = threads / WARP;
    int n = (int)of_side(unit.rows, side), index = first + (int)blockIdx.x;
    int hash = drawn != nullptr ? (int)drawn[(size_t)blockIdx.y * num_drawn + index] : index;
    const uint16_t *code = codes_of(codes_block, unit, side) + hash * codes_stride(unit, side);
    size_t place_of_hash = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    uint32_t *rows = array_at<uint32_t>(order.rows) + place_of_hash * ld;
    uint16_t *sorted = array_at<uint16_t>(order.codes) + place_of_hash * ld;
    uint32_t *starts = array_at<uint32_t>(order.starts) + place_of_hash * (size_t)(buckets + 1);
    int run = (n + warps * WARP - 1) / (warps * WARP) * WARP, begin = warp * run, end = begin + run < n ? begin + run : n;
    for (int i = (int)threadIdx.x; i < warps * buckets; i += threads) count[i] = 0;
    __syncthreads();
    for (int i = begin + lane; i < end; i += WARP) atomicAdd(&count[warp * buckets + bucket_of(code[i], tau)], 1u);
    __syncthreads();
    /* Exclusive sums, by code and then by warp. Warp 0 does it, 32 codes at a time, so that lanes use different banks. */
    if (warp == 0) {
        uint32_t before = 0;
        for (int from = 0; from < buckets; from += WARP) {
            int b = from + lane;
            uint32_t own = 0;
            for (int w = 0; w < warps; w++) own += b < buckets ? count[w * buckets + b] : 0;
            uint32_t sum = own;
            for (int step = 1; step < WARP; step *= 2) {
                uint32_t other = __shfl_up_sync(FULL, sum, (unsigned)step);
                if (lane >= step) sum += other;
            }
            uint32_t at = before + sum - own;
            if (b < buckets) {
                starts[b] = at;
                for (int w = 0; w < warps; w++) {
                    uint32_t c = count[w * buckets + b];
                    count[w * buckets + b] = at;
                    at += c;
                }
            }
            before += __shfl_sync(FULL, sum, WARP - 1);
        }
        if (lane == 31) starts[buckets] = (uint32_t)n;
    }
    __syncthreads();
    for (int base = begin; base < end; base += WARP) {
        int i = base + lane;
        uint32_t c = i < end ? bucket_of(code[i], tau) : 0xffffffffu;
        uint32_t same = __match_any_sync(FULL, c), rank = (uint32_t)__popc(same & ((1u << lane) - 1));
        if (i < end) {
            uint32_t place = count[warp * buckets + c] + rank;
            rows[place] = (uint32_t)i;
            sorted[place] = (uint16_t)c;
        }
        __syncwarp();
        if (i < end && rank == 0) count[warp * buckets + c] += (uint32_t)__popc(same);
        __syncwarp();
    }
}

enum { WALK_WARPS = 8 };

/* Causal: out_i += share * sum of x_j over the rows j of side `from` that have the code of row i of the other side and
   are not after it (from keys), or not before it (from queries); sums (units, longest) += share * their number, unless
   NULL. A warp walks a bucket of one hash along both orders with the running sum in registers, so every number has
   one owner and a fixed order. Linear in n for any codes. Grid (ceil(2^tau / WALK_WARPS), units), WALK_WARPS warps. */
template <int D>
GPU_FN void walk_buckets(float *out, float *sums, const gpu_array &array, gpu_order from_order, gpu_order to_order,
                         const gpu_unit *units, const uint32_t *kept, int from, uint32_t longest, int ld, int tau,
                         int hashes, int hash, float share)
{
    enum { V = D / WARP };
    const gpu_unit unit = units[blockIdx.y];
    int bucket = (int)(blockIdx.x * WALK_WARPS + warp_id()), lane = (int)lane_id(), to = 1 - from;
    if (bucket >= 1 << tau) return;
    size_t at = (size_t)blockIdx.y * hashes + hash;
    const uint32_t *from_rows = array_at<const uint32_t>(from_order.rows) + at * ld;
    const uint32_t *to_rows = array_at<const uint32_t>(to_order.rows) + at * ld;
    const uint32_t *from_starts = array_at<const uint32_t>(from_order.starts) + at * (((size_t)1 << tau) + 1) + bucket;
    const uint32_t *to_starts = array_at<const uint32_t>(to_order.starts) + at * (((size_t)1 << tau) + 1) + bucket;
    int num_from = (int)(from_starts[1] - from_starts[0]), num_to = (int)(to_starts[1] - to_starts[0]);
    bool ascends = from == GPU_KEYS;
    numbers x = numbers_of(array, (size_t)blockIdx.y * longest * D);
    float sum[V] = {};
    int entered = 0;
    for (int k = 0; k < num_to; k++) {
        uint32_t row = to_rows[ascends ? to_starts[0] + k : to_starts[1] - 1 - k], place = place_of(unit, to, kept, row);
        for (; entered < num_from; entered++) {
            uint32_t other = from_rows[ascends ? from_starts[0] + entered : from_starts[1] - 1 - entered];
            uint32_t other_place = place_of(unit, from, kept, other);
            if (ascends ? other_place > place : other_place < place) break;
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += x[(size_t)other * D + i * WARP + lane];
        }
        size_t own = (size_t)blockIdx.y * longest + row;
#pragma unroll
        for (int i = 0; i < V; i++) out[own * D + i * WARP + lane] += share * sum[i];
        if (sums != nullptr && lane == 0) sums[own] += share * (float)entered;
    }
}

#endif
