/* Public key-value caches: checks the arguments, then makes one call of decoding/kv_cache.h.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/floating.h"
#include "api/handles.h"
#include "api/operator/operands.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "decoding/kv_cache_mechanism.h"
#include "decoding/kv_codes.h"
#include "decoding/kv_file.h"
#include "hashattn/cache.h"
#include "parts/rows/elements.h"
#include "parts/rows/overlap.h"

struct hashattn_cache {
    struct kv_cache cache;
};

static struct host *host_of(const hashattn_cache *cache)
{
    return cache->cache.host;
}

void hashattn_cache_options_default_sized(hashattn_cache_options *options, size_t struct_size)
{
    const hashattn_cache_options own = {.mechanism = "softmax",
                                        .num_sequences = 1,
                                        .num_heads = 1,
                                        .kv_heads = 1,
                                        .window_step = 1,
                                        .budget = 0.02,
                                        .first_rows = 4,
                                        .last_rows = 32};
    version_fill_options(options, struct_size, &own, sizeof own);
}

/* ---- making -------------------------------------------------------------------------------------------- */

static hashattn_status check_sizes(struct host *host, const hashattn_cache_options *given)
{
    FAIL_IF(given->num_sequences == 0 || given->num_sequences > operand_most, host, HASHATTN_INVALID,
            "num_sequences is %zu, at least 1 is needed", given->num_sequences);
    FAIL_IF(given->num_heads == 0 || given->num_heads > KV_MOST_HEADS, host, HASHATTN_INVALID,
            "num_heads is %zu, allowed are 1 to %d", given->num_heads, KV_MOST_HEADS);
    FAIL_IF(given->kv_heads == 0 || given->num_heads % given->kv_heads != 0, host, HASHATTN_INVALID,
            "kv_heads is %zu, which does not divide num_heads %zu", given->kv_heads, given->num_heads);
    FAIL_IF(given->head_dim == 0 || given->head_dim > KV_WIDEST, host, HASHATTN_INVALID,
            "head_dim is %zu, allowed are 1 to %d", given->head_dim, KV_WIDEST);
    FAIL_IF(given->element != HASHATTN_FLOAT32 && given->element != HASHATTN_BF16, host, HASHATTN_INVALID,
            "element is %d, allowed are HASHATTN_FLOAT32 and HASHATTN_BF16", (int)given->element);
    FAIL_IF(given->scale != 0 && !(given->scale >= KV_LEAST_SCALE && given->scale <= KV_LARGEST_SCALE), host,
            HASHATTN_INVALID, "scale is %g, allowed are %g to %g, and 0 for the default", given->scale,
            KV_LEAST_SCALE, KV_LARGEST_SCALE);
    FAIL_IF(given->window_step == 0 || (given->window > 0 && given->window < given->window_step), host,
            HASHATTN_INVALID, "window_step is %zu, allowed are 1 to window, which is %zu", given->window_step,
            given->window);
    return HASHATTN_OK;
}

static hashattn_status check_choice(struct host *host, const hashattn_cache_options *given)
{
    FAIL_IF(!(given->budget > 0 && given->budget <= 1e12), host, HASHATTN_INVALID,
            "`budget` is %g; a share below 1 or a number of rows is needed", given->budget);
    FAIL_IF(!(given->tolerance >= 0 && given->tolerance < 1), host, HASHATTN_INVALID,
            "`tolerance` is %g, allowed are 0 (none) to 1", given->tolerance);
    FAIL_IF(given->tolerance > 0 && strcmp(given->mechanism, "hashed") != 0, host, HASHATTN_INVALID,
            "%s knows no error of its own, so it has no `tolerance`", given->mechanism);
    FAIL_IF(given->bits > KV_MOST_BITS || given->bits % 16 != 0, host, HASHATTN_INVALID,
            "`bits` is %zu; a multiple of 16 from 16 to %d is needed, or 0 for the default", given->bits,
            KV_MOST_BITS);
    FAIL_IF(given->first_rows > operand_most || given->last_rows > operand_most, host, HASHATTN_INVALID,
            "first_rows is %zu and last_rows %zu, which is too large", given->first_rows, given->last_rows);
    FAIL_IF(given->sharpness != 0 && !(given->sharpness >= 0.05 && given->sharpness <= 2), host,
            HASHATTN_INVALID, "sharpness is %g, allowed are 0.05 to 2, and 0 for the default",
            given->sharpness);
    return HASHATTN_OK;
}

