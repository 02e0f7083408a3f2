/* Sort, walk, and the cheaper of two ways for each bucket: cost in buckets.c and crowd.c. Where buckets hold
   about a row, what each costs is most of it, and lists of meetings take a third of the time: per row and
   hash about 5 nanoseconds a side, and for a pair 2 (d_v + d) operations a side. Lists were tried for denser
   buckets too, with each pair once: at n 4096, tau 9 blocks of 8 x 8 pairs are faster by half even though
   their rows come from the third cache, for lists have the rows in the first but no reuse of registers.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/pairs.h"

#include <string.h>

#include "base/random.h"

#include "parts/causal_pairs.h"

enum {
    LINE = 16,       /* floats of a cache line */
    FETCH_MOST = 64, /* rows: more would push out what they are fetched for */
    PARTS = 4,       /* of the buckets of a hash, for each thread: they are not equally dear */
};

/* Meetings of a row in one hash below which lists are cheaper. Measured against buckets and tables together,
   on codes drawn uniformly, m 32: at d 32, tau 11 and 0.26, 0.5, 1.0 meetings (n 500, 1000, 2000) 0.38, 0.37
   and 0.46 of their time, at d 64, tau 9 and 0.5, 1.0, 2.0 (n 256, 512, 1024) 0.31, 0.39 and 0.78. Codes of a
   trained model crowd more, and gain less. */
#define LIST_DENSITY 1.5

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
                       size_t dim, size_t value_dim, size_t num_hashes, size_t workers)
{
    buckets_lay_out(&work->buckets[0], arena, num_queries, num_keys);
    buckets_lay_out(&work->buckets[1], arena, num_queries, num_keys);
    work->of_count = arena_take(arena, size_sum(num_hashes, 1), sizeof *work->of_count);
    work->crowds = arena_take(arena, workers, sizeof *work->crowds);
    work->spaces = arena_take(arena, workers, sizeof *work->spaces);
    work->ld_sums = unit_padded(value_dim);
    work->sums = arena_take(arena, workers, size_product(work->ld_sums, sizeof *work->sums));
    for (size_t worker = 0; worker < workers; worker++) {
        struct crowd crowd;
        struct meeting_space space;
        crowd_lay_out(&crowd, arena, dim, value_dim);
        meeting_space_lay_out(&space, arena);
        if (work->crowds == NULL)
            continue;
        work->crowds[worker] = crowd;
        work->spaces[worker] = space;
    }
}

/* One hash: its buckets in `parts` pieces, while the next hash is sorted. */
struct walk {
    const struct kernels *kernels;
    const struct pairs *pairs;
    struct pair_work *work;
    const struct codes *queries, *keys;
    struct meetings meetings;
    size_t hash, parts;
    uint64_t partners_key; /* of this hash */
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
        .weight = pairs->weight,
        .hash_bits = (unsigned)pairs->hash_bits,
    };
}

/* One bucket, the way that its weights and its size ask for. */
static void add_bucket(const struct walk *walk, int worker, const struct bucket_pairs *slot)
{
    const struct pairs *pairs = walk->pairs;
    const struct crowd *crowd = &walk->work->crowds[worker];
    const struct meeting_space *space = &walk->work->spaces[worker];
    if (pairs->max_partners > 0 && slot->num_keys > pairs->max_partners)
        meetings_sample(walk->kernels, &walk->meetings, space, slot, pairs->max_partners, walk->partners_key,
                        pairs->once);
    else if (pairs->once)
        meetings_add(walk->kernels, &walk->meetings, space, slot);
    else if (pairs->visible != NULL)
        causal_pairs(walk->kernels, crowd, slot, pairs->visible);
    else if (crowd_is_cheaper(slot))
        crowd_pairs(walk->kernels, crowd, slot);
    else
        walk->kernels->bucket_pairs(slot);
}

/* The buckets whose queries begin in [first, end) of the sorted list. */
static void walk_part(const struct walk *walk, int worker, size_t first, size_t end)
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
        add_bucket(walk, worker, &slot);
    }
}

/* Index 0 sorts the next hash, the others are the pieces of this one. */
static void walk_or_sort(void *argument, size_t index, int worker)
{
    const struct walk *walk = argument;
    size_t next = walk->hash + 1, n = walk->queries->n;
    if (index > 0)
        walk_part(walk, worker, n * (index - 1) / walk->parts, n * index / walk->parts);
    else if (next < walk->queries->num_hashes)
        buckets_sort(&walk->work->buckets[next % 2], walk->queries, walk->keys, next, walk->pairs->hash_bits);
}

