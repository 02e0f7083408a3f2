/* Files of caches: a header of fixed size, the lengths of the sequences, then for each sequence its keys
   and its values, (length, kv_heads, head_dim) in the cache's type, and a checksum. All numbers are
   little-endian. Codes are made again when the file is read.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_FILE_H
#define DECODING_KV_FILE_H

#include "decoding/kv_cache.h"

/* NO_DISK: it cannot be written; an old file stays as it was. */
hashattn_status kv_cache_save(const struct kv_cache *cache, const char *path);

/* BAD_FILE: not a cache, or damaged, with the reason. On an error there is no cache. */
hashattn_status kv_cache_parse(struct host *host, const struct kernels *kernels, struct pool *pool,
                               const char *bytes, size_t size, struct kv_cache *cache);
hashattn_status kv_cache_load(struct host *host, const struct kernels *kernels, struct pool *pool,
                              const char *path, struct kv_cache *cache);

#endif
