/* Files of caches: a header of fixed size, the lengths of the sequences, then for each sequence its keys
   and its values, (length, kv_heads, head_dim) in the cache's type, and a checksum. All numbers are
   little-endian. Codes are made again when the file is read.
   A page has room for 256 rows and their codes, so a file of many short sequences could ask for 2,000 times
   its size. Pages may take KV_FILE_PAGES bytes, or KV_FILE_SHARE times the bytes of the file if that is more:
   enough for 17 rows a sequence with codes as long as the rows. The rest of a loaded cache takes less than 16
   times the file, 16 MiB, and 1 MiB for each thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef DECODING_KV_FILE_H
#define DECODING_KV_FILE_H

#include "decoding/kv_cache.h"

enum { KV_FILE_SHARE = 32, KV_FILE_PAGES = 1 << 27 };

/* NO_DISK: it cannot be written; an old file stays as it was. REFUSED: the pages would take more than a file
   may ask for; there is no file. */
hashattn_status kv_cache_save(const struct kv_cache *cache, const char *path);

/* BAD_FILE: not a cache, or damaged, with the reason. On an error there is no cache. */
hashattn_status kv_cache_parse(struct host *host, const struct kernels *kernels, struct pool *pool,
                               const char *bytes, size_t size, struct kv_cache *cache);
hashattn_status kv_cache_load(struct host *host, const struct kernels *kernels, struct pool *pool,
                              const char *path, struct kv_cache *cache);

#endif