static struct kv_options options_of(const hashattn_cache_options *given)
{
    double scale = given->scale > 0 ? given->scale : 1 / sqrt((double)given->head_dim);
    size_t bits = given->bits > 0 ? given->bits : kv_code_bits(given->head_dim);
    double sharpness = given->sharpness > 0 ? given->sharpness : kv_code_sharpness(bits, given->head_dim);
    return (struct kv_options){
        .num_sequences = given->num_sequences,
        .num_heads = given->num_heads,
        .kv_heads = given->kv_heads,
        .head_dim = given->head_dim,
        .dtype = given->element == HASHATTN_BF16 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32,
        .scale = (float)scale,
        .window = given->window,
        .window_step = given->window_step,
        .bits = bits,
        .budget = given->budget,
        .tolerance = given->tolerance,
        .first_rows = given->first_rows,
        .last_rows = given->last_rows,
        .sharpness = (float)sharpness,
        .seed = given->seed,
    };
}

static hashattn_status find_mechanism(struct host *host, const char *name,
                                      const struct kv_mechanism **mechanism)
{
    char names[128] = "";
    FAIL_IF(name == NULL, host, HASHATTN_INVALID, "mechanism is NULL");
    *mechanism = kv_mechanism_find(name);
    for (const char *const *each = kv_mechanism_names; *mechanism == NULL && *each != NULL; each++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : " ", *each);
    }
    FAIL_IF(*mechanism == NULL, host, HASHATTN_INVALID, "a cache has no mechanism \"%s\"; there are: %s",
            name, names);
    return HASHATTN_OK;
}

hashattn_status hashattn_cache_new(hashattn_context *context, const hashattn_cache_options *options,
                                   hashattn_cache **cache)
{
    FLOATING_DEFAULT;
    if (cache != NULL)
        *cache = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    FAIL_IF(cache == NULL, host, HASHATTN_INVALID, "cache is NULL");
    hashattn_cache_options given;
    hashattn_cache_options_default(&given);
    TRY(version_take(host, &given, sizeof given, options, first_sizes.cache_options, "options"));
    TRY(check_sizes(host, &given));
    const struct kv_mechanism *mechanism;
    TRY(find_mechanism(host, given.mechanism, &mechanism));
    TRY(check_choice(host, &given));
    void *block;
    TRY(memory_new(host, 1, sizeof(struct hashattn_cache), "a cache", &block));
    hashattn_cache *made = block;
    const struct kv_options own = options_of(&given);
    hashattn_status status =
        kv_cache_new(host, context->kernels, context->pool, mechanism, &own, &made->cache);
    if (status != HASHATTN_OK) {
        memory_free(host, block);
        return status;
    }
    *cache = made;
    return HASHATTN_OK;
}

void hashattn_cache_free(hashattn_cache *cache)
{
    if (cache == NULL)
        return;
    struct host *host = host_of(cache);
    kv_cache_free(&cache->cache);
    memory_free(host, cache);
}

/* ---- arrays -------------------------------------------------------------------------------------------- */

/* One array of a call. */
struct given_rows {
    const char *name;
    const hashattn_array *array;
    size_t rows, heads;
    hashattn_element element;
    bool written;
};

static enum dtype dtype_of(hashattn_element element)
{
    return element == HASHATTN_BF16 ? DTYPE_BFLOAT16 : DTYPE_FLOAT32;
}

static hashattn_status check_rows(const hashattn_cache *cache, const struct given_rows *given)
{
    struct host *host = host_of(cache);
    const hashattn_array *array = given->array;
    size_t sequences = cache->cache.pages.num_sequences, d = cache->cache.options.head_dim;
    FAIL_IF(array == NULL || array->data == NULL, host, HASHATTN_INVALID, "%s is NULL for %zu rows",
            given->name, given->rows);
    FAIL_IF(given->rows > 1 && array->row_stride < d, host, HASHATTN_INVALID,
            "%s: row_stride is %zu, at least %zu is needed", given->name, array->row_stride, d);
    FAIL_IF(array->row_stride > PTRDIFF_MAX / 16 / given->rows ||
                array->head_stride > PTRDIFF_MAX / 16 / given->heads ||
                array->sequence_stride > PTRDIFF_MAX / 16 / sequences,
            host, HASHATTN_INVALID, "%s: strides of %zu, %zu and %zu are too large for %zu rows", given->name,
            array->sequence_stride, array->row_stride, array->head_stride, given->rows);
    struct operand_step steps[] = {{"row_stride", given->rows, array->row_stride},
                                   {"head_stride", given->heads, array->head_stride},
                                   {"sequence_stride", sequences, array->sequence_stride}};
    return given->written ? operand_check_apart(host, given->name, d, steps, 3) : HASHATTN_OK;
}

