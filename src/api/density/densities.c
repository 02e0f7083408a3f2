/* Sketches of densities for the public header.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/density/densities.h"

#include <string.h>

#include "api/floating.h"
#include "api/versions/versions.h"
#include "base/memory.h"
#include "density/sketch_file.h"

void hashattn_density_options_default_sized(hashattn_density_options *options, size_t struct_size)
{
    const hashattn_density_options own = {.num_hashes = 32, .hash_bits = 9, .map = density_map_names[0]};
    version_fill_options(options, struct_size, &own, sizeof own);
}

/* Takes ownership of `sketch`, also if it fails. */
static hashattn_status wrap(hashattn_context *context, struct sketch *sketch, hashattn_density **density)
{
    void *block;
    hashattn_status status = memory_new(&context->host, 1, sizeof **density, "a density", &block);
    if (status != HASHATTN_OK) {
        sketch_free(&context->host, sketch);
        return status;
    }
    *density = block;
    **density = (hashattn_density){.context = context, .sketch = sketch};
    return HASHATTN_OK;
}

static hashattn_status take_options(struct host *host, const hashattn_density_options *given,
                                    struct sketch_options *options)
{
    hashattn_density_options own;
    hashattn_density_options_default(&own);
    if (given != NULL)
        TRY(version_take(host, &own, sizeof own, given, first_sizes.density_options, "density options"));
    FAIL_IF(own.num_hashes < 1 || own.num_hashes > SKETCH_MOST_HASHES, host, HASHATTN_INVALID,
            "`num_hashes` is %zu, allowed are 1 to %d", own.num_hashes, SKETCH_MOST_HASHES);
    FAIL_IF(own.hash_bits < 1 || own.hash_bits > SKETCH_MOST_BITS, host, HASHATTN_INVALID,
            "`hash_bits` is %zu, allowed are 1 to %d", own.hash_bits, SKETCH_MOST_BITS);
    int map = 0;
    while (own.map != NULL && density_map_names[map] != NULL && strcmp(own.map, density_map_names[map]) != 0)
        map++;
    FAIL_IF(density_map_names[map] == NULL, host, HASHATTN_INVALID,
            "no map '%.40s', there are: none, euclidean", own.map);
    *options = (struct sketch_options){.num_hashes = own.num_hashes,
                                       .hash_bits = own.hash_bits,
                                       .map = (enum density_map)map,
                                       .seed = own.seed};
    return HASHATTN_OK;
}

hashattn_status hashattn_density_new(hashattn_context *context, size_t dim,
                                     const hashattn_density_options *given, hashattn_density **density)
{
    FLOATING_DEFAULT;
    if (density != NULL)
        *density = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    struct sketch_options options;
    struct sketch *sketch;
    FAIL_IF(density == NULL, host, HASHATTN_INVALID, "density is NULL");
    FAIL_IF(dim < 1 || dim > SKETCH_MOST_DIM, host, HASHATTN_INVALID, "dim is %zu, allowed are 1 to %d", dim,
            SKETCH_MOST_DIM);
    TRY(take_options(host, given, &options));
    TRY(sketch_new(host, context->kernels, context->pool, &options, dim, &sketch));
    return wrap(context, sketch, density);
}

hashattn_status hashattn_density_new_like(const hashattn_density *like, hashattn_density **density)
{
    FLOATING_DEFAULT;
    if (density != NULL)
        *density = NULL;
    if (like == NULL)
        return HASHATTN_INVALID;
    hashattn_context *context = like->context;
    const struct sketch *model = like->sketch;
    struct sketch *sketch;
    FAIL_IF(density == NULL, &context->host, HASHATTN_INVALID, "density is NULL");
    TRY(sketch_new(&context->host, context->kernels, context->pool, &model->options, model->dim, &sketch));
    if (model->options.map == DENSITY_MAP_EUCLIDEAN) {
        memcpy(sketch->centre, model->centre, model->dim * sizeof *model->centre);
        memcpy(sketch->scale, model->scale, model->dim * sizeof *model->scale);
        sketch->mapped = model->mapped;
    }
    return wrap(context, sketch, density);
}

void hashattn_density_free(hashattn_density *density)
{
    if (density == NULL)
        return;
    struct host *host = &density->context->host;
    sketch_free(host, density->sketch);
    memory_free(host, density);
}

void hashattn_density_describe(const hashattn_density *density, hashattn_density_info *info)
{
    const struct sketch *sketch = density->sketch;
    const hashattn_density_info own = {.dim = sketch->dim,
                                       .num_hashes = sketch->options.num_hashes,
                                       .hash_bits = sketch->options.hash_bits,
                                       .map = density_map_names[sketch->options.map],
                                       .seed = sketch->options.seed,
                                       .rows = sketch->rows};
    version_give(info, &own, sizeof own);
}

static hashattn_status check_rows(const hashattn_density *density, const float *rows, size_t n)
{
    if (density == NULL)
        return HASHATTN_INVALID;
    struct host *host = &density->context->host;
    FAIL_IF(rows == NULL && n > 0, host, HASHATTN_INVALID, "rows is NULL");
    FAIL_IF(size_product(n, density->sketch->dim * sizeof *rows) > PTRDIFF_MAX, host, HASHATTN_INVALID,
            "%zu rows do not fit the memory", n);
    return HASHATTN_OK;
}

hashattn_status hashattn_density_add(hashattn_density *density, const float *rows, size_t n)
{
    FLOATING_DEFAULT;
    TRY(check_rows(density, rows, n));
    return sketch_add(&density->context->host, density->sketch, rows, n);
}

hashattn_status hashattn_density_remove(hashattn_density *density, const float *rows, size_t n)
{
    FLOATING_DEFAULT;
    TRY(check_rows(density, rows, n));
    return sketch_remove(&density->context->host, density->sketch, rows, n);
}

hashattn_status hashattn_density_score(hashattn_density *density, const float *rows, size_t n,
                                       float *densities, float *errors)
{
    FLOATING_DEFAULT;
    TRY(check_rows(density, rows, n));
    struct host *host = &density->context->host;
    FAIL_IF(densities == NULL && n > 0, host, HASHATTN_INVALID, "densities is NULL");
    return sketch_score(host, density->sketch, rows, n, densities, errors);
}

hashattn_status hashattn_density_merge(hashattn_density *density, const hashattn_density *from)
{
    FLOATING_DEFAULT;
    if (density == NULL)
        return HASHATTN_INVALID;
    struct host *host = &density->context->host;
    FAIL_IF(from == NULL, host, HASHATTN_INVALID, "from is NULL");
    return sketch_merge(host, density->sketch, from->sketch);
}

hashattn_status hashattn_density_save(const hashattn_density *density, const char *path)
{
    FLOATING_DEFAULT;
    if (density == NULL)
        return HASHATTN_INVALID;
    struct host *host = &density->context->host;
    FAIL_IF(path == NULL, host, HASHATTN_INVALID, "path is NULL");
    return sketch_save(host, density->sketch, path);
}

hashattn_status hashattn_density_load(hashattn_context *context, const char *path, hashattn_density **density)
{
    FLOATING_DEFAULT;
    if (density != NULL)
        *density = NULL;
    if (context == NULL)
        return HASHATTN_INVALID;
    struct host *host = &context->host;
    struct sketch *sketch;
    FAIL_IF(path == NULL || density == NULL, host, HASHATTN_INVALID, "%s is NULL",
            path == NULL ? "path" : "density");
    TRY(sketch_load(host, context->kernels, context->pool, path, &sketch));
    return wrap(context, sketch, density);
}
