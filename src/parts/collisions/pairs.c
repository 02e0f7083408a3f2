/* Bucket by bucket, each the cheaper of two ways: cost in buckets.c, simd_pairs.h and dense_bucket.c. The
   rows of a bucket come into L1 once and serve its sums of dX and its pairs; tables for the sums, as in
   forward, needed a separate pass over everything. Two attempts with lists of partners by row, for rows with
   few partners, failed: with each pair once, at n 4096, tau 9, blocks of 8 x 8 pairs are faster by half,
   because lists have the rows in L1 but do not reuse registers; and chains of rows by code, for fewer
   than 1.5 collisions of a row per hash, lost their gain once rows without a partner were dropped before
   sorting.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/pairs.h"

#include <assert.h>

#include "base/random.h"
#include "parts/collisions/causal_pairs.h"

/* Budget for all rows: twice a 1 MiB L2. Above it, sums of dX hash by hash gain nothing over tables (0.8
   to 1.4 of the time of backward at n 4096, more when L3 is busier), and prefetching rows saves a tenth. */
enum { NEAR_FLOATS = 1 << 19 };

static size_t width_of(size_t dim, size_t value_dim, bool sums)
{
    return size_sum(size_product(2, unit_padded(dim)), size_product(sums ? 2 : 1, unit_padded(value_dim)));
}

bool pairs_are_near(size_t num_queries, size_t num_keys, size_t dim, size_t value_dim)
{
    return size_sum(size_product(num_queries, width_of(dim, value_dim, false)),
                    size_product(num_keys, width_of(dim, value_dim, true))) <= NEAR_FLOATS;
}

void pair_rows_init(struct pair_rows *rows, struct arena *arena, size_t n, size_t dim, size_t value_dim,
                    bool of_keys, bool near)
{
    size_t row = size_product(width_of(dim, value_dim, of_keys), sizeof(float));
    *rows = (struct pair_rows){.unit = arena_take(arena, n, row),
                               .ld = width_of(dim, value_dim, of_keys && near)};
    if (rows->unit == NULL)
        return;
    rows->gradient = rows->unit + unit_padded(dim);
    rows->value = rows->gradient + unit_padded(dim);
    if (of_keys && near)
        rows->sum = rows->value + unit_padded(value_dim);
}

void pair_work_init(struct pair_work *work, struct arena *arena, const struct hashing *hashing,
                    size_t num_queries, size_t num_keys, size_t dim, size_t value_dim, size_t workers)
{
    bucket_walk_init(&work->walk, arena, hashing, num_queries, num_keys);
    work->of_count = arena_take(arena, size_sum(hashing->num_hashes, 1), sizeof *work->of_count);
    work->hashes = arena_take(arena, hashing->num_hashes, sizeof *work->hashes);
    work->dense = arena_take(arena, workers, sizeof *work->dense);
    work->scratches = arena_take(arena, workers, sizeof *work->scratches);
    for (size_t worker = 0; worker < workers; worker++) {
        struct dense_scratch dense;
        struct colliding_scratch scratch;
        dense_scratch_init(&dense, arena, dim, value_dim);
        colliding_scratch_init(&scratch, arena);
        if (work->dense == NULL)
            continue;
        work->dense[worker] = dense;
        work->scratches[worker] = scratch;
    }
}

/* The walk over all hashes. */
struct walk {
    const struct kernels *kernels;
    const struct pairs *pairs;
    struct pair_work *work;
    struct colliding colliding;
    bool plain;   /* all pairs of a bucket, once per collision: slot pairs.bucket_list or dense */
    size_t never; /* dense_never of the widths */
    struct hash_list hashes;
    float scale; /* of a weight */
};

static struct bucket_pairs slot_of(const struct walk *walk)
{
    const struct pairs *pairs = walk->pairs;
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
        .scale = walk->scale,
        .weight = pairs->weight,
        .hash_bits = (unsigned)pairs->hash_bits,
        .far = !pairs->near,
    };
}

/* One bucket, the cheapest way for its weights and size. */
static void add_bucket(const struct walk *walk, int worker, uint64_t partners_key,
                       const struct bucket_pairs *slot)
{
    const struct pairs *pairs = walk->pairs;
    const struct dense_scratch *dense = &walk->work->dense[worker];
    const struct colliding_scratch *scratch = &walk->work->scratches[worker];
    if (pairs->max_partners > 0 && slot->num_keys > pairs->max_partners)
        colliding_sample(walk->kernels, &walk->colliding, scratch, slot, pairs->max_partners, partners_key,
                         pairs->once);
    else if (pairs->once)
        colliding_add(walk->kernels, &walk->colliding, scratch, slot);
    else if (pairs->visible != NULL)
        causal_pairs(walk->kernels, dense, slot, pairs->visible);
    else if (dense_is_cheaper(slot))
        dense_pairs(walk->kernels, dense, slot);
    else
        walk->kernels->pairs.bucket(slot);
}