static hashattn_status check_call(const hashattn_cache *cache, size_t rows, hashattn_element element)
{
    FAIL_IF(element != HASHATTN_FLOAT32 && element != HASHATTN_BF16, host_of(cache), HASHATTN_INVALID,
            "element is %d, allowed are HASHATTN_FLOAT32 and HASHATTN_BF16", (int)element);
    FAIL_IF(rows > operand_most / cache->cache.options.num_heads / cache->cache.pages.num_sequences,
            host_of(cache), HASHATTN_INVALID, "rows is %zu, which is too large", rows);
    return HASHATTN_OK;
}

static struct spread bytes_of(const hashattn_cache *cache, const struct given_rows *given)
{
    size_t bytes = element_bytes(dtype_of(given->element));
    return (struct spread){
        .start = (uintptr_t)given->array->data,
        .width = cache->cache.options.head_dim * bytes,
        .num_steps = SPREAD_STEPS,
        .step = {{given->rows, given->array->row_stride * bytes},
                 {given->heads, given->array->head_stride * bytes},
                 {cache->cache.pages.num_sequences, given->array->sequence_stride * bytes}}};
}

static struct kv_rows rows_of(const struct given_rows *given)
{
    return (struct kv_rows){.data = given->array->data,
                            .dtype = dtype_of(given->element),
                            .sequence_stride = given->array->sequence_stride,
                            .row_stride = given->array->row_stride,
                            .head_stride = given->array->head_stride};
}

hashattn_status hashattn_cache_append(hashattn_cache *cache, size_t rows, hashattn_element element,
                                      const hashattn_array *key, const hashattn_array *value,
                                      const uint8_t *key_mask)
{
    FLOATING_DEFAULT;
    if (cache == NULL)
        return HASHATTN_INVALID;
    TRY(check_call(cache, rows, element));
    if (rows == 0)
        return HASHATTN_OK;
    size_t heads = cache->cache.options.kv_heads;
    const struct given_rows keys = {"key", key, rows, heads, element, false};
    const struct given_rows values = {"value", value, rows, heads, element, false};
    TRY(check_rows(cache, &keys));
    TRY(check_rows(cache, &values));
    for (size_t i = 0; key_mask != NULL && i < cache->cache.pages.num_sequences * rows; i++)
        FAIL_IF(key_mask[i] > 1, host_of(cache), HASHATTN_INVALID,
                "key_mask is %u at sequence %zu, row %zu, allowed are 0 and 1", key_mask[i], i / rows,
                i % rows);
    return kv_cache_append(&cache->cache, rows, rows_of(&keys), rows_of(&values), key_mask);
}

hashattn_status hashattn_cache_attend(hashattn_cache *cache, size_t rows, hashattn_element element,
                                      const hashattn_array *query, const hashattn_array *out)
{
    FLOATING_DEFAULT;
    if (cache == NULL)
        return HASHATTN_INVALID;
    TRY(check_call(cache, rows, element));
    if (rows == 0)
        return HASHATTN_OK;
    size_t heads = cache->cache.options.num_heads;
    const struct given_rows queries = {"query", query, rows, heads, element, false};
    const struct given_rows outs = {"out", out, rows, heads, element, true};
    TRY(check_rows(cache, &queries));
    TRY(check_rows(cache, &outs));
    FAIL_IF(spread_overlap(bytes_of(cache, &outs), bytes_of(cache, &queries)), host_of(cache),
            HASHATTN_INVALID, "out overlaps query: an output must not share memory with another array");
    return kv_cache_attend(&cache->cache, rows, rows_of(&queries), rows_of(&outs));
}

void hashattn_cache_describe(const hashattn_cache *cache, hashattn_cache_report *report)
{
    const struct kv_report *last = &cache->cache.report;
    const hashattn_cache_report own = {.rows_read = last->rows_read, .error = last->error};
    version_give(report, &own, sizeof own);
}

/* ---- files --------------------------------------------------------------------------------------------- */

