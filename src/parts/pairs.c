/* Sort, walk, and the cheaper of two ways for each bucket. Cost: buckets.c and crowd.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parts/pairs.h"

#include "parts/causal_pairs.h"

enum {
    LINE = 16,       /* floats of a cache line */
    FETCH_MOST = 64, /* rows: more would push out what they are fetched for */
    PARTS = 4,       /* of the buckets of a hash, for each thread: they are not equally dear */
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

void pair_work_lay_out(struct pair_work *work, struct arena *arena, size_t num_queries, size_t num_keys,
                       size_t dim, size_t value_dim, size_t workers)
{
    buckets_lay_out(&work->buckets[0], arena, num_queries, num_keys);
    buckets_lay_out(&work->buckets[1], arena, num_queries, num_keys);
    work->crowds = arena_take(arena, workers, sizeof *work->crowds);
    for (size_t worker = 0; worker < workers; worker++) {
        struct crowd crowd;
        crowd_lay_out(&crowd, arena, dim, value_dim);
        if (work->crowds != NULL)
            work->crowds[worker] = crowd;
    }
}

/* One hash: its buckets in `parts` pieces, while the next hash is sorted. */
struct walk {
    const struct kernels *kernels;
    const struct pairs *pairs;
    struct pair_work *work;
    const struct codes *queries, *keys;
    size_t hash, parts;
};

static struct bucket_pairs slot_of(const struct pairs *pairs)
{
    return (struct bucket_pairs){
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
}

/* The buckets whose queries begin in [first, end) of the sorted list. */
static void walk_part(const struct walk *walk, const struct crowd *crowd, size_t first, size_t end)
{
    const struct pairs *pairs = walk->pairs;
    const struct buckets *buckets = &walk->work->buckets[walk->hash % 2];
    struct bucket_pairs slot = slot_of(pairs);
    struct bucket bucket, next = buckets_before(buckets, first);
    for (bool more = buckets_next(buckets, &next); more && next.first_query < end;) {
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
        if (pairs->visible != NULL)
            causal_pairs(walk->kernels, crowd, &slot, pairs->visible);
        else if (crowd_is_cheaper(&slot))
            crowd_pairs(walk->kernels, crowd, &slot);
        else
            walk->kernels->bucket_pairs(&slot);
    }
}

/* Index 0 sorts the next hash, the others are the pieces of this one. */
static void walk_or_sort(void *argument, size_t index, int worker)
{
    const struct walk *walk = argument;
    size_t next = walk->hash + 1, n = walk->queries->n;
    if (index > 0)
        walk_part(walk, &walk->work->crowds[worker], n * (index - 1) / walk->parts, n * index / walk->parts);
    else if (next < walk->queries->num_hashes)
        buckets_sort(&walk->work->buckets[next % 2], walk->queries, walk->keys, next, walk->pairs->hash_bits);
}

void pairs_add(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
               struct pair_work *work, const struct codes *queries, const struct codes *keys)
{
    struct walk walk = {.kernels = kernels,
                        .pairs = pairs,
                        .work = work,
                        .queries = queries,
                        .keys = keys,
                        .parts = pool == NULL ? 1 : PARTS * (size_t)pool_threads(pool)};
    buckets_sort(&work->buckets[0], queries, keys, 0, pairs->hash_bits);
    for (; walk.hash < queries->num_hashes; walk.hash++)
        pool_run(pool, walk_or_sort, &walk, 1 + walk.parts);
}
