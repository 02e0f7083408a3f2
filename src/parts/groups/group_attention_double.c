/* A run of keys per place of a query, or per key.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/groups/group_attention_double.h"

#include "parts/tiles/double_attention.h"

/* The places of each query, and the memory of double_attention.h. */
struct memory {
    const struct group_lists *lists;
    struct places places; /* of queries */
    void *rest;
    size_t bytes;
};

static struct memory memory_on(const struct problem_shape *shape, const struct group_sizes *sizes,
                               void *block)
{
    struct memory memory;
    struct arena arena = arena_on(block);
    memory.places = places_take(&arena, shape->num_queries, sizes->query_places);
    memory.rest = arena_take(&arena, double_attention_size(shape), 1);
    memory.bytes = arena.used;
    return memory;
}

/* The keys that a query meets at one of its places. */
static bool run_of_place(const void *argument, size_t query, size_t number, struct key_run *run)
{
    const struct memory *memory = argument;
    const struct group_lists *lists = memory->lists;
    const uint32_t *start = memory->places.start + query, *first = lists->queries.start;
    if (number >= start[1] - start[0])
        return false;
    size_t place = memory->places.place[start[0] + number], group = 0;
    while (first[group + 1] <= place)
        group++;
    struct seen seen = group_seen(lists->sight, &lists->window, lists->queries.list + first[group],
                                  place - first[group], members_of(&lists->keys, group));
    *run = (struct key_run){.list = lists->keys.list + lists->keys.start[group] + seen.first,
                            .count = seen.end - seen.first};
    return true;
}

/* The list of keys of the group that holds `place`, and their number. */
static const uint32_t *keys_at(const struct group_lists *lists, size_t place, size_t *count)
{
    size_t group = 0;
    while (lists->queries.start[group + 1] <= place)
        group++;
    *count = members_of(&lists->keys, group);
    return lists->keys.list + lists->keys.start[group];
}

/* The same for sights by token: a run per key, of no or one key, and a last one for the query's own key. */
static bool run_of_key(const void *argument, size_t query, size_t number, struct key_run *run)
{
    const struct memory *memory = argument;
    const struct group_lists *lists = memory->lists;
    bool any = false;
    for (size_t p = memory->places.start[query]; p < memory->places.start[query + 1]; p++) {
        size_t count;
        const uint32_t *keys = keys_at(lists, memory->places.place[p], &count);
        if (number < count) {
            *run = (struct key_run){keys + number, 0, sight_sees(lists->sight, (uint32_t)query, keys[number]),
                                    1};
            return true;
        }
        number -= count;
        for (size_t k = 0; k < count; k++)
            any |= sight_sees(lists->sight, (uint32_t)query, keys[k]);
    }
    *run = (struct key_run){NULL, query, !any, 1};
    return number == 0;
}

static struct double_attention as_double(const struct group_lists *lists, const struct memory *memory)
{
    return (struct double_attention){.most = size_sum(lists->sizes.query_places, lists->sizes.key_places),
                                     .norm = lists->sizes.norm,
                                     .run = sight_is_by_token(lists->sight) ? run_of_key : run_of_place,
                                     .argument = memory};
}

size_t group_in_double_size(const struct problem_shape *shape, const struct group_sizes *sizes)
{
    return memory_on(shape, sizes, NULL).bytes;
}

bool group_forward_in_double(const struct problem *problem, const struct group_lists *lists, struct view out,
                             void *scratch)
{
    struct memory memory = memory_on(&problem->shape, &lists->sizes, scratch);
    struct double_attention twin = as_double(lists, &memory);
    bool overflows = problem->large && double_is_needed(problem, &twin, NULL);
    softmax_rows_mark(&lists->rows, overflows);
    if (!overflows)
        return false;
    memory.lists = lists;
    places_find(&memory.places, &lists->queries, problem->shape.num_queries);
    double_forward(problem, &twin, out, memory.rest);
    return true;
}

bool group_backward_in_double(const struct problem *problem, const struct group_lists *lists,
                              struct view dout, const struct problem_gradients *gradients, void *scratch)
{
    struct memory memory = memory_on(&problem->shape, &lists->sizes, scratch);
    struct double_attention twin = as_double(lists, &memory);
    if (!softmax_rows_in_double(&lists->rows) && !(problem->large && double_is_needed(problem, &twin, &dout)))
        return false;
    memory.lists = lists;
    places_find(&memory.places, &lists->queries, problem->shape.num_queries);
    double_backward(problem, &twin, dout, gradients, memory.rest);
    return true;
}
