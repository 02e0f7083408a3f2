/* The cache around its mechanism: checks of numbers, rows into pages, scratch memory.
   SPDX-License-Identifier: Apache-2.0 */
#include "decoding/kv_cache.h"

#include <string.h>

#include "base/memory.h"
#include "decoding/kv_cache_mechanism.h"
#include "parts/rows/elements.h"

static const struct kv_mechanism *const mechanisms[] = {
    &kv_mechanism_softmax, &kv_mechanism_hashed, &kv_mechanism_top,   &kv_mechanism_top_uniform,
    &kv_mechanism_hamming, &kv_mechanism_lsh,    &kv_mechanism_window};

const char *const kv_mechanism_names[] = {"softmax", "hashed", "top",    "top-uniform",
                                          "hamming", "lsh",    "window", NULL};

const struct kv_mechanism *kv_mechanism_find(const char *name)
{
    for (size_t m = 0; m < sizeof mechanisms / sizeof mechanisms[0]; m++)
        if (strcmp(mechanisms[m]->name, name) == 0)
            return mechanisms[m];
    return NULL;
}

hashattn_status kv_cache_new(struct host *host, const struct kernels *kernels, struct pool *pool,
                             const struct kv_mechanism *mechanism, const struct kv_options *options,
                             struct kv_cache *cache)
{
    *cache = (struct kv_cache){.host = host,
                               .kernels = kernels,
                               .pool = pool,
                               .mechanism = mechanism,
                               .options = *options,
                               .head_bytes = mechanism->head_bytes(options)};
    TRY(kv_pages_new(host, options->num_sequences, size_product(options->kv_heads, cache->head_bytes),
                     &cache->pages));
    hashattn_status status = mechanism->prepare == NULL ? HASHATTN_OK : mechanism->prepare(cache);
    if (status != HASHATTN_OK)
        kv_cache_free(cache);
    return status;
}

void kv_cache_free(struct kv_cache *cache)
{
    kv_pages_free(&cache->pages);
    memory_free(cache->host, cache->scratch);
    memory_free(cache->host, cache->planes);
    cache->scratch = NULL;
    cache->planes = NULL;
}

size_t kv_first_seen(const struct kv_options *options, size_t position)
{
    size_t end = (position / options->window_step + 1) * options->window_step;
    return options->window == 0 || end <= options->window ? 0 : end - options->window;
}

/* ---- rows of the caller -------------------------------------------------------------------------------- */

static void *place(struct kv_rows rows, size_t sequence, size_t row, size_t head)
{
    size_t element = sequence * rows.sequence_stride + row * rows.row_stride + head * rows.head_stride;
    return (unsigned char *)rows.data + element * element_bytes(rows.dtype);
}

void kv_load_row(const struct kv_cache *cache, float *to, struct kv_rows from, size_t sequence, size_t row,
                 size_t head)
{
    size_t d = cache->options.head_dim;
    elements_load(cache->kernels, to, d, place(from, sequence, row, head), d, from.dtype, 1, d);
}

void kv_store_row(const struct kv_cache *cache, struct kv_rows to, size_t sequence, size_t row, size_t head,
                  const float *from)
{
    size_t d = cache->options.head_dim;
    elements_store(cache->kernels, place(to, sequence, row, head), d, to.dtype, from, d, 1, d);
}

static hashattn_status check_row(const struct kv_cache *cache, const float *row, const char *name,
                                 float largest, size_t sequence, size_t r, size_t head)
{
    size_t d = cache->options.head_dim;
    FAIL_IF(!cache->kernels->rows.all_finite(row, d, 1, d), cache->host, HASHATTN_INVALID,
            "%s holds NaN or infinity at sequence %zu, row %zu, head %zu", name, sequence, r, head);
    float size = cache->kernels->rows.largest_size(row, d, 1, d);
    FAIL_IF(size > largest, cache->host, HASHATTN_INVALID,
            "%s holds %g at sequence %zu, row %zu, head %zu; the limit is %g", name, (double)size, sequence,
            r, head, (double)largest);
    return HASHATTN_OK;
}

/* Of the sequences [first, end). */
static hashattn_status check_numbers(const struct kv_cache *cache, const char *name, struct kv_rows rows,
                                     size_t first, size_t end, size_t count, size_t heads,
                                     const uint8_t *mask, float largest)
{
    float row[KV_WIDEST];
    for (size_t s = first; s < end; s++)
        for (size_t r = 0; r < count; r++)
            for (size_t h = 0; h < heads && (mask == NULL || mask[s * count + r] != 0); h++) {
                kv_load_row(cache, row, rows, s, r, h);
                TRY(check_row(cache, row, name, largest, s, r, h));
            }
    return HASHATTN_OK;
}

/* ---- appending ----------------------------------------------------------------------------------------- */

struct kv_append {
    const struct kv_cache *cache;
    size_t rows;
    struct kv_rows key, value;
    const uint8_t *mask;
    size_t first; /* sequence of unit 0 */
};

static bool exists(const uint8_t *mask, size_t rows, size_t sequence, size_t row)
{
    return mask == NULL || mask[sequence * rows + row] != 0;
}

