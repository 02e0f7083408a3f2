/* Two hashes at a time: one is visited while the next is found. SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/bucket_walk.h"

enum { PARTS = 4 }; /* per thread */

void bucket_walk_lay_out(struct bucket_walk *walk, struct arena *arena, const struct hashing *hashing,
                         size_t num_queries, size_t num_keys)
{
    code_columns_lay_out(&walk->query_columns, arena, hashing, num_queries);
    code_columns_lay_out(&walk->key_columns, arena, hashing, num_keys);
    for (size_t i = 0; i < 2; i++)
        buckets_lay_out(&walk->buckets[i], arena, hashing, num_queries, num_keys);
}

size_t bucket_walk_parts(const struct pool *pool)
{
    return pool_threads(pool) == 1 ? 1 : PARTS * (size_t)pool_threads(pool);
}

/* Called with hashes in order: the first of each CODE_COLUMNS transposes their codes. */
static void find(struct bucket_walk *walk, size_t hash)
{
    if (hash % CODE_COLUMNS == 0) {
        code_columns_take(&walk->query_columns, walk->queries, hash);
        code_columns_take(&walk->key_columns, walk->keys, hash);
    }
    buckets_find(&walk->buckets[hash % 2], &walk->query_columns, &walk->key_columns, hash);
}

const struct buckets *bucket_walk_first(struct bucket_walk *walk, const struct codes *queries,
                                        const struct codes *keys)
{
    walk->queries = queries;
    walk->keys = keys;
    find(walk, 0);
    return &walk->buckets[0];
}

struct run {
    struct bucket_walk *walk;
    void (*visit)(void *, const struct buckets *, size_t, size_t, size_t, int);
    void *argument;
    size_t hash, parts;
};

/* Index 0 finds the next hash's buckets; the other indices visit the parts of this one. */
static void visit_or_find(void *argument, size_t index, int worker)
{
    const struct run *run = argument;
    const struct buckets *buckets = &run->walk->buckets[run->hash % 2];
    size_t first, end;
    if (index > 0) {
        buckets_part(buckets, index - 1, run->parts, &first, &end);
        run->visit(run->argument, buckets, run->hash, first, end, worker);
    } else if (run->hash + 1 < run->walk->queries->num_hashes)
        find(run->walk, run->hash + 1);
}

void bucket_walk_run(struct bucket_walk *walk, struct pool *pool, size_t parts, const struct codes *queries,
                     const struct codes *keys,
                     void (*visit)(void *argument, const struct buckets *buckets, size_t hash, size_t first,
                                   size_t end, int worker),
                     void *argument)
{
    struct run run = {.walk = walk, .visit = visit, .argument = argument, .parts = parts};
    bucket_walk_first(walk, queries, keys);
    for (; run.hash < queries->num_hashes; run.hash++)
        pool_run(pool, visit_or_find, &run, 1 + parts);
}
