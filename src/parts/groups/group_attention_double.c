/* See the header.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/group_attention_double.h"

#include "parts/tiles/double_attention.h"

/* The places of each query, and the memory of double_attention.h. */
struct memory {
    const struct group_attention *attention;
    struct places places; /* of queries */
    void *rest;
    size_t bytes;
};

static struct memory memory_on(const struct group_sizes *sizes, void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.places = places_take(&arena, sizes->num_queries, sizes->query_places);
    const struct problem_shape shape = {
        .head_dim = sizes->dim, .value_dim = sizes->value_dim, .workers = sizes->workers};
    memory.rest = arena_take(&arena, double_attention_size(&shape), 1);
    memory.bytes = arena.used;
    return memory;
}

/* The keys that a query meets at one of its places. */
static bool run_of_place(const void *argument, size_t query, size_t number, struct key_run *run)
{
    const struct memory *memory = argument;
    const struct group_attention *a = memory->attention;
    const uint32_t *start = memory->places.start + query, *first = a->queries.start;
    if (number >= start[1] - start[0])
        return false;
    size_t place = memory->places.place[start[0] + number], group = 0;
    while (first[group + 1] <= place)
        group++;
    struct seen seen = group_seen(a->sight, &a->window, a->queries.list + first[group], place - first[group],
                                  members_of(&a->keys, group));
    *run = (struct key_run){.list = a->keys.list + a->keys.start[group] + seen.first,
                            .count = seen.end - seen.first};
    return true;
}

/* The list of keys of the group that holds `place`, and their number. */
static const uint32_t *keys_at(const struct group_attention *a, size_t place, size_t *count)
{
    size_t group = 0;
    while (a->queries.start[group + 1] <= place)
        group++;
    *count = members_of(&a->keys, group);
    return a->keys.list + a->keys.start[group];
}

/* The same for sights by token: a run per key, of no or one key, and a last one for the query's own key. */
static bool run_of_key(const void *argument, size_t query, size_t number, struct key_run *run)
{
    const struct memory *memory = argument;
    const struct group_attention *a = memory->attention;
    bool met = false;
    for (size_t p = memory->places.start[query]; p < memory->places.start[query + 1]; p++) {
        size_t count;
        const uint32_t *keys = keys_at(a, memory->places.place[p], &count);
        if (number < count) {
            *run =
                (struct key_run){keys + number, 0, sight_meets(a->sight, (uint32_t)query, keys[number]), 1};
            return true;
        }
        number -= count;
        for (size_t k = 0; k < count; k++)
            met |= sight_meets(a->sight, (uint32_t)query, keys[k]);
    }
    *run = (struct key_run){NULL, query, !met, 1};
    return number == 0;
}

static struct problem problem_of(const struct group_attention *a)
{
    const struct group_sizes *sizes = &a->sizes;
    return (struct problem){.kernels = a->kernels,
                            .shape = {.num_queries = sizes->num_queries,
                                      .num_keys = sizes->num_keys,
                                      .head_dim = sizes->dim,
                                      .value_dim = sizes->value_dim,
                                      .workers = sizes->workers},
                            .query = a->query,
                            .key = a->key,
                            .value = a->value,
                            .pool = a->pool};
}

static struct double_attention as_double(const struct group_attention *a, const struct memory *memory)
{
    return (struct double_attention){.most = size_sum(a->sizes.query_places, a->sizes.key_places),
                                     .norm = a->sizes.norm,
                                     .run = sight_is_by_token(a->sight) ? run_of_key : run_of_place,
                                     .argument = memory};
}

size_t group_in_double_size(const struct group_sizes *sizes)
{
    return memory_on(sizes, NULL).bytes;
}

bool group_forward_in_double(const struct group_attention *attention, struct view out, void *scratch)
{
    struct memory memory = memory_on(&attention->sizes, scratch);
    struct double_attention twin = as_double(attention, &memory);
    struct problem problem = problem_of(attention);
    bool overflows = attention->large && double_is_needed(&problem, &twin, NULL);
    softmax_rows_mark(&attention->rows, overflows);
    if (!overflows)
        return false;
    memory.attention = attention;
    places_find(&memory.places, &attention->queries, attention->sizes.num_queries);
    double_forward(&problem, &twin, out, memory.rest);
    return true;
}

bool group_backward_in_double(const struct group_attention *attention, struct view dout,
                              const struct problem_gradients *gradients, void *scratch)
{
    struct memory memory = memory_on(&attention->sizes, scratch);
    struct double_attention twin = as_double(attention, &memory);
    struct problem problem = problem_of(attention);
    if (!softmax_rows_in_double(&attention->rows) &&
        !(attention->large && double_is_needed(&problem, &twin, &dout)))
        return false;
    memory.attention = attention;
    places_find(&memory.places, &attention->queries, attention->sizes.num_queries);
    double_backward(&problem, &twin, dout, gradients, memory.rest);
    return true;
}