/* Whether the buckets of the sorted hash, taken for each, have more pairs than the head. */
static bool all_is_cheaper(const struct pairs *pairs, const struct buckets *buckets, size_t num_hashes)
{
    double met = 0; /* products of sizes may pass 2^64 */
    struct bucket bucket = {0};
    while (buckets_next(buckets, &bucket)) {
        size_t most = pairs->max_partners > 0 && pairs->max_partners < bucket.num_keys ? pairs->max_partners
                                                                                       : bucket.num_keys;
        met += (double)bucket.num_queries * (double)most;
    }
    return pairs->weight != PAIR_CONSTANT &&
           met * (double)num_hashes > (double)buckets->queries.n * (double)buckets->keys.n;
}

/* The hashes that share a pair share it out, so that it counts once. */
static void fill_of_count(float *of_count, size_t num_hashes, bool once, bool all)
{
    of_count[0] = 0;
    for (size_t c = 1; c <= num_hashes; c++)
        of_count[c] = all ? (once ? 1 : (float)c) : 1 / (float)c;
}

/* ---- where few rows meet ------------------------------------------------------------------------------- */

bool pairs_are_few(const struct pairs *pairs, const struct codes *queries, const struct codes *keys)
{
    return pairs->weight == PAIR_CONSTANT && pairs->visible == NULL &&
           meeting_lists_density(pairs->lists, queries, keys) < LIST_DENSITY;
}

/* One side of the pairs: whose gradients are added up, and whom its rows meet. */
struct listing {
    const struct kernels *kernels;
    const struct pairs *pairs;
    const struct pair_rows *own, *others;
    const struct pair_work *work;
    float *dvalue; /* of the keys; NULL: of the queries */
    size_t ld_dvalue;
    float value_scale;
};

static void add_list(void *argument, size_t row, const uint32_t *list, size_t count, int worker)
{
    const struct listing *listing = argument;
    const struct pairs *pairs = listing->pairs;
    const struct pair_rows *own = listing->own, *others = listing->others;
    bool of_keys = listing->dvalue != NULL;
    listing->kernels->list_pairs(&(struct list_pairs){
        .value = own->value + row * own->ld,
        .units = others->unit,
        .values = others->value,
        .gradient = own->gradient + row * own->ld,
        .list = list,
        .count = count,
        .ld = others->ld,
        .dim = pairs->dim,
        .value_dim = pairs->value_dim,
        .bias = pairs->bias == NULL || of_keys ? 0 : pairs->bias[row],
        .scale = pairs->scale,
        .biases = of_keys ? pairs->bias : NULL,
    });
    if (!of_keys)
        return;
    float *sum = listing->work->sums + (size_t)worker * listing->work->ld_sums;
    memset(sum, 0, pairs->value_dim * sizeof *sum);
    listing->kernels->list_add(sum, others->value, others->ld, list, count, pairs->value_dim);
    listing->kernels->axpy(listing->dvalue + row * listing->ld_dvalue, listing->value_scale, sum,
                           pairs->value_dim);
}

/* Each side looks for its own partners, which makes every score twice: but no thread writes where another
   does, and scores are a small part of a list's cost. */
void pairs_list(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
                struct pair_work *work, const struct codes *queries, const struct codes *keys, float *dvalue,
                size_t ld_dvalue, float value_scale)
{
    struct listing of_keys = {kernels, pairs,  &pairs->keys, &pairs->queries,
                              work,    dvalue, ld_dvalue,    value_scale};
    struct listing of_queries = {kernels, pairs, &pairs->queries, &pairs->keys, work, NULL, 0, 0};
    meeting_lists_make(pairs->lists, pool, queries);
    meeting_lists_walk(pairs->lists, pool, keys, add_list, &of_keys);
    meeting_lists_make(pairs->lists, pool, keys);
    meeting_lists_walk(pairs->lists, pool, queries, add_list, &of_queries);
}

/* ---- bucket by bucket ---------------------------------------------------------------------------------- */

void pairs_add(const struct kernels *kernels, struct pool *pool, const struct pairs *pairs,
               struct pair_work *work, const struct codes *queries, const struct codes *keys)
{
    struct walk walk = {.kernels = kernels,
                        .pairs = pairs,
                        .work = work,
                        .queries = queries,
                        .keys = keys,
                        .meetings = {queries, keys, work->of_count, pairs->visible},
                        .parts = pool == NULL ? 1 : PARTS * (size_t)pool_threads(pool)};
    buckets_sort(&work->buckets[0], queries, keys, 0, pairs->hash_bits);
    bool all = all_is_cheaper(pairs, &work->buckets[0], queries->num_hashes);
    fill_of_count(work->of_count, queries->num_hashes, pairs->once, all);
    if (all) {
        struct bucket_pairs slot = slot_of(pairs);
        meetings_add_all(kernels, pool, &walk.meetings, work->spaces, &slot);
        return;
    }
    for (; walk.hash < queries->num_hashes; walk.hash++) {
        walk.partners_key = random_key(pairs->partners_key, RANDOM_PARTNERS, walk.hash);
        pool_run(pool, walk_or_sort, &walk, 1 + walk.parts);
    }
}
