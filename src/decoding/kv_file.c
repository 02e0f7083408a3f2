/* The reader checks the sizes, then the checksum, then the memory that the pages take, then appends the rows,
   which checks each number. The checksum is FNV-1a, which finds every change of one byte: it has to detect
   damage, not attacks.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "decoding/kv_cache_mechanism.h"
#include "parts/rows/elements.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are moved as bytes");

static const char magic[8] = {'H', 'A', 'C', 'A', 'C', 'H', 'E', '1'};
static const uint64_t first_hash = 14695981039346656037u;

struct header {
    char magic[8], mechanism[16];
    uint64_t num_sequences, num_heads, kv_heads, head_dim, window, window_step, bits, first_rows, last_rows,
        seed;
    double budget, tolerance;
    float scale, sharpness;
    uint32_t dtype, reserved; /* reserved: 0 */
};
_Static_assert(sizeof(struct header) == 136, "no padding");

enum { CHECKSUM = 8 };

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return hash;
}

/* Bytes of a row of all heads. */
static size_t row_bytes(const struct kv_options *options)
{
    return 2 * options->kv_heads * options->head_dim * element_bytes(options->dtype);
}

/* REFUSED if so many pages take more memory than a file of `size` bytes may ask for. */
static hashattn_status check_pages(struct host *host, const struct kv_mechanism *mechanism,
                                   const struct kv_options *options, size_t pages, size_t size)
{
    size_t bytes = size_product(pages, size_product(options->kv_heads, mechanism->head_bytes(options)));
    size_t most = size_max(KV_FILE_PAGES, size_product(KV_FILE_SHARE, size));
    FAIL_IF(bytes > most, host, HASHATTN_REFUSED,
            "%zu sequences take %zu pages of %d rows, %zu bytes; a file of %zu bytes may ask for %zu",
            options->num_sequences, pages, KV_PAGE_ROWS, bytes, size, most);
    return HASHATTN_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

struct out {
    struct file_writer file;
    uint64_t hash;
};

static void put(struct out *out, const void *bytes, size_t size)
{
    out->hash = mix(out->hash, bytes, size);
    file_write(&out->file, bytes, size);
}

static void put_rows(struct out *out, const struct kv_cache *cache, size_t sequence, bool values)
{
    const struct kv_options *options = &cache->options;
    size_t d = options->head_dim;
    float key[KV_WIDEST], value[KV_WIDEST], stored[KV_WIDEST];
    for (size_t r = 0; r < cache->pages.sequences[sequence].length; r++)
        for (size_t h = 0; h < options->kv_heads; h++) {
            cache->mechanism->read(cache, sequence, h, r, key, value);
            elements_store(cache->kernels, stored, d, options->dtype, values ? value : key, d, 1, d);
            put(out, stored, d * element_bytes(options->dtype));
        }
}

static hashattn_status check_written(const struct kv_cache *cache)
{
    struct kv_options options = cache->options;
    size_t pages = 0, rows = 0;
    options.num_sequences = cache->pages.num_sequences;
    for (size_t s = 0; s < options.num_sequences; s++) {
        pages += kv_pages_for(cache->pages.sequences[s].length);
        rows += cache->pages.sequences[s].length;
    }
    size_t size = sizeof(struct header) + CHECKSUM + options.num_sequences * sizeof(uint64_t);
    return check_pages(cache->host, cache->mechanism, &options, pages, size + rows * row_bytes(&options));
}

hashattn_status kv_cache_save(const struct kv_cache *cache, const char *path)
{
    const struct kv_options *options = &cache->options;
    struct out out = {.hash = first_hash};
    TRY(check_written(cache));
    TRY(file_open_writer(cache->host, path, &out.file));
    struct header header = {.num_sequences = cache->pages.num_sequences,
                            .num_heads = options->num_heads,
                            .kv_heads = options->kv_heads,
                            .head_dim = options->head_dim,
                            .window = options->window,
                            .window_step = options->window_step,
                            .bits = options->bits,
                            .first_rows = options->first_rows,
                            .last_rows = options->last_rows,
                            .seed = options->seed,
                            .budget = options->budget,
                            .tolerance = options->tolerance,
                            .scale = options->scale,
                            .sharpness = options->sharpness,
                            .dtype = options->dtype};
    memcpy(header.magic, magic, sizeof magic);
    strncpy(header.mechanism, cache->mechanism->name, sizeof header.mechanism - 1);
    put(&out, &header, sizeof header);
    for (size_t s = 0; s < cache->pages.num_sequences; s++) {
        uint64_t length = cache->pages.sequences[s].length;
        put(&out, &length, sizeof length);
    }
    for (size_t s = 0; s < cache->pages.num_sequences; s++) {
        put_rows(&out, cache, s, false);
        put_rows(&out, cache, s, true);
    }
    file_write(&out.file, &out.hash, CHECKSUM);
    return file_commit(cache->host, &out.file);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool is_in(double x, double least, double most)
{
    return x >= least && x <= most; /* not NaN */
}

static hashattn_status check_header(struct host *host, const struct header *h)
{
    const double least_scale = (double)(float)KV_LEAST_SCALE; /* as it is stored */
    FAIL_IF(h->num_sequences < 1 || h->num_heads < 1 || h->num_heads > KV_MOST_HEADS || h->kv_heads < 1 ||
                h->num_heads % h->kv_heads != 0 || h->head_dim < 1 || h->head_dim > KV_WIDEST,
            host, HASHATTN_BAD_FILE,
            "a damaged cache: its header has %" PRIu64 " sequences, %" PRIu64 " heads, %" PRIu64
            " key-value heads of width %" PRIu64,
            h->num_sequences, h->num_heads, h->kv_heads, h->head_dim);
    FAIL_IF(h->window_step < 1 || (h->window > 0 && h->window < h->window_step) || h->bits < 16 ||
                h->bits > KV_MOST_BITS || h->bits % 16 != 0 || h->first_rows > KV_MOST_ROWS ||
                h->last_rows > KV_MOST_ROWS || !(h->budget > 0) || !is_in(h->budget, 0, 1e12) ||
                !is_in(h->tolerance, 0, 1) || !is_in((double)h->scale, least_scale, KV_LARGEST_SCALE) ||
                !is_in((double)h->sharpness, 0.01, 2) || h->dtype > DTYPE_BFLOAT16 || h->reserved != 0,
            host, HASHATTN_BAD_FILE, "a damaged cache: an option of its header is out of range");
    return HASHATTN_OK;
}

static struct kv_options options_of(const struct header *h)
{
    return (struct kv_options){.num_sequences = h->num_sequences,
                               .num_heads = h->num_heads,
                               .kv_heads = h->kv_heads,
                               .head_dim = h->head_dim,
                               .dtype = (enum dtype)h->dtype,
                               .scale = h->scale,
                               .window = h->window,
                               .window_step = h->window_step,
                               .bits = h->bits,
                               .budget = h->budget,
                               .tolerance = h->tolerance,
                               .first_rows = h->first_rows,
                               .last_rows = h->last_rows,
                               .sharpness = h->sharpness,
                               .seed = h->seed};
}

static uint64_t length_at(const char *lengths, size_t sequence)
{
    uint64_t length;
    memcpy(&length, lengths + sequence * sizeof length, sizeof length);
    return length;
}

/* BAD_FILE unless the file has the size that its header and lengths need. */
static hashattn_status check_size(struct host *host, const struct header *header, const char *bytes,
                                  size_t size)
{
    const struct kv_options options = options_of(header);
    size_t lengths = size_product(header->num_sequences, sizeof(uint64_t)), rows = 0;
    size_t needed = size_sum(sizeof *header + CHECKSUM, lengths);
    FAIL_IF(needed > size, host, HASHATTN_BAD_FILE, "a damaged cache: %zu bytes, its lengths need %zu", size,
            needed);
    for (size_t s = 0; s < header->num_sequences; s++)
        rows = size_sum(rows, length_at(bytes + sizeof *header, s));
    needed = size_sum(needed, size_product(rows, row_bytes(&options)));
    FAIL_IF(needed != size, host, HASHATTN_BAD_FILE, "a damaged cache: %zu bytes, its header needs %zu", size,
            needed);
    return HASHATTN_OK;
}

static hashattn_status check_read(struct host *host, const struct kv_mechanism *mechanism,
                                  const struct kv_options *options, const char *lengths, size_t size)
{
    size_t pages = 0;
    for (size_t s = 0; s < options->num_sequences; s++)
        pages += kv_pages_for(length_at(lengths, s));
    if (check_pages(host, mechanism, options, pages, size) == HASHATTN_OK)
        return HASHATTN_OK;
    host_prefix(host, "a cache that needs too much memory");
    return HASHATTN_BAD_FILE;
}

/* Appends the rows of all sequences. */
static hashattn_status take_rows(struct kv_cache *cache, const char *lengths, const char *bytes)
{
    const struct kv_options *options = &cache->options;
    size_t width = options->kv_heads * options->head_dim;
    for (size_t s = 0; s < options->num_sequences; s++) {
        size_t length = length_at(lengths, s), size = length * width * element_bytes(options->dtype);
        const struct kv_rows key = {.data = (void *)(uintptr_t)bytes,
                                    .dtype = options->dtype,
                                    .row_stride = width,
                                    .head_stride = options->head_dim};
        struct kv_rows value = key;
        value.data = (void *)(uintptr_t)(bytes + size);
        TRY(kv_cache_append_to(cache, s, length, key, value));
        bytes += 2 * size;
    }
    return HASHATTN_OK;
}

hashattn_status kv_cache_parse(struct host *host, const struct kernels *kernels, struct pool *pool,
                               const char *bytes, size_t size, struct kv_cache *cache)
{
    struct header header;
    uint64_t hash;
    FAIL_IF(size < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0, host, HASHATTN_BAD_FILE,
            "not a key-value cache (hashattn_cache_save writes them)");
    FAIL_IF(size < sizeof header + CHECKSUM, host, HASHATTN_BAD_FILE,
            "a damaged cache: %zu bytes, its header needs %zu", size, sizeof header + CHECKSUM);
    memcpy(&header, bytes, sizeof header);
    TRY(check_header(host, &header));
    TRY(check_size(host, &header, bytes, size));
    memcpy(&hash, bytes + size - CHECKSUM, CHECKSUM);
    FAIL_IF(hash != mix(first_hash, bytes, size - CHECKSUM), host, HASHATTN_BAD_FILE,
            "a damaged cache: the checksum is wrong");
    header.mechanism[sizeof header.mechanism - 1] = '\0';
    const struct kv_mechanism *mechanism = kv_mechanism_find(header.mechanism);
    FAIL_IF(mechanism == NULL, host, HASHATTN_BAD_FILE, "a cache has no mechanism \"%s\"", header.mechanism);
    const struct kv_options options = options_of(&header);
    const char *lengths = bytes + sizeof header;
    TRY(check_read(host, mechanism, &options, lengths, size));
    TRY(kv_cache_new(host, kernels, pool, mechanism, &options, cache));
    hashattn_status status = take_rows(cache, lengths, lengths + options.num_sequences * sizeof(uint64_t));
    if (status == HASHATTN_OK)
        return status;
    kv_cache_free(cache);
    if (status == HASHATTN_INVALID) {
        host_prefix(host, "a damaged cache");
        status = HASHATTN_BAD_FILE;
    }
    return status;
}

hashattn_status kv_cache_load(struct host *host, const struct kernels *kernels, struct pool *pool,
                              const char *path, struct kv_cache *cache)
{
    char *bytes;
    size_t size;
    TRY(file_read(host, path, SIZE_MAX / 2, &bytes, &size));
    hashattn_status status = kv_cache_parse(host, kernels, pool, bytes, size, cache);
    memory_free(host, bytes);
    if (status != HASHATTN_OK && status != HASHATTN_NO_MEMORY)
        host_prefix(host, path);
    return status;
}
