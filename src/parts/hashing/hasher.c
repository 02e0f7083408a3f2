/* Blocks of rows, those of the queries first. Each thread widens, maps and packs CODES_ROWS rows at a time
   in its own memory. Cost: codes_hash, and a pass over rows that are mapped.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/hashing/hasher.h"

#include <stdatomic.h>

#include "parts/hashing/hadamard.h"
#include "parts/hashing/unit_map.h"
#include "parts/rows/elements.h"

enum { BLOCK_ROWS = 4 * CODES_ROWS }; /* rows of a unit of work */

struct hashing hashing_of(const struct yoso_options *options)
{
    return (struct hashing){.num_hashes = (size_t)options->num_hashes,
                            .hash_bits = (size_t)options->hash_bits,
                            .projection = (enum hash_projection)options->projection,
                            .planes = options->planes,
                            .pool =
                                options->plane_pool < options->num_hashes ? (size_t)options->plane_pool : 0};
}

struct planes_form hasher_form(const struct yoso_options *options, size_t dim)
{
    struct hashing hashing = hashing_of(options);
    return (struct planes_form){.kind = hashing.planes,
                                .num_hashes = hashing_drawn(&hashing),
                                .hash_bits = hashing.hash_bits,
                                .dim = unit_map_width(options, dim),
                                .dense = hashing.pool > 0};
}

size_t hasher_planes(const struct yoso_options *options, size_t dim)
{
    struct hashing hashing = hashing_of(options);
    struct planes_form form = hasher_form(options, dim);
    return hadamard_is(options->planes) ? hadamard_rotated_count(&hashing, form.dim)
                                        : planes_rotated_count(&form);
}

void hasher_init(struct hasher *hasher, struct arena *arena, const struct yoso_options *options, size_t dim,
                 size_t workers)
{
    size_t rows = size_product(workers, CODES_ROWS);
    hasher->options = options;
    hasher->hashing = hashing_of(options);
    hasher->dim = dim;
    hasher->width = unit_map_width(options, dim);
    hasher->max_norm = options->max_norm;
    hasher->ld = unit_padded(hasher->width);
    hasher->work = codes_work(&hasher->hashing, hasher->width);
    size_t row = size_product(hasher->ld, sizeof(float));
    hasher->sign = arena_take(arena, hasher->width, sizeof *hasher->sign);
    hasher->permutation = arena_take(arena, hasher->width, sizeof *hasher->permutation);
    hasher->rows = arena_take(arena, workers, size_product(hasher->work, sizeof *hasher->rows));
    hasher->squares = arena_take(arena, rows, sizeof *hasher->squares);
    hasher->taken = arena_take(arena, rows, row);
}

void hasher_turn(const struct kernels *kernels, const struct hasher *hasher, const float *shared,
                 uint64_t random_key)
{
    if (hadamard_is(hasher->hashing.planes)) {
        hadamard_rotate(&hasher->hashing, hasher->width, (uint32_t *)(void *)hasher->planes, shared,
                        random_key, hasher->permutation, hasher->sign);
        return;
    }
    struct planes_form form = hasher_form(hasher->options, hasher->dim);
    planes_rotate(kernels, hasher->hashing.projection, hasher->planes, shared, &form, random_key,
                  hasher->permutation, hasher->sign);
}

struct work {
    const struct kernels *kernels;
    const struct hasher *hasher;
    struct view queries, keys;
    void *query_codes, *key_codes;
    size_t query_blocks;
    atomic_bool not_finite;
};

static size_t count_blocks(struct view rows)
{
    return (rows.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static void hash_block(void *argument, size_t index, int worker)
{
    struct work *work = argument;
    const struct hasher *hasher = work->hasher;
    bool of_keys = index >= work->query_blocks;
    struct view side = of_keys ? work->keys : work->queries;
    char *codes = of_keys ? work->key_codes : work->query_codes;
    size_t first = (of_keys ? index - work->query_blocks : index) * BLOCK_ROWS;
    size_t n = size_min(BLOCK_ROWS, side.rows - first), place = (size_t)worker * CODES_ROWS, ld = hasher->ld;
    bool is_l2 = unit_map_is_l2(hasher->options), half = side.dtype == DTYPE_BFLOAT16, finite = true;
    size_t at_once = is_l2 && !half ? n : CODES_ROWS;
    float *taken = hasher->taken + place * ld, *work_rows = hasher->rows + (size_t)worker * hasher->work;
    float *squares = hasher->squares + place;
    for (size_t at = first, count; at < first + n; at += count) {
        const void *stored = (const char *)side.data + at * side.stride * element_bytes(side.dtype);
        const float *rows = stored;
        size_t ld_rows = side.stride;
        count = size_min(at_once, first + n - at);
        if (half) { /* the final place, or the source of the map */
            float *widened = is_l2 ? taken : work_rows;
            elements_load(work->kernels, widened, ld, stored, ld_rows, side.dtype, count, hasher->dim);
            rows = widened, ld_rows = ld;
        }
        if (!is_l2) {
            unit_map_take(taken, ld, squares, rows, ld_rows, count, hasher->dim, hasher->max_norm, of_keys);
            rows = taken, ld_rows = ld;
        }
        finite &= codes_hash(work->kernels, codes + codes_size(&hasher->hashing, at), &hasher->hashing, rows,
                             ld_rows, count, hasher->width, hasher->planes, work_rows, ld, squares);
    }
    if (!finite)
        atomic_store_explicit(&work->not_finite, true, memory_order_relaxed);
}

bool hasher_codes(const struct kernels *kernels, struct pool *pool, const struct hasher *hasher,
                  struct view queries, struct view keys, void *query_codes, void *key_codes)
{
    struct work work = {.kernels = kernels,
                        .hasher = hasher,
                        .queries = queries,
                        .keys = keys,
                        .query_codes = query_codes,
                        .key_codes = key_codes,
                        .query_blocks = count_blocks(queries)};
    pool_run(pool, hash_block, &work, work.query_blocks + count_blocks(keys));
    return !atomic_load(&work.not_finite);
}