/* Adds dX of the queries of each bucket to the sums of its keys. */
static void give(const struct walk *walk, const struct buckets *buckets, size_t first, size_t end)
{
    const struct pair_rows *queries = &walk->pairs->queries, *keys = &walk->pairs->keys;
    if (keys->sum == NULL)
        return;
    walk->kernels->pairs.bucket_sums(&(struct bucket_sums){
        .buckets = buckets->list + first,
        .count = end - first,
        .queries = buckets->queries,
        .keys = buckets->keys,
        .visible = walk->pairs->visible,
        .to_queries = false,
        .values = queries->value,
        .out = keys->sum,
        .ld_values = queries->ld,
        .ld_out = keys->ld,
        .dim = walk->pairs->value_dim,
    });
}

static void give_part(void *argument, const struct buckets *buckets, size_t hash, size_t first, size_t end,
                      int worker)
{
    (void)hash, (void)worker;
    give(argument, buckets, first, end);
}

static void walk_part(void *argument, const struct buckets *buckets, size_t hash, size_t first, size_t end,
                      int worker)
{
    const struct walk *walk = argument;
    const struct pairs *pairs = walk->pairs;
    uint64_t partners_key = random_key(pairs->partners_key, RANDOM_PARTNERS, hash);
    struct bucket_pairs slot = slot_of(walk);
    give(walk, buckets, first, end);
    slot.queries = buckets->queries;
    slot.keys = buckets->keys;
    for (const struct bucket *b = buckets->list + first, *last = buckets->list + end; b < last;) {
        const struct bucket *run = b;
        while (b < last && walk->plain && (b->num_queries <= walk->never || b->num_keys <= walk->never))
            b++;
        if (b > run)
            walk->kernels->pairs.bucket_list(&slot, run, (size_t)(b - run));
        if (b == last)
            return;
        struct bucket_pairs one = slot;
        one.queries += b->first_query;
        one.keys += b->first_key;
        one.num_queries = b->num_queries;
        one.num_keys = b->num_keys;
        add_bucket(walk, worker, partners_key, &one);
        b++;
    }
}

/* true if the hashes that count, judged by the first, have more pairs in buckets than the head has pairs. */
static bool all_is_cheaper(const struct pairs *pairs, struct bucket_walk *walk, const struct codes *queries,
                           const struct codes *keys, const struct hash_list *hashes)
{
    if (pairs->weight == PAIR_CONSTANT)
        return false;
    const struct buckets *buckets = bucket_walk_first(walk, queries, keys, hashes);
    double colliding = 0; /* products of sizes may exceed 2^64 */
    for (const struct bucket *b = buckets->list; b < buckets->list + buckets->count; b++) {
        size_t most =
            pairs->max_partners > 0 && pairs->max_partners < b->num_keys ? pairs->max_partners : b->num_keys;
        colliding += (double)b->num_queries * (double)most;
    }
    return colliding * (double)hashes->count > (double)queries->n * (double)keys->n;
}

/* Draws `count` of num_hashes hashes: each is taken with the probability of those still wanted among those
   that are left. */
void pairs_draw_hashes(uint32_t *hashes, size_t count, size_t num_hashes, uint64_t key)
{
    struct random random = random_open(random_key(key, RANDOM_HASHES, 0));
    size_t taken = 0;
    for (size_t h = 0; h < num_hashes; h++) {
        hashes[taken] = (uint32_t)h;
        taken += random_below(&random, (uint32_t)(num_hashes - h)) < count - taken;
    }
}

/* Unless `all`, each hash that a pair collides in adds 1 / c of it, so that it counts once. */
static void fill_of_count(float *of_count, size_t num_hashes, bool once, bool all)
{
    of_count[0] = 0;
    for (size_t c = 1; c <= num_hashes; c++)
        of_count[c] = all ? (once ? 1 : (float)c) : 1 / (float)c;
}

void pairs_add(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
               struct pair_work *work, const struct codes *queries, const struct codes *keys)
{
    size_t num_hashes = queries->num_hashes;
    bool some = pairs->gradient_hashes > 0 && pairs->gradient_hashes < num_hashes;
    assert(!some || (!pairs->once && !pairs->near));
    struct walk walk = {.kernels = kernels,
                        .pairs = pairs,
                        .work = work,
                        .colliding = {queries, keys, work->of_count, pairs->visible},
                        .plain = !pairs->once && pairs->visible == NULL && pairs->max_partners == 0,
                        .never = pairs->weight == PAIR_CONSTANT ? dense_never(pairs->dim, pairs->value_dim)
                                                                : SIZE_MAX,
                        .hashes = {NULL, num_hashes},
                        .scale = pairs->scale};
    if (some) {
        pairs_draw_hashes(work->hashes, pairs->gradient_hashes, num_hashes, pairs->hashes_key);
        walk.hashes = (struct hash_list){work->hashes, pairs->gradient_hashes};
    }
    bool all = all_is_cheaper(pairs, &work->walk, queries, keys, &walk.hashes);
    fill_of_count(work->of_count, num_hashes, pairs->once, all);
    if (all) {
        struct bucket_pairs slot = slot_of(&walk);
        if (pairs->keys.sum != NULL)
            bucket_walk_run(&work->walk, pool, bucket_walk_parts(pool), queries, keys, &walk.hashes,
                            give_part, &walk);
        colliding_add_all(kernels, pool, &walk.colliding, work->scratches, &slot);
        return;
    }
    walk.scale *= (float)num_hashes / (float)walk.hashes.count;
    bucket_walk_run(&work->walk, pool, bucket_walk_parts(pool), queries, keys, &walk.hashes, walk_part,
                    &walk);
}