/* Unit: one key-value head of one sequence. */
static void write_head(void *argument, size_t unit, int worker)
{
    (void)worker;
    const struct kv_append *append = argument;
    const struct kv_cache *cache = append->cache;
    size_t s = append->first + unit / cache->options.kv_heads, h = unit % cache->options.kv_heads;
    size_t position = cache->pages.sequences[s].length;
    float key[KV_WIDEST], value[KV_WIDEST];
    for (size_t r = 0; r < append->rows; r++)
        if (exists(append->mask, append->rows, s, r)) {
            kv_load_row(cache, key, append->key, s, r, h);
            kv_load_row(cache, value, append->value, s, r, h);
            cache->mechanism->write(cache, s, h, position++, key, value);
        }
}

static size_t count_rows(const uint8_t *mask, size_t rows, size_t sequence)
{
    size_t count = 0;
    for (size_t r = 0; r < rows; r++)
        count += exists(mask, rows, sequence, r);
    return count;
}

/* Gives every sequence room for its rows, or changes none. */
static hashattn_status reserve(struct kv_cache *cache, size_t rows, const uint8_t *mask)
{
    struct kv_pages *pages = &cache->pages;
    hashattn_status status = HASHATTN_OK;
    for (size_t s = 0; s < pages->num_sequences && status == HASHATTN_OK; s++)
        status = kv_pages_reserve(pages, s, count_rows(mask, rows, s));
    for (size_t s = 0; s < pages->num_sequences && status != HASHATTN_OK; s++)
        kv_pages_truncate(pages, s, pages->sequences[s].length);
    return status;
}

hashattn_status kv_cache_append(struct kv_cache *cache, size_t rows, struct kv_rows key, struct kv_rows value,
                                const uint8_t *mask)
{
    const struct kv_options *options = &cache->options;
    size_t sequences = cache->pages.num_sequences;
    struct kv_append append = {cache, rows, key, value, mask, 0};
    TRY(check_numbers(cache, "key", key, 0, sequences, rows, options->kv_heads, mask, KV_LARGEST_KEY));
    TRY(check_numbers(cache, "value", value, 0, sequences, rows, options->kv_heads, mask, KV_LARGEST_VALUE));
    TRY(reserve(cache, rows, mask));
    pool_run(cache->pool, write_head, &append, cache->pages.num_sequences * options->kv_heads);
    for (size_t s = 0; s < cache->pages.num_sequences; s++)
        cache->pages.sequences[s].length += count_rows(mask, rows, s);
    return HASHATTN_OK;
}

hashattn_status kv_cache_append_to(struct kv_cache *cache, size_t sequence, size_t rows, struct kv_rows key,
                                   struct kv_rows value)
{
    const struct kv_options *options = &cache->options;
    struct kv_append append = {cache, rows, key, value, NULL, sequence};
    key.sequence_stride = value.sequence_stride = 0;
    TRY(check_numbers(cache, "key", key, sequence, sequence + 1, rows, options->kv_heads, NULL,
                      KV_LARGEST_KEY));
    TRY(check_numbers(cache, "value", value, sequence, sequence + 1, rows, options->kv_heads, NULL,
                      KV_LARGEST_VALUE));
    TRY(kv_pages_reserve(&cache->pages, sequence, rows));
    pool_run(cache->pool, write_head, &append, options->kv_heads);
    cache->pages.sequences[sequence].length += rows;
    return HASHATTN_OK;
}

/* ---- attention ----------------------------------------------------------------------------------------- */

static hashattn_status grow_scratch(struct kv_cache *cache, size_t bytes)
{
    void *block;
    if (bytes <= cache->scratch_bytes)
        return HASHATTN_OK;
    TRY(memory_new(cache->host, 1, bytes, "the scratch memory of a cache", &block));
    memory_free(cache->host, cache->scratch);
    cache->scratch = block;
    cache->scratch_bytes = bytes;
    return HASHATTN_OK;
}

hashattn_status kv_cache_attend(struct kv_cache *cache, size_t rows, struct kv_rows query, struct kv_rows out)
{
    TRY(check_numbers(cache, "query", query, 0, cache->pages.num_sequences, rows, cache->options.num_heads,
                      NULL, KV_LARGEST_KEY));
    TRY(grow_scratch(cache, cache->mechanism->scratch_bytes(cache, rows)));
    const struct kv_attend call = {cache, rows, query, out, cache->scratch, &cache->report};
    cache->mechanism->attend(&call);
    return HASHATTN_OK;
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

void kv_cache_truncate(struct kv_cache *cache, size_t sequence, size_t length)
{
    kv_pages_truncate(&cache->pages, sequence, length);
}

hashattn_status kv_cache_reorder(struct kv_cache *cache, const size_t *from, size_t count)
{
    return kv_pages_reorder(&cache->pages, from, count);
}

size_t kv_cache_nbytes(const struct kv_cache *cache)
{
    return kv_pages_nbytes(&cache->pages) + cache->scratch_bytes + cache->planes_bytes;
}
