/* Sort, walk, and the cheaper of two ways for each bucket. Cost: buckets.c and crowd.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parts/pairs.h"

enum {
    LINE = 16,       /* floats of a cache line */
    FETCH_MOST = 64, /* rows: more would push out what they are fetched for */
};

void pair_rows_lay_out(struct pair_rows *rows, struct arena *arena, size_t n, size_t dim, size_t value_dim)
{
    size_t ld = unit_padded(dim), ld_value = unit_padded(value_dim);
    rows->ld = size_sum(size_product(2, ld), ld_value);
    rows->unit = arena_take(arena, n, size_product(rows->ld, sizeof(float)));
    rows->gradient = rows->unit == NULL ? NULL : rows->unit + ld;
    rows->value = rows->unit == NULL ? NULL : rows->unit + 2 * ld;
}

/* Asks for the rows of a bucket while the one before it is computed. Together the rows are larger than the
   second cache, and no hardware foresees the order of buckets: a tenth of the time of backward at n 4096. */
static void fetch(const struct pair_rows *side, const uint32_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < side->ld; c += LINE)
            __builtin_prefetch(side->unit + rows[i] * side->ld + c);
}

void pairs_add(const struct kernels *kernels, const struct pairs *pairs, struct buckets *buckets,
               const struct crowd *crowd, const struct codes *queries, const struct codes *keys)
{
    struct bucket_pairs slot = {
        .query = pairs->queries.unit,
        .key = pairs->keys.unit,
        .value = pairs->keys.value,
        .dout = pairs->queries.value,
        .ld_query = pairs->queries.ld,
        .ld_key = pairs->keys.ld,
        .ld_value = pairs->keys.ld,
        .ld_dout = pairs->queries.ld,
        .dim = pairs->dim,
        .value_dim = pairs->value_dim,
        .bias = pairs->bias,
        .dquery = pairs->queries.gradient,
        .dkey = pairs->keys.gradient,
        .scale = pairs->scale,
        .tangent = pairs->tangent,
        .hash_bits = (unsigned)pairs->hash_bits,
    };
    for (size_t hash = 0; hash < queries->num_hashes; hash++) {
        struct bucket bucket, next = {0};
        buckets_sort(buckets, queries, keys, hash, pairs->hash_bits);
        for (bool more = buckets_next(buckets, &next); more;) {
            bucket = next;
            more = buckets_next(buckets, &next);
            if (more && next.num_queries + next.num_keys <= FETCH_MOST) {
                fetch(&pairs->queries, buckets->queries.rows + next.first_query, next.num_queries);
                fetch(&pairs->keys, buckets->keys.rows + next.first_key, next.num_keys);
            }
            slot.queries = buckets->queries.rows + bucket.first_query;
            slot.keys = buckets->keys.rows + bucket.first_key;
            slot.num_queries = bucket.num_queries;
            slot.num_keys = bucket.num_keys;
            if (crowd_is_cheaper(&slot))
                crowd_pairs(kernels, crowd, &slot);
            else
                kernels->bucket_pairs(&slot);
        }
    }
}
