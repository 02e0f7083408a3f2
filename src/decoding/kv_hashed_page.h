/* What a page holds for mechanisms that choose rows by codes: for each key-value head the codes of its keys
   (kv_codes.h), their scales and means, then the rows, each a key and its value. A query reads the first part
   of every page, and of the rows only those that are chosen.
   Memory of a row: bits / 8 + 2 bytes, 1 / 32 of head_dim bytes, and 2 head_dim elements.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_HASHED_PAGE_H
#define DECODING_KV_HASHED_PAGE_H

#include "decoding/kv_cache_mechanism.h"
#include "decoding/kv_codes.h"

/* Where the arrays of a key-value head lie in its bytes of a page. */
struct kv_hashed_page {
    size_t codes, scale, mean, rows, bytes; /* rows: (KV_PAGE_ROWS, 2, head_dim) */
};
struct kv_hashed_page kv_hashed_page_of(const struct kv_options *options);

/* The codes of a page of a key-value head. */
struct kv_codes kv_hashed_codes(const struct kv_cache *cache, const struct kv_hashed_page *at,
                                size_t sequence, size_t kv_head, size_t page);

/* Slots of a mechanism. write: a block is coded with its last row, about the mean of its keys
   (write_centred) or about 0 (write_plain). */
size_t kv_hashed_head_bytes(const struct kv_options *options);
void kv_hashed_write_centred(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                             const float *key, const float *value);
void kv_hashed_write_plain(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                           const float *key, const float *value);
void kv_hashed_read(const struct kv_cache *cache, size_t sequence, size_t kv_head, size_t position,
                    float *key, float *value);

#endif
