/* What a mechanism of the key-value cache has. Its state is in the pages: for each key-value head the same
   bytes of every page. It is a function of the rows alone, so that a cache that was truncated or reordered
   equals a fresh one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_CACHE_MECHANISM_H
#define DECODING_KV_CACHE_MECHANISM_H

#include "decoding/kv_cache.h"

/* A call of attention. Scratch has been allocated. */
struct kv_attend {
    const struct kv_cache *cache;
    size_t rows;
    struct kv_rows query, out;
    unsigned char *scratch;
    struct kv_report *report; /* written */
};

struct kv_mechanism {
    const char *name;
    /* Makes what all pages share; NULL: nothing. */
    hashattn_status (*prepare)(struct kv_cache *cache);
    /* Bytes of a page for one key-value head, a multiple of 64. */
    size_t (*head_bytes)(const struct kv_options *options);
    /* Writes the row at `position` of a sequence, of one key-value head: head_dim floats each. Rows arrive in
       order; the heads of a sequence in parallel. */
    void (*write)(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                  const float *key, const float *value);
    /* The row as it is stored. */
    void (*read)(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position, float *key,
                 float *value);
    size_t (*scratch_bytes)(const struct kv_cache *cache, size_t rows);
    void (*attend)(const struct kv_attend *call);
};

/* The bytes of one key-value head in a page. */
static inline unsigned char *kv_head_page(const struct kv_cache *cache, size_t sequence, size_t kv_head,
                                          size_t page)
{
    return kv_pages_at(&cache->pages, sequence, page) + kv_head * cache->head_bytes;
}

static inline size_t kv_group(const struct kv_options *options)
{
    return options->num_heads / options->kv_heads;
}

/* Row r of a head as floats. */
void kv_load_row(const struct kv_cache *cache, float *to, struct kv_rows from, size_t sequence, size_t row,
                 size_t head);
void kv_store_row(const struct kv_cache *cache, struct kv_rows to, size_t sequence, size_t row, size_t head,
                  const float *from);

extern const struct kv_mechanism kv_mechanism_softmax, kv_mechanism_hashed, kv_mechanism_top,
    kv_mechanism_top_uniform, kv_mechanism_hamming, kv_mechanism_lsh, kv_mechanism_window;

#endif
