/* All pairs go through slot pairs.bucket in tiles of COLLIDING_TILE, with a tile of factors from slot
   colliding. colliding_add_all: queries of tile a and keys of tile b meet in round b - a, so the tiles of a
   round share no row and run in parallel, and every row meets its partners in the same order for any number
   of threads. Cost: as slot pairs.bucket, plus num_hashes / 32 vector comparisons per pair.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/colliding_pairs.h"

#include "base/random.h"

enum { TILE = COLLIDING_TILE };

void colliding_scratch_init(struct colliding_scratch *scratch, struct arena *arena)
{
    scratch->times = arena_take(arena, (size_t)TILE * TILE, sizeof *scratch->times);
    scratch->queries = arena_take(arena, TILE, sizeof *scratch->queries);
    scratch->keys = arena_take(arena, TILE, sizeof *scratch->keys);
}

size_t colliding_seen(const uint32_t *rows, size_t count, size_t limit)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds the pairs of a tile, with their factors: 0 if unseen. */
static void add_tile(const struct kernels *kernels, const struct colliding *colliding,
                     const struct colliding_scratch *scratch, struct bucket_pairs tile)
{
    const size_t *visible = colliding->visible;
    /* Rows rise: if the last query does not see the first key, none does. */
    if (visible != NULL && visible[tile.queries[tile.num_queries - 1]] <= tile.keys[0])
        return;
    kernels->pairs.equal_codes(scratch->times, TILE, colliding->queries->data, colliding->keys->data,
                               colliding->queries->wide, colliding->queries->num_hashes, colliding->of_count,
                               tile.queries, tile.num_queries, tile.keys, tile.num_keys);
    for (size_t i = 0; visible != NULL && i < tile.num_queries; i++)
        for (size_t j = colliding_seen(tile.keys, tile.num_keys, visible[tile.queries[i]]); j < tile.num_keys;
             j++)
            scratch->times[i * TILE + j] = 0;
    tile.times = scratch->times;
    tile.ld_times = TILE;
    kernels->pairs.bucket(&tile);
}

void colliding_add(const struct kernels *kernels, const struct colliding *colliding,
                   const struct colliding_scratch *scratch, const struct bucket_pairs *bucket)
{
    struct bucket_pairs tile = *bucket;
    for (size_t i = 0; i < bucket->num_queries; i += TILE) {
        tile.queries = bucket->queries + i;
        tile.num_queries = size_min(bucket->num_queries - i, TILE);
        for (size_t j = 0; j < bucket->num_keys; j += TILE) {
            tile.keys = bucket->keys + j;
            tile.num_keys = size_min(bucket->num_keys - j, TILE);
            add_tile(kernels, colliding, scratch, tile);
        }
    }
}

/* The t-th sampled partner of `count` has index (offset + t count) / most, with offset uniform in [0,
   count): each partner occurs in `most` of the count * most values of offset + t count. */
static size_t offset_of(uint64_t key, uint32_t query, size_t count)
{
    uint32_t words[4];
    random_words(key, query / 4, words);
    return (size_t)((uint64_t)words[query % 4] * count >> 32);
}

void colliding_sample(const struct kernels *kernels, const struct colliding *colliding,
                      const struct colliding_scratch *scratch, const struct bucket_pairs *bucket, size_t most,
                      uint64_t key, bool counted)
{
    for (size_t i = 0; i < bucket->num_queries; i++) {
        struct bucket_pairs each = *bucket;
        uint32_t query = bucket->queries[i];
        size_t count = bucket->num_keys;
        if (colliding->visible != NULL)
            count = colliding_seen(bucket->keys, count, colliding->visible[query]);
        size_t take = size_min(count, most), offset = take < count ? offset_of(key, query, count) : 0;
        each.queries = &query;
        each.num_queries = 1;
        each.keys = scratch->keys;
        if (take < count)
            each.scale *= (float)count / (float)take;
        for (size_t t = 0; t < take; t += TILE) {
            each.num_keys = size_min(take - t, TILE);
            for (size_t j = 0; j < each.num_keys; j++)
                scratch->keys[j] = bucket->keys[(offset + (t + j) * count) / take];
            if (counted)
                add_tile(kernels, colliding, scratch, each);
            else
                kernels->pairs.bucket(&each);
        }
    }
}

/* One round of colliding_add_all. */
struct round {
    const struct kernels *kernels;
    const struct colliding *colliding;
    const struct colliding_scratch *scratches;
    const struct bucket_pairs *bucket;
    size_t round, tiles;
};

static size_t name_rows(uint32_t *rows, size_t first, size_t n)
{
    size_t count = size_min(n - first, TILE);
    for (size_t i = 0; i < count; i++)
        rows[i] = (uint32_t)(first + i);
    return count;
}

static void add_own_tile(void *argument, size_t index, int worker)
{
    const struct round *round = argument;
    const struct colliding_scratch *scratch = &round->scratches[worker];
    size_t first_query = index * TILE, first_key = (index + round->round) % round->tiles * TILE;
    size_t n_q = round->colliding->queries->n, n_k = round->colliding->keys->n;
    if (first_query >= n_q || first_key >= n_k)
        return;
    struct bucket_pairs tile = *round->bucket;
    tile.num_queries = name_rows(scratch->queries, first_query, n_q);
    tile.num_keys = name_rows(scratch->keys, first_key, n_k);
    tile.queries = scratch->queries;
    tile.keys = scratch->keys;
    add_tile(round->kernels, round->colliding, scratch, tile);
}

void colliding_add_all(const struct kernels *kernels, struct pool *pool, const struct colliding *colliding,
                       const struct colliding_scratch *scratches, const struct bucket_pairs *bucket)
{
    size_t most = colliding->queries->n > colliding->keys->n ? colliding->queries->n : colliding->keys->n;
    struct round round = {.kernels = kernels,
                          .colliding = colliding,
                          .scratches = scratches,
                          .bucket = bucket,
                          .tiles = (most + TILE - 1) / TILE};
    for (; round.round < round.tiles; round.round++)
        pool_run(pool, add_own_tile, &round, round.tiles);
}
