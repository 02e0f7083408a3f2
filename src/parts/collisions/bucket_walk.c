/* Two hashes at a time: one is visited while the next is found.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/bucket_walk.h"

enum { PARTS = 4 }; /* per thread */

void bucket_walk_init(struct bucket_walk *walk, struct arena *arena, const struct hashing *hashing,
                      size_t num_queries, size_t num_keys)
{
    code_columns_init(&walk->query_columns, arena, hashing, num_queries);
    code_columns_init(&walk->key_columns, arena, hashing, num_keys);
    for (size_t i = 0; i < 2; i++)
        buckets_init(&walk->buckets[i], arena, hashing, num_queries, num_keys);
}

size_t bucket_walk_parts(const struct pool *pool)
{
    return pool_threads(pool) == 1 ? 1 : PARTS * (size_t)pool_threads(pool);
}

static size_t hash_at(const struct hash_list *list, size_t index)
{
    return list->hashes == NULL ? index : list->hashes[index];
}

/* Finds the buckets of the index'th hash of the list. Called with indices in order: the first hash of each
   CODE_COLUMNS transposes their codes. */
static void find(struct bucket_walk *walk, size_t index)
{
    size_t hash = hash_at(walk->list, index), columns = hash - hash % CODE_COLUMNS;
    if (index == 0 || columns != walk->query_columns.first) {
        code_columns_take(&walk->query_columns, walk->queries, columns);
        code_columns_take(&walk->key_columns, walk->keys, columns);
    }
    buckets_find(&walk->buckets[index % 2], &walk->query_columns, &walk->key_columns, hash);
}

const struct buckets *bucket_walk_first(struct bucket_walk *walk, const struct codes *queries,
                                        const struct codes *keys, const struct hash_list *list)
{
    walk->queries = queries;
    walk->keys = keys;
    walk->list = list;
    find(walk, 0);
    return &walk->buckets[0];
}

struct run {
    struct bucket_walk *walk;
    void (*visit)(void *, const struct buckets *, size_t, size_t, size_t, int);
    void *argument;
    size_t at, parts; /* at: index of the hash in the list */
};

/* Index 0 finds the next hash's buckets; the other indices visit the parts of this one. */
static void visit_or_find(void *argument, size_t index, int worker)
{
    const struct run *run = argument;
    const struct hash_list *list = run->walk->list;
    const struct buckets *buckets = &run->walk->buckets[run->at % 2];
    size_t first, end;
    if (index > 0) {
        buckets_part(buckets, index - 1, run->parts, &first, &end);
        run->visit(run->argument, buckets, hash_at(list, run->at), first, end, worker);
    } else if (run->at + 1 < list->count)
        find(run->walk, run->at + 1);
}

void bucket_walk_run(struct bucket_walk *walk, struct pool *pool, size_t parts, const struct codes *queries,
                     const struct codes *keys, const struct hash_list *list,
                     void (*visit)(void *argument, const struct buckets *buckets, size_t hash, size_t first,
                                   size_t end, int worker),
                     void *argument)
{
    struct run run = {.walk = walk, .visit = visit, .argument = argument, .parts = parts};
    bucket_walk_first(walk, queries, keys, list);
    for (; run.at < list->count; run.at++)
        pool_run(pool, visit_or_find, &run, 1 + parts);
}
