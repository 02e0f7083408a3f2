/* Attention over a choice of rows. Cost for a row: a key and a value from memory, and 4 d multiply-adds for
   each query: its score, its part of the output, and of the error.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_read.h"

#include <math.h>
#include <string.h>

struct kv_read_sums kv_read_sums_lay_out(struct arena *arena, size_t queries, size_t head_dim)
{
    struct kv_read_sums sums;
    sums.most = arena_take(arena, 4 * queries, sizeof(float));
    sums.out = arena_take(arena, 2 * queries * head_dim, sizeof(float));
    if (sums.most == NULL)
        return (struct kv_read_sums){NULL, NULL, NULL, NULL, NULL};
    sums.sum = sums.most + queries;
    sums.spread = sums.sum + queries;
    sums.squares = sums.spread + queries;
    return sums;
}

struct kv_read_scratch kv_read_scratch_lay_out(struct arena *arena, size_t queries)
{
    return (struct kv_read_scratch){
        .key = arena_take(arena, KV_READ_ROWS, sizeof(unsigned char *)),
        .value = arena_take(arena, KV_READ_ROWS, sizeof(unsigned char *)),
        .weight = arena_take(arena, 2 * queries * KV_READ_ROWS, sizeof(float)),
    };
}

/* Where the rows of a part lie. */
static void find_rows(const struct kv_read *read, size_t first, size_t count,
                      const struct kv_read_scratch *scratch)
{
    const struct kv_cache *cache = read->cache;
    size_t size = cache->options.head_dim * element_bytes(cache->options.dtype);
    size_t page = SIZE_MAX;
    const unsigned char *rows = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t row = read->choice->row[first + i];
        if (row / KV_PAGE_ROWS != page) {
            page = row / KV_PAGE_ROWS;
            rows = kv_head_page(cache, read->sequence, read->kv_head, page) + read->rows_at;
        }
        scratch->key[i] = rows + row % KV_PAGE_ROWS * 2 * size;
        scratch->value[i] = scratch->key[i] + size;
    }
}

/* Scaled scores in `weight` become w_i / p_i, and the second half a_i. */
static void weigh(const struct kv_read *read, size_t query, size_t first, size_t count, float *weight,
                  float *variance, const struct kv_read_sums *sums)
{
    const struct kernels *kernels = read->cache->kernels;
    const float *inverse = read->choice->weight + first;
    float *most = &sums->most[query], shift, scale = read->cache->options.scale;
    size_t padded = (count + DECODE_BLOCK - 1) / DECODE_BLOCK * DECODE_BLOCK;
    float chosen[KV_READ_ROWS];
    kernels->softmax.largest(most, weight, count, 1, count);
    shift = *most *= scale;
    kernels->softmax.exp(weight, count, weight, count, 1, count, scale, &shift, 0);
    for (size_t i = 0; i < count && read->chance != NULL; i++)
        chosen[i] = first + i < read->certain
                        ? inverse[i]
                        : inverse[i] / read->chance(read, query, read->choice->row[first + i]);
    inverse = read->chance != NULL ? chosen : inverse;
    for (size_t i = 0; i < count; i++) {
        float each = weight[i];
        weight[i] = each * inverse[i];
        variance[i] = each * weight[i] * (inverse[i] - 1);
    }
    memset(weight + count, 0, (padded - count) * sizeof *weight);
    memset(variance + count, 0, (padded - count) * sizeof *variance);
    sums->sum[query] = (float)kernels->decode.sum_below(weight, padded, INFINITY);
    sums->spread[query] = (float)kernels->decode.sum_below(variance, padded, INFINITY);
}

void kv_read_part(const struct kv_read *read, size_t part, const struct kv_read_scratch *scratch,
                  const struct kv_read_sums *sums)
{
    const struct kv_cache *cache = read->cache;
    size_t first = part * KV_READ_ROWS, d = cache->options.head_dim, queries = read->queries;
    size_t count = size_min(KV_READ_ROWS, read->choice->count - first);
    struct decode_rows rows = {.row = scratch->key,
                               .count = count,
                               .cols = d,
                               .dtype = cache->options.dtype,
                               .ahead = 2 * d * element_bytes(cache->options.dtype)};
    find_rows(read, first, count, scratch);
    cache->kernels->decode.row_dots(scratch->weight, KV_READ_ROWS, &rows, read->query, queries);
    for (size_t i = 0; i < queries; i++)
        weigh(read, i, first, count, scratch->weight + i * KV_READ_ROWS,
              scratch->weight + (queries + i) * KV_READ_ROWS, sums);
    memset(sums->out, 0, 2 * queries * d * sizeof *sums->out);
    memset(sums->squares, 0, queries * sizeof *sums->squares);
    rows.row = scratch->value;
    cache->kernels->decode.row_sums(sums->out, NULL, scratch->weight, KV_READ_ROWS, queries, &rows);
    cache->kernels->decode.row_sums(sums->out + queries * d, sums->squares,
                                    scratch->weight + queries * KV_READ_ROWS, KV_READ_ROWS, queries, &rows);
}

double kv_read_merge(const struct kv_read *read, size_t query, const struct kv_read_sums *sums, size_t parts,
                     float *out)
{
    const struct kernels *kernels = read->cache->kernels;
    size_t d = read->cache->options.head_dim;
    float most = -INFINITY, of_variance[KV_WIDEST] = {0};
    double sum = 0, spread = 0, squares = 0, of_out = 0, across = 0;
    memset(out, 0, d * sizeof *out);
    for (size_t p = 0; p < parts; p++)
        most = fmaxf(most, sums[p].most[query]);
    for (size_t p = 0; p < parts; p++) {
        float factor = expf(sums[p].most[query] - most), square = factor * factor;
        sum += (double)factor * (double)sums[p].sum[query];
        spread += (double)square * (double)sums[p].spread[query];
        squares += (double)square * (double)sums[p].squares[query];
        kernels->rows.axpy(out, factor, sums[p].out + query * d, d);
        kernels->rows.axpy(of_variance, square, sums[p].out + (read->queries + query) * d, d);
    }
    for (size_t c = 0; c < d; c++) {
        out[c] = (float)((double)out[c] / sum);
        of_out += (double)out[c] * (double)out[c];
        across += (double)out[c] * (double)of_variance[c];
    }
    double variance = (squares - 2 * across + of_out * spread) / (sum * sum);
    return of_out > 0 ? sqrt(fmax(0, variance) / of_out) : 0;
}