hashattn_status hashattn_cache_save(const hashattn_cache *cache, const char *path)
{
    FLOATING_DEFAULT;
    if (cache == NULL)
        return HASHATTN_INVALID;
    FAIL_IF(path == NULL, host_of(cache), HASHATTN_INVALID, "path is NULL");
    return kv_cache_save(&cache->cache, path);
}

hashattn_status hashattn_cache_load(hashattn_context *context, const char *path, hashattn_cache **cache)
{
    FLOATING_DEFAULT;
    if (cache != NULL)
        *cache = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    void *block;
    FAIL_IF(path == NULL || cache == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "cache");
    TRY(memory_new(host, 1, sizeof(struct hashattn_cache), "a cache", &block));
    hashattn_cache *made = block;
    hashattn_status status = kv_cache_load(host, context->kernels, context->pool, path, &made->cache);
    if (status != HASHATTN_OK) {
        memory_free(host, block);
        return status;
    }
    *cache = made;
    return HASHATTN_OK;
}

void hashattn_cache_get_options(const hashattn_cache *cache, hashattn_cache_options *options)
{
    const struct kv_options *o = &cache->cache.options;
    const hashattn_cache_options own = {
        .mechanism = cache->cache.mechanism->name,
        .num_sequences = cache->cache.pages.num_sequences,
        .num_heads = o->num_heads,
        .kv_heads = o->kv_heads,
        .head_dim = o->head_dim,
        .element = o->dtype == DTYPE_BFLOAT16 ? HASHATTN_BF16 : HASHATTN_FLOAT32,
        .scale = (double)o->scale,
        .window = o->window,
        .window_step = o->window_step,
        .budget = o->budget,
        .tolerance = o->tolerance,
        .bits = o->bits,
        .first_rows = o->first_rows,
        .last_rows = o->last_rows,
        .sharpness = (double)o->sharpness,
        .seed = o->seed,
    };
    version_give(options, &own, sizeof own);
}

/* ---- the rows held ------------------------------------------------------------------------------------- */

size_t hashattn_cache_num_sequences(const hashattn_cache *cache)
{
    return cache->cache.pages.num_sequences;
}

size_t hashattn_cache_length(const hashattn_cache *cache, size_t sequence)
{
    return sequence < cache->cache.pages.num_sequences ? cache->cache.pages.sequences[sequence].length : 0;
}

hashattn_status hashattn_cache_truncate(hashattn_cache *cache, const size_t *lengths)
{
    FLOATING_DEFAULT;
    if (cache == NULL)
        return HASHATTN_INVALID;
    size_t sequences = cache->cache.pages.num_sequences;
    FAIL_IF(lengths == NULL, host_of(cache), HASHATTN_INVALID, "lengths is NULL");
    for (size_t s = 0; s < sequences; s++)
        FAIL_IF(lengths[s] > hashattn_cache_length(cache, s), host_of(cache), HASHATTN_INVALID,
                "sequence %zu has %zu rows, so %zu cannot be kept", s, hashattn_cache_length(cache, s),
                lengths[s]);
    for (size_t s = 0; s < sequences; s++)
        kv_cache_truncate(&cache->cache, s, lengths[s]);
    return HASHATTN_OK;
}

hashattn_status hashattn_cache_reorder(hashattn_cache *cache, const size_t *from, size_t count)
{
    FLOATING_DEFAULT;
    if (cache == NULL)
        return HASHATTN_INVALID;
    size_t sequences = cache->cache.pages.num_sequences;
    FAIL_IF(from == NULL, host_of(cache), HASHATTN_INVALID, "from is NULL");
    FAIL_IF(count == 0 || count > operand_most, host_of(cache), HASHATTN_INVALID,
            "count is %zu, at least 1 sequence is needed", count);
    for (size_t s = 0; s < count; s++)
        FAIL_IF(from[s] >= sequences, host_of(cache), HASHATTN_INVALID,
                "from is %zu at %zu, allowed are 0 to %zu", from[s], s, sequences - 1);
    return kv_cache_reorder(&cache->cache, from, count);
}

void hashattn_cache_clear(hashattn_cache *cache)
{
    for (size_t s = 0; s < cache->cache.pages.num_sequences; s++)
        kv_cache_truncate(&cache->cache, s, 0);
}

size_t hashattn_cache_nbytes(const hashattn_cache *cache)
{
    return sizeof *cache + kv_cache_nbytes(&cache->cache);
}
