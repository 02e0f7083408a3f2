/* Pages of codes and rows.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_hashed_page.h"

#include "base/memory.h"
#include "parts/rows/elements.h"

struct kv_hashed_page kv_hashed_page_of(const struct kv_options *options)
{
    struct arena arena = arena_on(NULL);
    struct kv_hashed_page at;
    size_t d = options->head_dim;
    at.codes = arena.used;
    arena_take(&arena, KV_PAGE_ROWS, options->bits / 8);
    at.scale = arena.used;
    arena_take(&arena, KV_PAGE_ROWS, sizeof(bf16));
    at.mean = arena.used;
    arena_take(&arena, KV_PAGE_BLOCKS * d, sizeof(bf16));
    at.rows = arena.used;
    arena_take(&arena, 2 * KV_PAGE_ROWS * d, element_bytes(options->dtype));
    at.bytes = arena.used;
    return at;
}

static struct kv_codes codes_at(unsigned char *page, const struct kv_hashed_page *at)
{
    return (struct kv_codes){.codes = page + at->codes,
                             .scale = (bf16 *)(void *)(page + at->scale),
                             .mean = (bf16 *)(void *)(page + at->mean)};
}

struct kv_codes kv_hashed_codes(const struct kv_cache *cache, const struct kv_hashed_page *at,
                                size_t sequence, size_t kv_head, size_t page)
{
    return codes_at(kv_head_page(cache, sequence, kv_head, page), at);
}

size_t kv_hashed_head_bytes(const struct kv_options *options)
{
    return kv_hashed_page_of(options).bytes;
}

struct block_rows {
    const struct kv_cache *cache;
    const unsigned char *key;
};

static const float *row_of_block(const void *rows, size_t r, float *scratch)
{
    const struct block_rows *of = rows;
    size_t d = of->cache->options.head_dim;
    enum dtype dtype = of->cache->options.dtype;
    elements_load(of->cache->kernels, scratch, d, of->key + r * 2 * d * element_bytes(dtype), d, dtype, 1, d);
    return scratch;
}

static void write_row(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                      const float *key, const float *value, bool centred)
{
    const struct kv_hashed_page at = kv_hashed_page_of(&cache->options);
    size_t d = cache->options.head_dim, size = d * element_bytes(cache->options.dtype);
    size_t row = position % KV_PAGE_ROWS, block = row / KV_BLOCK;
    unsigned char *page = kv_head_page(cache, sequence, kv_head, position / KV_PAGE_ROWS);
    unsigned char *rows = page + at.rows;
    elements_store(cache->kernels, rows + 2 * row * size, d, cache->options.dtype, key, d, 1, d);
    elements_store(cache->kernels, rows + (2 * row + 1) * size, d, cache->options.dtype, value, d, 1, d);
    const struct block_rows of_block = {cache, rows + block * KV_BLOCK * 2 * size};
    const struct kv_codes codes = codes_at(page, &at);
    if (row % KV_BLOCK == KV_BLOCK - 1)
        kv_codes_write(cache, &codes, block, centred, row_of_block, &of_block);
}

void kv_hashed_write_centred(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                             const float *key, const float *value)
{
    write_row(cache, sequence, kv_head, position, key, value, true);
}

void kv_hashed_write_plain(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                           const float *key, const float *value)
{
    write_row(cache, sequence, kv_head, position, key, value, false);
}

void kv_hashed_read(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                    float *key, float *value)
{
    const struct kv_hashed_page at = kv_hashed_page_of(&cache->options);
    size_t d = cache->options.head_dim, size = d * element_bytes(cache->options.dtype);
    const unsigned char *row = kv_head_page(cache, sequence, kv_head, position / KV_PAGE_ROWS) + at.rows +
                               2 * (position % KV_PAGE_ROWS) * size;
    elements_load(cache->kernels, key, d, row, d, cache->options.dtype, 1, d);
    elements_load(cache->kernels, value, d, row + size, d, cache->options.dtype, 1, d);
}
