/* Any bytes as a key-value cache, as they are and under a right checksum: reading takes no more memory than
   promised; an accepted one is written back to the same bytes, and attends.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_file.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "fuzz/fuzz_file.h"

enum { MOST_BYTES = 1 << 16, MOST_HEADS = 64, THE_REST = 18 << 20 }; /* for one thread: kv_file.h */

static size_t asked; /* bytes */

static void *count_and_allocate(void *user, size_t alignment, size_t bytes)
{
    struct host plain;
    (void)user;
    host_init(&plain);
    asked += bytes;
    return plain.allocate(plain.user, alignment, bytes);
}

static void check_attention(struct kv_cache *cache)
{
    const struct kv_options *options = &cache->options;
    size_t d = options->head_dim, numbers = cache->pages.num_sequences * options->num_heads * d;
    float *query = calloc(numbers, sizeof *query), *out = calloc(numbers, sizeof *out);
    FUZZ_CHECK(query != NULL && out != NULL);
    const struct kv_rows queries = {query, DTYPE_FLOAT32, options->num_heads * d, d, d};
    const struct kv_rows outs = {out, DTYPE_FLOAT32, options->num_heads * d, d, d};
    FUZZ_CHECK(kv_cache_attend(cache, 1, queries, outs) == HASHATTN_OK);
    for (size_t i = 0; i < numbers; i++)
        FUZZ_CHECK(isfinite(out[i]));
    free(query);
    free(out);
}

static void try_bytes(const uint8_t *data, size_t size)
{
    struct host host;
    struct kv_cache cache;
    host_init(&host);
    host.allocate = count_and_allocate;
    asked = 0;
    const struct kernels *kernels = kernels_named(NULL, &(const char *){0});
    hashattn_status status = kv_cache_parse(&host, kernels, NULL, (const char *)data, size, &cache);
    FUZZ_CHECK(asked <= KV_FILE_PAGES + 16 * size + THE_REST);
    if (status != HASHATTN_OK) {
        FUZZ_CHECK(status == HASHATTN_BAD_FILE && host.message[0] != '\0');
        return;
    }
    char path[FUZZ_PATH], *bytes;
    size_t written;
    fuzz_file("none", "", 0); /* makes the directory */
    snprintf(path, sizeof path, "%s/cache", fuzz_directory);
    FUZZ_CHECK(kv_cache_save(&cache, path) == HASHATTN_OK);
    FUZZ_CHECK(file_read(&host, path, SIZE_MAX / 2, &bytes, &written) == HASHATTN_OK);
    fuzz_remove(path);
    FUZZ_CHECK(written == size);
    memory_free(&host, bytes);
    check_attention(&cache);
    kv_cache_free(&cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t heads = 0;
    if (size >= 48)
        memcpy(&heads, data + 32, sizeof heads);
    if (size > MOST_BYTES || heads > MOST_HEADS)
        return 0; /* so that an input takes little time */
    try_bytes(data, size);
    if (size < 8)
        return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size - 8; i++)
        hash = (hash ^ copy[i]) * 1099511628211u;
    memcpy(copy + size - 8, &hash, sizeof hash);
    try_bytes(copy, size);
    free(copy);
    return 0;
}
