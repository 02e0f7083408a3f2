/* One function for each block computes its size and carves it. The scratch of forward and that of backward
   share one block: its size is the larger of the two.
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/yoso/yoso_memory.h"

#include "base/memory.h"
#include "parts/collisions/normalize.h"
#include "parts/hashing/hadamard.h"
#include "parts/hashing/planes.h"
#include "parts/hashing/unit_map.h"

size_t yoso_lay_out_saved(struct yoso_saved *saved, const struct yoso_options *options,
                          const struct problem_shape *shape, void *block)
{
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(options);
    if (!options->recompute) {
        saved->query_codes = arena_take(&arena, codes_size(&hashing, shape->num_queries), 1);
        saved->key_codes = arena_take(&arena, codes_size(&hashing, shape->num_keys), 1);
    }
    saved->row_norms = arena_take(&arena, options->normalize == YOSO_NORMALIZE_NONE ? 0 : shape->num_queries,
                                  sizeof *saved->row_norms);
    return arena.used;
}

/* true if values may be rounded, as operands of products may. */
static bool rounds_values(const struct yoso_options *options, const struct problem_shape *shape)
{
    if (options->tables == YOSO_TABLES_AUTO)
        return shape->precision == PRECISION_BF16;
    return options->tables == YOSO_TABLES_INT16;
}

size_t yoso_lay_out_scratch(struct yoso_scratch *scratch, const struct yoso_options *options,
                            const struct problem_shape *shape, bool backward, void *block)
{
    struct arena arena = arena_on(block);
    struct hashing hashing = hashing_of(options);
    size_t n_q = shape->num_queries, n_k = shape->num_keys, float_size = sizeof(float);
    size_t width = unit_map_width(options, shape->head_dim);
    size_t ld_value = scratch->ld_value = unit_padded(shape->value_dim);
    bool shared = shape->ranks > 1, sums = options->normalize == YOSO_NORMALIZE_SUM;
    if (shared)
        yoso_ranks_init(&scratch->ranks, &arena, options, shape, !backward && sums, backward);
    if (!shared || shape->causal) /* causal: of its own rows */
        tables_init(&scratch->tables, &arena, &hashing, n_q, n_k, shape->value_dim, shape->workers,
                    shape->causal, !backward && !shape->causal && rounds_values(options, shape));
    if (options->recompute) {
        scratch->query_codes = arena_take(&arena, codes_size(&hashing, n_q), 1);
        scratch->key_codes = arena_take(&arena, codes_size(&hashing, n_k), 1);
    }
    if (!backward || options->recompute) {
        scratch->hasher.planes = arena_take(&arena, hasher_planes(options, shape->head_dim), float_size);
        hasher_init(&scratch->hasher, &arena, options, shape->head_dim, shape->workers);
    }
    if (!backward) {
        scratch->forward.value = arena_take(&arena, n_k, size_product(ld_value, float_size));
        scratch->forward.x = arena_take(&arena, n_q, size_product(ld_value, float_size));
        return arena.used;
    }
    /* With fewer hashes in the gradient, the sums of dX, which need all of them, come from tables. */
    bool near = !shared && options->gradient_hashes == 0 && pairs_are_near(n_q, n_k, width, shape->value_dim);
    pair_rows_init(&scratch->backward.queries, &arena, n_q, width, shape->value_dim, false, near);
    pair_rows_init(&scratch->backward.keys, &arena, n_k, width, shape->value_dim, true, near);
    size_t met = shared ? scratch->ranks.most : n_k;
    pair_work_init(&scratch->backward.pairs, &arena, &hashing, n_q, met, width, shape->value_dim,
                   shape->workers);
    scratch->backward.query_norm = arena_take(&arena, n_q, float_size);
    scratch->backward.key_norm = arena_take(&arena, n_k, float_size);
    scratch->backward.bias = arena_take(&arena, n_q, float_size);
    return arena.used;
}

size_t yoso_saved_size(const void *options, const struct problem_shape *shape)
{
    struct yoso_saved saved;
    return yoso_lay_out_saved(&saved, options, shape, NULL);
}

size_t yoso_scratch_size(const void *options, const struct problem_shape *shape)
{
    struct yoso_scratch scratch;
    size_t forward = yoso_lay_out_scratch(&scratch, options, shape, false, NULL);
    size_t backward = yoso_lay_out_scratch(&scratch, options, shape, true, NULL);
    return forward > backward ? forward : backward;
}

size_t yoso_planes_size(const void *options, size_t head_dim)
{
    struct planes_form form = hasher_form(options, head_dim);
    if (hadamard_is(form.kind))
        return hadamard_size(&form);
    return size_product(planes_count(&form), sizeof(float));
}

size_t yoso_planes_work_size(const void *options, size_t head_dim, size_t workers)
{
    struct planes_form form = hasher_form(options, head_dim);
    return hadamard_is(form.kind) ? 0 : planes_work_size(&form, workers);
}
